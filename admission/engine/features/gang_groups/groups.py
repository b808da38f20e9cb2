"""Whether a GangGroup starts: all its members in one cycle or none, whatever their namespaces and queues.

Each member names the whole group (`Gang.together`: keys, its own included). The group has the place of its last member in the
order of the cycle, so no member overtakes another workload; the other members are then taken from anywhere in their queues. A
group holds nothing while it waits, so two groups never wait for each other.

1. *gather*: every member exists, names the same group and may be evaluated. Otherwise the group waits, and its message names
   what is missing.
2. *fit*: all members at once (gang_fit.py), each with its minimum of pods at least; they are charged to the ledger together
   or not at all.
3. *preempt*: if they do not fit and one of their queues may preempt, victims for all members together (gang_preemption.py). The
   group gets one capacity reservation, and no member is evaluated again until the victims have left.

A member that has quota but has not started has lost the rest of its group (a failed write, a crash between two writes). If
the rest neither fits nor can preempt, the member loses its quota, so that no gang holds capacity that cannot start. Running
members count as present, but no member starts or evicts workloads to join a member that is being evicted: they start together
after it has left. Called by group_decisions.py, which turns the result into decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from admission.engine.cycle.feature import CycleParts
from admission.engine.cycle.fewer_pods import fewest
from admission.engine.features.gang_groups.gang_fit import Fitting, GroupFit, GroupNotStarted
from admission.engine.features.gang_groups.gang_preemption import GangPreemption, GangPreemptor
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.queue.queues import PendingQueues
from admission.engine.reasons import Reason, ReasonCode, ReasonOwner


class GangReason(ReasonCode):
    """Why a gang of a group waits for the others."""

    WAITING_FOR_GANGS = (
        "WaitingForGangs",
        "the gangs that start together with it are not ready to start",
        ReasonOwner.ENGINE,
        True,
    )


INCOMPLETE = "GangGroupIncomplete"
"""Reason of an eviction: the other gangs of the group could not start."""
_LEAVING = "others are still to leave for the whole group"


class Groups:
    """Decides on groups on the ledger as it stands, and charges those that start."""

    def __init__(self, ledger: Ledger, queues: PendingQueues, parts: CycleParts) -> None:
        self._ledger, self._queues, self._now = ledger, queues, parts.now
        self._cannot_evaluate, self._reservations = parts.cannot_evaluate, parts.reservations
        self._fit = GroupFit(ledger, parts.now, parts.reservations.leave_quota_for, parts.refusal, fair=parts.fair)
        self._preemptor = GangPreemptor(ledger, parts.preemptions, parts.now, self._afterwards, fair=parts.fair)
        self._refused: dict[tuple[str, ...], GroupNotStarted] = {}

    def _afterwards(self, members: Sequence[Workload]) -> Fitting | GroupNotStarted:
        return self._fit.charged(members, spare=False)

    def start(self, workload: Workload) -> Fitting | GangPreemption | GroupNotStarted:
        """Charges the group of a pending workload to the ledger, or returns its victims, or why it waits.

        Usage only grows in a cycle, so a group is tried at most once.
        """
        together = workload.gang.together if workload.gang else ()
        if (owner := next((key for key in together if self._queues.holds_reservation(key)), None)) is not None:
            return GroupNotStarted(owner, Reason.WAITING_FOR_PREEMPTED, _LEAVING)
        pending, stranded = self._pending_and_stranded(together)
        if (missing := self._missing(workload, together)) is not None:
            return replace(missing, stranded=stranded)
        result = self._refused.get(together) or self._fit.charged(pending)
        if not isinstance(result, GroupNotStarted):
            return result
        if together not in self._refused:
            if (beside := self._beside_reservations(pending)) is not None:
                return beside
            self._refused[together] = result
            if (preemption := self._preemption(pending)) is not None:
                return preemption
        return replace(result, stranded=stranded)

    def _beside_reservations(self, pending: list[Workload]) -> Fitting | None:
        """Charges the members if they fit both now and after all reservations are used."""
        if not self._reservations:
            return None
        with self._reservations.afterwards(), self._ledger.trial():
            result = self._afterwards(pending)
        if isinstance(result, GroupNotStarted):
            return None
        with self._ledger.trial() as trial:
            for each in result:
                if self._reservations.must_wait(each):
                    return None
                self._ledger.charge(each.workload, each.admission())
            trial.keep()
        return result

    def _preemption(self, pending: list[Workload]) -> GangPreemption | None:
        """Returns the victims for the group, after the victims of others have left and all reservations are used."""
        queues = (self._ledger.quota.spec(member.cluster_queue) for member in pending)
        if any(member.gated for member in pending) or not any(
            queue is not None and queue.preemption.evicts for queue in queues
        ):
            return None
        with self._reservations.afterwards():
            # Nobody is evicted for pods beyond a minimum: these join when there is room.
            return self._preemptor.choose(
                [fewest(each) for each in pending], others_leave=bool(self._reservations.leaving)
            )

    def _pending_and_stranded(self, together: tuple[str, ...]) -> tuple[list[Workload], tuple[str, ...]]:
        """Returns the pending members, and the keys of members that have quota but have not started.

        Leaves out members that name another group.
        """
        pending, stranded = [], []
        for key in together:
            admitted = self._ledger.workload(key) if self._ledger.admission(key) is not None else None
            if admitted is None:
                pending += [workload] if (workload := self._queues.workload(key)) is not None else []
            elif admitted.gang is not None and admitted.gang.together == together and not admitted.gang.started:
                stranded.append(key)
        return pending, tuple(stranded)

    # ---- gathered

    def _missing(self, workload: Workload, together: tuple[str, ...]) -> GroupNotStarted | None:
        for key in together:
            other = self._ledger.workload(key) if self._ledger.admission(key) is not None else None
            waits = other is None
            other = other or self._queues.workload(key)
            if (why := self._why_not(workload, key, other, waits=waits)) is not None:
                return why
        return None

    def _why_not(self, workload: Workload, key: str, other: Workload | None, *, waits: bool) -> GroupNotStarted | None:
        def because(text: str, reason: ReasonCode = GangReason.WAITING_FOR_GANGS) -> GroupNotStarted:
            return GroupNotStarted(workload.key, reason, text)

        if other is None:
            return because(f"gang {key} of the group has too few pods yet")
        named = other.gang.together if other.gang else ()
        if workload.key not in named:
            return because(f"gang {key} of the group does not name it back")
        if workload.gang is not None and named != workload.gang.together:
            return because(f"gang {key} of the group names other gangs: {', '.join(named)}")
        if not waits:
            leaves = other.evicted or key in self._reservations.leaving
            return because(f"gang {key} of the group is being evicted") if leaves else None
        if other.blocked is not None:
            return GroupNotStarted(key, GangReason.WAITING_FOR_GANGS, other.blocked[1])
        if other.not_before > self._now:
            return GroupNotStarted(key, GangReason.WAITING_FOR_GANGS, "its backoff is not over")
        queue = self._ledger.quota.spec(other.cluster_queue)
        cannot_evaluate = None if queue is None else self._cannot_evaluate(other, queue)
        return None if cannot_evaluate is None else GroupNotStarted(key, *cannot_evaluate)
