"""Workload: a job in the queue, with its pod sets, their topology requests, and in the status its admission."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field

from api.meta import Condition, KubeModel, KubeObject, OwnerReference, find_condition, parse_time
from api.names import ADMITTED, API_VERSION, GROUP, IS_GROUP_WORKLOAD, QUOTA_RESERVED
from api.schema import (
    CONDITIONS,
    POD_TEMPLATE,
    TOLERATIONS,
    Int32,
    LevelName,
    Name,
    PodSetName,
    Quantity,
    Schema,
    Time,
    atomic,
    map_by,
    rule,
    rules,
    schema,
    unique,
)
from api.topology_assignment import TopologyAssignment
from api.topology_request import TopologyRequest

MAX_POD_SETS = 18


class PodSet(KubeModel):
    """Pods with the same template."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.minCount) || self.minCount <= self.count",
                "minCount should be positive and less or equal to count",
            )
        )
    )

    name: PodSetName = "main"
    template: Annotated[dict[str, Any], schema("A PodTemplateSpec.", mandatory=True, **POD_TEMPLATE)] = Field(
        default_factory=dict
    )
    count: Annotated[int, schema("Pods of the set.", format="int32", minimum=0)] = 1
    min_count: Annotated[int | None, schema("Fewest pods with which it can start.", format="int32", minimum=1)] = None
    topology_request: TopologyRequest | None = None


class PriorityClassRef(KubeModel):
    """The class that defines the workload's priority."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
                "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
            ),
            rule(
                f"self.group != '{GROUP}' || self.kind == 'WorkloadPriorityClass'",
                f"only the WorkloadPriorityClass kind is allowed for the {GROUP} group",
            ),
        )
    )

    group: Annotated[str, schema("API group of the class.", enum=[GROUP, "scheduling.k8s.io"])]
    kind: Annotated[str, schema("Kind of the class.", enum=["WorkloadPriorityClass", "PriorityClass"])]
    name: Name


_GATE_NAME: Schema = {"type": "string", "description": "Name of the gate.", "minLength": 1, "maxLength": 63}
_GATE: Schema = {"type": "object", "required": ["name"], "properties": {"name": _GATE_NAME}}
_GATE_STATE: Schema = {
    "type": "object",
    "required": ["lastTransitionTime", "name", "position"],
    "properties": {
        "name": _GATE_NAME,
        "position": {"type": "string", "description": "Closed gates block preemption.", "enum": ["Closed", "Open"]},
        "lastTransitionTime": {"type": "string", "description": "When the position changed.", "format": "date-time"},
    },
}


_EARLY_REQUEST: Schema = {
    "policy": {"type": "string", "description": "Require or Prefer."},
    "level": {"type": "string", "description": "Label key of the level."},
}


class WorkloadSpec(KubeModel):
    """Requests of a workload."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.priorityClassRef) || has(self.priority)",
                "priority should not be nil when priorityClassRef is set",
            ),
        )
    )

    pod_sets: Annotated[
        tuple[PodSet, ...],
        schema(
            "Groups of pods with one template each; they start together.",
            **map_by("name", minItems=1, maxItems=MAX_POD_SETS),
            x_kubernetes_validations=[
                rule("self.filter(p, has(p.minCount)).size() <= 1", "at most one podSet can use minCount")
            ],
        ),
    ] = ()
    queue_name: Annotated[Name, schema("The LocalQueue.")] = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: Annotated[Int32 | None, schema("Workloads with higher priority go first; unset counts as 0.")] = None
    topology_request: Annotated[
        dict[str, Any] | None, schema("The older form, for the whole job; refused.", properties=_EARLY_REQUEST)
    ] = None
    active: Annotated[bool, schema("If false, the workload is evicted and not queued again.")] = True
    maximum_execution_time_seconds: Annotated[
        int | None, schema("Seconds of admission after which it is deactivated.", format="int32", minimum=1)
    ] = None
    preemption_gates: Annotated[
        tuple[dict[str, Any], ...],
        schema("Gates that block the preemption of other workloads.", **map_by("name", items=_GATE, maxItems=8)),
    ] = ()


