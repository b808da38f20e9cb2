"""What nodes have, and would have if their devices were there. Pure.

A device plugin that has stopped leaves its resource on the node with the amount 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admission.doctor.view import Obj, allocatable


def is_device(resource: str) -> bool:
    """Reports whether a device plugin publishes the resource."""
    return "/" in resource


def amounts_of(node: Obj) -> dict[str, int]:
    """Returns what one node can allocate, cpu in milli-units."""
    return allocatable([node])


def usual_amounts(nodes: Sequence[Obj]) -> dict[str, int]:
    """Returns the largest amount of each device that one of the nodes has."""
    usual: dict[str, int] = {}
    for node in nodes:
        for name, amount in amounts_of(node).items():
            if is_device(name):
                usual[name] = max(usual.get(name, 0), amount)
    return usual


def lost(node: Obj, usual: Mapping[str, int]) -> list[str]:
    """Returns the devices that the node has none of and was made to have; `usual` is what other nodes have."""
    return sorted(name for name, amount in amounts_of(node).items() if not amount and usual.get(name))


def expected_amounts(nodes: Sequence[Obj]) -> dict[str, int]:
    """Returns what the nodes can allocate together, with the lost devices as on other nodes."""
    usual, total = usual_amounts(nodes), allocatable(nodes)
    for node in nodes:
        for name in lost(node, usual):
            total[name] = total.get(name, 0) + usual[name]
    return total
