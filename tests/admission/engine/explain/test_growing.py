"""Of an elastic job that grows and gets nothing more: what is said of one pod more, and that it is true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.decision import Admit
from admission.engine.explain.changes import FewerPods, RaiseQuota
from admission.engine.explain.cycle_decision import DecisionInputs
from admission.engine.explain.explain import explain
from admission.engine.explain.explanation import Explanation, Verdict
from admission.engine.model import TopologyRequest, Workload
from admission.engine.reasons import Reason
from tests.admission.engine.builders import CPU, Cluster, admitted, host, queue, racks, workload

ANYWHERE = TopologyRequest(unconstrained=True)


def grown(quota: int, cpus: int, wanted: int) -> tuple[Cluster, Workload]:
    """A job of 5 pods that runs and wants more."""
    cluster = Cluster(racks(), host("x", "r", cpus), queue(tas=quota))
    cluster.tell(workload("a", 5, topology=ANYWHERE))
    assert admitted(cluster.cycle()) == ["a"]
    later = replace(workload("b", wanted, topology=ANYWHERE), replaces="a")
    cluster.tell(later)
    return cluster, later


def said(cluster: Cluster, of: Workload) -> Explanation:
    return explain(cluster.ledger, of, 0.0, inputs=DecisionInputs(cluster.queues))


@pytest.mark.parametrize(
    ("quota", "cpus", "reason"),
    [
        pytest.param(5, 20, Reason.EXCEEDS_MAX_QUOTA, id="quota"),
        pytest.param(20, 5, Reason.TOPOLOGY_PLACEMENT_FAILED, id="nodes"),
    ],
)
def test_it_waits_for_one_pod_more_beside_those_that_run(quota: int, cpus: int, reason: Reason) -> None:
    cluster, later = grown(quota, cpus, 12)
    before = cluster.ledger.quota.usage("q")
    found = said(cluster, later)
    assert (found.verdict, found.reason) == (Verdict.WAITS, reason)
    assert "a keeps its 5 pods; what is said here is of one pod more" in found.cause
    assert found.remedies
    assert not any(isinstance(change, FewerPods) for remedy in found.remedies for change in remedy.changes)
    assert cluster.ledger.quota.usage("q") == before
    assert cluster.ledger.admission("a") is not None


def test_the_quota_that_is_named_lets_one_pod_more_in() -> None:
    """Nothing is asked for the pods that run."""
    cluster, later = grown(5, 20, 12)
    [change] = next(r.changes for r in said(cluster, later).remedies if isinstance(r.changes[0], RaiseQuota))
    assert isinstance(change, RaiseQuota)
    assert change.by == CPU
    cluster.tell(queue(tas=6))
    [decision] = [d for d in cluster.cycle().decisions if d.workload == "b"]
    assert isinstance(decision, Admit)
    assert decision.admission.pod_sets[0].count == 6


def test_one_that_grows_now_fits() -> None:
    cluster, later = grown(7, 20, 12)
    assert said(cluster, later).verdict is Verdict.FITS
