"""Conversion of ClusterQueues, Cohorts and ResourceFlavors, and how bad input is named."""

from __future__ import annotations

from typing import Any

import pytest

from admission.engine import model
from admission.engine.convert import convert_queues
from api import queues, topology
from api.errors import InvalidObject


@pytest.mark.parametrize(
    ("value", "weight"),
    [(None, 1000), ("0.5", 500), (3, 3000), (0, 0), ("1u", 1)],
    ids=["none", "half", "3", "0", "tiny"],
)
def test_only_a_weight_of_nothing_is_nothing(value: str | int | None, weight: int) -> None:
    wire = queues.Cohort.from_wire({"metadata": {"name": "c"}, "spec": {"fairSharing": {"weight": value}}})
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
