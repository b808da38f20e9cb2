"""ClusterQueue, LocalQueue, Cohort and WorkloadPriorityClass (v1beta2 fields).

Fields without an implementation are typed too, so that no setting of a user is lost; the controller names set but unsupported
fields in a condition of the object.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import API_VERSION
from api.schema import (
    CONDITIONS,
    IMMUTABLE,
    INT_OR_STRING,
    LABEL_SELECTOR,
    CheckName,
    Int32,
    Name,
    Quantity,
    atomic,
    map_by,
    rule,
    rules,
    schema,
    unique,
)


class StopPolicy(StrEnum):
    """Whether a queue is stopped, and then keeps (Hold) or evicts (HoldAndDrain) its admitted workloads."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class QueueingStrategy(StrEnum):
    """Whether a head that does not fit blocks the workloads behind it."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


ResourceName = Annotated[str, schema("Name of the resource, as in requests.", maxLength=317)]


class ResourceQuota(KubeModel):
    """Quota of one resource in one flavor."""

    name: ResourceName
    nominal_quota: Annotated[Quantity, schema("Quota that the queue owns.", mandatory=True)] = 0
    borrowing_limit: Annotated[
        Quantity | None, schema("Most quota that may be borrowed from the cohort; unset: unlimited.")
    ] = None
    lending_limit: Annotated[
        Quantity | None, schema("Most quota that may be lent to the cohort; unset: all of it.")
    ] = None


class FlavorQuotas(KubeModel):
    """Quotas of one flavor, one entry per covered resource."""

    name: Name
    resources: Annotated[
        tuple[ResourceQuota, ...],
        schema("In the order of coveredResources.", mandatory=True, **map_by("name", minItems=1, maxItems=64)),
    ] = ()


class ResourceGroup(KubeModel):
    """Resources that are assigned together, and their flavors in the order of trial."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.flavors.all(f, size(f.resources) == size(self.coveredResources))",
                "flavors must have the same number of resources as the coveredResources",
            )
        )
    )

    covered_resources: Annotated[
        tuple[ResourceName, ...],
        schema("Resources that are assigned from the same flavor.", mandatory=True, **unique(minItems=1, maxItems=64)),
    ] = ()
    flavors: Annotated[
        tuple[FlavorQuotas, ...],
        schema("Flavors in the order of trial.", mandatory=True, **map_by("name", minItems=1, maxItems=64)),
    ] = ()


class FairSharing(KubeModel):
    """Weight in fair sharing; 0 is an infinite share."""

    weight: Annotated[
        Quantity | None, schema("Relative weight against other queues and cohorts of the same parent.", default=1)
    ] = None


class FlavorFungibility(KubeModel):
    """Whether a flavor that needs borrowing or preemption is taken, or the next flavor tried."""

    when_can_borrow: Annotated[
        str,
        schema(
            "Whether to use a flavor that needs borrowing, or to try the next.", enum=["MayStopSearch", "TryNextFlavor"]
        ),
    ] = "MayStopSearch"
    when_can_preempt: Annotated[
        str,
        schema(
            "Whether to use a flavor that needs preemption, or to try the next.",
            enum=["MayStopSearch", "TryNextFlavor"],
        ),
    ] = "TryNextFlavor"
    preference: Annotated[
        str | None,
        schema(
            "Which to prefer after all flavors were tried.",
            enum=["BorrowingOverPreemption", "PreemptionOverBorrowing"],
        ),
    ] = None


class BorrowWithinCohort(KubeModel):
    """Preemption by workloads that borrow."""

    policy: Annotated[str, schema("Whether workloads that borrow may preempt.", enum=["Never", "LowerPriority"])] = (
        "Never"
    )
    max_priority_threshold: Annotated[Int32 | None, schema("Only workloads up to this priority are evicted.")] = None


