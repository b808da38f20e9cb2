"""scheduler_tas: one round with topology, second passes among them: admissions with their domains, waits, events."""

from __future__ import annotations

import pytest

from tests.conformance.runner import Case
from tests.conformance.suites.cycles import CycleCase, shown_admission, shown_workload
from tests.conformance.suites.scheduler_quota import assert_words, object_key, sets, shown, told

OUTSIDE = {
    "ProvisioningRequest": "out of scope: ProvisioningRequest, and with it delayed topology requests",
    "Provisioning Admission Check": "out of scope: ProvisioningRequest",
}


def run(case: Case) -> None:
    """All that Kueue asserts, and the words of its events."""
    for part, reason in OUTSIDE.items():
        if part in case["name"]:
            pytest.skip(reason)
    world, want = CycleCase(case), case["want"]
    world.round()
    if want.get("wantWorkloads") is not None:
        assert shown(world) == {object_key(w): shown_workload(w) for w in want["wantWorkloads"]}
    assert new_assignments(world, case) == {
        key: shown_admission(admission) for key, admission in (want["wantNewAssignments"] or {}).items()
    }
    assert world.left() == (sets(want["wantLeft"]), sets(want["wantInadmissibleLeft"]))
    events, wanted = told(world.events, want), told(want["wantEvents"] or [], want)
    if case["name"].startswith("TestScheduleForTAS/"):
        assert events == wanted
    elif want["wantEvents"] is not None:
        assert sorted(events) == sorted(wanted)
    assert_words(world, case)
    assert world.ledger.audit() == []


def new_assignments(world: CycleCase, case: Case) -> dict[str, object]:
    """Of the workloads that held no quota before, or had lost a node."""
    before = {
        object_key(w)
        for w in case["input"]["workloads"]
        if (w.get("status") or {}).get("admission") and not w["status"].get("unhealthyNodes")
    }
    return {key: admission for key, admission in world.assignments().items() if key not in before}
