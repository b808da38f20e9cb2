"""Alerts and board name what there is: metrics and labels that the processes have, and a page for each alert."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from admission.metrics.lives import Count, Time
from api.kube import metrics as of_access
from api.kube.owned_series import OwnedSeries
from hack import board, reference

PROJECT = Path(__file__).resolve().parents[2]
RUNBOOKS = PROJECT / "docs" / "runbooks"
OF_TARGETS = {"job", "namespace", "pod", "app_kubernetes_io_component", "le"}
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
OF_THE_CLIENT = {"process_resident_memory_bytes", "process_cpu_seconds_total", "up"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROJECT / "config" / "prometheus" / "rules.yaml").read_text())["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def declared() -> dict[str, set[str]]:
    """The labels of each series that our metrics may have."""
    found: dict[str, set[str]] = {}
    for module in (*reference.METRIC_MODULES, of_access):
        parts = (vars(each).values() if isinstance(each, Count | Time) else (each,) for each in vars(module).values())
        for value in chain.from_iterable(parts):
            metric = value.metric if isinstance(value, OwnedSeries) else value
            if isinstance(metric, MetricWrapperBase):
                labels = set(metric._labelnames)
                for suffix in SUFFIXES.get(str(metric._type), ("",)):
                    found[f"{metric._name}{suffix}"] = labels
    return found


def expressions() -> Iterator[tuple[str, str]]:
    yield from ((rule["alert"], rule["expr"]) for rule in rules())
    yield from board.expressions()


@pytest.mark.parametrize(("title", "expression"), [pytest.param(*one, id=one[0]) for one in expressions()])
def test_an_expression_names_what_there_is(title: str, expression: str) -> None:
    known = declared()
    names = set(re.findall(r"\b(?:kueue|stowage|process|up)(?:_[a-z]+)*\b(?=[\s{\[)]|$)", expression))
    assert names, title
    assert names <= known.keys() | OF_THE_CLIENT
    labels = {label for name in names for label in known.get(name, ())} | OF_TARGETS
    selected = re.findall(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"', expression)
    grouped = re.findall(r"(?:by|on|ignoring|without)\s*\(([^)]*)\)", expression)
    used = {*selected, *(name.strip() for group in grouped for name in group.split(",") if name.strip())}
    assert used <= labels


def test_each_alert_has_a_page_and_no_page_is_left_over() -> None:
    urls = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules()}
    assert all(url.endswith(f"/docs/runbooks/{alert}/") for alert, url in urls.items())
    pages = {alert: f"docs/runbooks/{alert}.md" for alert in urls}
    assert {path.stem for path in RUNBOOKS.glob("Stowage*.md")} == pages.keys()
    for alert, page in pages.items():
        text = (PROJECT / page).read_text()
        assert text.startswith(f"# {alert}\n")
        assert "## Find the cause" in text
        assert "## Fix it" in text
        assert f"[{alert}](runbooks/{alert}.md)" in (PROJECT / "docs" / "monitoring.md").read_text()


def test_the_text_of_an_alert_uses_labels_that_its_expression_has() -> None:
    """An expression without `by` keeps all labels of its series; one that aggregates keeps those that it names."""
    for rule in rules():
        used = set(re.findall(r"\$labels\.([a-z_]+)", rule["annotations"]["summary"]))
        kept = {name.strip() for names in re.findall(r"by \(([^)]*)\)", rule["expr"]) for name in names.split(",")}
        kept |= set(re.findall(r'label_replace\(.*?, "([a-z_]+)"', rule["expr"]))
        aggregates = " by (" in rule["expr"] or "absent(" in rule["expr"]
        assert used <= kept or not aggregates, rule["alert"]


def test_each_alert_says_how_urgent_it_is() -> None:
    assert {rule["labels"]["severity"] for rule in rules()} == {"critical", "warning"}
    assert all(rule["annotations"]["summary"] for rule in rules())


def test_the_board_is_the_one_that_is_made() -> None:
    assert board.FILE.read_text() == board.text()
