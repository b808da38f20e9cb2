"""What an admitted workload and its bound pods take, taken out of the trees and put back, as if they were gone for good.

A release proper makes the pods that are still bound foreign until they have ended; a question what an eviction would bring
wants to know how it will be when they have. So here only amounts move: bookings stay as they are, which is why this is done
inside a trial, and audited by nobody before the trial ends. Pods of others that are homeless under a wider lowest level
(assumed.py) do not move into the room. Called by ledger.py for the preemption engine.

`PlacementCheck` answers quickly whether a placement found a moment ago still has room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from admission.engine.model import Assignment, PlacementRequest
from admission.engine.topology.allocation.booking import Bookings
from admission.engine.topology.allocation.capacity import Capacity, Kind, Spot
from admission.engine.topology.allocation.shares import Share, held
from admission.engine.topology.constraints import pod_amounts
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.usage import Vector, times


def shift(bookings: Bookings, capacity: Capacity, key: str, sign: int) -> None:
    """Take what the workload holds out of the trees (sign -1), or put it back (+1). The workload must be booked."""
    for share in bookings.by_workload[key].shares.values():
        for spot, vector in _charged(bookings, capacity, share):
            capacity.charge(spot, vector, sign)
    for node, vector in _foreign(bookings, capacity, key):
        capacity.add_foreign(node, vector, sign)


def taken(bookings: Bookings, capacity: Capacity, key: str) -> Iterator[tuple[Spot, Vector]]:
    """All that `shift` would move, pods that are charged on their nodes among it."""
    for share in bookings.by_workload[key].shares.values():
        yield from _charged(bookings, capacity, share)
    for node, vector in _foreign(bookings, capacity, key):
        yield Spot(Kind.NODE, "", (node,)), vector


def _charged(bookings: Bookings, capacity: Capacity, share: Share) -> Iterator[tuple[Spot, Vector]]:
    if not share.by_node:
        yield share.spot, times(share.vector, share.count)
        return
    for node, count in share.assumed.items():
        yield Spot(Kind.NODE, share.flavor, (node,)), times(share.vector, count)
    for pod in (bookings.pods[key] for key in share.covered):
        yield Spot(Kind.NODE, share.flavor, (pod.node,)), capacity.columns.vector(held(pod))


def _foreign(bookings: Bookings, capacity: Capacity, key: str) -> Iterator[tuple[str, Vector]]:
    """What of its bound pods is charged on their nodes: those that are not covered, and what covered ones take beyond."""
    for pod in (bookings.pods[name] for name in bookings.pods_apart(key)):
        slot = bookings.slot_of.get(pod.key)
        share = None if slot is None else bookings.share_of(slot)
        if share is None:
            yield pod.node, capacity.columns.vector(held(pod))
        elif not share.by_node and (surplus := bookings.surplus(share, pod)):
            yield pod.node, surplus


class PlacementCheck:
    """Placements of one workload, all together; `holds` asks whether the trees, as they are now, have room for them."""

    def __init__(
        self, capacity: Capacity, requests: Sequence[PlacementRequest], found: Mapping[str, Assignment]
    ) -> None:
        self._tree, self._needs = _needs(capacity, requests, found)

    def holds(self) -> bool:
        """True: they still fit. False: they do not, or it cannot be told by rows (several flavors, nodes below domains)."""
        if self._tree is None:
            return False
        for column, (rows, amounts) in self._needs.items():
            free = self._tree.free(column)
            if free is None or bool((free[rows] < amounts).any()):
                return False
        return True


def _needs(
    capacity: Capacity, requests: Sequence[PlacementRequest], found: Mapping[str, Assignment]
) -> tuple[Tree | None, dict[int, tuple[Ints, Ints]]]:
    flavors = {request.flavor for request in requests}
    tree = capacity.trees.get(next(iter(flavors))) if len(flavors) == 1 else None
    if tree is None or tree.shape.hidden_nodes:
        return None, {}
    needs: dict[int, dict[int, int]] = {}
    for request in requests:
        vector = capacity.columns.vector(pod_amounts(request.pod_set))
        for domain in found[request.pod_set.name].domains:
            row = tree.domain_row(domain.values)
            if row is None:
                return None, {}
            for column, amount in vector:
                if amount:
                    by_row = needs.setdefault(column, {})
                    by_row[row] = by_row.get(row, 0) + amount * domain.count
    return tree, {column: _arrays(by_row) for column, by_row in needs.items()}


def _arrays(by_row: Mapping[int, int]) -> tuple[Ints, Ints]:
    return np.array(list(by_row), dtype=np.int64), np.array(list(by_row.values()), dtype=np.int64)
