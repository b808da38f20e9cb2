"""Determines the workloads that a preemptor may evict, by which rule, and the order in which they are considered.

Only policies decide here (cycle.md 4.8): those of the preemptor's ClusterQueue, and for workloads of other queues also the
cohort tree. Whether a candidate of another queue may still be evicted after earlier candidates is decided during the search
(classical.py, fair.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import chain

from admission.engine.decision import PreemptionReason
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, FlavorResource, PlacementRequest, PreemptionPolicy, Workload
from admission.engine.queue.past_usage import PastUsage
from admission.engine.quota import cohorts
from admission.engine.quota.cohorts import QuotaNode
from admission.engine.topology.allocation.entries import Allocation
from admission.engine.topology.allocation.ranked import Order, RankedAllocation, RankedQueue

Needed = frozenset[FlavorResource]


@dataclass(frozen=True, slots=True, eq=False)
class PreemptionContext:
    """The preemptor and what it needs."""

    workload: Workload
    queue: ClusterQueue
    node: QuotaNode
    usage: Mapping[FlavorResource, int]
    """All quota that it requests."""
    needed: Needed
    """The (flavor, resource) pairs that are short."""
    requests: Sequence[PlacementRequest]
    """The pod sets to place on a topology."""
    now: float
    """In epoch seconds."""
    past: PastUsage | None = None
    """The past usage of LocalQueues; None if it does not count."""
    assignment: FlavorAssignment | None = None
    """The flavors, known where pods are placed."""

    @property
    def policy(self) -> PreemptionPolicy:
        """The preemption policy of the preemptor's queue."""
        return self.queue.preemption

    @property
    def may_borrow(self) -> bool:
        """Reports whether the preemptor may evict workloads of other queues and still borrow (`borrowWithinCohort`)."""
        return self.policy.borrow_policy != "Never"


class PreemptionVariant(Enum):
    """The rule that makes a workload a candidate, as Kueue's preemption variants.

    The second value says whether the rule applies only if the preemptor does not borrow afterwards.
    """

    WITHIN_CLUSTER_QUEUE = PreemptionReason.IN_CLUSTER_QUEUE, False
    HIERARCHICAL_RECLAIM = PreemptionReason.IN_COHORT_RECLAMATION, False
    RECLAIM_WITHOUT_BORROWING = PreemptionReason.IN_COHORT_RECLAMATION, True
    RECLAIM_WHILE_BORROWING = PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING, False
    FAIR_SHARING = PreemptionReason.IN_COHORT_FAIR_SHARING, False

    @property
    def claim(self) -> PreemptionReason:
        """The reason that the eviction is reported with."""
        return self.value[0]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An admitted workload that policy lets the preemptor evict.

    `top`: the lowest cohort that it shares with the preemptor; None in the preemptor's own queue.
    """

    key: str
    workload: Workload
    node: QuotaNode
    usage: Mapping[FlavorResource, int]
    variant: PreemptionVariant
    top: QuotaNode | None = None


@dataclass(frozen=True)
class Candidates:
    """The candidates in three parts, each as the function `in_order` returns it."""

    hierarchical: tuple[Candidate, ...]
    reclaimable: tuple[Candidate, ...]
    own: tuple[Candidate, ...]

    @cached_property
    def in_order(self) -> Sequence[Candidate]:
        """Candidates that are already being evicted first, then part by part."""
        parts = [part for part in (self.hierarchical, self.reclaimable, self.own) if part]
        if len(parts) <= 1:
            return parts[0] if parts else ()
        return [c for evicted in (True, False) for part in parts for c in part if c.workload.evicted is evicted]


def rank(context: PreemptionContext, candidate: Candidate) -> tuple[object, ...]:
    """Returns Kueue's sort key: already evicted, other queues, lowest priority, latest quota reservation; then UID and key."""
    evicted, *order = _order(context, candidate)
    return (evicted, candidate.node is context.node, *order)


