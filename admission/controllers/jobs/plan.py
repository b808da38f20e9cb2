"""Computes the due actions for one job from the job and its Workloads. Pure; the job controller calls it.

The decisions are made in Kueue's order. A plan goes as far as the present state allows and is computed again with every change
of the job or its Workload, so no state is kept between two plans. In brief:

    the job has ended               -> its Workload is Finished, then loses its finalizer
    no Workload fits the job        -> stop the job; update its one pending Workload, or delete Workloads and create one
    Workload is deleted or evicted  -> stop the job; once at rest, remove the finalizer or release the quota
    admitted and suspended          -> start the job
    running and not admitted        -> stop the job; once at rest, restore the templates
    running, but overlooked         -> wake the kind's own controller

holding.py covers jobs that are on hold or cannot be read. An elastic job has more than one Workload while it grows
(elastic.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from admission.controllers import conditions
from admission.controllers.actions import CreateWorkload, DeleteWorkload, PatchWorkload, PlannedEvent, SetStatus
from admission.controllers.jobs.actions import NOTHING, Action, JobPlan, PatchJob
from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.elastic import (
    Slices,
    counts_of,
    first_ask,
    is_elastic,
    lacks_pods,
    pod_sets_of,
    replacement_message,
    shrunk,
    slice_annotations,
    slices_of,
    with_counts,
)
from admission.controllers.jobs.equivalence import (
    bears_start,
    same_pod_sets,
    same_templates,
    similar_pod_sets,
    started_pod_sets,
)
from admission.controllers.jobs.finish import (
    check_messages,
    declared_finished,
    finish,
    kept_until,
    let_go,
    plan_ended,
    plan_orphaned,
    stop_keeping,
)
from admission.controllers.jobs.holding import NOT_ADMITTED, plan_hold, plan_unreadable
from admission.controllers.jobs.pods_ready import with_pods_ready, with_reclaimable
from admission.controllers.jobs.start import host_left, is_unstarted, plan_overlooked, plan_start
from admission.controllers.jobs.workload import (
    PriorityClassMissing,
    adopted,
    composed,
    is_managed,
    labels_of,
    owner_reference,
    prebuilt_key,
    spec_patch,
    wanted_spec,
)
from admission.integrations.base import Job, JobIntegration, as_selective
from api import names
from api.errors import InvalidObject
from api.meta import find_condition, is_true
from api.workloads import PodSet, Workload


def plan(job: Job, kind: JobIntegration, workloads: Sequence[Workload], context: JobContext, now: float) -> JobPlan:
    """Returns the plan for an existing job that owns `workloads`; `now` is in epoch seconds."""
    if (job.get("metadata") or {}).get("deletionTimestamp"):
        return plan_orphaned(workloads, context.options, now)
    if context.ancestor_admitted is not None:
        return _plan_child(job, kind, workloads, context.ancestor_admitted)
    selective = as_selective(kind)
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
    return NOTHING.then(*_dropped(workloads)) if rests or (admitted and own is None) else NOTHING


def _dropped(workloads: Sequence[Workload]) -> Iterator[Action]:
    for workload in workloads:
        yield from let_go(workload)
        if not workload.metadata.deletion_timestamp:
            event = PlannedEvent("DeletedWorkload", f"Deleted not matching Workload: {workload.key}")
            yield DeleteWorkload(workload, (event,))


def _with_class_missing(made: JobPlan, error: PriorityClassMissing) -> JobPlan:
    event = PlannedEvent(f"{error.kind}NotFound", str(error), "Warning")
    return JobPlan(made.actions, (*made.events, event), made.again_in, str(error))


class _JobPlanner:
    """Computes one plan for one job."""

    def __init__(self, job: Job, kind: JobIntegration, context: JobContext, now: float) -> None:
        self._job, self._kind, self._context, self._now = job, kind, context, now
        self._pod_sets = pod_sets_of(job, kind, context.options)
        self._elastic = is_elastic(job, kind, context.options)
        self._names: set[str] = set()

    def plan(self, workloads: Sequence[Workload]) -> JobPlan:
        key = prebuilt_key(self._job)
        prebuilt = self._context.workloads.get(key) if key else None
        if end := self._kind.finished(self._job):
            return plan_ended([prebuilt] if prebuilt else workloads, end, self._now)
        if key:
            return self._prebuilt(prebuilt)
        if self._elastic:
            self._names = {workload.metadata.name for workload in workloads}
            slices = slices_of(workloads)
            if slices.current is not None or slices.replaced or slices.stale:
                return self._sliced(slices)
            workloads = slices.others
        fitting = next((workload for workload in workloads if self._fits(workload)), None)
        if fitting is None:
            return self._none_fits(workloads)
        others = [workload for workload in workloads if workload is not fitting]
        if others:
            return self._deleted(others, "extra workloads")
        return self._with_workload(fitting, correct=True)

    # ---- choice of the Workload

    def _fits(self, workload: Workload) -> bool:
        """Compares a running job with what was admitted; a suspended job may have original or started templates."""
        pod_sets = self._pod_sets
        if self._elastic:
            pod_sets, workload = with_counts(pod_sets, {}), self._resized(workload)
        waits = self._kind.is_suspended(self._job) or workload.status.admission is None
        return (
            (waits and same_pod_sets(pod_sets, workload.spec.pod_sets))
            or started_pod_sets(pod_sets, workload, self._runs_admitted(workload))
            or self._lost_admission(workload)
        )

    def _resized(self, workload: Workload) -> Workload:
        """Returns an elastic job's Workload with the job's present pod counts."""
        pod_sets = with_counts(workload.spec.pod_sets, counts_of(self._pod_sets))
        return workload.model_copy(update={"spec": workload.spec.model_copy(update={"pod_sets": pod_sets})})

    # ---- slices of an elastic job

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
        if not self._fits(current):
            return self._none_fits([current, *([slices.following] if slices.following else [])])
        try:
            return self._grown(current, slices.following)
        except PriorityClassMissing as error:
            return _with_class_missing(NOTHING, error)

    def _grown(self, current: Workload, following: Workload | None) -> JobPlan:
        """Shrinks the slice that has quota with the job; creates or updates the next slice if the job lacks pods."""
        wanted = counts_of(self._pod_sets)
        if (patch := shrunk(current, wanted)) is not None:
            event = PlannedEvent("UpdatedWorkload", f"Updated not matching Workload for elastic job: {current.key}")
            return JobPlan((PatchWorkload(current, patch, (event,)),))
        if not lacks_pods(current, wanted):
            if following is not None:
                return self._deleted([following], "")
            return self._with_workload(current, correct=True)
        asked = with_counts(current.spec.pod_sets, wanted)
        if following is None:
            rest = self._with_workload(current, correct=True)
            return rest if self._stops(rest) else rest.then(self._next_slice(current, asked))
        first = self._followed_by(following, asked)
        rest = self._with_workload(current, correct=True)
        return JobPlan((*first.actions, *rest.actions), (*first.events, *rest.events), rest.again_in, rest.note)

    @staticmethod
    def _stops(made: JobPlan) -> bool:
        """Reports whether the plan stops the job or ends its Workload."""
        return any(isinstance(action, PatchJob | SetStatus | DeleteWorkload) for action in made.actions)

    def _next_slice(self, current: Workload, asked: tuple[PodSet, ...]) -> CreateWorkload:
        """Creates the next slice, named after the job's generation as in Kueue.

        A second slice of one generation is also named after the slice before it.
        """
        generation = str((self._job.get("metadata") or {}).get("generation") or 0)
        made = composed(self._job, self._kind, self._context, generation)
        if made.metadata.name in self._names:
            made = composed(self._job, self._kind, self._context, f"{generation}/{current.metadata.name}")
        spec = made.spec.model_copy(update={"pod_sets": asked})
        meta = made.metadata.model_copy(
            update={"annotations": {**made.metadata.annotations, **slice_annotations(current)}}
        )
        event = PlannedEvent("CreatedWorkload", f"Created Workload: {made.key}")
        return CreateWorkload(made.model_copy(update={"spec": spec, "metadata": meta}), (event,))

    def _lost_admission(self, workload: Workload) -> bool:
        """Reports whether a started job's Workload lost its admission without an eviction, which Kueue allows.

        Such a job stops and gets its original templates back. The Workload must not follow templates that a start changed.
        """
        state = workload.status.conditions
        reserved = is_true(state, names.QUOTA_RESERVED) and workload.status.admission is not None
        over = workload.metadata.deletion_timestamp or is_true(state, names.FINISHED)
        return not reserved and not over and bears_start(self._pod_sets, workload)

    def _runs_admitted(self, workload: Workload) -> bool:
        admitted = is_true(workload.status.conditions, names.ADMITTED)
        return admitted and not self._kind.is_suspended(self._job)

    def _none_fits(self, workloads: Sequence[Workload]) -> JobPlan:
        if not workloads:
            stop, _ = self._stopped(None, "Missing Workload; unable to restore pod templates")
            return self._created(stop)
        only = workloads[0]
        if len(workloads) == 1 and self._may_correct(only):
            return self._corrected(only)
        text = "No matching Workload; restoring pod templates according to existent Workload"
        # A Workload that was never admitted added nothing to the templates, so they are the user's own.
        added = is_true(only.status.conditions, names.ADMITTED) or not self._at_rest()
        stop, at_rest = self._stopped(only if added else None, text)
        if not at_rest and (self._kind.is_active(self._job) or not same_templates(self._pod_sets, only.spec.pod_sets)):
            return stop
        return stop.then(*self._deleted(workloads, "").actions)

    def _created(self, stop: JobPlan) -> JobPlan:
        try:
            workload = composed(self._job, self._kind, self._context)
        except PriorityClassMissing as error:
            return _with_class_missing(stop, error)
        event = PlannedEvent("CreatedWorkload", f"Created Workload: {workload.key}")
        return stop.then(CreateWorkload(workload, (event,)))

    def _may_correct(self, workload: Workload) -> bool:
        """Reports whether the Workload may follow the job: it has no quota, and the job is at rest with original templates."""
        reserved = is_true(workload.status.conditions, names.QUOTA_RESERVED)
        going = workload.metadata.deletion_timestamp or is_true(workload.status.conditions, names.FINISHED)
        return self._at_rest() and not reserved and not going

    def _corrected(self, workload: Workload) -> JobPlan:
        """Updates all of the Workload's spec to the job's."""
        try:
            asked = workload.spec.pod_sets
            wanted = first_ask(self._job, self._kind, self._pod_sets, self._context.options)
            if not same_pod_sets(wanted, asked):
                asked = wanted
            return self._followed_by(workload, asked)
        except PriorityClassMissing as error:
            return _with_class_missing(NOTHING, error)

    def _followed_by(self, workload: Workload, asked: tuple[PodSet, ...]) -> JobPlan:
        """Updates a Workload without quota to these pod sets and the job's other settings. Raises PriorityClassMissing."""
        wanted = wanted_spec(self._job, self._kind, asked, self._context, workload.spec)
        patch = spec_patch(workload, self._job, wanted)
        changed = patch.get("spec", {}).keys()
        text = f"Updated not matching Workload for suspended job: {workload.key}"
        if changed & {"priority", "priorityClassRef"} and ("podSets" not in changed or self._elastic):
            text = f"Updated workload priority class: {workload.key}"
        events = () if changed == {"queueName"} else (PlannedEvent("UpdatedWorkload", text),)
        return JobPlan((PatchWorkload(workload, patch, events),)) if patch else NOTHING

    def _deleted(self, workloads: Sequence[Workload], note: str) -> JobPlan:
        return JobPlan(note=note).then(*_dropped(workloads))

    def _prebuilt(self, workload: Workload | None) -> JobPlan:
        if workload is None:
            events = PlannedEvent(
                "PrebuiltWorkloadNotFound", f'prebuilt Workload "{prebuilt_key(self._job)}" not found', "Warning"
            )
            stop = self._stopped(None, "missing workload")[0]
            return self._with_note(JobPlan(stop.actions, (*stop.events, events)), "prebuilt workload not found")
        own = owner_reference(self._job, self._kind)
        if any(owner.controller and owner.uid != own.uid for owner in workload.metadata.owner_references):
            return self._with_note(self._stopped(None, "missing workload")[0], "prebuilt workload not found")
        adopt = adopted(workload, own)
        if similar_pod_sets(self._pod_sets, workload.spec.pod_sets) or self._fits(workload):
            rest = self._with_workload(workload, correct=False)
            return JobPlan((*adopt, *rest.actions), rest.events, rest.again_in, rest.note)
        message = "The prebuilt workload is out of sync with its user job"
        stop, _ = self._stopped(None, "missing workload")
        if not is_true(workload.status.conditions, names.FINISHED):
            stop = stop.then(finish(workload, names.FinishedReason.OUT_OF_SYNC, message, self._now))
        return self._with_note(JobPlan((*adopt, *stop.actions)), "prebuilt workload not found")

    @staticmethod
    def _with_note(made: JobPlan, note: str) -> JobPlan:
        return JobPlan(made.actions, made.events, made.again_in, note)

    # ---- actions for that Workload

    def _with_workload(self, workload: Workload, *, correct: bool) -> JobPlan:
        state = workload.status.conditions
        if is_true(state, names.FINISHED):
            stop, at_rest = self._stopped(workload, NOT_ADMITTED)
            return stop.then(*let_go(workload, declared_finished(workload))) if at_rest else stop
        if workload.metadata.deletion_timestamp:
            stop, at_rest = self._stopped(workload, "Workload is deleted")
            return stop.then(*let_go(workload)) if at_rest else stop
        if ready := self._observed(workload):
            return JobPlan((ready,))
        if is_true(state, names.EVICTED) and (leaving := self._evicted(workload)) is not None:
            return leaving
        if self._lost_admission(workload):
            return self._stopped(workload, NOT_ADMITTED)[0]
        if correct and (follow := self._followed(workload)) != NOTHING:
            return follow
        if is_true(state, names.ADMITTED):
            return self._admitted(workload)
        if not self._kind.is_suspended(self._job):
            return self._stopped(workload, NOT_ADMITTED)[0]
        return JobPlan(events=check_messages(workload))

    def _observed(self, workload: Workload) -> SetStatus | None:
        """Updates reclaimable pods and PodsReady in the Workload's status, where enabled."""
        status, options = workload.status, self._context.options
        if options.reclaimable_pods:
            status = with_reclaimable(status, self._kind, self._job)
        if options.wait_for_pods_ready:
            generation = workload.metadata.generation
            status = with_pods_ready(status, self._pods_ready(workload), self._now, generation)
        return SetStatus(workload, status) if status is not workload.status else None

    def _pods_ready(self, workload: Workload) -> bool:
        """Reports whether the admitted pods are ready; pods that an elastic job still lacks do not count."""
        if self._kind.pods_ready(self._job):
            return True
        lacking = self._elastic and lacks_pods(workload, counts_of(self._pod_sets))
        return lacking and self._kind.is_active(self._job)

    def _evicted(self, workload: Workload) -> JobPlan | None:
        """Releases the quota once the job's pods are gone and its templates restored; returns None when nothing is left to
        do."""
        eviction = find_condition(workload.status.conditions, names.EVICTED)
        stop, at_rest = self._stopped(workload, eviction.message if eviction else "")
        reserved = is_true(workload.status.conditions, names.QUOTA_RESERVED)
        kept = kept_until(workload, self._context.options)
        if not at_rest:
            return stop if stop.actions or reserved or kept is not None else None
        if reserved:
            released = conditions.released(workload.status, self._now, workload.metadata.generation)
            stop = stop.then(SetStatus(workload, released))
        if kept is not None:
            return stop_keeping(stop, kept - self._now)
        return stop if stop.actions else None

    def _followed(self, workload: Workload) -> JobPlan:
        """Updates queue, priority class and time limit of a suspended job; with quota, only the WorkloadPriorityClass."""
        if not is_true(workload.status.conditions, names.QUOTA_RESERVED):
            return self._corrected(workload) if self._at_rest() else NOTHING
        ref, label = workload.spec.priority_class_ref, labels_of(self._job).get(names.PRIORITY_CLASS_LABEL)
        if ref is None or ref.group != names.GROUP or label in (None, ref.name):
            return NOTHING
        new = self._context.workload_priority_classes.get(label)
        if new is None:
            return _with_class_missing(NOTHING, PriorityClassMissing("WorkloadPriorityClass", label))
        patch = {"spec": {"priority": new.value, "priorityClassRef": {"name": label}}}
        event = PlannedEvent("UpdatedWorkload", f"Updated workload priority class: {workload.key}")
        return JobPlan((PatchWorkload(workload, patch, (event,)),))

    def _admitted(self, workload: Workload) -> JobPlan:
        """Starts the job, or stops a job that another client unsuspended during its admission.

        A job whose template names a failed host keeps its admission and restarts with the present assignment.
        """
        if (host := host_left(self._pod_sets, workload)) is not None:
            return self._stopped(workload, f"Host {host} failed; the job starts again where its pods go now")[0]
        if self._at_rest():
            if bears_start(self._pod_sets, workload) and (restore := self._stopped(workload, NOT_ADMITTED)[0]).actions:
                return restore  # leftovers of an earlier admission might contradict the present one
            return plan_start(self._job, self._kind, workload, self._context, self._now)
        if self._kind.is_suspended(self._job):
            return NOTHING  # the last run has not ended; its end changes the job
        if is_unstarted(self._pod_sets, self._kind, workload, self._context):
            return self._stopped(workload, NOT_ADMITTED)[0]
        return plan_overlooked(self._job, self._kind, workload, self._now)

    def _at_rest(self) -> bool:
        return self._kind.is_suspended(self._job) and not self._kind.is_active(self._job)

    def _stopped(self, workload: Workload | None, message: str) -> tuple[JobPlan, bool]:
        """Returns the next step toward a suspended job with its original templates, and whether the job is at rest."""
        patch = self._kind.stop(self._job, workload.spec.pod_sets if workload else None)
        if patch is None:
            return NOTHING, self._at_rest()
        events = () if self._kind.is_suspended(self._job) else (PlannedEvent("Stopped", message),)
        return JobPlan((PatchJob(patch, events),)), self._at_rest()
