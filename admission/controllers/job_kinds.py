"""Watches jobs of the kinds that JobKinds declare, and reports in each JobKind whether its jobs are managed.

If a kind's CRD is missing or reading is forbidden, the JobKind's condition `Active` says so and the kind is checked again,
without effect on other kinds. It runs on the leader only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from admission.controllers.jobs.job_controller import JobController
from admission.controllers.pods.sets.sets import SetController
from admission.controllers.write.active_writer import write_active
from admission.integrations.job_kinds import Adapter, JobKinds
from admission.integrations.sets.scaled import ScaledSet
from api.job_kinds import JobKind
from api.kube.client import Kube
from api.kube.informers.optional_informer import OptionalInformer
from api.kube.reconcile import Reconciler
from api.kube.resources import JOB_KINDS
from api.names import JobKindReason

_LOOK_AGAIN: Final = 5.0
"""Seconds until a kind is checked again: whether it is served may change at any time."""


@dataclass(slots=True)
class _Watched:
    """A kind whose jobs are watched."""

    adapter: Adapter
    view: OptionalInformer
    task: asyncio.Task[None]


class JobKindController:
    """Reconciles JobKinds with job watches. `labels` selects the jobs to watch; `wall` returns epoch seconds."""

    def __init__(
        self,
        kube: Kube,
        kinds: JobKinds,
        jobs: JobController,
        sets: SetController,
        labels: str | None,
        wall: Callable[[], float],
    ) -> None:
        self._kube, self._kinds, self._labels, self._wall = kube, kinds, labels, wall
        self._jobs, self._sets = jobs, sets
        self._watched: dict[str, _Watched] = {}
        self._reconciler = Reconciler("job kinds", self._reconcile, workers=1)
        kinds.informer.add_handler(lambda change: self._reconciler.add(change.key))
        kinds.on_change(self._queue_all)

    async def run(self) -> None:
        """Runs until cancelled. Each new leadership runs it again and restarts the watches."""
        self._queue_all()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._reconciler.run()
        finally:
            for name, watched in tuple(self._watched.items()):
                self._forget(name, watched)

    def _queue_all(self) -> None:
        """Queues every JobKind: a change of one may bring another JobKind for the same kind of object into force."""
        for name in self._kinds.informer.objects:
            self._reconciler.add(name)

    async def _reconcile(self, name: str) -> float | None:
        adapter = self._kinds.adapters.get(name)
        watched = self._watched.get(name)
        if watched is not None and watched.adapter is not adapter:
            self._forget(name, watched)
            watched = None
        if adapter is not None and watched is None:
            self._end_superseded(adapter)
            view = OptionalInformer(self._kube, adapter.resource, label_selector=self._labels, interval=_LOOK_AGAIN)
            task = self._group.create_task(self._watch(adapter, view), name=f"informer {adapter.framework}")
            watched = self._watched[name] = _Watched(adapter, view, task)
        obj = self._kinds.informer.objects.get(name)
        if obj is None:
            return None
        status, reason, message = self._state(name, watched)
        await self._set_condition(obj, status, reason, message)
        return None if watched is None else _LOOK_AGAIN

    async def _watch(self, adapter: Adapter, view: OptionalInformer) -> None:
        if isinstance(adapter, ScaledSet):
            await self._sets.add_kind(adapter, view)
        else:
            await self._jobs.add_kind(adapter, view)
        await view.run()

    def _end_superseded(self, adapter: Adapter) -> None:
        """Ends the watch of a JobKind for the same kind of object that is no longer in force."""
        for name, watched in tuple(self._watched.items()):
            if watched.adapter.framework == adapter.framework and self._kinds.adapters.get(name) is not watched.adapter:
                self._forget(name, watched)

    def _forget(self, name: str, watched: _Watched) -> None:
        del self._watched[name]
        watched.task.cancel()
        if isinstance(watched.adapter, ScaledSet):
            self._sets.remove_kind(watched.adapter)
        else:
            self._jobs.remove_kind(watched.adapter)

    def _state(self, name: str, watched: _Watched | None) -> tuple[str, str, str]:
        """Returns status, reason and message of the condition."""
        if (problem := self._kinds.problems.get(name)) is not None:
            return "False", JobKindReason.INVALID, f"{problem.field}: {problem.given!r}: {problem.allowed}"
        if watched is None:
            return "Unknown", JobKindReason.PENDING, "it was not looked at yet"
        kind = watched.adapter.resource
        if watched.view.problem:
            how = f"`stowage jobkind rbac` prints the ClusterRoles for {kind.plural}.{kind.group}"
            return "False", JobKindReason.CANNOT_READ, f"{watched.view.problem}; {how}"
        if not watched.view.served:
            return (
                "False",
                JobKindReason.NOT_SERVED,
                f"{kind.api_version} {kind.kind} is not installed: its CRD is missing",
            )
        return "True", JobKindReason.MANAGED, f"jobs of kind {kind.kind} that name a queue are managed"

    async def _set_condition(self, obj: dict[str, Any], status: str, reason: str, message: str) -> None:
        kind = JobKind.from_wire(obj)
        said = status, reason, message
        await write_active(self._kube, JOB_KINDS, kind.metadata, kind.status.conditions, said, self._wall())
