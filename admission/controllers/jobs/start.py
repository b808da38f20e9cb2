"""How an admitted job starts, and whether one that runs must start anew. Pure; part of `plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from admission.controllers.actions import Event
from admission.controllers.jobs.actions import PatchChild, PatchJob, Plan
from admission.controllers.jobs.endings import finish
from admission.controllers.jobs.fit import same_templates, unfinished_start
from admission.controllers.jobs.infos import FlavorMissing, pod_set_infos
from admission.controllers.jobs.surroundings import Surroundings
from admission.integrations.base import Job, JobKind, as_parent
from admission.integrations.podset import PodSetConflict, PodSetInfo
from api import names
from api.assignment import decode
from api.errors import InvalidObject
from api.workloads import PodSet, Workload

FLAVOR_RETRY: Final = 1.0


def plan_start(job: Job, kind: JobKind, workload: Workload, surroundings: Surroundings, now: float) -> Plan:
    """One patch with all that the admission gives; what cannot be merged in ends the Workload."""
    try:
        infos = _infos(kind, workload, surroundings)
        patch = kind.start(job, infos)
    except (PodSetConflict, InvalidObject) as error:
        return Plan((finish(workload, names.Finishing.FAILED_TO_START, str(error), now),), note=str(error))
    except FlavorMissing as error:
        return Plan(again_in=FLAVOR_RETRY, note=str(error))
    queue = workload.status.admission.cluster_queue if workload.status.admission else ""
    start = PatchJob(patch, (Event("Started", f"Admitted by clusterQueue {queue}"),))
    return Plan((*_cleaned_children(job, kind, infos, surroundings), start))


def _infos(kind: JobKind, workload: Workload, surroundings: Surroundings) -> tuple[PodSetInfo, ...]:
    """Child jobs keep what an earlier start gave them, so a domain that is named there could contradict the next one."""
    options = surroundings.options
    if as_parent(kind) is not None:
        options = replace(options, open_templates=False)
    return pod_set_infos(workload, surroundings.flavors, options)


def _cleaned_children(
    job: Job, kind: JobKind, infos: Sequence[PodSetInfo], surroundings: Surroundings
) -> Iterator[PatchChild]:
    """Child jobs freed of what an earlier start left on them."""
    above = as_parent(kind)
    if above is None or not surroundings.children:
        return
    labels = {key for flavor in surroundings.flavors.values() for key in flavor.spec.node_labels}
    for child in surroundings.children:
        if patch := above.child_patch(job, child, infos, labels):
            yield PatchChild(above.children, child, patch)


def is_unstarted(running: tuple[PodSet, ...], kind: JobKind, workload: Workload, surroundings: Surroundings) -> bool:
    """Whether a job runs in its own shape although its admission gives it more."""
    if not same_templates(running, workload.spec.pod_sets):
        return False
    try:
        infos = _infos(kind, workload, surroundings)
    except (PodSetConflict, FlavorMissing):
        return False
    return unfinished_start(running, infos)


def host_left(running: tuple[PodSet, ...], workload: Workload) -> str | None:
    """The host that an open template of the job names although it has failed, or the pods have another one by now.

    All pods of that pod set were there, and none made by that template can start: the job has to start anew. What the
    settings say of templates now is no matter. A template with its gate is followed by the ungater.
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
