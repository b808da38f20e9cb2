"""Translates an elastic quota into a queue of the cohort `elastic-quota`. Pure; quota_controller.py writes the objects.

Nominal quota is min, and the borrowing limit is max - min. So the cohort tree counts, lends and reclaims, and the engine's
preemption chooses victims (by its policy `elastic`, which the queue's label selects). All queues of the cohort share:

- *resources*: all that any elastic quota names; where a quota does not name one of them, it has min 0 and no limit. Other
  resources are not counted. Pods are always covered, without a limit where no quota names them, so that every workload gets
  the flavor and with it places on nodes;
- *flavor*: `elastic-quota`. The default covers all Linux nodes with the hostname as only level, so that a request is admitted,
  and others are evicted for it, only where nodes can really hold its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from api.elastic_quotas import ElasticQuota, cluster_queue_name
from api.errors import InvalidObject
from api.meta import ObjectMeta
from api.names import ELASTIC_QUOTA, ELASTIC_QUOTA_LABEL, HOSTNAME_LABEL, NAMESPACE_NAME_LABEL, OS_LABEL
from api.pod.pods import Node
from api.queues import (
    ClusterQueue,
    ClusterQueueSpec,
    FlavorQuotas,
    LocalQueue,
    LocalQueueSpec,
    Preemption,
    QueueStatus,
    ResourceGroup,
    ResourceQuota,
)
from api.text.quantity import CPU, PODS, Resources, parse_list, to_int, to_text
from api.topology import InlineTopology, ResourceFlavor, ResourceFlavorSpec

_LINUX = {OS_LABEL: "linux"}
_WITHOUT_END = "1G"
"""Pods, and cpus, where no quota limits them: more than any cluster has."""
_MOST = "1E"
"""Any other resource, bytes among them. In thousandths, as cpus are counted, it would exceed 64 bits."""


@dataclass(frozen=True, slots=True)
class QuotaBounds:
    """Amounts of an elastic quota; a resource missing in `most` has no limit."""

    least: Resources
    most: Resources


def bounds(quota: ElasticQuota) -> QuotaBounds:
    """Returns the quota's amounts as integers. Raises InvalidObject if unreadable, negative, or min exceeds max."""
    least, most = parse_list(quota.spec.min, "spec.min"), parse_list(quota.spec.max, "spec.max")
    for field, amounts in (("spec.min", least), ("spec.max", most)):
        for resource, amount in amounts.items():
            if amount < 0:
                raise InvalidObject(f"{field}[{resource}]", to_text(resource, amount), "must not be negative")
    for resource, amount in least.items():
        if amount > most.get(resource, amount):
            given, limit = to_text(resource, amount), to_text(resource, most[resource])
            raise InvalidObject(f"spec.min[{resource}]", given, f"must not be more than spec.max[{resource}], {limit}")
    return QuotaBounds(least, most)


def age(quota: ElasticQuota) -> tuple[str, str]:
    """Returns the key by which the quotas of a namespace are sorted; the first one holds."""
    return quota.metadata.creation_timestamp or "", quota.metadata.name


def counted(every: Iterable[QuotaBounds]) -> tuple[str, ...]:
    """Returns the resources that any of the quotas names, sorted."""
    return tuple(sorted({name for each in every for name in (*each.least, *each.most)}))


def cluster_queue(namespace: str, quota: QuotaBounds, resources: Sequence[str]) -> ClusterQueue:
    """Returns the quota's ClusterQueue; `resources` is the result of `counted`."""
    covered = resources if PODS in resources else (*resources, PODS)
    quotas = (_quota(name, quota) if name in resources else _unlimited(name) for name in covered)
    return _queue(namespace, ELASTIC_QUOTA, quotas)


def released_queue(namespace: str, resources: Iterable[str]) -> ClusterQueue:
    """Returns the ClusterQueue of a namespace whose quota was deleted: without limits, and outside the cohort.

    It goes on counting `resources`, so that a later quota counts what starts meanwhile.
    """
    return _queue(namespace, None, (_unlimited(name) for name in sorted({*resources, PODS})))


