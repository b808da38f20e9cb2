"""Workload: a job as the queue sees it. Pod sets, what topology they ask for, and in the status what they got."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import API_VERSION
from api.queues import Quantity


class SliceConstraint(KubeModel):
    """One layer of slices: every `size` pods in one domain of level `topology`."""

    topology: str
    size: int


class TopologyRequest(KubeModel):
    """What a pod set asks of the topology."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: int | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    # the wire's own spelling: lower-case s
    podset_slice_required_topology_constraints: tuple[SliceConstraint, ...] | None = None

    @property
    def explicit(self) -> bool:
        """Whether topology is asked for at all; `unconstrained: false` counts, an index label alone does not."""
        return any(
            v is not None
            for v in (
                self.required,
                self.preferred,
                self.unconstrained,
                self.pod_set_slice_required_topology,
                self.pod_set_slice_size,
            )
        ) or bool(self.podset_slice_required_topology_constraints)


class PodSet(KubeModel):
    """Pods of one shape."""

    name: str = "main"
    template: dict[str, Any] = Field(default_factory=dict)
    count: int = 1
    min_count: int | None = None
    topology_request: TopologyRequest | None = None


class PriorityClassRef(KubeModel):
    """Where the priority comes from."""

    group: str
    kind: str
    name: str


class WorkloadSpec(KubeModel):
    """What is asked for."""

    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: int | None = None
    active: bool = True
    maximum_execution_time_seconds: int | None = None
    preemption_gates: tuple[dict[str, Any], ...] = ()


class IndividualValues(KubeModel):
    """Values that differ: prefix + root + suffix."""

    prefix: str | None = None
    suffix: str | None = None
    roots: tuple[str, ...] = ()


class LevelValues(KubeModel):
    """The values of one level over a slice's domains: one for all, or one each."""

    universal: str | None = None
    individual: IndividualValues | None = None


class PodCounts(KubeModel):
    """Pods per domain: one number for all, or one each."""

    universal: int | None = None
    individual: tuple[int, ...] | None = None


class AssignmentSlice(KubeModel):
    """A run of domains in compact form."""

    domain_count: int
    values_per_level: tuple[LevelValues, ...] = ()
    pod_counts: PodCounts = Field(default_factory=PodCounts)


class TopologyAssignment(KubeModel):
    """Which domains a pod set goes to; `api.assignment` converts it to and from plain lists."""

    levels: tuple[str, ...] = ()
    slices: tuple[AssignmentSlice, ...] = ()


class PodSetAssignment(KubeModel):
    """What one pod set got."""

    name: str = "main"
    flavors: dict[str, str] = Field(default_factory=dict)
    resource_usage: dict[str, Quantity] = Field(default_factory=dict)
    count: int | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: str | None = None


class Admission(KubeModel):
    """What the workload got, in which queue."""

    cluster_queue: str
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class RequeueState(KubeModel):
    """Backoff after an eviction."""

    count: int | None = None
    requeue_at: str | None = None


class ReclaimablePod(KubeModel):
    """Pods of a pod set that are done and give their quota back."""

    name: str
    count: int


class PodSetUpdate(KubeModel):
    """What an admission check adds to a pod set's template."""

    name: str
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()


class AdmissionCheckState(KubeModel):
    """Where one check stands."""

    name: str
    state: str = "Pending"
    last_transition_time: str | None = None
    message: str = ""
    requeue_after_seconds: int | None = None
    retry_count: int | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


class PodSetRequest(KubeModel):
    """Total requests of a pod set while it waits."""

    name: str
    resources: dict[str, Quantity] = Field(default_factory=dict)


class UnhealthyNode(KubeModel):
    """A node that waits to be replaced."""

    name: str


class EvictionCount(KubeModel):
    """How often a workload was evicted for a reason."""

    reason: str
    underlying_cause: str = ""
    count: int = 0


class SchedulingStats(KubeModel):
    """Counters over the workload's life."""

    evictions: tuple[EvictionCount, ...] = ()


class WorkloadStatus(KubeModel):
    """Where the workload stands; every wait has a reason in its conditions."""

    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    admission_checks: tuple[AdmissionCheckState, ...] = ()
    resource_requests: tuple[PodSetRequest, ...] = ()
    accumulated_past_execution_time_seconds: int | None = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: tuple[str, ...] = ()
    cluster_name: str | None = None
    unhealthy_nodes: tuple[UnhealthyNode, ...] = ()
    preemption_gates: tuple[dict[str, Any], ...] = ()


class Workload(KubeObject):
    """A job (or group of pods) as the queue sees it."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "Workload"

    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)
    status: WorkloadStatus = Field(default_factory=WorkloadStatus)