class PodSetAssignment(KubeModel):
    """The admission of one pod set."""

    name: PodSetName = "main"
    flavors: Annotated[dict[str, Name], schema("Flavor by resource.")] = Field(default_factory=dict)
    resource_usage: Annotated[dict[str, Quantity], schema("Usage of all pods together.")] = Field(default_factory=dict)
    count: Annotated[int | None, schema("Pods that were admitted.", format="int32", minimum=0)] = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: Annotated[
        str | None, schema("Whether the placement waits for admission checks.", enum=["Pending", "Ready"])
    ] = None


class Admission(KubeModel):
    """The admission of a workload: its ClusterQueue, and flavors and domains of its pod sets."""

    cluster_queue: Annotated[Name, schema("The ClusterQueue that holds the quota.")]
    pod_set_assignments: Annotated[
        tuple[PodSetAssignment, ...],
        schema("Admission of each pod set.", mandatory=True, **map_by("name", maxItems=MAX_POD_SETS)),
    ] = ()


class RequeueState(KubeModel):
    """Backoff after an eviction."""

    count: Annotated[int | None, schema("Evictions so far.", format="int32", minimum=0)] = None
    requeue_at: Annotated[Time | None, schema("Time before which it is not queued.")] = None


class ReclaimablePod(KubeModel):
    """Pods of a pod set that have ended and return their quota."""

    name: PodSetName
    count: Annotated[int, schema("Pods that have ended.", format="int32", minimum=0)]


class PodSetUpdate(KubeModel):
    """Changes of a pod set's template by an admission check."""

    name: PodSetName
    labels: Annotated[dict[str, str], schema("Labels to add.")] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], schema("Annotations to add.")] = Field(default_factory=dict)
    node_selector: Annotated[dict[str, str], schema("Node labels to add to the selector.")] = Field(
        default_factory=dict
    )
    tolerations: Annotated[tuple[dict[str, Any], ...], schema("Tolerations to add.", **TOLERATIONS)] = ()


class AdmissionCheckState(KubeModel):
    """State of one admission check."""

    name: Annotated[str, schema("Name of the AdmissionCheck.", mandatory=True, minLength=1, maxLength=316)] = ""
    state: Annotated[
        str,
        schema("Result of the check.", mandatory=True, default=None, enum=["Pending", "Ready", "Retry", "Rejected"]),
    ] = "Pending"
    last_transition_time: Annotated[Time | None, schema("When the state changed.", mandatory=True)] = None
    message: Annotated[str, schema("Reason, for users.", mandatory=True, maxLength=32768)] = ""
    requeue_after_seconds: Annotated[int | None, schema("Wait before the next try.", format="int32", minimum=0)] = None
    retry_count: Annotated[int | None, schema("Retries so far.", format="int32", minimum=0)] = None
    pod_set_updates: Annotated[
        tuple[PodSetUpdate, ...], schema("Changes of the pods by the check.", **atomic(maxItems=MAX_POD_SETS))
    ] = ()


class PodSetRequest(KubeModel):
    """Total requests of a waiting pod set."""

    name: PodSetName
    resources: Annotated[dict[str, Quantity], schema("Requests of all its pods.")] = Field(default_factory=dict)


class UnhealthyNode(KubeModel):
    """A node that waits for its replacement."""

    name: Annotated[LevelName, schema("Name of the node.")]


class EvictionCount(KubeModel):
    """Number of evictions of a workload for one reason."""

    reason: Annotated[str, schema("Reason of the eviction.", maxLength=316)]
    underlying_cause: Annotated[str, schema("The cause behind the reason.", maxLength=316, default="")] = ""
    count: Annotated[int, schema("How often.", mandatory=True, format="int32", minimum=0)] = 0