def _queue(namespace: str, cohort: str | None, quotas: Iterable[ResourceQuota]) -> ClusterQueue:
    flavor = FlavorQuotas(name=ELASTIC_QUOTA, resources=tuple(quotas))
    covered = tuple(quota.name for quota in flavor.resources)
    return ClusterQueue(
        metadata=ObjectMeta(name=cluster_queue_name(namespace), labels={ELASTIC_QUOTA_LABEL: namespace}),
        spec=ClusterQueueSpec(
            cohort_name=cohort,
            namespace_selector={"matchLabels": {NAMESPACE_NAME_LABEL: namespace}},
            resource_groups=(ResourceGroup(covered_resources=covered, flavors=(flavor,)),),
            preemption=Preemption(reclaim_within_cohort="Any", within_cluster_queue="LowerPriority"),
        ),
    )


def _quota(resource: str, quota: QuotaBounds) -> ResourceQuota:
    least, most = quota.least.get(resource, 0), quota.most.get(resource)
    nominal = to_text(resource, least)
    if most is None:
        return ResourceQuota(name=resource, nominal_quota=nominal)
    return ResourceQuota(name=resource, nominal_quota=nominal, borrowing_limit=to_text(resource, most - least))


def _unlimited(resource: str) -> ResourceQuota:
    return ResourceQuota(name=resource, nominal_quota=_WITHOUT_END if resource in (PODS, CPU) else _MOST)


def local_queue(namespace: str) -> LocalQueue:
    """Returns the namespace's LocalQueue, which is the queue of pods that name none."""
    meta = ObjectMeta(name=ELASTIC_QUOTA, namespace=namespace, labels={ELASTIC_QUOTA_LABEL: namespace})
    return LocalQueue(metadata=meta, spec=LocalQueueSpec(cluster_queue=cluster_queue_name(namespace)))


def flavor() -> ResourceFlavor:
    """Returns the default flavor of elastic quotas."""
    spec = ResourceFlavorSpec(node_labels=_LINUX, topology=InlineTopology(levels=(HOSTNAME_LABEL,)))
    return ResourceFlavor(metadata=ObjectMeta(name=ELASTIC_QUOTA), spec=spec)


# ---- messages


def used(quota: QuotaBounds, status: QueueStatus) -> dict[str, str]:
    """Returns the usage of the quota's resources, and of other resources in use except pods."""
    held = dict.fromkeys((*quota.least, *quota.most), 0)
    for each in status.flavors_reservation:
        for resource in each.resources:
            amount = to_int(resource.name, resource.total)
            if resource.name in held or (amount and resource.name != PODS):
                held[resource.name] = held.get(resource.name, 0) + amount
    return {name: to_text(name, amount) for name, amount in sorted(held.items())}


def capacity(nodes: Iterable[Node], labels: Mapping[str, str], resources: Sequence[str]) -> Resources:
    """Returns the total allocatable of nodes with these labels, ready or not; unreadable amounts count as 0."""
    total = dict.fromkeys(resources, 0)
    for node in nodes:
        if any(node.metadata.labels.get(key) != value for key, value in labels.items()):
            continue
        for resource in resources:
            try:
                total[resource] += to_int(resource, node.status.allocatable.get(resource, 0))
            except InvalidObject:
                continue
    return total


def overcommitment(every: Iterable[QuotaBounds], there: Mapping[str, int]) -> str:
    """Describes where the sum of min exceeds the cluster's capacity; empty if nowhere."""
    total: Resources = {}
    for each in every:
        for resource, amount in each.least.items():
            total[resource] = total.get(resource, 0) + amount
    return "; ".join(
        f"the sum of min of all elastic quotas is {to_text(name, amount)} {name}, "
        f"the cluster has {to_text(name, there.get(name, 0))}"
        for name, amount in sorted(total.items())
        if amount > there.get(name, 0)
    )
