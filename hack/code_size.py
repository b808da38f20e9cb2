"""Prints files, lines, lengths of functions and modules per package of the product: `python -m hack.code_size [FOLDER]`.

A function's length counts its lines from `def` to its end, with docstring.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Final

_PRODUCT: Final = ("admission", "api", "ungater")


def main(folder: Path) -> None:
    """Prints the figures of the checkout in `folder`."""
    files = sorted(path for name in _PRODUCT for path in (folder / name).rglob("*.py"))
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in files}
    functions = {
        f"{path.relative_to(folder)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    packages = Counter(path.parent for path in files if path.name != "__init__.py")
    longest, largest = max(functions, key=functions.__getitem__), max(files, key=lines.__getitem__)
    fullest = max(packages, key=packages.__getitem__)
    print(
        f"{len(files)} files, {sum(lines.values())} lines, the longest {lines[largest]} ({largest.relative_to(folder)})"
    )
    print(
        f"{len(functions)} functions, median {median(functions.values()):g} lines, the longest {functions[longest]} ({longest})"
    )
    print(f"{len(packages)} packages, {median(packages.values()):g} modules in the median, at most {packages[fullest]} "
          f"({fullest.relative_to(folder)})")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
