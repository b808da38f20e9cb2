"""The parts of the controller process; each function builds one part with its informers and tasks.

Informers run always, so that a standby starts fast; tasks run on the leader. A new controller is one line in its part. Called
by app.py.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Self

from admission.controllers.decide.feature import SchedulerFeature
from admission.controllers.decide.lost_wake_ups import LostWakeUps
from admission.controllers.decide.readiness import Readiness
from admission.controllers.decide.scheduler import Scheduler
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.decide.workloads import WorkloadController
from admission.controllers.elastic_quota.feature import ElasticQuotas
from admission.controllers.forecasts.feature import Forecasts
from admission.controllers.job_kinds import JobKindController
from admission.controllers.jobs.context import JobOptions
from admission.controllers.jobs.controller_context import ControllerContext
from admission.controllers.jobs.job_controller import JobController
from admission.controllers.jobs.uncreated import UncreatedController, creation_events
from admission.controllers.moves.feature import Moves
from admission.controllers.nodes.node_controller import NodeController
from admission.controllers.nodes.node_failures import FailureRules
from admission.controllers.nodes.pod_displacer import PodDisplacer
from admission.controllers.nodes.relabelled import RelabelledController
from admission.controllers.nodes.shared_hostnames import SharedHostnamesController
from admission.controllers.nodes.spare_hosts.feature import SpareHosts
from admission.controllers.nodes.unbound import UnboundController, scheduling_warnings, unbound_informer
from admission.controllers.options import job_options, lifecycle_rules, shown
from admission.controllers.pods.gangs.freequeue import FreeQueueController
from admission.controllers.pods.gangs.gang_groups import GangGroupController
from admission.controllers.pods.gangs.podgroups import PodGroupController, PodGroups
from admission.controllers.pods.marked_namespaces import MarkedNamespaces
from admission.controllers.pods.pod_controller import PodController
from admission.controllers.pods.sets.sets import SetController
from admission.controllers.pods.surplus_pods import SurplusPodsController
from admission.controllers.queues.advance_reservations.feature import AdvanceReservations
from admission.controllers.queues.queue_status import QueueController
from admission.controllers.report.capacity_gauges import CapacityGauges
from admission.controllers.report.explainer import Explainer, ExplanationLimits
from admission.controllers.report.fair_share_status import NO_SHARES, LedgerShares
from admission.controllers.report.lifecycle_metrics import LifecycleMetrics
from admission.controllers.report.wait_reasons import WaitReporter
from admission.controllers.sakkara.feature import Sakkara
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.cycle_due import CycleDue
from admission.controllers.watch.feature import ControllerFeature, ControllerFeatures, FeatureContext, Run
from admission.controllers.watch.feed import Feed
from admission.controllers.watch.past_usage import UsageSampler
from admission.controllers.write.evictor import Evictor
from admission.engine.cycle.held_capacity import unowned_usage
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.past_usage import PastUsage
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from admission.integrations.job_kinds import JobKinds
from admission.integrations.pods.pod import QueuedPod, QueuedPodReader
from admission.integrations.registry import ADAPTERS, REFERENCED_KINDS
from admission.integrations.sets.sets import SETS
from admission.settings import AdmissionSettings
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.informers.informer import Informer
from api.kube.informers.optional_informer import OptionalInformer
from api.kube.informers.store import ChangeType
from api.kube.resources import (
    LOCAL_QUEUES,
    POD_GROUPS,
    PODS,
    SIGS_POD_GROUPS,
)
from api.names import QUEUE_NAME_LABEL
from api.queues import LocalQueue

FEATURES: Final[list[type[ControllerFeature]]] = [
    Forecasts,
    Sakkara,
    ElasticQuotas,
    Moves,
    SpareHosts,
    AdvanceReservations,
]
"""The features of the controller. What is left out costs nothing and breaks nothing."""


@dataclass(frozen=True)
class Shared(FeatureContext):
    """Objects that the parts share, with the kinds of jobs."""

    job_kinds: JobKinds

    @classmethod
    def of(cls, kube: Kube, writer: Kube, settings: AdmissionSettings, views: Views, recorder: EventRecorder) -> Self:
        """Returns the objects that the parts share, with an empty ledger and empty queues."""
        queues = PendingQueues(PastUsage(settings.admission_fair_sharing.rules()))
        ledger, due = Ledger(settings.placement.options()), CycleDue()
        reader = QueuedPodReader(
            settings.integrations.label_keys_to_copy, settings.integrations.annotation_keys_to_copy
        )
        pods: Informer[QueuedPod] = Informer(kube, PODS, reader, label_selector=_labels(settings))
        return cls(kube, writer, settings, views, recorder, ledger, queues, pods, due, JobKinds(kube))

    @cached_property
    def features(self) -> ControllerFeatures:
        """The features that the settings turn on."""
        return ControllerFeatures([feature(self) for feature in FEATURES if feature.is_on(self.settings)])

    @cached_property
    def options(self) -> JobOptions:
        """The options for jobs, pods and sets of pods."""
        return job_options(self.settings, self.views.namespaces.objects)

    @cached_property
    def context(self) -> ControllerContext:
        """For the controllers of jobs, pods and sets."""
        return ControllerContext(self.writer, self.views, self.recorder, self.options, ending=self.ledger.bound.ending)

    @property
    def labels(self) -> str | None:
        """The label selector for watched jobs, which keeps others out of memory; None watches all."""
        return _labels(self.settings)


def _labels(settings: AdmissionSettings) -> str | None:
    return None if settings.manage_jobs_without_queue_name else QUEUE_NAME_LABEL


@dataclass(frozen=True, slots=True)
class ProcessPart:
    """The informers and the leader's tasks of one part of the process."""

    informers: tuple[Informer[Any], ...] = ()
    runs: tuple[Run, ...] = ()


