"""Computes which queues have and use the quota that a workload requests: one view per resource of a flavor.

explain.py calls it; it only reads the cohort tree and the usage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from heapq import nsmallest

from admission.engine.explain.capacity_users import TOP
from admission.engine.explain.explanation import CapacityUser, CapacityUserKind, QuotaUser, QuotaView
from admission.engine.explain.trials import TrialBudget
from admission.engine.flavors.search import total_requests
from admission.engine.ledger.holds import OF_FLAVORS
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, FlavorResource, ResourceGroup, Workload

_AT_ONCE = 5000
"""The number of admissions that are counted between two pauses."""


class RelatedQueues:
    """The queues that share quota with a queue, including itself, and what their admitted workloads use."""

    def __init__(self, ledger: Ledger, queue: str, budget: TrialBudget | None = None) -> None:
        self._budget = budget
        self.queues = ledger.quota.relatives(queue) | {queue}
        self._ledger = ledger
        self._amounts: dict[FlavorResource, dict[str, int]] | None = None

    def users_of(self, frs: Collection[FlavorResource]) -> Mapping[str, int]:
        """Returns the workloads that use any of these quotas, with the sum of their usage."""
        if self._amounts is None:
            self._amounts = self._counted()
        users: dict[str, int] = {}
        for fr in frs:
            used = self._amounts.get(fr, {})
            if len(frs) == 1:
                return used
            for key, amount in used.items():
                users[key] = users.get(key, 0) + amount
        return users

    def _counted(self) -> dict[FlavorResource, dict[str, int]]:
        amounts: dict[FlavorResource, dict[str, int]] = {}
        for number, (key, admission) in enumerate(list(self._ledger.admissions.items()), 1):
            if number % _AT_ONCE == 0 and self._budget is not None:
                self._budget.rest(self._ledger)
            hold = self._ledger.holds.get(key)
            if hold is not None and hold.kind in OF_FLAVORS:
                continue
            if admission.cluster_queue in self.queues:
                for fr, amount in admission.usage().items():
                    if amount > 0:
                        users, owner = amounts.setdefault(fr, {}), key if hold is None else hold.owner
                        users[owner] = users.get(owner, 0) + amount
        return amounts


def requested_amounts(queue: ClusterQueue, group: ResourceGroup, workload: Workload) -> dict[str, int]:
    """Returns the request of the whole workload to a resource group, if all of it went to one flavor."""
    total: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        for resource, amount in total_requests(queue, pod_set).items():
            if resource in group.resources:
                total[resource] = total.get(resource, 0) + amount
    return total


def quota_views(
    ledger: Ledger, queue: ClusterQueue, family: RelatedQueues, flavor: str, requested: Mapping[str, int]
) -> tuple[QuotaView, ...]:
    """Returns one view per resource, sorted by name."""
    return tuple(
        _view(ledger, queue.name, family, (flavor, resource), requested[resource]) for resource in sorted(requested)
    )


def _view(ledger: Ledger, queue: str, family: RelatedQueues, fr: FlavorResource, requested: int) -> QuotaView:
    quota = ledger.quota
    available = quota.available(queue, fr)
    users = sorted(_users(ledger, family, fr), key=lambda user: (-user.amount, user.cluster_queue))
    return QuotaView(
        resource=fr[1],
        asked=requested,
        nominal=quota.nominal(queue, fr),
        available=available,
        most=quota.potential(queue, fr),
        short=max(0, requested - available),
        users=tuple(users[:TOP]),
        workloads=_workloads(family, fr),
    )


def _workloads(family: RelatedQueues, fr: FlavorResource) -> tuple[CapacityUser, ...]:
    top = nsmallest(TOP, family.users_of((fr,)).items(), key=lambda item: (-item[1], item[0]))
    return tuple(CapacityUser(CapacityUserKind.WORKLOAD, key, amount) for key, amount in top)


def _users(ledger: Ledger, family: RelatedQueues, fr: FlavorResource) -> Iterator[QuotaUser]:
    for name in family.queues:
        amount = ledger.quota.usage(name).get(fr, 0)
        if amount > 0:
            yield QuotaUser(name, amount, max(0, amount - ledger.quota.nominal(name, fr)))
