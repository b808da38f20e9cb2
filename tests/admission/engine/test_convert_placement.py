"""Conversion of topology requests, placement constraints, profiles and spread constraints."""

from __future__ import annotations

from typing import Any

import pytest

from admission.engine import model
from admission.engine.convert import convert_queues
from admission.engine.convert import convert_workloads as convert
from api import names, queues
from api.errors import InvalidObject
from api.names import PLACEMENT_PROFILE
from tests.admission.engine.wire import template, wire_workload


def requesting(count: int = 8, **request: Any) -> dict[str, Any]:
    return {"name": "main", "count": count, "template": template(cpu="1"), "topologyRequest": request}


def topology_of(pod_set: dict[str, Any]) -> model.TopologyRequest:
    topology = convert.workload(wire_workload(pod_set), cluster_queue="cq").pod_sets[0].topology
    assert topology is not None
    return topology


def test_constraints_and_the_period_come_with_the_request() -> None:
    shaped = [
        {"level": "rack", "type": "spread", "partitions": 2, "hard": True},
        {"level": "node", "min": 2, "max": 4, "factor": 2},
    ]
    topology = topology_of(requesting(required="block", constraints=shaped, relaxAfterSeconds=600))
    assert (topology.required, topology.unconstrained, topology.relax_after) == ("block", None, 600)
    assert topology.constraints == (
        model.LevelConstraint("rack", model.Spreading.SPREAD, partitions=2, hard=True),
        model.LevelConstraint("node", minimum=2, maximum=4, factor=2),
    )


def test_constraints_alone_shape_what_may_lie_anywhere() -> None:
    topology = topology_of(requesting(constraints=[{"level": "rack"}]))
    assert (topology.unconstrained, topology.explicit) == (True, True)


@pytest.mark.parametrize(
    ("constraint", "fault"),
    [
        pytest.param(
            {"type": "spread", "partitions": 9},
            '[partitions]: 9: contradicts the size of pod set "main": 8 pod(s)',
            id="size",
        ),
        pytest.param({"min": 4, "max": 2}, "[min]: 4: contradicts max 2", id="range"),
        pytest.param({"factor": 4, "max": 2}, "[factor]: 4: contradicts max 2", id="factor"),
    ],
)
def test_contradictions_are_named_by_object_and_field(constraint: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        topology_of(requesting(constraints=[{"level": "rack", **constraint}]))
    assert str(caught.value).startswith(f"Workload ns/w: spec.podSets[0].topologyRequest.constraints[rack]{fault}")


@pytest.mark.parametrize("profile", model.Profile)
def test_the_profile_is_the_annotation_of_workload_and_queue(profile: model.Profile) -> None:
    annotations = {PLACEMENT_PROFILE: profile.value}
    given = wire_workload(requesting())
    given = given.model_copy(update={"metadata": given.metadata.model_copy(update={"annotations": annotations})})
    assert convert.workload(given, cluster_queue="cq").profile is profile
    queue = queues.ClusterQueue.from_wire({"metadata": {"name": "cq", "annotations": annotations}})
    assert convert_queues.cluster_queue(queue).profile is profile


def test_no_other_profile_is_taken() -> None:
    queue = queues.ClusterQueue.from_wire({"metadata": {"name": "cq", "annotations": {PLACEMENT_PROFILE: "Best"}}})
    with pytest.raises(InvalidObject, match=r"ClusterQueue cq: .*'Best': must be one of Exact, Compatible, LeastFree"):
        convert_queues.cluster_queue(queue)


READABLE = {
    names.MOVABLE: "true",
    names.MOVE_COST: "1m",
    names.MINIMUM_RUN_TIME: "1h",
    names.LAST_CHECKPOINT: "1970-01-01T00:01:00Z",
}


@pytest.mark.parametrize(
    ("annotations", "terms"),
    [
        pytest.param({}, model.NO_TERMS, id="nothing said"),
        pytest.param(READABLE, model.RestartTerms(True, 60, 3600, 60.0), id="all said"),
        pytest.param(
            {**READABLE, names.MOVE_COST: "-1s"}, model.RestartTerms(False, None, 3600, 60.0), id="a bad cost"
        ),
    ],
)
def test_terms_of_moves_are_those_of_the_annotations(annotations: dict[str, str], terms: model.RestartTerms) -> None:
    """A workload with a value that cannot be read is not moved, and runs all the same."""
    given = wire_workload(requesting())
    given = given.model_copy(update={"metadata": given.metadata.model_copy(update={"annotations": annotations})})
    assert convert.workload(given, cluster_queue="cq").restart == terms


@pytest.mark.parametrize(
    ("annotations", "terms", "per_day"),
    [
        pytest.param({}, model.NO_TERMS, None, id="nothing said"),
        pytest.param(
            {names.MOVABLE: "true", names.MOVES_PER_DAY: "5"}, model.RestartTerms(movable=True), 5, id="all said"
        ),
        pytest.param({names.MOVES_PER_DAY: "0"}, model.NO_TERMS, 0, id="a budget of none"),
        pytest.param(
            {names.MOVABLE: "true", names.MOVES_PER_DAY: "-5"}, model.RestartTerms(movable=False), 0, id="a bad budget"
        ),
    ],
)
def test_a_queue_has_terms_and_a_budget(
    annotations: dict[str, str], terms: model.RestartTerms, per_day: int | None
) -> None:
    queue = queues.ClusterQueue.from_wire({"metadata": {"name": "cq", "annotations": annotations}})
    found = convert_queues.cluster_queue(queue)
    assert (found.restart, found.moves_per_day) == (terms, per_day)


def _spread(key: str, action: str = "DoNotSchedule") -> dict[str, Any]:
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": action}


_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


@pytest.mark.parametrize(
    ("constraints", "terms", "keys"),
    [
        pytest.param([_spread("rack")], None, [["rack"]], id="no-terms"),
        pytest.param([_spread("rack"), _spread("block")], None, [["block", "rack"]], id="two-keys"),
        pytest.param([_spread("rack", "ScheduleAnyway")], None, None, id="only-a-wish"),
        pytest.param([_spread("rack")], [_ZONE, _ZONE], [["zone", "rack"]] * 2, id="each-alternative"),
        pytest.param([_spread("rack")], [{}, _ZONE], [["zone", "rack"]], id="a-term-that-matches-nothing-still-does"),
    ],
)
def test_a_node_without_the_key_of_a_spread_constraint_takes_no_pod(
    constraints: list[dict[str, Any]], terms: list[dict[str, Any]] | None, keys: list[list[str]] | None
) -> None:
    """kube-scheduler refuses such a node for DoNotSchedule."""
    given = template(cpu="1")
    given["spec"]["topologySpreadConstraints"] = constraints
    if terms is not None:
        node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        given["spec"]["affinity"] = {"nodeAffinity": node}
    pod_set = {"name": "main", "count": 1, "template": given}
    [got] = convert.workload(wire_workload(pod_set), cluster_queue="cq").pod_sets
    found = None if got.affinity is None else [[one.key for one in term.match_expressions] for term in got.affinity]
    assert found == keys
