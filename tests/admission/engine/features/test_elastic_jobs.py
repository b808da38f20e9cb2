"""Elastic jobs on the engine: the next slice gets what fits, where the pods of the last one stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Admit
from admission.engine.model import BoundPod, Flavor, PodSet, TopologyRequest, Workload
from tests.admission.engine.builders import CPU, STRICT, Cluster, admitted, domains, host, queue, racks, waits, workload
from tests.budgets import examples

ANYWHERE = TopologyRequest(unconstrained=True)


def slice_of(key: str, pods: int, old: str = "a", **changes: object) -> Workload:
    """A slice of the elastic job that has `old` now."""
    return replace(workload(key, pods, topology=ANYWHERE), replaces=old, **changes)  # type: ignore[arg-type]


def counts(report: CycleReport) -> dict[str, int]:
    """How many pods each admitted workload got."""
    return {d.workload: d.admission.pod_sets[0].count for d in report.decisions if isinstance(d, Admit)}


def on_hosts(quota: int, **cpus: int) -> Cluster:
    """A queue on hosts of one rack, with a job of 5 pods that runs."""
    cluster = Cluster(racks(), *(host(name, "r", each) for name, each in cpus.items()), queue(tas=quota))
    cluster.tell(workload("a", 5, topology=ANYWHERE))
    assert admitted(cluster.cycle()) == ["a"]
    return cluster


@pytest.mark.parametrize(
    ("quota", "cpus", "wanted", "expected"),
    [
        pytest.param(20, {"x": 20}, 12, 12, id="all"),
        pytest.param(7, {"x": 20}, 12, 7, id="quota-for-seven"),
        pytest.param(20, {"x": 4, "y": 3}, 12, 7, id="nodes-for-seven"),
        pytest.param(6, {"x": 6}, 6, 6, id="one-more"),
    ],
)
def test_it_grows_by_what_fits(quota: int, cpus: dict[str, int], wanted: int, expected: int) -> None:
    """Up to what it asks for, charged once, and the slice before holds nothing any more."""
    cluster = on_hosts(quota, **cpus)
    cluster.tell(slice_of("b", wanted))
    assert counts(cluster.cycle()) == {"b": expected}
    assert cluster.ledger.admission("a") is None
    assert cluster.ledger.quota.usage("q") == {("tas", "cpu"): expected * CPU}
    assert cluster.ledger.audit() == []


@pytest.mark.parametrize(
    ("quota", "cpus", "text"),
    [
        pytest.param(5, {"x": 20}, "insufficient quota for cpu", id="quota"),
        pytest.param(20, {"x": 5}, "allow to fit any of 1 pod(s)", id="nodes"),
    ],
)
def test_it_waits_and_says_why_where_not_one_more_fits(quota: int, cpus: dict[str, int], text: str) -> None:
    """What runs goes on as it was; and grows as soon as there is capacity."""
    cluster = on_hosts(quota, **cpus)
    cluster.tell(slice_of("b", 8))
    assert text in waits(cluster.cycle())["b"]
    assert cluster.ledger.admission("a") is not None
    cluster.tell(queue(tas=20), host("z", "r", 20))
    cluster.queues.lines.requeue({"q"})
    assert counts(cluster.cycle()) == {"b": 8}


def test_the_pods_that_run_keep_their_places() -> None:
    """Bound pods are the new slice's from then on, and count once."""
    cluster = on_hosts(20, x=4, y=4, z=8)
    before = cluster.ledger.admission("a")
    assert before is not None
    assert before.pod_sets[0].assignment is not None
    old = {domain.values[-1]: domain.count for domain in before.pod_sets[0].assignment.domains}
    for name, count in old.items():
        for i in range(count):
            cluster.tell(BoundPod(f"ns/{name}-{i}", name, {"cpu": CPU}, "a", "main"))
    cluster.tell(slice_of("b", 9))
    new = domains(cluster.cycle(), "b")
    assert all(new[name] >= count for name, count in old.items())
    assert sum(new.values()) == 9
    assert len(cluster.ledger.allocations.pods_of("b")) == 5
    assert cluster.ledger.audit() == []
    other = workload("c", 16 - 9, topology=ANYWHERE)
    cluster.tell(other)
    assert admitted(cluster.cycle()) == ["c"]


def test_it_stays_on_its_flavor() -> None:
    """Also where another flavor has more: its pods cannot move."""
    cluster = Cluster(Flavor("one"), Flavor("two"), queue(one=5, two=50))
    cluster.tell(replace(workload("a", 5)))
    assert admitted(cluster.cycle()) == ["a"]
    cluster.tell(replace(workload("b", 6), replaces="a"))
    assert "could not assign two flavor since the original workload is assigned: one" in waits(cluster.cycle())["b"]


def test_a_slice_of_another_queue_does_not_take_its_quota() -> None:
    """It waits, and both queues are charged for what runs in them."""
    cluster = Cluster(Flavor("one"), queue("q", one=5), queue("p", one=9))
    cluster.tell(workload("a", 5))
    cluster.cycle()
    cluster.tell(replace(workload("b", 6, to="p"), replaces="a"))
    assert "ClusterQueue q" in waits(cluster.cycle())["b"]
    assert cluster.ledger.quota.usage("q") == {("one", "cpu"): 5 * CPU}


def test_a_slice_without_its_predecessor_is_a_workload_like_any_other() -> None:
    """The one before was evicted: nothing is counted for it."""
    cluster = Cluster(Flavor("one"), queue(one=7))
    cluster.tell(replace(workload("b", 8), replaces="a"))
    assert "insufficient quota" in waits(cluster.cycle())["b"]


def test_growth_waits_behind_older_workloads_of_a_strict_queue() -> None:
    """A slice has its turn like any other workload of the queue."""
    cluster = Cluster(Flavor("one"), queue(strategy=STRICT, one=7))
    cluster.tell(workload("a", 5))
    cluster.cycle()
    cluster.tell(workload("c", 6, queued=1.0), replace(workload("b", 7, queued=2.0), replaces="a"))
    assert admitted(cluster.cycle()) == []


@settings(max_examples=examples(25), deadline=None)
@given(
    free=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    quota=st.integers(5, 20),
    wanted=st.lists(st.integers(0, 7), min_size=2, max_size=2).filter(any),
)
def test_it_gets_as_many_as_can_be(free: list[int], quota: int, wanted: list[int]) -> None:
    """Against counting by hand: pods of one cpu in two pod sets, on hosts with this much beside the pods that run."""
    hosts = (host(f"h{i}", "r", 5 * (i == 0) + each) for i, each in enumerate(free))
    cluster = Cluster(racks(), *hosts, queue(tas=quota))
    sets = tuple(PodSet(name, n, {"cpu": CPU}, topology=ANYWHERE) for name, n in (("u", 3), ("v", 2)))
    cluster.tell(replace(workload("a"), pod_sets=sets))
    assert admitted(cluster.cycle()) == ["a"]
    grown = tuple(replace(each, count=each.count + more) for each, more in zip(sets, wanted, strict=True))
    cluster.tell(replace(workload("b"), pod_sets=grown, replaces="a"))
    report = cluster.cycle()
    more = min(sum(wanted), sum(free), quota - 5)
    if not more:
        assert admitted(report) == []
        return
    [admit] = report.decisions
    assert isinstance(admit, Admit)
    assert sum(each.count for each in admit.admission.pod_sets) == 5 + more
    asked = {each.name: each.count for each in grown}
    assert all(each.count <= asked[each.name] for each in admit.admission.pod_sets)
    assert cluster.ledger.audit() == []