def find(ledger: Ledger, context: PreemptionContext) -> Candidates:
    """Returns the candidates of classical preemption: in the preemptor's own queue, and in queues that exceed their quota.

    Under a policy that keeps nominal quotas only one of both groups counts (`_sides`).
    """
    others, own = _sides(context)
    hierarchical: list[_Ranked] = []
    reclaimable: list[_Ranked] = []
    if others:
        for top, below, advantage in _ancestors_with_advantage(context):
            for node in _beyond_nominal(context, top, below):
                policy, variants = context.policy.reclaim_within_cohort, _Reclaiming.of(context, advantage=advantage)
                (hierarchical if advantage else reclaimable).append(
                    _in_queue(ledger, context, node, policy, variants, top)
                )
    policy = context.policy.within_cluster_queue
    mine = [_in_queue(ledger, context, context.node, policy, _within_queue)] if own else []
    return Candidates(*(_merged(ledger, context, part) for part in (hierarchical, reclaimable, mine)))


_Ranked = list[tuple[Order, "Candidate"]]
_Variants = Callable[[int, int], PreemptionVariant]


def _in_queue(
    ledger: Ledger,
    context: PreemptionContext,
    node: QuotaNode,
    policy: str,
    variants: _Variants,
    top: QuotaNode | None = None,
) -> _Ranked:
    """Returns the workloads of the queue that policy lets the preemptor evict, in order, each with what orders it.

    `variants` gives the rule by the priorities of the preemptor and of the workload.
    """
    if policy == "Never":
        return []
    preemptor, (queue, keys) = context.workload, ledger.ranked(node.name)
    if not queue.plain or preemptor.priority_elsewhere is not None:
        return _compared_alone(ledger, context, node, policy, variants, top)
    filtered = any(covers.isdisjoint(context.needed) for covers in queue.covers)
    newer = preemptor.queued if policy == "LowerOrNewerEqualPriority" else None
    question = (policy, preemptor.lowest_priority, newer, variants, node, top, context.needed if filtered else None)
    if ledger.reserved.nodes or ledger.bound.exceeding:
        return _evictable(ledger, context, queue, keys, question)
    return queue.answer(question, keys, lambda: _evictable(ledger, context, queue, keys, question))


_Question = tuple[str, int, float | None, _Variants, QuotaNode, QuotaNode | None, Needed | None]
"""All that decides which workloads of a queue may be evicted: policy, priority of the preemptor and when it was queued (None if
that does not matter), the rule by priorities, the nodes, and what is short (None if all workloads have some of it).
"""


def _evictable(
    ledger: Ledger, context: PreemptionContext, queue: RankedQueue, keys: Set[str], question: _Question
) -> _Ranked:
    policy, own, queued, variants, node, top, needed = question
    line: Iterable[RankedAllocation] = queue.line if policy == "Any" else queue.below(own)
    if queued is not None:
        newer = (each for each in queue.of(own) if queued < each.allocation.workload.queued)
        line = sorted((*line, *newer), key=lambda each: each.order)
    if needed is not None:
        line = (each for each in line if not each.covers.isdisjoint(needed))
    reserved, exceeding = bool(ledger.reserved.nodes), ledger.bound.exceeding
    ranked: _Ranked = []
    for each in line:
        if each.key not in keys:
            continue
        variant, candidate = variants(own, each.order[1]), each.candidate
        if reserved or each.key in exceeding:
            candidate = _candidate(ledger, context.workload, each.allocation, node, variant, top)
        elif (
            not isinstance(candidate, Candidate)
            or candidate.variant is not variant
            or candidate.node is not node
            or candidate.top is not top
        ):
            candidate = Candidate(each.key, each.allocation.workload, node, each.usage, variant, top)
            each.candidate = candidate
        ranked.append((each.order, candidate))
    return ranked


def _compared_alone(
    ledger: Ledger,
    context: PreemptionContext,
    node: QuotaNode,
    policy: str,
    variants: _Variants,
    top: QuotaNode | None,
) -> _Ranked:
    """Does what `_in_queue` does where the order or the priorities are not the same for all preemptors."""
    ranked: _Ranked = []
    for allocation in ledger.charged_to(node.name):
        if allowed(context.workload, allocation.workload, policy) and _uses(allocation, context.needed):
            variant = variants(*compared_priorities(context.workload, allocation.workload))
            candidate = _candidate(ledger, context.workload, allocation, node, variant, top)
            ranked.append((_order(context, candidate), candidate))
    return sorted(ranked, key=lambda each: each[0])


