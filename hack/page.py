"""`python -m hack.page [--check]`: records the sources of the built page, or reports that it is older than these (exit code 1).

`make page` builds the page of the dashboard with Node. Its files are in the repository and in the wheel, so that nobody else
needs Node. The check compares hashes alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

FOLDER: Final = Path(__file__).resolve().parents[1] / "admission" / "dashboard"
RECORD: Final = "built.json"
_NOT_SOURCES: Final = ("node_modules", "README.md")


def problems(folder: Path = FOLDER) -> Iterator[str]:
    """Yields what is wrong with the built page: older than its sources, changed by hand, or a lock with addresses."""
    record = folder / "static" / RECORD
    if not record.is_file():
        yield f"{record.name} is missing"
        return
    recorded: dict[str, str] = json.loads(record.read_text())
    for name, hashed in hashes(folder).items():
        if recorded.get(name) != hashed:
            yield {
                "sources": "the page's sources changed after it was built",
                "built": "the built page was changed by hand",
            }[name]
    lock: dict[str, Any] = json.loads((folder / "page" / "package-lock.json").read_text())
    if any("resolved" in package for package in lock["packages"].values()):
        yield "package-lock.json names a registry's addresses: npm install --omit-lockfile-registry-resolved"


def hashes(folder: Path = FOLDER) -> dict[str, str]:
    """Returns one hash of all sources, and one of all built files."""
    return {"sources": _hash(folder / "page", _NOT_SOURCES), "built": _hash(folder / "static", (RECORD,))}


def _hash(folder: Path, without: tuple[str, ...]) -> str:
    found = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder)
        if name.parts[0] not in without:
            found.update(f"{name.as_posix()}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def main(check: Annotated[bool, typer.Option(help="Only report.")] = False) -> None:
    """Records the hashes, or with --check compares them."""
    if not check:
        (FOLDER / "static" / RECORD).write_text(json.dumps(hashes(), indent=1) + "\n")
        return
    found = list(problems())
    for problem in found:
        typer.echo(f"admission/dashboard: {problem}; make page", err=True)
    if found:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
