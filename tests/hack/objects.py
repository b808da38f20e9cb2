"""Objects of every kind: some that must be taken as they are, some that must be refused and in which words.

Used against the generated schemas here and against the real API server in tests/e2e.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest

Obj = dict[str, Any]
Edit = Callable[[Obj], Obj]

HOST = "kubernetes.io/hostname"
RACK = "example.com/rack"
BLOCK = "example.com/block"


def make(kind: str, name: str, namespace: str = "", **fields: Any) -> Obj:
    """An object of our group, unless another is given."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, **fields}


def elastic_quota(group: str = "scheduling.x-k8s.io", **spec: Any) -> Obj:
    return make("ElasticQuota", "quota", "default", spec=spec) | {"apiVersion": f"{group}/v1alpha1"}


def pod_group(group: str = "scheduling.x-k8s.io", **spec: Any) -> Obj:
    return make("PodGroup", "gang", "default", spec=spec) | {"apiVersion": f"{group}/v1alpha1"}


def topology(*levels: str, name: str = "tree") -> Obj:
    return make("Topology", name, spec={"levels": [{"nodeLabel": level} for level in levels]})


def flavor(**spec: Any) -> Obj:
    return make("ResourceFlavor", "flavor", spec=spec)


def quota(resource: str = "cpu", **limits: Any) -> Obj:
    return {"name": resource, "nominalQuota": 4, **limits}


def group(*resources: Obj, covered: tuple[str, ...] = ("cpu",)) -> Obj:
    return {"coveredResources": list(covered), "flavors": [{"name": "default", "resources": list(resources)}]}


def cluster_queue(name: str = "cq", **spec: Any) -> Obj:
    return make("ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": [group(quota())], **spec})


def pod_set(name: str = "main", **fields: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"name": name, "count": 3, "template": template, **fields}


def workload(name: str = "job", *pod_sets: Obj, **spec: Any) -> Obj:
    sets = list(pod_sets) or [pod_set()]
    return make("Workload", name, "default", spec={"queueName": "queue", "podSets": sets, **spec})


def condition(kind: str, status: str = "True") -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": kind,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


SLICE = {
    "domainCount": 2,
    "valuesPerLevel": [{"individual": {"prefix": "n-", "roots": ["1", "2"]}}],
    "podCounts": {"individual": [1, 2]},
}


def assigned(*slices: Obj, levels: tuple[str, ...] = (HOST,)) -> Obj:
    assignment = {"levels": list(levels), "slices": list(slices)}
    return {
        "name": "main",
        "count": 3,
        "flavors": {"cpu": "default"},
        "resourceUsage": {"cpu": "3"},
        "topologyAssignment": assignment,
    }


def reserved_workload(name: str = "job", *assignments: Obj, admitted: bool = False, **spec: Any) -> Obj:
    given = list(assignments) or [assigned(SLICE)]
    conditions = [condition("QuotaReserved")] + ([condition("Admitted")] if admitted else [])
    status = {"conditions": conditions, "admission": {"clusterQueue": "cq", "podSetAssignments": given}}
    return workload(name, **spec) | {"status": status}


def merged(base: Any, change: Any) -> Any:
    """A JSON merge patch; None removes."""
    if not isinstance(change, Mapping):
        return deepcopy(change)
    kept = {k: v for k, v in base.items() if k not in change} if isinstance(base, Mapping) else {}
    put = {k: merged(base.get(k) if isinstance(base, Mapping) else None, v) for k, v in change.items() if v is not None}
    return deepcopy(kept) | put


def edit(**change: Any) -> Edit:
    """An update as a merge patch."""

    def apply(obj: Obj) -> Obj:
        result: Obj = merged(obj, change)
        return result

    return apply


def contains(whole: Any, part: Any) -> bool:
    """Whether everything in `part` is in `whole`, at the same place."""
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(k in whole and contains(whole[k], v) for k, v in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(contains(w, p) for w, p in zip(whole, part, strict=True))
    return bool(whole == part)


GATED = {"migration": {"mode": "TryPreferredFlavors", "constraints": {"lastAcceptableFlavorName": "default"}}}
WORKLOAD_CLASS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}