def _merged(ledger: Ledger, context: PreemptionContext, parts: Sequence[_Ranked]) -> tuple[Candidate, ...]:
    """Returns the candidates of several queues in order."""
    ranked = parts[0] if len(parts) == 1 else sorted(chain.from_iterable(parts), key=lambda each: each[0])
    return tuple(_by_usage(ledger, context, [candidate for _, candidate in ranked]))


def _order(context: PreemptionContext, candidate: Candidate) -> Order:
    """Returns what orders the candidates of other queues, and of the preemptor's own queue, among themselves."""
    workload = candidate.workload
    since = context.now if workload.reserved is None else workload.reserved
    return not workload.evicted, workload.priority, -since, workload.uid, workload.key


def in_order(ledger: Ledger, context: PreemptionContext, some: Iterable[Candidate]) -> list[Candidate]:
    """Returns the candidates by `rank`. Where past usage orders a ClusterQueue, those of its LocalQueue with most usage come
    first (cycle.md 4.8): they keep the places of all its candidates, since usage says nothing about other ClusterQueues.
    """
    return _by_usage(ledger, context, sorted(some, key=lambda candidate: rank(context, candidate)))


def _by_usage(ledger: Ledger, context: PreemptionContext, ranked: list[Candidate]) -> list[Candidate]:
    if (past := context.past) is None:
        return ranked
    places: dict[tuple[str, bool], list[int]] = {}
    for place, one in enumerate(ranked):
        if (spec := ledger.quota.spec(one.node.name)) is not None and spec.by_usage:
            places.setdefault((one.node.name, one.workload.evicted), []).append(place)
    for kept in places.values():
        members = sorted((ranked[place] for place in kept), key=lambda candidate: -past.usage(candidate.workload.queue))
        for place, one in zip(kept, members, strict=True):
            ranked[place] = one
    return ranked


def _sides(context: PreemptionContext) -> tuple[bool, bool]:
    """Returns whether workloads of other queues, and of the preemptor's own queue, may be evicted."""
    others = context.policy.reclaim_within_cohort != "Never"
    if not context.policy.keeps_nominal:
        return others, True
    within = _covers(context.node, dict(context.usage))
    return others and within, not within


def find_for_fairness(ledger: Ledger, context: PreemptionContext) -> list[Candidate]:
    """Returns the candidates of fair sharing, in order: the own queue, and every queue of the tree that borrows what is
    needed.
    """
    candidates = list(of_own_queue(ledger, context))
    root = context.node.root()
    if context.node.parent is not None and context.policy.reclaim_within_cohort != "Never":
        for node in root.members():
            if node is not context.node and not within_nominal(node, context.needed):
                candidates += _of_queue(ledger, context, node, PreemptionVariant.FAIR_SHARING, root)
    return in_order(ledger, context, candidates)


def of_own_queue(ledger: Ledger, context: PreemptionContext) -> Iterator[Candidate]:
    """Yields the candidates of the preemptor's own queue."""
    policy = context.policy.within_cluster_queue
    if policy != "Never":
        for allocation in ledger.charged_to(context.queue.name):
            if allowed(context.workload, allocation.workload, policy) and _uses(allocation, context.needed):
                yield _candidate(
                    ledger, context.workload, allocation, context.node, PreemptionVariant.WITHIN_CLUSTER_QUEUE
                )


def _candidate(
    ledger: Ledger,
    preemptor: Workload,
    allocation: Allocation,
    node: QuotaNode,
    variant: PreemptionVariant,
    top: QuotaNode | None = None,
) -> Candidate:
    """Returns the candidate; its workload has the priority that counts against the preemptor."""
    workload, usage = allocation.workload, ledger.returned(allocation.workload.key, allocation.admission)
    _, priority = compared_priorities(preemptor, workload)
    seen = workload if priority == workload.priority else replace(workload, priority=priority)
    return Candidate(workload.key, seen, node, usage, variant, top)


def within_nominal(node: QuotaNode, needed: Iterable[FlavorResource]) -> bool:
    """Reports whether the node's admitted workloads use no more than its quota of each of these.

    Quota that is kept for pending workloads does not count: nobody is evicted for what others wait for.
    """
    return all(cohorts.admitted(node, fr) <= node.subtree.get(fr, 0) for fr in needed)


