"""Counts a node's devices of each kind from its ResourceSlices. Pure.

As in kube-scheduler, a pool counts by its newest generation, and only once all slices of that generation exist. Devices that
share counters, have a taint, go to several pods or have binding conditions are left out. That may reject a suitable node, but
never promises a device that is not free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from admission.controllers.watch.devices.requests import DeviceKind
from api.cel.cel import CelError, compile_cel
from api.pod.devices import Device, DeviceClass, ResourceSlice


def counted(
    slices: Iterable[ResourceSlice], kinds: Iterable[DeviceKind], classes: Mapping[str, DeviceClass]
) -> tuple[Counter[DeviceKind], set[frozenset[DeviceKind]]]:
    """Returns the number of a node's devices by kind, and the pairs of kinds that share a device."""
    wanted = [(kind, [*_texts(kind, classes)]) for kind in kinds if kind.device_class in classes]
    counts, shared = Counter[DeviceKind](), set[frozenset[DeviceKind]]()
    for driver, device in _devices(slices):
        scope = device.scope(driver)
        mine = [kind for kind, texts in wanted if all(_holds(text, scope) for text in texts)]
        counts.update(mine)
        shared.update(map(frozenset, combinations(mine, 2)))
    return counts, shared


def _texts(kind: DeviceKind, classes: Mapping[str, DeviceClass]) -> Iterator[str]:
    yield from (each.cel.expression if each.cel else "" for each in classes[kind.device_class].spec.selectors)
    yield from kind.selectors


def _devices(slices: Iterable[ResourceSlice]) -> Iterator[tuple[str, Device]]:
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for each in slices:
        pools.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    for (driver, _), pool in sorted(pools.items()):
        newest = max(each.spec.pool.generation for each in pool)
        current = [each for each in pool if each.spec.pool.generation == newest]
        if len(current) >= current[0].spec.pool.resource_slice_count:
            yield from ((driver, device) for each in current for device in each.spec.devices if device.is_plain)


def _holds(text: str, scope: Mapping[str, object]) -> bool:
    try:
        return compile_cel(text)(scope) is True
    except CelError:
        return False
