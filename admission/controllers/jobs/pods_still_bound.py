"""Postpones what must not happen while pods of a Workload's earlier start have not ended. Pure; executor.py calls it.

What runs is what is charged. A job may be gone, or look at rest, while its pods still run: they were left to themselves, they
have a long grace period, or their labels were changed. Until the last of them has ended, its Workload is not Finished and keeps
its finalizer, so that quota is charged and can be charged again after a restart; and the job does not start again, or it
would have more pods than were admitted. Pods on nodes that do not respond are not waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from admission.controllers.jobs.actions import Action, JobPlan, PatchChild, PatchJob
from admission.controllers.state.actions import PatchWorkload, SetStatus
from api.meta import find_condition, is_true
from api.names import FINISHED, IN_USE_FINALIZER, FinishedReason

RETRY: Final = 1.0
"""Seconds until a job with such pods is planned again."""


def postponed(plan: JobPlan, ending: Callable[[str], bool]) -> JobPlan:
    """Returns the plan without the actions that have to wait for pods; `ending` reports whether bound pods of the Workload with
    that key have yet to end.
    """
    if not any(_waits(action, ending) for action in plan.actions):
        return plan
    starts = any(isinstance(action, PatchJob) and _waits(action, ending) for action in plan.actions)
    kept = (action for action in plan.actions if not (starts and isinstance(action, PatchChild)))
    actions = tuple(action for action in kept if not _waits(action, ending))
    again = RETRY if plan.again_in is None else min(RETRY, plan.again_in)
    return JobPlan(actions, plan.events, again, plan.note)


def _waits(action: Action, ending: Callable[[str], bool]) -> bool:
    match action:
        case PatchJob(starts=key):
            return bool(key) and ending(key)
        case SetStatus(workload=workload, status=status):
            end = find_condition(status.conditions, FINISHED)
            ends = is_true(status.conditions, FINISHED) and not is_true(workload.status.conditions, FINISHED)
            replaced = end is not None and end.reason == FinishedReason.WORKLOAD_SLICE_REPLACED
            return ends and not replaced and ending(workload.key)
        case PatchWorkload(workload=workload, patch=patch):
            left = patch.get("metadata", {}).get("finalizers", workload.metadata.finalizers) or ()
            drops = IN_USE_FINALIZER in workload.metadata.finalizers and IN_USE_FINALIZER not in left
            return drops and ending(workload.key)
    return False
