"""Bad ClusterQueues, LocalQueues and Cohorts. The vocabulary is invalid_input.py's."""

from __future__ import annotations

from api.kube.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES
from tests.scenarios.invalid_input import (
    NOT_EVALUATED,
    ChangeStep,
    InvalidRow,
    Make,
    Says,
    Waits,
    Where,
    cluster_queue,
    condition,
    flavor,
    group,
    job,
    local_queue,
    quota,
    refused,
    row,
    shortened,
)
from tests.scenarios.site import GROUP, RACK

WEBHOOK, CONDITION, CEL, SCHEMA = Where.WEBHOOK, Where.CONDITION, Where.CEL, Where.SCHEMA


QUOTAS: tuple[InvalidRow, ...] = (
    row(
        "quota-negative",
        WEBHOOK,
        cluster_queue(group("bad", nominal=-1)),
        refused(
            'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "-1": must be '
            "greater than or equal to 0"
        ),
    ),
    row(
        "quota-text",
        SCHEMA,
        cluster_queue(group("bad", nominal="ten")),
        refused("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"),
    ),
    row(
        "quota-boolean",
        SCHEMA,
        cluster_queue(group("bad", nominal=True)),
        refused("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"),
    ),
    row(
        "quota-beyond-numbers",
        WEBHOOK,
        cluster_queue(group("bad", nominal="1e1000000000")),
        refused(
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "
            '"1e1000000000": must be a quantity such as 2, 500m, 1.5, 64Gi or 1e3'
        ),
    ),
    row(
        "quota-endless",
        WEBHOOK,
        cluster_queue(group("bad", nominal="9" * 5000)),
        refused(
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "
            f"{shortened('9' * 5000)}: must be a quantity such as 2, 500m, 1.5, 64Gi or 1e3"
        ),
    ),
    row(
        "quota-fraction",
        CONDITION,
        cluster_queue(group("bad", nominal="1.5")),
        local_queue(),
        job(queue="<id>", requests={"cpu": "1"}),
        Waits(
            "ExceedsMaxQuota",
            (
                "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor bad, "
                "previously considered podsets requests (0) + current podset request (2) > maximum "
                "capacity (1500m)"
            ),
        ),
    ),
    row(
        "lending-above-nominal",
        WEBHOOK,
        cluster_queue(group("bad", lendingLimit=11), cohortName="team"),
        refused(
            'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "11": must be '
            "less than or equal to the nominalQuota"
        ),
    ),
    row(
        "borrowing-without-cohort",
        CEL,
        cluster_queue(group("bad", borrowingLimit=1)),
        refused("borrowingLimit must be nil when cohort is empty"),
        embedded=refused(
            'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "1": must '
            "be nil when cohort is empty"
        ),
    ),
    row(
        "lending-without-cohort",
        WEBHOOK,
        cluster_queue(group("bad", lendingLimit=1)),
        refused(
            'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "1": must be '
            "nil when cohort is empty"
        ),
    ),
    row(
        "flavor-in-two-groups",
        WEBHOOK,
        cluster_queue(group("bad"), group("bad", covered=("memory",))),
        refused('spec.resourceGroups[1].flavors[0].name: Duplicate value: "bad"'),
    ),
    row(
        "flavor-twice-in-a-group",
        SCHEMA,
        cluster_queue(group("bad", "bad")),
        refused("spec.resourceGroups[0].flavors[1]: Duplicate value"),
    ),
    row(
        "resource-in-two-groups",
        WEBHOOK,
        cluster_queue(group("bad"), group("spare")),
        refused('spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"'),
    ),
    row(
        "resources-in-wrong-order",
        WEBHOOK,
        cluster_queue(
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [{"name": "bad", "resources": [quota("memory"), quota("cpu")]}],
            }
        ),
        refused(
            '[spec.resourceGroups[0].flavors[0].resources[0].name: Invalid value: "memory": must match '
            "the name in coveredResources, spec.resourceGroups[0].flavors[0].resources[1].name: "
            'Invalid value: "cpu": must match the name in coveredResources]'
        ),
    ),
    row(
        "resource-left-out",
        CEL,
        cluster_queue(
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "bad", "resources": [quota("cpu")]}]}
        ),
        refused("flavors must have the same number of resources as the coveredResources"),
        embedded=NOT_EVALUATED,
    ),
)


