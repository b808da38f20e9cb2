"""The end of a head's turn in a cycle: it starts, it waits, or capacity is reserved for it until its victims have left.

cycle.py decides which; this module charges the ledger, updates the queues and the reservations, and brings in the next head
of the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from admission.engine.cycle.admission_attempt import cannot_run
from admission.engine.cycle.heads.head_order import Head, HeadOrder
from admission.engine.cycle.held_capacity import draws_on
from admission.engine.cycle.kept_quota import KeptQuota
from admission.engine.cycle.late_joiners import beside_its_gang
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.repeated_preemption import may_not_evict
from admission.engine.cycle.reservations import Reservations
from admission.engine.cycle.together import order_with_others, starting_together, starts_with_others
from admission.engine.decision import Admit, Decision, Preempt, Victim, Wait
from admission.engine.expected_start import rfc3339
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.flavors.search import total_requests
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, QueueingStrategy, Workload
from admission.engine.queue.queueing_hints import QueueingHint
from admission.engine.queue.queues import PendingQueues
from admission.engine.reasons import Reason, ReasonCode
from admission.engine.requests import next_step, relaxation, relaxed, relaxes
from admission.engine.topology.oversized import oversized

NOT_READY = "waiting for all admitted workloads to be in PodsReady condition"
_MAY_LAST_FOREVER = (Reason.NO_MATCHING_FLAVOR, Reason.EXCEEDS_MAX_QUOTA, Reason.TOPOLOGY_PLACEMENT_FAILED)


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a refused head waits."""

    head: Head
    queue: ClusterQueue
    reason: ReasonCode
    message: str
    again: float | None
    """When it is evaluated again in any case (epoch seconds)."""
    hint: QueueingHint | None
    """What could help it; None: any change."""
    overtaken: bool
    """Whether the workloads behind it are evaluated even in a StrictFIFO queue."""
    victims: tuple[Victim, ...] = ()
    """Those that leave now, so that it starts later."""


class Hooks(Protocol):
    """What is asked and done when a workload starts or waits (feature.py)."""

    def allows(self, nomination: Nomination) -> Nomination | tuple[ReasonCode, str]:
        """Returns why it may not start, although it fits; else the nomination with which it starts."""

    def waits(self, refusal: Refusal) -> Refusal:
        """Does what its wait needs, and returns how it waits."""

    def starts(self, nomination: Nomination) -> tuple[ReasonCode, str] | None:
        """Does what its start needs, which is charged already; returns why it cannot start, None if it can."""


