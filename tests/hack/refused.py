"""Objects and changes that must be refused, each with the words: by the generated schemas and by the real API server (e2e).

Of REFUSED: object, message. Of UPDATES: object, the change, message; where that is empty the change is taken.
"""

from __future__ import annotations

import pytest

from tests.hack.objects import (
    BLOCK,
    HOST,
    POD_CLASS,
    RACK,
    SLICE,
    WORKLOAD_CLASS,
    assigned,
    cluster_queue,
    edit,
    elastic_quota,
    flavor,
    group,
    make,
    pod_group,
    pod_set,
    quota,
    reserved_workload,
    topology,
    workload,
)

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
