"""Nodes for kwok: creates them, waits until they are usable, and simulates failures."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from hack.controlplane.api import Api, Object, eventually

DOWN = "stowage.test/node-down"  # kwok-stages.yaml ignores nodes with this label
_NODES = "/api/v1/nodes"
_NOT_READY = "node.kubernetes.io/not-ready"


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> Object:
    """Returns a Ready Node with its hostname label. `capacity` is added to 32 CPUs, 256 GiB and 110 pods."""
    size = {"cpu": "32", "memory": "256Gi", "pods": "110", **(capacity or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
        },
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"capacity": size, "allocatable": size, "conditions": [_ready("True", "KubeletReady")]},
    }


def add_nodes(api: Api, nodes: Iterable[Object], *, wait: bool = True, seconds: float = 120.0) -> None:
    """Creates the nodes; with `wait`, waits until they are Ready and have lost the taint of new nodes."""
    every = list(nodes)
    api.create_many(_NODES, every)
    if wait:
        names = {item["metadata"]["name"] for item in every}
        eventually(f"{len(names)} nodes usable", lambda: not _unusable(api, names), seconds, every=0.2)


def fail_node(api: Api, name: str, *, wait: bool = True) -> None:
    """Simulates a lost kubelet: Ready becomes False, and the controller manager taints the node and evicts its pods.

    In a cluster whose nodes are all down, the controller manager adds no NoExecute taint: use at least three nodes.
    """
    api.merge(f"{_NODES}/{name}", {"metadata": {"labels": {DOWN: "1"}}})
    # a merge patch replaces lists; kwok restores the other conditions when the node recovers
    api.merge(f"{_NODES}/{name}/status", {"status": {"conditions": [_ready("False", "KubeletNotReady")]}})
    if wait:
        eventually(f"node {name} tainted", lambda: "NoExecute" in _taint_effects(api.get(f"{_NODES}/{name}")))


def heal_node(api: Api, name: str, *, wait: bool = True) -> None:
    """Ends the failure: kwok sets the node Ready, and the controller manager removes the taints."""
    api.merge(f"{_NODES}/{name}", {"metadata": {"labels": {DOWN: None}}})
    if wait:
        eventually(f"node {name} usable", lambda: not _unusable(api, {name}))


def _unusable(api: Api, names: set[str]) -> set[str]:
    return names - {item["metadata"]["name"] for item in api.get(_NODES)["items"] if _usable(item)}


def _usable(item: Object) -> bool:
    conditions = item["status"].get("conditions") or []
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not _taint_effects(item)


def _taint_effects(item: Object) -> set[str]:
    return {taint["effect"] for taint in item["spec"].get("taints") or [] if taint["key"] == _NOT_READY}


def _ready(status: str, reason: str) -> Object:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": "Ready", "status": status, "reason": reason, "message": "played by kwok", **times}
