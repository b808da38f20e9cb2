"""Conversion of Workloads: what they become in the engine, what comes back, and how bad input is named."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine import model
from admission.engine.convert import convert_admissions
from admission.engine.convert import convert_workloads as convert
from admission.engine.quota.charging import ResourceRules, Transformation
from api import workloads
from api.errors import InvalidObject
from api.names import QUOTA_RESERVED
from tests.admission.engine.wire import LATER, template, wire_workload
from tests.budgets import examples

EPOCH = 1767225600.0


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
        termination=30.0,
    )


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        pytest.param((), 0.0, id="no pod sets"),
        pytest.param((None,), 30.0, id="what Kubernetes writes where nothing is written"),
        pytest.param((0,), 0.0, id="none"),
        pytest.param((600, 5), 600.0, id="the longest"),
        pytest.param((-1,), 0.0, id="negative"),
        pytest.param(("soon",), 30.0, id="unreadable"),
        pytest.param((True,), 30.0, id="no number"),
    ],
)
def test_the_time_that_pods_have_to_end(written: tuple[object, ...], seconds: float) -> None:
    specs = [{} if each is None else {"terminationGracePeriodSeconds": each} for each in written]
    pod_sets = [{"name": f"p{n}", "count": 1, "template": template(spec, cpu="1")} for n, spec in enumerate(specs)]
    assert convert.workload(wire_workload(*pod_sets), cluster_queue="cq").termination == seconds


def test_a_feature_gets_its_annotations_and_no_longer_text_than_it_needs() -> None:
    wire = wire_workload()
    annotations = {"stowage.dev/note": "x" * 5000, "stowage.dev/other": "y"}
    tenant = wire.model_copy(update={"metadata": wire.metadata.model_copy(update={"annotations": annotations})})
    read = convert.workload(tenant, cluster_queue="cq", annotations=("stowage.dev/note", "stowage.dev/absent"))
    assert read.annotation("stowage.dev/note") == "x" * convert.LONGEST_ANNOTATION
    assert read.annotation("stowage.dev/absent") is None
    assert read.annotation("stowage.dev/other") is None


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


@pytest.mark.parametrize(
    ("count", "reclaims", "charged"),
    [
        pytest.param(1, True, 3000, id="one-is-done"),
        pytest.param(4, True, 0, id="all-are-done"),
        pytest.param(7, True, 4000, id="more-than-there-are"),
        pytest.param(1, False, 4000, id="turned-off"),
    ],
)
def test_reclaimable_pods_never_exceed_the_pod_set(count: int, reclaims: bool, charged: int) -> None:
    """A count that cannot be true releases nothing, no matter who wrote it; neither does any count where the setting is off."""
    got = {"name": "main", "count": 4, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "4"}}
    status = {
        "conditions": [condition(QUOTA_RESERVED)],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [got]},
        "reclaimablePods": [{"name": "main", "count": count}],
    }
    pod_set = {"name": "main", "count": 4, "template": template(cpu="1")}
    rules = ResourceRules(reclaims=reclaims)
    taken = convert.workload(wire_workload(pod_set, status=status), cluster_queue="cq", rules=rules)
    assert taken.admission is not None
    assert taken.admission.usage().get(("f", "cpu"), 0) == charged
    del status["conditions"]
    [waits] = convert.workload(wire_workload(pod_set, status=status), cluster_queue="cq", rules=rules).pod_sets
    assert waits.count * 1000 == charged


def test_the_places_of_a_pod_set_of_which_all_pods_are_done_are_free() -> None:
    domains = {
        "levels": ["rack"],
        "slices": [{"domainCount": 1, "podCounts": {"universal": 2}, "valuesPerLevel": [{"universal": "r"}]}],
    }
    parts = [
        {
            "name": name,
            "count": 2,
            "flavors": {"cpu": "f"},
            "resourceUsage": {"cpu": "2"},
            "topologyAssignment": domains,
        }
        for name in ("driver", "workers")
    ]
    status = {
        "conditions": [condition(QUOTA_RESERVED)],
        "admission": {"clusterQueue": "cq", "podSetAssignments": parts},
        "reclaimablePods": [{"name": "driver", "count": 2}, {"name": "workers", "count": 1}],
    }
    pod_sets = [{"name": name, "count": 2, "template": template(cpu="1")} for name in ("driver", "workers")]
    taken = convert.workload(wire_workload(*pod_sets, status=status), cluster_queue="cq").admission
    assert taken is not None
    places = [sum(d.count for d in each.assignment.domains) if each.assignment else None for each in taken.pod_sets]
    assert places == [0, 2]


def test_what_quota_counts_is_not_what_the_nodes_give() -> None:
    rules = ResourceRules(("net.",), (Transformation("gpu", {"credits": Fraction(3)}, retain=False),))
    asked = template({"containers": [{"resources": {"requests": {"cpu": "1", "gpu": "2", "net.fast": "1"}}}]})
    pod_set = {"name": "main", "count": 1, "template": asked}
    [got] = convert.workload(wire_workload(pod_set), cluster_queue="cq", rules=rules).pod_sets
    assert got.requests == {"cpu": 1000, "gpu": 2, "net.fast": 1}
    assert got.charged == {"cpu": 1000, "credits": 6}


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
