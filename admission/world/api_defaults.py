"""Fields that the API server and the kubelet would set on an object from a file. Called by builder.py."""

from __future__ import annotations

from typing import Any

from api.names import HOSTNAME_LABEL, NAMESPACE_NAME_LABEL, OS_LABEL, SIMULATED_ARRIVAL
from api.workloads import Workload

Object = dict[str, Any]


def settle_node(node: Object) -> None:
    """Sets a node's default labels, allocatable resources and Ready condition in place."""
    labels = node["metadata"].setdefault("labels", {})
    labels.setdefault(HOSTNAME_LABEL, node["metadata"]["name"])
    labels.setdefault(OS_LABEL, "linux")
    status = node.setdefault("status", {})
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = status["capacity"]
    if not status.get("conditions"):
        status["conditions"] = [{"type": "Ready", "status": "True"}]


def settle_namespace(namespace: Object) -> None:
    """Sets the label with the namespace's name in place."""
    meta = namespace["metadata"]
    meta["labels"] = {NAMESPACE_NAME_LABEL: meta["name"], **(meta.get("labels") or {})}


def as_created(workload: Workload, created: str, uid: str) -> Workload:
    """Returns the Workload with a creation timestamp (RFC 3339) and a UID, as the API server would store it."""
    meta = {"creation_timestamp": created, "uid": uid}
    return workload.model_copy(update={"metadata": workload.metadata.model_copy(update=meta)})


def arrive_at_once(obj: Object) -> None:
    """Removes creation and simulated arrival times in place, so that the object arrives at once."""
    meta = obj["metadata"]
    meta.pop("creationTimestamp", None)
    if isinstance(meta.get("annotations"), dict):
        meta["annotations"].pop(SIMULATED_ARRIVAL, None)
