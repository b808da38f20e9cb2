"""GangGroups: workloads that start in one cycle or not at all, whatever their namespaces and queues.

Each of them names the whole group (`Gang.together`, by keys, itself among them). The group's turn is that of the last of its
members in the order of the cycle, so that none of them overtakes anybody; at that turn the others are fetched from wherever
they stand in their lines. So no two groups ever wait for each other: what a group needs is decided in one step, while it
holds nothing.

1. *gathered*: every member is there, names the same group, and may be considered. Else the group waits and says for whom.
2. *tried*: one after the other is charged to the ledger, in a trial. Who finds no room goes first in the next try, as long as
   somebody else is left to blame: what a member takes may be what only another one can use.
3. *kept*: all fit, and the trial stands; or nothing of it remains.

A member that has quota already and has not started is one whose fellows lost theirs (a write that failed, a crash half way).
If the rest finds no room now, its quota goes back: capacity is held by no gang that cannot start. Members that run count as
there. Nobody is evicted to make room for a group. Called by cycle.py, which writes the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from admission.engine.cycle.nominate import Nomination
from admission.engine.cycle.requests import placement_requests
from admission.engine.decision import PlacementResult, Reason
from admission.engine.flavors.assign import FlavorAssignment, Mode, NoPreemption
from admission.engine.flavors.search import FlavorSearch, Scope
from admission.engine.ledger import Ledger
from admission.engine.model import Assignment, ClusterQueue, Workload
from admission.engine.queue.line import Order, order_of
from admission.engine.queue.queues import PendingQueues

Closed = Callable[[Workload, ClusterQueue], tuple[Reason, str] | None]
LeavesQuota = Callable[[str, FlavorAssignment], bool]
Delays = Callable[[ClusterQueue, Nomination], str | None]

INCOMPLETE = "GangGroupIncomplete"
"""Reason of an eviction: the other gangs of the group could not start."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The group does not start: of which member it is said why. `stranded`: members whose quota has to go back."""

    member: str
    reason: Reason
    message: str
    stranded: tuple[str, ...] = ()

    def told_to(self, key: str) -> str:
        """The message for that member."""
        return self.message if key == self.member else f"gang {self.member} of the group: {self.message}"


def is_grouped(workload: Workload) -> bool:
    """Whether it starts together with others."""
    return workload.gang is not None and bool(workload.gang.together)


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
        leaves_quota: LeavesQuota,
        delays: Delays,
        *,
        fair: bool = False,
    ) -> None:
        self._ledger, self._queues, self._now, self._fair = ledger, queues, now, fair
        self._closed, self._leaves_quota, self._delays = closed, leaves_quota, delays
        self._nobody = NoPreemption(ledger.quota)
        self._refused: dict[tuple[str, ...], Refused] = {}

    def start(self, workload: Workload) -> tuple[Nomination, ...] | Refused:
        """Start the group of a pending workload, or say why not. Usage only grows in a cycle: no group is tried twice."""
        together = workload.gang.together if workload.gang else ()
        pending, stranded = self._standing(together)
        if (missing := self._missing(workload, together)) is not None:
            return replace(missing, stranded=stranded)
        found = self._refused.get(together) or self._tried(pending)
        if not isinstance(found, Refused):
            return found
        self._refused[together] = found
        return replace(found, stranded=stranded)

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

    # ---- tried

    def _tried(self, members: list[Workload]) -> tuple[Nomination, ...] | Refused:
        line = sorted(members, key=order_of)
        blamed: set[str] = set()
        while True:
            found = self._attempt(line)
            if not isinstance(found, Refused) or found.member in blamed:
                return found
            blamed.add(found.member)
            if found.member == line[0].key:
                return found  # it had the ledger to itself
            line.sort(key=lambda one: (one.key != found.member, order_of(one)))

    def _attempt(self, line: list[Workload]) -> tuple[Nomination, ...] | Refused:
        with self._ledger.trial() as trial:
            nominations = []
            for member in line:
                found = self._fit(member)
                if isinstance(found, Refused):
                    return found
                self._ledger.charge(member, found.admission())
                nominations.append(found)
            trial.keep()
        return tuple(nominations)

    def _fit(self, workload: Workload) -> Nomination | Refused:
        queue = self._ledger.quota.spec(workload.cluster_queue)
        if queue is None:
            return Refused(workload.key, Reason.MISCONFIGURED, f"ClusterQueue {workload.cluster_queue} not found")
        refused: dict[tuple[str, str], str] = {}
        while True:
            scope = Scope(refused, fair=self._fair)
            search = FlavorSearch(queue, self._ledger.flavors, self._ledger.quota, self._nobody, scope)
            assignment = search.assign(workload)
            if assignment.mode < Mode.FIT:
                return Refused(workload.key, assignment.reason, assignment.message())
            if not self._leaves_quota(queue.name, assignment):
                text = "others were promised the quota that it needs"
                return Refused(workload.key, Reason.WAITING_FOR_QUOTA, text)
            places = self._places(workload, queue, assignment, refused)
            if places is not None:
                found = Nomination(workload, assignment, places)
                why = self._delays(queue, found)
                return found if why is None else Refused(workload.key, Reason.PENDING_EVALUATION, why)

    def _places(
        self,
        workload: Workload,
        queue: ClusterQueue,
        assignment: FlavorAssignment,
        refused: dict[tuple[str, str], str],
    ) -> Mapping[str, Assignment] | None:
        """Its domains; None where the nodes do not hold it: then `refused` names the flavors that do not do."""
        requests = placement_requests(workload, queue, assignment, self._ledger.flavors, self._now)
        result = self._ledger.place(requests) if requests else PlacementResult({}, {})
        if result.fits:
            return result.assignments
        for request in requests:
            if (failure := result.failures.get(request.pod_set.name)) is not None:
                refused[request.pod_set.name, request.flavor] = failure.message
        return None
