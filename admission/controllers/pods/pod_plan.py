"""Computes the due actions for a pod or a group of pods from the pods and their Workload. Pure.

The order of decisions is that of jobs (jobs/plan/job_plan.py), for pods that cannot be suspended but only ended:

    the unit has ended              -> its Workload is Finished; the pods lose Stowage's finalizer
    there is no Workload            -> end running pods; once the group is complete, create a Workload
    the Workload is unrelated       -> record an event
    there are too many pods         -> delete the youngest that do not run; release failed pods that were replaced
    Workload is deleted or evicted  -> end running pods; once none occupies a node, release the quota
    admitted                        -> remove the remaining admission gates
    not admitted                    -> end running pods

Pods of jobs are not handled here; the webhook leaves them to their jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from admission.controllers.jobs.context import DEFAULTS, JobContext, JobOptions
from admission.controllers.jobs.plan.finish import check_messages, finish, kept_until, let_go
from admission.controllers.jobs.plan.pod_counts import admitted_counts
from admission.controllers.jobs.plan.pod_set_infos import FlavorMissing, pod_set_infos
from admission.controllers.jobs.plan.pods_ready import is_readiness_kept, with_pods_ready, with_reclaimed
from admission.controllers.jobs.plan.start import FLAVOR_RETRY
from admission.controllers.jobs.plan.workload import PriorityClassMissing, another_owner, prebuilt_key
from admission.controllers.pods.actions import NOTHING, DeletePod, PodGroupPlan, ReleasePod, StopPod
from admission.controllers.pods.compose import adopt, composed, ending_with, is_group_workload
from admission.controllers.pods.replacements import with_replacements
from admission.controllers.pods.sets.set_slices import startable
from admission.controllers.pods.start import beyond, starts
from admission.controllers.pods.workload_updates import corrected, followed, released_at_end, uncomposed, unlike
from admission.controllers.state import conditions
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PlannedEvent, SetStatus
from admission.controllers.watch.slices import is_slice
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import (
    MAIN,
    PodUnit,
    SortedMembers,
    TooFewPods,
    UnlikePods,
    sort_out,
    youngest,
)
from admission.integrations.podset import PodSetConflict
from admission.integrations.registry import ADAPTERS, KINDS
from api import names
from api.errors import InvalidObject
from api.kube.resources import PODS
from api.meta import OwnerReference, find_condition, is_true
from api.workloads import Workload

NOT_ADMITTED = "Not admitted by cluster queue"
_WHOLE: Final = frozenset((kind.api_version, kind.kind) for kind in (PODS, *(each.resource for each in ADAPTERS)))


@dataclass(frozen=True, slots=True)
class PodGroupOptions:
    """Options of the plan; with `validate_owner`, a group rejects a Workload of its name that is no pod group's."""

    validate_owner: bool = True


RULES = PodGroupOptions()


def plan_gone(workloads: Sequence[Workload], now: float, options: JobOptions = DEFAULTS) -> PodGroupPlan:
    """Plans for Workloads without pods: Finished, which releases quota, and without finalizer.

    A Workload that was prebuilt for a group belongs to its creator and only loses its finalizer; so does one that pods own,
    which the garbage collector deletes after the last of them. A Workload that a set left to its pods is finished too.
    """
    result = NOTHING
    for workload in workloads:
        owned = workload.owner is not None
        left = not workload.metadata.owner_references
        theirs = left and {names.IS_GROUP_WORKLOAD, names.COMPONENT_INDEX} & workload.metadata.annotations.keys()
        over = workload.metadata.deletion_timestamp or is_true(workload.status.conditions, names.FINISHED)
        if options.finish_orphaned and not over and (owned or theirs):
            message = "The workload's owner no longer exists"
            result = result.then(finish(workload, names.FinishedReason.OWNER_NOT_FOUND, message, now))
        result = result.then(*let_go(workload))
    return result


