"""Placement as if no workload were admitted, cached across workloads with equal requests.

The message of a workload that cannot be placed says whether it would fit into an empty cluster, and every cycle asks that
for every waiting workload. The answer depends only on nodes, foreign pods and flavors, so it is cached until one of them
changes (`Capacity.base_generation`). Called by queries.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from admission.engine.decision import PlacementResult
from admission.engine.model import PlacementRequest
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.place import Placer

_MOST = 100_000
"""The number of cached answers and of domains in them, together: about 20 MB."""


class EmptyAnswers:
    """A cache of the placements on an empty cluster, by request."""

    def __init__(self, placer: Placer, capacity: Capacity) -> None:
        self._placer, self._capacity = placer, capacity
        self._base_generation = -1
        self._known: dict[Hashable, PlacementResult] = {}
        self._size = 0

    def place(self, requests: Sequence[PlacementRequest]) -> PlacementResult:
        """Returns the placement as if no workload were admitted, or why there is none."""
        if any(request.previous is not None for request in requests):
            return self._placer.place(requests, simulate_empty=True)
        key = self._key(requests)
        result = self._known.get(key)
        if result is None:
            result = self._known[key] = self._placer.place(requests, simulate_empty=True)
            self._size += 1 + sum(len(assignment.domains) for assignment in result.assignments.values())
        return result

    def refusal(self, requests: Sequence[PlacementRequest]) -> PlacementResult | None:
        """Returns the answer if it is known and the nodes as they are cannot hold the pods either; None if that is unknown.

        Usage only takes capacity away, but pods of workloads may also attract others.
        """
        if len(requests) != 1 or requests[0].previous is not None or self._capacity.placed.concerns(requests[0].facts):
            return None
        result = self._known.get(self._key(requests))
        return None if result is None or result.fits else result

    def _key(self, requests: Sequence[PlacementRequest]) -> Hashable:
        if self._base_generation != self._capacity.base_generation or self._size > _MOST:
            self._known.clear()
            self._base_generation, self._size = self._capacity.base_generation, 0
        placed = self._capacity.placed
        return tuple((_question(one), one.facts if placed.concerns(one.facts) else None) for one in requests)


def _question(request: PlacementRequest) -> Hashable:
    """Returns the cache key: every part of the request that its answer depends on, except its pod terms."""
    pod_set = request.pod_set
    return (
        request.flavor,
        request.count,
        request.implied,
        request.profile,
        request.most_per_host,
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
        pod_set.gathered,
        pod_set.node_holds,
    )
