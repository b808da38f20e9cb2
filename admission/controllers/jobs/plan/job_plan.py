"""Computes the due actions for one job from the job and its Workloads. Pure; the job controller calls it.

The decisions are made in Kueue's order. A plan goes as far as the present state allows and is computed again with every change
of the job or its Workload, so no state is kept between two plans. In brief:

    the job has ended               -> its Workload is Finished, then loses its finalizer
    no Workload fits the job        -> stop the job; update its one pending Workload, or delete Workloads and create one
    Workload is deleted or evicted  -> stop the job; once at rest, remove the finalizer or release the quota
    admitted and suspended          -> start the job
    running and not admitted        -> stop the job; once at rest, restore the templates
    running, but overlooked         -> wake the kind's own controller

without_pods.py covers jobs that are on hold or cannot be read. A job that is resized has more than one Workload while it
grows (job_slices.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.controllers.jobs.actions import NOTHING, JobPlan, PatchJob
from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.equivalence import (
    same_templates,
    similar_pod_sets,
)
from admission.controllers.jobs.plan.finish import (
    dropped,
    finish,
    let_go,
    plan_ended,
    plan_left,
    plan_orphaned,
)
from admission.controllers.jobs.plan.job_slices import (
    Slices,
    counts_changed,
    replacement_message,
    shrunk,
    slice_annotations,
    slices_of,
)
from admission.controllers.jobs.plan.pod_counts import Counts, counts_of, lacks_pods, with_counts
from admission.controllers.jobs.plan.without_pods import plan_hold, plan_unreadable
from admission.controllers.jobs.plan.workload import (
    PriorityClassMissing,
    adopted,
    another_owner,
    composed,
    has_left,
    is_managed,
    owner_reference,
    prebuilt_key,
)
from admission.controllers.jobs.plan.workload_plan import WorkloadPlanner, with_class_missing
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PatchWorkload, PlannedEvent, SetStatus
from admission.integrations.base import Job, JobIntegration, as_selective
from api import names
from api.errors import InvalidObject
from api.meta import is_true
from api.workloads import PodSet, Workload


def plan(job: Job, kind: JobIntegration, workloads: Sequence[Workload], context: JobContext, now: float) -> JobPlan:
    """Returns the plan for an existing job that owns `workloads`; `now` is in epoch seconds."""
    if (job.get("metadata") or {}).get("deletionTimestamp"):
        return plan_orphaned(workloads, context.options, now)
    if context.ancestor_admitted is not None:
        return _plan_child(job, kind, workloads, context.ancestor_admitted)
    selective = as_selective(kind)
    if has_left(job, context.options):
        return plan_left(job, kind, workloads, now)
    if not is_managed(job, context) or (selective is not None and selective.is_skipped(job)):
        return NOTHING
    try:
        planner = _JobPlanner(job, kind, context, now)
    except InvalidObject as error:
        return plan_unreadable(job, kind, workloads, error, now)
    on_hold = selective is not None and selective.is_on_hold(job)
    return plan_hold(job, kind, workloads, now, on_hold=on_hold) or planner.plan(workloads)


def _plan_child(job: Job, kind: JobIntegration, workloads: Sequence[Workload], admitted: bool) -> JobPlan:
    """Plans for a child job: it runs while its managed ancestor is admitted, and the ancestor sets its templates.

    A child has no Workload. A Workload from before its ancestor was managed is deleted; if that Workload started the child,
    the child first stops and gets its original templates back.
    """
    own = next((workload for workload in workloads if is_true(workload.status.conditions, names.ADMITTED)), None)
    runs = not kind.is_suspended(job)
    patch = kind.stop(job, None) if runs and (own is not None or not admitted) else None
    rests = not runs and not kind.is_active(job)
    if own is not None and rests:
        patch = kind.stop(job, own.spec.pod_sets)
    if patch:
        return JobPlan((PatchJob(patch, (PlannedEvent("Suspended", "Kueue managed child job suspended"),)),))
    return NOTHING.then(*dropped(workloads)) if rests or (admitted and own is None) else NOTHING


class _JobPlanner:
    """Computes one plan for one job."""

    def __init__(self, job: Job, kind: JobIntegration, context: JobContext, now: float) -> None:
        self._job, self._kind, self._context, self._now = job, kind, context, now
        self._planner = WorkloadPlanner(job, kind, context, now)
        self._names: set[str] = set()

    def plan(self, workloads: Sequence[Workload]) -> JobPlan:
        key = prebuilt_key(self._job)
        prebuilt = self._context.workloads.get(key) if key else None
        if end := self._kind.finished(self._job):
            return plan_ended([prebuilt] if prebuilt else workloads, end, self._now)
        if key:
            return self._prebuilt(prebuilt)
        if self._planner.in_slices:
            self._names = {workload.metadata.name for workload in workloads}
            slices = slices_of(workloads)
            if slices.current is not None or slices.replaced or slices.stale:
                return self._sliced(slices)
            workloads = slices.others
        fitting = next((workload for workload in workloads if self._planner.fits(workload)), None)
        if fitting is None:
            return self._none_fits(workloads)
        others = [workload for workload in workloads if workload is not fitting]
        if others:
            return self._deleted(others, "extra workloads")
        return self._planner.plan(fitting, correct=True)

    # ---- choice of the Workload

    # ---- slices

    def _sliced(self, slices: Slices) -> JobPlan:
        """Plans for the slices; once these are in order, for the job and the slice that has quota."""
        made = JobPlan(tuple(action for workload in slices.over for action in let_go(workload)))
        for old, new in slices.replaced:
            reason, message = names.FinishedReason.WORKLOAD_SLICE_REPLACED, replacement_message(new)
            made = made.then(finish(old, reason, message, self._now, PlannedEvent(reason, message)))
        made = made.then(*self._deleted(slices.stale, "").actions)
        current = slices.current
        if made.actions or current is None:
            return made
        if not self._planner.fits(current):
            return self._none_fits([current, *([slices.following] if slices.following else [])])
        try:
            return self._grown(current, slices.following)
        except PriorityClassMissing as error:
            return with_class_missing(NOTHING, error)

    def _grown(self, current: Workload, following: Workload | None) -> JobPlan:
        """Shrinks the slice that has quota with the job; creates or updates the next slice if the job lacks pods.

        The next slice is deleted or updated first: it would start on what the shrunk slice releases.
        """
        wanted = counts_of(self._planner.pod_sets)
        lacking = lacks_pods(current, wanted)
        if following is not None and not lacking:
            return self._deleted([following], "").then(*self._shrunk(current, wanted))
        requested = with_counts(current.spec.pod_sets, wanted)
        first = NOTHING if following is None else self._planner.updated_to(following, requested)
        if less := self._shrunk(current, wanted):
            return first.then(*less)
        if not lacking:
            return self._planner.plan(current, correct=True)
        if following is None:
            rest = self._planner.plan(current, correct=True)
            return rest if self._stops(rest) else rest.then(self._next_slice(current, requested))
        rest = self._planner.plan(current, correct=True)
        return JobPlan((*first.actions, *rest.actions), (*first.events, *rest.events), rest.again_in, rest.note)

    @staticmethod
    def _shrunk(current: Workload, wanted: Counts) -> tuple[PatchWorkload, ...]:
        patch = shrunk(current, wanted)
        return () if patch is None else (counts_changed(current, patch),)

    @staticmethod
    def _stops(plan: JobPlan) -> bool:
        """Reports whether the plan stops the job or ends its Workload."""
        return any(isinstance(action, PatchJob | SetStatus | DeleteWorkload) for action in plan.actions)

    def _next_slice(self, current: Workload, requested: tuple[PodSet, ...]) -> CreateWorkload:
        """Creates the next slice, named after the job's generation as in Kueue.

        A second slice of one generation is also named after the slice before it.
        """
        generation = str((self._job.get("metadata") or {}).get("generation") or 0)
        made = composed(self._job, self._kind, self._context, generation)
        if made.metadata.name in self._names:
            made = composed(self._job, self._kind, self._context, f"{generation}/{current.metadata.name}")
        spec = made.spec.model_copy(update={"pod_sets": requested})
        meta = made.metadata.model_copy(
            update={"annotations": {**made.metadata.annotations, **slice_annotations(current)}}
        )
        event = PlannedEvent("CreatedWorkload", f"Created Workload: {made.key}")
        return CreateWorkload(made.model_copy(update={"spec": spec, "metadata": meta}), (event,))

    def _none_fits(self, workloads: Sequence[Workload]) -> JobPlan:
        if not workloads:
            stop, _ = self._planner.stopped(None, "Missing Workload; unable to restore pod templates")
            return self._created(stop)
        only = workloads[0]
        if len(workloads) == 1 and self._planner.may_correct(only):
            return self._planner.corrected(only)
        text = "No matching Workload; restoring pod templates according to existent Workload"
        # A Workload that was never admitted added nothing to the templates, so they are the user's own.
        added = is_true(only.status.conditions, names.ADMITTED) or not self._planner.at_rest()
        stop, at_rest = self._planner.stopped(only if added else None, text)
        if not at_rest and (
            self._kind.is_active(self._job) or not same_templates(self._planner.pod_sets, only.spec.pod_sets)
        ):
            return stop
        return stop.then(*self._deleted(workloads, "").actions)

    def _created(self, stop: JobPlan) -> JobPlan:
        try:
            workload = composed(self._job, self._kind, self._context)
        except PriorityClassMissing as error:
            return with_class_missing(stop, error)
        event = PlannedEvent("CreatedWorkload", f"Created Workload: {workload.key}")
        return stop.then(CreateWorkload(workload, (event,)))

    def _deleted(self, workloads: Sequence[Workload], note: str) -> JobPlan:
        return JobPlan(note=note).then(*dropped(workloads))

    def _prebuilt(self, workload: Workload | None) -> JobPlan:
        if workload is None:
            events = PlannedEvent(
                "PrebuiltWorkloadNotFound", f'prebuilt Workload "{prebuilt_key(self._job)}" not found', "Warning"
            )
            stop = self._planner.stopped(None, "missing workload")[0]
            return self._with_note(JobPlan(stop.actions, (*stop.events, events)), "prebuilt workload not found")
        own = owner_reference(self._job, self._kind)
        if (other := another_owner(workload, own.uid)) is not None:
            stop = self._planner.stopped(None, "missing workload")[0]
            return self._with_note(JobPlan(stop.actions, (*stop.events, other)), "prebuilt workload not found")
        adopt = adopted(workload, own)
        if similar_pod_sets(self._planner.pod_sets, workload.spec.pod_sets) or self._planner.fits(workload):
            rest = self._planner.plan(workload, correct=False)
            return JobPlan((*adopt, *rest.actions), rest.events, rest.again_in, rest.note)
        message = "The prebuilt workload is out of sync with its user job"
        stop, _ = self._planner.stopped(None, "missing workload")
        if not is_true(workload.status.conditions, names.FINISHED):
            stop = stop.then(finish(workload, names.FinishedReason.OUT_OF_SYNC, message, self._now))
        return self._with_note(JobPlan((*adopt, *stop.actions)), "prebuilt workload not found")

    @staticmethod
    def _with_note(plan: JobPlan, note: str) -> JobPlan:
        return JobPlan(plan.actions, plan.events, plan.again_in, note)
