"""A queue's usage by the priority of its workloads: what evicting all workloads below one priority would free.

The ledger updates it with the cohort tree, at every change of an admission. A change of an admitted workload's priority moves
its usage. Zeros are not stored. Used by preemption/reclaimable.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from admission.engine.journal import Journal
from admission.engine.model import FlavorResource


class UsageByPriority:
    """Sums by queue, (flavor, resource) and priority."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._sums: dict[tuple[str, FlavorResource], dict[int, int]] = {}

    def add(self, queue: str, priority: int, usage: Mapping[FlavorResource, int], sign: int = 1) -> None:
        """So much more of that priority; `sign` -1: less."""
        self._journal.record(partial(self._add, queue, priority, usage, -sign))
        self._add(queue, priority, usage, sign)

    def _add(self, queue: str, priority: int, usage: Mapping[FlavorResource, int], sign: int) -> None:
        for fr, amount in usage.items():
            sums = self._sums.setdefault((queue, fr), {})
            sums[priority] = sums.get(priority, 0) + sign * amount
            if not sums[priority]:
                del sums[priority]
            if not sums:
                del self._sums[queue, fr]

    def below(self, queue: str, fr: FlavorResource, priority: int) -> int:
        """What workloads of a lower priority use of it."""
        return sum(amount for own, amount in self._sums.get((queue, fr), {}).items() if own < priority)

    def state(self) -> dict[tuple[str, FlavorResource], dict[int, int]]:
        """All of it, comparable."""
        return {key: dict(sums) for key, sums in self._sums.items()}
