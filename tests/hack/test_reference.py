"""The generated reference pages are complete, and each row says what it means."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.reference import FOLDER

PROJECT = Path(__file__).resolve().parents[2]
PRODUCT = [file for top in ("admission", "api", "ungater") for file in sorted((PROJECT / top).rglob("*.py"))]
REASONED = {"with_condition": 3, "Condition": None, "Activity": 1, "no": 0}
"""Calls that write a condition, with the position of its reason."""


@pytest.mark.parametrize("page", ["settings", "metrics", "conditions", "labels"])
def test_each_row_says_what_it_means(page: str) -> None:
    rows = re.findall(r"^\| `.*$", (FOLDER / f"{page}.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    assert [row for row in rows if not row.rstrip(" |").count("|") or re.search(r"\|\s*\|$", row)] == []


def written_reasons(text: str) -> Iterator[ast.expr]:
    """The reasons that the module gives to conditions."""
    if not any(f"{name}(" in text for name in REASONED):  # to parse it takes longer
        return
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name not in REASONED:
            continue
        position = REASONED[name]
        yield from (word.value for word in call.keywords if word.arg == "reason")
        if position is not None and len(call.args) > position:
            yield call.args[position]


def literals(node: ast.expr) -> list[str]:
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_every_reason_of_a_condition_is_a_named_one() -> None:
    """The page lists the named ones, of api/names/conditions.py and of the engine's enumerations."""
    seen = [
        (file.name, text)
        for file in PRODUCT
        for reason in written_reasons(file.read_text())
        for text in literals(reason)
    ]
    assert seen == []


def test_every_condition_type_of_stowage_is_on_the_page() -> None:
    page = (FOLDER / "conditions.md").read_text()
    types = {kind for file in PRODUCT for kind in re.findall(r"STOWAGE\}/([A-Z]\w+)", file.read_text())}
    assert len(types) > 5
    assert {kind for kind in types if f"`stowage.dev/{kind}`" not in page} == set()


KEY = re.compile(r"(?<![\w./-])((?:[a-z0-9-]+\.)+[a-z]{2,}/[A-Za-z0-9][A-Za-z0-9._-]*)")
NO_LABELS = (
    re.compile(r".*/v\d\w*|registry\..*|.*example\.com/.*|acme\.io/.*|cloud-provider\.com/.*|nvidia\.com/.*"),
    re.compile(r"stowage\.test/.*|stowage\.dev/snapshot.*|meta\.k8s\.io/.*"),
    # written by kube-controller-manager and the API server, not read as labels
    re.compile(r"node\.kubernetes\.io/.*|k8s\.io/initial-events-end|kubernetes\.io/tls"),
    # Kueue's keys of kinds and of managedBy; docs/reference/kinds.md has the kinds
    re.compile(
        r"(?:batch|jobset|leaderworkerset|kubeflow|ray|sparkoperator|trainer|workload|argoproj|flux)[\w.-]*/[a-z]+"
    ),
    re.compile(r"jobset\.sigs\.k8s\.io/jobset-controller|disaggregatedset\..*|scheduling\.k8s\.io/priorityclass"),
    re.compile(r"kueue\.x-k8s\.io/workloadpriorityclass|app\.kubernetes\.io/name"),
)
"""API versions, examples, and keys that are neither label, annotation, gate nor finalizer."""


def keys(file: Path) -> Iterator[str]:
    """Keys with a domain in the module's strings, docstrings excepted."""
    text = re.sub(r"\{(?:names\.)?STOWAGE\}", "stowage.dev", file.read_text())
    if not KEY.search(text):  # to parse it takes longer
        return
    tree = ast.parse(text)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield from KEY.findall(node.value)


def test_every_label_and_annotation_is_on_its_page() -> None:
    pages = "".join((FOLDER / f"{page}.md").read_text() for page in ("labels", "conditions", "kinds"))
    found = {(file.name, key) for file in PRODUCT for key in keys(file)}
    assert len(found) > 30
    lacking = {(name, key) for name, key in found if f"`{key}`" not in pages}
    assert {(name, key) for name, key in lacking if not any(other.fullmatch(key) for other in NO_LABELS)} == set()


def test_every_metric_is_on_its_page() -> None:
    page = (FOLDER / "metrics.md").read_text().replace("_total`", "`")
    given = {word for file in PRODUCT for word in re.findall(r'"((?:kueue|stowage)_[a-z_]+)"', file.read_text())}
    assert len(given) > 30
    assert {name for name in given if f"`{name.removesuffix('_total')}`" not in page} == set()


def test_every_command_is_on_its_page() -> None:
    """Also those of a group; counters have the names that Prometheus serves."""
    page = (FOLDER / "cli.md").read_text()
    assert {
        word for word in ("demo", "explain", "jobkind rbac", "jobkind test") if f"## stowage {word}\n" not in page
    } == set()
    counters = re.findall(r"^\| `(\w+)` \| counter", (FOLDER / "metrics.md").read_text(), re.MULTILINE)
    assert [name for name in counters if not name.endswith("_total")] == []


WRITTEN = [
    PROJECT / "README.md",
    PROJECT / "SECURITY.md",
    *(page for page in sorted((PROJECT / "docs").rglob("*.md")) if page.parent != FOLDER),
]
OURS = re.compile(r"(?<![\w./-])((?:kueue\.x-k8s\.io|stowage\.dev|gang\.scheduling\.koordinator\.sh)/[A-Za-z0-9-]+)")
NOT_KEYS = re.compile(r".*/(v\d\w*|manager|metrics|dashboard)")
"""API versions, the manager of a TrainJob's patches, and labels of namespaces that NetworkPolicies alone read."""


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(PROJECT)))
def test_what_a_page_names_is_in_the_reference(page: Path) -> None:
    """A reader can look up each label, annotation, condition type and metric that the prose names."""
    text = page.read_text()
    keys = "".join((FOLDER / f"{name}.md").read_text() for name in ("labels", "conditions", "kinds"))
    assert {key for key in OURS.findall(text) if f"`{key}`" not in keys and not NOT_KEYS.fullmatch(key)} == set()
    metrics = (FOLDER / "metrics.md").read_text()
    named = re.findall(r"`((?:kueue|stowage)_[a-z_]+[a-z])\b(?:\{[^`]*)?`", text)
    assert {name for name in named if f"`{name}`" not in metrics} == set()
