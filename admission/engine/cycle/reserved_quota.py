"""Workloads that draw on the quota that their advance reservation charges (quota/reserved.py).

From its start a reservation charges its ClusterQueue. A workload of that queue that names it is placed on its nodes alone
(requests.py), so this quota counts as free while the workload is considered; the charge is less by what it then uses there. A
workload with pods that are placed on no topology does not draw on it: nothing says that they will run on these nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from admission.engine.advance_reservations import confined_to
from admission.engine.flavors.eligible import wants_topology
from admission.engine.flavors.search import topology_implied
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload


def draws_on(ledger: Ledger, workload: Workload) -> str | None:
    """Returns the name of the reservation on whose quota the workload draws, None for none."""
    one = ledger.reservations.get(workload.reservation) if workload.reservation else None
    queue = ledger.quota.spec(workload.cluster_queue)
    if one is None or queue is None or not all(confined_to(one, workload, p) for p in workload.pod_sets):
        return None
    implied = topology_implied(queue, ledger.flavors)
    return one.name if all(wants_topology(pod_set, implied) for pod_set in workload.pod_sets) else None


@contextmanager
def drawing(ledger: Ledger, *workloads: Workload) -> Iterator[None]:
    """Opens a context in which the reservations on whose quota these workloads draw charge nothing, and neither do pods of
    these workloads that are still bound.
    """
    names = set(_names(ledger, workloads)) if ledger.reserved.nodes else set[str]()
    with ExitStack() as stack:
        for workload in workloads:
            stack.enter_context(ledger.bound.lifted(workload.key))
        if names:
            stack.enter_context(ledger.reserved.lifted(names))
        yield


def _names(ledger: Ledger, workloads: Iterable[Workload]) -> Iterator[str]:
    for workload in workloads:
        if workload.reservation and (name := draws_on(ledger, workload)) is not None:
            yield name
