"""The one patch that opens a pod's gates: gates out, nodeSelector in, and for a single host its name into the affinity. Pure.

Strategic merge: it removes the named gate only, so other gates stay. Narrowing the required node affinity
by `metadata.name` lets the stock scheduler look at one node instead of all; the nodeSelector stays the contract. The API
server allows just this on a gated pod: added selector keys, narrowed affinity, gates removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from api.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod


def sending_patch(pod: Pod, node_labels: Mapping[str, str]) -> dict[str, Any]:
    """Body of the strategic merge patch that says where the pod goes and leaves its gate closed."""
    return {"metadata": {"uid": pod.metadata.uid}, "spec": {"nodeSelector": dict(node_labels)}}


def opening_patch(pod: Pod, node_labels: Mapping[str, str], node_name: str | None) -> dict[str, Any]:
    """Body of the strategic merge patch. `node_name`: the one node of the domain, None where it may be several."""
    spec: dict[str, Any] = {"schedulingGates": [{"name": gate, "$patch": "delete"} for gate in pod.closed_gates]}
    if node_labels:
        spec["nodeSelector"] = dict(node_labels)
    if node_name is not None:
        spec["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": msgspec.to_builtins(_narrowed(pod, node_name))
            }
        }
    return {"metadata": {"uid": pod.metadata.uid}, "spec": spec}


def _narrowed(pod: Pod, node_name: str) -> NodeSelector:
    """The pod's required terms, each ANDed with the node's name (terms are ORed, so each one needs it)."""
    by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    affinity = pod.spec.affinity
    required = (
        affinity.node_affinity.required_during_scheduling_ignored_during_execution
        if affinity and affinity.node_affinity
        else None
    )
    terms = required.node_selector_terms if required else (NodeSelectorTerm(),)
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(match_expressions=term.match_expressions, match_fields=(*term.match_fields, by_name))
            for term in terms
        )
    )
