"""The wiring of the controller process is seen by the types: what a part needs, its constructor takes."""

from __future__ import annotations

import ast
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def test_the_wiring_sets_no_attributes_of_parts() -> None:
    """An attribute that is assigned later is optional for a type checker, and nobody notices that it is missing."""
    tree = ast.parse((PROJECT / "admission" / "assembly.py").read_text())
    assigned = [
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute)
    ]
    assert assigned == []