def _ancestors_with_advantage(context: PreemptionContext) -> Iterator[tuple[QuotaNode, QuotaNode | None, bool]]:
    """Yields each ancestor of the queue, the ancestor below it, and whether the preemptor has a hierarchical advantage there.

    It has the advantage if its request fits the unused quota of its queue or of a lower cohort.
    """
    left = dict(context.usage)
    advantage = _covers(context.node, left)
    below: QuotaNode | None = None
    for top in context.node.ancestors():
        yield top, below, advantage
        advantage = _covers(top, left) or advantage
        below = top


def _covers(node: QuotaNode, left: dict[FlavorResource, int]) -> bool:
    """Reports whether the node's quota covers the requests; subtracts what the node covers from quota that it does not lend."""
    fits = all(node.usage.get(fr, 0) + amount <= node.subtree.get(fr, 0) for fr, amount in left.items())
    for fr in left:
        left[fr] = max(0, left[fr] - cohorts.local_available(node, fr))
    return fits


def _beyond_nominal(context: PreemptionContext, cohort: QuotaNode, skip: QuotaNode | None) -> Iterator[QuotaNode]:
    """Yields the queues below the cohort that exceed their quota, reached through cohorts that exceed theirs."""
    for child in cohort.cohorts:
        if child is not skip and not within_nominal(child, context.needed):
            yield from _beyond_nominal(context, child, None)
    for queue in cohort.queues:
        if queue is not context.node and not within_nominal(queue, context.needed):
            yield queue


@dataclass(frozen=True, slots=True)
class _Reclaiming:
    """The rule for a workload of another queue, by the priorities of the preemptor and of that workload."""

    advantage: bool
    may_borrow: bool
    threshold: int | None

    @classmethod
    def of(cls, context: PreemptionContext, *, advantage: bool) -> _Reclaiming:
        return cls(advantage, context.may_borrow, context.policy.borrow_threshold)

    def __call__(self, own: int, other: int) -> PreemptionVariant:
        if self.advantage:
            return PreemptionVariant.HIERARCHICAL_RECLAIM
        if not self.may_borrow or other >= own:
            return PreemptionVariant.RECLAIM_WITHOUT_BORROWING
        above = self.threshold is not None and other > self.threshold
        return PreemptionVariant.RECLAIM_WITHOUT_BORROWING if above else PreemptionVariant.RECLAIM_WHILE_BORROWING


def _within_queue(_own: int, _other: int) -> PreemptionVariant:
    return PreemptionVariant.WITHIN_CLUSTER_QUEUE


def _of_queue(
    ledger: Ledger, context: PreemptionContext, node: QuotaNode, variant: PreemptionVariant, top: QuotaNode
) -> Iterator[Candidate]:
    for allocation in ledger.charged_to(node.name):
        may_evict = allowed(context.workload, allocation.workload, context.policy.reclaim_within_cohort)
        if may_evict and _uses(allocation, context.needed):
            yield _candidate(ledger, context.workload, allocation, node, variant, top)


def allowed(preemptor: Workload, candidate: Workload, policy: str) -> bool:
    """Reports whether the policy (a value of withinClusterQueue or reclaimWithinCohort) lets the candidate be evicted."""
    own, other = compared_priorities(preemptor, candidate)
    if policy == "Any" or own > other:
        return policy != "Never"
    equal = own == other
    return policy == "LowerOrNewerEqualPriority" and equal and preemptor.queued < candidate.queued


def compared_priorities(preemptor: Workload, candidate: Workload) -> tuple[int, int]:
    """Returns the priorities of the two that are compared for an eviction.

    A priority that a user wrote for their own gang, which no right guards, counts among the gangs of their namespace only;
    elsewhere the pods' PriorityClass counts, for and against the gang.
    """
    if preemptor.gang is not None and candidate.gang is not None and preemptor.namespace == candidate.namespace:
        return preemptor.priority, candidate.priority
    return preemptor.lowest_priority, candidate.lowest_priority


def _uses(allocation: Allocation, needed: Needed) -> bool:
    return any(
        (flavor, resource) in needed
        for got in allocation.admission.pod_sets
        for resource, flavor in got.flavors.items()
    )
