"""Records the scheduler's decision time of each Sakkara group, for `schedSolverTimeMilli`.

Every cycle that decided on the group counts with its whole duration, since work within a cycle is shared; so the figure is an
upper bound. It is kept in memory until it is written to the ConfigMap; a killed process loses what it has not written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from api.names import SAKKARA_GROUP_ANNOTATION
from api.workloads import Workload


class SolverTimes:
    """Decision times by Workload key; the scheduler adds, the result controller reads."""

    def __init__(self, workload_of: Callable[[str], Workload | None]) -> None:
        self._workload_of = workload_of
        self._spent: dict[str, float] = {}

    def spent(self, keys: Iterable[str], seconds: float) -> None:
        """Adds a cycle's seconds to each of these Workloads that belongs to a Sakkara group."""
        for key in set(keys):
            workload = self._workload_of(key)
            if workload is not None and SAKKARA_GROUP_ANNOTATION in workload.metadata.annotations:
                self._spent[key] = self._spent.get(key, 0.0) + seconds * 1000

    def known(self, key: str) -> float | None:
        """Returns the milliseconds that are not written yet, or None."""
        return self._spent.get(key)

    def written(self, key: str, milliseconds: float | None) -> None:
        """Subtracts milliseconds that were written."""
        if milliseconds is not None and key in self._spent:
            left = self._spent.pop(key) - milliseconds
            if left > 0:
                self._spent[key] = left

    def forget(self, key: str) -> None:
        """Drops the times of a deleted Workload."""
        self._spent.pop(key, None)
