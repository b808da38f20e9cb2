"""`python -m hack.runtime_lock requirements.lock`: prints the part of the lock that the processes in the image need.

Follows the requirements of the installed `stowage` with the extras in EXTRAS, and no others that nothing requests. The image
is built from the result, so that it contains no test tools. Run it where the whole lock is installed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("mcp",)
"""Those that the image has: the dashboard serves MCP."""
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==")


def closure(project: str) -> set[str]:
    """Returns the names of all required packages without `project`. Raises PackageNotFoundError if one is not installed."""
    found: set[tuple[str, str]] = set()
    todo = [(project, extra) for extra in ("", *EXTRAS)]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += _needs(*one)
    return {name for name, _ in found} - {project}


def _needs(name: str, extra: str) -> Iterator[tuple[str, str]]:
    """Yields (package, extra) for each requirement of `name[extra]` that applies here."""
    for line in requires(name) or ():
        need = Requirement(line)
        if need.marker is None or need.marker.evaluate({"extra": extra}):
            for wanted in ("", *need.extras):
                yield canonicalize_name(need.name), wanted


def entries(lock: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields (package, its lines) for each entry of a lock with hashes."""
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
    """Prints the required entries of the lock at `path`."""
    needed = closure("stowage")
    with Path(path).open() as lock:
        sys.stdout.writelines(text for name, text in entries(lock) if name in needed)


if __name__ == "__main__":
    main(sys.argv[1])
