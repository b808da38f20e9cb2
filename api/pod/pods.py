"""The fields of Nodes, Pods and pod templates that are read, as structs.

Many objects are decoded into these types; unknown fields are skipped, because the objects are never written back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.names import TAS_ANNOTATIONS, UNGATER_GATES, WORKLOAD_ANNOTATION

PENDING_PODS: Final = "status.phase=Pending"
"""The field selector for watches of pods that wait for a node or have just got one.

It does not say `spec.nodeName=`: the API server takes that for a watch of one node's pods, for which it buffers only ten
events. While many pods are created, such a watch breaks repeatedly and delays other watches.
"""

RESIZE_PENDING: Final = "PodResizePending"
RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"


class _Wire(msgspec.Struct, rename="camel", frozen=True, kw_only=True, gc=False):
    """Base of decoded structs. They never form cycles, so the garbage collector can skip them (there are many)."""


class Meta(_Wire, frozen=True):
    """The read fields of an object's metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class FieldManager(_Wire, frozen=True):
    """A client that wrote fields of an object; `operation` is Apply for server-side apply, else Update."""

    operation: str = ""


class PodMeta(Meta, frozen=True):
    """The read fields of a pod's metadata."""

    managed_fields: tuple[FieldManager, ...] = ()

    @property
    def applied(self) -> bool:
        """Reports whether a client applies the pod server-side, and so relies on the fields that it is recorded to own."""
        return any(each.operation != "Update" for each in self.managed_fields)


class Taint(_Wire, frozen=True):
    """A node's taint."""

    key: str
    effect: str
    value: str = ""


class Toleration(_Wire, frozen=True):
    """A pod's or flavor's toleration; empty operator means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(_Wire, frozen=True):
    """One expression of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(_Wire, frozen=True):
    """Expressions and fields, all ANDed. A term with neither matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(_Wire, frozen=True):
    """Node selector terms, ORed."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredTerm(_Wire, frozen=True):
    """A weighted node selector term."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(_Wire, frozen=True):
    """Affinity to nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class PodAffinityTerm(_Wire, frozen=True):
    """The pods that a term selects, and the topology key of its domains."""

    topology_key: str = ""
    label_selector: dict[str, Any] | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: dict[str, Any] | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(_Wire, frozen=True):
    """Affinity to other pods."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class PodAntiAffinity(_Wire, frozen=True):
    """Anti-affinity to other pods."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(_Wire, frozen=True):
    """Affinity to nodes and pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class SpreadConstraint(_Wire, frozen=True):
    """A topology spread constraint: how evenly the selected pods are distributed over domains."""

    topology_key: str = ""
    when_unsatisfiable: str = ""
    max_skew: int = 1
    min_domains: int | None = None
    label_selector: dict[str, Any] | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class ResourceRequirements(_Wire, frozen=True):
    """requests and limits as JSON quantities."""

    requests: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    limits: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class Port(_Wire, frozen=True):
    """A container's port."""

    host_port: int = 0
    """0 for no port of the node."""
    container_port: int = 0
    protocol: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")
    """Empty for all addresses of the node."""


