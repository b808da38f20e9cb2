"""How a gated pod starts: one strategic merge patch, with all that the admission gives. Pure; part of `plan`.

The patch names the gates that go, so that somebody else's stay; selector, labels and annotations are only added to, as
the API server asks of a gated pod. A pod whose pod set has a topology assignment keeps the topology gate, which the
ungater opens; any other loses both gates at once. A pod of a group that a ConfigMap describes bears the group's label from
then on, also if it named its group otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from admission.controllers.actions import Event
from admission.controllers.pods.actions import StartPod
from admission.controllers.sakkara.unit import ExactUnit
from admission.integrations.pod import QueuedPod
from admission.integrations.podgroup import MAIN, Unit
from admission.integrations.podset import PodSetInfo, applied
from api import names


def starts(unit: Unit, pods: Sequence[QueuedPod], infos: Sequence[PodSetInfo], queue: str) -> Iterator[StartPod]:
    """The start of each pod that waits for it. Raises PodSetConflict."""
    by_name = {info.name: info for info in infos}
    told = (Event("Started", f"Admitted by clusterQueue {queue}"),)
    described = isinstance(unit, ExactUnit) and unit.exact.config_map is not None
    labels = {names.SAKKARA_GROUP_NAME: unit.group} if described else {}
    for pod in pods:
        info = by_name.get(pod.role if unit.group else MAIN)
        if info is not None and pod.gated and pod.lasting and not pod.terminated:
            yield StartPod(pod, start_patch(pod, info, labels), told)


def start_patch(pod: QueuedPod, info: PodSetInfo, labels: Mapping[str, str]) -> dict[str, Any]:
    """The body; `labels` come on top. Raises PodSetConflict."""
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
