"""The dashboard's own copy of the cluster: informers, ledger and queues as the controller has them, and what changed lately.

It asks the controller nothing and decides nothing. `Cluster` also takes a view of stores, for tests and measurements.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from admission.controllers.pods.pod_indexes import BY_POD, pod_keys
from admission.controllers.report.queue_totals import QueueTotalsIndex
from admission.controllers.watch.cluster_view import ClusterView, Views
from admission.controllers.watch.feed import Feed
from admission.controllers.watch.projection import ProjectedPod
from admission.engine.cycle.feature import CycleContext
from admission.engine.features import features_of
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.past_usage import PastUsage
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from admission.engine.topology.allocation.capacity import Touched
from admission.integrations.job_kinds import JobKinds
from admission.settings import AdmissionSettings
from admission.world.objects import Objects
from admission.world.rules import WorldRules, rules_of
from api.kube.client import Kube
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change
from api.kube.turns import Turns
from api.pod.pods import Node
from api.workloads import Workload


@dataclass(slots=True)
class Changes:
    """What changed since the last look: names of nodes, keys of workloads, charged spots, and whether queues did."""

    nodes: set[str] = field(default_factory=set)
    workloads: set[str] = field(default_factory=set)
    touched: Touched = field(default_factory=Touched)
    queues: bool = False


class Cluster:
    """The copy. `changed` is set after each change that an answer could show; `missing` says why it is not complete."""

    def __init__(
        self,
        view: ClusterView,
        state: SchedulerState,
        feed: Feed,
        objects: Callable[[], Objects],
        rules: WorldRules,
        missing: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.view, self.state, self.feed, self.rules = view, state, feed, rules
        self.missing, self.objects = missing, objects
        self.changed = asyncio.Event()
        self.totals = QueueTotalsIndex(state.ledger.holds.usage_beside, reclaims=rules.resources.reclaims)
        self._changes = Changes()
        self._touching = state.ledger.capacity.touching()
        self._changes.touched = self._touching.__enter__()
        view.workloads.add_handler(self.totals.changed)
        view.workloads.add_handler(self._workload_changed)
        view.nodes.add_handler(self._node_changed)
        view.pods.add_handler(self._pod_changed)
        for queues in (view.cluster_queues, view.local_queues, view.cohorts, view.flavors, view.topologies):
            queues.add_handler(self._queues_changed)
        view.features.on_node_holds(lambda name, hold: self.changed.set())
        view.features.on_trees(self._queues_changed)

    @property
    def ledger(self) -> Ledger:
        """Nodes, quota and admissions."""
        return self.state.ledger

    async def keep_time(self, now: float) -> None:
        """Ends the holds of nodes that are over at `now` (epoch seconds), and charges quota to those that have begun."""
        turns = Turns()
        for name, hold in sorted(self.ledger.node_holds.items()):
            if (present := hold.at(now)) is hold:
                continue
            self._changes.queues = True
            for _ in self.state.set_node_hold(name, present):
                await turns.give_way()

    def due_in(self, now: float) -> float | None:
        """Returns the seconds until a hold of nodes begins or ends; None if none will."""
        times = [one.end if one.begun else one.start for one in self.ledger.node_holds.values()]
        return max(0.0, min(times) - now) if times else None

    def take_changes(self) -> Changes:
        """Returns what changed since the last call. Holds first what each cycle of the controller holds."""
        features_of(CycleContext(self.ledger, self.state.queues, 0.0, fair=False)).before_cycle()
        self.changed.clear()
        changes, self._changes = self._changes, Changes()
        self._touching.__exit__(None, None, None)
        self._touching = self.ledger.capacity.touching()
        self._changes.touched = self._touching.__enter__()
        return changes

    def _workload_changed(self, change: Change[Workload]) -> None:
        self._changes.workloads.add(change.key)
        self._changes.queues = True
        self.changed.set()

    def _node_changed(self, change: Change[Node]) -> None:
        self._changes.nodes.add(change.key)
        self.changed.set()

    def _pod_changed(self, change: Change[ProjectedPod]) -> None:
        for pod in (change.object, change.old):
            if pod is not None and pod.bound is not None and pod.bound.workload:
                self._changes.workloads.add(pod.bound.workload)
        self.changed.set()

    def _queues_changed(self, _: object) -> None:
        self._changes.queues = True
        self.changed.set()


@dataclass(frozen=True, slots=True)
class Connected:
    """A cluster fed by informers, which the caller runs, each in a task of its own."""

    cluster: Cluster
    informers: tuple[Informer[Any], ...]


def connected(kube: Kube, settings: AdmissionSettings) -> Connected:
    """Returns the copy of a live cluster, with informers that do not run yet."""
    rules = rules_of(settings)
    views = Views(kube, settings.sakkara.topology_namespace, settings.feature_gates)
    views.workloads.add_index(BY_POD, pod_keys)
    state = SchedulerState(Ledger(rules.placement), PendingQueues(PastUsage(rules.usage)))
    feed = Feed(
        views,
        state,
        lambda: None,
        rules=rules.resources,
        by_eviction=rules.by_eviction,
        groups_outrank=rules.groups_outrank,
    )
    feed.count_in_steps()
    kinds = JobKinds(kube)
    kinds.on_change(feed.kinds_changed)
    informers = (*views.all(), kinds.informer)

    def objects() -> Objects:
        return Objects.of_process(views, feed, views.informers, rules)

    def missing() -> str | None:
        return _missing(views)

    return Connected(Cluster(views, state, feed, objects, rules, missing), informers)


def _missing(views: Views) -> str | None:
    unlisted = [informer for informer in views.all() if not informer.is_settled]
    if not unlisted:
        return None
    errors = [
        f"{one.resource.plural} ({one.last_error})" if one.last_error else one.resource.plural for one in unlisted
    ]
    return f"not listed yet: {', '.join(errors)}"


def of_objects(objects: Objects, state: SchedulerState) -> Cluster:
    """Returns a cluster of objects that the caller adds."""
    return Cluster(objects.view, state, objects.feed, lambda: objects, objects.rules)
