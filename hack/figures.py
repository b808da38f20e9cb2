"""`python -m hack.figures [REVISION...]`: prints the size of the product at each revision as a Markdown table.

Counts lines, functions and modules per package in the Python files of admission, api and ungater that Git tracks.
docs/architecture.md has the table of two revisions.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from statistics import mean, median
from typing import Final

_PROJECT: Final = Path(__file__).resolve().parents[1]
_PRODUCT: Final = ("admission", "api", "ungater")


def sources(revision: str) -> dict[str, str]:
    """Returns the text of the product's modules at a revision, by path. Raises CalledProcessError for an unknown revision."""
    listed = _git("ls-tree", "-r", "--name-only", revision, *_PRODUCT).splitlines()
    return {path: _git("show", f"{revision}:{path}") for path in listed if path.endswith(".py")}


def _git(*command: str) -> str:
    return subprocess.run(("git", *command), cwd=_PROJECT, check=True, capture_output=True, text=True).stdout


def function_lengths(texts: Iterable[str]) -> Iterator[int]:
    """Yields the number of lines of each function and method, without decorators."""
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
                yield node.end_lineno - node.lineno + 1


def figures(texts: dict[str, str]) -> dict[str, str]:
    """Returns the rows of the table by name."""
    lengths = list(function_lengths(texts.values()))
    packages = Counter(PurePosixPath(path).parent for path in texts if not path.endswith("__init__.py"))
    lines = {path: text.count("\n") for path, text in texts.items()}
    return {
        "files": f"{len(texts):,}",
        "lines": f"{sum(lines.values()):,}",
        "functions": f"{len(lengths):,}",
        "lines of a function, median": f"{median(lengths):g}",
        "lines of the longest function": f"{max(lengths)}",
        "lines of the longest module": f"{max(lines.values())}",
        "modules of more than 400 lines": f"{sum(count > 400 for count in lines.values())}",
        "modules per package, mean": f"{mean(packages.values()):.1f}",
        "modules of the largest package": f"{max(packages.values())}",
    }


def table(revisions: list[str]) -> str:
    """Returns the table with a column for each revision."""
    columns = [figures(sources(revision)) for revision in revisions]
    rows = [["", *revisions], ["---"] * (len(revisions) + 1)]
    rows += [[name, *(column[name] for column in columns)] for name in columns[0]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    print(table(sys.argv[1:] or ["HEAD"]))