class Container(_Wire, frozen=True):
    """A container's resources and ports; `restart_policy` Always on an init container makes it a sidecar."""

    name: str = ""
    ports: tuple[Port, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None


class Gate(_Wire, frozen=True):
    """A scheduling gate."""

    name: str


class ClaimSource(_Wire, frozen=True):
    """The PersistentVolumeClaim that a pod names."""

    claim_name: str = ""


class GcePersistentDisk(_Wire, frozen=True):
    """A disk that a pod names itself, as the three types below."""

    pd_name: str = ""
    read_only: bool = False


class ElasticBlockStore(_Wire, frozen=True):
    """A volume of AWS, by its ID."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class Iscsi(_Wire, frozen=True):
    """A disk of an iSCSI target."""

    iqn: str = ""
    read_only: bool = False


class Rbd(_Wire, frozen=True):
    """An image of a Ceph pool."""

    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class PodVolume(_Wire, frozen=True):
    """A volume of a pod. `ephemeral` means a claim that was created for this pod."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: ElasticBlockStore | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None


class PodResourceClaim(_Wire, frozen=True):
    """Devices that a pod requests by a claim template or by a claim."""

    name: str = ""
    resource_claim_template_name: str | None = None


class GatedPodSpec(_Wire, frozen=True):
    """What an opener of gates reads of a pod's spec."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    scheduling_gates: tuple[Gate, ...] = ()
    volumes: tuple[PodVolume, ...] = ()


class PodSpec(GatedPodSpec, frozen=True):
    """The read fields of the spec of a pod or template."""

    node_name: str = ""
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    host_network: bool = False
    resources: ResourceRequirements | None = None
    priority_class_name: str = ""
    priority: int | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()


class StatusCondition(_Wire, frozen=True):
    """A condition of a pod's or node's status."""

    type: str
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class ContainerStatus(_Wire, frozen=True):
    """The read fields of a container's status: what its node has granted it, and what it has."""

    name: str = ""
    allocated_resources: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    resources: ResourceRequirements = ResourceRequirements()


class ContainerStatuses(_Wire, frozen=True):
    """The statuses of a pod's containers, which are read only while the pod is resized: there are many."""

    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class ResizedPod(_Wire, frozen=True):
    """A pod whose resources change in place."""

    status: ContainerStatuses = ContainerStatuses()


class PodPhase(_Wire, frozen=True):
    """Whether a pod runs or has ended."""

    phase: str = ""


class PodStatus(PodPhase, frozen=True):
    """The read fields of a pod's status."""

    conditions: tuple[StatusCondition, ...] = ()


class GatedPod(_Wire, frozen=True):
    """A pod as an opener of gates reads it: half the size of a Pod, and there are many."""

    metadata: PodMeta = PodMeta()
    spec: GatedPodSpec = GatedPodSpec()
    status: PodPhase = PodPhase()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def terminated(self) -> bool:
        """Reports whether the pod has ended. A terminating pod has not: it still uses its node."""
        return self.status.phase in ("Failed", "Succeeded")

    @property
    def gated(self) -> bool:
        """Reports whether a gate that the ungater opens is closed."""
        return bool(self.closed_gates)

    @property
    def closed_gates(self) -> tuple[str, ...]:
        """The gates of the pod that the ungater opens."""
        return tuple(gate.name for gate in self.spec.scheduling_gates if gate.name in UNGATER_GATES)

    @property
    def topology_aware(self) -> bool:
        """Reports whether the pod has a topology annotation, and so counts in a topology assignment."""
        return any(name in self.metadata.annotations for name in TAS_ANNOTATIONS)

    @property
    def claims(self) -> tuple[str, ...]:
        """Keys `namespace/name` of the PersistentVolumeClaims that the pod uses."""
        sources = ((volume, volume.persistent_volume_claim) for volume in self.spec.volumes)
        names = (
            source.claim_name if source else f"{self.metadata.name}-{volume.name}" if volume.ephemeral else ""
            for volume, source in sources
        )
        return tuple(f"{self.metadata.namespace}/{name}" for name in names if name)

    @property
    def own_claims(self) -> tuple[str, ...]:
        """Keys `namespace/name` of the PersistentVolumeClaims that Kubernetes creates for the pod's ephemeral volumes."""
        meta = self.metadata
        return tuple(f"{meta.namespace}/{meta.name}-{volume.name}" for volume in self.spec.volumes if volume.ephemeral)

    @property
    def workload(self) -> str | None:
        """Key of the Workload that the pod's annotation names, or None."""
        name = self.metadata.annotations.get(WORKLOAD_ANNOTATION)
        return f"{self.metadata.namespace}/{name}" if name else None


class Pod(GatedPod, frozen=True):
    """The read fields of a pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def resizing(self) -> bool:
        """Reports whether a change of its resources in place is pending or in progress."""
        return any(c.type in (RESIZE_PENDING, RESIZE_IN_PROGRESS) for c in self.status.conditions)

    @property
    def resize_infeasible(self) -> bool:
        """Reports whether its node has refused a change of its resources for good."""
        return any(c.type == RESIZE_PENDING and c.reason == "Infeasible" for c in self.status.conditions)

    @property
    def devices(self) -> tuple[str, ...]:
        """Keys `namespace/name` of the ResourceClaimTemplates of the pod's devices."""
        names = (claim.resource_claim_template_name for claim in self.spec.resource_claims)
        return tuple(f"{self.metadata.namespace}/{name}" for name in names if name)


class NodeSpec(_Wire, frozen=True):
    """The read fields of a node's spec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(_Wire, frozen=True):
    """The read fields of a node's status."""

    allocatable: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    conditions: tuple[StatusCondition, ...] = ()


class Node(_Wire, frozen=True):
    """The read fields of a node."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def key(self) -> str:
        """The node's name."""
        return self.metadata.name

    @property
    def ready(self) -> bool:
        """Reports whether the condition Ready is True; a missing condition means not ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class Namespace(_Wire, frozen=True):
    """A namespace with its labels."""

    metadata: Meta = Meta()


def pod_spec(template: Mapping[str, Any]) -> PodSpec:
    """Decodes the spec of a PodTemplateSpec. Raises msgspec.ValidationError with the path of a bad field."""
    return msgspec.convert(template.get("spec") or {}, PodSpec)
