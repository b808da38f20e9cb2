"""Workloads without a listed job: releases those that are being deleted, and finishes the others once the job is gone.

A job that the informer does not list may merely be newer than the informer's state, or its user may have taken it from its
queue, by whose label the informer lists jobs. So the API server is asked before a Workload is finished or deleted. Called by
job_controller.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from admission.controllers.jobs.context import JobOptions
from admission.controllers.jobs.executor import Executor
from admission.controllers.jobs.plan.finish import plan_left, plan_orphaned
from admission.controllers.jobs.plan.workload import has_left
from admission.controllers.watch.caches import MutationCache, owner_uid
from admission.integrations.base import JobIntegration
from api.errors import NotFound
from api.kube.client import Kube
from api.kube.resources import Resource
from api.meta import split_key
from api.workloads import Workload

ORPHAN_GRACE: Final = 1.0
"""Seconds before the API server is asked: usually the garbage collector deletes the Workload sooner."""

LEAVING: Final = 5.0
"""Seconds between two looks at a job that left its queue while it has pods: no informer lists it."""


class OrphanedWorkloads:
    """Finishes Workloads whose jobs are gone.

    `adapters` is keyed by framework; `latest` caches the API server's answers; `wall` returns epoch seconds.
    """

    def __init__(
        self,
        kube: Kube,
        adapters: Mapping[str, JobIntegration],
        latest: MutationCache[Workload],
        executor: Executor,
        options: JobOptions,
        wall: Callable[[], float],
    ) -> None:
        self._kube, self._adapters, self._latest = kube, adapters, latest
        self._executor, self._options, self._wall = executor, options, wall
        self._missing_since: dict[str, float] = {}

    async def release(self, key: str, workloads: Sequence[Workload]) -> float | None:
        """Handles Workloads of the job `key`, which is not listed or has another uid.

        Returns the seconds until it must be called again, or None. Raises ApiErrors.
        """
        if not workloads:
            self._missing_since.pop(key, None)
            return None
        workloads = [self._latest.of(w.key, w) for w in workloads]
        held = await self.finish(key, [w for w in workloads if w.metadata.deletion_timestamp])
        staying = [w for w in workloads if not w.metadata.deletion_timestamp]
        if not staying:
            self._missing_since.pop(key, None)
            return held
        since = self._missing_since.setdefault(key, self._wall())
        if self._wall() - since < ORPHAN_GRACE:
            return ORPHAN_GRACE
        job = await read(self._kube, self._adapters[key.partition(":")[0]].resource, key.partition(":")[2])
        self._missing_since.pop(key, None)
        uid = job["metadata"].get("uid", "") if job is not None else None
        gone = [w for w in staying if owner_uid(w) != uid]
        ended = await self.finish(key, gone)
        left = await self._leave(key, job, [w for w in staying if owner_uid(w) == uid]) if job is not None else None
        return min((seconds for seconds in (held, ended, left) if seconds is not None), default=None)

    async def _leave(self, key: str, job: dict[str, Any], workloads: Sequence[Workload]) -> float | None:
        """Handles the Workloads of a job that exists. Returns the seconds until it must be looked at again, or None."""
        if not workloads:
            return None
        if not has_left(job, self._options):
            return ORPHAN_GRACE
        kind = self._adapters[key.partition(":")[0]]
        made = plan_left(job, kind, workloads, self._wall())
        again = await self._executor.perform(key, kind, job, made)
        return again if made.actions else LEAVING

    async def finish(self, key: str, workloads: Sequence[Workload]) -> float | None:
        """Finishes Workloads that certainly have no job and removes their finalizers. Returns as `release` does."""
        return await self._executor.perform(key, None, None, plan_orphaned(workloads, self._options, self._wall()))


async def read(kube: Kube, resource: Resource, key: str) -> dict[str, Any] | None:
    """Returns the object `namespace/name` as the API server has it now, or None. Raises other ApiErrors than NotFound."""
    namespace, name = split_key(key)
    try:
        return await kube.get(resource, name, namespace)
    except NotFound:
        return None


async def is_gone(kube: Kube, resource: Resource, key: str, uid: str) -> bool:
    """Asks the API server whether the object with the key and uid no longer exists. Raises other ApiErrors than NotFound."""
    job = await read(kube, resource, key)
    return job is None or job["metadata"].get("uid", "") != uid
