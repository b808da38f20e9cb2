"""Workload: a job in the queue, with its pod sets, their topology requests, and in the status its admission."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import ADMITTED, API_VERSION, GROUP, IS_GROUP_WORKLOAD, QUOTA_RESERVED
from api.schema import (
    CONDITIONS,
    LABEL_KEY,
    POD_TEMPLATE,
    TOLERATIONS,
    Int32,
    LevelKey,
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

MAX_POD_SETS = 18
MAX_CONSTRAINTS = 16


class SliceConstraint(KubeModel):
    """One layer of slices: every `size` pods in one domain of level `topology`."""

    topology: Annotated[LevelName, schema("Label key of the level.")]
    size: Annotated[int, schema("Pods of one slice.", mandatory=True, format="int32", minimum=1)] = 0


class PlacementConstraint(KubeModel):
    """A requirement at one level of the topology."""

    level: Annotated[
        str,
        schema(
            "Label key of the level, or its last part.", mandatory=True, minLength=1, maxLength=316, pattern=LABEL_KEY
        ),
    ] = ""
    type: Annotated[
        str, schema("Pack onto few domains of the level, or spread evenly.", default=None, enum=["pack", "spread"])
    ] = "pack"
    partitions: Annotated[int | None, schema("Exact number of used domains.", format="int32", minimum=1)] = None
    min: Annotated[int | None, schema("Fewest pods in a used domain.", format="int32", minimum=1)] = None
    max: Annotated[int | None, schema("Most pods in a used domain.", format="int32", minimum=1)] = None
    factor: Annotated[
        int | None, schema("Pods in a used domain are a multiple of this.", format="int32", minimum=1)
    ] = None
    hard: Annotated[bool, schema("Never violate; if false, violate as little as possible.")] = False


class TopologyRequest(KubeModel):
    """The topology request of a pod set."""

    required: Annotated[str | None, schema("All pods in one domain of this level.", maxLength=63)] = None
    preferred: Annotated[str | None, schema("All pods in as few domains of this level as possible.", maxLength=63)] = (
        None
    )
    unconstrained: Annotated[bool | None, schema("Anywhere, but counted by topology.")] = None
    pod_index_label: Annotated[str | None, schema("Label with a pod's rank.", maxLength=317)] = None
    sub_group_index_label: Annotated[str | None, schema("Label with the replicated job's index.", maxLength=317)] = None
    sub_group_count: Annotated[int | None, schema("Number of replicated jobs.", format="int32", minimum=0)] = None
    pod_set_group_name: Annotated[
        str | None, schema("Pod sets of one name are placed together, on one flavor.", maxLength=256)
    ] = None
    pod_set_slice_required_topology: Annotated[
        str | None, schema("Each slice in one domain of this level.", maxLength=63)
    ] = None
    pod_set_slice_size: Annotated[int | None, schema("Pods of one slice.", format="int32", minimum=1)] = None
    # the wire's own spelling: lower-case s
    podset_slice_required_topology_constraints: Annotated[
        tuple[SliceConstraint, ...] | None, schema("Layers of slices, widest first.", **atomic(maxItems=3))
    ] = None
    constraints: Annotated[
        tuple[PlacementConstraint, ...] | None,
        schema(
            "Requirements at each level (an extension of Stowage).",
            **map_by("level", minItems=1, maxItems=MAX_CONSTRAINTS),
        ),
    ] = None
    relax_after_seconds: Annotated[
        int | None,
        schema(
            "Seconds of waiting after which the required level is widened by one, repeatedly (an extension of Stowage).",
            format="int32",
            minimum=1,
        ),
    ] = None
    spare_hosts: Annotated[
        int | None,
        schema(
            "Hosts that are kept free for pods whose host fails (an extension of Stowage).",
            format="int32",
            minimum=1,
            maximum=100,
        ),
    ] = None

    @property
    def explicit(self) -> bool:
        """Reports whether a topology is requested; `unconstrained: false` counts, an index label alone does not."""
        return any(
            v is not None
            for v in (
                self.required,
                self.preferred,
                self.unconstrained,
                self.pod_set_slice_required_topology,
                self.pod_set_slice_size,
            )
        ) or bool(self.podset_slice_required_topology_constraints or self.constraints)


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


MAX_DOMAINS = 100_000
MAX_SLICES = 1000

Root = Annotated[str, schema(maxLength=63)]
PodCount = Annotated[int, schema(format="int32", minimum=1)]
# Both types below are unions: exactly one of the two members is set.
_ONE_OF: Schema = {"minProperties": 1, "maxProperties": 1}


class IndividualValues(KubeModel):
    """Differing values, each prefix + root + suffix."""

    prefix: Annotated[str | None, schema("Common prefix of the values.", minLength=1, maxLength=63)] = None
    suffix: Annotated[str | None, schema("Common suffix of the values.", minLength=1, maxLength=63)] = None
    roots: Annotated[
        tuple[Root, ...],
        schema(
            "The part of each value between prefix and suffix.",
            mandatory=True,
            **atomic(minItems=1, maxItems=MAX_DOMAINS),
        ),
    ] = ()


class LevelValues(KubeModel):
    """Values of one level over a slice's domains: one for all, or one each."""

    model_config = ConfigDict(json_schema_extra=_ONE_OF)

    universal: Annotated[str | None, schema("The value of every domain.", maxLength=63)] = None
    individual: IndividualValues | None = None


