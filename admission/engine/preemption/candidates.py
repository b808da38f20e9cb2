"""Who may be evicted for a workload, by which right, and in which order they are considered: cycle.md 4.8.

Only policies are asked here: those of the preemptor's ClusterQueue, and for its relatives the cohort tree. Whether a
relative's workload may still go when others have gone before is decided when its turn comes (classical.py, fair.py).
Called by the searches of this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from admission.engine.decision import Claim
from admission.engine.ledger import Ledger
from admission.engine.model import ClusterQueue, FlavorResource, PlacementRequest, PreemptionPolicy, Workload
from admission.engine.quota import cohorts
from admission.engine.quota.cohorts import Node
from admission.engine.topology.allocation.shares import Booking

Needed = frozenset[FlavorResource]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Who wants what: `usage` in all, of which the `needed` pairs lack room. `requests`: what is placed on a topology.

    `now` is epoch seconds.
    """

    workload: Workload
    queue: ClusterQueue
    node: Node
    usage: Mapping[FlavorResource, int]
    needed: Needed
    requests: Sequence[PlacementRequest]
    now: float

    @property
    def policy(self) -> PreemptionPolicy:
        """What the preemptor's queue allows."""
        return self.queue.preemption

    @property
    def may_borrow(self) -> bool:
        """Whether it may evict relatives' workloads and borrow all the same."""
        return self.policy.borrow_policy != "Never"


class Right(Enum):
    """How a candidate comes to be one. Without borrowing: only if the preemptor does not borrow afterwards."""

    OWN_QUEUE = Claim.IN_CLUSTER_QUEUE, False
    HIERARCHY = Claim.IN_COHORT_RECLAMATION, False
    WITHOUT_BORROWING = Claim.IN_COHORT_RECLAMATION, True
    WHILE_BORROWING = Claim.IN_COHORT_RECLAIM_WHILE_BORROWING, False
    FAIR_SHARING = Claim.IN_COHORT_FAIR_SHARING, False

    @property
    def claim(self) -> Claim:
        """What the eviction is put down to."""
        return self.value[0]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An admitted workload that policy lets go. `top`: the lowest cohort shared with the preemptor, None in its own queue."""

    key: str
    workload: Workload
    node: Node
    usage: Mapping[FlavorResource, int]
    right: Right
    top: Node | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """All of them, each part in the order of `rank`."""

    hierarchical: tuple[Candidate, ...]
    reclaimable: tuple[Candidate, ...]
    own: tuple[Candidate, ...]

    def in_order(self) -> list[Candidate]:
        """Those on their way out already first; then by part."""
        parts = (self.hierarchical, self.reclaimable, self.own)
        return [c for evicted in (True, False) for part in parts for c in part if c.workload.evicted is evicted]


def rank(question: Question, candidate: Candidate) -> tuple[object, ...]:
    """Sorts candidates: evicted already, other queues', low priority, newly started; the UID settles what is equal."""
    workload = candidate.workload
    since = question.now if workload.reserved is None else workload.reserved
    own = candidate.node is question.node
    return (not workload.evicted, own, workload.priority, -since, workload.uid, workload.key)


def find(ledger: Ledger, question: Question) -> Candidates:
    """Classical candidates: of the own queue, and of the relatives that use more than is theirs; elastic: either of them."""
    hierarchical: list[Candidate] = []
    reclaimable: list[Candidate] = []
    others, own = _sides(question)
    if others:
        for top, below, advantage in _rings(question):
            found = _of_relatives(ledger, question, top, below, advantage)
            (hierarchical if advantage else reclaimable).extend(found)
    parts = (hierarchical, reclaimable, of_own_queue(ledger, question) if own else ())
    return Candidates(*(tuple(sorted(part, key=lambda one: rank(question, one))) for part in parts))


def _sides(question: Question) -> tuple[bool, bool]:
    """Whether relatives' workloads may be evicted, and whether own ones may."""
    others = question.policy.reclaim_within_cohort != "Never"
    if not question.policy.elastic:
        return others, True
    within = _covers(question.node, dict(question.usage))
    return others and within, not within


