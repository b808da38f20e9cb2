"""The running sums of the queues agree with a count from scratch, whatever happened before."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.controllers.report.queue_totals import QueueTotals, QueueTotalsIndex, nominal_quotas, usage
from api.kube.informers.store import Change, ChangeType
from api.queues import ClusterQueue
from api.workloads import Workload
from tests.builders import condition, workload

KINDS = ("QuotaReserved", "Admitted", "Finished")


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    name, queue = draw(st.sampled_from("abcd")), draw(st.sampled_from(["lq", "other"]))
    conditions = [condition(kind) for kind in KINDS if draw(st.booleans())]
    made = workload(name, queue=queue, count=draw(st.integers(1, 3)), conditions=conditions)
    if draw(st.booleans()):
        return made
    psa = {"name": "main", "flavors": {"cpu": "tas"}, "resourceUsage": {"cpu": str(draw(st.integers(1, 9)))}}
    admission = {"clusterQueue": draw(st.sampled_from(["cq", "cq2"])), "podSetAssignments": [psa]}
    wire: dict[str, Any] = made.to_wire()
    return Workload.from_wire({**wire, "status": {**wire.get("status", {}), "admission": admission}})


def figures(tally: QueueTotals) -> tuple[object, ...]:
    return tally.pending, tally.reserving, tally.admitted, usage(tally.reserved), usage(tally.used)


@given(st.lists(st.tuples(workloads(), st.booleans()), max_size=12))
def test_sums_agree_with_a_count_from_scratch(steps: list[tuple[Workload, bool]]) -> None:
    running, there = QueueTotalsIndex(), dict[str, Workload]()
    for new, gone in steps:
        old = there.pop(new.key, None)
        if not gone:
            there[new.key] = new
        kind = ChangeType.DELETED if gone else ChangeType.MODIFIED if old else ChangeType.ADDED
        running.changed(Change(kind, new.key, new, old))
    scratch = QueueTotalsIndex()
    for key, one in there.items():
        scratch.changed(Change(ChangeType.ADDED, key, one, None))
    for queue in {f"{w.metadata.namespace}/{w.spec.queue_name}" for w, _ in steps}:
        assert figures(running.local_queue(queue)) == figures(scratch.local_queue(queue))
    for queue in ("cq", "cq2"):
        assert figures(running.cluster_queue(queue)) == figures(scratch.cluster_queue(queue))


def test_what_a_queue_shows() -> None:
    tallies = QueueTotalsIndex()
    states = {"waits": (), "reserves": KINDS[:1], "runs": KINDS[:2], "done": KINDS}
    for name, kinds in states.items():
        one = workload(name, count=2, admitted=bool(kinds), conditions=[])
        wire = one.to_wire()
        wire["status"] = {**wire.get("status", {}), "conditions": [condition(kind) for kind in kinds]}
        tallies.changed(Change(ChangeType.ADDED, name, Workload.from_wire(wire), None))
    shown = tallies.local_queue("ns/lq")
    assert (shown.pending, shown.reserving, shown.admitted) == (1, 2, 1)
    assert [(f.name, [(r.name, r.total) for r in f.resources]) for f in usage(shown.reserved)] == [
        ("tas", [("cpu", "4")])
    ]
    assert figures(tallies.cluster_queue("cq"))[1:] == figures(shown)[1:]


@pytest.mark.parametrize(
    ("count", "reclaims", "used"), [(1, True, 2000), (7, True, 3000), (1, False, 3000)], ids=["over", "absurd", "off"]
)
def test_a_queue_shows_no_usage_of_pods_that_are_over(count: int, reclaims: bool, used: int) -> None:
    """As quota, which others get meanwhile: else the queue would seem to borrow."""
    tallies, wire = QueueTotalsIndex(reclaims=reclaims), workload("a", count=3, admitted=True).to_wire()
    psa = {"name": "main", "flavors": {"cpu": "tas"}, "resourceUsage": {"cpu": "3"}, "count": 3}
    wire["status"]["admission"] = {"clusterQueue": "cq", "podSetAssignments": [psa]}
    wire["status"]["reclaimablePods"] = [{"name": "main", "count": count}]
    tallies.changed(Change(ChangeType.ADDED, "ns/a", Workload.from_wire(wire), None))
    shown = tallies.cluster_queue("cq")
    assert (shown.reserved, shown.used) == ({("tas", "cpu"): used}, {("tas", "cpu"): used})


def test_a_queue_shows_all_that_it_declares_and_what_it_borrows() -> None:
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": "2"}, {"name": "memory", "nominalQuota": "1Gi"}]}
        for name in ("spot", "own")
    ]
    spec = {"resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]}
    declared = nominal_quotas(ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": spec}))
    totals = Counter({("own", "cpu"): 3500, ("gone", "gpu"): 1})

    def shown(declares: dict[tuple[str, str], int | None]) -> list[tuple[str, str, Any, Any]]:
        return [(f.name, r.name, r.total, r.borrowed) for f in usage(totals, declares) for r in f.resources]

    assert shown(declared) == [
        ("spot", "cpu", "0", "0"),
        ("spot", "memory", "0", "0"),
        ("own", "cpu", "3500m", "1500m"),
        ("own", "memory", "0", "0"),
        ("gone", "gpu", "1", None),
    ]
    assert [borrowed for *_, borrowed in shown(dict.fromkeys(declared))] == [None] * 5, "a LocalQueue borrows nothing"


def test_who_cannot_run_and_who_names_no_queue_is_counted() -> None:
    """A namespace counts its own LocalQueues only: another one may have a queue of the misspelt name."""
    tallies = QueueTotalsIndex()
    never = [condition("stowage.dev/Explanation", "True", "CannotRun")]
    waiting = {
        "a": workload("a", queue="lq", conditions=never),
        "b": workload("b", queue="lq", conditions=[condition("stowage.dev/Explanation", "True", "WaitingForQuota")]),
        "c": workload("c", queue="misspelt", conditions=[]),
        "d": workload("d", queue="misspelt", conditions=[condition("Finished")]),
    }
    for one in waiting.values():
        tallies.changed(Change(ChangeType.ADDED, one.key, one, None))
    assert tallies.local_queue("ns/lq").cannot_run == 1
    assert tallies.pending_without("ns", {"ns/lq", "other/misspelt"}) == 1
    assert tallies.pending_without("ns", {"ns/lq", "ns/misspelt"}) == 0
    assert tallies.pending_without("n", set()) == 0
    started = workload("a", queue="lq", admitted=True, conditions=never)
    tallies.changed(Change(ChangeType.MODIFIED, started.key, started, waiting["a"]))
    assert tallies.local_queue("ns/lq").cannot_run == 0
