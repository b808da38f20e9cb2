"""docs/architecture.md names files, classes and functions that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
PAGE = (PROJECT / "docs" / "architecture.md").read_text()
NAMES = sorted(
    word
    for word in set(re.findall("`([^`\\n]+)`", PAGE))
    if re.fullmatch(r"_?[A-Za-z]\w*(\.\w+)?", word) and not word.endswith((".py", ".toml"))
)
PLACED = re.findall(r"`([\w.]+)`\s+\(`([\w/]+\.py)`", PAGE)
"""Names with the file in which the page says that they are."""
OTHER_WORDS = {"api", "explain", "simulate", "snapshot", "docs", "none"}


def defined(tree: ast.Module) -> set[str]:
    """The classes and functions of a module, methods both with and without their class."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
            found |= methods | {f"{node.name}.{method}" for method in methods}
    return found


@cache
def everything() -> frozenset[str]:
    """All that the product defines."""
    files = [file for top in ("admission", "api", "ungater") for file in (PROJECT / top).rglob("*.py")]
    return frozenset(name for file in files for name in defined(ast.parse(file.read_text())))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHER_WORDS])
def test_named_function_exists(name: str) -> None:
    assert name in everything()


@pytest.mark.parametrize(("name", "file"), PLACED)
def test_named_function_is_in_its_file(name: str, file: str) -> None:
    assert name in defined(ast.parse((PROJECT / file).read_text()))
