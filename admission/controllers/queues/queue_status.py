"""Maintains the status of ClusterQueues, LocalQueues and Cohorts, and the finalizers of objects in use.

Counts and usage come from the Workloads as the informer shows them, so the status agrees with the API server.
`active_conditions` computes the Active conditions. Each status is written at most once per period. A queue is deleted only
when no Workload reserves quota in it, a flavor when no queue names it, a Topology when no flavor names it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from admission.controllers.report import first_series
from admission.controllers.report.fair_share_status import NO_SHARES, StatusShares
from admission.controllers.report.gauges import (
    USUAL,
    GaugeOptions,
    QueueFigures,
    QueueGauges,
    of_cohort,
    of_local_queue,
)
from admission.controllers.report.queue_totals import (
    NO_USAGE,
    NOTHING,
    QueueTotals,
    QueueTotalsIndex,
    Usage,
    nominal_quotas,
    usage,
)
from admission.controllers.state import unsupported_fields
from admission.controllers.state.active_conditions import (
    Activity,
    cohort_activity,
    cohorts_above,
    flavors_of,
    local_queue_activity,
)
from admission.controllers.watch.cluster_view import BY_CLUSTER_QUEUE, Views
from admission.controllers.watch.past_usage import usage_status
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.tree import QuotaTree, outside_usage
from admission.metrics import queues as metrics
from api.kube.client import Kube, PatchKind
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, Resource
from api.merge import merge_diff
from api.meta import Condition, KubeObject, find_condition, object_key, rfc3339, set_condition
from api.names import ACTIVE, DEFAULT_QUEUE, IN_USE_FINALIZER, MANAGED_NAMESPACE
from api.queues import ClusterQueue, Cohort, CohortStatus, LocalQueue, QueueStatus
from api.topology import ResourceFlavor
from api.workloads import Workload

# Where many queues change at once, writing their statuses would delay admissions, so this many are written per second, each
# after at most this many seconds.
_STATUSES_A_SECOND = 20
_LONGEST = 10.0

S = TypeVar("S", QueueStatus, CohortStatus)
Held = TypeVar("Held", bound=KubeObject)


class QueueController:
    """Writes queue status and sets the gauges while it runs. `pending` and `quota` are only read."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        pending: PendingQueues,
        quota: QuotaTree,
        period: float,
        now: Callable[[], float] = time.time,
        shares: StatusShares = NO_SHARES,
        shown: GaugeOptions = USUAL,
        extra_usage: Callable[[str], Usage] = lambda key: NO_USAGE,
        unowned_usage: Callable[[str], Usage] = lambda name: NO_USAGE,
        beyond_reservations: Callable[[str], Usage] = lambda key: NO_USAGE,
        *,
        reclaims: bool = True,
    ) -> None:
        """`extra_usage` returns usage that quota counts for a Workload, by key, in addition to its status.

        `unowned_usage` returns usage of a ClusterQueue's quota, by name, that no Workload has reserved; `beyond_reservations`
        that of bound pods of a LocalQueue's Workloads, by key. `reclaims` says whether pods that have ended return their
        quota while others run.
        """
        self._beyond_reservations = beyond_reservations
        self._unowned_usage = unowned_usage
        self._shares, self._quota, self._shown, self._gauges = shares, quota, shown, QueueGauges()
        self._kube, self._views, self._pending, self._period, self._now = kube, views, pending, period, now
        self._cluster_queues = Reconciler("clusterqueues", self._cluster_queue, workers=2)
        self._local_queues = Reconciler("localqueues", self._local_queue, workers=4)
        self._cohorts = Reconciler("cohorts", self._cohort, workers=1)
        self._used = Reconciler("in-use", self._in_use, workers=2)
        self._namespaces = Reconciler("workloads without a queue", self._without_queue, workers=1)
        self._totals = QueueTotalsIndex(extra_usage, reclaims=reclaims)
        views.workloads.add_handler(self._totals.changed)
        views.workloads.add_handler(self._workload_changed)
        views.cluster_queues.add_handler(self._cluster_queue_changed)
        views.cluster_queues.add_handler(first_series.of_queue)
        views.local_queues.add_handler(self._local_queue_changed)
        views.cohorts.add_handler(self._cohort_changed)
        views.flavors.add_handler(self._flavor_changed)
        views.topologies.add_handler(lambda change: self._used.add(f"topology/{change.key}"))
        views.flavors.add_handler(lambda _: self._all_queues())
        views.topologies.add_handler(lambda _: self._all_queues())
        views.features.on_trees(lambda _: self._all_queues())
        views.checks.add_handler(lambda _: self._all_queues())
        views.cohorts.add_handler(lambda change: None if only_status(change) else self._all_queues())
        views.outside.add_handler(self._outside_changed)
        views.namespaces.add_handler(lambda change: self._local_queues.add(object_key(change.key, DEFAULT_QUEUE)))

    def reconcilers(self) -> Iterable[Reconciler]:
        """Returns the reconcilers to run."""
        return self._cluster_queues, self._local_queues, self._cohorts, self._used, self._namespaces

    def past_usage_sampled(self, key: str) -> None:
        """Queues the LocalQueue, after a sample of its past usage."""
        self._local_queues.add_after(key, self._patience())

    def bound_usage_changed(self, name: str, local_queue: str) -> None:
        """Queues ClusterQueue and LocalQueue, after a change of what bound pods are charged beyond reservations."""
        self.usage_changed(name)
        self._local_queues.add_after(local_queue, self._patience())

    def usage_changed(self, name: str) -> None:
        """Queues the ClusterQueue, after a change of usage that belongs to no Workload."""
        self._cluster_queues.add_after(name, self._patience())

    # ---- watch handlers

    def _workload_changed(self, change: Change[Workload]) -> None:
        """Queues the Workload's LocalQueue and ClusterQueue, and the ClusterQueue of its admission, which may differ."""
        touched: set[str] = set()
        for workload in (change.object, change.old):
            if workload is None:
                continue
            if (local := self._views.local_queue_of(workload)) is not None:
                self._local_queues.add_after(local.key, self._patience())
                touched.add(local.spec.cluster_queue)
            else:
                self._namespaces.add_after(workload.metadata.namespace or "", self._patience())
            if workload.status.admission is not None:
                touched.add(workload.status.admission.cluster_queue)
        for name in sorted(touched):
            self._cluster_queues.add_after(name, self._patience())
            for cohort in self._above(name):
                self._cohorts.add_after(cohort, self._patience())

    def _patience(self) -> float:
        return patience(self._period, self._cluster_queues.queue.planned + self._local_queues.queue.planned)

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        """Handles changes of the status alone after a delay: they are mostly own writes, and would cause the next write."""
        if only_status(change):
            self._cluster_queues.add_after(change.key, self._patience())
        else:
            self._queue_changed(change.key)
            for queue in (change.object, change.old):
                for cohort in cohorts_above(queue.spec.cohort_name, self._views.cohorts.objects) if queue else ():
                    self._cohorts.add_after(cohort, self._patience())

    def _queue_changed(self, name: str) -> None:
        self._cluster_queues.add(name)
        for local in self._views.local_queues.by_index(BY_CLUSTER_QUEUE, name):
            self._local_queues.add(local.key)
        self._in_use_again()

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if only_status(change):
            self._local_queues.add_after(change.key, self._patience())
            return
        self._local_queues.add(change.key)
        self._namespaces.add_after(change.object.metadata.namespace or "", self._patience())
        self._cluster_queues.add_after(change.object.spec.cluster_queue, self._patience())

    def _cohort_changed(self, change: Change[Cohort]) -> None:
        """Queues every cohort, since changed parents may close or open a cycle anywhere below."""
        if only_status(change):
            self._cohorts.add_after(change.key, self._patience())
            return
        for name in {change.key, *self._views.cohorts.objects}:
            self._cohorts.add(name)

    def _flavor_changed(self, change: Change[ResourceFlavor]) -> None:
        """Queues the flavor and its Topologies, which may be unused now even if no ClusterQueue event follows."""
        self._used.add(f"flavor/{change.key}")
        for flavor in (change.object, change.old):
            if flavor is not None and flavor.spec.topology_name:
                self._used.add(f"topology/{flavor.spec.topology_name}")

    def _outside_changed(self, namespace: str) -> None:
        if (name := self._views.outside.queue_of(namespace)) in self._views.cluster_queues.objects:
            self._cluster_queues.add_after(name, self._patience())

    def _all_queues(self) -> None:
        for name in self._views.cluster_queues.objects:
            self._queue_changed(name)

    def _in_use_again(self) -> None:
        for name in self._views.flavors.objects:
            self._used.add(f"flavor/{name}")
        for name in self._views.topologies.objects:
            self._used.add(f"topology/{name}")

    def _above(self, name: str) -> list[str]:
        """Returns the cohorts above a ClusterQueue, its own cohort first, the root last."""
        queue = self._views.cluster_queues.objects.get(name)
        return cohorts_above(queue.spec.cohort_name, self._views.cohorts.objects) if queue is not None else []

    # ---- status

    async def _cluster_queue(self, name: str) -> None:
        queue = self._views.cluster_queues.objects.get(name)
        if queue is None:
            self._gauges.forget(f"cluster queue {name}")
            return
        activity, totals = self._views.activity(queue), self._totals.cluster_queue(name)
        share = self._shares.of_queue(name)
        outside = Counter(outside_usage(self._quota.spec(name))) + Counter(self._unowned_usage(name))
        made = _QueueStatus(activity, totals, nominal_quotas(queue), self._pending.count(name), share, outside)
        status = made.on(queue.status, queue.metadata.generation, self._now())
        without = unsupported_fields.of_cluster_queue(queue, by_usage=bool(self._pending.past))
        status = self._noted(status, without, queue)
        await self._write(CLUSTER_QUEUES, queue, status)
        await self._hold(self._views.cluster_queues, queue, used=bool(totals.reserving))
        locals_ = [self._totals.local_queue(q.key) for q in self._views.local_queues.by_index(BY_CLUSTER_QUEUE, name)]
        standing, above = self._pending.pending_counts(name), self._above(name)
        figures = QueueFigures(queue, activity, totals, standing, locals_, above, share, self._shown.resources)
        self._gauges.show(f"cluster queue {name}", figures.table())

    async def _local_queue(self, key: str) -> None:
        queue = self._views.local_queues.objects.get(key)
        if queue is None:
            self._gauges.forget(f"local queue {key}")
            return
        target = self._views.cluster_queues.objects.get(queue.spec.cluster_queue)
        activity = local_queue_activity(queue, target, target is not None and self._views.activity(target).active)
        totals = self._totals.local_queue(key)
        declared = dict.fromkeys(nominal_quotas(target)) if target is not None else NOTHING
        beyond = self._beyond_reservations(key)
        made = _QueueStatus(activity, totals, declared, totals.pending, outside=beyond)
        status = made.on(queue.status, queue.metadata.generation, self._now())
        by_usage = self._pending.orders_by_usage(queue.spec.cluster_queue)
        past = self._pending.past if by_usage else None
        if past is not None:
            status = status.model_copy(update={"fair_sharing": usage_status(past.record(key))})
        namespace = self._views.namespaces.objects.get(queue.metadata.namespace or "")
        opted_in = namespace is None or namespace.metadata.labels.get(MANAGED_NAMESPACE) == "true"
        without = unsupported_fields.of_local_queue(queue, by_usage=by_usage, opted_in=opted_in)
        status = self._noted(status, without, queue)
        await self._write(LOCAL_QUEUES, queue, status)
        if self._shown.local_queues:
            used = None if past is None else past.usage(key)
            self._gauges.show(f"local queue {key}", of_local_queue(queue, activity, totals, used))

    async def _without_queue(self, namespace: str) -> None:
        """Counts the waiting workloads of a namespace whose LocalQueue does not exist, such as one with a misspelt name."""
        count, owner = (
            self._totals.pending_without(namespace, self._views.local_queues.objects),
            f"namespace {namespace}",
        )
        if count:
            self._gauges.show(owner, {(metrics.WITHOUT_QUEUE, (namespace,)): count})
        else:
            self._gauges.forget(owner)

    async def _cohort(self, name: str) -> None:
        cohort, share = self._views.cohorts.objects.get(name), self._shares.of_cohort(name)
        self._measure_cohort(name, share)
        if cohort is None:
            return
        status = cohort.status.model_copy(update={"fair_sharing": _shown(share)})
        activity = cohort_activity(name, self._views.cohorts.objects)
        if not activity.active or find_condition(status.conditions, ACTIVE) is not None:
            condition = _active(activity, cohort.metadata.generation, self._now())
            status = status.model_copy(update={"conditions": set_condition(status.conditions, condition)})
        await self._write(COHORTS, cohort, self._noted(status, [], cohort))

    def _measure_cohort(self, name: str, share: int | None) -> None:
        """Sets the gauges of a cohort, also of one that only its members name."""
        node, owner = self._quota.cohort(name), f"cohort {name}"
        if node is None:
            self._gauges.forget(owner)
            return
        totals_by_name = {member.name: self._totals.cluster_queue(member.name) for member in node.members()}
        above = cohorts_above(name, self._views.cohorts.objects)
        self._gauges.show(owner, of_cohort(name, above, node, totals_by_name, share))

    def _noted(self, status: S, fields: list[str], obj: KubeObject) -> S:
        conditions = unsupported_fields.noted(status.conditions, fields, obj.metadata.generation, self._now())
        return status if conditions is status.conditions else status.model_copy(update={"conditions": conditions})

    async def _write(
        self, resource: Resource, queue: ClusterQueue | LocalQueue | Cohort, status: QueueStatus | CohortStatus
    ) -> None:
        diff = merge_diff(queue.status.to_wire(), status.to_wire())
        if diff:
            meta = queue.metadata
            body = {"metadata": {"uid": meta.uid}, "status": diff}
            await self._kube.patch(
                resource, meta.name, body, meta.namespace, kind=PatchKind.MERGE, subresource="status", repeatable=True
            )

    # ---- finalizers

    async def _in_use(self, key: str) -> None:
        kind, _, name = key.partition("/")
        if kind == "flavor":
            flavor = self._views.flavors.objects.get(name)
            used = any(name in flavors_of(queue) for queue in self._views.cluster_queues.objects.values())
            await self._hold(self._views.flavors, flavor, used)
        else:
            topology = self._views.topologies.objects.get(name)
            used = any(flavor.spec.topology_name == name for flavor in self._views.flavors.objects.values())
            await self._hold(self._views.topologies, topology, used)

    async def _hold(self, informer: Informer[Held], obj: Held | None, used: bool) -> None:
        """Adds the finalizer to a living object; removes it from a deleted object that is not in use."""
        if obj is None:
            return
        held, dying = IN_USE_FINALIZER in obj.metadata.finalizers, bool(obj.metadata.deletion_timestamp)
        if held == (not dying or used) or (dying and not held):
            return
        kept = tuple(name for name in obj.metadata.finalizers if name != IN_USE_FINALIZER)
        finalizers = kept if dying else (*kept, IN_USE_FINALIZER)
        body: dict[str, Any] = {
            "metadata": {"resourceVersion": obj.metadata.resource_version, "finalizers": list(finalizers)}
        }
        answer = await self._kube.patch(
            informer.resource, obj.metadata.name, body, kind=PatchKind.MERGE, decode=type(obj)
        )
        if not dying:  # a deleted object may be gone after this patch
            informer.observe(answer)


