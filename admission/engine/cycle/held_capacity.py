"""What is held for workloads (ledger/holds.py): what each may draw on at its turn, and what it holds beside its quota.

From its start a hold of nodes charges its ClusterQueue (quota/reserved.py). A workload of that queue that names it is
placed on its nodes alone (requests.py), so this quota counts as free while the workload is considered; the charge is less by
what it then uses there. A workload with pods that are placed on no topology does not draw on it: nothing says that they will
run on these nodes.

Past usage counts what is held beside quota: what running workloads hold beside their pods, the place that is held for a gang
while others move away, and the quota and nodes that a capacity reservation keeps for a pending workload until its victims have
left. Nobody else can use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from admission.engine.flavors.eligible import wants_topology
from admission.engine.flavors.search import topology_implied
from admission.engine.ledger.holds import BESIDE_PODS, OF_FLAVORS, HoldKind, total_usage
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import FlavorResource, Workload
from admission.engine.queue.queues import PendingQueues


def draws_on(ledger: Ledger, workload: Workload) -> str | None:
    """Returns the name of the hold of nodes on whose quota the workload draws, None for none."""
    one = ledger.node_holds.get(workload.reservation) if workload.reservation else None
    queue = ledger.quota.spec(workload.cluster_queue)
    if one is None or queue is None or not all(one.confines(workload, p) for p in workload.pod_sets):
        return None
    implied = topology_implied(queue, ledger.flavors)
    return one.name if all(wants_topology(pod_set, implied) for pod_set in workload.pod_sets) else None


@contextmanager
def drawing(ledger: Ledger, *workloads: Workload) -> Iterator[None]:
    """Opens a context in which the holds of nodes on whose quota these workloads draw charge nothing, and neither do pods of
    these workloads that are still bound.
    """
    names = set(_names(ledger, workloads)) if ledger.reserved.nodes else set[str]()
    with ExitStack() as stack:
        for workload in workloads:
            stack.enter_context(ledger.bound.lifted(workload.key))
        if names:
            stack.enter_context(ledger.reserved.lifted(names))
        yield


def held_beside_quota(ledger: Ledger, queues: PendingQueues) -> dict[str, dict[str, int]]:
    """Returns the amounts by LocalQueue and resource."""
    total: dict[str, dict[str, int]] = {}
    for hold in ledger.holds.of_kind(*BESIDE_PODS, HoldKind.PLACE):
        _add(total, hold.workload.queue, hold.admission.usage())
    for owner, reservation in queues.capacity_reservations():
        _add(total, owner.queue, reservation.admission.usage())
        for key, admission in (*reservation.beside, *reservation.spares):
            if (beside := queues.workload(key)) is not None:
                _add(total, beside.queue, admission.usage())
    for excess in ledger.bound.all():
        _add(total, excess.payer.local_queue, excess.amounts)
    return total


def unowned_usage(ledger: Ledger, queue: str) -> dict[FlavorResource, int]:
    """Returns usage of the ClusterQueue's quota that no Workload has reserved: held hosts of flavors, holds of nodes,
    and bound pods beyond the reservation of their workload.
    """
    holds = ledger.holds.of_kind(*OF_FLAVORS)
    total = total_usage(hold for hold in holds if hold.admission.cluster_queue == queue)
    for usage in (ledger.reserved.usage(queue), ledger.bound.of_queue(queue)):
        for fr, amount in usage.items():
            total[fr] = total.get(fr, 0) + amount
    return total


def _add(total: dict[str, dict[str, int]], queue: str, usage: Mapping[FlavorResource, int]) -> None:
    for (_, resource), amount in usage.items():
        held = total.setdefault(queue, {})
        held[resource] = held.get(resource, 0) + amount


def _names(ledger: Ledger, workloads: Iterable[Workload]) -> Iterator[str]:
    for workload in workloads:
        if workload.reservation and (name := draws_on(ledger, workload)) is not None:
            yield name
