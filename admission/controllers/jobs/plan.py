"""What to do about one job now: a function from the job and its Workloads to a list of actions. Pure.

The order of the questions is Kueue's (lifecycle description, 3.3). A plan goes as far as the present state allows and
is made again with every change of the job or its Workload, so nothing is remembered between two plans. In brief:

    the job has ended            -> its Workload is Finished, and loses its finalizer
    no Workload fits the job     -> stop it; correct the one Workload that waits, or delete those that do not fit; make one
    the Workload goes or is evicted -> stop the job; once it rests, let go of the finalizer, or give the quota back
    admitted and suspended       -> start
    runs and is not admitted     -> stop, and once it rests restore the templates
    runs, but was overlooked     -> wake its own controller

Jobs on hold, and those that cannot be read, are in holding.py. An elastic job has more than one Workload while it grows
(elastic.py). `jobs` calls it and acts.
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
    """The plan for a job that exists; `workloads` are those it owns. `now` in epoch seconds."""
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
    """A child runs when its managed ancestor is admitted; its templates are the ancestor's affair.

    It has no Workload. One from before its ancestor was managed goes; where that has started it, it stops first, and gets its
    own templates back.
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
    """One plan in the making."""

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

    # ---- which Workload

    def _fits(self, workload: Workload) -> bool:
        """A job that runs is held to what was admitted; one that is suspended may show either shape."""
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
        """The Workload of an elastic job with the pod counts that the job has now."""
        pod_sets = with_counts(workload.spec.pod_sets, counts_of(self._pod_sets))
        return workload.model_copy(update={"spec": workload.spec.model_copy(update={"pod_sets": pod_sets})})

    # ---- the slices of an elastic job

    def _sliced(self, slices: Slices) -> JobPlan:
        """Its Workloads put in order; then what follows for the job from the one that has quota."""
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
        """The slice that has quota shrinks with the job; a job that lacks pods has a next slice, which follows it."""
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
        """Whether the plan is to stop the job or to end its Workload."""
        return any(isinstance(action, PatchJob | SetStatus | DeleteWorkload) for action in made.actions)

    def _next_slice(self, current: Workload, asked: tuple[PodSet, ...]) -> CreateWorkload:
        """Named after the job's generation, as Kueue does; a second one of a generation also after the slice before it."""
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
        """Whether the admission was taken from the Workload that the job was started with, with no eviction (Kueue allows it).

        Such a job stops and gets its own templates back. The Workload must not follow templates that a start has changed.
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
        # A Workload that was never admitted has added nothing to the templates: they are as their maker wants them.
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
        """Whether the Workload may follow the job: nothing was decided about it, and the job shows its own shape."""
        reserved = is_true(workload.status.conditions, names.QUOTA_RESERVED)
        going = workload.metadata.deletion_timestamp or is_true(workload.status.conditions, names.FINISHED)
        return self._at_rest() and not reserved and not going

    def _corrected(self, workload: Workload) -> JobPlan:
        """The Workload made to follow its job, all of it."""
        try:
            asked = workload.spec.pod_sets
            if not same_pod_sets(self._pod_sets, asked):
                asked = self._pod_sets
            return self._followed_by(workload, asked)
        except PriorityClassMissing as error:
            return _with_class_missing(NOTHING, error)

    def _followed_by(self, workload: Workload, asked: tuple[PodSet, ...]) -> JobPlan:
        """The Workload, which has no quota, with these pod sets and all else that the job says. Raises PriorityClassMissing."""
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

    # ---- what to do with it

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
        """What the job's pods say about the Workload, where that is asked for."""
        status, options = workload.status, self._context.options
        if options.reclaimable_pods:
            status = with_reclaimable(status, self._kind, self._job)
        if options.wait_for_pods_ready:
            generation = workload.metadata.generation
            status = with_pods_ready(status, self._pods_ready(workload), self._now, generation)
        return SetStatus(workload, status) if status is not workload.status else None

    def _pods_ready(self, workload: Workload) -> bool:
        """Whether the pods that were admitted are ready. Those that an elastic job lacks are not waited for."""
        if self._kind.pods_ready(self._job):
            return True
        lacking = self._elastic and lacks_pods(workload, counts_of(self._pod_sets))
        return lacking and self._kind.is_active(self._job)

    def _evicted(self, workload: Workload) -> JobPlan | None:
        """Quota goes back only when the job's pods are gone and its templates are its own again; None when it has."""
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
        """Queue, class and time limit follow a suspended job; the class of a Workload also later, with its quota."""
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
        """Started, or else running as it was started, not because another client unsuspended it while it was being admitted.

        A job whose template names a host that failed keeps its admission, and restarts with what that says now.
        """
        if (host := host_left(self._pod_sets, workload)) is not None:
            return self._stopped(workload, f"Host {host} failed; the job starts again where its pods go now")[0]
        if self._at_rest():
            if bears_start(self._pod_sets, workload) and (restore := self._stopped(workload, NOT_ADMITTED)[0]).actions:
                return restore  # what an earlier admission gave might contradict this one
            return plan_start(self._job, self._kind, workload, self._context, self._now)
        if self._kind.is_suspended(self._job):
            return NOTHING  # the last run is not over yet; the job will change when it is
        if is_unstarted(self._pod_sets, self._kind, workload, self._context):
            return self._stopped(workload, NOT_ADMITTED)[0]
        return plan_overlooked(self._job, self._kind, workload, self._now)

    def _at_rest(self) -> bool:
        return self._kind.is_suspended(self._job) and not self._kind.is_active(self._job)

    def _stopped(self, workload: Workload | None, message: str) -> tuple[JobPlan, bool]:
        """The next step to a suspended job with its own templates, and whether that is the last one."""
        patch = self._kind.stop(self._job, workload.spec.pod_sets if workload else None)
        if patch is None:
            return NOTHING, self._at_rest()
        events = () if self._kind.is_suspended(self._job) else (PlannedEvent("Stopped", message),)
        return JobPlan((PatchJob(patch, events),)), self._at_rest()