def features(shared: Shared) -> ProcessPart:
    """Collects the informers and tasks of the features."""
    return ProcessPart(
        tuple(informer for feature in shared.features.all for informer in feature.informers),
        tuple(run for feature in shared.features.all for run in feature.runs),
    )


@dataclass(frozen=True, slots=True)
class Deciding:
    """The ledger, the queues and the scheduler."""

    part: ProcessPart
    state: SchedulerState
    ledger: Ledger
    queues: PendingQueues
    feed: Feed
    scheduler: Scheduler
    context: SchedulerContext
    waits: WaitReporter


def deciding(shared: Shared) -> Deciding:
    """Builds the scheduler, the reports of wait reasons, and the explanations."""
    settings, views, writer = shared.settings, shared.views, shared.writer
    section, sharing = settings.controller, settings.fair_sharing.rules()
    ledger, queues, due, features = shared.ledger, shared.queues, shared.cycle_due, shared.features
    state = SchedulerState(ledger, queues)
    by_eviction = settings.wait_for_pods_ready.requeuing_strategy.timestamp == "Eviction"
    feed = Feed(
        views,
        state,
        due.set,
        request_cycle_soon=due.set_soon,
        rules=replace(settings.resources.rules(), reclaims=settings.controller.reclaimable_pods),
        by_eviction=by_eviction,
        groups_outrank=settings.sakkara.priority_across_namespaces,
        guess=features.guess,
        tell_unread=partial(_usage_not_read, shared.recorder),
    )
    features.connect(feed)
    feed.count_in_steps()
    feed.refresh_in_steps()
    shared.job_kinds.on_change(feed.kinds_changed)
    readiness = _readiness(shared, state, due)
    explainer = Explainer(
        writer,
        views,
        ledger,
        queues,
        shared.recorder,
        ExplanationLimits(section.explain_after, section.explain_period),
        sharing=sharing,
        startable=lambda: readiness.startable(in_flight=False) if readiness else None,
        hint=features.hint,
    )
    waits = WaitReporter(writer, views, shared.recorder, section.wait_report_period, explainer=explainer)
    context = SchedulerContext(feed, ledger, queues, due, section, sharing, readiness)
    scheduler = Scheduler(writer, views, context, waits, shared.recorder, spent=features.decided)
    for feature in features.all:
        if isinstance(feature, SchedulerFeature):
            feature.join(scheduler, context, state, features.latest_start)
    lost = LostWakeUps(context, section.fresh_look_period, section.fresh_look_workloads)
    scheduler.after_cycle(lost.cycle_ended)
    part = ProcessPart(
        runs=(
            ("scheduler", scheduler.run),
            ("lost wake-ups", lost.run),
            ("wait reasons", waits.reconciler.run),
            ("explanations", explainer.reconciler.run),
        )
    )
    return Deciding(part, state, ledger, queues, feed, scheduler, context, waits)


