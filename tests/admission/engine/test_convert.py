"""Conversion: what objects become in the engine, what comes back, and how bad input is named."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine import convert, convert_admissions, convert_nodes, convert_queues, model
from admission.engine.quota.charging import ResourceRules, Transformation
from api import pods, queues, topology, workloads
from api.errors import InvalidObject
from api.names import PLACEMENT_PROFILE, QUOTA_RESERVED
from tests.budgets import examples

CREATED, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
EPOCH = 1767225600.0


def template(spec: dict[str, Any] | None = None, **requests: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], **(spec or {})}}


def wire_workload(*pod_sets: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> workloads.Workload:
    return workloads.Workload.from_wire(
        {
            "metadata": {"name": "w", "namespace": "ns", "uid": "u", "creationTimestamp": CREATED},
            "spec": {"queueName": "lq", "podSets": list(pod_sets), **spec},
            "status": status or {},
        }
    )


def condition(kind: str, status: str = "True", reason: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": LATER}


def test_a_workload_with_all_that_the_engine_reads() -> None:
    spec = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}]
                }
            }
        },
    }
    request = {"preferred": "auto", "podSetGroupName": "g", "podIndexLabel": "i"}
    pod_set = {
        "name": "main", "count": 3, "minCount": 2, "template": template(spec, cpu="1500m", memory="1Gi"),
        "topologyRequest": request,
    }  # fmt: skip
    got = convert.workload(
        wire_workload(pod_set, priority=7), cluster_queue="cq", blocked=("Suspended", "why"), not_before=9.0
    )
    assert got == model.Workload(
        key="ns/w",
        uid="u",
        queue="ns/lq",
        cluster_queue="cq",
        pod_sets=(
            model.PodSet(
                "main",
                3,
                {"cpu": 1500, "memory": 1 << 30},
                min_count=2,
                topology=model.TopologyRequest(preferred="auto", group="g"),
                node_selector={"disk": "ssd"},
                affinity=(
                    model.NodeSelectorTerm(
                        match_expressions=(model.NodeSelectorRequirement(key="z", operator="In", values=("a",)),)
                    ),
                ),
                tolerations=(model.Toleration(key="k", operator="Exists"),),
            ),
        ),
        priority=7,
        queued=EPOCH,
        not_before=9.0,
        blocked=("Suspended", "why"),
    )


@pytest.mark.parametrize(
    ("request_", "topology"),
    [
        pytest.param({"required": "rack"}, model.TopologyRequest(required="rack"), id="required"),
        pytest.param({"unconstrained": False}, model.TopologyRequest(unconstrained=False), id="a no is explicit as well"),
        pytest.param({"podIndexLabel": "i"}, model.TopologyRequest(explicit=False), id="an index label asks for nothing"),
        pytest.param(
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 4},
            model.TopologyRequest(slices=(model.SliceLayer("rack", 4),), slice_topology_only=True),
            id="slices only",
        ),
        pytest.param(
            {"required": "block", "podSetSliceRequiredTopology": "rack"},
            model.TopologyRequest(required="block", slices=(model.SliceLayer("rack", 0),)),
            id="slices without a size are left to placement to refuse",
        ),
        pytest.param(
            {
                "preferred": "block",
                "podsetSliceRequiredTopologyConstraints": [
                    {"topology": "rack", "size": 4}, {"topology": "host", "size": 2},
                ],
            },
            model.TopologyRequest(preferred="block", slices=(model.SliceLayer("rack", 4), model.SliceLayer("host", 2))),
            id="several layers",
        ),
    ],
)  # fmt: skip
def test_topology_requests(request_: dict[str, Any], topology: model.TopologyRequest) -> None:
    pod_set = {"name": "main", "count": 1, "template": template(), "topologyRequest": request_}
    assert convert.workload(wire_workload(pod_set), cluster_queue="cq").pod_sets[0].topology == topology


@pytest.mark.parametrize(
    ("conditions", "queued", "evicted"),
    [
        pytest.param([], EPOCH, False, id="from its creation"),
        pytest.param([condition("Evicted", reason="Preempted")], EPOCH, True, id="kept after a preemption"),
        pytest.param([condition("Evicted", reason="PodsReadyTimeout")], EPOCH + 3600, True, id="anew after a timeout"),
        pytest.param([condition("Evicted", reason="AdmissionCheck")], EPOCH + 3600, True, id="anew after a check"),
        pytest.param(
            [condition("Evicted", "False", "PodsReadyTimeout")],
            EPOCH,
            False,
            id="an eviction that is over is forgotten",
        ),
    ],
)
def test_since_when_it_queues(conditions: list[dict[str, Any]], queued: float, evicted: bool) -> None:
    got = convert.workload(wire_workload(status={"conditions": conditions}), cluster_queue="cq")
    assert (got.queued, got.evicted) == (queued, evicted)


ADMITTED = model.Admission(
    "cq",
    (
        model.PodSetAdmission(
            "main",
            {"cpu": "f", "memory": "f"},
            {"cpu": 4500, "memory": 3 << 30},
            3,
            model.Assignment(
                ("block", "rack"), (model.DomainCount(("b1", "r1"), 2), model.DomainCount(("b1", "r2"), 1))
            ),
        ),
        model.PodSetAdmission("other", {}, {}, 1),
    ),
)


def test_an_admission_reads_back_as_it_was_decided() -> None:
    wire = convert_admissions.to_status(ADMITTED).to_wire()
    first = wire["podSetAssignments"][0]
    assert (first["resourceUsage"], first["count"]) == ({"cpu": "4500m", "memory": "3Gi"}, 3)
    assert "topologyAssignment" not in wire["podSetAssignments"][1]
    status = {"conditions": [condition(QUOTA_RESERVED)], "admission": wire}
    assert convert.workload(wire_workload(status=status), cluster_queue="cq").admission == ADMITTED
    lost = {"conditions": [condition(QUOTA_RESERVED, "False")], "admission": wire}
    assert convert.workload(wire_workload(status=lost), cluster_queue="cq").admission is None


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "pods", "hugepages-2Mi"]), st.integers(0, 1 << 50)
)


@settings(max_examples=examples(40), deadline=None)
@given(amounts, st.lists(st.tuples(st.sampled_from(["b", "b1", "bb"]), st.text("r12", min_size=1), st.integers(1, 9))))
def test_any_admission_reads_back(usage: dict[str, int], places: list[tuple[str, str, int]]) -> None:
    domains = tuple(model.DomainCount((block, rack), count) for block, rack, count in places)
    pod_set = model.PodSetAdmission(
        "main", dict.fromkeys(usage, "f"), usage, 1, model.Assignment(("block", "rack"), domains)
    )
    decided = model.Admission("cq", (pod_set,))
    wire = convert_admissions.to_status(decided).to_wire()
    status = {"conditions": [condition(QUOTA_RESERVED)], "admission": wire}
    assert convert.workload(wire_workload(status=status), cluster_queue="cq").admission == decided


def test_pods_that_are_done_are_asked_for_no_more() -> None:
    pod_set = {"name": "main", "count": 5, "minCount": 1, "template": template(cpu="1")}
    status = {"reclaimablePods": [{"name": "main", "count": 2}, {"name": "other", "count": 9}]}
    [got] = convert.workload(wire_workload(pod_set, status=status), cluster_queue="cq").pod_sets
    assert (got.count, got.min_count) == (3, 1)


def test_pods_that_are_done_give_quota_back_and_keep_their_places() -> None:
    domains = {
        "levels": ["rack"],
        "slices": [{"domainCount": 1, "podCounts": {"universal": 4}, "valuesPerLevel": [{"universal": "r"}]}],
    }
    got = {
        "name": "main", "count": 4, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "6"}, "topologyAssignment": domains,
    }  # fmt: skip
    status = {
        "conditions": [condition(QUOTA_RESERVED)],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [got]},
        "reclaimablePods": [{"name": "main", "count": 3}],
    }
    pod_set = {"name": "main", "count": 5, "template": template(cpu="1500m")}
    taken = convert.workload(wire_workload(pod_set, status=status), cluster_queue="cq")
    assert taken.admission is not None
    assert taken.admission.usage() == {("f", "cpu"): 1500}
    [placed] = taken.admission.pod_sets
    assert placed.assignment is not None
    assert (taken.pod_sets[0].count, placed.count, placed.assignment.domains[0].count) == (5, 4, 4)


def test_what_quota_counts_is_not_what_the_nodes_give() -> None:
    rules = ResourceRules(("net.",), (Transformation("gpu", {"credits": Fraction(3)}, retain=False),))
    asked = template({"containers": [{"resources": {"requests": {"cpu": "1", "gpu": "2", "net.fast": "1"}}}]})
    pod_set = {"name": "main", "count": 1, "template": asked}
    [got] = convert.workload(wire_workload(pod_set), cluster_queue="cq", rules=rules).pod_sets
    assert got.requests == {"cpu": 1000, "gpu": 2, "net.fast": 1}
    assert got.charged == {"cpu": 1000, "credits": 6}


@pytest.mark.parametrize(
    ("given", "weight"),
    [(None, 1000), ("0.5", 500), (3, 3000), (0, 0), ("1u", 1)],
    ids=["none", "half", "3", "0", "tiny"],
)
def test_only_a_weight_of_nothing_is_nothing(given: str | int | None, weight: int) -> None:
    wire = queues.Cohort.from_wire({"metadata": {"name": "c"}, "spec": {"fairSharing": {"weight": given}}})
    assert convert_queues.cohort(wire).weight_milli == weight


def test_a_cluster_queue() -> None:
    spec = {
        "cohortName": "team",
        "queueingStrategy": "StrictFIFO",
        "stopPolicy": "Hold",
        "fairSharing": {"weight": "0.5"},
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 3},
        },
        "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "f",
                        "resources": [
                            {"name": "cpu", "nominalQuota": "1500m", "borrowingLimit": 1, "lendingLimit": "0"},
                            {"name": "memory", "nominalQuota": "1Gi"},
                        ],
                    }
                ],
            }
        ],
    }
    wire = queues.ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": spec})
    quotas = {"cpu": model.Quota(1500, 1000, 0), "memory": model.Quota(1 << 30)}
    assert convert_queues.cluster_queue(wire, inactive="is stopped") == model.ClusterQueue(
        "cq",
        (model.ResourceGroup(("cpu", "memory"), (model.FlavorQuotas("f", quotas),)),),
        "team",
        model.QueueingStrategy.STRICT_FIFO,
        model.StopPolicy.HOLD,
        model.FungibilityPolicy(when_can_borrow="TryNextFlavor"),
        model.PreemptionPolicy("Any", "Never", "LowerPriority", 3),
        500,
        ("check",),
        "is stopped",
    )
    empty = convert_queues.cluster_queue(queues.ClusterQueue.from_wire({"metadata": {"name": "cq"}}))
    assert empty == model.ClusterQueue("cq")


def test_a_cohort() -> None:
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 2}]}],
    }
    wire = queues.Cohort.from_wire(
        {"metadata": {"name": "c"}, "spec": {"parentName": "root", "resourceGroups": [group]}}
    )
    assert convert_queues.cohort(wire) == model.Cohort("c", "root", {("f", "cpu"): model.Quota(2000)})


LEVELS = topology.Topology.from_wire(
    {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]}}
)


@pytest.mark.parametrize(
    ("spec", "named", "name", "levels"),
    [
        pytest.param({}, None, None, None, id="no topology"),
        pytest.param({"topologyName": "t"}, LEVELS, "t", ("block", "rack"), id="by name"),
        pytest.param({"topologyName": "t"}, None, "t", None, id="named but missing"),
        pytest.param({"topology": {"levels": ["rack"]}}, None, "f", ("rack",), id="inline"),
    ],
)
def test_the_topology_of_a_flavor(
    spec: dict[str, Any], named: topology.Topology | None, name: str | None, levels: tuple[str, ...] | None
) -> None:
    got = convert_queues.flavor(topology.ResourceFlavor.from_wire({"metadata": {"name": "f"}, "spec": spec}), named)
    assert (got.name, got.topology, got.levels) == ("f", name, levels)


def test_a_flavors_nodes() -> None:
    spec = {
        "nodeLabels": {"pool": "p"},
        "nodeTaints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
    }
    got = convert_queues.flavor(topology.ResourceFlavor.from_wire({"metadata": {"name": "f"}, "spec": spec}), None)
    assert got.node_labels == {"pool": "p"}
    assert got.taints == (model.Taint(key="k", value="v", effect="NoSchedule"),)
    assert got.tolerations == (model.Toleration(key="k", operator="Exists", toleration_seconds=3),)


def node(ready: str, **spec: Any) -> pods.Node:
    wire = {
        "metadata": {"name": "n", "labels": {"rack": "r"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "3900m", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return msgspec.convert(wire, pods.Node)


@pytest.mark.parametrize(
    ("given_node", "usable"),
    [
        pytest.param(node("True"), True, id="ready"),
        pytest.param(node("Unknown"), False, id="not ready"),
        pytest.param(node("True", unschedulable=True), False, id="cordoned"),
    ],
)
def test_a_node(given_node: pods.Node, usable: bool) -> None:
    assert convert_nodes.node(given_node) == model.Node("n", {"rack": "r"}, {"cpu": 3900, "pods": 110}, (), usable)


def pod(phase: str = "Running", node_name: str = "n", **annotations: str) -> pods.Pod:
    names = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    wire = {
        "metadata": {"name": "p", "namespace": "ns", "annotations": names, "labels": {"kueue.x-k8s.io/podset": "main"}},
        "spec": {"nodeName": node_name, **template(cpu="1")["spec"]},
        "status": {"phase": phase},
    }
    return msgspec.convert(wire, pods.Pod)


@pytest.mark.parametrize(
    ("given_pod", "workload"),
    [
        pytest.param(pod(), None, id="a stranger"),
        pytest.param(pod(workload="w"), "ns/w", id="one of ours"),
        pytest.param(pod(topology_workload="w"), "ns/w", id="one of ours, by the first form"),
    ],
)
def test_a_bound_pod(given_pod: pods.Pod, workload: str | None) -> None:
    facts = model.PodFacts("ns", tuple(given_pod.metadata.labels.items()))
    assert convert_nodes.bound_pod(given_pod) == model.BoundPod(
        "ns/p", "n", {"cpu": 1000}, workload, "main", facts=facts
    )


@pytest.mark.parametrize(
    "gone", [pod("Succeeded"), pod("Failed"), pod(node_name="")], ids=["done", "failed", "unbound"]
)
def test_a_pod_that_holds_no_node(gone: pods.Pod) -> None:
    assert convert_nodes.bound_pod(gone) is None


@pytest.mark.parametrize(
    ("pod_set", "field"),
    [
        pytest.param({"template": template(cpu="much")}, "spec.podSets[0].template.spec: requests[cpu]", id="quantity"),
        pytest.param({"template": template(cpu="-1")}, "spec.podSets[0].template.spec: requests[cpu]", id="negative"),
        pytest.param({"template": {"spec": {"containers": 3}}}, "spec.podSets[0].template", id="shape"),
    ],
)
def test_a_bad_pod_set_is_named_with_its_workload(pod_set: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        convert.workload(wire_workload({"name": "main", "count": 1, **pod_set}), cluster_queue="cq")
    assert (caught.value.obj, caught.value.field) == ("Workload ns/w", field)


def test_a_bad_quota_is_named_with_its_queue() -> None:
    resources = [{"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": 1, "lendingLimit": "-1"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "f", "resources": resources}]}
    wire = queues.ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": {"resourceGroups": [group]}})
    with pytest.raises(InvalidObject) as caught:
        convert_queues.cluster_queue(wire)
    assert str(caught.value) == (
        "ClusterQueue cq: spec.resourceGroups[0].flavors[0].resources[1].lendingLimit: '-1': "
        "must be greater than or equal to 0"
    )


def test_a_bad_node_and_a_bad_pod_are_named() -> None:
    bad = msgspec.convert({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "x"}}}, pods.Node)
    with pytest.raises(InvalidObject, match=r"^Node n: status\.allocatable\[cpu\]: 'x'"):
        convert_nodes.node(bad)
    spec = {"nodeName": "n", "overhead": {"cpu": "x"}}
    with pytest.raises(InvalidObject, match=r"^Pod ns/p: spec: overhead\[cpu\]: 'x'"):
        convert_nodes.bound_pod(msgspec.convert({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}, pods.Pod))


# ---- placement: constraints, relaxation, profile


def asking(count: int = 8, **request: Any) -> dict[str, Any]:
    return {"name": "main", "count": count, "template": template(cpu="1"), "topologyRequest": request}


def ask_of(pod_set: dict[str, Any]) -> model.TopologyRequest:
    topology = convert.workload(wire_workload(pod_set), cluster_queue="cq").pod_sets[0].topology
    assert topology is not None
    return topology


def test_constraints_and_the_period_come_with_the_request() -> None:
    shaped = [
        {"level": "rack", "type": "spread", "partitions": 2, "hard": True},
        {"level": "node", "min": 2, "max": 4, "factor": 2},
    ]
    topology = ask_of(asking(required="block", constraints=shaped, relaxAfterSeconds=600))
    assert (topology.required, topology.unconstrained, topology.relax_after) == ("block", None, 600)
    assert topology.constraints == (
        model.LevelConstraint("rack", model.Spreading.SPREAD, partitions=2, hard=True),
        model.LevelConstraint("node", minimum=2, maximum=4, factor=2),
    )


def test_constraints_alone_shape_what_may_lie_anywhere() -> None:
    topology = ask_of(asking(constraints=[{"level": "rack"}]))
    assert (topology.unconstrained, topology.explicit) == (True, True)


@pytest.mark.parametrize(
    ("constraint", "said"),
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
def test_contradictions_are_named_by_object_and_field(constraint: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        ask_of(asking(constraints=[{"level": "rack", **constraint}]))
    assert str(caught.value).startswith(f"Workload ns/w: spec.podSets[0].topologyRequest.constraints[rack]{said}")


@pytest.mark.parametrize("profile", model.Profile)
def test_the_profile_is_the_annotation_of_workload_and_queue(profile: model.Profile) -> None:
    annotations = {PLACEMENT_PROFILE: profile.value}
    given = wire_workload(asking())
    given = given.model_copy(update={"metadata": given.metadata.model_copy(update={"annotations": annotations})})
    assert convert.workload(given, cluster_queue="cq").profile is profile
    queue = queues.ClusterQueue.from_wire({"metadata": {"name": "cq", "annotations": annotations}})
    assert convert_queues.cluster_queue(queue).profile is profile


def test_no_other_profile_is_taken() -> None:
    queue = queues.ClusterQueue.from_wire({"metadata": {"name": "cq", "annotations": {PLACEMENT_PROFILE: "Best"}}})
    with pytest.raises(InvalidObject, match=r"ClusterQueue cq: .*'Best': must be one of Exact, Compatible, LeastFree"):
        convert_queues.cluster_queue(queue)


@pytest.mark.parametrize(
    "template", [{"spec": []}, {"metadata": 5}, {"metadata": {"labels": []}}, {"spec": {"affinity": 1}}]
)
def test_a_template_of_a_wrong_shape_is_read_or_refused_but_never_ends_the_reader(template: dict[str, object]) -> None:
    read = workloads.Workload.from_wire(
        {
            "metadata": {"name": "w", "namespace": "ns"},
            "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
        }
    )
    assert convert.same_for_all(read.spec)
    with contextlib.suppress(InvalidObject):
        convert.pod_sets(read)


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
