"""Detects pod terms that contradict the Workload's request, which then waits with a reason that names the term. Pure.

Terms that Stowage ignores and that keep no pod off a node are no contradiction; docs/pod-terms.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from admission.engine.reasons import Reason
from api.workloads import Workload


def contradiction(workload: Workload, topology_implied: Callable[[], bool]) -> tuple[str, str] | None:
    """Returns (reason, message) of the first contradiction, or None.

    `topology_implied` tells whether all flavors of the Workload's queue have a topology, so that its pods wait for a place too.
    """
    for index, pod_set in enumerate(workload.spec.pod_sets):
        spec: Any = pod_set.template.get("spec")
        topology = pod_set.topology_request
        node = spec.get("nodeName") if isinstance(spec, Mapping) else None
        if node and ((topology is not None and topology.explicit) or topology_implied()):
            text = "the API server refuses pods that name their node and wait for a place in a topology"
            return Reason.MISCONFIGURED, f"spec.podSets[{index}].template.spec.nodeName: {node}: {text}"
    return None
