"""The audit does its work in steps, between which everything changes: it says nothing untrue, and still sees what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from admission.engine.ledger import audit as quota_audit
from admission.engine.ledger.ledger import Ledger
from admission.engine.topology.allocation import audit
from tests.admission.engine.test_ledger import book, host, pod, workload
from tests.admission.engine.test_random_events import EventHistory
from tests.budgets import examples

EVENTS = 150


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One object a part: as much as can be happens between two."""
    monkeypatch.setattr(audit, "PART", 1)
    monkeypatch.setattr(quota_audit, "PART", 1)


@pytest.mark.parametrize("seed", range(examples(4)))
def test_changes_between_its_parts_are_no_differences(seed: int) -> None:
    history = EventHistory(seed)
    history.run(EVENTS)
    for _ in range(3):
        for found in history.world.ledger.auditing():
            assert found == []
            if history.dice.random() < 0.5:
                history.run(1)


def _quota(ledger: Ledger) -> None:
    ledger.quota.add("cq", {("tas", "gpu"): 1})


def _usage(ledger: Ledger) -> None:
    (table,) = (table for _, table in ledger._capacity.all_usage_tables() if "n1" in table)
    table["n1"] = {column: amount + 1 for column, amount in table["n1"].items()}


def _foreign(ledger: Ledger) -> None:
    ledger._capacity.nodes["n3"].foreign.clear()


def _slot(ledger: Ledger) -> None:
    del ledger._allocations.slot_of["ns/a"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(_quota, "quota usage of ClusterQueue cq is", id="quota"),
        pytest.param(_usage, "usage of host n1 is", id="usage-of-a-host"),
        pytest.param(_foreign, "foreign pods on node n3 take {}", id="foreign-pods"),
        pytest.param(_slot, "pod ns/a is not covered here", id="a-covered-pod"),
    ],
)
def test_what_is_wrong_is_found_beside_what_changes(spoil: Callable[[Ledger], None], message: str) -> None:
    ledger = book(host("n1"), host("n2"), host("n3"))
    for known in (workload("ns/w", ("n1", 2)), pod("a", "n1", "ns/w"), pod("daemon", "n3")):
        ledger.apply(known)
    spoil(ledger)
    found = []
    for number, part in enumerate(ledger.auditing()):
        found += part
        ledger.apply(pod(f"p{number}", "n2"))
        ledger.apply(workload(f"ns/w{number}", ("n2", 1)))
        ledger.apply(pod(f"of-w{number}", "n2", f"ns/w{number}"))
    assert any(message in text for text in found), found
    assert not any("n2" in text or "bound pods of ns/w" in text for text in found), found
