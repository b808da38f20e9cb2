"""Detects terms of a job or its pods that contradict the Workload's request, which then waits with a reason that names the
term. Pure.

Terms that Stowage ignores and that keep no pod off a node are no contradiction; docs/pod-terms.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from admission.engine.reasons import Reason
from admission.integrations.exclusive import EXCLUSIVE, INSTEAD
from admission.integrations.paths import value_at
from api.workloads import PodSet, Workload


def contradiction(
    workload: Workload, topology_implied: Callable[[], bool], topology_possible: Callable[[], bool] = lambda: False
) -> tuple[str, str] | None:
    """Returns (reason, message) of the first contradiction, or None.

    `topology_implied` tells whether all flavors of the Workload's queue have a topology, so that its pods wait for a place too;
    `topology_possible`, whether any has one.
    """
    for index, pod_set in enumerate(workload.spec.pod_sets):
        node = value_at(pod_set.template, ("spec", "nodeName"))
        if node and (_asks(pod_set) or topology_implied()):
            text = "the API server refuses pods that name their node and wait for a place in a topology"
            return Reason.MISCONFIGURED, f"spec.podSets[{index}].template.spec.nodeName: {node}: {text}"
    key = _exclusive(workload)
    if key is not None and (any(map(_asks, workload.spec.pod_sets)) or topology_possible()):
        return (
            Reason.MISCONFIGURED,
            f"annotation {key} is not supported with a topology: {INSTEAD}, and create it again",
        )
    return None


def _asks(pod_set: PodSet) -> bool:
    return pod_set.topology_request is not None and pod_set.topology_request.explicit


def _exclusive(workload: Workload) -> str | None:
    """Returns the annotation of exclusive placement that reaches the pods, or None."""
    templates = (value_at(each.template, ("metadata", "annotations")) for each in workload.spec.pod_sets)
    sources = (workload.metadata.annotations, *templates)
    return next((key for each in sources if isinstance(each, Mapping) for key in EXCLUSIVE if key in each), None)
