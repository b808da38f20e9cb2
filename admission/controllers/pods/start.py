"""Composes the strategic merge patch that starts a gated pod with everything that its admission adds. Pure; part of `pod_plan`.

The patch names the gates to remove, so that other gates stay; selector, labels and annotations only gain entries, as the API
server requires for gated pods. A pod whose pod set has a topology assignment keeps the topology gate for the ungater; any
other pod loses both gates at once. A pod of a group that a ConfigMap describes gets the group's label, even if it named its
group otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from admission.controllers.pods.actions import StartPod
from admission.controllers.pods.gangs.sakkara_unit import ExactUnit
from admission.controllers.state.actions import PlannedEvent
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import MAIN, PodUnit, UnlikePods
from admission.integrations.podset import PodSetInfo, applied
from api import names
from api.meta import find_condition, parse_time
from api.pod.pod_requests import effective_requests
from api.pod.pods import PodSpec, pod_spec
from api.text.quantity import Resources, to_text
from api.workloads import Workload

_INJECTED: Final = ("cpu", "memory", "ephemeral-storage")
"""Requests of sidecars that other webhooks inject into pods of a set."""


def starts(
    unit: PodUnit, pods: Sequence[QueuedPod], infos: Sequence[PodSetInfo], workload: Workload
) -> Iterator[StartPod]:
    """Yields the start of each pod that waits for the Workload's admission. Raises PodSetConflict."""
    queue = workload.status.admission.cluster_queue if workload.status.admission else ""
    admission = find_condition(workload.status.conditions, names.ADMITTED)
    admitted = parse_time(admission.last_transition_time if admission else None) or 0.0
    by_name = {info.name: info for info in infos}
    events = (PlannedEvent("Started", f"Admitted by clusterQueue {queue}"),)
    described = isinstance(unit, ExactUnit) and unit.exact.config_map is not None
    labels = {names.SAKKARA_GROUP_NAME: unit.group} if described else {}
    for pod in pods:
        info = by_name.get(pod.role if unit.group else MAIN)
        if info is not None and pod.gated and pod.lasting and not pod.terminated:
            yield StartPod(pod, start_patch(pod, info, labels), events, queue, max(admitted, pod.created), workload)


def beyond(pod: QueuedPod, workload: Workload, pod_set: str) -> UnlikePods | None:
    """Returns how a gated pod's requests exceed its admitted pod set, or None; the pod's creator names its role, so the role
    is not trusted.

    Pods of a set that owns the Workload may exceed it by what was injected into them.
    """
    admitted = next((each for each in workload.spec.pod_sets if each.name == pod_set), None)
    if admitted is None or pod.spec is None:
        return None
    requested, allowed = _requests(pod.spec), effective_requests(pod_spec(admitted.template))
    of_set = workload.owner is not None and workload.owner.name == pod.owner
    free = _INJECTED if of_set else ()
    more = [name for name in sorted(requested) if requested[name] > allowed.get(name, 0) and name not in free]
    if not more:
        return None
    given = ", ".join(f"{name} {to_text(name, requested[name])}" for name in more)
    most = ", ".join(f"{name} {to_text(name, allowed.get(name, 0))}" for name in more)
    return UnlikePods("spec", given, f"at most what pod set {pod_set} was admitted with: {most}", pod.key)


@lru_cache(maxsize=1024)
def _requests(spec: bytes) -> Resources:
    """Returns the requests of a spec, cached since pods from one template share the bytes."""
    return effective_requests(msgspec.json.decode(spec, type=PodSpec))


def start_patch(pod: QueuedPod, info: PodSetInfo, labels: Mapping[str, str]) -> dict[str, Any]:
    """Returns the patch, with `labels` in addition. Raises PodSetConflict."""
    spec = pod.read_spec()
    own = {"metadata": {"labels": pod.labels, "annotations": pod.annotations}, "spec": spec}
    changed = applied(own, info)["spec"]
    patch: dict[str, Any] = {"schedulingGates": [_without(names.ADMISSION_GATE)]}
    if pod.topology_gated and names.TOPOLOGY_GATE not in info.scheduling_gates:
        patch["schedulingGates"].append(_without(names.TOPOLOGY_GATE))
    if info.node_selector:
        patch["nodeSelector"] = dict(info.node_selector)
    if changed.get("tolerations") != (spec.get("tolerations") or None):
        patch["tolerations"] = changed.get("tolerations")
    return {"metadata": _metadata(pod, info, labels), "spec": patch}


def _metadata(pod: QueuedPod, info: PodSetInfo, labels: Mapping[str, str]) -> dict[str, Any]:
    given: Mapping[str, Mapping[str, str]] = {
        "labels": {**info.labels, **labels},
        "annotations": info.annotations,
    }
    meta: dict[str, Any] = {name: dict(values) for name, values in given.items() if values}
    return {**meta, "uid": pod.metadata.uid} if pod.metadata.uid else meta


def _without(gate: str) -> dict[str, str]:
    return {"name": gate, "$patch": "delete"}
