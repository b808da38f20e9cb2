"""What free resources alone rule out has no place."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admission.engine.flavors.assign import NoPreemption
from admission.engine.flavors.search import FlavorSearch
from admission.engine.model import TopologyRequest
from admission.engine.requests import placement_requests, possible_requests
from tests.admission.engine.builders import RACK, Cluster, host, queue, racks, workload
from tests.admission.engine.preemption.drawn_clusters import DrawnCluster, scenes
from tests.budgets import examples

few = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@few
@given(scenes(), st.data())
def test_what_is_ruled_out_has_no_place(scene: DrawnCluster, data: st.DataObject) -> None:
    ledger, requests = scene.ledger, scene.requests()
    bound = ledger.placement.capacity_bound([[request] for request in requests])
    for key in data.draw(st.lists(st.sampled_from([w.key for w in scene.running]), unique=True)):
        with ledger.trial():
            ledger.remove_with_pods(key)
            assert not (bound.rules_out() and ledger.placement.place(requests).fits)


@pytest.mark.parametrize(
    ("pods", "topology", "ruled_out"),
    [
        pytest.param(5, TopologyRequest(required=RACK), False, id="a rack holds it"),
        pytest.param(6, TopologyRequest(required=RACK), True, id="no rack holds it"),
        pytest.param(6, TopologyRequest(required=RACK, relax_after=60), False, id="until the rack is waived"),
        pytest.param(6, TopologyRequest(preferred=RACK), False, id="two racks hold it"),
        pytest.param(10, None, False, id="the queue implies topology"),
        pytest.param(11, None, True, id="more than all"),
    ],
)
def test_bound(pods: int, topology: TopologyRequest | None, ruled_out: bool) -> None:
    cluster = Cluster(racks(), queue(tas=99), *(host(f"{rack}{n}", rack, 2 + n) for rack in "xy" for n in range(2)))
    requested, spec = workload("w", pods, topology=topology), cluster.ledger.quota.spec("q")
    assert spec is not None
    bound = cluster.ledger.placement.capacity_bound(possible_requests(requested, spec, cluster.ledger.flavors))
    assert bound.rules_out() is ruled_out
    found = FlavorSearch(spec, cluster.ledger.flavors, cluster.ledger.quota, NoPreemption(cluster.ledger.quota))
    requests = placement_requests(requested, spec, found.assign(requested), cluster.ledger.flavors, 100.0)
    assert cluster.ledger.placement.place(requests).fits is not ruled_out


def test_a_flavor_without_topology_is_not_ruled_out() -> None:
    cluster = Cluster(queue(any=99))
    spec = cluster.ledger.quota.spec("q")
    assert spec is not None
    assert not cluster.ledger.placement.capacity_bound(possible_requests(workload("w", 5), spec, {})).rules_out()
