"""Terms of pods that contradict what their Workload asks for: it waits, and says which term it is. Pure.

Terms that Stowage does not look at and that keep no pod off a node are no matter: docs/placement.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admission.engine.decision import Reason
from api.workloads import Workload


def contradiction(workload: Workload) -> tuple[str, str] | None:
    """(reason, message) of the first such term; None where there is none."""
    for index, pod_set in enumerate(workload.spec.pod_sets):
        spec: Any = pod_set.template.get("spec")
        asked = pod_set.topology_request
        node = spec.get("nodeName") if isinstance(spec, Mapping) else None
        if node and asked is not None and asked.explicit:
            text = "the API server refuses pods that name their node and wait for a place in a topology"
            return Reason.MISCONFIGURED, f"spec.podSets[{index}].template.spec.nodeName: {node}: {text}"
    return None