VALID = [
    pytest.param(topology(BLOCK, RACK, HOST), id="topology with hostname last"),
    pytest.param(make("ResourceFlavor", "empty"), id="flavor without spec"),
    pytest.param(flavor(nodeLabels={"a": "b"}, topologyName="tree"), id="flavor by topology name"),
    pytest.param(flavor(nodeLabels={"a": "b"}, topology={"levels": [BLOCK, RACK]}), id="flavor with inline levels"),
    pytest.param(
        flavor(
            nodeTaints=[{"key": "gpu", "value": "x", "effect": "NoSchedule"}],
            tolerations=[
                {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"operator": "Exists"},
                {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
            ],
        ),
        id="flavor with taints and tolerations",
    ),
    pytest.param(
        cluster_queue(
            cohortName="all",
            queueingStrategy="StrictFIFO",
            resourceGroups=[
                group(
                    quota("cpu", nominalQuota="1500m", borrowingLimit="2", lendingLimit=0),
                    quota("memory", nominalQuota="36Gi"),
                    covered=("cpu", "memory"),
                ),
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [
                        {"name": "a", "resources": [quota("nvidia.com/gpu")]},
                        {"name": "b.c", "resources": [quota("nvidia.com/gpu")]},
                    ],
                },
            ],
            namespaceSelector={
                "matchLabels": {"team": "a"},
                "matchExpressions": [{"key": "x", "operator": "In", "values": ["1"]}],
            },
            flavorFungibility={
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
                "preference": "PreemptionOverBorrowing",
            },
            preemption={
                "reclaimWithinCohort": "Any",
                "withinClusterQueue": "LowerOrNewerEqualPriority",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
            },
            admissionChecksStrategy={"admissionChecks": [{"name": "c1"}, {"name": "c2", "onFlavors": ["a"]}]},
            stopPolicy="HoldAndDrain",
            fairSharing={"weight": "500m"},
            admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"},
        ),
        id="queue with every policy",
    ),
    pytest.param(cluster_queue(concurrentAdmissionPolicy=GATED), id="queue with concurrent admission"),
    pytest.param(
        cluster_queue()
        | {
            "status": {
                "conditions": [condition("Active")],
                "flavorsReservation": [
                    {"name": "default", "resources": [{"name": "cpu", "total": "1", "borrowed": 0}]}
                ],
                "flavorsUsage": [],
                "pendingWorkloads": 1,
                "reservingWorkloads": 2,
                "admittedWorkloads": 3,
                "fairSharing": {"weightedShare": 9223372036854775807},
            }
        },
        id="queue with status",
    ),
    pytest.param(
        make("LocalQueue", "lq", "default", spec={"clusterQueue": "cq", "stopPolicy": "Hold", "fairSharing": {}}),
        id="local queue",
    ),
    pytest.param(make("Cohort", "empty"), id="cohort without spec"),
    pytest.param(
        make("Cohort", "co", spec={"parentName": "root", "resourceGroups": [group(quota(borrowingLimit=1))]}),
        id="cohort with quota and parent",
    ),
    pytest.param(
        elastic_quota(min={"cpu": "2", "nvidia.com/gpu": "4"}, max={"nvidia.com/gpu": "8"}), id="elastic quota"
    ),
    pytest.param(elastic_quota("scheduling.sigs.k8s.io"), id="elastic quota without limits, in the older group"),
    pytest.param(
        pod_group(minMember=5, scheduleTimeoutSeconds=60, minResources={"nvidia.com/gpu": 8, "cpu": "500m"}),
        id="pod group",
    ),
    pytest.param(pod_group("scheduling.sigs.k8s.io", minMember=1), id="pod group in the older group"),
    pytest.param(make("WorkloadPriorityClass", "high", value=1000, description="first"), id="priority class"),
    pytest.param(
        make(
            "AdmissionCheck",
            "check",
            spec={
                "controllerName": "example.com/c",
                "parameters": {"apiGroup": "example.com", "kind": "Config", "name": "c"},
            },
        ),
        id="admission check",
    ),
    pytest.param(
        workload(
            "every-field",
            pod_set(
                "leader",
                count=1,
                topologyRequest={"required": BLOCK, "podIndexLabel": "i", "podSetGroupName": "group"},
            ),
            pod_set(
                "workers",
                minCount=2,
                topologyRequest={
                    "preferred": RACK,
                    "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
                    "subGroupCount": 2,
                    "podSetSliceRequiredTopology": HOST,
                    "podSetSliceSize": 1,
                    "podSetGroupName": "group",
                },
            ),
            pod_set(
                "layers",
                topologyRequest={
                    "unconstrained": True,
                    "podsetSliceRequiredTopologyConstraints": [
                        {"topology": BLOCK, "size": 4},
                        {"topology": RACK, "size": 2},
                    ],
                },
            ),
            priorityClassRef=WORKLOAD_CLASS,
            priority=-5,
            active=False,
            maximumExecutionTimeSeconds=60,
            preemptionGates=[{"name": "gate"}],
        ),
        id="workload with every spec field",
    ),
    pytest.param(
        merged(
            reserved_workload(admitted=True),
            {
                "status": {
                    "requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:00Z"},
                    "reclaimablePods": [{"name": "main", "count": 1}],
                    "admissionChecks": [
                        {
                            "name": "check",
                            "state": "Retry",
                            "message": "later",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                            "requeueAfterSeconds": 5,
                            "retryCount": 1,
                            "podSetUpdates": [
                                {
                                    "name": "main",
                                    "labels": {"a": "b"},
                                    "annotations": {"a": "b"},
                                    "nodeSelector": {"a": "b"},
                                    "tolerations": [{"key": "k", "operator": "Exists"}],
                                }
                            ],
                        }
                    ],
                    "resourceRequests": [{"name": "main", "resources": {"cpu": "3"}}],
                    "accumulatedPastExecutionTimeSeconds": 7,
                    "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
                    "nominatedClusterNames": ["w1", "w2"],
                    "unhealthyNodes": [{"name": "n-1"}],
                    "preemptionGates": [
                        {"name": "gate", "position": "Open", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                    ],
                }
            },
        ),
        id="workload with every status field",
    ),
]