def _readiness(shared: Shared, state: SchedulerState, due: CycleDue) -> Readiness | None:
    """Returns the object that blocks admission until the pods of others are ready, or None if not enabled."""

    def requeue_all() -> None:
        state.requeue_all()
        due.set()

    rules = shared.settings.wait_for_pods_ready
    return Readiness(shared.views, requeue_all) if rules.enabled and rules.block_admission else None


def _usage_not_read(recorder: EventRecorder, queue: LocalQueue, text: str) -> None:
    recorder.record(ref_to(LOCAL_QUEUES, queue), "Warning", "PastUsageNotRead", f"status.fairSharing: {text}")


def workloads(shared: Shared, decides: Deciding) -> ProcessPart:
    """Builds the controller of Workloads."""
    settings, views = shared.settings, shared.views
    controller = WorkloadController(
        shared.writer,
        views,
        shared.recorder,
        decides.feed.validation_error,
        settings.controller.workload_workers,
        rules=lifecycle_rules(settings),
        decided=decides.waits.decided,
    )
    decides.feed.on_validation_error(controller.again)
    shared.job_kinds.on_change(controller.kinds_changed)
    lives = LifecycleMetrics(views, by_local_queue=shown(settings).local_queues)
    return ProcessPart(runs=(("workloads", controller.run), ("lives", lives.run)))


def nodes(shared: Shared, decides: Deciding) -> ProcessPart:
    """Builds the controllers of nodes, and of the pods that run on them or do not get there."""
    views, writer, recorder, ledger = shared.views, shared.writer, shared.recorder, decides.ledger
    section, displace = shared.settings.controller, decides.scheduler.displace
    evictor, limit = Evictor(writer, views, recorder), section.unschedulable_timeout
    pending, warnings = unbound_informer(shared.kube), scheduling_warnings(shared.kube)
    created, failures = creation_events(shared.kube), FailureRules(together=section.replace_nodes_together)
    failed = NodeController(writer, views, ledger, evictor, recorder, rules=failures, displace=displace)
    displacer = PodDisplacer(writer, views, ledger, displace)
    unbound = UnboundController(writer, views, ledger, pending, warnings, evictor, recorder, limit, displacer=displacer)
    uncreated = UncreatedController(writer, views, ledger, created, evictor, recorder, limit)
    relabelled = RelabelledController(writer, views, ledger, recorder)
    shared_hostnames = SharedHostnamesController(views, recorder)
    surplus = SurplusPodsController(writer, views, ledger, recorder)
    return ProcessPart(
        (pending, warnings, created),
        (
            ("nodes", failed.reconciler.run),
            ("pods that no node takes", unbound.reconciler.run),
            ("refused pods", uncreated.attribution.run),
            ("workloads without pods", uncreated.reconciler.run),
            ("required topology", relabelled.reconciler.run),
            ("hostnames", shared_hostnames.reconciler.run),
            ("pods beyond the admission", surplus.reconciler.run),
        ),
    )


