"""Bad specs of Workloads that people write by hand. The vocabulary is invalid_input.py's."""

from __future__ import annotations

from api.kube.resources import WORKLOADS
from tests.scenarios.invalid_input import (
    NOT_EVALUATED,
    InvalidRow,
    Says,
    Where,
    pod_set,
    refused,
    row,
    template,
    workload,
)
from tests.scenarios.site import RACK

WEBHOOK, CONDITION, CEL, SCHEMA = Where.WEBHOOK, Where.CONDITION, Where.CEL, Where.SCHEMA


def waits(reason: str, message: str) -> Says:
    return Says(WORKLOADS, "QuotaReserved", "False", reason, message)


ADMITTED = Says(WORKLOADS, "Admitted", "True", "Admitted", "The workload is admitted")


SPECS: tuple[InvalidRow, ...] = (
    row(
        "no-pod-sets",
        SCHEMA,
        workload(podSets=[]),
        refused("spec.podSets: Invalid value: 0: spec.podSets in body should have at least 1 items"),
    ),
    row(
        "19-pod-sets",
        SCHEMA,
        workload(*(pod_set(f"p{n}") for n in range(19))),
        refused("spec.podSets: Too many: 19: must have at most 18 items"),
    ),
    row(
        "pod-set-twice",
        SCHEMA,
        workload(pod_set("a"), pod_set("a")),
        refused('spec.podSets[1]: Duplicate value: {"name":"a"}'),
    ),
    row("pod-set-name-bad", SCHEMA, workload(pod_set("Not A Name")), refused("spec.podSets[0].name")),
    row(
        "count-negative",
        SCHEMA,
        workload(pod_set(count=-1)),
        refused(
            "spec.podSets[0].count: Invalid value: -1: spec.podSets[0].count in body should be greater than or equal to 0"
        ),
    ),
    row("count-text", SCHEMA, workload(pod_set(count="two")), refused("spec.podSets[0].count")),
    row(
        "topology-request-early-form",
        WEBHOOK,
        workload(topologyRequest={"policy": "Require", "level": "rack"}),
        refused(
            "spec.topologyRequest: Forbidden: this is the early form: give each pod set what it asks for, as "
            "spec.podSets[].topologyRequest with required or preferred and the level"
        ),
    ),
    row("active-text", SCHEMA, workload(active="yes"), refused("spec.active")),
    row("queue-name-capitals", SCHEMA, workload(queueName="Bad_Queue"), refused("spec.queueName")),
    row(
        "level-too-long",
        SCHEMA,
        workload(pod_set(topologyRequest={"required": "x" * 64})),
        refused("spec.podSets[0].topologyRequest.required: Too long: may not be more than 63 bytes"),
    ),
    row(
        "fewest-above-count",
        CEL,
        workload(pod_set(minCount=2)),
        refused("minCount should be positive and less or equal to count"),
        embedded=NOT_EVALUATED,
    ),
    row(
        "two-fewest",
        CEL,
        workload(pod_set("a", 2, minCount=1), pod_set("b", 2, minCount=1)),
        refused("at most one podSet can use minCount"),
        embedded=refused("spec.podSets: Invalid value: 2: at most one podSet can use minCount"),
    ),
    row(
        "class-of-wrong-kind",
        CEL,
        workload(
            priority=1, priorityClassRef={"group": "scheduling.k8s.io", "kind": "WorkloadPriorityClass", "name": "a"}
        ),
        refused("only the PriorityClass kind is allowed for the scheduling.k8s.io group"),
        embedded=NOT_EVALUATED,
    ),
    row(
        "class-without-priority",
        CEL,
        workload(priorityClassRef={"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "a"}),
        refused("priority should not be nil when priorityClassRef is set"),
        embedded=NOT_EVALUATED,
    ),
    row(
        "workload-requests-pods",
        WEBHOOK,
        workload(pod_set(body=template({"pods": "1"}))),
        refused(
            "spec.podSets[0].template.spec.containers[0].resources.requests[pods]: Invalid value: "
            '"pods": the key is reserved for internal kueue use'
        ),
    ),
    row(
        "workload-requests-negative",
        WEBHOOK,
        workload(pod_set(body=template({"cpu": "-1"}))),
        refused(
            'spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "-1": '
            "must be greater than or equal to 0"
        ),
    ),
    row(
        "workload-requests-text",
        WEBHOOK,
        workload(pod_set(body=template({"cpu": "lots"}))),
        refused(
            "spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "
            '"lots": must be a quantity such as 2, 500m, 1.5, 64Gi or 1e3'
        ),
    ),
    row(
        "workload-requests-beyond-numbers",
        WEBHOOK,
        workload(pod_set(body=template({"cpu": "1e1000000000"}))),
        refused(
            "spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "
            '"1e1000000000": must be a quantity such as 2, 500m, 1.5, 64Gi or 1e3'
        ),
    ),
    row(
        "containers-no-list",
        WEBHOOK,
        workload(pod_set(body={"spec": {"containers": "main"}})),
        refused("spec.podSets[0].template.spec.containers: Invalid value: Expected 'array', got 'str'"),
    ),
    row(
        "requests-no-map",
        WEBHOOK,
        workload(pod_set(body={"spec": {"containers": [{"name": "m", "resources": {"requests": ["cpu"]}}]}})),
        refused(
            "spec.podSets[0].template.spec.containers[0].resources.requests: Invalid value: Expected "
            "'object', got 'array'"
        ),
    ),
    row(
        "endless-count-of-nothing",
        CONDITION,
        workload(pod_set(count=2**31 - 1, body=template({"cpu": "0"}), topologyRequest={"preferred": RACK})),
        waits(
            "TopologyPlacementFailed",
            'couldn\'t assign flavors to pod set main: topology "bad" allows to fit only 220 out of 2147483647 pod(s)',
        ),
    ),
    row(
        "endless-count",
        CONDITION,
        workload(pod_set(count=2**31 - 1, topologyRequest={"preferred": RACK})),
        waits(
            "ExceedsMaxQuota",
            (
                "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor bad, "
                "previously considered podsets requests (0) + current podset request (2147483647) > "
                "maximum capacity (1k)"
            ),
        ),
    ),
    row(
        "amount-beyond-64-bits",
        CONDITION,
        workload(pod_set(body=template({"cpu": "1e90"}), topologyRequest={"preferred": RACK})),
        waits(
            "ExceedsMaxQuota",
            (
                "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor bad, "
                "previously considered podsets requests (0) + current podset request "
                "(9223372036854775807m) > maximum capacity (1k); "
                "cpu: 9223372036854775807m asked, 32 at most on any host"
            ),
        ),
    ),
    row(
        "template-null",
        CONDITION,
        workload(pod_set(body={"spec": None})),
        waits("NoMatchingFlavor", "failed to assign flavors to pod set main: no TAS flavor assigned"),
    ),
    row(
        "toleration-key-number",
        WEBHOOK,
        workload(pod_set(body={"spec": {"tolerations": [{"key": 5}], "containers": []}})),
        refused("spec.podSets[0].template.spec.tolerations[0].key: Invalid value: Expected 'str', got 'int'"),
    ),
    row(
        "affinity-nonsense",
        WEBHOOK,
        workload(pod_set(body={"spec": {"affinity": {"nodeAffinity": []}, "containers": []}})),
        refused(
            "spec.podSets[0].template.spec.affinity.nodeAffinity: Invalid value: Expected 'object | null', got 'array'"
        ),
    ),
    row(
        "selector-operator-nonsense",
        CONDITION,
        workload(
            pod_set(
                body={
                    "spec": {
                        **template()["spec"],
                        "affinity": {
                            "nodeAffinity": {
                                "requiredDuringSchedulingIgnoredDuringExecution": {
                                    "nodeSelectorTerms": [
                                        {"matchExpressions": [{"key": RACK, "operator": "Like", "values": ["r1"]}]}
                                    ]
                                }
                            }
                        },
                    }
                }
            )
        ),
        waits(
            "TopologyPlacementFailed",
            (
                "couldn't assign flavors to pod set main: invalid affinity node selectors: "
                f"{RACK} Like [r1], reason: the operator must be one of In, NotIn, Exists, DoesNotExist, Gt, Lt"
            ),
        ),
    ),
    row(
        "selector-greater-than-text",
        CONDITION,
        workload(
            pod_set(
                body={
                    "spec": {
                        **template()["spec"],
                        "affinity": {
                            "nodeAffinity": {
                                "requiredDuringSchedulingIgnoredDuringExecution": {
                                    "nodeSelectorTerms": [
                                        {"matchExpressions": [{"key": RACK, "operator": "Gt", "values": ["many"]}]}
                                    ]
                                }
                            }
                        },
                    }
                }
            )
        ),
        waits(
            "TopologyPlacementFailed",
            (
                "couldn't assign flavors to pod set main: invalid affinity node selectors: "
                f"{RACK} Gt [many], reason: Gt needs exactly one value, an integer"
            ),
        ),
    ),
    row(
        "overhead-text",
        WEBHOOK,
        workload(pod_set(body={"spec": {**template()["spec"], "overhead": {"cpu": "lots"}}})),
        refused(
            'spec.podSets[0].template.spec.overhead[cpu]: Invalid value: "lots": must be a quantity '
            "such as 2, 500m, 1.5, 64Gi or 1e3"
        ),
    ),
    row(
        "slice-size-alone",
        WEBHOOK,
        workload(pod_set(topologyRequest={"podSetSliceSize": 1})),
        refused(
            "spec.podSets[0].topologyRequest.podSetSliceSize: Forbidden: may not be set when "
            "podSetSliceRequiredTopology is not specified"
        ),
    ),
    row(
        "required-auto",
        CONDITION,
        workload(pod_set(topologyRequest={"required": "auto"})),
        waits("TopologyPlacementFailed", "couldn't assign flavors to pod set main: no requested topology level: auto"),
    ),
    row(
        "three-requests",
        CONDITION,
        workload(pod_set(topologyRequest={"required": RACK, "preferred": RACK, "unconstrained": True})),
        ADMITTED,
    ),
    row(
        "group-of-three",
        CONDITION,
        workload(*(pod_set(n, topologyRequest={"required": RACK, "podSetGroupName": "g"}) for n in "abc")),
        ADMITTED,
    ),
    row(
        "time-limit-of-zero",
        SCHEMA,
        workload(maximumExecutionTimeSeconds=0),
        refused("spec.maximumExecutionTimeSeconds"),
    ),
    row(
        "slice-of-zero",
        SCHEMA,
        workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": RACK, "podSetSliceSize": 0})),
        refused("podSetSliceSize"),
    ),
)


ROWS = SPECS
