"""The schedule timeout of a gang: its minimum of pods must be bound in time after the admission, or it is evicted. Pure.

Once the minimum was bound, the condition GangBound records it, and no timeout applies any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from admission.controllers.pods.actions import PodGroupPlan
from admission.controllers.pods.gangs.gang import BACKOFF, GangTerms, GangUnit, bound_places, stopped
from admission.controllers.state import conditions
from admission.controllers.state.actions import PlannedEvent, SetStatus
from admission.controllers.state.evictions import Eviction, evicted
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import SortedMembers
from api import names
from api.meta import find_condition, is_true, parse_time, rfc3339
from api.workloads import RequeueState, Workload

GATES_A_SECOND: Final = 100
"""Assumed rate at which gates are removed: a large gang's timeout runs from its last gate."""


class ScheduleTimeout:
    """The schedule timeout of one gang at `now` (epoch seconds).

    `pods` are all its pods, `late_joiners` its late joiners that have a Workload; the methods' `unit` has the members alone.
    """

    def __init__(
        self, terms: GangTerms, pods: Sequence[QueuedPod], late_joiners: Sequence[QueuedPod], now: float
    ) -> None:
        self._terms, self._pods, self._late_joiners, self._now = terms, pods, late_joiners, now

    def _deadline(self, workload: Workload, unit: GangUnit) -> float | None:
        """Returns the deadline for binding the minimum, in epoch seconds, or None without a timeout."""
        state = workload.status.conditions
        if self._terms.schedule_timeout is None or not is_true(state, names.ADMITTED) or is_true(state, names.EVICTED):
            return None
        if is_true(state, names.GANG_BOUND):
            return None
        begun = find_condition(state, names.ADMITTED)
        lacking = find_condition(state, names.WAITING_FOR_REPLACEMENT_PODS)
        opened = len(unit.pods) // GATES_A_SECOND
        moments = [(parse_time(begun.last_transition_time if begun else None) or self._now) + opened]
        if lacking is not None and lacking.status == "True":
            moments.append(parse_time(lacking.last_transition_time) or 0.0)
        return max(moments) + self._terms.schedule_timeout

    def _count_bound(self) -> int:
        """Counts bound or succeeded pods, including late joiners."""
        return sum(pod.succeeded or (pod.running and not pod.deleted) for pod in self._pods)

    def time_left(self, workload: Workload, unit: GangUnit) -> float | None:
        """Returns the seconds until the deadline, or None if no timeout applies."""
        deadline = self._deadline(workload, unit)
        if deadline is None or self._count_bound() >= unit.minimum:
            return None
        return max(0.0, deadline - self._now)

    def bound_whole(self, workload: Workload, unit: GangUnit, members: SortedMembers) -> PodGroupPlan | None:
        """Records that the minimum was bound, whatever became of these pods since; None if no record is needed.

        The record is written before any of the pods is released, so that a later leader does not miss a pod.
        """
        bound = bound_places(members, self._late_joiners)
        if self._deadline(workload, unit) is None or bound < unit.minimum or unit.finished() is not None:
            return None
        text = f"{bound} pods were bound, {unit.minimum} are needed: a member that is lost now ends none of the others"
        generation, status = workload.metadata.generation, workload.status
        status = conditions.with_condition(
            status, names.GANG_BOUND, True, names.WorkloadStateReason.BOUND, text, self._now, generation
        )
        return PodGroupPlan((SetStatus(workload, status.model_copy(update={"requeue_state": None})),))

    def overdue(self, workload: Workload, unit: GangUnit) -> PodGroupPlan | None:
        """Evicts the gang, with a backoff, if too few pods were bound in time; None otherwise."""
        ended = bool(unit.pods) and unit.finished() is not None
        if ended or self.time_left(workload, unit) != 0.0:
            return None
        status = workload.status
        before = (status.requeue_state.count if status.requeue_state else 0) or 0
        times = max(before, stopped(self._terms, self._now)[0]) + 1
        again = self._now + BACKOFF.wait(times, workload.metadata.uid)
        status = status.model_copy(update={"requeue_state": RequeueState(count=times, requeue_at=rfc3339(again + 1))})
        text = f"{self._count_bound()} of {unit.minimum} pods were bound within {self._terms.schedule_timeout:g}s"
        eviction = Eviction(names.EvictedReason.GANG_TIMEOUT, text)
        status = evicted(status, eviction, self._now, workload.metadata.generation)
        # A controller that was suspended may not have read yet that the pods were bound in time.
        return PodGroupPlan(
            (SetStatus(workload, status, (PlannedEvent(eviction.event, text, "Warning"),)),), confirm=True
        )
