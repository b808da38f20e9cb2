"""How long the scheduler thought about each Sakkara group: for `schedSolverTimeMilli`.

The time of every cycle that answered for the group counts whole, since what a cycle works out for one it may use for the
next; so a group that was decided together with others was decided in no more than this. Kept in memory until it is written
to the group's ConfigMap: of a process that is killed between the two, the time since is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from api.names import SAKKARA_GROUP_ANNOTATION
from api.workloads import Workload


class SolverTimes:
    """By the key of the Workload. The scheduler adds, the writer of the results takes."""

    def __init__(self, workload_of: Callable[[str], Workload | None]) -> None:
        self._workload_of = workload_of
        self._spent: dict[str, float] = {}

    def spent(self, keys: Iterable[str], seconds: float) -> None:
        """A cycle of so many seconds answered for these Workloads; only those of Sakkara groups are kept."""
        for key in set(keys):
            workload = self._workload_of(key)
            if workload is not None and SAKKARA_GROUP_ANNOTATION in workload.metadata.annotations:
                self._spent[key] = self._spent.get(key, 0.0) + seconds * 1000

    def known(self, key: str) -> float | None:
        """Milliseconds that are not written yet; None if there were none."""
        return self._spent.get(key)

    def written(self, key: str, milliseconds: float | None) -> None:
        """So many of them are."""
        if milliseconds is not None and key in self._spent:
            left = self._spent.pop(key) - milliseconds
            if left > 0:
                self._spent[key] = left

    def forget(self, key: str) -> None:
        """The Workload is gone."""
        self._spent.pop(key, None)
