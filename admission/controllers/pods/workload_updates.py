"""Updates a Workload when its gated pods change, and reports why no Workload can be composed. Pure; part of `pod_plan`.

The reason why pods are held is recorded as an event and, while it holds, in the Workload's status. Queue, priority class,
labels and time limit of waiting pods apply to their Workload; the class also later, while it has quota. A waiting Workload
that does not match the present pods is updated in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.workload import PriorityClassMissing, spec_patch
from admission.controllers.pods.actions import NOTHING, PodGroupPlan, ReleasePod
from admission.controllers.pods.compose import priority_label, spec_of
from admission.controllers.state.actions import PatchWorkload, PlannedEvent, SetStatus
from admission.controllers.state.conditions import MESSAGE_LIMIT, with_condition, without
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import PodUnit, TooFewPods, UnlikePods
from api import names
from api.errors import InvalidObject
from api.kube.resources import PODS
from api.meta import find_condition, is_true
from api.workloads import PodSet, Workload


def unlike(error: InvalidObject) -> PodGroupPlan:
    """Reports pods that contradict each other or their Workload."""
    return PodGroupPlan(
        events=(PlannedEvent(names.PodsHeldReason.UNLIKE_PODS, str(error), "Warning"),), note=str(error)
    )


def uncomposed(error: InvalidObject | PriorityClassMissing) -> PodGroupPlan:
    """Reports that no Workload can be composed from the pods."""
    if isinstance(error, UnlikePods):
        return unlike(error)
    reason = f"{error.kind}NotFound" if isinstance(error, PriorityClassMissing) else "ErrWorkloadCompose"
    return PodGroupPlan(events=(PlannedEvent(reason, str(error), "Warning"),), note=str(error))


def released_at_end(pods: Sequence[QueuedPod], workloads: Sequence[Workload], message: str) -> PodGroupPlan:
    """Releases the pods of a unit whose Workloads have finished, or finish now with this message.

    Pods that came too late get an event, since as in Kueue they stay gated.
    """
    late = {pod.key for pod in pods if pod.gated and not pod.deleted and not pod.terminated}
    finished = (find_condition(workload.status.conditions, names.FINISHED) for workload in workloads)
    why = next((each.message for each in finished if each is not None and each.message), message)
    note = (
        f"its Workload has finished{f' ({why})' if why else ''} and starts no more pods; delete the pods that have "
        "ended, and the Workload if it stays, or create this pod in another group"
    )
    events = (PlannedEvent(names.PodsHeldReason.GROUP_FINISHED, note, "Warning"),)
    actions = tuple(ReleasePod(pod, events if pod.key in late else ()) for pod in pods if pod.held)
    return PodGroupPlan(actions, note=note if late else "")


def with_reason(plan: PodGroupPlan, workloads: Sequence[Workload], now: float) -> PodGroupPlan:
    """Adds to the plan that the only Workload's status states why pods are held, unless the plan writes that Workload.

    While a gang has no quota, QuotaReserved=False states the reason instead. A finished Workload holds only pods that came too
    late for it.
    """
    if len(workloads) != 1 or any(getattr(action, "workload", None) is not None for action in plan.actions):
        return plan
    (workload,) = workloads
    state, status = workload.status.conditions, workload.status
    if workload.metadata.deletion_timestamp:
        return plan
    finished, reasons = is_true(state, names.FINISHED), names.PodsHeldReason
    waits = reasons.GROUP_FINISHED if finished else reasons.PODS_WAIT
    reason = next((event.reason for event in plan.events if event.message in plan.note), waits)
    old = find_condition(state, names.PODS_HELD)
    about = (reason if plan.note else "", old.reason if old else "")
    if finished and reasons.GROUP_FINISHED not in about:
        return plan
    if not plan.note or (reason == names.ReplacementReason.GANG_WAITING and not is_true(state, names.QUOTA_RESERVED)):
        return plan if old is None else plan.then(SetStatus(workload, without(status, names.PODS_HELD)))
    if old is not None and (old.reason, old.message) == (reason, plan.note[:MESSAGE_LIMIT]):
        return plan
    events = with_condition(status, names.PODS_HELD, True, reason, plan.note, now, workload.metadata.generation)
    return plan.then(SetStatus(workload, events))


def corrected(unit: PodUnit, workload: Workload, context: JobContext) -> PodGroupPlan:
    """Updates the Workload to the present pods."""
    try:
        pod_sets = unit.pod_sets(topology=context.options.topology)
        wanted = spec_of(unit, pod_sets, context, workload.spec)
    except (PriorityClassMissing, TooFewPods) as error:
        return uncomposed(error)
    except InvalidObject as error:
        return unlike(error)
    patch = spec_patch(workload, unit.as_job(), wanted)
    changed = patch.get("spec", {}).keys()
    text = f"Updated not matching Workload for suspended job: {workload.key}"
    if changed & {"priority", "priorityClassRef"} and "podSets" not in changed:
        text = f"Updated workload priority class: {workload.key}"
    events = () if changed == {"queueName"} else (PlannedEvent("UpdatedWorkload", text),)
    return PodGroupPlan((PatchWorkload(workload, patch, events),)) if patch else NOTHING


def followed(unit: PodUnit, workload: Workload, context: JobContext) -> PodGroupPlan:
    """Updates queue, class and time limit of the Workload to its pods'."""
    if is_true(workload.status.conditions, names.QUOTA_RESERVED):
        return _followed_class(unit, workload, context)
    if not unit.suspended or unit.serving:
        return NOTHING
    try:
        wanted = spec_of(unit, _relabelled(unit, workload), context, workload.spec)
    except PriorityClassMissing as error:
        return uncomposed(error)
    except UnlikePods as error:
        return unlike(error)
    patch = spec_patch(workload, unit.as_job(), wanted)
    if not patch:
        return NOTHING
    if patch.get("spec", {}).keys() & {"maximumExecutionTimeSeconds"}:
        return corrected(unit, workload, context)
    events = () if patch.get("spec", {}).keys() <= {"queueName", "podSets"} else _class_changed(workload)
    return PodGroupPlan((PatchWorkload(workload, patch, events),))