class PodCounts(KubeModel):
    """Pods per domain: one number for all, or one each."""

    model_config = ConfigDict(json_schema_extra=_ONE_OF)

    universal: Annotated[PodCount | None, schema("Pods of every domain.")] = None
    individual: Annotated[
        tuple[PodCount, ...] | None, schema("Pods by domain.", **atomic(minItems=1, maxItems=MAX_DOMAINS))
    ] = None


class AssignmentSlice(KubeModel):
    """A run of domains in compact form."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.valuesPerLevel.all(v, !has(v.individual) || size(v.individual.roots) == self.domainCount)",
                "roots must have one item per domain",
            ),
            rule(
                "!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
                "individual pod counts must have one item per domain",
            ),
        )
    )

    domain_count: Annotated[int, schema("Domains in the run.", format="int32", minimum=1, maximum=MAX_DOMAINS)]
    values_per_level: Annotated[
        tuple[LevelValues, ...],
        schema("In the order of levels.", mandatory=True, **atomic(minItems=1, maxItems=16)),
    ] = ()
    pod_counts: Annotated[PodCounts, schema(mandatory=True)] = Field(default_factory=PodCounts)


class TopologyAssignment(KubeModel):
    """The domains of a pod set; `api.assignment` converts it to and from plain lists."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.slices) || self.slices.all(s, size(s.valuesPerLevel) == size(self.levels))",
                "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            )
        )
    )

    levels: Annotated[
        tuple[LevelKey, ...], schema("Label keys, widest first.", mandatory=True, **atomic(minItems=1, maxItems=16))
    ] = ()
    slices: Annotated[tuple[AssignmentSlice, ...], schema("In order.", **atomic(maxItems=MAX_SLICES))] = ()


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


class Workload(KubeObject):
    """A job (or group of pods) in the queue."""

    model_config = ConfigDict(json_schema_extra=WORKLOAD_RULES)

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "Workload"

    spec: Annotated[WorkloadSpec, schema(mandatory=True)] = Field(default_factory=WorkloadSpec)
    status: WorkloadStatus = Field(default_factory=WorkloadStatus)

    @property
    def of_one_pod(self) -> bool:
        """Reports whether it belongs to a single plain pod: its only owner is a Pod, and it has no group."""
        owners = [(owner.api_version, owner.kind) for owner in self.metadata.owner_references]
        return owners == [("v1", "Pod")] and IS_GROUP_WORKLOAD not in self.metadata.annotations
