"""Advance reservations and the mark that they put on nodes, as frozen values (convert_advance_reservations.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from api.pod.pods import Taint

RESERVED_EFFECT: Final = "Reserved"
"""The effect of the taint that marks a reserved node. The API server knows no such effect, so no node can have it of itself,
and no toleration of a pod covers it."""


@dataclass(frozen=True, slots=True)
class AdvanceReservation:
    """The nodes with all of these `labels` are reserved from `start` until `end` (epoch seconds).

    Workloads of the `namespaces` that name the reservation may be placed on them at any time, others only if they end before
    `start` by their own limit. `queue` is the ClusterQueue whose quota they are charged to, from when it has `begun`; empty:
    none.
    """

    name: str
    labels: Mapping[str, str]
    start: float
    end: float
    namespaces: frozenset[str] = frozenset()
    queue: str = ""
    begun: bool = False

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Reports whether a node with these labels is reserved."""
        return all(labels.get(key) == value for key, value in self.labels.items())

    @property
    def charging(self) -> bool:
        """Reports whether its nodes are charged to a ClusterQueue now."""
        return self.begun and bool(self.queue)

    @property
    def mark(self) -> Taint:
        """The taint that marks its nodes."""
        return Taint(key="", value=self.name, effect=RESERVED_EFFECT)