@dataclass(frozen=True, slots=True)
class _QueueStatus:
    """The figures of a queue's status; `outside` is usage of its quota that no Workload has reserved."""

    activity: Activity
    totals: QueueTotals
    declared: Mapping[tuple[str, str], int | None]
    pending: int
    share: int | None = None
    outside: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def on(self, old: QueueStatus, generation: int, now: float) -> QueueStatus:
        """Returns the status that follows the old one."""
        return old.model_copy(
            update={
                "conditions": set_condition(old.conditions, _active(self.activity, generation, now)),
                "flavors_reservation": usage(self._with_outside(self.totals.reserved), self.declared),
                "flavors_usage": usage(self._with_outside(self.totals.used), self.declared),
                "pending_workloads": self.pending,
                "reserving_workloads": self.totals.reserving,
                "admitted_workloads": self.totals.admitted,
                "fair_sharing": _shown(self.share),
            }
        )

    def _with_outside(self, totals: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
        return totals + Counter(self.outside) if self.outside else totals


def _active(activity: Activity, generation: int, now: float) -> Condition:
    return Condition(
        type=ACTIVE,
        status="True" if activity.active else "False",
        reason=activity.reason,
        message=activity.message,
        observed_generation=generation,
        last_transition_time=rfc3339(now),
    )


def only_status(change: Change[Any]) -> bool:
    """Reports whether nothing but the object's status has changed."""
    old, new = change.old, change.object
    if old is None or change.type is ChangeType.DELETED:
        return False
    metadata = old.metadata.model_copy(update={"resource_version": new.metadata.resource_version})
    return bool(old.model_copy(update={"metadata": metadata, "status": new.status}) == new)


def patience(period: float, planned: int) -> float:
    """Returns the seconds until a status is written: the period, or the time for the statuses planned already, at their
    rate."""
    return max(period, min(_LONGEST, planned / _STATUSES_A_SECOND)) if period > 0 else 0.0


def _shown(share: int | None) -> dict[str, int] | None:
    return None if share is None else {"weightedShare": share}