def plan(
    unit: PodUnit, workloads: Sequence[Workload], context: JobContext, now: float, rules: PodGroupOptions = RULES
) -> PodGroupPlan:
    """Returns the unit's plan; `workloads` have its group's name or its pod as controller. `now` is in epoch seconds."""
    if not context.options.namespace_managed(unit.namespace):
        return NOTHING
    planner = _PodGroupPlanner(unit, context, now)
    if unit.group and rules.validate_owner and not prebuilt_key(unit.as_job()):
        strange = [workload for workload in workloads if not is_group_workload(workload)]
        if strange:
            return planner.name_taken(strange[0])
    return planner.plan(workloads)


class _PodGroupPlanner:
    """Computes one plan for one unit."""

    def __init__(self, unit: PodUnit, context: JobContext, now: float) -> None:
        self._unit, self._context, self._now = unit, context, now

    def plan(self, workloads: Sequence[Workload]) -> PodGroupPlan:
        key = prebuilt_key(self._unit.as_job())
        prebuilt = self._context.workloads.get(key) if key else None
        if (end := self._unit.finished()) is not None:
            mine = [prebuilt] if prebuilt else list(workloads)
            reason = names.FinishedReason.SUCCEEDED if end.success else names.FinishedReason.FAILED
            return self._ended(mine, reason, end.message)
        if key:
            return self._prebuilt(prebuilt)
        if not workloads:
            return self._without_workload()
        own, *others = workloads
        if others:
            gone = PodGroupPlan()
            for other in others:
                gone = gone.then(*let_go(other), DeleteWorkload(other))
            return gone
        if is_true(own.status.conditions, names.FINISHED):
            return self._ended([own], "", "")
        return self._with_workload(own)

    def name_taken(self, workload: Workload) -> PodGroupPlan:
        """Reports that an unrelated Workload has the group's name."""
        text = (
            f'A Workload named "{workload.metadata.name}" already exists but is not a pod group workload; '
            "this pod group cannot be admitted"
        )
        going = self._release(pod for pod in self._unit.pods if pod.deleted)
        return going.followed(PodGroupPlan(events=(PlannedEvent("WorkloadNameConflict", text, "Warning"),)))

    # ---- the end

    def _ended(self, workloads: Sequence[Workload], reason: str, message: str) -> PodGroupPlan:
        """Finishes the Workload and releases the pods; once both are done, the Workload loses its finalizer.

        Pods that came too late get an event: as in Kueue they stay gated, since a finished Workload starts no more pods.
        """
        released, result = released_at_end(self._unit.pods, workloads, message), NOTHING
        for workload in workloads:
            event = PlannedEvent("FinishedWorkload", f"Workload '{workload.key}' is declared finished")
            if not is_true(workload.status.conditions, names.FINISHED) and not workload.metadata.deletion_timestamp:
                result = result.then(finish(workload, reason, message, self._now, event))
            elif released.actions:
                result = result.followed(PodGroupPlan(events=(event,)))
            else:
                result = result.then(*let_go(workload))
        return result.followed(released)

    @staticmethod
    def _release(pods: Iterable[QueuedPod]) -> PodGroupPlan:
        return PodGroupPlan(tuple(ReleasePod(pod) for pod in pods if pod.held))

    # ---- choice of the Workload

    def _without_workload(self) -> PodGroupPlan:
        unit = self._unit
        # No Workload records how earlier pods ended, so pods that no longer count may go.
        going = self._release(pod for pod in unit.pods if not pod.counts)
        if not unit.suspended and not unit.ending:
            return going.followed(self._stopped("NoMatchingWorkload", "missing workload"))
        if not unit.counting:
            return going.followed(self._report_shortage(len(unit.counting)) if unit.group else NOTHING)
        return going.followed(self._created())

    def _report_shortage(self, pods: int) -> PodGroupPlan:
        try:
            error = TooFewPods(self._unit.group, pods, self._unit.total)
        except UnlikePods as different:
            return unlike(different)
        return uncomposed(error)

    def _created(self) -> PodGroupPlan:
        unit = self._unit
        try:
            excess = youngest(unit.counting, unit.total)
            spare = {pod.metadata.name for pod in excess}
            owners = [pod for pod in unit.pods if pod.metadata.name not in spare]
            workload = composed(unit, owners, self._context)
        except (InvalidObject, PriorityClassMissing) as error:
            return uncomposed(error)
        event = PlannedEvent("CreatedWorkload", f"Created Workload: {workload.key}")
        return PodGroupPlan((*self._surplus(excess), CreateWorkload(workload, (event,))))

    @staticmethod
    def _surplus(pods: Sequence[QueuedPod]) -> tuple[DeletePod, ...]:
        events = (PlannedEvent("ExcessPodDeleted", "Excess pod deleted"),)
        return tuple(DeletePod(pod, events) for pod in pods if not pod.deleted or pod.held)

    def _prebuilt(self, workload: Workload | None) -> PodGroupPlan:
        if workload is None:
            name = prebuilt_key(self._unit.as_job())
            event = PlannedEvent("PrebuiltWorkloadNotFound", f'prebuilt Workload "{name}" not found', "Warning")
            return self._without_prebuilt(event)
        if self._belongs_elsewhere(workload):
            return self._without_prebuilt(another_owner(workload, self._unit.first.metadata.uid))
        if is_true(workload.status.conditions, names.FINISHED):
            return self._ended([workload], "", "")
        if self._matches(workload):
            return self._with_workload(workload, correct=False)
        message = "The prebuilt workload is out of sync with its user job"
        stop = self._stopped("NoMatchingWorkload", "missing workload")
        stop = stop.then(finish(workload, names.FinishedReason.OUT_OF_SYNC, message, self._now))
        return stop.followed(PodGroupPlan(note="prebuilt workload not found"))

    def _without_prebuilt(self, event: PlannedEvent | None) -> PodGroupPlan:
        """Ends what runs, and releases pods that were deleted: no Workload counts them."""
        going = self._release(pod for pod in self._unit.pods if not pod.counts)
        stop = going.followed(self._stopped("NoMatchingWorkload", "missing workload"))
        events = (event,) if event is not None and self._unit.counting else ()
        return stop.followed(PodGroupPlan(events=events, note="prebuilt workload not found"))

    def _belongs_elsewhere(self, workload: Workload) -> bool:
        """Reports whether the Workload serves a job or another pod; a group's prebuilt Workload may have its creator as
        owner."""
        owner = workload.owner
        if owner is None or owner.uid == self._unit.first.metadata.uid:
            return False
        return not self._unit.group or _has_own_workload(owner)

    def _matches(self, workload: Workload) -> bool:
        """Reports whether the Workload is for such pods; pods of a group may be missing."""
        counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
        if not self._unit.group:
            return counts == {MAIN: 1}
        return any(pod.role in counts for pod in self._unit.pods)

    # ---- actions for that Workload

    def _with_workload(self, workload: Workload, *, correct: bool = True) -> PodGroupPlan:
        state = workload.status.conditions
        if workload.metadata.deletion_timestamp:
            return self._workload_deleted(workload)
        if not self._matches(workload):
            return self._unlike_workload(workload)
        sorted_out = self._sorted(workload)
        adoption = adopt(self._unit, workload, sorted_out.kept)
        # Owners are added first: a pod is released only when the Workload has other owners.
        tidied = (
            PodGroupPlan(adoption).followed(self._release(sorted_out.replaced)).then(*self._surplus(sorted_out.excess))
        )
        unit = self._unit if not self._unit.group else replace(self._unit, pods=sorted_out.kept)
        inner = _PodGroupPlanner(unit, self._context, self._now)
        if (observed := inner.observed(workload)) is not None:
            return tidied.then(observed)
        if is_true(state, names.EVICTED) and (leaving := inner.evicted(workload)) is not None:
            return tidied.followed(leaving)
        if correct and (follow := followed(unit, workload, self._context)) != NOTHING:
            return tidied.followed(follow)
        if sorted_out.strange and self._unit.group:
            tidied = tidied.followed(self._plan_surplus(sorted_out.strange))
        if is_true(state, names.ADMITTED):
            return tidied.followed(inner.admitted(workload))
        if not unit.suspended:
            return tidied.followed(inner._stopped("NotAdmitted", NOT_ADMITTED))
        return tidied.followed(PodGroupPlan(events=check_messages(workload, each_pod=True)))

    def _sorted(self, workload: Workload) -> SortedMembers:
        if not self._unit.group:
            going = tuple(pod for pod in self._unit.pods if pod.deleted)
            return SortedMembers(self._unit.pods, (), going, ())
        counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
        if is_slice(workload):  # pods beyond those that were admitted wait, and their own controller ends them
            counts = dict.fromkeys(counts, len(self._unit.pods))
        members = sort_out(self._unit.pods, counts)
        if self._unit.fast and any(pod.lasting for pod in members.kept):
            # Pods that were never created are not missing, so fewer may replace those that are deleted.
            left = tuple(pod for pod in members.kept if pod.deleted and not pod.counts)
            kept = tuple(pod for pod in members.kept if pod not in left)
            members = replace(members, kept=kept, replaced=(*members.replaced, *left))
        if is_true(workload.status.conditions, names.QUOTA_RESERVED):
            return members
        # A deleted pod that has not run with this Workload need not be kept.
        never_started = find_condition(workload.status.conditions, names.EVICTED) is None
        going = tuple(pod for pod in members.kept if pod.deleted and (pod.gated or (never_started and not pod.running)))
        return replace(members, replaced=(*members.replaced, *going))

    def _plan_surplus(self, pods: Sequence[QueuedPod]) -> PodGroupPlan:
        keys = ", ".join(pod.metadata.name for pod in pods[:3])
        error = UnlikePods("spec", keys, "a role that the group was queued with", self._unit.group)
        return unlike(error)

    def _workload_deleted(self, workload: Workload) -> PodGroupPlan:
        """Ends all pods with their Workload, including gated ones; once none occupies a node, releases the Workload.

        A Workload without its owners was garbage collected rather than deleted by a user: pods that replaced the owners get
        the next Workload. As in Kueue, one with none of the pods' roles goes at once if all pods are already being deleted:
        the quota that it has is not theirs.
        """
        unit = self._unit
        if unit.ending and not self._matches(workload):
            return NOTHING.then(*let_go(workload))
        ending = ending_with(workload, unit.pods) if unit.group else unit.pods
        inner = _PodGroupPlanner(replace(unit, pods=ending), self._context, self._now)
        stop = inner._stopped("WorkloadDeleted", "Workload is deleted", gated=bool(unit.group))
        if stop.actions or unit.running:
            return stop
        released = self._release(ending) if unit.group else NOTHING
        return released.then(*let_go(workload))

    def _unlike_workload(self, workload: Workload) -> PodGroupPlan:
        """Updates a waiting Workload to the pods; deletes any other, and ends the pods that run with it."""
        unit, state = self._unit, workload.status.conditions
        if unit.suspended and not is_true(state, names.QUOTA_RESERVED):
            return corrected(unit, workload, self._context)
        text = "No matching Workload; restoring pod templates according to existent Workload"
        stop = self._stopped("NoMatchingWorkload", text)
        event = PlannedEvent("DeletedWorkload", f"Deleted not matching Workload: {workload.key}")
        stop = stop.then(*let_go(workload), DeleteWorkload(workload, (event,)))
        return stop.followed(PodGroupPlan(note="no matching workloads"))

    def observed(self, workload: Workload) -> SetStatus | None:
        """Updates the Workload's status from the state of the pods."""
        status, options, unit = workload.status, self._context.options, self._unit
        # of a set, setplan.py writes them: the pods that it gave back when it was scaled down
        if is_true(status.conditions, names.ADMITTED) and not unit.serving:
            status = with_reclaimed(status, _reclaimed(unit, workload) if options.reclaimable_pods else {})
        if is_readiness_kept(status, options):
            status = with_pods_ready(
                status, unit.ready(_wanted(workload, unit)), self._now, workload.metadata.generation
            )
        if unit.group:
            status = with_replacements(status, unit, workload, self._now)
        return SetStatus(workload, status) if status is not workload.status else None

    def evicted(self, workload: Workload) -> PodGroupPlan | None:
        """Releases the quota once no pod occupies a node; returns None when nothing is left to do."""
        eviction = find_condition(workload.status.conditions, names.EVICTED)
        reason, message = (eviction.reason, eviction.message) if eviction else ("", "")
        stop = self._stopped(f"WorkloadEvictedDueTo{reason}", message)
        reserved = is_true(workload.status.conditions, names.QUOTA_RESERVED)
        if stop.actions:
            return stop
        if self._unit.running:
            return NOTHING if reserved else None
        result = NOTHING
        if reserved:
            released = conditions.released(workload.status, self._now, workload.metadata.generation)
            if not self._unit.group and is_true(released.conditions, names.REQUEUED):
                # the only pod has ended; its replacement is another pod with another Workload
                generation = workload.metadata.generation
                released = conditions.with_condition(
                    released, names.REQUEUED, False, reason, message, self._now, generation
                )
            result = result.then(SetStatus(workload, released))
        kept = kept_until(workload, self._context.options)
        if kept is not None and kept > self._now:
            return result.followed(PodGroupPlan(again_in=kept - self._now))
        if kept is not None:
            events = (PlannedEvent("Deleted", "Deleted job: deactivation retention period expired"),)
            first, *rest = self._unit.pods
            result = result.then(DeletePod(first, events), *(DeletePod(pod) for pod in rest))
        return result if result != NOTHING else None

    def admitted(self, workload: Workload) -> PodGroupPlan:
        """Starts the waiting pods; a conflict while merging finishes the Workload."""
        waiting = [pod for pod in self._unit.pods if pod.gated]
        if is_slice(workload):
            waiting = startable(waiting, self._unit.pods, workload)
        if not waiting:
            return NOTHING
        try:
            # Each pod needs a patch anyway, so a pod that goes to a single domain needs no second patch by the ungater. A
            # member of a Sakkara group does: the ungater opens its gate once the pod has its rank.
            ranked = names.SAKKARA_GROUP_ANNOTATION in workload.metadata.annotations
            options = replace(self._context.options, open_templates=not ranked)
            infos = pod_set_infos(workload, self._context.flavors, options)
            beyond_ours = {pod.key: beyond(pod, workload, self._pod_set_of(pod)) for pod in waiting}
            fitting = [pod for pod in waiting if beyond_ours[pod.key] is None]
            made = PodGroupPlan(tuple(starts(self._unit, fitting, infos, workload)))
            too_large = next((error for error in beyond_ours.values() if error is not None), None)
            return made if too_large is None else made.followed(unlike(too_large))
        except PodSetConflict as error:
            return PodGroupPlan(
                (finish(workload, names.FinishedReason.FAILED_TO_START, str(error), self._now),), note=str(error)
            )
        except FlavorMissing as error:
            return PodGroupPlan(again_in=FLAVOR_RETRY, note=str(error))

    def _pod_set_of(self, pod: QueuedPod) -> str:
        return pod.role if self._unit.group else MAIN

    def _stopped(self, reason: str, message: str, *, gated: bool = False) -> PodGroupPlan:
        """Ends the pods that may run; with `gated`, all pods, since their Workload is being deleted."""
        events = (PlannedEvent("Stopped", message),)
        stopping = (pod for pod in self._unit.pods if not pod.deleted and (gated or pod.started))
        return PodGroupPlan(tuple(StopPod(pod, reason, message, events) for pod in stopping))


def _reclaimed(unit: PodUnit, workload: Workload) -> dict[str, int]:
    """Returns by role the pods with quota that are done: no more than did not run at some time.

    A pod that was done may be deleted meanwhile. It stays done: what it gave back may be another's by now.
    """
    granted, run = admitted_counts(workload), Counter(pod.role for pod in unit.pods if pod.running)
    known, done = workload.reclaimed, {each.name: each.count for each in unit.reclaimable()}
    return {
        role: max(min(done.get(role, 0), count - run[role]), min(known.get(role, 0), count))
        for role, count in granted.items()
    }


def _wanted(workload: Workload, unit: PodUnit) -> int:
    """Returns the Workload's number of pods, without those that a set released when it was scaled down."""
    if is_slice(workload):
        return sum(admitted_counts(workload).values())
    given_back = workload.status.reclaimable_pods if unit.serving else ()
    return sum(p.count for p in workload.spec.pod_sets) - sum(p.count for p in given_back)


def _has_own_workload(owner: OwnerReference) -> bool:
    group = owner.api_version.rpartition("/")[0]
    return (owner.api_version, owner.kind) in _WHOLE or KINDS.is_declared((group, owner.kind))
