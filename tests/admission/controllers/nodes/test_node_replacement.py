"""Which workloads get another node, and when: a failure that comes while something is written is not lost."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from admission.controllers.nodes.node_replacement import NodeReplacements
from admission.controllers.watch.cluster_view import Views
from admission.engine.decision import Admit
from admission.engine.model import ObjectRemoved, RemovedKind, TopologyRequest
from api.assignment import encode
from api.kube.informers.store import Store
from api.names import HOSTNAME_LABEL
from api.workloads import Workload
from tests.admission.engine.builders import workload
from tests.admission.engine.cycle.test_topology_relaxation import RACK, halls


def test_a_node_that_fails_while_a_write_is_in_flight_is_replaced_when_it_ends() -> None:
    waiting = workload("one", 1, topology=TopologyRequest(preferred=RACK))
    cluster = halls(waiting)
    (decision,) = cluster.cycle().decisions
    assert isinstance(decision, Admit)
    cluster.ledger.apply(replace(waiting, admission=decision.admission, reserved=0.0))
    placed = decision.admission.pod_sets[0].assignment
    assert placed is not None
    failed = placed.domains[0].values[-1]
    cluster.tell(ObjectRemoved(RemovedKind.NODE, failed))
    woken: list[str] = []
    store: Store[Workload] = Store("workloads")
    view = SimpleNamespace(workloads=store, node_named=lambda host: None if host == failed else host)
    repairs = NodeReplacements(cast("Views", view), cluster.ledger, lambda: woken.append("woken"))
    store.upsert(Workload.from_wire(running_on(failed)))
    assert list(repairs.decisions(busy={"one"})) == []
    woken.clear()
    repairs.written("one")
    assert woken == ["woken"]
    (moved,) = repairs.decisions(busy=())
    assert isinstance(moved, Admit)
    assert moved.admission != decision.admission
    assert list(repairs.decisions(busy=())) == []
    repairs.written("one")
    assert woken == ["woken"], "nothing is due any more"


def running_on(host: str) -> dict[str, Any]:
    """The Workload as the API server shows it once the node controller has marked it."""
    placed = encode((HOSTNAME_LABEL,), [((host,), 1)])
    sets = [{"name": "main", "count": 1, "flavors": {}, "topologyAssignment": placed.to_wire()}]
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("QuotaReserved", "Admitted")
    ]
    return {
        "metadata": {"name": "one", "uid": "u", "resourceVersion": "1"},
        "spec": {"podSets": []},
        "status": {
            "admission": {"clusterQueue": "q", "podSetAssignments": sets},
            "conditions": conditions,
            "unhealthyNodes": [{"name": host}],
        },
    }
