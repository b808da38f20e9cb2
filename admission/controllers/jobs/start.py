"""How an admitted job starts, and whether one that runs was started by us. Pure; part of `plan`."""

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
from admission.integrations.base import Job, JobKind, Parent
from admission.integrations.podset import PodSetConflict, PodSetInfo
from api import names
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
    if isinstance(kind, Parent):
        options = replace(options, open_templates=False)
    return pod_set_infos(workload, surroundings.flavors, options)


def _cleaned_children(
    job: Job, kind: JobKind, infos: Sequence[PodSetInfo], surroundings: Surroundings
) -> Iterator[PatchChild]:
    """Child jobs freed of what an earlier start left on them."""
    if not isinstance(kind, Parent) or not surroundings.children:
        return
    labels = {key for flavor in surroundings.flavors.values() for key in flavor.spec.node_labels}
    for child in surroundings.children:
        if patch := kind.child_patch(job, child, infos, labels):
            yield PatchChild(kind.children, child, patch)


def is_unstarted(running: tuple[PodSet, ...], kind: JobKind, workload: Workload, surroundings: Surroundings) -> bool:
    """Whether a job runs in its own shape although its admission gives it more."""
    if not same_templates(running, workload.spec.pod_sets):
        return False
    try:
        infos = _infos(kind, workload, surroundings)
    except (PodSetConflict, FlavorMissing):
        return False
    return unfinished_start(running, infos)