REFUSED = [
    pytest.param(topology(RACK, RACK), "must be unique", id="level twice"),
    pytest.param(
        topology(HOST, RACK),
        "the kubernetes.io/hostname label can only be used at the lowest level of topology",
        id="hostname not last",
    ),
    pytest.param(topology(*[f"l{i}" for i in range(17)]), "must have at most 16 items", id="17 levels"),
    pytest.param(topology("not a key"), "spec.levels[0].nodeLabel in body should match", id="level is no label key"),
    pytest.param(make("Topology", "tree", spec={}), "spec.levels: Required value", id="no levels"),
    pytest.param(elastic_quota(min={"cpu": "much"}), "spec.min.cpu in body should match", id="elastic quota of words"),
    pytest.param(pod_group(), "spec.minMember: Required value", id="pod group without a minimum"),
    pytest.param(pod_group(minMember=0), "spec.minMember in body should be greater than", id="pod group of nobody"),
    pytest.param(
        pod_group(minMember=1, scheduleTimeoutSeconds=0),
        "spec.scheduleTimeoutSeconds in body should be greater than",
        id="pod group without any time",
    ),
    pytest.param(
        flavor(topologyName="tree"),
        "at least one nodeLabel is required when topology is set",
        id="topology name without node labels",
    ),
    pytest.param(
        flavor(topology={"levels": [RACK]}),
        "at least one nodeLabel is required when topology is set",
        id="inline levels without node labels",
    ),
    pytest.param(
        flavor(nodeLabels={"a": "b"}, topologyName="tree", topology={"levels": [RACK]}),
        "topology and topologyName are mutually exclusive",
        id="both forms of topology",
    ),
    pytest.param(
        flavor(nodeLabels={"a": "b"}, topology={"levels": [RACK, RACK]}), "must be unique", id="inline level twice"
    ),
    pytest.param(
        flavor(nodeLabels={str(i): "x" for i in range(9)}), "must have at most 8 items", id="nine node labels"
    ),
    pytest.param(
        flavor(nodeTaints=[{"key": "a", "effect": "Never"}]),
        "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
        id="taint effect",
    ),
    pytest.param(
        flavor(tolerations=[{"value": "x"}]),
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
        id="toleration without key",
    ),
    pytest.param(
        flavor(tolerations=[{"key": "a", "tolerationSeconds": 5}]),
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
        id="toleration seconds",
    ),
    pytest.param(
        flavor(tolerations=[{"key": "a", "operator": "Like"}]),
        "supported toleration values: 'Equal'(default), 'Exists'",
        id="toleration operator",
    ),
    pytest.param(
        flavor(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}]),
        "a value must be empty when 'operator' is 'Exists'",
        id="toleration value",
    ),
    pytest.param(
        flavor(tolerations=[{"key": "a", "effect": "Never"}]),
        "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
        id="toleration effect",
    ),
    pytest.param(
        cluster_queue(resourceGroups=[group(quota(borrowingLimit=1))]),
        "borrowingLimit must be nil when cohort is empty",
        id="borrowing without cohort",
    ),
    pytest.param(
        cluster_queue(resourceGroups=[group(quota(), covered=("cpu", "memory"))]),
        "flavors must have the same number of resources as the coveredResources",
        id="resources and covered resources",
    ),
    pytest.param(
        cluster_queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
        "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        id="borrow without reclaim",
    ),
    pytest.param(cluster_queue(stopPolicy="Stop"), 'Unsupported value: "Stop"', id="stop policy"),
    pytest.param(cluster_queue(cohortName="Not_a_name"), "spec.cohortName", id="cohort name"),
    pytest.param(cluster_queue(resourceGroups=[group(quota(nominalQuota="many"))]), "nominalQuota", id="no quantity"),
    pytest.param(make("WorkloadPriorityClass", "x"), "value: Required value", id="priority class without value"),
    pytest.param(make("AdmissionCheck", "x", spec={}), "controllerName: Required value", id="check without controller"),
    pytest.param(
        workload("x", pod_set(minCount=4)),
        "minCount should be positive and less or equal to count",
        id="min count above count",
    ),
    pytest.param(
        workload("x", pod_set("a", minCount=1), pod_set("b", minCount=1)),
        "at most one podSet can use minCount",
        id="two min counts",
    ),
    pytest.param(workload("x", pod_set("a"), pod_set("a")), "Duplicate value", id="pod set twice"),
    pytest.param(workload("x", podSets=[]), "should have at least 1 items", id="no pod sets"),
    pytest.param(
        workload("x", priorityClassRef=WORKLOAD_CLASS),
        "priority should not be nil when priorityClassRef is set",
        id="priority class without priority",
    ),
    pytest.param(
        workload("x", priority=1, priorityClassRef=POD_CLASS | {"kind": "WorkloadPriorityClass"}),
        "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
        id="kind of the pod group",
    ),
    pytest.param(
        workload("x", priority=1, priorityClassRef=WORKLOAD_CLASS | {"kind": "PriorityClass"}),
        "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
        id="kind of our group",
    ),
    pytest.param(workload("x", maximumExecutionTimeSeconds=0), "maximumExecutionTimeSeconds", id="no time"),
    pytest.param(
        reserved_workload("x", assigned(SLICE), assigned(SLICE) | {"name": "other"}),
        "podSetAssignments must have the same number of podSets as the spec",
        id="one assignment too many",
    ),
    pytest.param(
        reserved_workload("x", assigned(SLICE, levels=(RACK, HOST))),
        "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
        id="levels and values",
    ),
    pytest.param(
        reserved_workload("x", assigned(SLICE | {"domainCount": 3})),
        "roots must have one item per domain",
        id="domains and roots",
    ),
    pytest.param(
        reserved_workload("x", assigned(SLICE | {"podCounts": {"individual": [1]}})),
        "individual pod counts must have one item per domain",
        id="domains and pod counts",
    ),
    pytest.param(
        reserved_workload("x", assigned(SLICE | {"podCounts": {"universal": 1, "individual": [1, 2]}})),
        "slices[0].podCounts: Too many: 2",
        id="both forms of pod counts",
    ),
    pytest.param(
        reserved_workload("x", assigned(SLICE | {"valuesPerLevel": [{}]})),
        "should have at least 1 properties",
        id="neither form of values",
    ),
]