def queues(shared: Shared, decides: Deciding) -> ProcessPart:
    """Builds the status of queues and flavors, and what it depends on, such as past usage."""
    settings, views, writer, ledger = shared.settings, shared.views, shared.writer, decides.ledger
    status = QueueController(
        writer,
        views,
        decides.queues,
        ledger.quota,
        settings.controller.queue_status_period,
        shares=LedgerShares(ledger.quota) if decides.context.sharing is not None else NO_SHARES,
        shown=shown(settings),
        extra_usage=ledger.holds.usage_beside,
        unowned_usage=partial(unowned_usage, ledger),
        reclaims=settings.controller.reclaimable_pods,
        beyond_reservations=ledger.bound.of_local_queue,
    )
    decides.feed.on_bound_usage(status.bound_usage_changed)
    request_cycle = decides.context.cycle_due.set
    sampler = UsageSampler(views, decides.state, decides.feed.past_usage, status.past_usage_sampled, request_cycle)
    sampling: tuple[Run, ...] = (("past usage", sampler.run),) if decides.queues.past else ()
    shared.features.on_usage(status.usage_changed)
    capacity = CapacityGauges(ledger, decides.queues, settings.metrics.domain_limit)
    return ProcessPart(
        runs=(
            *sampling,
            ("capacity", capacity.run),
            *(("queue status", reconciler.run) for reconciler in status.reconcilers()),
        )
    )


def whole_jobs(shared: Shared, sets: SetController) -> ProcessPart:
    """Builds the controllers of jobs that are suspended and started as a whole, and of JobKinds."""
    views, settings = shared.views, shared.settings
    informers = {
        kind.framework: OptionalInformer(shared.kube, kind.resource, label_selector=shared.labels) for kind in ADAPTERS
    }
    referenced = {kind: OptionalInformer(shared.kube, kind) for kind in REFERENCED_KINDS}
    jobs = JobController(
        shared.context,
        ADAPTERS,
        informers,
        referenced=referenced,
        workers=settings.controller.job_workers,
    )
    views.namespaces.add_handler(
        lambda change: jobs.namespace_changed(change.key, exists=change.type is not ChangeType.DELETED)
    )
    kinds = JobKindController(shared.writer, shared.job_kinds, jobs, sets, shared.labels, time.time)
    marking: tuple[Run, ...] = ()
    if settings.manage_jobs_without_queue_name:
        marked = MarkedNamespaces(shared.writer, views.namespaces, shared.options.namespace_managed)
        marking = (("marked namespaces", marked.reconciler.run),)
    return ProcessPart(
        (*informers.values(), *referenced.values(), shared.job_kinds.informer),
        (("jobs", jobs.run), ("job kinds", kinds.run), *marking),
    )


@dataclass(frozen=True, slots=True)
class PodParts:
    """The controllers of pods that are queued singly, in groups and in sets."""

    part: ProcessPart
    sets: SetController


def plain_pods(shared: Shared) -> PodParts:
    """Builds the controllers of pods that are queued singly, in groups and in sets."""
    views, section = shared.views, shared.settings.controller
    of_group = {kind: OptionalInformer(shared.kube, kind) for kind in (POD_GROUPS, SIGS_POD_GROUPS)}
    gangs = PodGroups(of_group, shared.features.descriptions)
    pods = PodController(
        shared.context,
        shared.pods,
        gangs=gangs,
        claim_problem=views.features.claim_problem,
        workers=section.pod_writes,
        at_once=section.pod_writes,
    )
    of_kind = {
        kind.framework: OptionalInformer(shared.kube, kind.resource, label_selector=QUEUE_NAME_LABEL) for kind in SETS
    }
    sets = SetController(shared.context, of_kind, shared.pods, at_once=section.writes)
    views.namespaces.add_handler(
        lambda change: pods.namespace_changed(change.key, exists=change.type is not ChangeType.DELETED)
    )
    views.namespaces.add_handler(lambda change: sets.namespace_changed(change.key))
    pod_groups = PodGroupController(
        shared.writer, shared.pods, gangs, views.workloads, claim_problem=views.features.claim_problem
    )
    part = ProcessPart(
        (shared.pods, *of_group.values(), *of_kind.values()),
        (
            ("pods", pods.run),
            ("sets of pods", sets.run),
            ("pod groups", pod_groups.run),
            ("gang groups", GangGroupController(shared.writer, views.workloads).run),
            ("queues of gangs", FreeQueueController(shared.writer, shared.pods, views).run),
        ),
    )
    return PodParts(part, sets)
