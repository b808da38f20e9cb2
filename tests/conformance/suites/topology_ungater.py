"""topology_ungater: one workload and its pods in; which pods are let through, and to which nodes, out."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import msgspec

from api.errors import InvalidObject
from api.meta import find_condition, object_key, parse_time
from api.names import ADMITTED, TOPOLOGY_GATE
from api.pod.pods import Pod
from api.workloads import Workload
from ungater.expectations import PENDING, Expectations
from ungater.gate_plan import GateChange, plan, workload_key


def run(case: dict[str, Any]) -> None:
    given, want = case["input"], case["want"]
    workload = Workload.from_wire(given["workloads"][0])
    wire = {_key(pod): pod for pod in given["pods"]}
    openings, error = _reconcile(workload, given, [msgspec.convert(pod, Pod) for pod in given["pods"]])
    wanted_error = (want.get("wantErr") or {}).get("error", "")
    assert wanted_error in error, (error, wanted_error)
    assert bool(error) == bool(wanted_error), error
    opened = {opening.pod.key: _opened(wire[opening.pod.key], opening.node_labels) for opening in openings}
    after = {**wire, **opened}
    if given.get("nodeSelectorAssertMode", "Exact") == "Exact":
        assert {_key(pod): pod for pod in want["wantPods"]} == {key: _bare(pod) for key, pod in after.items()}
    else:
        assert {key: gates_of(pod) for key, pod in after.items()} == {_key(p): gates_of(p) for p in want["wantPods"]}
    if "wantCounts" in want:
        assert _counts(after.values()) == {
            tuple(sorted((entry.get("nodeSelector") or {}).items())): entry["count"]
            for entry in want["wantCounts"] or []
        }
    if "wantMetricsCount" in want:
        assert_metrics(workload, len(openings), given, want)


def assert_metrics(workload: Workload, opened: int, value: dict[str, Any], want: dict[str, Any]) -> None:
    """The histogram of the time from the admission to the removal of the gates."""
    admitted = find_condition(workload.status.conditions, ADMITTED)
    waited = (parse_time(value["now"]) or 0) - (parse_time(admitted.last_transition_time if admitted else None) or 0)
    assert (opened, waited * opened) == (want["wantMetricsCount"], want["wantMetricsSeconds"])


def _reconcile(workload: Workload, value: dict[str, Any], pods: list[Pod]) -> tuple[list[GateChange], str]:
    expectations = Expectations()
    expectations.expect(workload.key, value.get("expectUIDs") or [])
    if expectations.pending(workload.key):
        return [], PENDING
    try:
        return plan(workload, [pod for pod in pods if workload_key(pod) == workload.key]), ""
    except InvalidObject as bad:
        return [], str(bad)


def _key(pod: dict[str, Any]) -> str:
    return object_key(pod["metadata"].get("namespace"), pod["metadata"]["name"])


def gates_of(pod: dict[str, Any]) -> list[str]:
    """The names of the pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def _opened(pod: dict[str, Any], labels: Any) -> dict[str, Any]:
    out = copy.deepcopy(pod)
    out["spec"]["schedulingGates"] = [g for g in out["spec"]["schedulingGates"] if g["name"] != TOPOLOGY_GATE]
    if labels:
        out["spec"].setdefault("nodeSelector", {}).update(labels)
    return _bare(out)


def _bare(pod: dict[str, Any]) -> dict[str, Any]:
    """Without an empty list of gates, as Go leaves it out."""
    spec = {name: value for name, value in pod["spec"].items() if name != "schedulingGates" or value}
    return {**pod, "spec": spec}


def _counts(pods: Any) -> Counter[tuple[tuple[str, str], ...]]:
    counts: Counter[tuple[tuple[str, str], ...]] = Counter()
    for pod in pods:
        if TOPOLOGY_GATE not in gates_of(pod) and pod.get("status", {}).get("phase") not in ("Failed", "Succeeded"):
            counts[tuple(sorted((pod["spec"].get("nodeSelector") or {}).items()))] += 1
    return counts
