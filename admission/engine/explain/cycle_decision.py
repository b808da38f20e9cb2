"""Computes what the cycle would decide on a waiting workload now, so that an explanation agrees with the status.

explain.py and cycle_trials.py call it. The cycle itself (decide.py) decides, in a trial of the ledger, on a queue that
holds the workload and those whose claims bind it: preemptors whose victims are leaving, workloads with a reserved
start, and the gangs that start together with it. Remedies are checked on a queue in which all competitors of the workload
have their turn too (`simulated_cycle`). No effect of the decision remains.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decide import decide
from admission.engine.decision import Admit, Decision, Preempt
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.pending import KeptRequest, StartReservation
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.reasons import Reason

_HELD = "its start is reserved"


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """What a decision depends on other than the ledger."""

    queues: PendingQueues = field(default_factory=PendingQueues)
    """The pending workloads."""
    sharing: FairSharingRules | None = None
    """None if fair sharing is off."""
    startable: int | None = None
    """How many workloads may start, as in cycle.run_cycle."""

    def reservations(self, workload: Workload) -> list[tuple[Workload, StartReservation]]:
        """Returns the reservations of other workloads, in order of their start."""
        held = [each for each in self.queues.starts.all() if each[0].key != workload.key]
        return sorted(held, key=lambda each: (each[1].start, each[0].key))

    def kept(self, workload: Workload) -> list[tuple[Workload, KeptRequest]]:
        """Returns the refused heads of other StrictFIFO queues, with the quota kept for them."""
        return [(head, kept) for head, kept in self.queues.kept() if head.cluster_queue != workload.cluster_queue]

    def claimed(self, workload: Workload) -> bool:
        """Reports whether anything other than the ledger may keep the workload from starting."""
        waiting = any(owner.key != workload.key for owner, _ in self.queues.capacity_reservations())
        kept = bool(self.kept(workload))
        together = workload.gang is not None and bool(workload.gang.together)
        return waiting or kept or together or self.startable is not None or bool(self.reservations(workload))

    def reservation(self, workload: Workload) -> StartReservation | None:
        """Returns the workload's own reservation, or None."""
        start = self.queues.starts.of(workload.cluster_queue)
        return start[1] if start is not None and start[0].key == workload.key else None


def decided(
    ledger: Ledger, workload: Workload, now: float, inputs: DecisionInputs, only: Collection[str] | None = None
) -> Decision | None:
    """Returns the decision on the workload, which must be neither admitted nor blocked and counts as if its backoff were over.

    `only` holds the keys of the reservations' owners that count, None for all. Returns None if the cycle makes no decision on
    the workload itself.
    """
    line = _line(ledger, workload, inputs, only)
    with ledger.trial():
        report = decide(ledger, line, now, 2 * len(line) + 1, inputs.sharing, startable=inputs.startable)
    return next((decision for decision in report.decisions if decision.workload == workload.key), None)


def blocking_reservations(
    ledger: Ledger, workload: Workload, now: float, inputs: DecisionInputs
) -> tuple[tuple[Workload, StartReservation], ...]:
    """Returns the reservations each of which alone keeps the workload from starting, in order of their start."""
    held = inputs.reservations(workload)
    return tuple(
        each for each in held if not isinstance(decided(ledger, workload, now, inputs, (each[0].key,)), Admit | Preempt)
    )


def competitors(
    ledger: Ledger, workload: Workload, now: float, inputs: DecisionInputs, most: int
) -> tuple[list[Workload], bool]:
    """Returns workloads that may be considered first and use the same quota or nodes, and whether these are all.

    At most `most` are returned, the first by priority and age. From the workload's own queue only those ahead of it count.
    """
    own, there = workload.cluster_queue, inputs.queues
    names = ledger.quota.relatives(own) | there.lines.sharing_flavors(own) | {own}
    waiting = [
        one
        for one in there.workloads()
        if one.cluster_queue in names
        and one.key != workload.key
        and one.blocked is None
        and one.not_before <= now
        and (one.cluster_queue != own or there.before(one, workload))
    ]
    return nsmallest(most, waiting, key=order_of), len(waiting) <= most


def simulated_cycle(
    ledger: Ledger, workload: Workload, now: float, inputs: DecisionInputs, others: Sequence[Workload]
) -> CycleReport:
    """Runs a whole cycle with the workload, those whose claims bind it, and these others; each has its turn."""
    line = _line(ledger, workload, inputs, None, others)
    with ledger.trial():
        return decide(ledger, line, now, 2 * len(line) + 1, inputs.sharing, startable=inputs.startable)


def _line(
    ledger: Ledger,
    workload: Workload,
    inputs: DecisionInputs,
    only: Collection[str] | None,
    others: Sequence[Workload] | None = None,
) -> PendingQueues:
    """Builds queues with the workload and those whose claims bind it, which have no turn unless `others` have."""
    there = inputs.queues
    line = PendingQueues(there.past.copy())
    owned = [(owner, capacity) for owner, capacity in there.capacity_reservations() if owner.key != workload.key]
    reservations = [each for each in inputs.reservations(workload) if only is None or each[0].key in only]
    same_gangs = {key for owner in (workload, *(owner for owner, _ in owned)) for key in _together(owner)}
    together = [member for key in sorted(same_gangs - {workload.key}) if (member := there.workload(key)) is not None]
    owners = {owner.key for owner, _ in owned}
    first = there.starts.unforeseen(workload.cluster_queue)
    unforeseen = [] if first is None or first.key == workload.key else [first]
    heads = [*(head for head, _ in reservations), *unforeseen]
    if others is None:
        heads = [replace(head, defect=_HELD) for head in heads]  # in a scheduling class of its own
    own = replace(workload, not_before=0.0)
    last = (one for one in (*together, *(others or ())) if one.key not in owners)
    holding_heads = {one.key: kept for one, kept in inputs.kept(workload)}
    waits = (replace(one, defect=_HELD) for one, _ in there.kept() if one.key in holding_heads)
    known = {one.key: one for one in (*waits, *last, *(owner for owner, _ in owned), *heads, own)}
    everybody = tuple(reversed(known.values()))
    for name in {one.cluster_queue for one in everybody}:
        if (spec := ledger.quota.spec(name)) is not None:
            line.set_queue(spec)
    for one in everybody:
        line.put(one)
    line.evictions.restore(there.evictions.pairs())
    for head, reservation in reservations:
        line.starts.reserve(head.key, reservation)
        if others is None:
            line.refuse(head.key, Reason.PENDING_EVALUATION, overtaken=True)
    for head in unforeseen:
        if others is None:
            line.refuse(head.key, Reason.PENDING_EVALUATION, overtaken=True)
        line.mark_start_unknown(head.key)
    for key, kept in holding_heads.items():
        if known[key].defect == _HELD:
            line.refuse(key, Reason.PENDING_EVALUATION)
            line.keep(key, kept)
    for owner, capacity in owned:
        line.reserve_capacity(owner.key, capacity)
    if (mine := inputs.reservation(workload)) is not None and workload.blocked is None:
        line.starts.reserve(workload.key, mine)
    return line


def _together(workload: Workload) -> tuple[str, ...]:
    return () if workload.gang is None else workload.gang.together
