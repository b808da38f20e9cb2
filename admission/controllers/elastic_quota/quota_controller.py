"""Reconciles the queues of elastic quotas with their translation, and writes the quotas' status.

Each namespace with an elastic quota gets a ClusterQueue and a LocalQueue, and the label with which its jobs without a queue
name reach the webhook; all share one flavor, created unless a user has done so. The ordinary controllers handle everything
else of these queues (activity, counts, finalizers). Objects with these names but without Stowage's label belong to others: they
are left unchanged, and the quota's status says so.

When the quota is deleted, nothing bounds the namespace any more: its queue loses its limits, so that what waits in it starts,
as what is created afterwards does, without a quota. Both queues are deleted once no workload names them. Where jobs without a
queue name are queued all the same (in the LocalQueue `default`, or by the setting manageJobsWithoutQueueName), what waits would
evade that: there the LocalQueue is deleted at once, so nothing more starts, and the ClusterQueue when no workload reserves
quota in it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from admission.controllers.elastic_quota import translation
from admission.controllers.elastic_quota.quotas import Quotas, ReadQuota
from admission.controllers.elastic_quota.resource_quotas import ResourceQuota, above_hard
from admission.controllers.watch.cluster_view import BY_NAMESPACE, BY_QUEUE, Views
from admission.controllers.write.creation import create_unless_present
from api.elastic_quotas import ElasticQuota, ElasticQuotaStatus, cluster_queue_name
from api.errors import NotFound
from api.kube.client import Kube, PatchKind
from api.kube.events import EventRecorder, ref_to
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, RESOURCE_FLAVORS, Resource
from api.merge import merge_diff
from api.meta import Condition, KubeObject, find_condition, is_true, object_key, rfc3339, set_condition
from api.names import (
    ABOVE_RESOURCE_QUOTA,
    ACTIVE,
    DEFAULT_QUEUE,
    ELASTIC_QUOTA,
    ELASTIC_QUOTA_LABEL,
    FINISHED,
    MANAGED_NAMESPACE,
    OVERCOMMITTED,
    ElasticQuotaReason,
)
from api.pod.pods import Node
from api.queues import ClusterQueue, LocalQueue
from api.topology import ResourceFlavor
from api.workloads import Workload

log = logging.getLogger(__name__)

SYNC_TIMEOUT: Final = 120.0
_CAPACITY = "capacity"
_NAMESPACE = "namespace/"
_SOON = 1.0
_JUDGEMENTS: Final = {
    OVERCOMMITTED: (
        ElasticQuotaReason.EXCEEDS_CAPACITY,
        ElasticQuotaReason.WITHIN_CAPACITY,
        "the sum of min of all elastic quotas is within what the cluster has",
    ),
    ABOVE_RESOURCE_QUOTA: (
        ElasticQuotaReason.EXCEEDS_HARD,
        ElasticQuotaReason.WITHIN_HARD,
        "no ResourceQuota of the namespace allows less than max",
    ),
}
"""The reasons of a condition that is true, and false, and what it says then."""
REPLACED: Final = 5.0
"""Seconds for which a deleted quota stays in force: `kubectl replace --force` creates it again."""


class ElasticQuotaController:
    """Writes while it runs. `informers` are those of both kinds of elastic quota; all informers run elsewhere.

    With `all_wait`, jobs without a queue name wait in every namespace.
    """

    def __init__(
        self,
        kube: Kube,
        views: Views,
        informers: Mapping[Resource, Informer[dict[str, Any]]],
        resource_quotas: Informer[ResourceQuota],
        recorder: EventRecorder,
        now: Callable[[], float] = time.time,
        *,
        all_wait: bool = False,
    ) -> None:
        self._kube, self._views, self._informers = kube, views, informers
        self._resource_quotas = resource_quotas
        resource_quotas.add_index(BY_NAMESPACE, lambda quota: [quota.metadata.namespace])
        self._recorder, self._now, self._all_wait = recorder, now, all_wait
        self._quotas = Quotas()
        self._overcommitted = ""
        self._deleted: dict[str, float] = {}
        self.queue = Reconciler("elastic quotas", self.reconcile, workers=2)
        for resource, informer in informers.items():
            informer.add_handler(self._quota_handler(resource))
        resource_quotas.add_handler(self._resource_quota_changed)
        views.cluster_queues.add_handler(self._queue_changed)
        views.local_queues.add_handler(self._queue_changed)
        views.local_queues.add_handler(self._default_queue_changed)
        views.workloads.add_handler(self._workload_changed)
        views.flavors.add_handler(self._flavor_changed)
        views.nodes.add_handler(self._node_changed)

    async def run(self) -> None:
        """Runs until cancelled."""
        for informer in self._informers.values():
            await informer.synced(SYNC_TIMEOUT)
        await self._resource_quotas.synced(SYNC_TIMEOUT)
        await self.queue.run()

    # ---- watch handlers

    def _quota_handler(self, resource: Resource) -> Callable[[Change[dict[str, Any]]], None]:
        def changed(change: Change[dict[str, Any]]) -> None:
            before, key = self._quotas.shared(), f"{resource.group}/{change.key}"
            if change.type is ChangeType.DELETED:
                self._quotas.drop(key)
            else:
                try:
                    self._quotas.put(key, resource, ElasticQuota.from_wire(change.object))
                except ValidationError as bad:
                    log.warning("elastic quota not taken: %s", bad, extra={"elastic_quota": change.key})
                    return
            if self._quotas.shared() != before:
                self._queue_all_namespaces()
            self.queue.add(f"{_NAMESPACE}{change.object['metadata']['namespace']}")
            self.queue.add_after(_CAPACITY, _SOON)

        return changed

    def _queue_changed(self, change: Change[ClusterQueue] | Change[LocalQueue]) -> None:
        namespace = change.object.metadata.labels.get(ELASTIC_QUOTA_LABEL)
        if namespace is not None:
            self.queue.add(f"{_NAMESPACE}{namespace}")

    def _resource_quota_changed(self, change: Change[ResourceQuota]) -> None:
        if self._quotas.of(change.object.metadata.namespace):
            self.queue.add(f"{_NAMESPACE}{change.object.metadata.namespace}")

    def _default_queue_changed(self, change: Change[LocalQueue]) -> None:
        namespace = change.object.metadata.namespace or ""
        if (
            change.object.metadata.name == DEFAULT_QUEUE
            and not self._quotas.of(namespace)
            and self._is_named(namespace)
        ):
            self.queue.add(f"{_NAMESPACE}{namespace}")

    def _workload_changed(self, change: Change[Workload]) -> None:
        """Queues a namespace without a quota where a workload names its queue, or has named it."""
        namespace = change.object.metadata.namespace or ""
        if change.object.spec.queue_name == ELASTIC_QUOTA and not self._quotas.of(namespace):
            self.queue.add(f"{_NAMESPACE}{namespace}")

    def _flavor_changed(self, change: Change[ResourceFlavor]) -> None:
        if change.key == ELASTIC_QUOTA:
            self._queue_all_namespaces()
            self.queue.add_after(_CAPACITY, _SOON)

    def _node_changed(self, change: Change[Node]) -> None:
        old, new = change.old, None if change.type is ChangeType.DELETED else change.object
        if self._quotas.shared() and (old is None or new is None or _capacity_parts(old) != _capacity_parts(new)):
            self.queue.add_after(_CAPACITY, _SOON)

    def _queue_all_namespaces(self) -> None:
        for namespace in self._quotas.namespaces():
            self.queue.add(f"{_NAMESPACE}{namespace}")

    # ---- reconcile

    async def reconcile(self, key: str) -> float | None:
        """Reconciles one namespace, or the comparison with the cluster's capacity."""
        if key == _CAPACITY:
            self._count()
            return None
        namespace = key.removeprefix(_NAMESPACE)
        entries = self._quotas.of(namespace)
        holds = entries[0] if entries else None
        if holds is None:
            return await self._without_quota(namespace)
        self._deleted.pop(namespace, None)
        taken = None if holds.bounds is None else await self._provide_bounds(namespace, holds.bounds)
        for entry in entries:
            await self._update_status(namespace, entry, holds, taken)
        return None

    def _count(self) -> None:
        flavor = self._views.flavors.objects.get(ELASTIC_QUOTA) or translation.flavor()
        counted = self._quotas.shared()
        there = translation.capacity(self._views.nodes.objects.values(), flavor.spec.node_labels, counted)
        problems = translation.overcommitment(self._quotas.quotas_in_force(), there)
        if problems != self._overcommitted:
            self._overcommitted = problems
            self._queue_all_namespaces()

    async def _provide_bounds(self, namespace: str, quota: translation.QuotaBounds) -> str | None:
        """Creates or updates flavor, queues and label; returns what prevents it, or None."""
        taken = await self._provide(namespace, translation.cluster_queue(namespace, quota, self._quotas.shared()))
        if taken is None:
            await self._manage(namespace)
        return taken

    async def _provide(self, namespace: str, wanted: ClusterQueue) -> str | None:
        """Creates or updates flavor and queues; returns what prevents it, or None."""
        if ELASTIC_QUOTA not in self._views.flavors.objects:
            await create_unless_present(self._kube, RESOURCE_FLAVORS, translation.flavor())
        queue = self._views.cluster_queues.objects.get(wanted.metadata.name)
        local = self._views.local_queues.objects.get(translation.local_queue(namespace).key)
        for there in (queue, local):
            if there is not None and ELASTIC_QUOTA_LABEL not in there.metadata.labels:
                return f"the {type(there).KIND} {there.metadata.name} is managed by another owner"
        if queue is None:
            await create_unless_present(self._kube, CLUSTER_QUEUES, wanted)
        elif body := _difference(queue, wanted):
            await self._kube.patch(CLUSTER_QUEUES, queue.metadata.name, body, kind=PatchKind.MERGE)
        if local is None:
            await create_unless_present(self._kube, LOCAL_QUEUES, translation.local_queue(namespace))
        return None

    async def _manage(self, namespace: str) -> None:
        """Labels the namespace, since the webhook handles jobs without a queue name only in labelled namespaces."""
        stored = self._views.namespaces.objects.get(namespace)
        if stored is not None and MANAGED_NAMESPACE not in stored.metadata.labels:
            body = {"metadata": {"labels": {MANAGED_NAMESPACE: "true"}}}
            await self._kube.patch(NAMESPACES, namespace, body, kind=PatchKind.MERGE, repeatable=True)

    async def _without_quota(self, namespace: str) -> float | None:
        """Lets what names the namespace's queue start without limits, or deletes the queues."""
        now = self._now()
        wait = self._deleted.setdefault(namespace, now) + REPLACED - now
        if wait > 0:
            return wait
        if not self._is_released(namespace):
            return await self._clear(namespace)
        queue = self._views.cluster_queues.objects.get(cluster_queue_name(namespace))
        counted = {*self._quotas.shared()}
        for group in queue.spec.resource_groups if queue is not None else ():
            counted.update(group.covered_resources)
        if await self._provide(namespace, translation.released_queue(namespace, counted)) is None:
            self._tell_released(namespace)
        return None

    def _is_released(self, namespace: str) -> bool:
        """Reports whether the namespace's queue goes on without limits, for a workload that names it. In a namespace that is
        being deleted nothing can be created.
        """
        there = self._views.namespaces.objects.get(namespace)
        if there is None or there.metadata.deletion_timestamp or self._is_queued_otherwise(namespace):
            return False
        return self._is_named(namespace)

    def _is_queued_otherwise(self, namespace: str) -> bool:
        """Reports whether a job of the namespace that names no queue would be queued."""
        return self._all_wait or object_key(namespace, DEFAULT_QUEUE) in self._views.local_queues.objects

    def _is_named(self, namespace: str) -> bool:
        """Reports whether a workload that has not finished names the queue of the namespace's elastic quota."""
        workloads = self._views.workloads.by_index(BY_QUEUE, object_key(namespace, ELASTIC_QUOTA))
        return any(not is_true(workload.status.conditions, FINISHED) for workload in workloads)

    def _tell_released(self, namespace: str) -> None:
        local = self._views.local_queues.objects.get(translation.local_queue(namespace).key)
        queue = self._views.cluster_queues.objects.get(cluster_queue_name(namespace))
        if local is not None and queue is not None and queue.spec.cohort_name is not None:
            text = "the namespace has no ElasticQuota any more: what waits in this queue starts without a quota"
            self._recorder.record(ref_to(LOCAL_QUEUES, local), "Normal", "ElasticQuotaDeleted", text)

    async def _clear(self, namespace: str) -> float | None:
        """Deletes the namespace's labelled queues, the ClusterQueue only when no workload reserves quota in it."""
        local = self._views.local_queues.objects.get(translation.local_queue(namespace).key)
        if local is not None and ELASTIC_QUOTA_LABEL in local.metadata.labels:
            await self._delete(LOCAL_QUEUES, local)
            return _SOON
        self._deleted.pop(namespace, None)
        queue = self._views.cluster_queues.objects.get(cluster_queue_name(namespace))
        if queue is None or ELASTIC_QUOTA_LABEL not in queue.metadata.labels or queue.status.reserving_workloads:
            return None
        await self._delete(CLUSTER_QUEUES, queue)
        return None

    async def _delete(self, resource: Resource, obj: KubeObject) -> None:
        meta = obj.metadata
        try:
            await self._kube.delete(resource, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            log.debug("%s %s is gone already", resource.kind, obj.key)

    # ---- status

    async def _update_status(self, namespace: str, entry: ReadQuota, holds: ReadQuota, taken: str | None) -> None:
        quota = entry.quota
        status = quota.status
        queue = self._views.cluster_queues.objects.get(cluster_queue_name(namespace))
        conditions, generation = status.conditions, quota.metadata.generation
        if (active := _active(entry, holds, taken, queue)) is not None:
            conditions = self._with(conditions, active, generation)
        problems = self._problems(namespace, entry) if entry is holds else {}
        for kind in (OVERCOMMITTED, ABOVE_RESOURCE_QUOTA):
            problem = problems.get(kind, "")
            if problem or find_condition(conditions, kind) is not None:
                conditions = self._with(conditions, _judged(kind, problem), generation)
        counts = entry is holds and entry.bounds is not None and queue is not None and taken is None
        used = translation.used(entry.bounds, queue.status) if counts and entry.bounds and queue else {}
        await self._write(entry, status.model_copy(update={"used": used, "conditions": conditions}))
        for kind, problem in problems.items():
            if problem and not is_true(status.conditions, kind):
                self._recorder.record(ref_to(entry.resource, quota), "Warning", kind, problem)

    def _problems(self, namespace: str, entry: ReadQuota) -> dict[str, str]:
        """Returns what is wrong with the amounts of the quota that holds, by condition; an empty text if nothing is."""
        if entry.bounds is None:
            return {}
        quotas = self._resource_quotas.by_index(BY_NAMESPACE, namespace)
        return {OVERCOMMITTED: self._overcommitted, ABOVE_RESOURCE_QUOTA: above_hard(entry.bounds, quotas)}

    def _with(self, conditions: Iterable[Condition], new: Condition, generation: int) -> tuple[Condition, ...]:
        update = {"last_transition_time": rfc3339(self._now()), "observed_generation": generation}
        return set_condition(conditions, new.model_copy(update=update))

    async def _write(self, entry: ReadQuota, status: ElasticQuotaStatus) -> None:
        meta = entry.quota.metadata
        diff = merge_diff(entry.quota.status.to_wire(), status.to_wire())
        if not diff:
            return
        body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": diff}
        answer = await self._kube.patch(
            entry.resource, meta.name, body, meta.namespace, kind=PatchKind.MERGE, subresource="status"
        )
        self._informers[entry.resource].observe(answer)


def _active(entry: ReadQuota, holds: ReadQuota, taken: str | None, queue: ClusterQueue | None) -> Condition | None:
    """Returns the quota's Active condition, which is its queue's unless the quota itself has a fault; None while unknown."""

    def no(reason: str, message: str) -> Condition:
        return Condition(type=ACTIVE, status="False", reason=reason, message=message)

    if entry is not holds:
        api, name = holds.resource.group, holds.quota.metadata.name
        return no(
            ElasticQuotaReason.SECOND_IN_NAMESPACE, f"a namespace has one elastic quota, and {name} ({api}) is older"
        )
    if entry.bounds is None:
        return no(ElasticQuotaReason.INVALID, entry.fault)
    if taken is not None:
        return no(ElasticQuotaReason.NAME_TAKEN, taken)
    return find_condition(queue.status.conditions, ACTIVE) if queue is not None else None


def _judged(kind: str, problem: str) -> Condition:
    """Returns a condition that is true while there is a problem."""
    wrong, right, well = _JUDGEMENTS[kind]
    if problem:
        return Condition(type=kind, status="True", reason=wrong, message=problem)
    return Condition(type=kind, status="False", reason=right, message=well)


def _difference(there: ClusterQueue, wanted: ClusterQueue) -> dict[str, Any]:
    """Returns the merge patch that updates the translated fields; fields that other clients set stay."""
    fields = ("cohort_name", "namespace_selector", "resource_groups", "preemption")
    if all(getattr(there.spec, name) == getattr(wanted.spec, name) for name in fields):
        return {}
    spec = {**wanted.spec.to_wire(), "cohortName": wanted.spec.cohort_name}
    return {"metadata": {"resourceVersion": there.metadata.resource_version}, "spec": spec}


def _capacity_parts(node: Node) -> tuple[object, ...]:
    return node.status.allocatable, node.metadata.labels
