"""The second pass: a workload whose node has failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.cycle.second_pass import second_pass
from admission.engine.decision import Admit
from admission.engine.model import ObjectRemoved, RemovedKind, TopologyRequest
from tests.admission.engine.builders import workload
from tests.admission.engine.cycle.test_topology_relaxation import RACK, halls


@pytest.mark.parametrize("one_pod", [pytest.param(True, id="plain pod"), pytest.param(False, id="job")])
def test_only_a_plain_pod_keeps_its_place_on_a_failed_node(one_pod: bool) -> None:
    """A job makes another pod, which goes elsewhere; nothing replaces a plain pod."""
    waiting = replace(workload("one", 1, topology=TopologyRequest(preferred=RACK)), one_pod=one_pod)
    cluster = halls(waiting)
    (decision,) = cluster.cycle().decisions
    assert isinstance(decision, Admit)
    cluster.ledger.apply(replace(waiting, admission=decision.admission, reserved=0.0))
    assignment = decision.admission.pod_sets[0].assignment
    assert assignment is not None
    failed = assignment.domains[0].values[-1]
    cluster.tell(ObjectRemoved(RemovedKind.NODE, failed))
    (moved,) = second_pass(cluster.ledger, "one", (failed,), fail_fast=True)
    assert isinstance(moved, Admit)
    assert (moved.admission == decision.admission) is one_pod
