"""An elastic quota as a queue: nominal quota = min, borrowing limit = max - min, all in the cohort `elastic-quota`. Pure.

So it is the cohort tree that counts, lends and reclaims, and the engine's preemption that chooses victims (by the policy
`elastic` of its model, which the label on the queue stands for). What all queues of the cohort share:

- *resources*: those that any elastic quota names; one that a quota does not name itself has min 0 and no limit there.
  Resources that none of them names are not counted. Pods are always covered, without a limit where no quota names them, so
  that every workload of it gets the flavor and with it places on nodes;
- *flavor*: `elastic-quota`. Unless there is one of that name, it means all Linux nodes, each for itself (by hostname), so a
  request is admitted, and others evicted for it, only where the nodes really hold its pods.

Decides nothing about admission; controller.py writes the objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from api.elastic import ElasticQuota
from api.errors import InvalidObject
from api.meta import ObjectMeta
from api.names import ELASTIC_QUOTA, ELASTIC_QUOTA_LABEL, HOSTNAME_LABEL
from api.pods import Node
from api.quantity import PODS, Resources, parse_list, to_int, to_text
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
from api.topology import InlineTopology, ResourceFlavor, ResourceFlavorSpec

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_LINUX = {"kubernetes.io/os": "linux"}
_WITHOUT_END = "1G"
"""The number of pods where no quota names one: more than any cluster has."""


@dataclass(frozen=True, slots=True)
class QuotaBounds:
    """Amounts of one elastic quota; a resource that is not in `most` has no limit."""

    least: Resources
    most: Resources


def bounds(quota: ElasticQuota) -> QuotaBounds:
    """Its amounts as integers. Raises InvalidObject where they cannot be read, are negative, or min is above max."""
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
    """Sorts the quotas of one namespace: the first one holds."""
    return quota.metadata.creation_timestamp or "", quota.metadata.name


def counted(every: Iterable[QuotaBounds]) -> tuple[str, ...]:
    """The resources that any of them names, by name."""
    return tuple(sorted({name for each in every for name in (*each.least, *each.most)}))


def queue_name(namespace: str) -> str:
    """The ClusterQueue of the namespace's elastic quota."""
    return f"{ELASTIC_QUOTA}.{namespace}"


def cluster_queue(namespace: str, quota: QuotaBounds, resources: Sequence[str]) -> ClusterQueue:
    """The queue that the quota is. `resources`: as `counted`."""
    covered = resources if PODS in resources else (*resources, PODS)
    given = tuple(_quota(name, quota) if name in resources else _unlimited(name) for name in covered)
    flavor = FlavorQuotas(name=ELASTIC_QUOTA, resources=given)
    return ClusterQueue(
        metadata=ObjectMeta(name=queue_name(namespace), labels={ELASTIC_QUOTA_LABEL: namespace}),
        spec=ClusterQueueSpec(
            cohort_name=ELASTIC_QUOTA,
            namespace_selector={"matchLabels": {_NAMESPACE_NAME: namespace}},
            resource_groups=(ResourceGroup(covered_resources=tuple(covered), flavors=(flavor,)),),
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
    return ResourceQuota(name=resource, nominal_quota=_WITHOUT_END)


def local_queue(namespace: str) -> LocalQueue:
    """The namespace's LocalQueue: the queue of pods that name none."""
    meta = ObjectMeta(name=ELASTIC_QUOTA, namespace=namespace, labels={ELASTIC_QUOTA_LABEL: namespace})
    return LocalQueue(metadata=meta, spec=LocalQueueSpec(cluster_queue=queue_name(namespace)))


def flavor() -> ResourceFlavor:
    """The nodes that elastic quotas are about by default."""
    spec = ResourceFlavorSpec(node_labels=_LINUX, topology=InlineTopology(levels=(HOSTNAME_LABEL,)))
    return ResourceFlavor(metadata=ObjectMeta(name=ELASTIC_QUOTA), spec=spec)


# ---- messages


def used(quota: QuotaBounds, status: QueueStatus) -> dict[str, str]:
    """What is held of the resources that the quota names, and of others that count."""
    held = dict.fromkeys((*quota.least, *quota.most), 0)
    for each in status.flavors_reservation:
        for resource in each.resources:
            amount = to_int(resource.name, resource.total)
            if resource.name in held or (amount and resource.name != PODS):
                held[resource.name] = held.get(resource.name, 0) + amount
    return {name: to_text(name, amount) for name, amount in sorted(held.items())}


def capacity(nodes: Iterable[Node], labels: Mapping[str, str], resources: Sequence[str]) -> Resources:
    """What the nodes with these labels have in all, ready or not. A node that cannot be read has nothing."""
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
    """Where the sum of min passes what is there, in words; empty where it does nowhere."""
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
