"""Computes what a start adds to pod sets: from flavors, admission checks, queue names and the topology assignment. Pure.

The additions are Kueue's; job adapters merge them into the templates. With `open_templates`, a pod set whose pods all go to
one domain, a rack or a host, gets the domain's labels as node selector instead of the gate, so that none of its pods needs a
patch. A template cannot change when its host fails, so the job then restarts (start.py), and a failed host is never named: its
pods wait at the gate for another host. Pods of slices always get the gate, since pods created later go elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from admission.controllers.jobs.context import JobOptions
from admission.controllers.watch.slices import first_key, gates_of, is_slice
from admission.controllers.watch.volumes.pod_claims import makes_claims
from admission.integrations.podset import PodSetInfo
from api import names
from api.assignment import decode
from api.errors import StowageError
from api.meta import split_key
from api.topology import ResourceFlavor
from api.workloads import Admission, PodSet, PodSetAssignment, Workload, WorkloadStatus

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_REQUESTED = (names.REQUIRED_TOPOLOGY, names.PREFERRED_TOPOLOGY, names.UNCONSTRAINED_TOPOLOGY)


class FlavorMissing(StowageError):
    """An admitted Workload names a ResourceFlavor that does not exist."""


def pod_set_infos(
    workload: Workload, flavors: Mapping[str, ResourceFlavor], options: JobOptions
) -> tuple[PodSetInfo, ...]:
    """Returns one info per pod set of the admission. Raises PodSetConflict if checks contradict, FlavorMissing."""
    admission = workload.status.admission
    if admission is None:
        return ()
    pod_sets = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
    return tuple(
        _info(workload, admission, psa, pod_sets[psa.name], flavors, options)
        for psa in admission.pod_set_assignments
        if psa.name in pod_sets
    )


def _info(
    workload: Workload,
    admission: Admission,
    psa: PodSetAssignment,
    pod_set: PodSet,
    flavors: Mapping[str, ResourceFlavor],
    options: JobOptions,
) -> PodSetInfo:
    more_gates = gates_of(workload)
    gated = bool(more_gates) or makes_claims(pod_set.template)
    domain = _one_domain(psa, workload.status) if options.open_templates and not gated else {}
    gate = (names.TOPOLOGY_GATE,) if psa.topology_assignment else ()
    gates = (*gate, *more_gates)
    opened = {names.OPENED_LABEL: "true"} if domain else {}
    info = PodSetInfo(
        psa.name,
        pod_set.count if psa.count is None else psa.count,
        labels={names.PODSET_LABEL: psa.name, **_queue_labels(workload, admission, options), **opened},
        annotations={
            **(_annotations(workload.metadata.name, psa, pod_set) if options.topology else {}),
            **(_slice_annotations(workload) if is_slice(workload) else {}),
        },
        node_selector=domain,
        scheduling_gates=() if domain else gates,
        opened=gate if domain else (),
    )
    for name in sorted(set(psa.flavors.values())):
        flavor = flavors.get(name)
        if flavor is None:
            raise FlavorMissing(f"Workload {workload.key}: pod set {psa.name}: ResourceFlavor {name} does not exist")
        info = info.merged(node_selector=flavor.spec.node_labels, tolerations=flavor.spec.tolerations)
    for check in workload.status.admission_checks:
        for update in check.pod_set_updates:
            if update.name == psa.name:
                info = info.merged(
                    labels=update.labels,
                    annotations=update.annotations,
                    node_selector=update.node_selector,
                    tolerations=update.tolerations,
                    source=check.name,
                )
    return info


def _slice_annotations(workload: Workload) -> dict[str, str]:
    """Returns the annotations by which pods find the slice of their job that currently has quota (slices.py)."""
    first = split_key(first_key(workload))[1]
    return {names.WORKLOAD_ANNOTATION: workload.metadata.name, names.WORKLOAD_SLICE_NAME: first}


def _one_domain(psa: PodSetAssignment, status: WorkloadStatus) -> dict[str, str]:
    """Returns the node labels of the assignment's only domain; empty for several domains or a failed host."""
    placed = psa.topology_assignment
    if placed is None:
        return {}
    domains = decode(placed)
    if len(domains) != 1:
        return {}
    labels = dict(zip(placed.levels, domains[0][0], strict=True))
    failed = {node.name for node in status.unhealthy_nodes}
    return {} if labels.get(names.HOSTNAME_LABEL) in failed else labels


def _queue_labels(workload: Workload, admission: Admission, options: JobOptions) -> dict[str, str]:
    """Returns labels with the queues' names, as far as these are valid DNS labels."""
    if not options.assign_queue_labels:
        return {}
    labels = {
        names.LOCAL_QUEUE_LABEL: workload.spec.queue_name,
        names.CLUSTER_QUEUE_LABEL: admission.cluster_queue,
    }
    return {key: name for key, name in labels.items() if _DNS_LABEL.fullmatch(name)}


def _annotations(workload: str, psa: PodSetAssignment, pod_set: PodSet) -> dict[str, str]:
    """Returns the ungater's annotations, and the topology request where only the job or the queue makes it."""
    request = pod_set.topology_request
    marks = {names.WORKLOAD_ANNOTATION: workload}
    if psa.topology_assignment is None and not (request and request.explicit):
        return marks
    marks |= {names.TOPOLOGY_WORKLOAD: workload, names.TOPOLOGY_PODSET: pod_set.name}
    own = (pod_set.template.get("metadata") or {}).get("annotations") or {}
    if psa.topology_assignment is None or any(key in own for key in _REQUESTED):
        return marks
    if request and request.required:
        return marks | {names.REQUIRED_TOPOLOGY: request.required}
    if request and request.preferred:
        return marks | {names.PREFERRED_TOPOLOGY: request.preferred}
    return marks | {names.UNCONSTRAINED_TOPOLOGY: "true"}
