"""docs/architecture.md names files, classes and functions that exist, the rooms as they are, and limits that hold."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType

import pytest

from admission.engine.decide import decide
from admission.engine.model import Flavor, PreemptionPolicy
from tests.admission.engine.builders import Cluster, queue, workload

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
def modules() -> dict[Path, tuple[int, ast.Module]]:
    """The lines and the tree of each module of the product."""
    files = [file for top in ("admission", "api", "ungater") for file in (PROJECT / top).rglob("*.py")]
    texts = {file: file.read_text() for file in files}
    return {file: (len(text.splitlines()), ast.parse(text)) for file, text in texts.items()}


@cache
def everything() -> frozenset[str]:
    """All that the product defines."""
    return frozenset(name for _, tree in modules().values() for name in defined(tree))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHER_WORDS])
def test_named_function_exists(name: str) -> None:
    assert name in everything()


@pytest.mark.parametrize(("name", "file"), PLACED)
def test_named_function_is_in_its_file(name: str, file: str) -> None:
    assert name in defined(ast.parse((PROJECT / file).read_text()))


# ---- rooms and sizes


@pytest.mark.parametrize("package", ["admission/controllers", "admission/webhook"])
def test_the_rooms_of_the_page_are_those_of_the_package(package: str) -> None:
    table = PAGE.partition(f"| room of `{package}` |")[2].partition("\n\n")[0]
    rooms = {file.parent.name for file in (PROJECT / package).glob("*/__init__.py")}
    assert set(re.findall(r"`(\w+)/`", table)) == rooms


def limit(what: str) -> int:
    """A limit of the page's table."""
    return int(PAGE.partition(f"| {what} | ")[2].partition(" |")[0])


def test_no_module_function_or_package_is_larger_than_the_page_says() -> None:
    lines = {file.relative_to(PROJECT): count for file, (count, _) in modules().items()}
    assert [f"{file}: {count}" for file, count in lines.items() if count > limit("lines of a module")] == []
    packages = Counter(file.parent for file in lines)
    assert [f"{folder}: {count}" for folder, count in packages.items() if count > limit("modules of a package")] == []
    assert [
        f"{file.relative_to(PROJECT)}: {node.name}"
        for file, (_, tree) in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or node.lineno) - node.lineno >= limit("lines of a function, with docstring")
    ] == []


# ---- the order of the walk through a decision

WALK = PAGE.partition("## A decision, from the heads to the writer")[2].partition("\n## ")[0].partition("\n1. ")[2]
STEPS = re.findall(r"`([\w.]+)`", WALK.partition("\n8. ")[0])
"""The functions of the engine that the walk names, in its order."""


def called(run: Callable[[], object]) -> list[str]:
    """The functions of the engine in the order of their first call; a class stands for its methods."""
    found: dict[str, None] = {}

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/admission/engine/" in frame.f_code.co_filename:
            name = frame.f_code.co_qualname
            found.setdefault(name)
            found.setdefault(name.partition(".")[0])

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list(found)


FIRST = ["decide", "run_cycle", "PendingQueues.heads", "ClassicalOrder.next", "_Cycle._consider", "_Cycle._assign"]
SEARCH = ["flavors_of", "FlavorSearch"]


@pytest.mark.parametrize(
    ("cpus", "steps"),
    [
        pytest.param(3, [*FIRST, *SEARCH, "_Cycle._place", "place", "Outcomes.start"], id="fits"),
        pytest.param(
            8,
            [
                *FIRST,
                *SEARCH,
                "_Cycle._make_room",
                "Nominator.nominate",
                "WorkloadPreemption.targets",
                "Outcomes.reserve",
            ],
            id="evicts",
        ),
        pytest.param(11, [*FIRST, *SEARCH, "_Cycle._make_room", "Outcomes.wait"], id="waits"),
    ],
)
def test_the_steps_of_a_decision_are_called_in_the_order_of_the_page(cpus: int, steps: list[str]) -> None:
    """A queue of 10 CPUs of which a workload of lower priority uses 5."""
    evicts = replace(queue(any=10), preemption=PreemptionPolicy(within_cluster_queue="LowerPriority"))
    cluster = Cluster(Flavor("any"), evicts, workload("low", 5))
    cluster.cycle()
    cluster.tell(workload("head", cpus, priority=1))
    order = called(lambda: decide(cluster.ledger, cluster.queues, 0.0, 10))
    assert [step for step in order if step in set(steps)] == steps
    assert [step for step in dict.fromkeys(STEPS) if step in set(steps)] == steps


PASSED = re.findall(
    r"^\| `([\w.]+)` \|", PAGE.partition("| stay | what it does |")[2].partition("\n\n")[0], re.MULTILINE
)
"""The functions of the cycle and its features that a head passes before its flavors are searched, by the page."""


def passed(run: Callable[[], object]) -> list[str]:
    """The functions of the cycle and its features from a head's turn to its search, each call of each."""
    calls: list[str] = []

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and re.search("/admission/engine/(cycle|features)/", frame.f_code.co_filename):
            calls.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(before)
    first, last = calls.index("_Cycle._consider"), calls.index("flavors_of")
    return calls[first : last + 1]


def test_a_head_passes_what_the_page_says_before_its_flavors_are_searched() -> None:
    """No feature concerns it: at most ten stays, whatever features there are."""
    evicts = replace(queue(any=10), preemption=PreemptionPolicy(within_cluster_queue="LowerPriority"))
    cluster = Cluster(Flavor("any"), evicts, workload("head", 3))
    assert passed(lambda: decide(cluster.ledger, cluster.queues, 0.0, 10)) == PASSED
    assert len(PASSED) <= 10