class SchedulingStats(KubeModel):
    """Counters over the workload's lifetime."""

    evictions: Annotated[
        tuple[EvictionCount, ...], schema("Evictions by reason.", **map_by("reason", "underlyingCause", maxItems=256))
    ] = ()


class WorkloadStatus(KubeModel):
    """State of a workload; a condition has the reason of every wait."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.clusterName) || !has(self.nominatedClusterNames) || size(self.nominatedClusterNames) == 0",
                "clusterName and nominatedClusterNames are mutually exclusive",
            ),
            rule(
                "!has(oldSelf.clusterName) || !has(self.clusterName) || self.clusterName == oldSelf.clusterName",
                "clusterName is immutable once set",
            ),
            rule(
                "has(oldSelf.clusterName) || !has(self.clusterName) || has(oldSelf.nominatedClusterNames)"
                " && self.clusterName in oldSelf.nominatedClusterNames",
                "clusterName must be one of the nominatedClusterNames",
            ),
        )
    )

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: Annotated[
        tuple[ReclaimablePod, ...],
        schema("Pods that have ended and return their quota.", **map_by("name", maxItems=MAX_POD_SETS)),
    ] = ()
    admission_checks: Annotated[
        tuple[AdmissionCheckState, ...], schema("Result of each check.", **map_by("name", maxItems=8))
    ] = ()
    resource_requests: Annotated[
        tuple[PodSetRequest, ...],
        schema("Total requests of the waiting pod sets.", **map_by("name", maxItems=MAX_POD_SETS)),
    ] = ()
    accumulated_past_execution_time_seconds: Annotated[
        int | None, schema("Seconds of earlier admissions.", format="int32", minimum=0)
    ] = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: Annotated[
        tuple[Name, ...], schema("Clusters that may run it (MultiKueue).", **unique(maxItems=20))
    ] = ()
    cluster_name: Annotated[Name | None, schema("The cluster that runs it (MultiKueue).")] = None
    unhealthy_nodes: Annotated[
        tuple[UnhealthyNode, ...], schema("Nodes that wait to be replaced.", **map_by("name", maxItems=8))
    ] = ()
    preemption_gates: Annotated[
        tuple[dict[str, Any], ...],
        schema("State of each preemption gate.", **map_by("name", items=_GATE_STATE, maxItems=8)),
    ] = ()


def _has_condition(obj: str, kind: str) -> str:
    """Returns CEL that tests whether the condition has status True."""
    conditions = f"{obj}.status.conditions"
    there = f"has({obj}.status) && has({conditions})"
    return f"{there} && {conditions}.exists(c, c.type == '{kind}' && c.status == 'True')"


def _while(kind: str, then: str) -> str:
    """Returns CEL that requires `then` for each update before and after which the condition is True."""
    return f"!({_has_condition('self', kind)}) || !({_has_condition('oldSelf', kind)}) || ({then})"


def _same(path: str) -> str:
    """Returns CEL that requires the optional field to be equal, or absent in both."""
    old = path.replace("self", "oldSelf", 1)
    return f"has({path}) == has({old}) && (!has({path}) || {path} == {old})"


def _same_inside(member: str) -> str:
    """Returns CEL that requires a member of priorityClassRef to be equal if both have the reference."""
    ref = "spec.priorityClassRef"
    return f"!has(self.{ref}) || !has(oldSelf.{ref}) || self.{ref}.{member} == oldSelf.{ref}.{member}"


_RESERVED_SUFFIX = "is immutable while workload quota reserved"

WORKLOAD_RULES = rules(
    rule(
        f"!({_has_condition('self', QUOTA_RESERVED)}) || !has(self.status.admission) || !has(self.spec.podSets)"
        " || size(self.status.admission.podSetAssignments) == size(self.spec.podSets)",
        "podSetAssignments must have the same number of podSets as the spec",
    ),
    rule(
        _while(QUOTA_RESERVED, "has(self.spec.priorityClassRef) == has(oldSelf.spec.priorityClassRef)"),
        f"priorityClassRef {_RESERVED_SUFFIX}",
    ),
    rule(_while(QUOTA_RESERVED, _same_inside("group")), f"priorityClassRef.group {_RESERVED_SUFFIX}"),
    rule(_while(QUOTA_RESERVED, _same_inside("kind")), f"priorityClassRef.kind {_RESERVED_SUFFIX}"),
    rule(
        _while(
            QUOTA_RESERVED,
            "!has(self.spec.priorityClassRef) || self.spec.priorityClassRef.group != 'scheduling.k8s.io' || "
            + _same_inside("name"),
        ),
        f"priorityClassRef.name {_RESERVED_SUFFIX}",
    ),
    rule(_while(QUOTA_RESERVED, _same("self.spec.queueName")), f"queueName {_RESERVED_SUFFIX}"),
    rule(
        _while(ADMITTED, _same("self.spec.maximumExecutionTimeSeconds")),
        "maximumExecutionTimeSeconds is immutable while admitted",
    ),
)


_SETS: Final = frozenset((("apps", "StatefulSet"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")))


def is_set(owner: OwnerReference) -> bool:
    """Reports whether the owner is a StatefulSet or a LeaderWorkerSet."""
    return (owner.api_version.rpartition("/")[0], owner.kind) in _SETS


class Workload(KubeObject):
    """A job (or group of pods) in the queue."""

    model_config = ConfigDict(json_schema_extra=WORKLOAD_RULES)

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "Workload"

    spec: Annotated[WorkloadSpec, schema(mandatory=True)] = Field(default_factory=WorkloadSpec)
    status: WorkloadStatus = Field(default_factory=WorkloadStatus)

    @property
    def reclaimed(self) -> dict[str, int]:
        """Returns by pod set the pods that have ended and return their quota.

        Nothing of an entry with more pods than its pod set has is believed: nobody knows how many of them still run.
        """
        counts = {pod_set.name: pod_set.count for pod_set in self.spec.pod_sets}
        return {
            each.name: each.count for each in self.status.reclaimable_pods if each.count <= counts.get(each.name, 0)
        }

    @property
    def admitted_pods(self) -> int:
        """Returns how many pods were admitted and have not returned their quota; 0 without an admission."""
        admission = self.status.admission
        counts = {pod_set.name: pod_set.count for pod_set in self.spec.pod_sets}
        sets = admission.pod_set_assignments if admission is not None else ()
        admitted = sum(counts.get(each.name, 0) if each.count is None else each.count for each in sets)
        return admitted - sum(self.reclaimed.values())

    @property
    def admitted_at(self) -> float | None:
        """Returns when it was admitted, in epoch seconds, or None."""
        admitted = find_condition(self.status.conditions, ADMITTED)
        return parse_time(admitted.last_transition_time) if admitted is not None else None

    @property
    def owner(self) -> OwnerReference | None:
        """The job, pod or set that it is for: its controller, or else the set that owns it."""
        owners = self.metadata.owner_references
        return next((owner for owner in owners if owner.controller), None) or self.set_owner

    @property
    def set_owner(self) -> OwnerReference | None:
        """The StatefulSet or LeaderWorkerSet that it is for, which owns it without being its controller, as in Kueue."""
        return next((owner for owner in self.metadata.owner_references if is_set(owner)), None)

    @property
    def of_pod_group(self) -> bool:
        """Reports whether it was made for a group of pods that no set creates."""
        return IS_GROUP_WORKLOAD in self.metadata.annotations and self.set_owner is None

    @property
    def of_one_pod(self) -> bool:
        """Reports whether it belongs to a single plain pod: its only owner is a Pod, and it has no group."""
        owners = [(owner.api_version, owner.kind) for owner in self.metadata.owner_references]
        return owners == [("v1", "Pod")] and IS_GROUP_WORKLOAD not in self.metadata.annotations