_OTHER = "other"
UPDATES = [
    pytest.param(
        topology(BLOCK, RACK),
        edit(spec={"levels": [{"nodeLabel": RACK}]}),
        "levels are mutable only when kubernetes.io/hostname is the lowest level both before and after the change",
        id="levels without hostname",
    ),
    pytest.param(
        topology(BLOCK, HOST), edit(spec={"levels": [{"nodeLabel": HOST}]}), "", id="levels above the hostname"
    ),
    pytest.param(topology(BLOCK, RACK), edit(metadata={"labels": {"a": "b"}}), "", id="labels of a topology"),
    pytest.param(
        flavor(nodeLabels={"a": "b"}, topologyName="tree"),
        edit(spec={"topologyName": _OTHER}),
        "topologyName is immutable when topologyName is set",
        id="topology name",
    ),
    pytest.param(
        flavor(nodeLabels={"a": "b"}, topologyName="tree"),
        edit(spec={"topologyName": None}),
        "topologyName is immutable when topologyName is set",
        id="topology name taken away",
    ),
    pytest.param(
        flavor(nodeLabels={"a": "b"}), edit(spec={"topologyName": "tree"}), "", id="topology name for the first time"
    ),
    pytest.param(
        flavor(nodeLabels={"a": "b"}, topologyName="tree"),
        edit(spec={"nodeLabels": {"c": "d"}}),
        "",
        id="node labels of a flavor with topology",
    ),
    pytest.param(
        make("LocalQueue", "lq", "default", spec={"clusterQueue": "cq"}),
        edit(spec={"clusterQueue": _OTHER}),
        "field is immutable",
        id="queue of a local queue",
    ),
    pytest.param(
        make("AdmissionCheck", "check", spec={"controllerName": "a"}),
        edit(spec={"controllerName": _OTHER}),
        "field is immutable",
        id="controller of a check",
    ),
    pytest.param(workload(), edit(spec={"queueName": _OTHER}), "", id="queue name while waiting"),
    pytest.param(
        reserved_workload(),
        edit(spec={"queueName": _OTHER}),
        "queueName is immutable while workload quota reserved",
        id="queue name while reserved",
    ),
    pytest.param(
        reserved_workload(priority=1, priorityClassRef=WORKLOAD_CLASS),
        edit(spec={"priorityClassRef": {"name": _OTHER}}),
        "",
        id="workload priority class by another name",
    ),
    pytest.param(
        reserved_workload(priority=1, priorityClassRef=POD_CLASS),
        edit(spec={"priorityClassRef": {"name": _OTHER}}),
        "priorityClassRef.name is immutable while workload quota reserved",
        id="priority class by another name",
    ),
    pytest.param(
        reserved_workload(priority=1, priorityClassRef=POD_CLASS),
        edit(spec={"priorityClassRef": WORKLOAD_CLASS}),
        "priorityClassRef.group is immutable while workload quota reserved",
        id="priority class of another group",
    ),
    pytest.param(
        reserved_workload(priority=1, priorityClassRef=POD_CLASS),
        edit(spec={"priorityClassRef": None}),
        "priorityClassRef is immutable while workload quota reserved",
        id="priority class taken away",
    ),
    pytest.param(
        reserved_workload(admitted=True),
        edit(spec={"maximumExecutionTimeSeconds": 5}),
        "maximumExecutionTimeSeconds is immutable while admitted",
        id="time while admitted",
    ),
    pytest.param(reserved_workload(), edit(spec={"maximumExecutionTimeSeconds": 5}), "", id="time while only reserved"),
]
