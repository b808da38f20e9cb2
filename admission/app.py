"""The controller process: builds its parts from the settings, runs them until told to stop. The only place that builds.

`python -m admission controller`: every replica keeps ledger and queues warm, the leader acts. The webhook process is built in
`admission.webhook.app`; `admission.__main__` reads the settings for both.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from admission import metrics
from admission.controllers.cluster_view import make_views
from admission.controllers.elastic.controller import ElasticQuotaController
from admission.controllers.evictor import Evictor
from admission.controllers.explaining import Explainer, Patience
from admission.controllers.feed import Feed
from admission.controllers.job_kinds import JobKindController
from admission.controllers.jobs.controller import JobController
from admission.controllers.lives import Lives
from admission.controllers.nodes import NodeController
from admission.controllers.options import job_options, life_rules, shown
from admission.controllers.pods.controller import PodController
from admission.controllers.pods.freequeue import FreeQueueController
from admission.controllers.pods.podgroups import PodGroupController, PodGroups
from admission.controllers.pods.sets import SetController
from admission.controllers.pods.together import GangGroupController
from admission.controllers.queues import QueueController
from admission.controllers.readiness import Readiness
from admission.controllers.sakkara.groups import SakkaraGroups
from admission.controllers.sakkara.output_controller import ResultController
from admission.controllers.sakkara.output_members import MemberPod, read_member
from admission.controllers.sakkara.output_paths import Paths
from admission.controllers.sakkara.output_times import SolverTimes
from admission.controllers.sakkara.reporter import Reporter
from admission.controllers.scheduler import Scheduler
from admission.controllers.scheduler_context import SchedulerContext
from admission.controllers.shares import NO_SHARES, LedgerShares
from admission.controllers.status import legacy_reasons
from admission.controllers.unmanaged import UnmanagedKinds
from admission.controllers.waits import WaitReporter
from admission.controllers.workloads import WorkloadController
from admission.engine.ledger import Ledger
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from admission.integrations.pod import QueuedPod, QueuedPodReader
from admission.integrations.registry import ADAPTERS
from admission.integrations.sets import SETS
from admission.job_kinds import JobKinds
from admission.settings import AdmissionSettings
from admission.world.snapshot import capture
from api.kube.access import Access
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informer import Informer
from api.kube.leader import LeaderElection
from api.kube.process import Process
from api.kube.resources import CONFIG_MAPS, ELASTIC_QUOTAS, POD_GROUPS, PODS, SIGS_ELASTIC_QUOTAS, SIGS_POD_GROUPS
from api.kube.served import WhenServed
from api.names import QUEUE_NAME_LABEL, SAKKARA_GROUP, SAKKARA_GROUP_NAME
from api.sakkara import ConfigMap

log = logging.getLogger(__name__)

CONTROLLER = "controller"
_AUDIT_PERIOD, _AUDIT_PAUSE = 60.0, 0.1
# Events of so many objects may go out at once, and so many sentences may wait (some hundred bytes each).
_EVENTS_AT_ONCE = 50
_EVENTS_WAITING = 20_000


async def run_controller(process: Process, settings: AdmissionSettings) -> None:
    """Watches always, so that a standby is warm; decides and writes while leading."""
    legacy_reasons.set(settings.controller.legacy_wait_reasons)
    async with await Kube.connect(settings.client_settings(CONTROLLER)) as kube:
        election = LeaderElection(kube, settings.leader_settings(CONTROLLER))
        writer = kube.fenced(election.fence) if settings.lease.enabled else kube
        parts = _Controller(kube, writer, settings)
        process.may_read = Access(kube).may_read
        process.ready = parts.missing
        if settings.controller.snapshots:
            process.pages["snapshot"] = parts.snapshot
        async with asyncio.TaskGroup() as group:
            for informer in (
                *parts.views.all(),
                parts.pods,
                *parts.jobs.values(),
                *parts.sets.values(),
                *parts.elastic.values(),
                *parts.groups.values(),
                *parts.unmanaged.informers.values(),
                parts.maps,
                parts.job_kinds.informer,
                parts.members,
            ):
                group.create_task(informer.run(), name=f"informer {informer.resource.plural}")
            lead = parts.lead
            group.create_task(election.run(lead) if settings.lease.enabled else lead(), name=CONTROLLER)


class _Controller:
    """The parts of the controller process, wired."""

    def __init__(self, kube: Kube, writer: Kube, settings: AdmissionSettings) -> None:
        self._settings = settings.controller
        self._sync_timeout = settings.sync_timeout
        self.views = views = make_views(kube, settings.sakkara.topology_namespace)
        self.jobs = {
            kind.framework: WhenServed(kube, kind.resource, label_selector=_managed_labels(settings))
            for kind in ADAPTERS
        }
        labels = _managed_labels(settings)
        self.sets = {kind.framework: WhenServed(kube, kind.resource, label_selector=QUEUE_NAME_LABEL) for kind in SETS}
        reader = QueuedPodReader(
            settings.integrations.label_keys_to_copy, settings.integrations.annotation_keys_to_copy
        )
        self.pods: Informer[QueuedPod] = Informer(kube, PODS, reader, label_selector=labels)
        self.ledger, queues, cycle_due = Ledger(settings.placement.options()), PendingQueues(), asyncio.Event()
        teller = writer.tuned(qps=self._settings.events_per_second, burst=_EVENTS_AT_ONCE)
        self._recorder = recorder = EventRecorder(teller, f"stowage-{CONTROLLER}", limit=_EVENTS_WAITING)
        self.unmanaged = UnmanagedKinds(kube, recorder)
        self._state = SchedulerState(self.ledger, queues)
        by_eviction = settings.wait_for_pods_ready.requeuing_strategy.timestamp == "Eviction"
        self.job_kinds = JobKinds(kube)
        feed = Feed(views, self._state, cycle_due.set, rules=settings.resources.rules(), by_eviction=by_eviction)
        self.job_kinds.on_change(feed.kinds_changed)
        patience = Patience(self._settings.explain_after, self._settings.explain_period)
        self._sharing, pods = settings.fair_sharing.rules(), settings.wait_for_pods_ready
        readiness = Readiness(views, self._everyone(cycle_due)) if pods.enabled and pods.block_admission else None
        explainer = Explainer(
            writer,
            views,
            self.ledger,
            queues,
            recorder,
            patience,
            sharing=self._sharing,
            startable=lambda: readiness.startable(in_flight=False) if readiness else None,
        )
        waits = WaitReporter(writer, views, recorder, self._settings.wait_report_period, explainer=explainer)
        context = SchedulerContext(feed, self.ledger, queues, cycle_due, self._settings, self._sharing, readiness)
        times = SolverTimes(views.workloads.objects.get)
        scheduler = Scheduler(writer, views, context, waits, recorder, spent=times.spent)
        self._scheduler, self._readiness = scheduler, readiness
        workers, rules = self._settings.workload_workers, life_rules(settings)
        workloads = WorkloadController(writer, views, recorder, feed.validation_error, workers, rules=rules)
        self.job_kinds.on_change(workloads.kinds_changed)
        self.elastic = {kind: WhenServed(kube, kind) for kind in (ELASTIC_QUOTAS, SIGS_ELASTIC_QUOTAS)}
        elastic = ElasticQuotaController(writer, views, self.elastic, recorder)
        self.groups = {kind: WhenServed(kube, kind) for kind in (POD_GROUPS, SIGS_POD_GROUPS)}
        self.maps = Informer(kube, CONFIG_MAPS, ConfigMap, label_selector=SAKKARA_GROUP)
        described = SakkaraGroups(self.maps, settings.sakkara.highest_priority)
        pod_groups = PodGroups(self.groups, described)
        self.members: Informer[MemberPod] = Informer(kube, PODS, read_member, label_selector=SAKKARA_GROUP_NAME)
        results = ResultController(
            writer,
            self.maps,
            described,
            self.members,
            self.pods,
            views.workloads,
            Paths(self.ledger, views.nodes),
            times,
            at_once=self._settings.writes,
        )
        nodes = NodeController(writer, views, self.ledger, Evictor(writer, views, recorder), recorder)
        shares = LedgerShares(self.ledger.quota) if context.sharing is not None else NO_SHARES
        gauges, period = shown(settings), self._settings.queue_status_period
        queue_status = QueueController(writer, views, queues, self.ledger.quota, period, shares=shares, shown=gauges)
        lives = Lives(views, by_local_queue=gauges.local_queues)
        jobs = JobController(
            writer,
            ADAPTERS,
            self.jobs,
            views.workloads,
            views.flavors,
            views.workload_priorities,
            views.priorities,
            recorder,
            options=job_options(settings, views.namespaces.objects),
            workers=self._settings.job_workers,
        )
        plain_pods = PodController(
            writer,
            self.pods,
            views.workloads,
            views.flavors,
            views.workload_priorities,
            views.priorities,
            recorder,
            gangs=pod_groups,
            options=job_options(settings, views.namespaces.objects),
            workers=self._settings.pod_writes,
            at_once=self._settings.pod_writes,
        )
        sets = SetController(
            writer,
            self.sets,
            self.pods,
            views.workloads,
            views.workload_priorities,
            views.priorities,
            recorder,
            options=job_options(settings, views.namespaces.objects),
            at_once=self._settings.writes,
        )
        views.namespaces.add_handler(lambda change: jobs.namespace_changed(change.key))
        views.namespaces.add_handler(lambda change: plain_pods.namespace_changed(change.key))
        views.namespaces.add_handler(lambda change: sets.namespace_changed(change.key))
        self._runs: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("events", recorder.run),
            ("scheduler", scheduler.run),
            ("wait reasons", waits.reconciler.run),
            ("explanations", explainer.reconciler.run),
            ("workloads", workloads.run),
            ("nodes", nodes.reconciler.run),
            ("jobs", jobs.run),
            ("pods", plain_pods.run),
            ("sets of pods", sets.run),
            ("pod groups", PodGroupController(writer, self.pods, pod_groups, views.workloads).run),
            ("Sakkara's ConfigMaps", Reporter(views, described, recorder).run),
            ("results of groups", results.run),
            ("job kinds", JobKindController(writer, self.job_kinds, jobs, labels, time.time).run),
            ("gang groups", GangGroupController(writer, views.workloads).run),
            ("queues of gangs", FreeQueueController(writer, self.pods, views).run),
            ("elastic quotas", elastic.run),
            ("kinds that are not managed", self.unmanaged.run),
            ("lives", lives.run),
            ("audit", self._audit),
            *(("queue status", reconciler.run) for reconciler in queue_status.reconcilers()),
        ]

    def _everyone(self, cycle_due: asyncio.Event) -> Callable[[], None]:
        """Has all that wait looked at anew."""

        def request_cycle() -> None:
            self._state.requeue_all()
            cycle_due.set()

        return request_cycle

    def missing(self) -> str | None:
        """What the process still waits for before it is ready."""
        unlisted = [informer.resource.plural for informer in self.views.all() if not informer.has_synced]
        return f"not listed yet: {', '.join(unlisted)}" if unlisted else None

    def snapshot(self) -> bytes:
        """What the next decision depends on. A cycle is never interrupted, so this is between two of them."""
        scheduler, readiness = self._scheduler, self._readiness
        unready = readiness.waited_for(scheduler.admitting) if readiness else None
        return capture(
            self._state,
            time.time(),
            self._settings.cycle_budget,
            self._sharing,
            failed=scheduler.failed(),
            unready=unready,
        ).encode()

    async def lead(self) -> None:
        """The leader's work."""
        await self.views.synced(self._sync_timeout)
        await self.job_kinds.informer.synced(self._sync_timeout)
        # What the leader before us admitted last must be in the book, even if our watch has not shown it yet.
        await self.views.workloads.refresh()
        async with asyncio.TaskGroup() as group:
            for name, run in self._runs:
                group.create_task(_awaited(run), name=name)

    async def _audit(self) -> None:
        """The ledger against itself, now and then: a difference is a bug that an operator must hear of."""
        while True:
            await asyncio.sleep(_AUDIT_PERIOD)
            found = 0
            for differences in self.ledger.auditing():
                found += len(differences)
                for difference in differences:
                    log.error("the ledger disagrees with itself: %s", difference)
                await asyncio.sleep(_AUDIT_PAUSE)  # at 100,000 nodes all of it at once would cost the Lease
            metrics.LEDGER_DIFFERENCES.set(found)


def _managed_labels(settings: AdmissionSettings) -> str | None:
    """The label selector of the jobs that are watched: strangers' jobs take no memory."""
    return None if settings.manage_jobs_without_queue_name else QUEUE_NAME_LABEL


async def _awaited(run: Callable[[], Awaitable[None]]) -> None:
    await run()
