"""ClusterQueue, LocalQueue, Cohort, WorkloadPriorityClass and AdmissionCheck (v1beta2 fields).

Fields whose behaviour is not there yet are typed as well, so that nothing that a user sets is lost; what is set but not
honoured is named in the object's condition by the controller.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

from pydantic import Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import API_VERSION

Quantity = str | int | float


class StopPolicy(StrEnum):
    """What a stopped queue does with admitted workloads: keep (Hold) or evict (HoldAndDrain)."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class QueueingStrategy(StrEnum):
    """Whether a head that does not fit blocks those behind it."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class ResourceQuota(KubeModel):
    """Quota of one resource in one flavor."""

    name: str
    nominal_quota: Quantity = 0
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(KubeModel):
    """Quotas of one flavor, one entry per covered resource."""

    name: str
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(KubeModel):
    """Resources that are assigned together, and the flavors tried for them in order."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FairSharing(KubeModel):
    """Weight in fair sharing; 0 is an infinite share."""

    weight: Quantity | None = None


class FlavorFungibility(KubeModel):
    """Whether to take a flavor that needs borrowing or preemption, or to try the next one."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str | None = None


class BorrowWithinCohort(KubeModel):
    """Preemption while borrowing."""

    policy: str = "Never"
    max_priority_threshold: int | None = None


class Preemption(KubeModel):
    """Whom this queue's workloads may evict."""

    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None


class AdmissionCheckRule(KubeModel):
    """A check and the flavors it holds for (none: all)."""

    name: str
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(KubeModel):
    """The checks of a queue."""

    admission_checks: tuple[AdmissionCheckRule, ...] = ()


class ClusterQueueSpec(KubeModel):
    """Quota, order and policies of a queue."""

    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str | None = None
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    namespace_selector: dict[str, Any] | None = None
    flavor_fungibility: FlavorFungibility | None = None
    preemption: Preemption | None = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_sharing: FairSharing | None = None
    admission_scope: dict[str, Any] | None = None
    concurrent_admission_policy: dict[str, Any] | None = None


class ResourceUsage(KubeModel):
    """Used amount of one resource, and how much of it is borrowed."""

    name: str
    total: Quantity = "0"
    borrowed: Quantity | None = None


class FlavorUsage(KubeModel):
    """Usage of one flavor."""

    name: str
    resources: tuple[ResourceUsage, ...] = ()


class QueueStatus(KubeModel):
    """Status that ClusterQueue and LocalQueue share."""

    conditions: tuple[Condition, ...] = ()
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    fair_sharing: dict[str, Any] | None = None


class ClusterQueue(KubeObject):
    """Cluster-scoped pool of quota with its queue."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "ClusterQueue"

    spec: ClusterQueueSpec = Field(default_factory=ClusterQueueSpec)
    status: QueueStatus = Field(default_factory=QueueStatus)


class LocalQueueSpec(KubeModel):
    """Which ClusterQueue it leads to."""

    cluster_queue: str = ""
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_sharing: FairSharing | None = None


class LocalQueue(KubeObject):
    """A namespace's door to a ClusterQueue."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "LocalQueue"

    spec: LocalQueueSpec = Field(default_factory=LocalQueueSpec)
    status: QueueStatus = Field(default_factory=QueueStatus)


class CohortSpec(KubeModel):
    """Parent, shared quota and weight."""

    parent_name: str | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(KubeModel):
    """Share of the cohort; conditions are ours."""

    conditions: tuple[Condition, ...] = ()
    fair_sharing: dict[str, Any] | None = None


class Cohort(KubeObject):
    """A node of the tree in which queues lend and borrow."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "Cohort"

    spec: CohortSpec = Field(default_factory=CohortSpec)
    status: CohortStatus = Field(default_factory=CohortStatus)


class WorkloadPriorityClass(KubeObject):
    """A named priority for workloads."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "WorkloadPriorityClass"

    value: int
    description: str | None = None


class CheckParameters(KubeModel):
    """Reference to a check controller's parameters."""

    api_group: str
    kind: str
    name: str


class AdmissionCheckSpec(KubeModel):
    """Who answers the check."""

    controller_name: str = ""
    parameters: CheckParameters | None = None


class AdmissionCheckStatus(KubeModel):
    """Condition Active."""

    conditions: tuple[Condition, ...] = ()


class AdmissionCheck(KubeObject):
    """A gate that another controller opens per workload."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "AdmissionCheck"

    spec: AdmissionCheckSpec = Field(default_factory=AdmissionCheckSpec)
    status: AdmissionCheckStatus = Field(default_factory=AdmissionCheckStatus)
