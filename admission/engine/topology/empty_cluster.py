"""Placement as if no workload were admitted, cached for all workloads that ask the same.

A workload that cannot be placed gets a message that says whether an empty cluster would hold it. Every cycle asks that
for every waiting workload. The answer depends only on nodes, foreign pods and flavors, so it is kept until one of them
changes (`Capacity.base_generation`). Called by ledger.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from admission.engine.decision import PlacementResult
from admission.engine.model import PlacementRequest
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.place import Placer

_MOST = 100_000
"""Answers and domains to keep: some 20 MB."""


class EmptyAnswers:
    """Answers of `place` with `simulate_empty`, by request."""

    def __init__(self, placer: Placer, capacity: Capacity) -> None:
        self._placer, self._capacity = placer, capacity
        self._base_generation = -1
        self._known: dict[Hashable, PlacementResult] = {}
        self._size = 0

    def place(self, requests: Sequence[PlacementRequest]) -> PlacementResult:
        """Domains as if no workload were admitted, or why there are none."""
        if any(request.previous is not None for request in requests):
            return self._placer.place(requests, simulate_empty=True)
        if self._base_generation != self._capacity.base_generation or self._size > _MOST:
            self._known.clear()
            self._base_generation, self._size = self._capacity.base_generation, 0
        placed = self._capacity.placed
        key = tuple((_question(one), one.facts if placed.concerns(one.facts) else None) for one in requests)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._placer.place(requests, simulate_empty=True)
            self._size += 1 + sum(len(assignment.domains) for assignment in found.assignments.values())
        return found


def _question(request: PlacementRequest) -> Hashable:
    """Returns all parts of a request that its answer depends on."""
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
        frozenset(pod_set.exclusive),
        pod_set.volumes,
    )