POLICIES: tuple[InvalidRow, ...] = (
    row(
        "weight-negative",
        WEBHOOK,
        cluster_queue(group("bad"), cohortName="team", fairSharing={"weight": "-1"}),
        refused('spec.fairSharing.weight: Invalid value: "-1": must be greater than or equal to 0'),
    ),
    row(
        "weight-tiny",
        WEBHOOK,
        cluster_queue(group("bad"), cohortName="team", fairSharing={"weight": "1n"}),
        refused('spec.fairSharing.weight: Invalid value: "1n": When not 0, weight must be > 10e-9'),
    ),
    row(
        "preference-without-search",
        WEBHOOK,
        cluster_queue(group("bad"), flavorFungibility={"preference": "BorrowingOverPreemption"}),
        refused(
            'spec.flavorFungibility.preference: Invalid value: "BorrowingOverPreemption": preference '
            '"BorrowingOverPreemption" requires both whenCanBorrow and whenCanPreempt to be '
            "TryNextFlavor"
        ),
    ),
    row(
        "preemption-contradicts-itself",
        CEL,
        cluster_queue(
            group("bad"), preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}
        ),
        refused("reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"),
        embedded=refused(
            "spec.preemption: Invalid value: "
            '{"borrowWithinCohort":{"policy":"LowerPriority"},"reclaimWithinCohort":"Never","withinClusterQueue":"Never"}'
            ": reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        ),
    ),
    row(
        "stop-policy-unknown",
        SCHEMA,
        cluster_queue(group("bad"), stopPolicy="Later"),
        refused('spec.stopPolicy: Unsupported value: "Later": supported values: "None", "Hold", "HoldAndDrain"'),
    ),
    row("cohort-name-bad", SCHEMA, cluster_queue(group("bad"), cohortName="No Team"), refused("spec.cohortName")),
    row(
        "selector-operator-unknown",
        WEBHOOK,
        cluster_queue(group("bad"), namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Like"}]}),
        refused(
            'spec.namespaceSelector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator'
        ),
    ),
    row(
        "check-on-unknown-flavor",
        WEBHOOK,
        cluster_queue(
            group("bad"), admissionChecksStrategy={"admissionChecks": [{"name": "c", "onFlavors": ["nobody"]}]}
        ),
        refused(
            "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "
            '"nobody": supported values: "bad"'
        ),
    ),
    row(
        "local-queue-moved",
        CEL,
        local_queue("bad"),
        ChangeStep(LOCAL_QUEUES, {"spec": {"clusterQueue": "other"}}),
        refused("field is immutable"),
        embedded=refused('spec.clusterQueue: Invalid value: "other": field is immutable'),
    ),
    row("local-queue-to-no-name", SCHEMA, local_queue("Not A Name"), refused("spec.clusterQueue")),
)


REFERENCES: tuple[InvalidRow, ...] = (
    row(
        "missing-flavor",
        CONDITION,
        cluster_queue(group("nobody")),
        local_queue(),
        job(queue="<id>", requests={"cpu": "1"}),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "FlavorNotFound",
            "Can't admit new workloads: references missing ResourceFlavor(s): nobody.",
        ),
        Says(LOCAL_QUEUES, "Active", "False", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"),
        Waits("Suspended", "ClusterQueue <id> is inactive"),
    ),
    row(
        "missing-topology",
        CONDITION,
        flavor(topologyName="nobody"),
        cluster_queue(group("<id>")),
        local_queue(),
        job(queue="<id>", requests={"cpu": "1"}),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "TopologyNotFound",
            'Can\'t admit new workloads: there is no Topology "nobody" for TAS flavor "<id>".',
        ),
        Waits("Suspended", "ClusterQueue <id> is inactive"),
    ),
    row(
        "missing-check",
        CONDITION,
        cluster_queue(group("bad"), admissionChecksStrategy={"admissionChecks": [{"name": "nobody"}]}),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "AdmissionCheckNotFound",
            "Can't admit new workloads: references missing AdmissionCheck(s): nobody.",
        ),
    ),
    row(
        "local-queue-to-nobody",
        CONDITION,
        local_queue("nobody"),
        Says(LOCAL_QUEUES, "Active", "False", "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"),
    ),
    row(
        "multikueue-on-topology",
        CONDITION,
        Make(ADMISSION_CHECKS, {"spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}),
        ChangeStep(ADMISSION_CHECKS, {"status": {"conditions": [condition("Active")]}}, status=True),
        cluster_queue(group("bad"), admissionChecksStrategy={"admissionChecks": [{"name": "<id>"}]}),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "NotSupportedWithTopologyAwareScheduling",
            (
                "Can't admit new workloads: topology flavors cannot be combined with MultiKueue or "
                "ProvisioningRequest AdmissionCheck(s): <id>."
            ),
        ),
    ),
    row(
        "provisioning-on-topology",
        CONDITION,
        Make(ADMISSION_CHECKS, {"spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"}}),
        ChangeStep(ADMISSION_CHECKS, {"status": {"conditions": [condition("Active")]}}, status=True),
        cluster_queue(group("bad"), admissionChecksStrategy={"admissionChecks": [{"name": "<id>"}]}),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "NotSupportedWithTopologyAwareScheduling",
            (
                "Can't admit new workloads: topology flavors cannot be combined with MultiKueue or "
                "ProvisioningRequest AdmissionCheck(s): <id>."
            ),
        ),
    ),
    row(
        "flavor-without-nodes",
        CONDITION,
        flavor(nodeLabels={GROUP: "nobody"}, topologyName="bad"),
        cluster_queue(group("<id>")),
        local_queue(),
        job({"kueue.x-k8s.io/require-topology": RACK}, queue="<id>", requests={"cpu": "1"}),
        Waits(
            "TopologyPlacementFailed",
            ("couldn't assign flavors to pod set main: no topology domains at level: cloud-provider.com/topology-rack"),
        ),
    ),
)


