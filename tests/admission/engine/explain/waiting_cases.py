"""Made situations in which more than the ledger keeps `ns/w` waiting: rules, turns, promises, reservations, fellows, checks.

Each is a cluster with what else a decision depends on. What the shell tells of a workload (blocked, backoff, checks) is told
here in the shell's own words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decide import decide
from admission.engine.explain.cycle_decision import DecisionInputs
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    BoundPod,
    DomainCount,
    Event,
    Flavor,
    Gang,
    LevelConstraint,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodFacts,
    PodSet,
    PodSetAdmission,
    PodTerm,
    PreemptionPolicy,
    Quota,
    SliceLayer,
    Spreading,
    StopPolicy,
    TopologyRequest,
    UnansweredCheck,
    Workload,
)
from admission.engine.queue.evictions import EvictedPair
from admission.engine.quota.fairness import FairSharingRules
from api.pod.pod_terms import SelectorRequirement
from tests.admission.engine.builders import CPU, HOST, RACK, STRICT, Cluster, queue, workload
from tests.admission.engine.explain import situations
from tests.admission.engine.explain.situations import BLOCK, IN_A_RACK, W, blocks, tree

RECLAIM = PreemptionPolicy(reclaim_within_cohort="Any")
WITHIN = PreemptionPolicy(within_cluster_queue="LowerPriority")


@dataclass(frozen=True)
class Made:
    """A cluster at `now`, what its cycles go by, and what is known of the workload's checks."""

    cluster: Cluster
    now: float = 0.0
    sharing: FairSharingRules | None = None
    startable: int | None = None
    checks: str = ""

    @property
    def scene(self) -> DecisionInputs:
        return DecisionInputs(self.cluster.queues, self.sharing, self.startable)

    @property
    def workload(self) -> Workload:
        """The one that waits, or has quota."""
        found = self.cluster.queues.workload(W) or self.cluster.ledger.workload(W)
        assert found is not None
        return found

    def cycle(self) -> CycleReport:
        """As the controller makes it."""
        return decide(self.cluster.ledger, self.cluster.queues, self.now, 100, self.sharing, startable=self.startable)


def plain(make: Callable[[], Cluster]) -> Callable[[], Made]:
    """One of the situations of the ledger alone."""

    def made() -> Made:
        return Made(make())

    made.__name__ = make.__name__
    return made


def free(*queues: Event) -> list[Event]:
    """A flavor of two racks, all of it free."""
    return [blocks(), *tree(), *(queues or (queue(tas=100),))]


def told(original: Workload, *events: Event, now: float = 0.0, startable: int | None = None) -> Made:
    """A cluster without any history, and the workload."""
    return Made(Cluster(*events, original), now, startable=startable)


def blocked(reason: str, message: str) -> Made:
    """What keeps it out of the line."""
    return told(replace(workload(W, 1, topology=IN_A_RACK), blocked=(reason, message)), *free())


# ---- the shell holds it


def deactivated() -> Made:
    return blocked("Deactivated", "The workload is deactivated")


def object_missing() -> Made:
    return blocked("WaitingForObjects", "RuntimeClass kata does not exist")


def unsupported_terms() -> Made:
    return blocked("UnsupportedPodTerms", "pod set main: a term that nobody here can judge")


def gated() -> Made:
    return blocked("AdmissionGated", "Admission is gated by: example.com/gate")


def on_hold() -> Made:
    return blocked("OnHold", "The queue holds the workload back")


def owner_not_managed() -> Made:
    return blocked("OwnerNotManaged", "Stowage does not manage workloads of the kind RayJob")


def waits_for_a_claim() -> Made:
    return blocked("WaitingForObjects", 'PersistentVolumeClaim "data" is not bound')


def gang_below_minimum() -> Made:
    return blocked("Suspended", "2 of 3 pods exist")


def no_local_queue() -> Made:
    return blocked("Misconfigured", "LocalQueue q doesn't exist")


def backoff() -> Made:
    return told(replace(workload(W, 1), not_before=90.5), *free(), now=30.0)


def held_for_ever() -> Made:
    return told(replace(workload(W, 1), not_before=inf), *free())


def checks_pending() -> Made:
    made = Made(Cluster(*free(), workload(W, 1, topology=IN_A_RACK)), checks="capacity (no answer yet)")
    made.cycle()
    return made


# ---- the queue does not take it


def stopped_queue() -> Made:
    return told(workload(W, 1), *free(replace(queue(tas=100), stop=StopPolicy.HOLD)))


