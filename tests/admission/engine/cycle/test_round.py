"""A round as Kueue makes it: one head a queue, who loses to whom, what is remembered and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from admission.engine.decision import Admit, Evict, Preempt, Wait
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Assignment,
    Cohort,
    Counting,
    DomainCount,
    Flavor,
    ObjectRemoved,
    PlacementOptions,
    PreemptionPolicy,
    Profile,
    Quota,
    RemovedKind,
    TopologyRequest,
)
from admission.engine.preemption.preemptor import Preemptor
from tests.admission.engine.builders import CPU, HOST, RACK, STRICT, Cluster, host, queue, racks, workload
from tests.admission.engine.cycle.round import LOST, RoundOptions, RoundReport, run_round

ANY = Flavor("any")
GATES = RoundOptions()
LOWER = PreemptionPolicy(within_cluster_queue="LowerPriority")


class Peer(Cluster):
    """A cluster that makes rounds."""

    def round(self, options: RoundOptions = GATES, failed: Mapping[str, Sequence[str]] | None = None) -> RoundReport:
        """One round; nothing but admissions stays in the book."""
        before = set(self.ledger.admissions)
        report = run_round(self.ledger, self.queues, Preemptor(self.ledger, 0.0), 0.0, options, failed)
        in_ = {d.workload for d in report.decisions if isinstance(d, Admit)}
        assert set(self.ledger.admissions) == before | in_
        assert self.ledger.audit() == []
        return report


def said(report: RoundReport) -> dict[str, str]:
    """What became of each."""
    words: dict[str, str] = {}
    for decision in report.decisions:
        match decision:
            case Admit():
                words[decision.workload] = "admitted"
            case Preempt():
                words[decision.workload] = "evicts " + " ".join(v.workload for v in decision.victims)
            case Wait():
                words[decision.workload] = f"{decision.reason}: {decision.message}"
            case Evict():
                words[decision.workload] = f"{decision.reason}: {decision.message}"
    return words


def test_one_head_a_queue() -> None:
    cluster = Peer(ANY, queue("a", any=5), queue("b", any=5))
    cluster.tell(*(workload(f"{name}{i}", to=name, queued=i) for name in "ab" for i in range(2)))
    assert said(cluster.round()) == {"a0": "admitted", "b0": "admitted"}
    assert said(cluster.round()) == {"a1": "admitted", "b1": "admitted"}


def test_a_head_that_loses_to_another_of_the_round_stays_pending() -> None:
    own = {("any", "cpu"): Quota(4 * CPU)}
    cluster = Peer(ANY, Cohort("all", quotas=own), *(queue(name, cohort="all", any=0) for name in "ab"))
    cluster.tell(workload("a0", 3, to="a", queued=1), workload("b0", 3, to="b", queued=2))
    assert said(cluster.round()) == {"a0": "admitted", "b0": f"WaitingForQuota: {LOST}"}
    assert [w.key for w in cluster.queues.active("b")] == ["b0"]
    assert said(cluster.round())["b0"].startswith("WaitingForQuota: couldn't assign flavors")
    assert [w.key for w in cluster.queues.inadmissible("b")] == ["b0"]


def test_the_search_goes_on_behind_the_flavor_where_it_ended() -> None:
    small, large = racks("small"), racks("large")
    cluster = Peer(small, large, host("s", "r", 1, "small"), host("l", "r", 4, "large"), queue(small=9, large=9))
    cluster.tell(workload("w", 1, 3))
    assert said(cluster.round())["w"].startswith("TopologyPlacementFailed")
    assert [w.key for w in cluster.queues.active("q")] == ["w"], "a flavor is left that it has not tried"
    assert said(cluster.round()) == {"w": "admitted"}


def test_a_search_that_tried_all_flavors_starts_over_when_requeued() -> None:
    flavors = [racks("small"), racks("large")]
    cluster = Peer(*flavors, host("s", "r", 1, "small"), host("l", "r", 1, "large"), queue(small=9, large=9))
    cluster.tell(workload("w", 1, 3))
    cluster.round()
    cluster.round()
    assert [w.key for w in cluster.queues.inadmissible("q")] == ["w"]
    cluster.tell(host("t", "r", 4, "small"))
    cluster.queues.lines.requeue(["q"])
    assert said(cluster.round()) == {"w": "admitted"}


def test_a_preemptor_keeps_its_capacity_until_the_round_ends() -> None:
    specs = [replace(queue("a", cohort="all", any=4), preemption=LOWER), queue("b", cohort="all", any=0)]
    cluster = Peer(ANY, *specs, workload("low", 3, to="a"))
    cluster.round()
    cluster.tell(workload("high", 4, to="a", priority=1), workload("thief", to="b", queued=9))
    assert said(cluster.round()) == {"high": "evicts low", "thief": f"WaitingForQuota: {LOST}"}


def test_without_victims_it_keeps_what_it_could_get_alone() -> None:
    specs = [replace(queue("a", cohort="all", any=4), preemption=LOWER), queue("b", cohort="all", any=0)]
    cluster = Peer(ANY, *specs, workload("equal", 3, to="a"))
    cluster.round()
    cluster.tell(workload("wants", 4, to="a", priority=0, queued=1), workload("thief", to="b", priority=-1, queued=9))
    assert said(cluster.round())["thief"] == f"WaitingForQuota: {LOST}"


def test_a_strict_queue_keeps_its_refused_head() -> None:
    cluster = Peer(ANY, queue(any=2, strategy=STRICT), workload("big", 3, queued=1), workload("small", queued=2))
    assert said(cluster.round())["big"].startswith("ExceedsMaxQuota")
    assert [w.key for w in cluster.queues.active("q")] == ["big", "small"]
    assert cluster.round().decisions == ()


def test_queues_that_cannot_admit_are_passed_over() -> None:
    cluster = Peer(ANY, replace(queue(any=9), inactive="no flavor"), workload("a"))
    assert cluster.round().decisions == ()
    assert [w.key for w in cluster.queues.active("q")] == ["a"]


# ---- nodes that failed


def running(spare: int) -> Peer:
    """One pod on `h1`, which then fails; so many cpus are free on `h2`."""
    cluster = Peer(racks(), host("h1", "r", 2), queue(tas=9))
    cluster.ledger = Ledger(PlacementOptions(counting=Counting.DOMAINS, profile=Profile.COMPATIBLE))
    cluster.tell(
        racks(), host("h1", "r", 2), queue(tas=9), workload("w", 1, 2, topology=TopologyRequest(required=RACK))
    )
    assert said(cluster.round()) == {"w": "admitted"}
    cluster.tell(host("h2", "r", spare))
    cluster.ledger.apply(ObjectRemoved(RemovedKind.NODE, "h1"))
    return cluster


def test_lost_pods_move() -> None:
    cluster = running(2)
    [decision] = cluster.round(failed={"w": ["h1"]}).decisions
    assert isinstance(decision, Admit)
    assert decision.admission.pod_sets[0].assignment == Assignment((HOST,), (DomainCount(("h2",), 1),))


def test_lost_pods_without_another_place_send_the_workload_away() -> None:
    gone = "Workload was evicted as there was no replacement for unhealthy node(s): h1"
    assert said(running(1).round(failed={"w": ["h1"]})) == {"w": f"NodeFailures: {gone}"}
    patient = said(running(1).round(RoundOptions(fail_fast=False), {"w": ["h1"]}))
    assert patient["w"].startswith("TopologyPlacementFailed: couldn't assign flavors to pod set main: ")
