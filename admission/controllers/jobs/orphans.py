"""Workloads without a job: releases those that are being deleted, and finishes the others once the job is certainly gone.

A job that the informer does not list may merely be newer than the informer's state, so the API server is asked before its
Workload is finished. Called by job_controller.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from admission.controllers.caches import MutationCache, owner_uid
from admission.controllers.jobs.context import JobOptions
from admission.controllers.jobs.executor import Executor
from admission.controllers.jobs.finish import plan_orphaned
from api.errors import NotFound
from api.kube.client import Kube
from api.kube.resources import Resource
from api.meta import split_key
from api.workloads import Workload

ORPHAN_GRACE: Final = 1.0
"""Seconds before the API server is asked: usually the garbage collector deletes the Workload sooner."""


class OrphanedWorkloads:
    """Finishes Workloads whose jobs are gone.

    `resources` is keyed by framework; `latest` caches the API server's answers; `wall` returns epoch seconds.
    """

    def __init__(
        self,
        kube: Kube,
        resources: Mapping[str, Resource],
        latest: MutationCache[Workload],
        executor: Executor,
        options: JobOptions,
        wall: Callable[[], float],
    ) -> None:
        self._kube, self._resources, self._latest = kube, resources, latest
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
        gone = [w for w in staying if await self._is_gone(key, owner_uid(w))]
        self._missing_since.pop(key, None)
        ended = await self.finish(key, gone)
        left = ORPHAN_GRACE if len(gone) < len(staying) else None
        return min((seconds for seconds in (held, ended, left) if seconds is not None), default=None)

    async def finish(self, key: str, workloads: Sequence[Workload]) -> float | None:
        """Finishes Workloads that certainly have no job and removes their finalizers. Returns as `release` does."""
        return await self._executor.perform(key, None, None, plan_orphaned(workloads, self._options, self._wall()))

    async def _is_gone(self, key: str, uid: str) -> bool:
        framework, _, name = key.partition(":")
        return await is_gone(self._kube, self._resources[framework], name, uid)


async def is_gone(kube: Kube, resource: Resource, key: str, uid: str) -> bool:
    """Asks the API server whether the object with the key and uid no longer exists. Raises other ApiErrors than NotFound."""
    namespace, name = split_key(key)
    try:
        found = await kube.get(resource, name, namespace)
    except NotFound:
        return True
    return bool(found["metadata"].get("uid", "") != uid)
