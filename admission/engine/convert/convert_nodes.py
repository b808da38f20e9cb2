"""Converts nodes and bound pods to the engine's values; see convert_workloads.py."""

from __future__ import annotations

from functools import lru_cache

from admission.engine import model
from admission.engine.convert.conversion_errors import about, within
from api.names import (
    PODSET_LABEL,
    TOPOLOGY_PODSET,
    TOPOLOGY_WORKLOAD,
    WORKLOAD_SLICE_NAME,
)
from api.pod import pods
from api.pod.exclusive import exclusive
from api.pod.pod_requests import effective_requests, resized
from api.pod.pod_terms import pod_facts
from api.text import quantity


def node(stored: pods.Node) -> model.Node:
    """Returns the engine's value of a Node. Raises InvalidObject."""
    with about("Node", stored.key):
        return model.Node(
            name=stored.key,
            labels=stored.metadata.labels,
            allocatable=_offered(tuple(stored.status.allocatable.items())),
            taints=stored.spec.taints,
            usable=stored.ready and not stored.spec.unschedulable,
            responds=stored.ready,
        )


@lru_cache(4096)
def _offered(amounts: tuple[tuple[str, str | int | float], ...]) -> quantity.Resources:
    """Returns the allocatable resources. Nodes of the same size share the result, which must not be changed."""
    return quantity.parse_list(dict(amounts), "status.allocatable")


def _requests(pod: pods.Pod, statuses: pods.ContainerStatuses | None) -> quantity.Resources:
    if statuses is None:
        return effective_requests(pod.spec)
    return effective_requests(pod.spec, resized(statuses, infeasible=pod.resize_infeasible))


def bound_pod(pod: pods.Pod, statuses: pods.ContainerStatuses | None = None) -> model.BoundPod | None:
    """Returns the engine's value of a pod; None if it is not bound or has terminated. Raises InvalidObject.

    `statuses` are those of the containers of a pod that is resized in place.
    """
    if not pod.spec.node_name or pod.terminated:
        return None
    meta = pod.metadata
    first_form = f"{meta.namespace}/{name}" if (name := meta.annotations.get(TOPOLOGY_WORKLOAD)) else None
    of_slices = meta.annotations.get(WORKLOAD_SLICE_NAME)
    with about("Pod", pod.key), within("spec: "):
        return model.BoundPod(
            key=pod.key,
            node=pod.spec.node_name,
            requests=_requests(pod, statuses),
            workload=f"{meta.namespace}/{of_slices}" if of_slices else pod.workload or first_form,
            pod_set=meta.labels.get(PODSET_LABEL) or meta.annotations.get(TOPOLOGY_PODSET),
            exclusive=exclusive(pod.spec, meta.namespace, meta.labels),
            facts=pod_facts(pod.spec, meta.namespace, meta.labels),
        )
