"""Bad limits, weights, policies, checks and gates: what invalid_queues.py does not have of queues, cohorts and Workloads.

The vocabulary is invalid_input.py's.
"""

from __future__ import annotations

from typing import Any

from api.kube.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS, Resource
from tests.scenarios.invalid_input import (
    ChangeStep,
    Holds,
    InvalidRow,
    Make,
    Says,
    Waits,
    Where,
    cluster_queue,
    condition,
    group,
    job,
    local_queue,
    refused,
    row,
    workload,
)
from tests.scenarios.site import RACK

WEBHOOK, CONDITION, CEL, SCHEMA = Where.WEBHOOK, Where.CONDITION, Where.CEL, Where.SCHEMA
NOBODY_HAS = "example.com/unobtainium"
_WANTS = {
    "name": "main",
    "image": "pause",
    "resources": {"requests": {"cpu": "1", NOBODY_HAS: "1"}, "limits": {NOBODY_HAS: "1"}},
}
_QUOTA = "spec.resourceGroups[0].flavors[0].resources[0]"
_NEGATIVE = "must be greater than or equal to 0"


def cohort(**spec: Any) -> Make:
    """A Cohort."""
    return Make(COHORTS, {"spec": spec})


def annotated(key: str, value: str) -> Make:
    """A ClusterQueue with that annotation."""
    made = cluster_queue(group("bad"))
    return Make(made.resource, {**made.body, "metadata": {"annotations": {key: value}}})


def checked(*rules: dict[str, Any]) -> Make:
    """A ClusterQueue with these checks."""
    return cluster_queue(group("bad"), admissionChecksStrategy={"admissionChecks": list(rules)})


LIMITS: tuple[InvalidRow, ...] = (
    row(
        "borrowing-negative",
        WEBHOOK,
        cluster_queue(group("bad", borrowingLimit=-1), cohortName="team"),
        refused(f'{_QUOTA}.borrowingLimit: Invalid value: "-1": {_NEGATIVE}'),
    ),
    row(
        "lending-negative",
        WEBHOOK,
        cluster_queue(group("bad", lendingLimit=-1), cohortName="team"),
        refused(f'{_QUOTA}.lendingLimit: Invalid value: "-1": {_NEGATIVE}'),
    ),
    row(
        "lending-raised-above-nominal",
        WEBHOOK,
        cluster_queue(group("bad", lendingLimit=10), cohortName="team"),
        ChangeStep(CLUSTER_QUEUES, {"spec": {"resourceGroups": [group("bad", nominal=5, lendingLimit=10)]}}),
        refused(f'{_QUOTA}.lendingLimit: Invalid value: "10": must be less than or equal to the nominalQuota'),
    ),
    row(
        "quota-made-negative",
        WEBHOOK,
        cluster_queue(group("bad")),
        ChangeStep(CLUSTER_QUEUES, {"spec": {"resourceGroups": [group("bad", nominal="-500m")]}}),
        refused(f'{_QUOTA}.nominalQuota: Invalid value: "-500m": {_NEGATIVE}'),
    ),
    row(
        "cohort-left-with-limits",
        CEL,
        cluster_queue(group("bad", borrowingLimit=1), cohortName="team"),
        ChangeStep(CLUSTER_QUEUES, {"spec": {"cohortName": None}}),
        refused("borrowingLimit must be nil when cohort is empty"),
        embedded=refused(f'{_QUOTA}.borrowingLimit: Invalid value: "1": must be nil when cohort is empty'),
    ),
    row(
        "cohort-lends-to-nobody",
        WEBHOOK,
        cohort(resourceGroups=[group("bad", lendingLimit=1)]),
        refused(f'{_QUOTA}.lendingLimit: Invalid value: "1": must be nil when parent is empty'),
    ),
    row(
        "cohort-borrowing-negative",
        WEBHOOK,
        cohort(parentName="team", resourceGroups=[group("bad", borrowingLimit="-1")]),
        refused(f'{_QUOTA}.borrowingLimit: Invalid value: "-1": {_NEGATIVE}'),
    ),
    row(
        "cohort-lends-more-than-its-own",  # what its members lend it, it may pass on
        SCHEMA,
        cohort(parentName="team", resourceGroups=[group("bad", lendingLimit=11)]),
        Holds(COHORTS, "spec.parentName", "team"),
    ),
    row(
        "cohort-flavor-twice",
        WEBHOOK,
        cohort(resourceGroups=[group("bad"), group("bad", covered=("memory",))]),
        refused('spec.resourceGroups[1].flavors[0].name: Duplicate value: "bad"'),
    ),
    row("cohort-parent-no-name", SCHEMA, cohort(parentName="No Name"), refused("spec.parentName")),
    row(
        "cohort-of-a-cycle-says-so",
        CONDITION,
        cohort(parentName="wheel-b"),
        Make(COHORTS, {"metadata": {"name": "wheel-b"}, "spec": {"parentName": "<id>"}}),
        Says(
            COHORTS,
            "Active",
            "False",
            "CohortCycle",
            "No queue below can admit: cohorts are each other's parents: <id> -> wheel-b -> <id>.",
        ),
        Says(
            COHORTS,
            "Active",
            "False",
            "CohortCycle",
            "No queue below can admit: cohorts are each other's parents: wheel-b -> <id> -> wheel-b.",
            name="wheel-b",
        ),
    ),
    row(
        "quota-of-what-nobody-has",
        CONDITION,
        cluster_queue(group("bad", covered=("cpu", NOBODY_HAS))),
        local_queue(),
        job({"kueue.x-k8s.io/require-topology": RACK}, queue="<id>", pod={"containers": [_WANTS]}),
        Waits(
            "TopologyPlacementFailed",
            "couldn't assign flavors to pod set main: topology \"bad\" doesn't allow to fit any of 2 pod(s). "
            f'Total nodes: 2; excluded: resource "{NOBODY_HAS}": 2; {NOBODY_HAS}: 1 asked, 0 at most on any host',
        ),
    ),
    row(
        "quota-of-a-cohort-without-flavor",
        CONDITION,
        cohort(resourceGroups=[group("nobody")]),
        cluster_queue(group("bad", nominal=0), cohortName="<id>"),
        local_queue(),
        job(queue="<id>", requests={"cpu": "1"}),
        Waits(
            "ExceedsMaxQuota",
            "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor bad, previously considered "
            "podsets requests (0) + current podset request (2) > maximum capacity (0)",
        ),
    ),
    row(
        "one-of-two-flavors-missing",
        CONDITION,
        cluster_queue(group("bad", "nobody")),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "FlavorNotFound",
            "Can't admit new workloads: references missing ResourceFlavor(s): nobody.",
        ),
    ),
)


