"""Who has and who uses the quota that a workload asks for: one view for each resource of a flavor.

Only reads the cohort tree and the bookings. Called by explain.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from admission.engine.explain.takers import TOP, most
from admission.engine.explain.value import QuotaUser, QuotaView, Taker, TakerKind
from admission.engine.flavors import total_requests
from admission.engine.ledger import Ledger
from admission.engine.model import ClusterQueue, FlavorResource, ResourceGroup, Workload


def relatives(ledger: Ledger, queue: str) -> frozenset[str]:
    """The queues that can affect the queue's quota, itself among them."""
    return ledger.quota.relatives(queue) | {queue}


def asked_of(queue: ClusterQueue, group: ResourceGroup, workload: Workload) -> dict[str, int]:
    """What the whole workload asks of a resource group, if all of it went to one flavor."""
    total: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        for resource, amount in total_requests(queue, pod_set).items():
            if resource in group.resources:
                total[resource] = total.get(resource, 0) + amount
    return total


def quota_views(ledger: Ledger, queue: ClusterQueue, flavor: str, asked: Mapping[str, int]) -> tuple[QuotaView, ...]:
    """One view for each resource, by name."""
    return tuple(_view(ledger, queue.name, (flavor, resource), asked[resource]) for resource in sorted(asked))


def _view(ledger: Ledger, queue: str, fr: FlavorResource, asked: int) -> QuotaView:
    quota, family = ledger.quota, relatives(ledger, queue)
    available = quota.available(queue, fr)
    users = sorted(_users(ledger, family, fr), key=lambda user: (-user.amount, user.cluster_queue))
    return QuotaView(
        resource=fr[1],
        asked=asked,
        nominal=quota.nominal(queue, fr),
        available=available,
        most=quota.potential(queue, fr),
        short=max(0, asked - available),
        users=tuple(users[:TOP]),
        workloads=most(users_of(ledger, family, (fr,))),
    )


def _users(ledger: Ledger, family: Iterable[str], fr: FlavorResource) -> Iterator[QuotaUser]:
    for name in family:
        amount = ledger.quota.usage(name).get(fr, 0)
        if amount > 0:
            yield QuotaUser(name, amount, max(0, amount - ledger.quota.nominal(name, fr)))


def users_of(ledger: Ledger, family: Iterable[str], frs: Iterable[FlavorResource]) -> list[Taker]:
    """The admitted workloads of these queues that use any of these quotas, with the sum."""
    queues, wanted, found = set(family), tuple(frs), []
    for key, admission in ledger.admissions.items():
        if admission.cluster_queue in queues:
            usage = admission.usage()
            amount = sum(usage.get(fr, 0) for fr in wanted)
            if amount > 0:
                found.append(Taker(TakerKind.WORKLOAD, key, amount))
    return found
