"""Completes the resources of a Workload's pods as the API server will, and validates them. Pure.

The feed calls it for each Workload. A job's template lacks what its pods get at creation: from their RuntimeClass
(runtime_classes.py) and the defaults of the namespace's LimitRanges. Both count (`completed`). Pods whose requests violate
their limits or the LimitRanges would be rejected once the job starts, so the job waits with that reason (`defect`;
lifecycle.md 3.2).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from admission.controllers.state.conditions import INVALID_RESOURCES, OUTSIDE_LIMIT_RANGE
from admission.controllers.watch.runtime_classes import RuntimeClass, overhead_of, scheduled
from api.pod import pods
from api.pod.pod_requests import container_sum, effective_requests, pod_level_requests
from api.text.quantity import parse_list, to_texts
from api.workloads import Workload

Amounts = Mapping[str, int]

_ABOVE_LIMITS = "requests must not exceed its limits"
_BELOW_CONTAINERS = "requests must not be below what the containers request"
_ABOVE_POD_LIMITS = "limits must not exceed those of the pod"
_ABOVE_MAX = "requests must not be above the limitRange max"
_BELOW_MIN = "requests must not be below the limitRange min"


class Limit(msgspec.Struct, frozen=True, rename="camel"):
    """An item of a LimitRange."""

    type: str = ""
    """Container or Pod; other types do not concern workloads."""
    min: dict[str, str | int | float] = {}
    max: dict[str, str | int | float] = {}
    default: dict[str, str | int | float] = {}
    """Default limits."""
    default_request: dict[str, str | int | float] = {}


class LimitRangeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The items of a LimitRange."""

    limits: tuple[Limit, ...] = ()


class LimitRange(msgspec.Struct, frozen=True, rename="camel"):
    """A namespace's LimitRange."""

    metadata: pods.Meta = pods.Meta()
    spec: LimitRangeSpec = LimitRangeSpec()


def completed(workload: Workload, limits: Sequence[Limit], classes: Mapping[str, RuntimeClass]) -> Workload:
    """Returns the Workload with what the API server adds to its pods, or the same object if that is nothing."""
    requests, bounds = _defaults(limits)
    workload = scheduled(workload, classes)
    spec = workload.spec
    templates = [_completed(pod_set.template, requests, bounds, classes) for pod_set in spec.pod_sets]
    if all(new is pod_set.template for new, pod_set in zip(templates, spec.pod_sets, strict=True)):
        return workload
    pod_sets = tuple(
        pod_set.model_copy(update={"template": new}) for new, pod_set in zip(templates, spec.pod_sets, strict=True)
    )
    return workload.model_copy(update={"spec": spec.model_copy(update={"pod_sets": pod_sets})})