def find_for_fairness(ledger: Ledger, question: Question) -> list[Candidate]:
    """Candidates of fair sharing, in order: of the own queue, and of all queues of the tree that borrow what is needed."""
    found = list(of_own_queue(ledger, question))
    root = question.node.root()
    if question.node.parent is not None and question.policy.reclaim_within_cohort != "Never":
        for node in root.members():
            if node is not question.node and not within_nominal(node, question.needed):
                found += _of_queue(ledger, question, node, Right.FAIR_SHARING, root)
    return sorted(found, key=lambda one: rank(question, one))


def of_own_queue(ledger: Ledger, question: Question) -> Iterator[Candidate]:
    """Candidates of the preemptor's own queue."""
    policy = question.policy.within_cluster_queue
    if policy != "Never":
        for booking in ledger.holders(question.queue.name):
            if allowed(question.workload, booking.workload, policy) and _uses(booking, question.needed):
                yield _candidate(booking, question.node, Right.OWN_QUEUE)


def _candidate(booking: Booking, node: Node, right: Right, top: Node | None = None) -> Candidate:
    return Candidate(booking.workload.key, booking.workload, node, booking.admission.usage(), right, top)


def within_nominal(node: Node, needed: Iterable[FlavorResource]) -> bool:
    """Whether the node uses no more than its quota of each of these."""
    return all(node.usage.get(fr, 0) <= node.subtree.get(fr, 0) for fr in needed)


def _rings(question: Question) -> Iterator[tuple[Node, Node | None, bool]]:
    """Each ancestor, the ancestor before it, and whether the preemptor has precedence there.

    It has where it asks for no more than its queue, or a cohort further down, has left of its own quota.
    """
    left = dict(question.usage)
    advantage = _covers(question.node, left)
    below: Node | None = None
    for top in question.node.ancestors():
        yield top, below, advantage
        advantage = _covers(top, left) or advantage
        below = top


def _covers(node: Node, left: dict[FlavorResource, int]) -> bool:
    """Whether the node's quota covers the requests; takes off what it has left of the part that it lends to nobody."""
    fits = all(node.usage.get(fr, 0) + amount <= node.subtree.get(fr, 0) for fr, amount in left.items())
    for fr in left:
        left[fr] = max(0, left[fr] - cohorts.local_available(node, fr))
    return fits


def _of_relatives(
    ledger: Ledger, question: Question, top: Node, below: Node | None, advantage: bool
) -> Iterator[Candidate]:
    for node in _beyond_nominal(question, top, below):
        for booking in ledger.holders(node.name):
            if (right := _right(question, booking, advantage)) is not None:
                yield _candidate(booking, node, right, top)


def _beyond_nominal(question: Question, cohort: Node, skip: Node | None) -> Iterator[Node]:
    """The queues below the cohort that use more than their quota, as do the cohorts between."""
    for child in cohort.cohorts:
        if child is not skip and not within_nominal(child, question.needed):
            yield from _beyond_nominal(question, child, None)
    for queue in cohort.queues:
        if queue is not question.node and not within_nominal(queue, question.needed):
            yield queue


def _right(question: Question, booking: Booking, advantage: bool) -> Right | None:
    workload, policy = booking.workload, question.policy
    if not _uses(booking, question.needed) or not allowed(question.workload, workload, policy.reclaim_within_cohort):
        return None
    if advantage:
        return Right.HIERARCHY
    threshold = policy.borrow_threshold
    if not question.may_borrow or workload.priority >= question.workload.priority:
        return Right.WITHOUT_BORROWING
    above = threshold is not None and workload.priority > threshold
    return Right.WITHOUT_BORROWING if above else Right.WHILE_BORROWING


def _of_queue(ledger: Ledger, question: Question, node: Node, right: Right, top: Node) -> Iterator[Candidate]:
    for booking in ledger.holders(node.name):
        may_go = allowed(question.workload, booking.workload, question.policy.reclaim_within_cohort)
        if may_go and _uses(booking, question.needed):
            yield _candidate(booking, node, right, top)


def allowed(preemptor: Workload, candidate: Workload, policy: str) -> bool:
    """Whether the policy (a value of withinClusterQueue or reclaimWithinCohort) lets the candidate be evicted."""
    if policy == "Any" or preemptor.priority > candidate.priority:
        return policy != "Never"
    equal = preemptor.priority == candidate.priority
    return policy == "LowerOrNewerEqualPriority" and equal and preemptor.queued < candidate.queued


def _uses(booking: Booking, needed: Needed) -> bool:
    return any(
        (flavor, resource) in needed for got in booking.admission.pod_sets for resource, flavor in got.flavors.items()
    )