def inactive_queue() -> Made:
    return told(workload(W, 1), *free(replace(queue(tas=100), inactive="Can't admit: FlavorNotFound")))


CHECKS = (
    UnansweredCheck("prov", "kueue.x-k8s.io/provisioning-request", supported=False),
    UnansweredCheck("licences", "example.com/licences", says="out of service"),
)


def checks_inactive() -> Made:
    """Its checks, of which one is not supported, keep the queue inactive."""
    told_why = "Can't admit new workloads: references inactive AdmissionCheck(s): prov,licences."
    closed = replace(queue(tas=100), inactive=told_why, unanswered=CHECKS, only_checks=True)
    return told(workload(W, 1, topology=IN_A_RACK), *free(closed))


def checks_inactive_as_the_shell_says() -> Made:
    """The same; the controller does not let it queue."""
    made = checks_inactive()
    made.cluster.tell(replace(made.workload, blocked=("Suspended", "ClusterQueue q is inactive")))
    return made


def no_queue() -> Made:
    return told(workload(W, 1, to="nowhere"), *free())


def bad_pods() -> Made:
    return told(replace(workload(W, 1), defect="resources validation failed: requests exceed limits"), *free())


def pods_not_ready() -> Made:
    return told(workload(W, 1, topology=IN_A_RACK), *free(), startable=0)


# ---- quota


def borrowing_limit() -> Made:
    """The cohort has quota free, but the queue may borrow only two."""
    queues = (queue("q", cohort="all", tas=Quota(4 * CPU, 2 * CPU)), queue("o", cohort="all", tas=12))
    return told(workload(W, 8, topology=IN_A_RACK), *free(*queues))


def lent_and_not_reclaimed() -> Made:
    """A relative has borrowed what is the queue's own, and its policy does not let it have that back."""
    queues = (queue("q", cohort="all", tas=8), queue("o", cohort="all", tas=2))
    return plain(lambda: situations.waiting(*free(*queues), workload("ns/b", 6, to="o"), pods=5))()


def lower_priority_stays() -> Made:
    """The queue's own workload of lower priority is in the way, and none may be evicted."""
    used = workload("ns/low", 6)
    made = replace(workload(W, 4, topology=IN_A_RACK, priority=9), queued=9.0)
    return plain(lambda: situations.beside(made, *free(queue(tas=8)), used))()


def fair_share() -> Made:
    """Fair sharing: another queue has borrowed as much as its weight gives it, and nobody else may be evicted for this one."""
    policy = PreemptionPolicy(reclaim_within_cohort="Any")
    queues = tuple(replace(queue(name, cohort="all", tas=2), preemption=policy) for name in ("q", "o", "p"))
    cluster = Cluster(*free(*queues), workload("ns/o", 3, to="o"), workload("ns/p", 3, to="p"))
    made = Made(cluster, sharing=FairSharingRules())
    made.cycle()
    cluster.tell(workload(W, 3, topology=IN_A_RACK, queued=9))
    return made


# ---- others' claims


def evicting() -> Made:
    """It evicts one of lower priority and waits for it to leave."""
    cluster = Cluster(*free(replace(queue(tas=8), preemption=WITHIN)), workload("ns/low", 6), workload("ns/low2", 2))
    made = Made(cluster)
    made.cycle()
    cluster.tell(workload(W, 4, topology=IN_A_RACK, priority=9, queued=9))
    return made


def evicted_too_often() -> Made:
    """It had the same ones evicted twice a moment ago."""
    made = evicting()
    often = (EvictedPair(W, low, (-2.0, -1.0), leaving=False) for low in ("ns/low", "ns/low2"))
    made.cluster.queues.evictions.restore(often)
    return made


def promised_already() -> Made:
    """The same a moment later: the victims have not left yet."""
    made = evicting()
    made.cycle()
    return made


def place_held() -> Made:
    """A rack is held for it that `ns/m` leaves for the other one: four pods of that still run there."""
    moved = DomainCount(("r01-0",), 4)
    there = Assignment((HOSTNAME_LABEL,), (moved,))
    own = PodSetAdmission("main", {"cpu": "tas"}, {"cpu": 4 * CPU}, 4, there)
    mover = replace(workload("ns/m", 4, topology=IN_A_RACK), admission=Admission("q", (own,)))
    pods = [BoundPod(f"ns/m-{n}", "r00-0", {"cpu": CPU}, "ns/m", "main") for n in range(4)]
    made = Made(Cluster(*free(), mover, *pods, workload(W, 8, topology=IN_A_RACK)))
    places = tuple(DomainCount((f"r00-{n}",), 4) for n in range(2))
    taken = PodSetAdmission("main", {"cpu": "tas"}, {"cpu": 8 * CPU}, 8, Assignment((HOSTNAME_LABEL,), places))
    made.cluster.ledger.holds.put(Hold.of(HoldKind.PLACE, made.workload, Admission("q", (taken,))))
    return made