def _defaults(limits: Sequence[Limit]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns default (requests, limits) of containers; the first LimitRange with a default wins.

    The largest amount is the default limit, a default limit or else the least amount the default request, as the API server
    stores them; a LimitRange in a file lacks that.
    """
    requests: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    for limit in limits:
        if limit.type == "Container":
            default = {**limit.max, **limit.default}
            bounds = {**default, **bounds}
            requests = {**limit.min, **default, **limit.default_request, **requests}
    return requests, bounds


def _completed(
    template: Mapping[str, Any],
    requests: Mapping[str, Any],
    bounds: Mapping[str, Any],
    classes: Mapping[str, RuntimeClass],
) -> Mapping[str, Any]:
    spec = template.get("spec") or {}
    overhead = overhead_of(spec, classes)
    level = pod_level_requests(pods.pod_spec(template)) if spec.get("resources") else {}
    if not overhead and not requests and not bounds and not level:
        return template
    changed = {**spec, "overhead": overhead} if overhead else dict(spec)
    if level:  # as they are before a LimitRange adds to the containers
        changed["resources"] = {**(spec.get("resources") or {}), "requests": to_texts(level)}
    for field in ("initContainers", "containers"):
        if field in spec:
            changed[field] = [_with_defaults(container, requests, bounds) for container in spec[field] or ()]
    return {**template, "spec": changed}


def _with_defaults(
    container: Mapping[str, Any], requests: Mapping[str, Any], bounds: Mapping[str, Any]
) -> dict[str, Any]:
    """Adds defaults to a container; a missing request first takes the container's own limit."""
    given = container.get("resources") or {}
    requests_given, limited = given.get("requests") or {}, given.get("limits") or {}
    resources = {"requests": {**requests, **limited, **requests_given}, "limits": {**bounds, **limited}}
    return {**container, "resources": {**given, **resources}}


def defect(workload: Workload, limits: Sequence[Limit] = ()) -> str | None:
    """Returns the message about invalid resources, or None. Raises InvalidQuantity."""
    specs = [
        (f"spec.podSets[{index}].template.spec", pods.pod_spec(pod_set.template))
        for index, pod_set in enumerate(workload.spec.pod_sets)
    ]
    if wrong := [text for path, spec in specs for text in _above_limits(path, spec)]:
        return f"{INVALID_RESOURCES}{_joined(wrong)}"
    if wrong := [text for path, spec in specs for text in _outside(path, spec, limits)]:
        return f"{OUTSIDE_LIMIT_RANGE}{_joined(wrong)}"
    return None


def _containers(path: str, spec: pods.PodSpec) -> Iterator[tuple[str, pods.Container]]:
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            yield f"{path}.{kind}[{index}]", container


def _above_limits(path: str, spec: pods.PodSpec) -> Iterator[str]:
    whole = [(f"{path}.resources", spec.resources)] if spec.resources is not None else []
    for place, given in [*((place, each.resources) for place, each in _containers(path, spec)), *whole]:
        limits = parse_list(given.limits)
        above = _exceeding(parse_list(given.requests), limits)
        if above:
            yield _invalid(place, above, _ABOVE_LIMITS)
    if spec.resources is not None:
        yield from _above_pod_level(path, spec, spec.resources)


def _above_pod_level(path: str, spec: pods.PodSpec, level: pods.ResourceRequirements) -> Iterator[str]:
    """Yields what the API server refuses in the containers of a pod with resources of its own."""
    if above := _exceeding(container_sum(spec), parse_list(level.requests)):
        yield _invalid(f"{path}.resources", above, _BELOW_CONTAINERS)
    limits = parse_list(level.limits)
    for index, container in enumerate(spec.containers):
        if above := _exceeding(parse_list(container.resources.limits), limits):
            yield _invalid(f"{path}.containers[{index}]", above, _ABOVE_POD_LIMITS)


def _outside(path: str, spec: pods.PodSpec, limits: Sequence[Limit]) -> Iterator[str]:
    for limit in limits:
        least, most = parse_list(limit.min), parse_list(limit.max)
        if limit.type == "Container":
            for place, container in _containers(path, spec):
                requests, bounds = parse_list(container.resources.requests), parse_list(container.resources.limits)
                both = requests.keys() | bounds.keys()
                top = {r: max(requests.get(r, bounds.get(r, 0)), bounds.get(r, requests.get(r, 0))) for r in both}
                bottom = {r: min(requests.get(r, bounds.get(r, 0)), bounds.get(r, requests.get(r, 0))) for r in both}
                yield from _beyond(place, bottom, top, least, most)
        elif limit.type == "Pod":
            total = effective_requests(spec)
            yield from _beyond(path, total, total, least, most)


def _beyond(place: str, bottom: Amounts, top: Amounts, least: Amounts, most: Amounts) -> Iterator[str]:
    if above := _exceeding(top, most):
        yield _invalid(place, above, _ABOVE_MAX)
    if below := _exceeding(least, bottom):
        yield _invalid(place, below, _BELOW_MIN)


def _exceeding(amounts: Amounts, bounds: Amounts) -> list[str]:
    """Returns the sorted resources whose amount exceeds its bound; resources without a bound never do."""
    return sorted(name for name, amount in amounts.items() if name in bounds and amount > bounds[name])


def _invalid(place: str, names: Sequence[str], why: str) -> str:
    return f"{place}: Invalid value: {json.dumps(list(names), separators=(',', ':'))}: {why}"


def _joined(wrong: Sequence[str]) -> str:
    return wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
