"""When the places of elastic jobs are read anew: after a shrink, as pods end, and not while the status is written."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from admission.controllers.decide.shrunk_jobs import ShrunkJobs
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.projection import ProjectedMeta, ProjectedPod
from admission.engine.model import ObjectRemoved, RemovedKind
from api.assignment import encode
from api.kube.informers.store import Store
from api.names import ELASTIC_JOB, HOSTNAME_LABEL, REPLACEMENT_FOR, WORKLOAD_SLICE_NAME
from api.workloads import Workload
from tests.admission.engine.cycle.test_moved_pods import places_of
from tests.admission.engine.features.test_shrunk_places import bound, shrunk
from tests.builders import condition


def job(
    count: int, places: dict[str, int], annotations: dict[str, str], version: str = "1", name: str = "w"
) -> Workload:
    """The Workload with these places, which requests so many pods now."""
    placed = encode((HOSTNAME_LABEL,), [((host,), number) for host, number in places.items()])
    sets = [{"name": "main", "count": 4, "flavors": {}, "topologyAssignment": placed.to_wire()}]
    return Workload.from_wire(
        {
            "metadata": {
                "name": name,
                "namespace": "",
                "uid": f"u-{name}",
                "resourceVersion": version,
                "annotations": annotations,
            },
            "spec": {"podSets": [{"name": "main", "count": count, "template": {}}]},
            "status": {
                "admission": {"clusterQueue": "cq", "podSetAssignments": sets},
                "conditions": [condition("QuotaReserved"), condition("Admitted")],
            },
        }
    )


class Watching:
    """The job `w` had two pods on `a` and two on `b`; its controller ends those on `a`."""

    def __init__(self) -> None:
        self.ledger = shrunk({"a": 2, "b": 2}, {"b": 2})
        self.workloads: Store[Workload] = Store("workloads")
        self.pods: Store[ProjectedPod] = Store("pods")
        self.woken = 0
        views = cast("Views", SimpleNamespace(workloads=self.workloads, pods=self.pods))
        self.kept = ShrunkJobs(views, self.ledger, self.wake)
        for number in range(2):
            self.pods.upsert(self.seen(number))

    def wake(self) -> None:
        self.woken += 1

    def seen(self, number: int) -> ProjectedPod:
        pod = replace(bound("a", number), workload="/w")
        return ProjectedPod(ProjectedMeta(f"p-a-{number}", "ns", pod.key, "1"), pod)

    def end(self, number: int) -> None:
        self.ledger.apply(ObjectRemoved(RemovedKind.POD, bound("a", number).key))
        self.pods.delete(self.seen(number))


ELASTIC = {ELASTIC_JOB: "true"}
BEFORE = {"a": 2, "b": 2}


def test_places_are_written_once_the_pods_have_ended_and_not_beside_another_write() -> None:
    seen = Watching()
    seen.workloads.upsert(job(2, BEFORE, ELASTIC))
    assert list(seen.kept.decisions(())) == [], "four pods are bound"
    for number in range(2):
        seen.woken = 0
        seen.end(number)
        assert seen.woken == 1
    assert list(seen.kept.decisions(("w",))) == []
    seen.kept.written("w")
    assert seen.woken == 2
    [found] = seen.kept.decisions(())
    assert places_of(found.admission) == {"b": 2}
    seen.workloads.upsert(job(2, {"b": 2}, ELASTIC, "2"))
    assert list(seen.kept.decisions(())) == [], "the status has them"
    seen.woken = 0
    seen.pods.upsert(replace(seen.seen(0), bound=replace(bound("a", 0), workload="other")))
    assert seen.woken == 0


def test_a_slice_that_was_admitted_and_is_deleted_does_not_end_the_checks_of_the_one_before_it() -> None:
    """The job shrinks while its next slice is being admitted: that slice is deleted, and the older one is charged again."""
    seen = Watching()
    seen.workloads.upsert(job(2, BEFORE, ELASTIC))
    next_slice = {**ELASTIC, WORKLOAD_SLICE_NAME: "w", REPLACEMENT_FOR: "/w"}
    seen.workloads.upsert(job(4, BEFORE, next_slice, name="w2"))
    seen.workloads.delete(job(4, BEFORE, next_slice, version="2", name="w2"))
    assert list(seen.kept.decisions(())) == [], "four pods are bound"
    for number in range(2):
        seen.end(number)
    [found] = seen.kept.decisions(())
    assert found.workload == "w"
    assert places_of(found.admission) == {"b": 2}


@pytest.mark.parametrize(
    ("count", "annotations"),
    [pytest.param(2, {}, id="not-elastic"), pytest.param(4, ELASTIC, id="not-shrunk")],
)
def test_other_workloads_are_not_looked_at(count: int, annotations: dict[str, str]) -> None:
    seen = Watching()
    seen.workloads.upsert(job(count, BEFORE, annotations))
    seen.end(0)
    assert seen.woken == 0
    assert list(seen.kept.decisions(())) == []


def test_an_assignment_that_cannot_be_read_is_left() -> None:
    seen = Watching()
    broken = job(2, BEFORE, ELASTIC).to_wire()
    broken["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]["slices"][0]["domainCount"] = 7
    seen.workloads.upsert(Workload.from_wire(broken))
    assert list(seen.kept.decisions(())) == []
