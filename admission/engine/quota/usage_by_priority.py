"""A queue's usage by priority: what evicting all workloads below a priority would release. The ledger updates it together with
the cohort tree, at every change of an admission or of an admitted workload's priority. Zeros are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from admission.engine.journal import Journal
from admission.engine.model import FlavorResource


class UsageByPriority:
    """Sums of usage by queue, (flavor, resource) and priority."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._sums: dict[tuple[str, FlavorResource], dict[int, int]] = {}

    def add(self, queue: str, priority: int, usage: Mapping[FlavorResource, int], sign: int = 1) -> None:
        """Adds usage at that priority, or subtracts it with `sign` -1."""
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
        """Returns the usage by workloads of lower priority."""
        return sum(amount for own, amount in self._sums.get((queue, fr), {}).items() if own < priority)

    def state(self) -> dict[tuple[str, FlavorResource], dict[int, int]]:
        """Returns the whole state in comparable form."""
        return {key: dict(sums) for key, sums in self._sums.items()}
