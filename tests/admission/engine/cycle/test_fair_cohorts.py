"""Fair sharing between cohorts: a cohort's own quota, and victims of equal shares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.model import Cohort, Flavor, PodSet, Quota, Workload
from tests.admission.engine.builders import CPU, admitted, queue, workload
from tests.admission.engine.cycle.evicting_cluster import RECLAIM, Evicting, evicting, preempted

A, B = Flavor("fa", {"kind": "a"}), Flavor("fb", {"kind": "b"})


def of_flavor(key: str, cpus: int, *, to: str, kind: str, priority: int = 0, queued: float = 0.0) -> Workload:
    """A workload of one pod that runs on nodes of this kind."""
    pod_set = PodSet("main", 1, {"cpu": cpus * CPU}, node_selector={"kind": kind})
    return replace(workload(key, to=to, priority=priority, queued=queued), pod_sets=(pod_set,))


def cohort(name: str, **quotas: int) -> Cohort:
    amounts = {(flavor, "cpu"): Quota(cpus * CPU) for flavor, cpus in quotas.items()}
    return Cohort(name, "root", amounts)


def halves() -> Evicting:
    """Two cohorts with one queue each; the left owns flavor fa, the right fb. Their queues own nothing."""
    queues = [
        evicting(queue(name, cohort=parent, fa=0, fb=0), RECLAIM) for name, parent in (("l", "left"), ("r", "right"))
    ]
    return Evicting(A, B, cohort("left", fa=4, fb=0), cohort("right", fa=0, fb=8), *queues)


@pytest.mark.parametrize("loan", [6, 0], ids=["its queue borrows in another flavor", "its queue borrows nothing"])
def test_a_cohort_reclaims_its_own_quota_and_keeps_it(loan: int) -> None:
    cluster = halves()
    if loan:
        cluster.tell(of_flavor("loan", loan, to="l", kind="b"))
    cluster.tell(of_flavor("taker", 4, to="r", kind="a"))
    cluster.cycle(now=1, fair=True)
    cluster.tell(of_flavor("owner", 4, to="l", kind="a", queued=2))
    assert preempted(cluster.cycle(now=2, fair=True)) == {"owner": ["taker"]}
    cluster.finish("taker")
    assert admitted(cluster.cycle(now=3, fair=True)) == ["owner"]
    cluster.tell(of_flavor("taker", 4, to="r", kind="a", queued=4))
    assert preempted(cluster.cycle(now=4, fair=True)) == {}, "the cohort is within its quota of this flavor"


def test_a_cohort_beyond_its_quota_reclaims_nothing() -> None:
    cluster = halves()
    cluster.tell(of_flavor("mine", 2, to="l", kind="a"), of_flavor("taker", 2, to="r", kind="a"))
    cluster.cycle(now=1, fair=True)
    cluster.tell(of_flavor("loan", 6, to="l", kind="b", queued=2))
    cluster.cycle(now=2, fair=True)
    cluster.tell(of_flavor("more", 4, to="l", kind="a", queued=3))
    assert preempted(cluster.cycle(now=3, fair=True)) == {}


@pytest.mark.parametrize("important", ["left", "right", "queue"])
def test_of_equal_shares_the_lower_priority_goes(important: str) -> None:
    """Three borrow one CPU each below the root: two cohorts and a queue. Whoever has the lowest priority is evicted."""
    sides = {"left": "l", "right": "r", "queue": "q"}
    queues = [
        evicting(queue("l", cohort="left", fa=0), RECLAIM),
        evicting(queue("r", cohort="right", fa=0), RECLAIM),
        evicting(queue("q", cohort="root", fa=0), RECLAIM),
        evicting(queue("owner", cohort="root", fa=3), RECLAIM),
    ]
    for lowest in sides:
        if lowest == important:
            continue
        cluster = Evicting(A, cohort("left", fa=0), cohort("right", fa=0), *queues)
        for name, to in sides.items():
            priority = 0 if name == lowest else 2 if name == important else 1
            cluster.tell(of_flavor(name, 1, to=to, kind="a", priority=priority))
        assert len(admitted(cluster.cycle(now=1, fair=True))) == 3
        cluster.tell(of_flavor("back", 1, to="owner", kind="a", queued=2))
        assert preempted(cluster.cycle(now=2, fair=True)) == {"back": [lowest]}


@pytest.mark.parametrize("newest", ["left", "right", "queue"])
def test_of_equal_shares_and_priorities_the_newest_goes(newest: str) -> None:
    """Whatever the names of the cohorts and queues: who reserved quota last is evicted."""
    sides = {"left": "l", "right": "r", "queue": "q"}
    queues = [
        evicting(queue(name, cohort=parent, fa=quota), RECLAIM)
        for name, parent, quota in (("l", "left", 0), ("r", "right", 0), ("q", "root", 0), ("owner", "root", 3))
    ]
    cluster = Evicting(A, cohort("left", fa=0), cohort("right", fa=0), *queues)
    for name, to in sides.items():
        cluster.tell(of_flavor(name, 1, to=to, kind="a"))
    assert len(admitted(cluster.cycle(now=1, fair=True))) == 3
    for name in sides:
        charged = cluster.ledger.workload(name)
        assert charged is not None
        cluster.ledger.apply(replace(charged, reserved=9.0 if name == newest else 5.0))
    cluster.tell(of_flavor("back", 1, to="owner", kind="a", queued=2))
    assert preempted(cluster.cycle(now=10, fair=True)) == {"back": [newest]}
