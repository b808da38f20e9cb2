"""Plans the actions for a job and its one Workload: start, stop, follow, release. Pure; `job_plan` calls it."""

from __future__ import annotations

from admission.controllers.jobs.actions import NOTHING, JobPlan, PatchJob
from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.elastic import first_request, is_elastic, pod_sets_of
from admission.controllers.jobs.plan.equivalence import has_start, same_pod_sets, started_pod_sets
from admission.controllers.jobs.plan.finish import check_messages, declared_finished, kept_until, let_go, stop_keeping
from admission.controllers.jobs.plan.pod_counts import counts_of, lacks_pods, with_counts
from admission.controllers.jobs.plan.pods_ready import is_readiness_kept, with_pods_ready, with_reclaimable
from admission.controllers.jobs.plan.start import host_left, is_unstarted, plan_overlooked, plan_start
from admission.controllers.jobs.plan.without_pods import NOT_ADMITTED
from admission.controllers.jobs.plan.workload import (
    PriorityClassMissing,
    changed_annotations,
    labels_of,
    spec_patch,
    wanted_spec,
)
from admission.controllers.state import conditions, moving
from admission.controllers.state.actions import PatchWorkload, PlannedEvent, SetStatus
from admission.integrations.base import Job, JobIntegration
from api import names
from api.annotations import of_features
from api.meta import find_condition, is_true
from api.workloads import PodSet, Workload


def with_class_missing(plan: JobPlan, error: PriorityClassMissing) -> JobPlan:
    """Adds to the plan that a priority class which the job names does not exist."""
    event = PlannedEvent(f"{error.kind}NotFound", str(error), "Warning")
    return JobPlan(plan.actions, (*plan.events, event), plan.again_in, str(error))


