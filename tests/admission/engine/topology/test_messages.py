"""The words of failed placements are in one module."""

from __future__ import annotations

import ast
from pathlib import Path

TOPOLOGY = Path(__file__).resolve().parents[4] / "admission" / "engine" / "topology"


def test_no_placement_fails_in_words_of_another_module() -> None:
    words = [
        (str(file.relative_to(TOPOLOGY)), ast.unparse(text))
        for file in sorted(TOPOLOGY.rglob("*.py"))
        if "NoPlacement(" in file.read_text()
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "NoPlacement" and call.args
        for text in ast.walk(call.args[0])
        if (isinstance(text, ast.Constant) and isinstance(text.value, str)) or isinstance(text, ast.JoinedStr)
        if file.name != "messages.py"
    ]
    assert words == []
