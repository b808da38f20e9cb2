"""v1beta1 and v1beta2 by Kueue's rules: each renamed field, what is dropped, round trips, and bad input."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.conversion import V1BETA1, V1BETA2, convert
from api.errors import InvalidObject
from api.names import CONVERSION_PROBLEM, GROUP, HOSTNAME_LABEL
from api.topology_assignment import MAX_DOMAINS

Obj = dict[str, Any]


def obj(kind: str, version: str, **parts: Any) -> Obj:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "x", "uid": "u"}, **parts}


def assigned(assignment: Any) -> Obj:
    pod_set = {"name": "main", "count": 2, "topologyAssignment": assignment}
    return {"admission": {"clusterQueue": "cq", "podSetAssignments": [pod_set]}}


PLAIN = {
    "levels": [HOSTNAME_LABEL],
    "domains": [{"values": ["node-b"], "count": 1}, {"values": ["node-a"], "count": 2}],
}
COMPACT = {
    "levels": [HOSTNAME_LABEL],
    "slices": [
        {
            "domainCount": 2,
            "valuesPerLevel": [{"individual": {"prefix": "node-", "roots": ["b", "a"]}}],
            "podCounts": {"individual": [1, 2]},
        }
    ],
}
BOTH_WAYS = [
    pytest.param("ClusterQueue", {"spec": {"cohort": "all"}}, {"spec": {"cohortName": "all"}}, id="cohort"),
    pytest.param(
        "LocalQueue",
        {"status": {"flavorUsage": [{"name": "gpu"}], "flavorsReservation": [{"name": "gpu"}]}},
        {"status": {"flavorsUsage": [{"name": "gpu"}], "flavorsReservation": [{"name": "gpu"}]}},
        id="flavor-usage",
    ),
    pytest.param(
        "ClusterQueue",
        {"status": {"flavorsUsage": [{"name": "gpu"}]}},
        {"status": {"flavorsUsage": [{"name": "gpu"}]}},
        id="a-cluster-queue-had-the-name-before",
    ),
    pytest.param(
        "Workload",
        {"spec": {"priority": 5, "priorityClassSource": f"{GROUP}/workloadpriorityclass", "priorityClassName": "high"}},
        {
            "spec": {
                "priority": 5,
                "priorityClassRef": {"group": GROUP, "kind": "WorkloadPriorityClass", "name": "high"},
            }
        },
        id="workload-priority-class",
    ),
    pytest.param(
        "Workload",
        {"spec": {"priorityClassSource": "scheduling.k8s.io/priorityclass", "priorityClassName": "high"}},
        {"spec": {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}},
        id="pod-priority-class",
    ),
    pytest.param(
        "Workload",
        {"status": {"accumulatedPastExexcutionTimeSeconds": 7}},
        {"status": {"accumulatedPastExecutionTimeSeconds": 7}},
        id="misspelt-time",
    ),
    pytest.param("Workload", {"status": assigned(PLAIN)}, {"status": assigned(COMPACT)}, id="topology-assignment"),
    *(
        pytest.param(kind, {"spec": {"field": [1]}}, {"spec": {"field": [1]}}, id=f"{kind}-is-the-same")
        for kind in ("Topology", "ResourceFlavor", "Cohort", "AdmissionCheck", "WorkloadPriorityClass")
    ),
]


@pytest.mark.parametrize(("kind", "old", "new"), BOTH_WAYS)
def test_each_field_goes_both_ways(kind: str, old: Obj, new: Obj) -> None:
    older, newer = obj(kind, V1BETA1, **old), obj(kind, V1BETA2, **new)
    before = copy.deepcopy(older)
    assert convert(older, V1BETA2) == newer
    assert convert(newer, V1BETA1) == older
    assert older == before, "the given object is not changed"
    assert convert(older, V1BETA1) == older
    assert convert(newer, V1BETA2) == newer


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        pytest.param(
            "ClusterQueue",
            {"spec": {"admissionChecks": ["a", "b"]}},
            {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}},
            id="admission-checks",
        ),
        pytest.param(
            "ClusterQueue",
            {"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}},
            {"spec": {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}},
            id="old-fungibility",
        ),
        pytest.param(
            "ClusterQueue",
            {"spec": {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}},
            {"spec": {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}},
            id="new-fungibility",
        ),
        pytest.param("ClusterQueue", {"status": {"pendingWorkloadsStatus": {}}}, {"status": {}}, id="pending-status"),
        pytest.param("LocalQueue", {"status": {"flavors": [{}]}}, {"status": {}}, id="flavors-of-a-local-queue"),
        pytest.param("AdmissionCheck", {"spec": {"retryDelayMinutes": 15}}, {"spec": {}}, id="retry-delay"),
        pytest.param(
            "Workload", {"spec": {"priorityClassSource": "", "priorityClassName": "x"}}, {"spec": {}}, id="no-source"
        ),
    ],
)
def test_what_only_v1beta1_has(kind: str, old: Obj, new: Obj) -> None:
    assert convert(obj(kind, V1BETA1, **old), V1BETA2) == obj(kind, V1BETA2, **new)


def test_layers_of_slices_are_dropped_on_the_way_down() -> None:
    request = {"required": "rack", "podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 2}]}
    newer = obj("Workload", V1BETA2, spec={"podSets": [{"name": "main", "topologyRequest": request}]})
    down = convert(newer, V1BETA1)
    assert down["spec"]["podSets"] == [{"name": "main", "topologyRequest": {"required": "rack"}}]
    assert newer["spec"]["podSets"][0]["topologyRequest"] == request


@pytest.mark.parametrize(
    ("version", "assignment"),
    [
        pytest.param(V1BETA1, {"levels": ["a", "b"], "domains": [{"values": ["x"], "count": 1}]}, id="too-few-values"),
        pytest.param(V1BETA1, {"levels": ["a"], "domains": [{"count": 1}]}, id="no-values"),
        pytest.param(V1BETA1, {"domains": 3}, id="no-levels"),
        pytest.param(V1BETA1, "text", id="text"),
        pytest.param(V1BETA1, {"levels": [], "domains": [{"values": [], "count": 1}] * 2}, id="no-level"),
        pytest.param(V1BETA1, {"levels": ["a"], "domains": [{"values": ["x"], "count": 10**30}]}, id="count"),
        pytest.param(
            V1BETA1,
            {"levels": [HOSTNAME_LABEL], "domains": [{"values": ["-" * 60_000], "count": 1}] * 2},
            id="thousands-of-prefixes",
        ),
        pytest.param(
            V1BETA2,
            {
                "levels": ["a"],
                "slices": [
                    {"domainCount": n, "valuesPerLevel": [{"universal": "x"}], "podCounts": {"universal": 1}}
                    for n in (2_000_000_000, -1_999_999_999)
                ],
            },
            id="counts-that-cancel-each-other",
        ),
        pytest.param(V1BETA2, {"levels": ["a"], "slices": [{"domainCount": "x"}]}, id="no-number"),
        pytest.param(
            V1BETA2,
            {
                "levels": ["a"],
                "slices": [
                    {
                        "domainCount": MAX_DOMAINS,
                        "valuesPerLevel": [{"universal": "x"}],
                        "podCounts": {"universal": 1},
                    }
                ]
                * 1000,
            },
            id="few-bytes-many-domains",
        ),
    ],
)
def test_an_assignment_that_cannot_be_read_is_left_out_and_named(version: str, assignment: Any) -> None:
    other = V1BETA2 if version == V1BETA1 else V1BETA1
    out = convert(obj("Workload", version, spec={"queueName": "q"}, status=assigned(assignment)), other)
    assert out["status"]["admission"]["podSetAssignments"] == [{"name": "main", "count": 2}]
    said = out["metadata"]["annotations"][CONVERSION_PROBLEM]
    assert said.startswith("status.admission.podSetAssignments[0].topologyAssignment cannot be read: ")
    assert out["spec"] == {"queueName": "q"}, "the rest is converted"


@pytest.mark.parametrize("part", ["spec", "status"])
@pytest.mark.parametrize("kind", ["Workload", "ClusterQueue", "LocalQueue", "AdmissionCheck"])
@pytest.mark.parametrize("value", [None, [], "text", 3, {"admission": 1, "podSets": {}, "flavorFungibility": 1}])
def test_parts_of_other_types_fail_nothing(kind: str, part: str, value: Any) -> None:
    for version, other in ((V1BETA1, V1BETA2), (V1BETA2, V1BETA1)):
        assert convert(obj(kind, version, **{part: value}), other)["apiVersion"] == f"{GROUP}/{other}"


@pytest.mark.parametrize(
    "given_",
    [
        pytest.param({"apiVersion": "batch/v1", "kind": "Job"}, id="another-group"),
        pytest.param({"apiVersion": f"{GROUP}/v1alpha1", "kind": "Topology"}, id="another-version"),
        pytest.param({}, id="no-object"),
    ],
)
def test_other_objects_are_refused(given_: Obj) -> None:
    with pytest.raises(InvalidObject, match="apiVersion"):
        convert(given_, V1BETA2)


hosts = st.lists(st.sampled_from([f"{pool}-{n}" for pool in ("a", "bb", "c-d") for n in range(12)]), unique=True)


@given(hosts=hosts.filter(bool), counts=st.lists(st.integers(1, 9), min_size=40, max_size=40))
def test_domains_keep_their_order_both_ways(hosts: list[str], counts: list[int]) -> None:
    domains = [{"values": ["r", host], "count": count} for host, count in zip(hosts, counts, strict=False)]
    older = obj("Workload", V1BETA1, status=assigned({"levels": ["rack", HOSTNAME_LABEL], "domains": domains}))
    assert convert(convert(older, V1BETA2), V1BETA1) == older