def _weights(kind: Resource, name: str, **spec: Any) -> tuple[InvalidRow, ...]:
    at = "spec.fairSharing.weight"

    def made(weight: Any) -> Make:
        return Make(kind, {"spec": {**spec, "fairSharing": {"weight": weight}}})

    return (
        row(f"{name}-weight-below-0", WEBHOOK, made("-500m"), refused(f'{at}: Invalid value: "-500m": {_NEGATIVE}')),
        row(
            f"{name}-weight-too-small",
            WEBHOOK,
            made("1n"),
            refused(f'{at}: Invalid value: "1n": When not 0, weight must be > 10e-9'),
        ),
        row(f"{name}-weight-text", SCHEMA, made("heavy"), refused(at)),
    )


POLICIES: tuple[InvalidRow, ...] = (
    *_weights(COHORTS, "cohort"),
    *_weights(LOCAL_QUEUES, "local-queue", clusterQueue="bad"),
    row(
        "local-queue-weight-has-no-effect",
        CONDITION,
        Make(LOCAL_QUEUES, {"spec": {"clusterQueue": "bad", "fairSharing": {"weight": 2}}}),
        Says(
            LOCAL_QUEUES,
            "stowage.dev/FieldsHonoured",
            "False",
            "NotSupportedYet",
            "set, but without effect yet: spec.fairSharing (the ClusterQueue does not admit by past usage)",
        ),
    ),
    row(
        "backfill-perhaps",
        WEBHOOK,
        annotated("stowage.dev/backfill", "yes"),
        refused(
            'metadata.annotations[stowage.dev/backfill]: Unsupported value: "yes": supported values: "false", "true"'
        ),
    ),
    row(
        "local-queue-stop-policy-unknown",
        SCHEMA,
        Make(LOCAL_QUEUES, {"spec": {"clusterQueue": "bad", "stopPolicy": "Drain"}}),
        refused('spec.stopPolicy: Unsupported value: "Drain": supported values: "None", "Hold", "HoldAndDrain"'),
    ),
    row(
        "local-queue-stopped",
        CONDITION,
        Make(LOCAL_QUEUES, {"spec": {"clusterQueue": "bad", "stopPolicy": "Hold"}}),
        job(queue="<id>", requests={"cpu": "1"}),
        Says(LOCAL_QUEUES, "Active", "False", "Stopped", "LocalQueue is stopped"),
        Waits("Suspended", "LocalQueue <id> is inactive"),
    ),
    row(
        "reclaim-policy-unknown",
        SCHEMA,
        cluster_queue(group("bad"), preemption={"reclaimWithinCohort": "Always"}),
        refused(
            'spec.preemption.reclaimWithinCohort: Unsupported value: "Always": supported values: "Never", '
            '"LowerPriority", "Any"'
        ),
    ),
    row(
        "threshold-text",
        SCHEMA,
        cluster_queue(
            group("bad"),
            preemption={
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": "high"},
            },
        ),
        refused("spec.preemption.borrowWithinCohort.maxPriorityThreshold"),
    ),
    row(
        "search-policy-unknown",
        SCHEMA,
        cluster_queue(group("bad"), flavorFungibility={"whenCanBorrow": "Borrow"}),
        refused(
            'spec.flavorFungibility.whenCanBorrow: Unsupported value: "Borrow": supported values: "MayStopSearch", '
            '"TryNextFlavor"'
        ),
    ),
    row(
        "strategy-unknown",
        SCHEMA,
        cluster_queue(group("bad"), queueingStrategy="LIFO"),
        refused('spec.queueingStrategy: Unsupported value: "LIFO": supported values: "StrictFIFO", "BestEffortFIFO"'),
    ),
)

