"""Metrics are declared in one place of each process's packages, and no two of them have one name."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "admission" / "metrics"
OWN = {PROJECT / "ungater" / "metrics.py", PROJECT / "api" / "kube" / "metrics.py"}
"""The ungater and the client know nothing of admission/; each has one module."""
METRICS = {"Counter", "Gauge", "Histogram", "owned"}


def declared(file: Path) -> Iterator[str]:
    """The names that the module gives to metrics which it makes."""
    text = file.read_text()
    if "prometheus_client" not in text and "owned_series" not in text:
        return
    for node in ast.parse(text).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=made)))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Name(id=made)))
            ) if made in METRICS:
                yield name


def test_metrics_are_declared_in_one_place() -> None:
    files = [file for top in ("admission", "api", "ungater") for file in (PROJECT / top).rglob("*.py")]
    declaring = {file for file in files if any(declared(file))}
    assert declaring > OWN
    assert [file for file in declaring if file.parent != PACKAGE and file not in OWN] == []


def test_no_two_metrics_have_one_name() -> None:
    """`ADMITTED` was in two modules, of which one counted by ClusterQueue and the other by LocalQueue."""
    names = Counter(
        name.id
        for file in PACKAGE.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name) and not name.id.startswith("_")
    )
    assert len(names) > 60
    assert [name for name, times in names.items() if times > 1] == []
