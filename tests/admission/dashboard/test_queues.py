"""What the queues of a cohort lend, against figures computed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from admission.dashboard.queues import Lending
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, PodSetAdmission
from admission.engine.quota.cohorts import QuotaNode
from tests.admission.engine.builders import CPU, queue, workload

PAIR = ("any", "cpu")


def cohort(used: Mapping[str, int]) -> Ledger:
    """Queues of one cohort with a quota of 10 cpu each, of which their workloads use so much."""
    ledger = Ledger()
    for name in used:
        ledger.apply(replace(queue(name, any=10), cohort="all"))
    for name, cpus in used.items():
        usage = {"cpu": cpus * CPU}
        admission = Admission(name, (PodSetAdmission("main", {"cpu": "any"}, usage, 1),))
        ledger.charge(workload(f"ns/{name}", cpus=cpus), admission)
    return ledger


@pytest.mark.parametrize(
    ("used", "lent"),
    [
        pytest.param({"a": 4, "b": 10}, {"a": 0, "b": 0}, id="nobody borrows"),
        pytest.param({"a": 4, "b": 16}, {"a": 6, "b": 0}, id="all that is unused"),
        pytest.param({"a": 4, "b": 16, "c": 4}, {"a": 3, "b": 0, "c": 3}, id="in equal parts"),
        pytest.param({"a": 1, "b": 14, "c": 7}, {"a": 3, "b": 0, "c": 1}, id="in proportion"),
    ],
)
def test_what_is_borrowed_was_lent_in_proportion_to_what_is_unused(used: dict[str, int], lent: dict[str, int]) -> None:
    ledger, lending = cohort(used), Lending()
    nodes = {name: ledger.quota.node(name) for name in used}
    assert {name: lending.lent(node, PAIR) // CPU for name, node in nodes.items() if node is not None} == lent


def test_a_cohort_of_many_queues_is_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Added up for each queue, a page that asks for 1,000 queues held the loop for seconds."""
    many = 200
    ledger, lending, calls = cohort({f"q{n}": 4 for n in range(many)}), Lending(), 0
    quota = QuotaNode.quota

    def counted(node: QuotaNode, pair: Any) -> Any:
        nonlocal calls
        calls += 1
        return quota(node, pair)

    monkeypatch.setattr(QuotaNode, "quota", counted)
    for n in range(many):
        node = ledger.quota.node(f"q{n}")
        assert node is not None
        lending.lent(node, PAIR)
    assert calls < 5 * many
