"""Workloads that people write by hand, and what strangers write into a status. The vocabulary is invalid_input.py's."""

from __future__ import annotations

from typing import Any

from api.kube.resources import WORKLOADS
from api.names import HOSTNAME_LABEL
from tests.scenarios.invalid_input import (
    NOT_EVALUATED,
    ChangeStep,
    InvalidRow,
    Says,
    Where,
    condition,
    pod_set,
    refused,
    row,
    template,
    workload,
)
from tests.scenarios.site import GPU, RACK

WEBHOOK, CONDITION, CEL, SCHEMA = Where.WEBHOOK, Where.CONDITION, Where.CEL, Where.SCHEMA


def _waits(reason: str, message: str) -> Says:
    return Says(WORKLOADS, "QuotaReserved", "False", reason, message)


def _status(**status: Any) -> ChangeStep:
    return ChangeStep(WORKLOADS, {"status": status}, status=True)


def _assigned(name: str = "main", count: int = 1, **more: Any) -> dict[str, Any]:
    usage = {"cpu": str(count), GPU: str(count)}
    return {"name": name, "count": count, "flavors": {"cpu": "bad", GPU: "bad"}, "resourceUsage": usage, **more}


def _admitted(*assigned: dict[str, Any], queue: str = "bad") -> ChangeStep:
    given = {"clusterQueue": queue, "podSetAssignments": list(assigned)}
    return _status(conditions=[condition("QuotaReserved")], admission=given)


def _slice(**more: Any) -> dict[str, Any]:
    levels = [{"universal": "x"}]
    return {"domainCount": 1, "valuesPerLevel": levels, "podCounts": {"universal": 1}, **more}


def _placed(*slices: dict[str, Any], level: str = HOSTNAME_LABEL) -> dict[str, Any]:
    return _assigned(topologyAssignment={"levels": [level], "slices": list(slices)})


