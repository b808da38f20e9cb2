"""A priority that a user wrote for their own gang stops nobody's work outside its namespace, nor keeps it from stopping."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from admission.engine.model import (
    Admission,
    Assignment,
    DomainCount,
    Gang,
    PodSet,
    PodSetAdmission,
    TopologyRequest,
    Workload,
)
from admission.engine.preemption.candidates import allowed, compared_priorities
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.preemption.reclaimable import reclaimable_bound
from tests.admission.engine.builders import CPU, HOST
from tests.admission.engine.preemption.small_clusters import NOW, cluster, inquiry, own


@dataclass(frozen=True)
class Group:
    """A gang, or a Job; `elsewhere` is None where no user wrote the priority."""

    namespace: str
    priority: int
    elsewhere: int | None = None
    gang: bool = True

    def workload(self, name: str) -> Workload:
        gang = Gang(name) if self.gang else None
        pod_set = PodSet("main", 4, {"cpu": CPU}, topology=TopologyRequest(unconstrained=True))
        key = f"{self.namespace}/{name}"
        made = Workload(key, name, "ns/lq", "a", (pod_set,), self.priority, gang=gang)
        return replace(made, priority_elsewhere=self.elsewhere)


@pytest.mark.parametrize(
    ("preemptor", "other", "evicts"),
    [
        pytest.param(Group("a", 1000, 0), Group("b", 0), False, id="a group of another namespace"),
        pytest.param(Group("a", 1000, 0), Group("b", 0, gang=False), False, id="a job of another namespace"),
        pytest.param(Group("a", 1000, 0), Group("a", 0, gang=False), False, id="a job of its namespace"),
        pytest.param(Group("a", 1000, 0), Group("a", 0), True, id="a group of its namespace"),
        pytest.param(Group("a", 1000, 0), Group("a", 2000, 0), False, id="a group of its namespace with more"),
        pytest.param(Group("a", 1000, 5), Group("b", 1000, 0), True, id="by its class"),
        pytest.param(Group("a", 5), Group("b", 1000, 0), True, id="a high priority protects from nobody elsewhere"),
        pytest.param(Group("a", 5, gang=False), Group("a", 1000, 0), True, id="nor from a job of its namespace"),
        pytest.param(Group("a", 1000), Group("b", 0), True, id="where the setting allows it"),
    ],
)
def test_a_group_evicts_by_its_own_priority_in_its_namespace_only(preemptor: Group, other: Group, evicts: bool) -> None:
    here, there = preemptor.workload("here"), other.workload("there")
    assert allowed(here, there, "LowerPriority") is evicts
    ours, theirs = compared_priorities(here, there)
    assert compared_priorities(there, here) == (theirs, ours)


def test_a_victim_counts_with_the_priority_that_holds_against_the_preemptor() -> None:
    """The group that wrote 1000 for itself costs its neighbour no more than others do, and quota says that it may go."""
    ledger = cluster({})
    for name, group, hosts in (("boasts", Group("b", 1000, 0), ("h0", "h1")), ("modest", Group("c", 3), ("h2", "h3"))):
        asked = group.workload(name)
        assignment = Assignment((HOST,), tuple(DomainCount((host,), 4) for host in hosts))
        got = PodSetAdmission("main", {"cpu": "tas"}, {"cpu": 8 * CPU}, 8, assignment)
        ledger.charge(asked, Admission("a", (got,)))
    about, head, found = inquiry(ledger, 2, 4, priority=10)
    assert [victim.workload for victim in about.targets(head, found)] == ["b/boasts"]
    assert Preemptor(ledger, NOW).about(head)
    assert own().preemption.within_cluster_queue == "LowerPriority"
    bound = reclaimable_bound(ledger, "a", ("tas", "cpu"), 1)
    assert bound == (100 - 8) * CPU, "what the boasting group uses can be had, what the modest one uses cannot"