class WorkloadPlanner:
    """Computes actions for one job with one of its Workloads. Raises InvalidObject if the job's pod sets cannot be read."""

    def __init__(self, job: Job, kind: JobIntegration, context: JobContext, now: float) -> None:
        self.job, self.kind, self.context, self.now = job, kind, context, now
        self.pod_sets = pod_sets_of(job, kind, context.options)
        self.in_slices = is_elastic(job, kind, context.options)

    # ---- comparison of job and Workload

    def fits(self, workload: Workload) -> bool:
        """Compares a running job with what was admitted; a suspended job may have original or started templates."""
        pod_sets = self.pod_sets
        if self.in_slices:
            pod_sets, workload = with_counts(pod_sets, {}), self._resized(workload)
        waits = self.kind.is_suspended(self.job) or workload.status.admission is None
        return (
            (waits and same_pod_sets(pod_sets, workload.spec.pod_sets))
            or started_pod_sets(pod_sets, workload, self._runs_admitted(workload))
            or self.lost_admission(workload)
        )

    def _resized(self, workload: Workload) -> Workload:
        """Returns the Workload with the job's present pod counts."""
        pod_sets = with_counts(workload.spec.pod_sets, counts_of(self.pod_sets))
        return workload.model_copy(update={"spec": workload.spec.model_copy(update={"pod_sets": pod_sets})})

    def lost_admission(self, workload: Workload) -> bool:
        """Reports whether a started job's Workload lost its admission without an eviction, which Kueue allows.

        Such a job stops and gets its original templates back. The Workload must not follow templates that a start changed.
        """
        state = workload.status.conditions
        reserved = is_true(state, names.QUOTA_RESERVED) and workload.status.admission is not None
        over = workload.metadata.deletion_timestamp or is_true(state, names.FINISHED)
        return not reserved and not over and has_start(self.pod_sets, workload)

    def _runs_admitted(self, workload: Workload) -> bool:
        admitted = is_true(workload.status.conditions, names.ADMITTED)
        return admitted and not self.kind.is_suspended(self.job)

    def may_correct(self, workload: Workload) -> bool:
        """Reports whether the Workload may follow the job: it has no quota, and the job is at rest with original templates."""
        reserved = is_true(workload.status.conditions, names.QUOTA_RESERVED)
        going = workload.metadata.deletion_timestamp or is_true(workload.status.conditions, names.FINISHED)
        return self.at_rest() and not reserved and not going

    # ---- updates of a Workload without quota

    def corrected(self, workload: Workload) -> JobPlan:
        """Updates all of the Workload's spec to the job's."""
        try:
            requested = workload.spec.pod_sets
            wanted = first_request(self.job, self.kind, self.pod_sets, self.context.options)
            if not same_pod_sets(wanted, requested):
                requested = wanted
            return self.updated_to(workload, requested)
        except PriorityClassMissing as error:
            return with_class_missing(NOTHING, error)

    def updated_to(self, workload: Workload, requested: tuple[PodSet, ...]) -> JobPlan:
        """Updates a Workload without quota to these pod sets and the job's other settings. Raises PriorityClassMissing."""
        wanted = wanted_spec(self.job, self.kind, requested, self.context, workload.spec)
        patch = spec_patch(workload, self.job, wanted, self.kind)
        changed = patch.get("spec", {}).keys()
        text = f"Updated not matching Workload for suspended job: {workload.key}"
        if changed & {"priority", "priorityClassRef"} and ("podSets" not in changed or self.in_slices):
            text = f"Updated workload priority class: {workload.key}"
        events = () if changed == {"queueName"} else (PlannedEvent("UpdatedWorkload", text),)
        return JobPlan((PatchWorkload(workload, patch, events),)) if patch else NOTHING

    # ---- actions for that Workload

    def plan(self, workload: Workload, *, correct: bool) -> JobPlan:
        """Plans for a Workload that stands for the job; `correct` lets it follow the job's settings."""
        state = workload.status.conditions
        if is_true(state, names.FINISHED):
            stop, at_rest = self.stopped(workload, NOT_ADMITTED)
            return stop.then(*let_go(workload, declared_finished(workload))) if at_rest else stop
        if workload.metadata.deletion_timestamp:
            stop, at_rest = self.stopped(workload, "Workload is deleted")
            return stop.then(*let_go(workload)) if at_rest else stop
        observed = self._observed(workload)
        if observed is None:
            return self._at_work(workload, correct=correct)
        made = JobPlan((observed,))
        if observed.status.conditions != state:
            return made  # the write's event plans the rest, as in Kueue
        # The event of reclaimable pods is collected with those of further pods, for which the rest must not wait.
        return made.followed(self._at_work(workload.model_copy(update={"status": observed.status}), correct=correct))

    def _at_work(self, workload: Workload, *, correct: bool) -> JobPlan:
        """Plans for a Workload that has neither finished nor been deleted, and whose status is up to date."""
        state = workload.status.conditions
        if is_true(state, names.EVICTED) and (leaving := self._evicted(workload)) is not None:
            return leaving
        if self.lost_admission(workload):
            return self.stopped(workload, NOT_ADMITTED)[0]
        if moving.is_moving(workload.status):
            return self._moving(workload)
        if correct and (follow := self._followed(workload)) != NOTHING:
            return follow
        if is_true(state, names.ADMITTED):
            return self._admitted(workload)
        if not self.kind.is_suspended(self.job):
            return self.stopped(workload, NOT_ADMITTED)[0]
        return JobPlan(events=check_messages(workload))

    def _observed(self, workload: Workload) -> SetStatus | None:
        """Updates reclaimable pods and PodsReady in the Workload's status, where enabled."""
        options = self.context.options
        status = with_reclaimable(workload, self.kind, self.job, self.pod_sets, release=options.reclaimable_pods)
        if is_readiness_kept(status, options):
            generation = workload.metadata.generation
            status = with_pods_ready(status, self._pods_ready(workload), self.now, generation)
        return SetStatus(workload, status) if status is not workload.status else None

    def _pods_ready(self, workload: Workload) -> bool:
        """Reports whether the admitted pods are ready; pods that a job in slices still lacks do not count."""
        if self.kind.pods_ready(self.job):
            return True
        lacking = self.in_slices and lacks_pods(workload, counts_of(self.pod_sets))
        return lacking and self.kind.is_active(self.job)

    def _evicted(self, workload: Workload) -> JobPlan | None:
        """Releases the quota once the job's pods are gone and its templates restored; returns None when nothing is left to
        do."""
        eviction = find_condition(workload.status.conditions, names.EVICTED)
        stop, at_rest = self.stopped(workload, eviction.message if eviction else "")
        reserved = is_true(workload.status.conditions, names.QUOTA_RESERVED)
        kept = kept_until(workload, self.context.options)
        if not at_rest:
            return stop if stop.actions or reserved or kept is not None else None
        if reserved:
            released = conditions.released(workload.status, self.now, workload.metadata.generation)
            stop = stop.then(SetStatus(workload, released))
        if kept is not None:
            return stop_keeping(stop, kept - self.now)
        return stop if stop.actions else None

    def _moving(self, workload: Workload) -> JobPlan:
        """Stops a job that has another place by now; once it is at rest the move is over, and the job starts as admitted."""
        stop, at_rest = self.stopped(workload, moving.why(workload.status))
        if not at_rest:
            return stop
        done = moving.ended(workload.status, self.now, workload.metadata.generation)
        return stop.then(SetStatus(workload, done, (moving.HAS_LEFT,)))

    def _followed(self, workload: Workload) -> JobPlan:
        """Updates queue, priority class and time limit of a suspended job; with quota, only the annotations about moves
        and the WorkloadPriorityClass.
        """
        if not is_true(workload.status.conditions, names.QUOTA_RESERVED):
            return self.corrected(workload) if self.at_rest() else NOTHING
        if changed := changed_annotations(workload, self.job, of_features.KEYS_OF_JOBS):
            return JobPlan((PatchWorkload(workload, {"metadata": {"annotations": changed}}),))
        ref, label = workload.spec.priority_class_ref, labels_of(self.job).get(names.PRIORITY_CLASS_LABEL)
        if ref is None or ref.group != names.GROUP or label in (None, ref.name):
            return NOTHING
        new = self.context.workload_priority_classes.get(label)
        if new is None:
            return with_class_missing(NOTHING, PriorityClassMissing("WorkloadPriorityClass", label))
        patch = {"spec": {"priority": new.value, "priorityClassRef": {"name": label}}}
        event = PlannedEvent("UpdatedWorkload", f"Updated workload priority class: {workload.key}")
        return JobPlan((PatchWorkload(workload, patch, (event,)),))

    def _admitted(self, workload: Workload) -> JobPlan:
        """Starts the job, or stops a job that another client unsuspended during its admission.

        A job whose template names a failed host keeps its admission and restarts with the present assignment.
        """
        if (host := host_left(self.pod_sets, workload)) is not None:
            return self.stopped(workload, f"Host {host} failed; the job starts again where its pods go now")[0]
        if self.at_rest():
            if has_start(self.pod_sets, workload) and (restore := self.stopped(workload, NOT_ADMITTED)[0]).actions:
                return restore  # leftovers of an earlier admission might contradict the present one
            return plan_start(self.job, self.kind, workload, self.context, self.now)
        if self.kind.is_suspended(self.job):
            return NOTHING  # the last run has not ended; its end changes the job
        if is_unstarted(self.pod_sets, self.kind, workload, self.context):
            return self.stopped(workload, NOT_ADMITTED)[0]
        return plan_overlooked(self.job, self.kind, workload, self.now)

    def at_rest(self) -> bool:
        """Reports whether the job is suspended and has no active pods."""
        return self.kind.is_suspended(self.job) and not self.kind.is_active(self.job)

    def stopped(self, workload: Workload | None, message: str) -> tuple[JobPlan, bool]:
        """Returns the next step toward a suspended job with its original templates, and whether the job is at rest."""
        patch = self.kind.stop(self.job, workload.spec.pod_sets if workload else None)
        if patch is None:
            return NOTHING, self.at_rest()
        events = () if self.kind.is_suspended(self.job) else (PlannedEvent("Stopped", message),)
        return JobPlan((PatchJob(patch, events),)), self.at_rest()
