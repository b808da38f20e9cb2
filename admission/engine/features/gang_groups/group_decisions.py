"""Turns the result for a GangGroup (groups.py) into decisions: all members start, victims leave for all of them, or all wait.

feature.py asks at the turn of the group's head.
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.cycle.heads.head_order import Head
from admission.engine.cycle.nominate import DEFERRED
from admission.engine.cycle.outcomes import NOT_READY, Outcomes, requested
from admission.engine.cycle.reservations import Reservations
from admission.engine.decision import Decision, Evict, Preempt, Wait
from admission.engine.features.gang_groups.gang_fit import GroupNotStarted
from admission.engine.features.gang_groups.gang_preemption import GangPreemption
from admission.engine.features.gang_groups.groups import INCOMPLETE, Groups
from admission.engine.model import ClusterQueue
from admission.engine.reasons import Reason


class GroupDecisions:
    """The decisions on the groups of one cycle."""

    def __init__(self, groups: Groups, outcomes: Outcomes, reservations: Reservations) -> None:
        self._groups, self._outcomes, self._reservations = groups, outcomes, reservations

    def decide(self, head: Head, queue: ClusterQueue) -> Sequence[Decision]:
        """Starts the whole group of the head, or none of it. Returns the decisions on its members, the head's first."""
        key = head.workload.key
        if self._outcomes.startable is not None and self._outcomes.startable <= 0:
            return (self._outcomes.wait(head, queue, Reason.WAITING_FOR_PODS_READY, NOT_READY),)
        result = self._groups.start(head.workload)
        in_vain = isinstance(result, GroupNotStarted) or (isinstance(result, GangPreemption) and bool(result.victims))
        if in_vain and self._reservations.free(head.workload) is not None:
            self._outcomes.release(head.workload)
        if (
            isinstance(result, GangPreemption)
            and (repeated := self._outcomes.too_often(head, result.victims)) is not None
        ):
            return (self._outcomes.wait_to_evict_again(head, queue, *repeated),)
        if isinstance(result, GroupNotStarted):
            evictions = (Evict(one, INCOMPLETE, result.message_for(one)) for one in result.stranded)
            return (self._outcomes.wait(head, queue, result.reason, result.message_for(key)), *evictions)
        if isinstance(result, GangPreemption):
            return (self._preempt(head, queue, result),)
        if self._outcomes.startable is not None:
            self._outcomes.startable -= 1  # together they are one
        admits = {each.workload.key: self._outcomes.start_member(each) for each in result}
        return (admits[key], *(admit for other, admit in admits.items() if other != key))

    def _preempt(self, head: Head, queue: ClusterQueue, preemption: GangPreemption) -> Decision:
        """Reserves capacity for all members of the group; the other members get their decision at their turn."""
        key = head.workload.key
        own, *others = sorted(preemption.nominations, key=lambda each: each.workload.key != key)
        victims = frozenset(victim.workload for victim in preemption.victims)
        self._outcomes.reserve(head, own, victims or self._reservations.leaving, others, evicts=bool(victims))
        amounts = requested(head.workload, queue)
        if not preemption.victims:
            return Wait(key, Reason.WAITING_FOR_PREEMPTED, DEFERRED, True, amounts)
        message = f"{preemption.message}. Pending the preemption of {len(preemption.victims)} workload(s)"
        return Preempt(key, preemption.victims, message, amounts)
