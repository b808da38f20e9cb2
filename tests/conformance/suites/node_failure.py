"""node_failure: nodes, a workload and its pods in; which nodes are marked, what is evicted, which pods are ended, out."""

from __future__ import annotations

from typing import Any

import msgspec

from admission.controllers.nodes.node_failures import (
    FailureRules,
    FailureVerdict,
    HostState,
    find,
    is_assigned_to,
    multiple_failures,
    patience,
    with_unhealthy_node,
    without_unhealthy_node,
)
from admission.controllers.state.evictions import Eviction, evicted
from api.meta import find_condition, is_true, parse_time
from api.names import EVICTED, EvictedReason
from api.pod.pods import Node, Pod
from api.topology import ResourceFlavor
from api.workloads import Workload, WorkloadStatus
from tests.conformance.runner import Case, gates


def run(case: Case) -> None:
    """Each request looks at one node; the status that one leaves is what the next one finds."""
    given, want = case["input"], case["want"]
    objects: dict[str, list[dict[str, Any]]] = {}
    for obj in given["initObjs"]:
        objects.setdefault(obj["kind"], []).append(obj)
    nodes = {obj["metadata"]["name"]: msgspec.convert(obj, Node) for obj in objects.get("Node", [])}
    [workload] = [Workload.from_wire(obj) for obj in objects["Workload"]]
    pods = [msgspec.convert(obj, Pod) for obj in objects.get("Pod", [])]
    flavors = [ResourceFlavor.from_wire(obj) for obj in (*objects.get("ResourceFlavor", []), given["resourceFlavor"])]
    now, rules = parse_time(given["now"]) or 0.0, _rules(gates(case))
    again, ended, left = 0.0, [], set()
    for request in given["reconcileRequests"]:
        name = request["namespacedName"].removeprefix("/")
        host = HostState(name, nodes.get(name))
        again = patience(host, rules, now) or 0.0
        if again:
            continue
        found = find(
            workload,
            host,
            [pod for pod in pods if pod.workload == workload.key],
            {flavor.key: flavor for flavor in flavors},
            rules,
            now,
        )
        ended += [pod.metadata.name for pod in found.ended]
        left |= set() if is_assigned_to(workload, name) else set(ended)
        workload = workload.model_copy(update={"status": _after(workload.status, name, found, now)})
    assert again == float(want["wantRequeue"].removesuffix("s"))
    if not given["ignoreUnhealthyNodes"]:
        unhealthy = [{"name": node.name} for node in workload.status.unhealthy_nodes]
        assert unhealthy == (want["wantUnhealthyNodes"] or [])
    _check_eviction(workload.status, want["wantEvictedCond"])
    if want["wantPatchedPods"] is not None:
        assert ended == want["wantPatchedPods"]
    theirs = _failed_by_us(case["observed"]["pods"])
    # Ours also ends a pod that was let through to a host which its Workload has left: it could never be bound.
    assert set(theirs) <= set(ended) <= {*theirs, *left}


def _rules(on: dict[str, bool]) -> FailureRules:
    return FailureRules(
        on["TASReplaceNodeOnPodTermination"],
        on["TASReplaceNodeOnNodeTaints"],
        on["TASReplaceNodeDueToNotReadyOverFixedTime"],
    )


def _after(status: WorkloadStatus, host: str, failure_verdict: FailureVerdict, now: float) -> WorkloadStatus:
    if not failure_verdict.failed:
        return without_unhealthy_node(status, host)
    if (too_many := multiple_failures(status, host)) is not None:
        return evicted(status, Eviction(EvictedReason.NODE_FAILURES, too_many), now)
    return with_unhealthy_node(status, host)


def _check_eviction(status: WorkloadStatus, want: dict[str, Any] | None) -> None:
    if want is None:
        assert not is_true(status.conditions, EVICTED)
        return
    got = find_condition(status.conditions, EVICTED)
    assert got is not None
    assert (got.status, got.reason, got.message) == (want["status"], want["reason"], want["message"])


def _failed_by_us(pods: list[dict[str, Any]]) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in pods
        for condition in pod.get("status", {}).get("conditions", [])
        if condition["type"] == "TerminatedByKueue" and condition["reason"] == "UnschedulableOnAssignedNode"
    ]
