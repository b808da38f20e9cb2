"""The effective requests of a pod, by kube-scheduler's rule.

A pod uses the larger of (containers plus sidecars) and each ordinary init container in turn, plus overhead. Pod-level resources
replace the sum if set, and a limit counts as a missing request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from api.pods import Container, PodSpec, ResourceRequirements
from api.quantity import Resources, parse_list


def _add(into: Resources, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, 0) + amount


def _raise_to(floor: Resources, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        floor[name] = max(floor.get(name, 0), amount)


def container_requests(resources: ResourceRequirements) -> Resources:
    """Returns the container's requests; a limit counts as a missing request. Raises InvalidQuantity."""
    return {**parse_list(resources.limits, "limits"), **parse_list(resources.requests, "requests")}


def _init_peak(init_containers: Iterable[Container]) -> tuple[Resources, Resources]:
    """Returns the sum of all sidecars, and the largest use while an init container runs with the sidecars started so far."""
    sidecars: Resources = {}
    peak: Resources = {}
    for container in init_containers:
        own = container_requests(container.resources)
        if container.restart_policy == "Always":
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            turn = dict(sidecars)
            _add(turn, own)
            _raise_to(peak, turn)
    return sidecars, peak


def effective_requests(spec: PodSpec) -> Resources:
    """Returns what one pod uses of a node, in integer units, without the `pods` slot. Raises InvalidQuantity."""
    sidecars, peak = _init_peak(spec.init_containers)
    total = dict(sidecars)
    for container in spec.containers:
        _add(total, container_requests(container.resources))
    _raise_to(total, peak)
    if spec.resources is not None:
        total.update(container_requests(spec.resources))
    _add(total, parse_list(spec.overhead, "overhead"))
    return total
