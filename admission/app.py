"""The controller process: builds its parts from the settings and runs them until it is stopped.

`python -m admission controller`: every replica keeps ledger and queues up to date; the leader acts. `assembly` builds the
parts, `admission.webhook.app` the webhook process; `admission.__main__` reads the settings of both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from admission.assembly import (
    ProcessPart,
    Shared,
    deciding,
    features,
    nodes,
    plain_pods,
    queues,
    whole_jobs,
    workloads,
)
from admission.controllers.decide.ledger_audit import audited
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.feature import Run
from admission.controllers.write.status import legacy_reasons
from admission.engine.queue.queues import PendingQueues
from admission.settings import AdmissionSettings
from admission.world.snapshot import capture
from api.kube.client import Kube
from api.kube.decode import identity
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.process.access import Access
from api.process.leader import LeaderElection
from api.process.process import Process

CONTROLLER = "controller"
_AUDIT_PERIOD = 60.0
# Most events sent in one burst, and most events that wait (some hundred bytes each).
_EVENTS_AT_ONCE = 50
_EVENTS_WAITING = 20_000


async def run_controller(process: Process, settings: AdmissionSettings) -> None:
    """Runs the informers always, so that a standby starts fast, and decides and writes while leading."""
    legacy_reasons.set(settings.controller.legacy_wait_reasons)
    serve_visibility = _visibility() if settings.visibility_server.enabled else None
    async with await Kube.connect(settings.client_settings(CONTROLLER)) as kube:
        election = LeaderElection(kube, settings.leader_settings(CONTROLLER))
        writer = kube.fenced(election.fence) if settings.lease.enabled else kube
        parts = _Controller(kube, writer, settings)
        process.may_read = Access(kube).may_read
        process.ready = parts.missing
        if settings.controller.snapshots:
            process.pages["snapshot"] = parts.snapshot
        async with asyncio.TaskGroup() as group:
            for informer in parts.informers:
                group.create_task(informer.run(), name=f"informer {informer.resource.plural}")
            if serve_visibility is not None:
                serving = serve_visibility(kube, settings, parts.views, parts.queues)
                group.create_task(serving, name="visibility API")
            lead = parts.lead
            leading = election.run(lead) if settings.lease.enabled else election.run_alone(lead)
            group.create_task(leading, name=CONTROLLER)


def _visibility() -> Callable[[Kube, AdmissionSettings, Views, PendingQueues], Coroutine[Any, Any, None]]:
    """Imports the visibility API, whose certificates need a library of 7 MiB, where it is served; before anything else runs."""
    from admission.visibility import app

    return app.run


class _Controller:
    """The connected parts of the controller process."""

    def __init__(self, kube: Kube, writer: Kube, settings: AdmissionSettings) -> None:
        self._settings, self._sync_timeout = settings.controller, settings.sync_timeout
        self.views = Views(kube, settings.sakkara.topology_namespace, settings.feature_gates)
        events = writer.tuned(qps=self._settings.events_per_second, burst=_EVENTS_AT_ONCE)
        recorder = EventRecorder(events, f"stowage-{CONTROLLER}", limit=_EVENTS_WAITING)
        shared = Shared.of(kube, writer, settings, self.views, recorder)
        self._job_kinds = shared.job_kinds
        self._decides = decides = deciding(shared)
        pods = plain_pods(shared)
        own: tuple[Run, ...] = (("events", recorder.run), ("audit", self._audit))
        self.parts = (
            ProcessPart(runs=own),
            decides.part,
            features(shared),
            workloads(shared, decides),
            nodes(shared, decides),
            queues(shared, decides),
            whole_jobs(shared, pods.sets),
            pods.part,
        )
        for informer in self.informers:
            if not informer.selects_by_field:
                informer.add_handler(partial(_tell_deletion, recorder))

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All informers of the process."""
        return (*self.views.all(), *(one for part in self.parts for one in part.informers))

    def missing(self) -> str | None:
        """Returns why the process is not ready, or None."""
        unlisted = [informer.resource.plural for informer in self.views.all() if not informer.is_settled]
        return f"not listed yet: {', '.join(unlisted)}" if unlisted else None

    def snapshot(self) -> bytes:
        """Returns a snapshot of the next decision's input, in a copy of the process. It is consistent, because a cycle runs
        without interruption.
        """
        decides = self._decides
        decides.feed.finish()
        readiness = decides.context.readiness
        unready = readiness.waited_for(decides.scheduler.admitting) if readiness else None
        return capture(
            decides.state,
            time.time(),
            self._settings.cycle_budget,
            decides.context.sharing,
            failed=decides.scheduler.failed(),
            unready=unready,
        ).encode()

    @property
    def queues(self) -> PendingQueues:
        """The pending workloads of all queues."""
        return self._decides.queues

    async def lead(self) -> None:
        """Syncs the caches and runs the leader's tasks until cancelled."""
        await self.views.synced(self._sync_timeout)
        await self._job_kinds.informer.synced(self._sync_timeout)
        # The previous leader's last admissions must be in the ledger, even if the watch has not delivered them yet.
        await self.views.workloads.refresh()
        async with asyncio.TaskGroup() as group:
            for name, run in (one for part in self.parts for one in part.runs):
                group.create_task(_awaited(run), name=name)

    async def _audit(self) -> None:
        while True:
            await asyncio.sleep(_AUDIT_PERIOD)
            await audited(self._decides.ledger)


def _tell_deletion(recorder: EventRecorder, change: Change[Any]) -> None:
    if change.type is ChangeType.DELETED:
        recorder.object_gone(identity(change.object).uid)


async def _awaited(run: Callable[[], Awaitable[None]]) -> None:
    await run()
