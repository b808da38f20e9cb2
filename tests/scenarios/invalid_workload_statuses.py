"""What strangers write into a Workload's status. The vocabulary is invalid_input.py's."""

from __future__ import annotations

from typing import Any

from api.kube.resources import WORKLOADS
from api.names import HOSTNAME_LABEL
from tests.scenarios.invalid_input import (
    NOT_EVALUATED,
    ChangeStep,
    InvalidRow,
    condition,
    pod_set,
    refused,
    row,
    workload,
)
from tests.scenarios.invalid_workloads import ADMITTED, CEL, CONDITION, SCHEMA, WEBHOOK, waits
from tests.scenarios.site import GPU


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


NEVER = workload(queueName="nobody")


"""Waits for ever, so that nothing of ours writes its status meanwhile."""


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
        waits("Misconfigured", "LocalQueue nobody doesn't exist"),
    ),
)


ROWS = STATUSES
