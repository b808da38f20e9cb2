"""What the nodes would hold if no workload were admitted, asked once for all that ask the same.

A workload without a place is told whether an empty cluster would hold it; that is asked in every cycle, for every workload that
waits. The answer depends on nodes, foreign pods and flavors alone, so it is kept until one of those changes
(`Capacity.ground`). Decides nothing. Called by ledger.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from admission.engine.decision import PlacementResult
from admission.engine.model import PlacementRequest
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.place import Placer

_MOST = 100_000
"""Answers and their domains that are kept: some 20 MB."""


class EmptyAnswers:
    """Answers of `place` with `simulate_empty`, by what is asked."""

    def __init__(self, placer: Placer, capacity: Capacity) -> None:
        self._placer, self._capacity = placer, capacity
        self._ground = -1
        self._known: dict[Hashable, PlacementResult] = {}
        self._size = 0

    def place(self, requests: Sequence[PlacementRequest]) -> PlacementResult:
        """Domains as if no workload were admitted, or why there are none."""
        if any(request.previous is not None for request in requests):
            return self._placer.place(requests, simulate_empty=True)
        if self._ground != self._capacity.ground or self._size > _MOST:
            self._known.clear()
            self._ground, self._size = self._capacity.ground, 0
        key = tuple(map(_question, requests))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._placer.place(requests, simulate_empty=True)
            self._size += 1 + sum(len(assignment.domains) for assignment in found.assignments.values())
        return found


def _question(request: PlacementRequest) -> Hashable:
    """All of a request that its answer depends on."""
    pod_set = request.pod_set
    return (
        request.flavor,
        request.count,
        request.implied,
        request.profile,
        pod_set.name,
        pod_set.count,
        frozenset(pod_set.requests.items()),
        pod_set.topology,
        frozenset(pod_set.node_selector.items()),
        pod_set.affinity,
        pod_set.preferred_affinity,
        pod_set.tolerations,
    )
