"""Which Workload of an elastic job goes on where several could."""

from __future__ import annotations

import pytest

from admission.controllers.jobs.plan.job_slices import slices_of
from api.workloads import Workload

T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def one(name: str, created: str, *, quota: bool = False, evicted: bool = False) -> Workload:
    states = {"QuotaReserved": quota, "Admitted": quota, "Evicted": evicted}
    conditions = [{"type": kind, "status": "True", "reason": "R", "message": ""} for kind, on in states.items() if on]
    status = {
        "conditions": conditions,
        **({"admission": {"clusterQueue": "q", "podSetAssignments": []}} if quota else {}),
    }
    meta = {"name": name, "namespace": "ns", "creationTimestamp": created}
    return Workload.from_wire({"metadata": meta, "spec": {"podSets": []}, "status": status})


@pytest.mark.parametrize("reverse", [False, True])
def test_the_newest_of_two_that_have_quota_is_the_current_one(reverse: bool) -> None:
    both = [one("b-old", T1, quota=True), one("a-new", T2, quota=True)]
    slices = slices_of(both[::-1] if reverse else both)
    assert slices.current is not None
    assert slices.current.metadata.name == "a-new"
    assert [w.metadata.name for w in slices.stale] == ["b-old"]


@pytest.mark.parametrize("reverse", [False, True])
def test_without_quota_the_newest_comes_first_and_before_it_what_has_to_stop(reverse: bool) -> None:
    three = [one("old", T1), one("new", T2), one("evicted", T1, quota=True, evicted=True)]
    slices = slices_of(three[::-1] if reverse else three)
    assert slices.current is None
    assert [w.metadata.name for w in slices.others] == ["evicted", "new", "old"]