CHECKS: tuple[InvalidRow, ...] = (
    row(
        "check-inactive",
        CONDITION,
        Make(ADMISSION_CHECKS, {"spec": {"controllerName": "example.com/budget"}}),
        checked({"name": "<id>"}),
        local_queue(),
        job(queue="<id>", requests={"cpu": "1"}),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "AdmissionCheckInactive",
            "Can't admit new workloads: references inactive AdmissionCheck(s): <id>.",
        ),
        Waits("Suspended", "ClusterQueue <id> is inactive"),
    ),
    row(
        "check-becomes-inactive",
        CONDITION,
        Make(ADMISSION_CHECKS, {"spec": {"controllerName": "example.com/budget"}}),
        ChangeStep(ADMISSION_CHECKS, {"status": {"conditions": [condition("Active")]}}, status=True),
        checked({"name": "<id>"}),
        ChangeStep(ADMISSION_CHECKS, {"status": {"conditions": [condition("Active", "False")]}}, status=True),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "AdmissionCheckInactive",
            "Can't admit new workloads: references inactive AdmissionCheck(s): <id>.",
        ),
    ),
    row("check-twice", SCHEMA, checked({"name": "c"}, {"name": "c"}), refused("Duplicate value")),
    row("check-without-name", SCHEMA, checked({"onFlavors": ["bad"]}), refused("name: Required value")),
    row(
        "no-checks",
        SCHEMA,
        checked(),
        refused("spec.admissionChecksStrategy.admissionChecks"),
    ),
    row(
        "check-of-nobody",
        SCHEMA,
        Make(ADMISSION_CHECKS, {"spec": {"controllerName": ""}}),
        refused("spec.controllerName"),
    ),
    row(
        "check-given-away",
        CEL,
        Make(ADMISSION_CHECKS, {"spec": {"controllerName": "example.com/budget"}}),
        ChangeStep(ADMISSION_CHECKS, {"spec": {"controllerName": "example.com/other"}}),
        refused("field is immutable"),
        embedded="the embedded server evaluates no CEL rules",
    ),
)

GATES: tuple[InvalidRow, ...] = (
    row(
        "gate-without-name",
        SCHEMA,
        workload(preemptionGates=[{}]),
        refused("spec.preemptionGates[0].name: Required value"),
    ),
    row(
        "gate-twice",
        SCHEMA,
        workload(preemptionGates=[{"name": "g"}, {"name": "g"}]),
        refused("spec.preemptionGates[1]: Duplicate value"),
    ),
    row(
        "nine-gates",
        SCHEMA,
        workload(preemptionGates=[{"name": f"g{n}"} for n in range(9)]),
        refused("spec.preemptionGates: Too many: 9: must have at most 8 items"),
    ),
    row(
        "gate-ajar",
        SCHEMA,
        workload(preemptionGates=[{"name": "g"}], active=False),
        ChangeStep(
            WORKLOADS,
            {
                "status": {
                    "preemptionGates": [{"name": "g", "position": "Ajar", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
                }
            },
            status=True,
        ),
        refused('status.preemptionGates[0].position: Unsupported value: "Ajar": supported values: "Closed", "Open"'),
    ),
)

ROWS = (*LIMITS, *POLICIES, *CHECKS, *GATES)
