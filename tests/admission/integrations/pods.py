"""Plain pods as the API server would give them, after the webhook; and as they are read."""

from __future__ import annotations

from typing import Any

import msgspec

from admission.integrations.pods.pod import QueuedPod, QueuedPodReader
from admission.integrations.pods.podgroup import PodUnit
from api import names

Object = dict[str, Any]


def wire(
    name: str,
    *,
    group: str = "",
    total: int | str = 0,
    cpu: str = "1",
    gated: bool = True,
    phase: str = "Pending",
    created: int = 0,
    deleted: bool = False,
    node: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod of a queue; `created` in seconds of its minute."""
    meta: Object = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": f"2026-01-01T00:00:{created:02d}Z",
        "labels": {names.QUEUE_NAME_LABEL: "q", names.MANAGED_LABEL: "true", **(labels or {})},
        "annotations": {**(annotations or {})},
        "finalizers": [names.MANAGED_FINALIZER],
    }
    if group:
        meta["labels"].setdefault(names.POD_GROUP_NAME, group)
        meta["annotations"].setdefault(names.POD_GROUP_TOTAL_COUNT, str(total))
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    body: Object = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}], **spec}
    if gated:
        body["schedulingGates"] = [{"name": names.ADMISSION_GATE}, {"name": names.TOPOLOGY_GATE}]
    if node:
        body["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body, "status": {"phase": phase}}


def read(pod: Object) -> QueuedPod:
    """The pod as the controller keeps it."""
    return QueuedPodReader()(msgspec.json.encode(pod))


def unit(*pods: Object) -> PodUnit:
    """The pods as one thing that is admitted."""
    return PodUnit.of(read(pod) for pod in pods)
