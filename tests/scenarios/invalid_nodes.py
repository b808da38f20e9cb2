"""Bad nodes and foreign pods. Each has a group of nodes of its own, with a flavor and queues for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from api import names
from api.kube.resources import NODES, PODS
from api.names import HOSTNAME_LABEL
from tests.scenarios.invalid_input import (
    InvalidRow,
    Make,
    Refused,
    RunsStep,
    Step,
    Waits,
    Where,
    cluster_queue,
    flavor,
    group,
    job,
    local_queue,
    row,
    template,
)
from tests.scenarios.site import BLOCK, GPU, GROUP, RACK

NODES_OPEN = "the embedded server does not judge nodes, labels and pods"
CONDITION, SERVER = Where.CONDITION, Where.SERVER


def _node(
    name: str,
    labels: Mapping[str, Any] | None = None,
    taints: Sequence[Mapping[str, Any]] = (),
    amounts: Mapping[str, str] | None = None,
) -> Make:
    """A ready node of the row's group; a label with None is left out."""
    all_labels = {GROUP: "<id>", BLOCK: "b1", RACK: "r1", HOSTNAME_LABEL: name, **(labels or {})}
    given = {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: "4", **(amounts or {})}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
             "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    return Make(NODES, {
        "metadata": {"name": name, "labels": {key: value for key, value in all_labels.items() if value is not None}},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {"capacity": given, "allocatable": given, "conditions": [ready]},
    })  # fmt: skip


def _site() -> tuple[Step, ...]:
    return flavor(topologyName="bad"), cluster_queue(group("<id>", covered=("cpu", GPU))), local_queue()


def _pod(node: str, requests: dict[str, Any]) -> Make:
    spec = {**template(requests)["spec"], "nodeName": node}
    return Make(PODS, {"metadata": {"name": "<id>"}, "spec": spec})


_RACK = {names.REQUIRE_TOPOLOGY: RACK}

ROWS: tuple[InvalidRow, ...] = (
    row(
        "allocatable-text",
        SERVER,
        _node("<id>", amounts={"cpu": "lots"}),
        Refused(400, "BadRequest", "quantities must match"),
        embedded=NODES_OPEN,
    ),
    row(
        "allocatable-beyond-64-bits",
        CONDITION,
        *_site(),
        _node("<id>", amounts={"memory": "9E"}),
        job(_RACK, queue="<id>"),
        RunsStep(2),
    ),
    row(
        "allocatable-negative",
        SERVER,
        _node("<id>", amounts={GPU: "-4"}),
        Refused(422, "Invalid", "must be greater than or equal to 0"),
        embedded=NODES_OPEN,
    ),
    row(
        "no-hostname-label",
        CONDITION,
        *_site(),
        _node("<id>", {HOSTNAME_LABEL: None}),
        job(_RACK, queue="<id>"),
        Waits(
            "TopologyPlacementFailed",
            ("couldn't assign flavors to pod set main: no topology domains at level: cloud-provider.com/topology-rack"),
        ),
    ),
    row(
        "two-nodes-one-hostname",
        CONDITION,
        *_site(),
        _node("<id>-a", {HOSTNAME_LABEL: "<id>"}),
        _node("<id>-b", {HOSTNAME_LABEL: "<id>"}),
        job(_RACK, queue="<id>", pods=4),
        RunsStep(4),
    ),
    row(
        "taint-effect-nonsense",
        SERVER,
        _node("<id>", taints=[{"key": "a", "effect": "Sometimes"}]),
        Refused(422, "Invalid", 'taints[0].effect: Unsupported value: "Sometimes"'),
        embedded=NODES_OPEN,
    ),
    row(
        "taint-without-value",
        CONDITION,
        *_site(),
        _node("<id>", taints=[{"key": "example.com/odd", "effect": "NoSchedule"}]),
        job(_RACK, queue="<id>"),
        Waits(
            "TopologyPlacementFailed",
            (
                "couldn't assign flavors to pod set main: topology \"bad\" doesn't allow to fit any of 2 "
                'pod(s). Total nodes: 1; excluded: taint "example.com/odd:NoSchedule": 1'
            ),
        ),
    ),
    row(
        "node-label-value-nonsense",
        SERVER,
        _node("<id>", {RACK: "no good!"}),
        Refused(422, "Invalid", "metadata.labels"),
        embedded=NODES_OPEN,
    ),
    row(
        "stranger-takes-more-than-there-is",
        CONDITION,
        *_site(),
        _node("<id>"),
        _pod("<id>", {"cpu": "1000"}),
        job(_RACK, queue="<id>"),
        Waits(
            "TopologyPlacementFailed",
            (
                "couldn't assign flavors to pod set main: topology \"bad\" doesn't allow to fit any of 2 "
                'pod(s). Total nodes: 1; excluded: resource "cpu": 1; cpu: 1 asked, 0 at most on any host'
            ),
        ),
    ),
    row(
        "pod-requests-text",
        SERVER,
        _pod("<id>", {"cpu": "lots"}),
        Refused(400, "BadRequest", "quantities must match"),
        embedded=NODES_OPEN,
    ),
)
