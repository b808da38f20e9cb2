"""Which queues have quota of which flavors: those that freed node capacity of a flavor may help. Called by queues.py."""

from __future__ import annotations

from collections.abc import Iterable


class Sharing:
    """Kept by queue and by flavor."""

    def __init__(self) -> None:
        self._flavors: dict[str, frozenset[str]] = {}
        self._queues: dict[str, set[str]] = {}

    def put(self, queue: str, flavors: frozenset[str]) -> None:
        """The queue has these flavors now."""
        old = self._flavors.get(queue, frozenset())
        for flavor in old - flavors:
            self._queues[flavor].discard(queue)
        for flavor in flavors - old:
            self._queues.setdefault(flavor, set()).add(queue)
        self._flavors[queue] = flavors

    def of(self, flavors: Iterable[str]) -> set[str]:
        """The queues that have any of these flavors."""
        return set().union(*(self._queues.get(flavor, ()) for flavor in flavors))

    def beside(self, queue: str) -> set[str]:
        """The queues that have a flavor of this one, itself among them where it has any."""
        return self.of(self._flavors.get(queue, ()))
