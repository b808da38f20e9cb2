"""The effective requests of a pod, by kube-scheduler's rule.

A pod uses the larger of (containers plus sidecars) and each ordinary init container in turn, plus overhead. Pod-level resources
replace the sum if set, and a limit counts as a missing request. While a container is resized in place, the largest counts of
what it requests, what its node has granted it, and what it has; a request that the node has refused for good does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from api.pods import Container, ContainerStatuses, PodSpec, ResourceRequirements
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


def _requested(container: Container) -> Resources:
    return container_requests(container.resources)


def resized(statuses: ContainerStatuses, *, infeasible: bool) -> Callable[[Container], Resources]:
    """Returns what containers of a pod count for while it is resized in place. That function raises InvalidQuantity."""
    by_name = {each.name: each for each in (*statuses.init_container_statuses, *statuses.container_statuses)}

    def counted(container: Container) -> Resources:
        status = by_name.get(container.name)
        if status is None:
            return _requested(container)
        held = parse_list(status.allocated_resources, "allocatedResources")
        _raise_to(held, container_requests(status.resources))
        wanted = _requested(container)
        if infeasible and held:
            return {**wanted, **held}
        _raise_to(wanted, held)
        return wanted

    return counted


def _init_peak(
    init_containers: Iterable[Container], counted: Callable[[Container], Resources]
) -> tuple[Resources, Resources]:
    """Returns the sum of all sidecars, and the largest use while an init container runs with the sidecars started so far."""
    sidecars: Resources = {}
    peak: Resources = {}
    for container in init_containers:
        own = counted(container)
        if container.restart_policy == "Always":
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            turn = dict(sidecars)
            _add(turn, own)
            _raise_to(peak, turn)
    return sidecars, peak


def effective_requests(spec: PodSpec, counted: Callable[[Container], Resources] = _requested) -> Resources:
    """Returns what one pod uses of a node, in integer units, without the `pods` slot. Raises InvalidQuantity.

    `counted` returns what one container counts for: what it requests, if not `resized`.
    """
    sidecars, peak = _init_peak(spec.init_containers, counted)
    total = dict(sidecars)
    for container in spec.containers:
        _add(total, counted(container))
    _raise_to(total, peak)
    if spec.resources is not None:
        total.update(container_requests(spec.resources))
    _add(total, parse_list(spec.overhead, "overhead"))
    return total
