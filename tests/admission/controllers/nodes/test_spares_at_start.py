"""Nodes that failed while no controller ran are replaced before its first cycle, beside the spare hosts of each other."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from admission.controllers.nodes.spare_hosts.feature import SpareHosts
from admission.controllers.watch.feature import FeatureContext
from admission.engine.cycle.second_pass import second_pass
from admission.engine.decision import Admit, Evict
from admission.engine.model import ObjectRemoved, RemovedKind, TopologyRequest
from tests.admission.engine.builders import RACK, Cluster, host, queue, racks, workload


def test_the_spare_host_of_a_replaced_workload_is_left_to_it() -> None:
    gang = workload("gang", 1, 4, topology=TopologyRequest(required=RACK, spare_hosts=1))
    other = workload("other", 1, 4, topology=TopologyRequest(required=RACK))
    nodes = [host(f"h{number}", "r0", 4) for number in range(4)]
    before = Cluster(racks(), queue(tas=100), *nodes, gang, other).cycle()
    admissions = {each.workload: each.admission for each in before.decisions if isinstance(each, Admit)}
    lost = {
        key: domain.values[-1]
        for key, admission in admissions.items()
        for placed in admission.pod_sets
        if placed.assignment is not None
        for domain in placed.assignment.domains
    }
    ledger = Cluster(racks(), queue(tas=100), *nodes).ledger
    for each in (gang, other):
        ledger.apply(replace(each, admission=admissions[each.key], reserved=0.0))
    views = SimpleNamespace(add_handler=lambda call: None, observe=None)
    context = SimpleNamespace(
        writer=None, views=SimpleNamespace(workloads=views, flavors=views), ledger=ledger, recorder=None
    )
    SpareHosts(cast("FeatureContext", context))
    for name in lost.values():
        ledger.apply(ObjectRemoved(RemovedKind.NODE, name))
    answers = [second_pass(ledger, key, [lost[key]], fail_fast=True) for key in ("gang", "other")]
    assert [type(decision) for (decision,) in answers] == [Admit, Evict]