class Preemption(KubeModel):
    """Which workloads this queue's workloads may evict."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort)"
                " || self.borrowWithinCohort.policy == 'Never'",
                "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
            )
        )
    )

    reclaim_within_cohort: Annotated[
        str,
        schema(
            "Which workloads in the cohort may be evicted to reclaim lent quota.",
            enum=["Never", "LowerPriority", "Any"],
        ),
    ] = "Never"
    within_cluster_queue: Annotated[
        str,
        schema(
            "Which workloads of the same queue may be evicted.",
            enum=["Never", "LowerPriority", "LowerOrNewerEqualPriority"],
        ),
    ] = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None


class AdmissionCheckRule(KubeModel):
    """An admission check and the flavors that it applies to (none: all)."""

    name: CheckName
    on_flavors: Annotated[tuple[Name, ...], schema("None: all flavors.", **unique(maxItems=64))] = ()


class AdmissionChecksStrategy(KubeModel):
    """The admission checks of a queue."""

    admission_checks: Annotated[
        tuple[AdmissionCheckRule, ...],
        schema(
            "The checks, with the flavors that they apply to.",
            mandatory=True,
            **map_by("name", minItems=1, maxItems=64),
        ),
    ] = ()


ResourceGroups = Annotated[tuple[ResourceGroup, ...], schema("Quota by resource and flavor.", **atomic(maxItems=16))]

USAGE_BASED: Final = "UsageBasedAdmissionFairSharing"
"""The admission mode in which the past usage of LocalQueues orders a ClusterQueue."""

_ADMISSION_SCOPE = {
    "required": ["admissionMode"],
    "properties": {
        "admissionMode": {
            "type": "string",
            "description": "Whether past usage orders the queue.",
            "enum": [USAGE_BASED, "NoAdmissionFairSharing"],
        },
    },
}

_CONCURRENT_ADMISSION = {
    "required": ["migration"],
    "properties": {
        "migration": {
            "type": "object",
            "description": "How an admitted workload moves between flavors.",
            "properties": {
                "mode": {
                    "type": "string",
                    "description": "Take a flavor that comes earlier in the list, or stay.",
                    "enum": ["TryPreferredFlavors", "RetainFirstAdmission"],
                },
                "constraints": {
                    "type": "object",
                    "description": "Which flavors are tried.",
                    "properties": {
                        "lastAcceptableFlavorName": {
                            "type": "string",
                            "description": "The last flavor of the list that is tried.",
                            "maxLength": 253,
                        }
                    },
                },
            },
        },
    },
}


class ClusterQueueSpec(KubeModel):
    """Quota, order and policies of a ClusterQueue."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.cohortName) || !has(self.resourceGroups) || self.resourceGroups.all(g,"
                " g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",
                "borrowingLimit must be nil when cohort is empty",
            )
        )
    )

    resource_groups: ResourceGroups = ()
    cohort_name: Annotated[Name | None, schema("The cohort to lend to and borrow from.")] = None
    queueing_strategy: Annotated[
        QueueingStrategy, schema("Whether a head that does not fit blocks those behind it.")
    ] = QueueingStrategy.BEST_EFFORT_FIFO
    namespace_selector: Annotated[
        dict[str, Any] | None,
        schema("Namespaces that may use the queue; unset: none, {}: all.", **LABEL_SELECTOR),
    ] = None
    flavor_fungibility: Annotated[FlavorFungibility | None, schema(default={})] = None
    preemption: Annotated[Preemption | None, schema(default={})] = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_sharing: FairSharing | None = None
    admission_scope: Annotated[dict[str, Any] | None, schema("Usage-based order.", **_ADMISSION_SCOPE)] = None
    concurrent_admission_policy: Annotated[
        dict[str, Any] | None, schema("Moving between flavors after admission.", **_CONCURRENT_ADMISSION)
    ] = None


class ResourceUsage(KubeModel):
    """Used amount of one resource, and its borrowed part."""

    name: ResourceName
    total: Annotated[Quantity, schema("Used or reserved.", default=None)] = "0"
    borrowed: Annotated[Quantity | None, schema("The part of total beyond the nominal quota.")] = None


class FlavorUsage(KubeModel):
    """Usage of one flavor."""

    name: Name
    resources: Annotated[tuple[ResourceUsage, ...], schema("By resource.", **map_by("name", maxItems=64))] = ()


_SHARE = {
    "properties": {
        "weightedShare": {
            "type": "integer",
            "description": "Largest ratio of borrowed to lendable quota, in thousandths, over the weight.",
            "format": "int64",
        },
        "admissionFairSharingStatus": {
            "type": "object",
            "description": "Past usage.",
            "properties": {
                "consumedResources": {
                    "type": "object",
                    "description": "Decayed usage by resource.",
                    "additionalProperties": INT_OR_STRING,
                },
                "lastUpdate": {"type": "string", "description": "When it was computed.", "format": "date-time"},
            },
        },
    },
}


class QueueStatus(KubeModel):
    """Status that ClusterQueue and LocalQueue share."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()
    flavors_reservation: Annotated[
        tuple[FlavorUsage, ...], schema("Reserved quota by flavor.", **map_by("name", maxItems=64))
    ] = ()
    flavors_usage: Annotated[
        tuple[FlavorUsage, ...], schema("Used quota by flavor.", **map_by("name", maxItems=64))
    ] = ()
    pending_workloads: Annotated[Int32, schema("Workloads that wait.")] = 0
    reserving_workloads: Annotated[Int32, schema("Workloads that hold quota.")] = 0
    admitted_workloads: Annotated[Int32, schema("Workloads admitted and not finished.")] = 0
    fair_sharing: Annotated[dict[str, Any] | None, schema("Share of the cohort.", **_SHARE)] = None


class ClusterQueue(KubeObject):
    """A cluster-scoped pool of quota with its queue."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "ClusterQueue"

    spec: ClusterQueueSpec = Field(default_factory=ClusterQueueSpec)
    status: QueueStatus = Field(default_factory=QueueStatus)


class LocalQueueSpec(KubeModel):
    """The ClusterQueue of a LocalQueue."""

    cluster_queue: Annotated[Name, schema("The ClusterQueue.", x_kubernetes_validations=IMMUTABLE)] = ""
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_sharing: FairSharing | None = None


class LocalQueue(KubeObject):
    """A queue of a namespace, which leads to a ClusterQueue."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "LocalQueue"

    spec: LocalQueueSpec = Field(default_factory=LocalQueueSpec)
    status: QueueStatus = Field(default_factory=QueueStatus)


class CohortSpec(KubeModel):
    """Parent, shared quota and weight of a Cohort."""

    parent_name: Annotated[Name | None, schema("The parent cohort; unset: this is a root.")] = None
    resource_groups: ResourceGroups = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(KubeModel):
    """Share of the Cohort, and conditions that Stowage adds."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()
    fair_sharing: Annotated[dict[str, Any] | None, schema("Share of the parent.", **_SHARE)] = None


class Cohort(KubeObject):
    """A node of the tree in which queues lend and borrow quota."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "Cohort"

    spec: CohortSpec = Field(default_factory=CohortSpec)
    status: CohortStatus = Field(default_factory=CohortStatus)


class WorkloadPriorityClass(KubeObject):
    """A named priority for workloads."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "WorkloadPriorityClass"

    value: Annotated[Int32, schema("The priority; higher goes first.")]
    description: Annotated[str | None, schema("When to use the class.", maxLength=2048)] = None
