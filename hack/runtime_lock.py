"""`python -m hack.runtime_lock requirements.lock`: the part of the lock that the three processes need, on stdout.

Reads what the installed `stowage` asks for, and their requirements in turn, without extras that are not requested.
The image is built from it, so that it holds no test tools. Run where the whole lock is installed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==")


def closure(project: str) -> set[str]:
    """Names of all packages that it needs, without itself. Raises PackageNotFoundError where one is not installed."""
    found: set[tuple[str, str]] = set()
    todo = [(project, "")]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += _needs(*one)
    return {name for name, _ in found} - {project}


def _needs(name: str, extra: str) -> Iterator[tuple[str, str]]:
    """(package, extra) of every requirement that holds here when `name[extra]` was asked for."""
    for line in requires(name) or ():
        need = Requirement(line)
        if need.marker is None or need.marker.evaluate({"extra": extra}):
            for wanted in ("", *need.extras):
                yield canonicalize_name(need.name), wanted


def entries(lock: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(package, its lines) for each entry of a lock with hashes."""
    name, lines = "", [""]
    for line in lock:
        pinned = _PINNED.match(line)
        if pinned:
            if name:
                yield name, "".join(lines)
            name, lines = canonicalize_name(pinned[1]), []
        lines.append(line)
    if name:
        yield name, "".join(lines)


def main(path: str) -> None:
    """Print the entries of those that are needed."""
    needed = closure("stowage")
    with Path(path).open() as lock:
        sys.stdout.writelines(text for name, text in entries(lock) if name in needed)


if __name__ == "__main__":
    main(sys.argv[1])