COHORTS_: tuple[InvalidRow, ...] = (
    row(
        "cohort-own-parent",
        CONDITION,
        Make(COHORTS, {"spec": {"parentName": "<id>"}}),
        cluster_queue(group("bad"), cohortName="<id>"),
        local_queue(),
        job(queue="<id>", requests={"cpu": "1"}),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "CohortCycle",
            "Can't admit new workloads: its cohorts are each other's parents: <id> -> <id>.",
        ),
        Waits("Suspended", "ClusterQueue <id> is inactive"),
    ),
    row(
        "cohort-cycle",
        CONDITION,
        cluster_queue(group("bad"), cohortName="<id>"),
        local_queue(),
        Make(COHORTS, {"spec": {"parentName": "<id>-b"}}),
        Make(COHORTS, {"metadata": {"name": "<id>-b"}, "spec": {"parentName": "<id>-c"}}),
        Make(COHORTS, {"metadata": {"name": "<id>-c"}, "spec": {"parentName": "<id>-b"}}),
        job(queue="<id>", requests={"cpu": "1"}),
        Says(
            CLUSTER_QUEUES,
            "Active",
            "False",
            "CohortCycle",
            ("Can't admit new workloads: its cohorts are each other's parents: <id>-b -> <id>-c -> <id>-b."),
        ),
        Waits("Suspended", "ClusterQueue <id> is inactive"),
    ),
    row(
        "cohort-borrows-from-nobody",
        WEBHOOK,
        Make(COHORTS, {"spec": {"resourceGroups": [group("bad", borrowingLimit=1)]}}),
        refused(
            'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "1": must '
            "be nil when parent is empty"
        ),
    ),
    row(
        "cohort-quota-negative",
        WEBHOOK,
        Make(COHORTS, {"spec": {"resourceGroups": [group("bad", nominal=-1)]}}),
        refused(
            'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "-1": must be '
            "greater than or equal to 0"
        ),
    ),
)


ROWS = (*QUOTAS, *POLICIES, *REFERENCES, *COHORTS_)
