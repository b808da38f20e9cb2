"""Tracks which slice of a job has its quota, and the bound pods that count for it. Part of the feed.

Two slices of one job can have quota at once, when the newer was admitted and the older is not Finished yet. Then only the
newer slice counts, for the pods of both. slices.py has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from admission.controllers.watch.cluster_view import BY_REPLACED, ClusterView
from admission.controllers.watch.slices import first_key, refusal, replaced_key, same_job
from admission.engine.model import BoundPod
from admission.engine.scheduler_state import SchedulerState
from api.meta import parse_time
from api.workloads import Workload


class SliceIndex:
    """The current slices of jobs; the feed maintains it."""

    def __init__(self, views: ClusterView, state: SchedulerState) -> None:
        self._views, self._state = views, state
        self._current: dict[str, str] = {}
        self._first: dict[str, str] = {}

    def replaces(self, workload: Workload) -> str:
        """Returns the key of the slice that the Workload replaces, or an empty string if there is none or it must not."""
        old = self._named(workload)
        return "" if old is None or refusal(workload, old) is not None else old.key

    def since(self, workload: Workload) -> float | None:
        """Returns when the job's first slice was created (epoch seconds), by which a later one has its turn. None: it is the
        first one, or none is known.
        """
        if not replaced_key(workload):
            return None
        first = self._views.workloads.objects.get(first_key(workload))
        if first is not None:
            return parse_time(first.metadata.creation_timestamp) if same_job(workload, first) else None
        earlier = (self._state.ledger.workload(key) for key in (workload.key, self.replaces(workload)) if key)
        return min((known.queued for known in earlier if known is not None), default=None)

    def related_slices(self, workload: Workload) -> list[Workload]:
        """Returns the slice that the Workload names and those that name it: they depend on the Workload."""
        old = self._named(workload)
        return [*([] if old is None else [old]), *self._views.workloads.by_index(BY_REPLACED, workload.key)]

    def has_successor(self, workload: Workload) -> bool:
        """Reports whether a later slice of the job has quota."""
        later = self._views.workloads.by_index(BY_REPLACED, workload.key)
        return any(self._state.ledger.admission(w.key) and refusal(w, workload) is None for w in later)

    def current(self, key: str | None) -> str | None:
        """Returns the Workload that pods now count for which name the Workload `key`."""
        return self._current.get(key, key) if key is not None else None

    def pods_to_move(self, workload: Workload) -> Iterator[BoundPod]:
        """Makes the Workload the current slice; yields bound pods of its job that do not count for it yet."""
        first = first_key(workload)
        others = {first, self._current.get(first, first)}
        others |= {later.key for later in self._views.workloads.by_index(BY_REPLACED, workload.key)}
        others.discard(workload.key)
        named = self._views.workloads.objects.get(first)
        if not others or (named is not None and not same_job(workload, named)):
            return
        self._current[first], self._first[workload.key] = workload.key, first
        allocations = self._state.ledger.allocations
        for pod in [pod for key in sorted(others) for pod in allocations.pods_of(key)]:
            yield replace(allocations.pods[pod], workload=workload.key)

    def forget(self, key: str) -> None:
        """Drops a workload that is removed from the ledger."""
        if (first := self._first.pop(key, None)) is not None and self._current.get(first) == key:
            del self._current[first]

    def _named(self, workload: Workload) -> Workload | None:
        key = replaced_key(workload)
        return self._views.workloads.objects.get(key) if key else None