def labels_of(pod_set: PodSet) -> dict[str, str]:
    """Returns the labels of the pod set's template."""
    return dict((pod_set.template.get("metadata") or {}).get("labels") or {})


def _relabelled(unit: PodUnit, workload: Workload) -> tuple[PodSet, ...]:
    """Returns the pod sets with the labels of the pods that wait, which their users may change. Raises UnlikePods."""
    pod_sets, owner = workload.spec.pod_sets, workload.owner
    if owner is not None and owner.kind != PODS.kind:
        return pod_sets  # a set's Workload has the labels of the set's template
    return tuple(_with_labels(each, unit.labels_of(each.name)) for each in pod_sets)


def _with_labels(pod_set: PodSet, labels: dict[str, str]) -> PodSet:
    if labels_of(pod_set) == labels:
        return pod_set
    metadata = {key: value for key, value in (pod_set.template.get("metadata") or {}).items() if key != "labels"}
    template = {**pod_set.template, "metadata": {**metadata, **({"labels": labels} if labels else {})}}
    return pod_set.model_copy(update={"template": template})


def _class_changed(workload: Workload) -> tuple[PlannedEvent, ...]:
    return (PlannedEvent("UpdatedWorkload", f"Updated workload priority class: {workload.key}"),)


def _followed_class(unit: PodUnit, workload: Workload, context: JobContext) -> PodGroupPlan:
    if unit.priority is not None and unit.priority != workload.spec.priority:
        return PodGroupPlan((PatchWorkload(workload, {"spec": {"priority": unit.priority}}),))
    ref, label = workload.spec.priority_class_ref, priority_label(unit)
    if ref is None or ref.group != names.GROUP or label in (None, ref.name):
        return NOTHING
    new = context.workload_priority_classes.get(label)
    if new is None:
        return uncomposed(PriorityClassMissing("WorkloadPriorityClass", label))
    patch = {"spec": {"priority": new.value, "priorityClassRef": {"name": label}}}
    return PodGroupPlan((PatchWorkload(workload, patch, _class_changed(workload)),))
