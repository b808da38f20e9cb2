"""Computes what a namespace's pods use beyond its Workloads' reservations, since an elastic quota counts all of it. No IO.

An elastic quota counts every bound pod (docs/specification/elastic-quota.md), also pods that ran before the quota was created.
A pod that names a Workload or a pod set is counted by a Workload. But any user who may change the pod may write that name, so
it is not trusted pod by pod: of the usage of all such pods in a namespace, only as much is left out as the namespace's
Workloads have reserved. So a namespace is never charged less than its pods use:

    outside = pods without a name + max(0, pods with a name - reserved by Workloads - charged beyond reservations)

where the last term is what the ledger charges the elastic quota for bound pods anyway (engine/quota/bound.py).
Deleted pods with a name are left out, since an evicted workload releases its quota before the last of them is gone. Stowage
never gates, moves or ends pods that no Workload counts. The feed charges the sums to the quota's ClusterQueue, and the queues'
status shows them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from admission.engine.model import BoundPod
from api.elastic_quotas import cluster_queue_name
from api.errors import InvalidObject
from api.kube.informers.store import Change, ChangeType
from api.meta import is_true
from api.names import FINISHED, QUOTA_RESERVED
from api.pod.pod_requests import effective_requests
from api.pod.pods import pod_spec
from api.text.quantity import PODS, parse_list
from api.workloads import Workload


class WatchedObjects(Protocol):
    """The part of an informer that is used."""

    @property
    def objects(self) -> Mapping[str, Any]:
        """The objects by key."""

    def add_handler(self, fn: Callable[[Change[Any]], None], /) -> None:
        """Calls `fn` for every change and for every object already present."""


class UnreservedUsage:
    """Sums of usage per namespace; reservations are summed only for namespaces that were queried.

    `charged` returns what the elastic quota of a namespace is charged for bound pods beyond reservations.
    """

    def __init__(self, pods: WatchedObjects, workloads: WatchedObjects) -> None:
        self._workloads = workloads
        self._usage_without_workload: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._usage_with_workload: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._reserved: dict[str, Counter[str]] = {}
        self._by_workload: dict[str, Mapping[str, int]] = {}
        self._reported: dict[str, Mapping[str, int]] = {}
        self._handlers: list[Callable[[str], None]] = []
        self.charged: Callable[[str], Mapping[tuple[str, str], int]] = lambda namespace: {}
        pods.add_handler(self._pod_changed)
        workloads.add_handler(self._workload_changed)

    def of(self, namespace: str) -> Mapping[str, int]:
        """Returns the amounts by resource, including the number of pods."""
        if namespace not in self._reserved:
            self._reserved[namespace] = Counter()
            for key, workload in self._workloads.objects.items():
                if key.partition("/")[0] == namespace:
                    self._reserve(key, workload)
        usage = self._reported[namespace] = self._sum(namespace)
        return usage

    def forget(self, namespace: str) -> None:
        """Stops summing reservations of a namespace that has no elastic quota any more."""
        if self._reserved.pop(namespace, None) is not None:
            self._reported.pop(namespace, None)
            for key in [key for key in self._by_workload if key.partition("/")[0] == namespace]:
                del self._by_workload[key]

    def add_handler(self, fn: Callable[[str], None]) -> None:
        """Calls `fn` with each namespace whose sums changed."""
        self._handlers.append(fn)

    @staticmethod
    def queue_of(namespace: str) -> str:
        """Returns the name of the ClusterQueue that counts all pods of the namespace, if there is one."""
        return cluster_queue_name(namespace)

    def count_again(self, namespace: str) -> None:
        """Calls the handlers if the sums of the namespace differ, after a change of what `charged` returns."""
        self._notify(namespace)

    def _sum(self, namespace: str) -> Mapping[str, int]:
        counted = self._reserved.get(namespace, Counter()).copy()
        for (_, resource), amount in self.charged(namespace).items():
            counted[resource] += amount
        beyond = self._usage_with_workload.get(namespace, Counter()) - counted
        return dict(self._usage_without_workload.get(namespace, Counter()) + beyond)

    def _pod_changed(self, change: Change[Any]) -> None:
        deleted = change.type is ChangeType.DELETED
        before, after = change.old, None if deleted else change.object
        for sums, counts in (
            (self._usage_without_workload, _usage_without_workload),
            (self._usage_with_workload, _usage_with_workload),
        ):
            old, new = counts(before), counts(after)
            if old != new:
                _shift(sums, change.key.partition("/")[0], old, new)
        self._notify(change.key.partition("/")[0])

    def _workload_changed(self, change: Change[Workload]) -> None:
        namespace = change.key.partition("/")[0]
        if namespace in self._reserved:
            self._reserve(change.key, None if change.type is ChangeType.DELETED else change.object)
            self._notify(namespace)

    def _reserve(self, key: str, workload: Workload | None) -> None:
        namespace = key.partition("/")[0]
        old, new = self._by_workload.pop(key, {}), _reserved(workload)
        if new:
            self._by_workload[key] = new
        sums = self._reserved[namespace]
        sums.subtract(old)
        sums.update(new)

    def _notify(self, namespace: str) -> None:
        if namespace in self._reserved and self._reported.get(namespace) == self._sum(namespace):
            return
        for fn in self._handlers:
            fn(namespace)


def _shift(
    sums: defaultdict[str, Counter[str]], namespace: str, old: Mapping[str, int], new: Mapping[str, int]
) -> None:
    usage = sums[namespace]
    usage.subtract(old)
    usage.update(new)
    for resource in [name for name, amount in usage.items() if not amount]:
        del usage[resource]
    if not usage:
        del sums[namespace]


def _usage_without_workload(pod: Any) -> Mapping[str, int]:
    bound: BoundPod | None = pod.bound if pod is not None else None
    return {} if bound is None or _names_a_workload(bound) else {**bound.requests, PODS: 1}


def _usage_with_workload(pod: Any) -> Mapping[str, int]:
    bound: BoundPod | None = pod.bound if pod is not None and not pod.deleting else None
    return {**bound.requests, PODS: 1} if bound is not None and _names_a_workload(bound) else {}


def _names_a_workload(pod: BoundPod) -> bool:
    return pod.workload is not None or pod.pod_set is not None


def _reserved(workload: Workload | None) -> Mapping[str, int]:
    """Returns a Workload's reservation: per resource the larger of its usage and its templates' requests; and its pods."""
    state = workload.status.conditions if workload is not None else ()
    if workload is None or workload.status.admission is None or is_true(state, FINISHED):
        return {}
    if not is_true(state, QUOTA_RESERVED):
        return {}
    templates = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
    total: Counter[str] = Counter()
    for assigned in workload.status.admission.pod_set_assignments:
        pod_set = templates.get(assigned.name)
        count = assigned.count if assigned.count is not None else pod_set.count if pod_set else 0
        try:
            usage = Counter(parse_list(assigned.resource_usage))
            requested = effective_requests(pod_spec(pod_set.template)) if pod_set else {}
        except (InvalidObject, msgspec.ValidationError):
            continue
        total += usage | Counter({name: amount * count for name, amount in requested.items()})
        total[PODS] += count - usage[PODS]
    return total
