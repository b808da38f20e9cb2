"""Filters nodes for a pod, with the messages of kube-scheduler's filters. Pure; called by scheduler.py.

Covers node name and schedulability, taints, node selector, required node affinity, and resources. Not supported: pod affinity,
topology spread, ports, volumes, preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from api.pod.pod_requests import effective_requests
from api.pod.pods import Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration
from api.text.quantity import PODS, Resources, parse_list

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_KEEPS_OUT = ("NoSchedule", "NoExecute")
_NO_MATCH = "node(s) didn't match Pod's node affinity/selector"


def requests(spec: PodSpec) -> Resources:
    """Returns what a pod uses of a node, including its pod slot."""
    return {**effective_requests(spec), PODS: 1}


def allocatable(node: Node) -> Resources:
    return parse_list(node.status.allocatable, "status.allocatable")


def refusal(pod: PodSpec, node: Node) -> str:
    """Returns why the pod may not run on the node regardless of free capacity; empty if it may."""
    if node.spec.unschedulable and not _tolerated(_UNSCHEDULABLE, pod.tolerations):
        return "node(s) were unschedulable"
    for taint in node.spec.taints:
        if taint.effect in _KEEPS_OUT and not _tolerated(taint, pod.tolerations):
            return f"node(s) had untolerated taint(s) {{{taint.key}: {taint.value}}}"
    return "" if _selected(pod, node) else _NO_MATCH


def shortage(wanted: Mapping[str, int], free: Mapping[str, int]) -> str:
    """Returns the first resource that is insufficient; empty if the pod fits."""
    for name, amount in sorted(wanted.items()):
        if amount > free.get(name, 0) and amount:
            return "Too many pods" if name == PODS else f"Insufficient {name}"
    return ""


def unschedulable(reasons: Iterable[str], nodes: int) -> str:
    """Returns the message of the condition PodScheduled=False."""
    counted = sorted(f"{number} {reason}" for reason, number in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(counted)}." if counted else "no nodes available to schedule pods"


def named_nodes(pod: PodSpec) -> tuple[str, ...] | None:
    """Returns the nodes that all terms of required affinity name by matchFields, or None if they do not."""
    names: list[str] = []
    for term in _terms(pod):
        by_name = next((field for field in term.match_fields if field.operator == "In"), None)
        if by_name is None:
            return None
        names += by_name.values
    return tuple(names) if names else None


def _terms(pod: PodSpec) -> tuple[NodeSelectorTerm, ...]:
    affinity = pod.affinity.node_affinity if pod.affinity else None
    needed = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return needed.node_selector_terms if needed else ()


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _selected(pod: PodSpec, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    terms = _terms(pod)
    return not terms or any(_term_holds(term, node) for term in terms)


def _term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(_holds(item, node.metadata.labels) for item in term.match_expressions) and all(
        _holds(item, fields) for item in term.match_fields
    )


def _holds(item: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    given = values.get(item.key)
    match item.operator:
        case "In":
            return given in item.values
        case "NotIn":
            return given not in item.values
        case "Exists":
            return given is not None
        case "DoesNotExist":
            return given is None
        case "Gt" | "Lt":
            return given is not None and _compares(item.operator, given, item.values[0])
        case _:
            return False


def _compares(operator: str, value: str, bound: str) -> bool:
    try:
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
    except ValueError:
        return False