class Outcomes:
    """The outcomes of one cycle at `now` (epoch seconds).

    `startable` is how many more workloads may start, None for any number. `borrowers` are the queues of which others may evict
    more since this cycle, which borrowed or in which a job has grown. `requeued` tells that refused workloads were requeued, so
    that another cycle may decide on them.
    """

    def __init__(
        self,
        ledger: Ledger,
        queues: PendingQueues,
        now: float,
        order: HeadOrder,
        reservations: Reservations,
        kept: KeptQuota,
        features: Hooks,
        *,
        startable: int | None,
        fair: bool,
    ) -> None:
        self._ledger, self._queues, self._now, self._fair = ledger, queues, now, fair
        self._order, self._reservations, self._kept = order, reservations, kept
        self._features = features
        self.startable, self.requeued = startable, False
        self.borrowers: set[str] = set()
        self._again: dict[str, set[str]] = {}

    def enter(self, workload: Workload) -> None:
        """Makes the workload the head of its queue. It no longer keeps quota, and its place in the order is determined."""
        self._kept.drop(workload.key)
        if self._kept.replaced(workload):
            self._requeue_others(workload.cluster_queue)
        head = Head.of(beside_its_gang(workload, self._ledger))
        if starts_with_others(workload):
            head.order = order_with_others(workload, self._queues)
        head.first = self._reservations.first(workload, fair=self._fair)
        self._order.enter(head)

    def settle(self, head: Head) -> None:
        """Ends the turn of a head that has its decision; the next workload of its queue becomes a head."""
        head.settled = True
        self._order.leave(head)
        if (workload := self._queues.head(head.queue)) is not None:
            self.enter(workload)

    def start(self, head: Head, queue: ClusterQueue, nomination: Nomination) -> Decision:
        """Admits the head. It waits instead if a feature refuses it, or if no more workloads may start."""
        allowed = self._features.allows(nomination)
        if isinstance(allowed, tuple):
            return self.wait(head, queue, *allowed)
        nomination = allowed
        if self.startable is not None and self.startable <= 0:
            return self.wait(head, queue, Reason.WAITING_FOR_PODS_READY, NOT_READY)
        workload, admission = nomination.workload, nomination.admission()
        with self._ledger.trial() as trial:  # all of it or nothing
            self._ledger.charge_instead(workload.replaces, nomination.charged(queue, self._now), admission)
            if (refusal := self._features.starts(nomination)) is None:
                trial.keep()
        if refusal is not None:
            return self.wait(head, queue, *refusal)
        if self.startable is not None:
            self.startable -= 1
        self._queues.keep(workload.key, None)
        if workload.key in self._queues.preemptors:
            self._requeue_all(workload)  # who was refused beside its reservation may evict it now
        self._queues.remove(workload.key)
        self._queues.past.enter(workload, admission, self._now)
        self.settle(head)
        self._record_usage(nomination)
        note = relaxed(workload, queue, self._ledger.flavors, nomination.assignment, self._now)
        return Admit(workload.key, admission, note, nomination.assignment.considered(), nomination.overtaking)

    def _record_usage(self, nomination: Nomination) -> None:
        """Records an admission: if it borrows, other queues of the cohort tree may reclaim from its queue.

        A slice may be younger than the one before, or its priority lower, so that others may evict it now.
        """
        self._order.usage_grown(nomination.workload.cluster_queue)
        if nomination.assignment.level or nomination.workload.replaces:
            self.borrowers.add(nomination.workload.cluster_queue)

    def start_member(self, nomination: Nomination) -> Admit:
        """Takes an already charged member out of its queue, wherever it stands, and returns its admission."""
        workload, name = nomination.workload, nomination.workload.cluster_queue
        self._features.starts(nomination)
        first = self._queues.head(name)
        if workload.key in self._queues.preemptors:
            self._requeue_all(workload)  # as in `start`
        self._queues.remove(workload.key)
        self._queues.past.enter(workload, nomination.admission(), self._now)
        if first is not None and first.key == workload.key:
            self._order.leave(Head.of(workload))
        if first is None or first.key == workload.key:
            following = self._queues.head(name)
            if following is not None:
                self.enter(following)
        self._record_usage(nomination)
        return Admit(workload.key, nomination.admission(), considered=nomination.assignment.considered())

    def too_often(self, head: Head, victims: Sequence[Victim]) -> tuple[str, float] | None:
        """Returns why the workload may not evict one of the victims again yet, and from when on it may (epoch seconds); else
        records these evictions.
        """
        evictions, leaving = self._queues.evictions, self._reservations.leaving
        return may_not_evict(self._ledger, evictions, head.workload, victims, leaving, self._now)

    def wait_to_evict_again(self, head: Head, queue: ClusterQueue, why: str, until: float) -> Decision:
        """Makes the head wait until it may evict its victims again (epoch seconds)."""
        return self.wait(
            head, queue, Reason.REPEATED_PREEMPTION, f"{why}; may evict it at {rfc3339(until)}", until=until
        )

    def reserve(
        self,
        head: Head,
        nomination: Nomination,
        victims: frozenset[str],
        others: Sequence[Nomination] = (),
        needs: QueueingHint | None = None,
        *,
        evicts: bool = False,
    ) -> None:
        """Reserves what `nomination` needs until its victims have left. `others` start together with it.

        `needs` is the quota without which it cannot start before the victims have left. `evicts`: the victims leave for this
        workload and not for another one.
        """
        evicted = victims if evicts else frozenset()
        self._reservations.make(head.workload.key, nomination, victims, others, needs, evicted, self._now)
        self.settle(head)
        self._order.usage_grown(head.queue)

    def wait(
        self,
        head: Head,
        queue: ClusterQueue | None,
        reason: ReasonCode,
        message: str,
        *,
        hint: QueueingHint | None = None,
        until: float | None = None,
        keep: FlavorAssignment | None = None,
        gated: bool = False,
    ) -> Decision:
        """Refuses the head. `until` is when to evaluate it again in any case (epoch seconds); `keep` are the flavors in which
        it may keep quota; `gated`: its preemption gates are closed. Nobody has to wait behind a workload that replaces one
        that runs.
        """
        workload = head.workload
        growing = bool(workload.replaces) and self._ledger.admission(workload.replaces) is not None
        again, overtaken = until, growing
        if growing and any(self._queues.starts.leave(workload.cluster_queue, workload.key)):
            self._again.setdefault(workload.cluster_queue, {workload.key})
        if hint is not None and workload.reservation and draws_on(self._ledger, workload) is not None:
            hint = None  # more quota is free for it than the hint says
        if queue is not None and relaxes(workload):
            message = "; ".join(filter(None, (message, relaxation(workload, queue, self._ledger.flavors, self._now))))
            step = next_step(workload, queue, self._ledger.flavors, self._now)
            again = min((at for at in (step, until) if at is not None), default=None)
        victims: tuple[Victim, ...] = ()
        if queue is not None:
            refusal = self._features.waits(Refusal(head, queue, reason, message, again, hint, overtaken))
            message, again, hint = refusal.message, refusal.again, refusal.hint
            overtaken, victims = refusal.overtaken, refusal.victims
        kept = self._queues.keeps(workload.key)
        self._queues.keep(workload.key, None)
        if queue is not None:
            self._kept.keep(workload, queue, keep)
        if self._queues.lapsed(workload.key):
            self._requeue_all(workload)
        elif kept and not self._queues.keeps(workload.key):
            self._requeue_others(workload.cluster_queue)
        stays = self._queues.refuse(workload.key, reason, again, overtaken=overtaken, hint=hint)
        if stays:
            self._release_behind(workload)
        self.settle(head)
        never = reason in _MAY_LAST_FOREVER and head.fits_nowhere
        never = never and (head.never_fits or cannot_run(self._ledger, workload) is not None)
        too_large = self._too_large(workload, queue) if never and queue is not None else ""
        amounts = requested(workload, queue)
        if victims:
            return Preempt(workload.key, victims, message, amounts)
        return Wait(workload.key, reason, message, stays, amounts, never, gated, too_large=too_large)

    def stay_inadmissible(self, head: Head) -> None:
        """Ends the turn of a head that `PendingQueues.stays_inadmissible` refused again."""
        queue = self._ledger.quota.spec(head.queue)
        if queue is not None and queue.strategy is QueueingStrategy.STRICT_FIFO:
            self._release_behind(head.workload)
        self.settle(head)

    def _too_large(self, workload: Workload, queue: ClusterQueue) -> str:
        names = [flavor.flavor for group in queue.groups for flavor in group.flavors]
        trees = self._ledger.capacity.trees
        return oversized([trees[name] for name in names if name in trees], workload.pod_sets)

    def release(self, workload: Workload) -> None:
        """Drops the reservations of a preemptor and its group, which can no longer use them."""
        for key in starting_together(workload):
            self._queues.drop_preemptor(key)
            self._reservations.drop(key)
        self._requeue_all(workload)

    def _release_behind(self, head: Workload) -> None:
        """Drops the reservations of preemptors behind a StrictFIFO head: they cannot start before it, and the head may need
        their capacity. It was refused beside them, so it is evaluated again.
        """
        for key, reservation in tuple(self._queues.preemptors.items()):
            owner = self._queues.workload(key)
            behind = owner is not None and owner.key != head.key and owner.cluster_queue == head.cluster_queue
            if behind and owner is not None and not reservation.victims and key not in starting_together(head):
                self.release(owner)

    def _requeue_others(self, name: str) -> None:
        """Requeues the workloads of all other queues that were refused because of a reservation of this queue or of quota that
        it kept: these have ended.
        """
        self._queues.lines.requeue_others(name)
        self.requeued = True

    def _requeue_all(self, owner: Workload) -> None:
        """Requeues what was refused beside a reservation of this owner: other queues now, its own when the cycle ends."""
        self._requeue_others(owner.cluster_queue)
        self._again.setdefault(owner.cluster_queue, set()).add(owner.key)

    def end(self) -> None:
        """Ends the cycle: what it refused beside a reservation that it dropped is evaluated again in the next one."""
        for name, owners in self._again.items():
            # The owner itself was not refused because of its own reservation.
            self._queues.lines.requeue_refused(name, owners if len(owners) == 1 else ())
        self._again.clear()


def requested(workload: Workload, queue: ClusterQueue | None) -> dict[str, dict[str, int]]:
    """Returns the requested resources of each pod set, for the status."""
    target = queue or ClusterQueue(workload.cluster_queue)
    return {pod_set.name: total_requests(target, pod_set) for pod_set in workload.pod_sets}
