"""Terms of pods by which nobody here can tell whether a node takes them: their Workload waits, and says which term it is. Pure.

Pods that are let through and never bound hold quota and nodes for nothing. Terms that Stowage does not look at and that keep no
pod off a node are no matter: docs/placement.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admission.engine.decision import Reason
from api.workloads import PodSet, Workload


def unsupported(workload: Workload) -> tuple[str, str] | None:
    """(reason, message) of the first such term; None where there is none."""
    for index, pod_set in enumerate(workload.spec.pod_sets):
        spec: Any = pod_set.template.get("spec")
        if isinstance(spec, Mapping) and (found := _term(spec, pod_set)) is not None:
            reason, text = found
            return reason, f"spec.podSets[{index}].template.spec.{text}"
    return None


def _term(spec: Mapping[str, Any], pod_set: PodSet) -> tuple[str, str] | None:
    claims, asked = spec.get("resourceClaims"), pod_set.topology_request
    if isinstance(claims, (list, tuple)) and claims:
        text = f"resourceClaims[0] ({_claim(claims[0])}): devices of ResourceClaims are not counted"
        return Reason.UNSUPPORTED_POD_TERMS, f"{text}, so nobody can tell whether a node takes the pods"
    if spec.get("nodeName") and asked is not None and asked.explicit:
        text = "the API server refuses pods that name their node and wait for a place in a topology"
        return Reason.MISCONFIGURED, f"nodeName: {spec['nodeName']}: {text}"
    return None


def _claim(given: Any) -> str:
    if isinstance(given, Mapping):
        for field, kind in (
            ("resourceClaimTemplateName", "ResourceClaimTemplate"),
            ("resourceClaimName", "ResourceClaim"),
        ):
            if given.get(field):
                return f"{kind} {given[field]}"
    return "ResourceClaim"