def backfilled(limit: float | None, *, head_only: bool = False) -> Made:
    """A queue with backfill whose head waits for `runs`, which ends at 100; ten CPUs in one rack, six of them taken."""
    flavor = Flavor("any")
    runs = replace(workload("ns/runs", 6), time_limit=100.0)
    cluster = Cluster(flavor, replace(queue(strategy=STRICT, any=10), reserves_starts=True), runs)
    Made(cluster).cycle()
    head = workload(W if head_only else "ns/head", 8, queued=1.0)
    cluster.tell(head)
    made = Made(cluster, now=10.0)
    made.cycle()
    if not head_only:
        cluster.tell(replace(workload(W, 3, queued=2.0), time_limit=limit))
    return made


def behind_a_reservation() -> Made:
    return backfilled(None)


def too_long_for_the_gap() -> Made:
    return backfilled(200.0)


def behind_a_head_without_a_moment() -> Made:
    filled = replace(queue(tas=10), reserves_starts=True)
    running = [workload("ns/a", 6), replace(workload("ns/b", 4), time_limit=60.0)]
    made = Made(Cluster(*free(filled), *running), 10.0)
    made.cycle()
    made.cluster.tell(workload("ns/head", 8, queued=1), replace(workload(W, 4, queued=2), time_limit=100.0))
    made.cycle()
    return made


def head_of_a_backfilled_queue() -> Made:
    return backfilled(None, head_only=True)


def gang_group() -> Made:
    """Of the two gangs that start together one is not there."""
    together = ("ns/other", W)
    made = replace(workload(W, 2, topology=IN_A_RACK), gang=Gang("g", together))
    return told(made, *free())


def gang_group_without_capacity() -> Made:
    """Both are there, and the other one finds no place."""
    together = ("ns/other", W)
    other = replace(workload("ns/other", 9, topology=IN_A_RACK), gang=Gang("g", together))
    made = replace(workload(W, 2, topology=IN_A_RACK), gang=Gang("h", together))
    return told(made, *free(), other)


# ---- the queue ahead


def ahead_in_the_queue() -> Made:
    """One before it in its queue would take what the first that ends leaves; then there is enough for both."""
    running = [workload(f"ns/{name}", 4, queued=at) for at, name in enumerate("ab")]
    made = Made(Cluster(*free(queue(tas=10)), *running))
    made.cycle()
    made.cluster.tell(
        workload("ns/first", 6, topology=IN_A_RACK, queued=5), workload(W, 4, topology=IN_A_RACK, queued=9)
    )
    made.cycle()
    return made


def ahead_of_another_queue() -> Made:
    """The same, but the other one is of higher priority in another queue of the cohort."""
    queues = (queue("q", cohort="all", tas=4), queue("o", cohort="all", tas=6))
    running = [workload(f"ns/{name}", 5, to="o", queued=at) for at, name in enumerate("ab")]
    made = Made(Cluster(*free(*queues), *running))
    made.cycle()
    first = workload("ns/first", 5, to="o", topology=IN_A_RACK, queued=5, priority=9)
    made.cluster.tell(first, workload(W, 4, topology=IN_A_RACK, queued=9))
    made.cycle()
    return made


def ahead_for_nodes() -> Made:
    """The nodes are full, and one before it wants as much of those that come."""
    running = [workload(f"ns/{name}", 8, topology=IN_A_RACK, queued=at) for at, name in enumerate("ab")]
    made = Made(Cluster(*free(), *running))
    made.cycle()
    made.cluster.tell(
        workload("ns/first", 4, topology=IN_A_RACK, queued=5), workload(W, 4, topology=IN_A_RACK, queued=9)
    )
    made.cycle()
    return made


def behind_a_strict_head() -> Made:
    """Nobody overtakes the head of a StrictFIFO queue, which waits for more than there is."""
    made = Made(Cluster(*free(queue(strategy=STRICT, tas=10)), workload("ns/a", 8)))
    made.cycle()
    made.cluster.tell(
        workload("ns/first", 5, topology=IN_A_RACK, queued=5), workload(W, 3, topology=IN_A_RACK, queued=9)
    )
    made.cycle()
    return made


