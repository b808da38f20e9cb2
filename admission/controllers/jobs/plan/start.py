"""Starts an admitted job, and detects running jobs that must restart or were overlooked. Pure; part of `job_plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from admission.controllers.jobs.actions import NOTHING, JobPlan, PatchChild, PatchJob
from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.equivalence import same_templates, unfinished_start
from admission.controllers.jobs.plan.finish import finish
from admission.controllers.jobs.plan.pod_set_infos import FlavorMissing, pod_set_infos
from admission.controllers.state.actions import PlannedEvent
from admission.integrations.base import Job, JobIntegration, as_overlookable, as_parent, patch_between
from admission.integrations.podset import PodSetConflict, PodSetInfo
from api import names
from api.assignment import decode
from api.errors import InvalidObject
from api.meta import find_condition, parse_time, rfc3339
from api.workloads import PodSet, Workload

FLAVOR_RETRY: Final = 1.0
WAKE_AFTER: Final = 330.0
"""For five minutes the Job controller keeps, by name, its expectations of a deleted Job, and misses changes of a later Job of
that name (kubernetes/kubernetes#142142).
"""


def plan_start(job: Job, kind: JobIntegration, workload: Workload, context: JobContext, now: float) -> JobPlan:
    """Plans one patch with everything that the admission adds; finishes the Workload if a merge conflicts."""
    try:
        infos = _infos(kind, workload, context)
        patch = kind.start(job, infos)
    except (PodSetConflict, InvalidObject) as error:
        return JobPlan((finish(workload, names.FinishedReason.FAILED_TO_START, str(error), now),), note=str(error))
    except FlavorMissing as error:
        return JobPlan(again_in=FLAVOR_RETRY, note=str(error))
    queue = workload.status.admission.cluster_queue if workload.status.admission else ""
    start = PatchJob(patch, (PlannedEvent("Started", f"Admitted by clusterQueue {queue}"),), starts=workload.key)
    return JobPlan((*_cleaned_children(job, kind, infos, context), start))


def plan_overlooked(job: Job, kind: JobIntegration, workload: Workload, now: float) -> JobPlan:
    """Plans a change of the job that wakes its own controller, if that controller has ignored it for `WAKE_AFTER` seconds."""
    overlookable = as_overlookable(kind)
    since = overlookable.overlooked_since(job) if overlookable else None
    if since is None:
        return NOTHING
    meta, admission = job["metadata"], find_condition(workload.status.conditions, names.ADMITTED)
    annotations = meta.get("annotations") or {}
    admitted, woken = admission.last_transition_time if admission else None, annotations.get(names.WOKEN_AT)
    left = max(since, _time(admitted), _time(woken)) + WAKE_AFTER - now
    if left > 0:
        return JobPlan(again_in=left)
    text = f"Not begun by its own controller within {WAKE_AFTER:.0f} s of its start; changed, so that it is looked at"
    noted = {**meta, "annotations": {**annotations, names.WOKEN_AT: rfc3339(now)}}
    patch = patch_between(job, {**job, "metadata": noted}) or {}
    return JobPlan((PatchJob(patch, (PlannedEvent("Woken", text, "Warning"),)),), again_in=WAKE_AFTER)


def _time(text: str | None) -> float:
    """Parses epoch seconds; 0 for no or an invalid time, since users can write annotations."""
    try:
        return parse_time(text) or 0.0
    except ValueError:
        return 0.0


def _infos(kind: JobIntegration, workload: Workload, context: JobContext) -> tuple[PodSetInfo, ...]:
    """Computes the infos; child jobs keep leftovers of a start, so a domain named there could contradict a later start."""
    options = context.options
    if as_parent(kind) is not None:
        options = replace(options, open_templates=False)
    return pod_set_infos(workload, context.flavors, options)


def _cleaned_children(
    job: Job, kind: JobIntegration, infos: Sequence[PodSetInfo], context: JobContext
) -> Iterator[PatchChild]:
    """Yields the patches that remove an earlier start's leftovers from child jobs."""
    above = as_parent(kind)
    if above is None or not context.children:
        return
    labels = {key for flavor in context.flavors.values() for key in flavor.spec.node_labels}
    for child in context.children:
        if patch := above.child_patch(job, child, infos, labels):
            yield PatchChild(above.children, child, patch)


def is_unstarted(running: tuple[PodSet, ...], kind: JobIntegration, workload: Workload, context: JobContext) -> bool:
    """Reports whether the job runs with its original templates although its admission adds to them."""
    if not same_templates(running, workload.spec.pod_sets):
        return False
    try:
        infos = _infos(kind, workload, context)
    except (PodSetConflict, FlavorMissing):
        return False
    return unfinished_start(running, infos)


def host_left(running: tuple[PodSet, ...], workload: Workload) -> str | None:
    """Returns a host that an ungated template of the job names although it failed or the pods were assigned elsewhere.

    All pods of that pod set were on the host and none can start from the template, so the job must restart, whatever
    `open_templates` says now. The ungater serves gated templates, which need no restart.
    """
    named = {pod_set.name: host for pod_set in running if (host := _host_of_open(pod_set)) is not None}
    if not named or workload.status.admission is None:
        return None
    failed = {node.name for node in workload.status.unhealthy_nodes}
    for psa in workload.status.admission.pod_set_assignments:
        host, placed = named.get(psa.name), psa.topology_assignment
        if host is None or placed is None or placed.levels[-1] != names.HOSTNAME_LABEL:
            continue
        if host in failed or any(values[-1] != host for values, _ in decode(placed)):
            return host
    return None


def _host_of_open(pod_set: PodSet) -> str | None:
    spec = pod_set.template.get("spec") or {}
    if any(gate.get("name") == names.TOPOLOGY_GATE for gate in spec.get("schedulingGates") or ()):
        return None
    return (spec.get("nodeSelector") or {}).get(names.HOSTNAME_LABEL)
