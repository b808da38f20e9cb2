"""What the cycle would decide on a waiting workload now: what its condition says.

The cycle itself answers it (cycle/decide.py), in a trial of the ledger, on a queue that holds the workload and those whose
claims bind it: preemptors whose victims are leaving, workloads with a reservation (backfill), and the gangs that start together
with it. So an explanation says exactly what the status says. Remedies are checked on a queue in which all competitors of the
workload have their turn too (`played`). Nothing of the decision stays. Called by explain.py
and cycle_trials.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest

from admission.engine.cycle.cycle import CycleReport
from admission.engine.cycle.decide import decide
from admission.engine.decision import Admit, Decision, Preempt, Reason
from admission.engine.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.pending import KeptRequest, StartReservation
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharingRules

_HELD = "its start is reserved"


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """What a decision depends on besides the ledger: the pending workloads, the rules of fair sharing, how many may start now.

    `startable` as cycle.run_cycle takes it; `sharing` None: fair sharing is off.
    """

    queues: PendingQueues = field(default_factory=PendingQueues)
    sharing: FairSharingRules | None = None
    startable: int | None = None

    def reservations(self, workload: Workload) -> list[tuple[Workload, StartReservation]]:
        """Those of others, the first to start first."""
        held = [each for each in self.queues.starts.all() if each[0].key != workload.key]
        return sorted(held, key=lambda each: (each[1].start, each[0].key))

    def kept(self, workload: Workload) -> list[tuple[Workload, KeptRequest]]:
        """The refused heads of other StrictFIFO queues, with what is kept for them."""
        return [(head, kept) for head, kept in self.queues.kept() if head.cluster_queue != workload.cluster_queue]

    def claimed(self, workload: Workload) -> bool:
        """Whether anything but the ledger may keep the workload from starting."""
        waiting = any(owner.key != workload.key for owner, _ in self.queues.capacity_reservations())
        kept = bool(self.kept(workload))
        together = workload.gang is not None and bool(workload.gang.together)
        return waiting or kept or together or self.startable is not None or bool(self.reservations(workload))

    def reservation(self, workload: Workload) -> StartReservation | None:
        """The workload's own."""
        found = self.queues.starts.of(workload.cluster_queue)
        return found[1] if found is not None and found[0].key == workload.key else None


def decided(
    ledger: Ledger, workload: Workload, now: float, scene: DecisionInputs, only: Collection[str] | None = None
) -> Decision | None:
    """The decision on the workload, which is neither admitted nor blocked; its backoff is taken to be over.

    `only`: the owners (by key) of the reservations that count, all of them where it is None. None where nothing is decided on
    the workload itself.
    """
    line = _line(ledger, workload, scene, only)
    with ledger.trial():
        report = decide(ledger, line, now, 2 * len(line) + 1, scene.sharing, startable=scene.startable)
    return next((found for found in report.decisions if found.workload == workload.key), None)


def in_the_way(
    ledger: Ledger, workload: Workload, now: float, scene: DecisionInputs
) -> tuple[tuple[Workload, StartReservation], ...]:
    """The reservations of which each alone keeps the workload from starting, the first to start first."""
    held = scene.reservations(workload)
    return tuple(
        each for each in held if not isinstance(decided(ledger, workload, now, scene, (each[0].key,)), Admit | Preempt)
    )


def competitors(
    ledger: Ledger, workload: Workload, now: float, scene: DecisionInputs, most: int
) -> tuple[list[Workload], bool]:
    """Those that may be considered before the workload and use its quota or its nodes, and whether these are all of them.

    `most`: so many of them at most, the first by priority and age. Of its own queue those before it.
    """
    own, there, mine = workload.cluster_queue, scene.queues, order_of(workload)
    names = ledger.quota.relatives(own) | there.sharing_flavors(own) | {own}
    found = [
        one
        for one in there.workloads()
        if one.cluster_queue in names
        and one.key != workload.key
        and one.blocked is None
        and one.not_before <= now
        and (one.cluster_queue != own or order_of(one) < mine)
    ]
    return nsmallest(most, found, key=order_of), len(found) <= most


def played(
    ledger: Ledger, workload: Workload, now: float, scene: DecisionInputs, others: Sequence[Workload]
) -> CycleReport:
    """A whole cycle with the workload, those whose claims bind it, and these others; each of them has its turn."""
    line = _line(ledger, workload, scene, None, others)
    with ledger.trial():
        return decide(ledger, line, now, 2 * len(line) + 1, scene.sharing, startable=scene.startable)


def _line(
    ledger: Ledger,
    workload: Workload,
    scene: DecisionInputs,
    only: Collection[str] | None,
    others: Sequence[Workload] | None = None,
) -> PendingQueues:
    """The workload beside those whose claims bind it. These have no turn of their own, but where `others` have one."""
    line, there = PendingQueues(), scene.queues
    owned = [(owner, capacity) for owner, capacity in there.capacity_reservations() if owner.key != workload.key]
    reservations = [each for each in scene.reservations(workload) if only is None or each[0].key in only]
    same_gangs = {key for owner in (workload, *(owner for owner, _ in owned)) for key in _together(owner)}
    together = [found for key in sorted(same_gangs - {workload.key}) if (found := there.workload(key)) is not None]
    owners = {owner.key for owner, _ in owned}
    first = there.starts.unforeseen(workload.cluster_queue)
    unforeseen = [] if first is None or first.key == workload.key else [first]
    heads = [*(head for head, _ in reservations), *unforeseen]
    if others is None:
        heads = [replace(head, defect=_HELD) for head in heads]  # in a class of its own
    own = replace(workload, not_before=0.0)
    last = (one for one in (*together, *(others or ())) if one.key not in owners)
    keepers = {one.key: kept for one, kept in scene.kept(workload)}
    waits = (replace(one, defect=_HELD) for one, _ in there.kept() if one.key in keepers)
    known = {one.key: one for one in (*waits, *last, *(owner for owner, _ in owned), *heads, own)}
    everybody = tuple(reversed(known.values()))
    for name in {one.cluster_queue for one in everybody}:
        if (spec := ledger.quota.spec(name)) is not None:
            line.set_queue(spec)
    for one in everybody:
        line.put(one)
    line.evictions.recall(there.evictions.pairs())
    for head, reservation in reservations:
        line.starts.reserve(head.key, reservation)
        if others is None:
            line.refuse(head.key, Reason.PENDING_EVALUATION, overtaken=True)
    for head in unforeseen:
        if others is None:
            line.refuse(head.key, Reason.PENDING_EVALUATION, overtaken=True)
        line.foresee_none(head.key)
    for key, kept in keepers.items():
        if known[key].defect == _HELD:
            line.refuse(key, Reason.PENDING_EVALUATION)
            line.keep(key, kept)
    for owner, capacity in owned:
        line.reserve_capacity(owner.key, capacity)
    if (mine := scene.reservation(workload)) is not None and workload.blocked is None:
        line.starts.reserve(workload.key, mine)
    return line


def _together(workload: Workload) -> tuple[str, ...]:
    return () if workload.gang is None else workload.gang.together