_CHECK = {"name": "c", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
ADMITTED = Says(WORKLOADS, "Admitted", "True", "Admitted", "The workload is admitted")
NEVER = workload(queueName="nobody")
"""Waits for ever, so that nothing of ours writes its status meanwhile."""

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
        _waits(
            "TopologyPlacementFailed",
            'couldn\'t assign flavors to pod set main: topology "bad" allows to fit only 220 out of 2147483647 pod(s)',
        ),
    ),
    row(
        "endless-count",
        CONDITION,
        workload(pod_set(count=2**31 - 1, topologyRequest={"preferred": RACK})),
        _waits(
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
        _waits(
            "ExceedsMaxQuota",
            (
                "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor bad, "
                "previously considered podsets requests (0) + current podset request "
                "(9223372036854775807m) > maximum capacity (1k)"
            ),
        ),
    ),
    row(
        "template-null",
        CONDITION,
        workload(pod_set(body={"spec": None})),
        _waits("NoMatchingFlavor", "failed to assign flavors to pod set main: no TAS flavor assigned"),
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
        _waits(
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
        _waits(
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
        _waits("TopologyPlacementFailed", "couldn't assign flavors to pod set main: no requested topology level: auto"),
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

STATUSES: tuple[InvalidRow, ...] = (
    row(
        "reserved-without-admission",
        WEBHOOK,
        NEVER,
        _status(conditions=[condition("QuotaReserved")]),
        refused("status.admission: Required value: must be set while the QuotaReserved condition is true"),
    ),
    row(
        "admission-of-other-pod-set",
        WEBHOOK,
        NEVER,
        _admitted(_assigned("other")),
        refused('status.admission.podSetAssignments[0].name: Not found: "other"'),
    ),
    row(
        "admission-not-a-multiple",
        WEBHOOK,
        NEVER,
        _admitted({**_assigned(count=2), "resourceUsage": {"cpu": "3m"}}),
        refused(
            'status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "3m": is not a multiple of 2'
        ),
    ),
    row(
        "admission-usage-text",
        SCHEMA,
        NEVER,
        _admitted({**_assigned(), "resourceUsage": {"cpu": "lots"}}),
        refused('status.admission.podSetAssignments[0].resourceUsage.cpu: Invalid value: "lots": '),
    ),
    row(
        "admission-of-too-few-pod-sets",
        CEL,
        NEVER,
        _admitted(),
        refused("podSetAssignments must have the same number of podSets as the spec"),
        embedded=NOT_EVALUATED,
    ),
    row(
        "slices-of-other-length",
        CEL,
        NEVER,
        _admitted(_placed(_slice(domainCount=2, valuesPerLevel=[{"individual": {"roots": ["a", "b", "c"]}}]))),
        refused("roots must have one item per domain"),
        embedded=ADMITTED,
    ),
    row(
        "slices-of-other-levels",
        CEL,
        NEVER,
        _admitted(_placed(_slice(valuesPerLevel=[{"universal": "x"}, {"universal": "y"}]))),
        refused("valuesPerLevel must have the same length as the number of levels in this TopologyAssignment"),
        embedded=ADMITTED,
    ),
    row(
        "slices-in-two-forms",
        SCHEMA,
        NEVER,
        _admitted(_placed(_slice(podCounts={"universal": 1, "individual": [1]}))),
        refused("podCounts"),
    ),
    row(
        "slices-of-no-pods",
        SCHEMA,
        NEVER,
        _admitted(_placed(_slice(podCounts={"universal": 0}))),
        refused("podCounts.universal"),
    ),
    row(
        "admission-nowhere",
        CONDITION,
        NEVER,
        _admitted(_assigned(), queue="nobody"),
        ADMITTED,
    ),
    row(
        "admission-changed",
        WEBHOOK,
        NEVER,
        _admitted(_assigned(), queue="nobody"),
        _admitted(_assigned(), queue="bad"),
        refused(
            "status.admission: Invalid value: "
            '{"clusterQueue":"bad","podSetAssignments":[{"count":1,"flavors":{"cpu":"bad","nvidia.com/gpu":"bad"},'
            '"name":"main","resourceUsage":{"cpu":"1","nvidia.com/gpu":"1"}}]}: field is immutable'
        ),
    ),
    row(
        "queue-changed-while-reserved",
        CEL,
        NEVER,
        _admitted(_assigned(), queue="nobody"),
        ChangeStep(WORKLOADS, {"spec": {"queueName": "other"}}),
        refused("queueName is immutable while workload quota reserved"),
        embedded=NOT_EVALUATED,
    ),
    row(
        "pod-sets-changed-while-reserved",
        WEBHOOK,
        NEVER,
        _admitted(_assigned(), queue="nobody"),
        ChangeStep(WORKLOADS, {"spec": {"podSets": [pod_set(count=5)]}}),
        refused(
            "spec.podSets.0: Invalid value: "
            '{"count":5,"name":"main","template":{"metadata":{"annotations":{}},"spec":{"containers":[{"image":"pause",'
            '"name":"main","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"cpu":"1","nvidia.com/gpu":"1"}}}],'
            '"restartPolicy":"Never","terminationGracePeriodSeconds":0}}}: field is immutable'
        ),
    ),
    row(
        "reclaimed-more-than-there-is",
        WEBHOOK,
        NEVER,
        _status(reclaimablePods=[{"name": "main", "count": 2}]),
        refused("status.reclaimablePods[main].count: Invalid value: 2: should be less or equal to 1"),
    ),
    row(
        "reclaimed-of-nobody",
        WEBHOOK,
        NEVER,
        _status(reclaimablePods=[{"name": "other", "count": 1}]),
        refused('status.reclaimablePods[other].name: Unsupported value: "other": supported values: "main"'),
    ),
    row(
        "check-updates-nobody",
        WEBHOOK,
        NEVER,
        _status(admissionChecks=[{**_CHECK, "podSetUpdates": [{"name": "other"}]}]),
        refused(
            'status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "other": supported values: "main"'
        ),
    ),
    row(
        "check-perhaps",
        SCHEMA,
        NEVER,
        _status(admissionChecks=[{**_CHECK, "state": "Perhaps"}]),
        refused('status.admissionChecks[0].state: Unsupported value: "Perhaps"'),
    ),
    row(
        "check-without-a-message",
        SCHEMA,
        NEVER,
        _status(admissionChecks=[{key: value for key, value in _CHECK.items() if key != "message"}]),
        refused("status.admissionChecks[0].message: Required value"),
    ),
    row(
        "check-again-before-now",
        SCHEMA,
        NEVER,
        _status(admissionChecks=[{**_CHECK, "state": "Retry", "requeueAfterSeconds": -1}]),
        refused("status.admissionChecks[0].requeueAfterSeconds"),
    ),
    row(
        "requeued-less-than-never",
        SCHEMA,
        NEVER,
        _status(requeueState={"count": -1}),
        refused("status.requeueState.count"),
    ),
    row(
        "time-limit-changed-while-admitted",
        CEL,
        NEVER,
        _admitted(_assigned(), queue="nobody"),
        _status(conditions=[condition("QuotaReserved"), condition("Admitted")]),
        ChangeStep(WORKLOADS, {"spec": {"maximumExecutionTimeSeconds": 5}}),
        refused("maximumExecutionTimeSeconds is immutable while admitted"),
        embedded=NOT_EVALUATED,
    ),
    row(
        "condition-perhaps",
        SCHEMA,
        NEVER,
        _status(conditions=[condition("Admitted", "Perhaps")]),
        refused('status.conditions[0].status: Unsupported value: "Perhaps"'),
    ),
    row(
        "condition-message-endless",
        SCHEMA,
        NEVER,
        _status(conditions=[condition("Admitted", message="x" * 32769)]),
        refused("status.conditions[0].message: Too long: may not be more than 32768 bytes"),
    ),
    row(
        "requeue-time-no-time",
        SCHEMA,
        NEVER,
        _status(requeueState={"requeueAt": "soon"}),
        refused("status.requeueState.requeueAt"),
        embedded="the embedded server checks no formats",
    ),
    row(
        "nonsense-condition",
        CONDITION,
        NEVER,
        _status(conditions=[condition("Evicted", reason="Bored"), condition("Admitted")]),
        _waits("Misconfigured", "LocalQueue nobody doesn't exist"),
    ),
)

ROWS = (*SPECS, *STATUSES)
