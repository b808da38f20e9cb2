"""Whether the resources of a Workload's pods are valid at all: requests within limits, and within the namespace's LimitRanges.

Pure. Pods that break these rules would be refused by the API server once the job starts, so the job waits and says why
(lifecycle.md 3.2). Called where a Workload is taken in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from api import pods
from api.quantity import parse_list
from api.workloads import Workload

Amounts = Mapping[str, int]

_ABOVE_LIMITS = "requests must not exceed its limits"
_ABOVE_MAX = "requests must not be above the limitRange max"
_BELOW_MIN = "requests must not be below the limitRange min"


class Limit(msgspec.Struct, frozen=True, rename="camel"):
    """One limit of a LimitRange; `type` is Container or Pod (others do not concern workloads)."""

    type: str = ""
    min: dict[str, str | int | float] = {}
    max: dict[str, str | int | float] = {}


class LimitRangeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The limits."""

    limits: tuple[Limit, ...] = ()


class LimitRange(msgspec.Struct, frozen=True, rename="camel"):
    """The limits of a namespace, or some of them."""

    metadata: pods.Meta = pods.Meta()
    spec: LimitRangeSpec = LimitRangeSpec()


def defect(workload: Workload, limits: Sequence[Limit] = ()) -> str | None:
    """What is wrong with the resources, in the words of the condition; None where nothing is. Raises InvalidQuantity."""
    specs = [
        (f"spec.podSets[{index}].template.spec", pods.pod_spec(pod_set.template))
        for index, pod_set in enumerate(workload.spec.pod_sets)
    ]
    if wrong := [text for path, spec in specs for text in _above_limits(path, spec)]:
        return f"resources validation failed: {_joined(wrong)}"
    if wrong := [text for path, spec in specs for text in _outside(path, spec, limits)]:
        return f"resources didn't satisfy LimitRange constraints: {_joined(wrong)}"
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
            total = pods.effective_requests(spec)
            yield from _beyond(path, total, total, least, most)


def _beyond(place: str, bottom: Amounts, top: Amounts, least: Amounts, most: Amounts) -> Iterator[str]:
    if above := _exceeding(top, most):
        yield _invalid(place, above, _ABOVE_MAX)
    if below := _exceeding(least, bottom):
        yield _invalid(place, below, _BELOW_MIN)


def _exceeding(amounts: Amounts, bounds: Amounts) -> list[str]:
    """The resources of which there is more than the bound allows; what has no bound is never too much."""
    return sorted(name for name, amount in amounts.items() if name in bounds and amount > bounds[name])


def _invalid(place: str, names: Sequence[str], why: str) -> str:
    return f"{place}: Invalid value: {json.dumps(list(names), separators=(',', ':'))}: {why}"


def _joined(wrong: Sequence[str]) -> str:
    return wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
