"""One admission cycle: which pending workloads start now, with which flavors, on which nodes, and which victims they evict.

The cycle repeats these steps until nothing more fits or its budget is spent:

1. *heads*: the first workload of each queue that is worth evaluating (queue/).
2. *order*: the head that borrows least, then has the highest priority, then is the oldest; or fair shares (head_order.py).
3. *flavors* and *quota*: solve.py. If they do not fit, go to step 6.
4. *place*: domains for the pod sets of the head (solve.py). If there are none, the flavor that failed is refused and step 3
   tries the next one. If not even an empty cluster has room, the message counts the capacity of an empty cluster.
5. *admit*: the ledger is charged at once, and the next workload of the queue becomes a head (outcomes.py). Workloads that
   start together go through steps 3 to 5 as one: all of them or none (features/).
6. *make room*: a head whose queue may preempt, or that can start with fewer pods, is nominated (nominate.py) against the
   ledger as it will be when the victims of earlier preemptors have left and their reservations are used.
   - *preempt*: the victims are evicted. Their capacity is reserved for the head in this cycle and the next ones, until
     a change requeues the head. Later workloads start only if they fit both now and then.
   - *wait*: a BestEffortFIFO queue goes on with its next workload. A StrictFIFO queue stops; if it cannot reclaim the quota
     that it lends, its unused quota is kept from borrowers (kept_quota.py).

Each admission is decided on the ledger that the earlier ones left, so a cycle with several admissions decides as a row of
cycles with one each. Usage only grows during a cycle: what does not fit now does not fit later in the same cycle. The shell
writes the decisions. If a write fails, it calls `ledger.release` and puts the workload back into the queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from admission.engine.cycle.feature import CycleParts, Features, Turn
from admission.engine.cycle.fewer_pods import spare_pods
from admission.engine.cycle.heads.head_hints import HeadHints
from admission.engine.cycle.heads.head_order import ClassicalOrder, FairOrder, Head, HeadOrder
from admission.engine.cycle.kept_quota import KeptQuota, keeps
from admission.engine.cycle.nominate import DEFERRED, Nominator
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.outcomes import Outcomes, requested
from admission.engine.cycle.reservations import Reservations
from admission.engine.cycle.solve import flavors_of, place, refusals
from admission.engine.decision import PREEMPTION_GATED, Admit, Decision, PlacementResult, Preempt, Wait
from admission.engine.flavors.assign import FlavorAssignment, Mode, NoPreemption, Preemptions
from admission.engine.flavors.search import QuotaQueries, Scope
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, PlacementRequest, StopPolicy, Workload
from admission.engine.preemption.projected_quota import reclaimable_beside
from admission.engine.queue.notices import NotEvaluated
from admission.engine.queue.queueing_hints import NOTHING_HELPS, USAGE_MAY_HELP, QueueingHint
from admission.engine.queue.queues import PendingQueues
from admission.engine.reasons import Reason
from admission.engine.requests import placement_requests, relaxes
from admission.engine.spare_quota import shortage, within_quota


@dataclass(frozen=True, slots=True)
class CycleReport:
    """The decisions of a cycle, in order."""

    decisions: tuple[Decision, ...]
    notices: tuple[NotEvaluated, ...]
    """For workloads that were not evaluated: blocked, or equivalent to one that was just refused."""
    more: bool
    """True if the budget ended the cycle and heads are left."""
    undecided: tuple[tuple[Workload, Exception], ...] = ()
    """Workloads whose evaluation raised an exception; they are no longer in the queues."""

    @property
    def admitted(self) -> int:
        """The number of admitted workloads."""
        return sum(isinstance(decision, Admit) for decision in self.decisions)

    @property
    def waiting(self) -> int:
        """The number of evaluated workloads that do not fit."""
        return sum(isinstance(decision, Wait) for decision in self.decisions)


def run_cycle(
    ledger: Ledger,
    queues: PendingQueues,
    now: float,
    budget: int,
    preemptions: Preemptions | None = None,
    *,
    fair: bool = False,
    startable: int | None = None,
    features: Features | None = None,
) -> CycleReport:
    """Decides on up to `budget` workloads (at least one), admissions and waits together. `now` is epoch seconds.

    Without `preemptions` no workload is evicted. `fair`: fair sharing is on. `startable` limits how many workloads may start,
    because each must have its pods ready before the next one starts (lifecycle.md 3.6); None means no limit. Without `features`
    nothing that is held is used.
    """
    queues.due(now)
    cycle = _Cycle(ledger, queues, now, preemptions or NoPreemption(ledger.quota), fair, startable, features)
    decisions = cycle.run(max(1, budget))
    return CycleReport(tuple(decisions), tuple(queues.take_notices()), cycle.more(), tuple(cycle.undecided))


class _Cycle:
    """One cycle: evaluates one head after the other and leaves the consequences to `Outcomes`."""

    def __init__(
        self,
        ledger: Ledger,
        queues: PendingQueues,
        now: float,
        preemptions: Preemptions,
        fair: bool,
        startable: int | None,
        features: Features | None,
    ) -> None:
        self._ledger, self._queues, self._now, self._fair = ledger, queues, now, fair
        self._features = features or Features()
        self._preemptions = preemptions
        self._no_preemption = NoPreemption(ledger.quota)
        self._nominator = Nominator(ledger, preemptions, now, thorough=True)
        self._of_one_flavor = Nominator(ledger, preemptions, now)
        self._reservations = Reservations(ledger, queues, fair=fair)
        self._kept = KeptQuota(ledger, queues, fair=fair)
        reserved = self._reservations.concerns
        self._order: HeadOrder = FairOrder(ledger, self._find_flavors) if fair else ClassicalOrder(ledger, reserved)
        self._hints = HeadHints(ledger, self._reservations, preemptions, fair=fair)
        steps = self._order, self._reservations, self._kept, self._features
        self._outcomes = Outcomes(ledger, queues, now, *steps, startable=startable, fair=fair)
        self._parts = CycleParts(
            now,
            fair,
            preemptions,
            self._order,
            self._reservations,
            self._outcomes,
            self._features.refusal,
            self._cannot_evaluate,
        )
        self.undecided: list[tuple[Workload, Exception]] = []
        for workload in list(queues.heads()):  # what one of them requeues has its turn in the next cycle
            self._outcomes.enter(workload)

    def more(self) -> bool:
        return len(self._order) > 0 or self._outcomes.requeued or self._features.requeued

    def run(self, budget: int) -> list[Decision]:
        decisions: list[Decision] = []
        try:
            while len(decisions) < budget and (head := self._order.next()) is not None:
                # The capacity of a preemptor was freed before a head of its cohort began to keep quota.
                if head.first is None and (holding_heads := self._kept.hold_until(head.level, head.order)):
                    self._order.again(head)  # with less quota left, other heads may come first
                    for name in holding_heads:
                        self._order.usage_grown(name)
                    continue
                self._reservations.hold_until(self._level(head), head.order)
                self._reservations.hold_from(head.workload)
                try:
                    decided = self._consider(head)
                except Exception as error:  # noqa: BLE001 - whatever one workload causes, the others are decided on
                    self._give_up(head, error)
                    continue
                decisions += decided
                if not decided and not head.settled:
                    self._reservations.restore(head.workload)
        finally:
            self._reservations.end()
            self._kept.end()
            self._outcomes.end()
            for relatives in {self._ledger.quota.relatives(name): None for name in sorted(self._outcomes.borrowers)}:
                self._outcomes.requeued |= self._queues.lines.quota_taken(
                    relatives, partial(reclaimable_beside, self._ledger)
                )
        return decisions

    def _give_up(self, head: Head, error: Exception) -> None:
        """Takes a workload whose evaluation raised an exception out of the queues."""
        self.undecided.append((head.workload, error))
        self._queues.remove(head.workload.key)
        if not head.settled:
            self._outcomes.settle(head)

    def _level(self, head: Head) -> int:
        """Returns the borrowing level up to which this head's turn counts: that of its reservation if the head comes first
        because of it.

        Its turn does not bar owners that were queued later and come before it: they evicted workloads for the same capacity,
        so barring their reservations would make these evictions useless.
        """
        if head.first is None or (reservation := self._reservations.free(head.workload)) is None:
            return head.level
        return reservation.level

    # ---- step 3: flavors and quota

    def _consider(self, head: Head) -> Sequence[Decision]:
        """Returns the decisions of a head's turn, its own first; none if its evaluation shows that other heads come first."""
        workload, turn = head.workload, self._features.turn(head.workload)
        with self._ledger.bound.lifted(workload.key), turn.draws:
            self._reservations.drop_for(workload)
            if self._ledger.admission(workload.key) is not None:
                self._queues.remove(workload.key)
                self._outcomes.settle(head)
                return ()
            queue = self._ledger.quota.spec(workload.cluster_queue)
            if queue is None:
                absent = f"ClusterQueue {workload.cluster_queue} not found"
                return (self._outcomes.wait(head, queue, Reason.MISCONFIGURED, absent),)
            if (cannot_evaluate := self._cannot_evaluate(workload, queue)) is not None:
                return (self._outcomes.wait(head, queue, *cannot_evaluate, hint=NOTHING_HELPS),)
            if turn.decide is not None:
                return turn.decide(head, queue, self._parts)
            decision = self._decide(head, queue, turn)
            return () if decision is None else (decision,)

    def _decide(self, head: Head, queue: ClusterQueue, turn: Turn) -> Decision | None:
        """Returns the decision on a head that can be evaluated; None if other heads come first."""
        workload = head.workload
        if self._queues.stays_inadmissible(workload.key, self._hints.free(queue)):
            self._outcomes.stay_inadmissible(head)
            return None
        assignment = self._assign(head, queue)
        if assignment.mode < Mode.FIT or not self._reservations.leave_quota_for(queue.name, assignment):
            if turn.instead_of_room is not None:
                return self._outcomes.wait(head, queue, *turn.instead_of_room)
            return self._make_room(head, queue, assignment, turn)
        if self._order.goes_back(head, assignment.level):
            return None
        return self._place(head, queue, assignment, turn)

    def _cannot_evaluate(self, workload: Workload, queue: ClusterQueue) -> tuple[Reason, str] | None:
        """Returns why the workload cannot be evaluated, whatever capacity is free; None if it can."""
        if queue.stop is not StopPolicy.NONE or queue.inactive is not None or self._ledger.quota.cyclic(queue.name):
            return Reason.SUSPENDED, f"ClusterQueue {queue.name} is inactive"
        return None if workload.defect is None else (Reason.MISCONFIGURED, workload.defect)

    def _find_flavors(self, head: Head) -> None:
        """Finds the flavors of a head before its turn, unless it cannot be evaluated at all."""
        workload, queue = head.workload, self._ledger.quota.spec(head.queue)
        has_quota = self._ledger.admission(workload.key) is not None
        if queue is not None and not has_quota and self._cannot_evaluate(workload, queue) is None:
            # A head that cannot be evaluated comes next at once, and raises there.
            with suppress(Exception), self._ledger.bound.lifted(workload.key):
                turn = self._features.turn(workload)
                with turn.draws, turn.search:
                    self._assign(head, queue)

    def _assign(self, head: Head, queue: ClusterQueue) -> FlavorAssignment:
        """Returns the flavors of the head on the ledger as it stands.

        They are kept until its turn, or until `HeadOrder.taken` drops them.
        """
        if head.assignment is None:
            oracle = self._preemptions.about(head.workload) if queue.preemption.evicts else self._no_preemption
            scope, head.queries = Scope(head.refused, fair=self._fair), QuotaQueries()
            if head.searched_at != self._ledger.quota.changes:
                head.searches.clear()
            head.assignment = flavors_of(self._ledger, head.workload, queue, scope, oracle, head.queries, head.searches)
            head.searched_at = self._ledger.quota.changes
        return head.assignment

    # ---- step 4: place

    def _place(self, head: Head, queue: ClusterQueue, assignment: FlavorAssignment, turn: Turn) -> Decision | None:
        requests = placement_requests(head.workload, queue, assignment, self._ledger.flavors, self._now)
        if (refusal := self._ledger.placement.refusal(requests)) is not None:
            self._refuse(head, requests, refusal)
            return None
        result = place(self._ledger, requests)
        beside = within_quota(self._ledger, head.workload, assignment, requests, result)
        if result.fits and not beside.fits and len(queue.flavors) == 1:
            if queue.preemption.evicts:
                return self._make_room(head, queue, assignment, turn)
            return self._outcomes.wait(head, queue, Reason.WAITING_FOR_QUOTA, shortage(head.workload))
        result = beside
        if result.fits:
            return self._outcomes.start(head, queue, Nomination(head.workload, assignment, result.assignments))
        self._refuse(head, requests, result)
        return None

    def _refuse(self, head: Head, requests: Sequence[PlacementRequest], result: PlacementResult) -> None:
        """Refuses the flavors whose nodes have no room, and puts the head back into the order."""
        empty = place(self._ledger, requests, empty=True)
        head.fits_nowhere &= not empty.fits
        lasting = {name: empty.failures.get(name, failure) for name, failure in result.failures.items()}
        head.refused.update(refusals(requests, lasting))
        head.assignment = None
        self._order.again(head)

    # ---- step 6: make room, or wait

    def _make_room(self, head: Head, queue: ClusterQueue, assignment: FlavorAssignment, turn: Turn) -> Decision | None:
        """Decides on a head that does not fit now: reservation, fewer pods, preemption, or a wait."""
        workload = head.workload
        if (start := self._start_reserved(head, queue)) is not None:
            return start
        if turn.room is not None and (decision := turn.room(head, queue, assignment, self._parts)) is not None:
            return decision
        fewer = any(p.min_count is not None and p.min_count < p.count for p in workload.pod_sets)
        head.never_fits = not fewer and self._never_fits(head, queue)
        # flavors whose nodes are too full count as no fit by now, but nodes can be emptied as well as quota
        may_help = queue.preemption.evicts and (assignment.mode > Mode.NO_FIT or bool(head.refused))
        if assignment.mode < Mode.FIT and not fewer and not may_help:
            hint = self._hints.of(workload, queue, assignment) or (USAGE_MAY_HELP if queue.preemption.evicts else None)
            keep = self._flavors_to_keep(head, queue, assignment)
            return self._outcomes.wait(head, queue, assignment.reason, assignment.message(), hint=hint, keep=keep)
        known, beyond = None, False
        beside = workload.asks_beside  # no hint counts its quota
        if queue.preemption.evicts and not head.refused and not beside:
            known, beyond = self._hints.beside_reservations(workload, queue, assignment)
        found = self._nominator.at_once(workload, queue, known) if known is not None else None
        if found is None:
            with self._reservations.afterwards(queue.name, nodes=fewer or not beyond):
                nominator = self._of_one_flavor if head.never_fits else self._nominator
                found = nominator.nominate(workload, queue, Scope(fair=self._fair), known)
        if not found.starts:
            reported = found.assignment if assignment.mode is Mode.FIT or found.fits_nowhere else assignment
            reason = Reason.TOPOLOGY_PLACEMENT_FAILED if found.fits_nowhere else reported.reason
            hint = None
            if known is not None and not fewer and not found.fits_nowhere:
                hint = self._hints.hint_without_victims(workload, queue, known, beyond)
            keep = None if found.fits_nowhere else self._flavors_to_keep(head, queue, assignment)
            return self._outcomes.wait(head, queue, reason, reported.message(), hint=hint, keep=keep)
        if self._order.goes_back(head, found.assignment.level):
            return None
        needs = None if head.refused or fewer or beside else self._hints.hint_before_victims_leave(queue, assignment)
        if found.victims:
            return self._preempt(head, queue, found, needs)
        if self._reservations.must_wait(found):
            return self._defer(head, queue, found, needs)
        return self._outcomes.start(head, queue, found)

    def _never_fits(self, head: Head, queue: ClusterQueue) -> bool:
        """Reports whether all flavors were refused because not even nodes without workloads have room, and nothing can change
        that for this head: neither fewer pods, nor another level, nor the end of a reservation.
        """
        workload = head.workload
        if not head.fits_nowhere or not {flavor for _, flavor in head.refused} >= set(queue.flavors):
            return False
        flavors = (self._ledger.flavors.get(name) for name in queue.flavors)
        fixed = len(workload.pod_sets) == 1 and not (spare_pods(workload) or relaxes(workload) or workload.replaces)
        bound = bool(self._reservations) or bool(workload.reservation) or workload.asks_beside
        return fixed and not bound and not any(flavor is None or flavor.node_holds for flavor in flavors)

    def _defer(
        self, head: Head, queue: ClusterQueue, nomination: Nomination, needs: QueueingHint | None = None
    ) -> Wait:
        """Makes a head wait that fits once the victims of other preemptors have left."""
        self._outcomes.reserve(head, nomination, self._reservations.leaving, needs=needs)
        return Wait(head.workload.key, Reason.WAITING_FOR_PREEMPTED, DEFERRED, True, requested(head.workload, queue))

    def _start_reserved(self, head: Head, queue: ClusterQueue) -> Decision | None:
        """Starts a head whose victims have left with what fits now, without further evictions; None if it does not fit."""
        if self._reservations.free(head.workload) is None:
            return None
        started = self._start_beside_others(head, queue)
        if started is None:
            self._outcomes.release(head.workload)
        return started

    def _start_beside_others(self, head: Head, queue: ClusterQueue) -> Decision | None:
        """Starts a head without evictions, with fewer pods if need be; None if it does not fit."""
        nominator = Nominator(self._ledger, self._no_preemption, self._now, thorough=True)
        with self._reservations.afterwards(queue.name):
            found = nominator.nominate(head.workload, queue, Scope(fair=self._fair))
        if not found.starts:
            return None
        if self._reservations.must_wait(found):  # it counts on what the victims of other preemptors leave
            fewer = nominator.nominate(head.workload, queue, Scope(fair=self._fair))
            if not fewer.starts or not self._reservations.leave_quota_for(queue.name, fewer.assignment):
                return self._defer(head, queue, found)
            found = fewer
        return self._outcomes.start(head, queue, found)

    def _flavors_to_keep(
        self, head: Head, queue: ClusterQueue, assignment: FlavorAssignment
    ) -> FlavorAssignment | None:
        """Returns the flavors in which a refused head keeps quota. Includes flavors whose nodes are full now but could hold it
        when workloads leave.
        """
        if not head.refused or not keeps(queue):
            return assignment
        if head.fits_nowhere:
            return None
        return flavors_of(self._ledger, head.workload, queue, Scope(fair=self._fair))

    def _preempt(self, head: Head, queue: ClusterQueue, nomination: Nomination, needs: QueueingHint | None) -> Decision:
        if (refusal := self._features.refusal(nomination)) is not None:
            return self._outcomes.wait(head, queue, *refusal)
        if head.workload.gated:
            return self._outcomes.wait(head, queue, Reason.ADMISSION_GATED, PREEMPTION_GATED, gated=True)
        if (repeated := self._outcomes.too_often(head, nomination.victims)) is not None:
            return self._start_beside_others(head, queue) or self._outcomes.wait_to_evict_again(head, queue, *repeated)
        victims = frozenset(victim.workload for victim in nomination.victims)
        self._outcomes.reserve(head, nomination, victims, needs=needs, evicts=True)
        message = f"{nomination.assignment.message()}. Pending the preemption of {len(victims)} workload(s)"
        return Preempt(head.workload.key, nomination.victims, message, requested(head.workload, queue))
