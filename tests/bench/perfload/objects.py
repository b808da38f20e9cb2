"""What the load posts: nodes, queues, priority classes and the Workloads with the moment at which each comes.

The definition is `../simulate.json`, shared with the simulation; what Kueue's load calls balanced are slices that require
a rack each. A fraction of the load keeps its queues, its quotas and its pace, and has fewer Workloads in each set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from api import names
from hack.controlplane.nodes import node
from tests.bench import simulate
from tests.bench.simulate import RACK, cluster

NAMESPACE = "default"
FLAVOR = "tas"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One Workload: when it comes (seconds after the start), its queue and class, how long it runs."""

    at: float
    name: str
    queue: str
    size: str
    seconds: float
    body: Object


def context(load: dict[str, Any], *, topology: bool) -> Iterator[Object]:
    """Everything but nodes and Workloads, in an order in which it can be created."""
    for document in cluster(load):
        found = dict(document.object)
        kind = found["kind"]
        if kind == "Node" or (kind == "Topology" and not topology):
            continue
        if kind == "ResourceFlavor" and not topology:
            found["spec"] = {key: value for key, value in found["spec"].items() if key != "topologyName"}
        yield found


def nodes(load: dict[str, Any]) -> Iterator[Object]:
    """The nodes, Ready."""
    for document in cluster(load):
        found = document.object
        if found["kind"] == "Node":
            meta = found["metadata"]
            yield node(meta["name"], meta["labels"], found["status"]["allocatable"])


def arrivals(load: dict[str, Any], fraction: float, *, topology: bool) -> list[Arrival]:
    """The Workloads by the moment at which they come."""
    made = [
        _arrival(queue, size, of, mode, slices, number, topology=topology)
        for _, queue in simulate.queues(load)
        for size, of in load["classes"].items()
        for mode, count, slices in of["sets"]
        for number in range(math.ceil(count * fraction))
    ]
    return sorted(made, key=lambda arrival: (arrival.at, arrival.name))


def _arrival(
    queue: str, size: str, of: dict[str, Any], mode: str, slices: int, number: int, *, topology: bool
) -> Arrival:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": of["cpu"]}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pod_set: Object = {"name": "main", "count": of["pods"], "template": template}
    if topology:
        pod_set["topologyRequest"] = _asked(mode, slices)
    name = f"{queue}-{size}-{mode}-{number:03d}"
    spec = {
        "queueName": queue,
        "priority": of["priority"],
        "priorityClassRef": {"group": names.GROUP, "kind": "WorkloadPriorityClass", "name": size},
        "podSets": [pod_set],
    }
    meta = {"name": name, "namespace": NAMESPACE}
    body = {"apiVersion": names.API_VERSION, "kind": "Workload", "metadata": meta, "spec": spec}
    return Arrival((number + 1) * of["every_ms"] / 1000, name, queue, size, of["seconds"], body)


def _asked(mode: str, slices: int) -> Object:
    if mode == "sliced":
        return {"podSetSliceRequiredTopology": RACK, "podSetSliceSize": slices}
    return {mode: RACK}
