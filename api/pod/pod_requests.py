"""The effective requests of a pod, by kube-scheduler's rule.

A pod uses the larger of (containers plus sidecars) and each ordinary init container in turn, plus overhead. A container's limit
counts as a missing request. Pod-level requests replace the sum of cpu, memory and huge pages. A pod-level limit counts as a
missing request of the pod if no container requests the resource, and for huge pages always: the API server stores it so when
the pod is created, which a template does not show. While a container is resized in place, the largest counts of what it
requests, what its node has granted it, and what it has; a request that the node has refused for good does not count.

Amounts are thousandths until the end, because kube-scheduler rounds the sum and not each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from api.pod.pods import Container, ContainerStatuses, PodSpec, ResourceRequirements
from api.text.quantity import CPU, Resources, in_whole, parse_milli

HUGE_PAGES = "hugepages-"
_SHARED = (CPU, "memory")
"""Resources that containers may use beyond their requests; the pod requests by default what they request."""


def _add(into: Resources, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, 0) + amount


def _raise_to(floor: Resources, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        floor[name] = max(floor.get(name, 0), amount)


def _container_requests(resources: ResourceRequirements) -> Resources:
    """Returns a container's requests in thousandths; a limit counts as a missing request. Raises InvalidQuantity."""
    return {**parse_milli(resources.limits, "limits"), **parse_milli(resources.requests, "requests")}


def _requested(container: Container) -> Resources:
    return _container_requests(container.resources)


def resized(statuses: ContainerStatuses, *, infeasible: bool) -> Callable[[Container], Resources]:
    """Returns what containers of a pod count for while it is resized in place. That function raises InvalidQuantity."""
    by_name = {each.name: each for each in (*statuses.init_container_statuses, *statuses.container_statuses)}

    def counted(container: Container) -> Resources:
        status = by_name.get(container.name)
        if status is None:
            return _requested(container)
        held = parse_milli(status.allocated_resources, "allocatedResources")
        _raise_to(held, _container_requests(status.resources))
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
    total = _containers(spec, counted)
    if spec.resources is not None:
        total.update(_pod_level(spec.resources, total))
    _add(total, parse_milli(spec.overhead, "overhead"))
    return in_whole(total)


def container_sum(spec: PodSpec) -> Resources:
    """Returns what the containers of one pod request together, in integer units. Raises InvalidQuantity."""
    return in_whole(_containers(spec, _requested))


def pod_level_requests(spec: PodSpec) -> Resources:
    """Returns the pod-level requests that the API server stores for such a pod, in integer units. Raises InvalidQuantity.

    Empty without pod-level resources.
    """
    if spec.resources is None:
        return {}
    total = _containers(spec, _requested)
    shared = {name: total[name] for name in _SHARED if name in total} if spec.resources.limits else {}
    return in_whole({**shared, **_pod_level(spec.resources, total)})


def _containers(spec: PodSpec, counted: Callable[[Container], Resources]) -> Resources:
    sidecars, peak = _init_peak(spec.init_containers, counted)
    total = dict(sidecars)
    for container in spec.containers:
        _add(total, counted(container))
    _raise_to(total, peak)
    return total


def _pod_level(resources: ResourceRequirements, containers: Resources) -> Resources:
    """Returns what the pod-level resources replace of the containers' sum."""
    limits = parse_milli(resources.limits, "limits")
    missing = {name: amount for name, amount in limits.items() if name not in _SHARED or name not in containers}
    amounts = {**missing, **parse_milli(resources.requests, "requests")}
    return {name: amount for name, amount in amounts.items() if name in _SHARED or name.startswith(HUGE_PAGES)}
