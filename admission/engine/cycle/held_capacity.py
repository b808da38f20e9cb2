"""What is held for the workloads of each LocalQueue beside the quota of their pods.

These are spare hosts of running workloads, the place that is held for a gang while others move away, and the quota and nodes
that a capacity reservation keeps for a pending workload until its victims have left. Past usage counts all of them: nobody else
can use them.
"""

from __future__ import annotations

from collections.abc import Mapping

from admission.engine.cycle import flavor_spares, spare_hosts
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import FlavorResource
from admission.engine.queue.queues import PendingQueues


def held_beside_quota(ledger: Ledger, queues: PendingQueues) -> dict[str, dict[str, int]]:
    """Returns the amounts by LocalQueue and resource."""
    total: dict[str, dict[str, int]] = {}
    for key in ledger.spare_host_owners:
        if (workload := ledger.workload(key)) is not None:
            _add(total, workload.queue, spare_hosts.usage(ledger, key))
    for held in ledger.held_places():
        if held.admission is not None:
            _add(total, held.queue, held.admission.usage())
    for owner, reservation in queues.capacity_reservations():
        _add(total, owner.queue, reservation.admission.usage())
        for key, admission in (*reservation.beside, *reservation.spares):
            if (beside := queues.workload(key)) is not None:
                _add(total, beside.queue, admission.usage())
    for excess in ledger.bound.all():
        _add(total, excess.payer.local_queue, excess.amounts)
    return total


def unowned_usage(ledger: Ledger, queue: str) -> dict[FlavorResource, int]:
    """Returns usage of the ClusterQueue's quota that no Workload has reserved: spare hosts of flavors, advance reservations,
    and bound pods beyond the reservation of their workload.
    """
    total = flavor_spares.usage(ledger, queue)
    for usage in (ledger.reserved.usage(queue), ledger.bound.of_queue(queue)):
        for fr, amount in usage.items():
            total[fr] = total.get(fr, 0) + amount
    return total


def _add(total: dict[str, dict[str, int]], queue: str, usage: Mapping[FlavorResource, int]) -> None:
    for (_, resource), amount in usage.items():
        held = total.setdefault(queue, {})
        held[resource] = held.get(resource, 0) + amount
