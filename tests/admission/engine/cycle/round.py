"""One round of Kueue's scheduler: one head a queue, all nominated against the same state, then processed in order.

The steps (cycle.md 4.2):

1. *heads*: the foremost workload of each active queue; before them those that hold quota and lost a node (second pass).
2. *nominate*: each by itself, as if it were alone (admission/engine/cycle/nominate.py); the search over flavors goes on where
   its last one ended.
3. *order*: classical, or by fair shares (admission/engine/cycle/heads/tournament.py).
4. *process*, one by one. What was nominated may no longer hold: victims that an earlier one evicts already, or places that
   it took, are looked for again on the same flavors. Then it is admitted, or evicts others, or waits. Who evicts, or would if
   there were anybody to evict, keeps its room from those behind it until the round ends.
5. *requeue*: who lost to another of the same round, or waits for its victims, stays where it is in line; who fits nowhere
   sleeps with its equals, unless flavors are left that it has not tried.

The product does not run this: a cycle (admission/engine/cycle/cycle.py) goes on with the next heads at once. Used by the
conformance suites, where Kueue's answer is wanted to the letter; what it calls is the product's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary, ref

from admission.engine.cycle.heads.tournament import winner
from admission.engine.cycle.kept_quota import keepable, limited
from admission.engine.cycle.nominate import DEFERRED, OVERLAP, Nominator
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.second_pass import second_pass
from admission.engine.decision import PREEMPTION_GATED, Admit, Decision, Preempt, Wait
from admission.engine.flavors.assign import Mode, Preemptions
from admission.engine.flavors.search import Scope, total_requests
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, Assignment, ClusterQueue, DomainCount, StopPolicy, Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.lines import Beside
from admission.engine.queue.notices import NotEvaluated
from admission.engine.queue.positions import Order
from admission.engine.queue.queues import PendingQueues
from admission.engine.reasons import Reason

LOST = "Workload no longer fits after processing another workload"


@dataclass(frozen=True, slots=True)
class RoundOptions:
    """Kueue's gates, with its defaults."""

    fair: bool = False
    partial: bool = True  # PartialAdmission
    victims_again: bool = True  # RecomputeAssignmentUponPreemptionTargetsOverlap
    places_again: bool = True  # TASRecomputeAssignmentWithinSchedulingCycle
    fail_fast: bool = True  # TASFailedNodeReplacementFailFast
    by_priority: bool = True  # PrioritySortingWithinCohort
    nominal_first: bool = True  # FairSharingPrioritizeNonBorrowing
    search_goes_on: bool = True  # FlavorFungibilityPreserveScanProgress


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What a round decided, in order, and what Kueue counts of it, by queue.

    `skipped`: preemptions not carried out; `recomputed`: what came of looking for victims again.
    """

    decisions: tuple[Decision, ...]
    notices: tuple[NotEvaluated, ...]
    skipped: Mapping[str, int]
    recomputed: Mapping[str, Mapping[str, int]]


class _Searches:
    """Where the last flavor search of each workload ended (`FlavorAssignment.tried`). Only Kueue's rounds go on there; without
    `search_goes_on`, the search starts at the first flavor again after its queue is requeued, or capacity of its flavors freed.
    """

    def __init__(self, queues: PendingQueues) -> None:
        self._ended: dict[str, tuple[int, Mapping[tuple[str, str], int]]] = {}
        self._changes: Counter[str] = Counter()
        self._queues, lines = ref(queues), queues.lines
        requeue, quota_freed, capacity_freed = lines.requeue, lines.quota_freed, lines.capacity_freed

        def requeued(names: Collection[str], *, capacity_only: bool = False) -> None:
            self._changes.update(names)
            requeue(names, capacity_only=capacity_only)

        def less_used(names: Collection[str], beside: Beside, left: str = "") -> None:
            self._changes.update(names)
            quota_freed(names, beside, left)

        def more_free(flavors: Collection[str], beside: Beside) -> None:
            self._changes.update(lines.queues_of(flavors))
            capacity_freed(flavors, beside)

        vars(lines).update(requeue=requeued, quota_freed=less_used, capacity_freed=more_free)

    def ended(self, workload: Workload, *, goes_on: bool) -> Mapping[tuple[str, str], int]:
        """Empty: the search starts at the first flavor. `goes_on`: it does not after a change of its queue or its flavors."""
        changes, tried = self._ended.get(workload.key, (-1, {}))
        return tried if goes_on or changes == self._changes[workload.cluster_queue] else {}

    def remember(self, key: str, tried: Mapping[tuple[str, str], int]) -> None:
        """Empty: it starts at the first flavor again."""
        queues = self._queues()
        workload = queues.workload(key) if queues is not None else None
        if tried and workload is not None:
            self._ended[key] = (self._changes[workload.cluster_queue], tried)
        else:
            self._ended.pop(key, None)


_known: WeakKeyDictionary[PendingQueues, _Searches] = WeakKeyDictionary()


def _searches_of(queues: PendingQueues) -> _Searches:
    if queues not in _known:
        _known[queues] = _Searches(queues)
    return _known[queues]


def run_round(
    ledger: Ledger,
    queues: PendingQueues,
    preemptions: Preemptions,
    now: float,
    options: RoundOptions = RoundOptions(),
    failed: Mapping[str, Sequence[str]] | None = None,
) -> RoundReport:
    """One round; `now` is epoch seconds. `failed`: the failed nodes (hostnames) of workloads that hold quota, by key."""
    queues.due(now)
    turn = _Round(
        ledger, queues, Nominator(ledger, preemptions, now, partial=options.partial), options, _searches_of(queues)
    )
    return turn.run(failed or {})


@dataclass(slots=True, eq=False)
class _Round:
    _ledger: Ledger
    _queues: PendingQueues
    _nominator: Nominator
    _options: RoundOptions
    _searches: _Searches
    _evicted: set[str] = field(default_factory=set)
    _held: list[str] = field(default_factory=list)
    _decisions: list[Decision] = field(default_factory=list)
    _skipped: Counter[str] = field(default_factory=Counter)
    _recomputed: dict[str, Counter[str]] = field(default_factory=dict)

    def run(self, failed: Mapping[str, Sequence[str]]) -> RoundReport:
        for key in sorted(failed):
            before = self._ledger.admission(key)
            found = second_pass(self._ledger, key, failed[key], self._options.fail_fast)
            self._decisions += found
            for decision in found:
                if isinstance(decision, Admit) and before is not None:
                    self._keep_lost(key, before, decision.admission)
        entries = [entry for workload in list(self._queues.heads()) if (entry := self._nominate(workload))]
        order = classical(entries, self._options.by_priority)
        if self._options.fair:
            order = fair(entries, self._ledger, self._options.nominal_first)
        for entry in order:
            self._decisions.append(self._process(entry))
        for key in self._held:
            self._ledger.holds.drop(key)
        return RoundReport(
            tuple(self._decisions),
            tuple(self._queues.take_notices()),
            self._skipped,
            self._recomputed,
        )

    def _keep_lost(self, key: str, before: Admission, after: Admission) -> None:
        """The lost pods may still be where they were: nobody gets their places in this round."""
        workload = self._ledger.workload(key)
        left = tuple(
            replace(old, usage={}, assignment=_less(old.assignment, new.assignment))
            for old, new in zip(before.pod_sets, after.pod_sets, strict=True)
        )
        if workload is not None:
            lost = Hold.of(HoldKind.START_RESERVATION, workload, replace(before, pod_sets=left), "lost")
            self._ledger.holds.put(lost)
            self._held.append(lost.key)

    # ---- step 2: nominate

    def _nominate(self, workload: Workload) -> Nomination | None:
        queue = self._queue_of(workload)
        if queue is None or self._ledger.admission(workload.key) is not None:
            return None
        if workload.defect is not None:
            stays = self._queues.refuse(workload.key, Reason.MISCONFIGURED)
            asked = self._requested(workload)
            self._decisions.append(Wait(workload.key, Reason.MISCONFIGURED, workload.defect, stays, asked))
            return None
        tried = self._searches.ended(workload, goes_on=self._options.search_goes_on)
        scope = Scope(tried=tried, fair=self._options.fair)
        return self._nominator.nominate(workload, queue, scope)

    def _queue_of(self, workload: Workload) -> ClusterQueue | None:
        """Its queue, while that is active."""
        queue = self._ledger.quota.spec(workload.cluster_queue)
        if queue is None or queue.inactive is not None or self._ledger.quota.cyclic(queue.name):
            return None
        return queue if queue.stop is StopPolicy.NONE else None

    # ---- step 4: process

    def _process(self, nominated: Nomination) -> Decision:
        entry, deferred = self._refreshed(nominated)
        name = entry.workload.cluster_queue
        if entry.mode is Mode.NO_FIT:
            return self._sleep(entry, entry.assignment.reason)
        if entry.mode < Mode.FIT and not entry.victims:
            self._hold_without_victims(entry)
            return self._sleep(entry, Reason.WAITING_FOR_QUOTA)
        if entry.victims and entry.workload.gated:
            return self._gated(entry)
        if deferred:
            self._hold(entry, entry.admission())
            return self._stay(entry, Reason.WAITING_FOR_PREEMPTED, DEFERRED)
        if self._overlaps(entry):
            self._skipped[name] += 1
            return self._stay(entry, Reason.WAITING_FOR_QUOTA, OVERLAP)
        if not all(self._room(entry)):
            self._skipped[name] += entry.mode < Mode.FIT
            return self._stay(entry, Reason.WAITING_FOR_QUOTA, LOST)
        return self._preempt(entry) if entry.victims else self._admit(entry)

    def _overlaps(self, entry: Nomination) -> bool:
        return any(victim.workload in self._evicted for victim in entry.victims)

    def _room(self, entry: Nomination) -> tuple[bool, bool]:
        """Whether its quota and its places are still there, once all victims so far and its own have left."""
        admission = entry.admission()
        with self._ledger.trial():
            for key in sorted(self._evicted.union(victim.workload for victim in entry.victims)):
                self._ledger.remove_with_pods(key)
            return (
                self._ledger.quota.fits(admission.cluster_queue, entry.assignment.usage),
                self._ledger.placement.fits(entry.workload, admission),
            )

    def _refreshed(self, entry: Nomination) -> tuple[Nomination, bool]:
        """The nomination as it has to be now; and whether it fits as soon as earlier ones' victims have left."""
        if not entry.starts:
            return entry, False
        if self._options.victims_again and self._overlaps(entry):
            with self._ledger.trial():
                for key in sorted(self._evicted):
                    self._ledger.remove_with_pods(key)
                again = self._again(entry)
            deferred = again.mode is Mode.FIT
            outcome = "deferred_fit" if deferred else "new_targets" if again.victims else "skipped"
            self._recomputed.setdefault(entry.workload.cluster_queue, Counter())[outcome] += 1
            return again, deferred
        if self._options.places_again and entry.places:
            quota, places = self._room(entry)
            if quota and not places:
                return self._again(entry), False
        return entry, False

    def _again(self, entry: Nomination) -> Nomination:
        """Nominated anew, on the flavors that it was nominated for."""
        workload = self._queues.workload(entry.workload.key)
        queue = self._ledger.quota.spec(entry.workload.cluster_queue)
        if workload is None or queue is None:
            return entry
        pinned = {
            (pod_set.name, resource): pick.flavor
            for pod_set in entry.assignment.pod_sets
            for resource, pick in pod_set.picks.items()
        }
        return self._nominator.nominate(workload, queue, Scope(pinned=pinned, fair=self._options.fair))

    # ---- outcomes

    def _admit(self, entry: Nomination) -> Admit:
        admission = entry.admission()
        self._ledger.charge(entry.workload, admission)
        self._queues.remove(entry.workload.key)
        return Admit(entry.workload.key, admission, considered=entry.assignment.considered())

    def _preempt(self, entry: Nomination) -> Preempt:
        self._evicted.update(victim.workload for victim in entry.victims)
        self._hold(entry, entry.admission())
        self._searches.remember(entry.workload.key, {})
        message = f"{entry.assignment.message()}. Pending the preemption of {len(entry.victims)} workload(s)"
        return Preempt(entry.workload.key, entry.victims, message, self._requested(entry.workload))

    def _stay(self, entry: Nomination, reason: Reason, message: str) -> Wait:
        """It keeps its place in line; the next search begins at the first flavor again."""
        self._searches.remember(entry.workload.key, {})
        return Wait(entry.workload.key, reason, message, True, self._requested(entry.workload))

    def _sleep(self, entry: Nomination, reason: Reason) -> Wait:
        key, tried = entry.workload.key, entry.assignment.tried
        self._searches.remember(key, tried)
        more = any(index >= 0 for index in tried.values())
        stays = True if more else self._queues.refuse(key, reason)
        return Wait(key, reason, entry.assignment.message(), stays, self._requested(entry.workload))

    def _gated(self, entry: Nomination) -> Wait:
        key = entry.workload.key
        self._searches.remember(key, {})
        stays = self._queues.refuse(key, Reason.ADMISSION_GATED)
        asked = self._requested(entry.workload)
        return Wait(key, Reason.ADMISSION_GATED, PREEMPTION_GATED, stays, asked, gated=True)

    def _requested(self, workload: Workload) -> dict[str, dict[str, int]]:
        queue = self._ledger.quota.spec(workload.cluster_queue) or ClusterQueue(workload.cluster_queue)
        asked = self._queues.workload(workload.key) or workload
        return {pod_set.name: total_requests(queue, pod_set) for pod_set in asked.pod_sets}

    # ---- room that is kept until the round ends

    def _hold(self, entry: Nomination, admission: Admission) -> None:
        self._ledger.holds.put(Hold.of(HoldKind.START_RESERVATION, entry.workload, admission))
        self._held.append(entry.workload.key)

    def _hold_without_victims(self, entry: Nomination) -> None:
        """Keep what it could get without evicting anybody, unless it can have that back from its relatives at any time."""
        queue = self._ledger.quota.spec(entry.workload.cluster_queue)
        if queue is None or queue.preemption.reclaim_within_cohort == "Any":
            return
        amounts = keepable(self._ledger, queue.name, entry.assignment.level, entry.assignment.usage)
        self._hold(entry, limited(entry.admission(), amounts))


def _less(old: Assignment | None, new: Assignment | None) -> Assignment | None:
    """What of the old places the new assignment does not name."""
    if old is None or new is None:
        return None
    kept = {domain.values: domain.count for domain in new.domains}
    counts = ((domain.values, domain.count - kept.get(domain.values, 0)) for domain in old.domains)
    return replace(old, domains=tuple(DomainCount(values, count) for values, count in counts if count > 0))


def classical(nominations: list[Nomination], by_priority: bool = True) -> Iterator[Nomination]:
    """All of them, first to be processed first. `by_priority`: between queues as well as within."""

    def place(each: Nomination) -> tuple[int, Order]:
        priority, since, uid, key = order_of(each.workload)
        return each.assignment.level, (priority if by_priority else 0, since, uid, key)

    yield from sorted(nominations, key=place)


def fair(nominations: list[Nomination], ledger: Ledger, nominal_first: bool = True) -> Iterator[Nomination]:
    """All of them, at most one a queue; each pick sees what became of the ones before.

    `nominal_first`: who stays within quota comes before who borrows, whatever the shares.
    """
    left = {each.workload.cluster_queue: each for each in nominations}
    while left:
        best = winner(left, ledger, nominal_first)
        del left[best.workload.cluster_queue]
        yield best