# ---- nodes


def spread_in_a_required_rack() -> Made:
    """The rack has three hosts' worth of room, on two hosts; the pods are to be on three."""
    spread = LevelConstraint(HOST, Spreading.SPREAD, partitions=3, hard=True)
    topology = TopologyRequest(required=RACK, constraints=(spread,))
    return told(workload(W, 6, topology=topology), *free())


def no_such_flavor() -> Made:
    return told(workload(W, 1), *free(queue(gone=100)))


def bad_request() -> Made:
    """Slices of a level wider than the one that is required."""
    topology = TopologyRequest(required=RACK, slices=(SliceLayer(BLOCK, 2),))
    return told(workload(W, 4, topology=topology), *free())


def affinity() -> Made:
    """No host is as its affinity asks."""
    terms = (NodeSelectorTerm(match_expressions=(NodeSelectorRequirement("disk", "In", ("ssd",)),)),)
    pod_set = PodSet("main", 2, {"cpu": CPU}, topology=IN_A_RACK, affinity=terms)
    return told(Workload(W, "uid", "ns/q", "q", (pod_set,)), *free())


def pods_apart() -> Made:
    """Its pods keep each other off the same rack, and all have to be in one."""
    like = PodTerm(RACK, (SelectorRequirement("app", "In", ("w",)),), ("ns",))
    facts = PodFacts("ns", (("app", "w"),), (like,))
    pod_set = PodSet("main", 2, {"cpu": CPU}, topology=IN_A_RACK, facts=facts)
    return told(Workload(W, "uid", "ns/q", "q", (pod_set,)), *free())


def pods_kept_away() -> Made:
    """An admitted workload keeps every other pod of its namespace out of the only block."""
    all_others = PodTerm(BLOCK, (), ("ns",))
    alone = PodSet("main", 1, {"cpu": CPU}, topology=IN_A_RACK, facts=PodFacts("ns", (), (all_others,)))
    made = told(Workload("ns/a", "uid-a", "ns/q", "q", (alone,)), *free())
    made.cycle()
    made.cluster.tell(workload(W, 2, topology=IN_A_RACK))
    return made


def near_nothing() -> Made:
    """It wants to be near pods of which none is bound."""
    near = PodTerm(RACK, (SelectorRequirement("app", "In", ("db",)),), ("ns",))
    pod_set = PodSet("main", 2, {"cpu": CPU}, topology=IN_A_RACK, facts=PodFacts("ns", (), (), (near,)))
    return told(Workload(W, "uid", "ns/q", "q", (pod_set,)), *free())


def leader() -> Made:
    """The workers fit into a rack, but no host of it holds the leader."""
    together = TopologyRequest(required=RACK, group="g")
    pod_sets = (
        PodSet("leader", 1, {"cpu": 5 * CPU}, topology=together),
        PodSet("workers", 4, {"cpu": CPU}, topology=together),
    )
    return told(Workload(W, "uid", "ns/q", "q", pod_sets), *free())


CLAIMS: tuple[Callable[[], Made], ...] = (
    deactivated,
    unsupported_terms,
    object_missing,
    gated,
    on_hold,
    owner_not_managed,
    waits_for_a_claim,
    waits_for_a_claim,
    gang_below_minimum,
    no_local_queue,
    backoff,
    held_for_ever,
    checks_pending,
    stopped_queue,
    inactive_queue,
    checks_inactive,
    checks_inactive_as_the_shell_says,
    no_queue,
    bad_pods,
    pods_not_ready,
    borrowing_limit,
    lent_and_not_reclaimed,
    lower_priority_stays,
    fair_share,
    evicting,
    evicted_too_often,
    promised_already,
    place_held,
    behind_a_reservation,
    too_long_for_the_gap,
    head_of_a_backfilled_queue,
    ahead_in_the_queue,
    ahead_of_another_queue,
    ahead_for_nodes,
    behind_a_strict_head,
    gang_group,
    gang_group_without_capacity,
    spread_in_a_required_rack,
    no_such_flavor,
    bad_request,
    affinity,
    pods_apart,
    pods_kept_away,
    near_nothing,
    leader,
)

ALL: tuple[Callable[[], Made], ...] = (*map(plain, situations.SITUATIONS), *CLAIMS)
