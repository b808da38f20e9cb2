"""GangGroups: workloads that start in one cycle or not at all, whatever their namespaces and queues.

Each of them names the whole group (`Gang.together`, by keys, itself among them). The group's turn is that of the last of its
members in the order of the cycle, so that none of them overtakes anybody; at that turn the others are fetched from wherever
they stand in their lines. So no two groups ever wait for each other: what a group needs is decided in one step, while it
holds nothing.

1. *gathered*: every member is there, names the same group, and may be considered. Else the group waits and says for whom.
2. *fitted*: all of them at once (gangfit.py), and charged to the ledger; or nothing of it remains.
3. *room made*: where they do not fit and a queue of theirs may evict others: whom for all of them together (gangroom.py). What
   each member gets then is promised to the group as a whole; until its victims have left none of its members is tried again.

A member that has quota already and has not started is one whose fellows lost theirs (a write that failed, a crash half way).
If the rest finds no room and makes none, its quota goes back: capacity is held by no gang that cannot start. Members that run
count as there. Called by cycle.py, which writes the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from admission.engine.cycle.gangfit import Delays, Fitting, GroupFit, Refused
from admission.engine.cycle.gangroom import Room, RoomMaker
from admission.engine.cycle.promises import Promises
from admission.engine.decision import Reason
from admission.engine.flavors.assign import Preemptions
from admission.engine.ledger import Ledger
from admission.engine.model import ClusterQueue, Workload
from admission.engine.queue.line import Order, order_of
from admission.engine.queue.queues import PendingQueues

Closed = Callable[[Workload, ClusterQueue], tuple[Reason, str] | None]

INCOMPLETE = "GangGroupIncomplete"
"""Reason of an eviction: the other gangs of the group could not start."""
_LEAVING = "others are still to leave for the whole group"


def is_grouped(workload: Workload) -> bool:
    """Whether it starts together with others."""
    return workload.gang is not None and bool(workload.gang.together)


def starting_together(workload: Workload) -> tuple[str, ...]:
    """The keys of those that start when it starts, itself among them."""
    together = () if workload.gang is None else workload.gang.together
    return together if workload.key in together else (workload.key, *together)


def turn_of(workload: Workload, queues: PendingQueues) -> Order:
    """The workload's place in the order of a cycle: that of its group's last member."""
    own = order_of(workload)
    if workload.gang is None:
        return own
    others = (queues.workload(key) for key in workload.gang.together)
    return max((own, *(order_of(other) for other in others if other is not None)))


class GangGroups:
    """Decides on groups against the ledger as it stands in one cycle; what it starts is charged. `now` in epoch seconds."""

    def __init__(
        self,
        ledger: Ledger,
        queues: PendingQueues,
        now: float,
        closed: Closed,
        promises: Promises,
        delays: Delays,
        preemptions: Preemptions,
        *,
        fair: bool = False,
    ) -> None:
        self._ledger, self._queues, self._now = ledger, queues, now
        self._closed, self._promises = closed, promises
        self._fit = GroupFit(ledger, now, promises.leave_quota_for, delays, fair=fair)
        self._rooms = RoomMaker(ledger, preemptions, now, self._afterwards, fair=fair)
        self._refused: dict[tuple[str, ...], Refused] = {}

    def _afterwards(self, members: Sequence[Workload]) -> Fitting | Refused:
        return self._fit.charged(members, spare=False)

    def start(self, workload: Workload) -> Fitting | Room | Refused:
        """Start the group of a pending workload, or say whom to evict for it, or why it waits.

        Usage only grows in a cycle: no group is tried twice.
        """
        together = workload.gang.together if workload.gang else ()
        if (owner := next((key for key in together if self._queues.promised(key)), None)) is not None:
            return Refused(owner, Reason.WAITING_FOR_PREEMPTED, _LEAVING)
        pending, stranded = self._standing(together)
        if (missing := self._missing(workload, together)) is not None:
            return replace(missing, stranded=stranded)
        found = self._refused.get(together) or self._fit.charged(pending)
        if not isinstance(found, Refused):
            return found
        if together not in self._refused:
            if (beside := self._beside_promises(pending)) is not None:
                return beside
            self._refused[together] = found
            if (room := self._room(pending)) is not None:
                return room
        return replace(found, stranded=stranded)

    def _beside_promises(self, pending: list[Workload]) -> Fitting | None:
        """What fits when everything that was promised is taken, if it fits now as well; charged to the ledger."""
        if not self._promises:
            return None
        with self._promises.afterwards(), self._ledger.trial():
            found = self._afterwards(pending)
        if isinstance(found, Refused):
            return None
        with self._ledger.trial() as trial:
            for each in found:
                if self._promises.must_wait(each):
                    return None
                self._ledger.charge(each.workload, each.admission())
            trial.keep()
        return found

    def _room(self, pending: list[Workload]) -> Room | None:
        """As things will stand when the victims of others have left and what those were promised is taken."""
        queues = (self._ledger.quota.spec(member.cluster_queue) for member in pending)
        if any(member.gated for member in pending) or not any(
            queue is not None and queue.preemption.evicts for queue in queues
        ):
            return None
        with self._promises.afterwards():
            return self._rooms.room(pending, others_leave=bool(self._promises.leaving))

    def _standing(self, together: tuple[str, ...]) -> tuple[list[Workload], tuple[str, ...]]:
        """Who waits, and who has quota and has not started; one that names other gangs is none of these."""
        pending, stranded = [], []
        for key in together:
            booked = self._ledger.workload(key) if self._ledger.admission(key) is not None else None
            if booked is None:
                pending += [found] if (found := self._queues.workload(key)) is not None else []
            elif booked.gang is not None and booked.gang.together == together and not booked.gang.started:
                stranded.append(key)
        return pending, tuple(stranded)

    # ---- gathered

    def _missing(self, workload: Workload, together: tuple[str, ...]) -> Refused | None:
        for key in together:
            other = self._ledger.workload(key) if self._ledger.admission(key) is not None else None
            waits = other is None
            other = other or self._queues.workload(key)
            if (why := self._why_not(workload, key, other, waits=waits)) is not None:
                return why
        return None

    def _why_not(self, asking: Workload, key: str, other: Workload | None, *, waits: bool) -> Refused | None:
        def because(text: str, reason: Reason = Reason.WAITING_FOR_GANGS) -> Refused:
            return Refused(asking.key, reason, text)

        if other is None:
            return because(f"gang {key} of the group has too few pods yet")
        named = other.gang.together if other.gang else ()
        if asking.key not in named:
            return because(f"gang {key} of the group does not name it back")
        if asking.gang is not None and named != asking.gang.together:
            return because(f"gang {key} of the group names other gangs: {', '.join(named)}")
        if not waits:
            return None
        if other.blocked is not None:
            return Refused(key, Reason.WAITING_FOR_GANGS, other.blocked[1])
        if other.not_before > self._now:
            return Refused(key, Reason.WAITING_FOR_GANGS, "its backoff is not over")
        queue = self._ledger.quota.spec(other.cluster_queue)
        closed = None if queue is None else self._closed(other, queue)
        return None if closed is None else Refused(key, *closed)
