"""The little of Nodes, Pods and pod templates that is read, as projected structs, and what a pod really requests.

Bulk objects are decoded straight into these (unknown fields are skipped, not kept: they are never written back).
Effective requests follow the scheduler's rule: the larger of (containers plus sidecars) and of each ordinary init
container at its turn, plus overhead; pod-level resources win over the sum where they are set; a limit stands in for a
missing request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from api.names import ELASTIC_GATE, TAS_ANNOTATIONS, TOPOLOGY_GATE, WORKLOAD_ANNOTATION
from api.quantity import Resources, parse_list


class _Wire(msgspec.Struct, rename="camel", frozen=True, kw_only=True, gc=False):
    """Made from the wire, so never in a circle: the collector of garbage need not look at the many there are."""


class Meta(_Wire, frozen=True):
    """Projected metadata of a bulk object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


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
    """Expressions and fields, all ANDed; a term with neither matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(_Wire, frozen=True):
    """Terms, ORed."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredTerm(_Wire, frozen=True):
    """A weighted node selector term."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(_Wire, frozen=True):
    """The node part of affinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class PodAffinityTerm(_Wire, frozen=True):
    """Which pods a term selects, and the domain that it speaks of."""

    topology_key: str = ""
    label_selector: dict[str, Any] | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: dict[str, Any] | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(_Wire, frozen=True):
    """The pods that a pod wants to be near."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class PodAntiAffinity(_Wire, frozen=True):
    """The pods that a pod keeps away."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(_Wire, frozen=True):
    """Affinity to nodes and pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class SpreadConstraint(_Wire, frozen=True):
    """How evenly the pods that it selects lie over the domains of a topology key."""

    topology_key: str = ""
    when_unsatisfiable: str = ""
    max_skew: int = 1
    min_domains: int | None = None
    label_selector: dict[str, Any] | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class ResourceRequirements(_Wire, frozen=True):
    """requests and limits, as on the wire."""

    requests: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    limits: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class Port(_Wire, frozen=True):
    """A port of a container; `host_port` 0: not a port of the node."""

    host_port: int = 0
    container_port: int = 0
    protocol: str = ""


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
    """A claim that a pod names."""

    claim_name: str = ""


class PodVolume(_Wire, frozen=True):
    """A volume of a pod. `ephemeral`: it is a claim that was made for this pod."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class PodResourceClaim(_Wire, frozen=True):
    """Devices that a pod asks for, by a template of a claim or by a claim."""

    name: str = ""
    resource_claim_template_name: str | None = None


class PodSpec(_Wire, frozen=True):
    """The read part of a pod's or template's spec."""

    node_name: str = ""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[Gate, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    host_network: bool = False
    resources: ResourceRequirements | None = None
    priority_class_name: str = ""
    priority: int | None = None
    volumes: tuple[PodVolume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()


class StatusCondition(_Wire, frozen=True):
    """A condition's type and status."""

    type: str
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class PodStatus(_Wire, frozen=True):
    """The read part of a pod's status."""

    phase: str = ""
    conditions: tuple[StatusCondition, ...] = ()


class Pod(_Wire, frozen=True):
    """A pod, projected."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def terminated(self) -> bool:
        """Whether it has run to its end (a terminating pod still holds its node)."""
        return self.status.phase in ("Failed", "Succeeded")

    @property
    def gated(self) -> bool:
        """Whether the topology gate or that of an elastic job still holds it."""
        return bool(self.closed_gates)

    @property
    def closed_gates(self) -> tuple[str, ...]:
        """Those of these two gates that it has."""
        return tuple(gate.name for gate in self.spec.scheduling_gates if gate.name in (TOPOLOGY_GATE, ELASTIC_GATE))

    @property
    def topology_aware(self) -> bool:
        """Whether it declares itself part of a topology assignment (any of the topology annotations)."""
        return any(name in self.metadata.annotations for name in TAS_ANNOTATIONS)

    @property
    def claims(self) -> tuple[str, ...]:
        """`namespace/name` of the PersistentVolumeClaims that it uses."""
        sources = ((volume, volume.persistent_volume_claim) for volume in self.spec.volumes)
        names = (
            source.claim_name if source else f"{self.metadata.name}-{volume.name}" if volume.ephemeral else ""
            for volume, source in sources
        )
        return tuple(f"{self.metadata.namespace}/{name}" for name in names if name)

    @property
    def devices(self) -> tuple[str, ...]:
        """`namespace/name` of the ResourceClaimTemplates that it got devices by."""
        names = (claim.resource_claim_template_name for claim in self.spec.resource_claims)
        return tuple(f"{self.metadata.namespace}/{name}" for name in names if name)

    @property
    def workload(self) -> str | None:
        """Key of the Workload that its annotation names, if any."""
        name = self.metadata.annotations.get(WORKLOAD_ANNOTATION)
        return f"{self.metadata.namespace}/{name}" if name else None


class NodeSpec(_Wire, frozen=True):
    """The read part of a node's spec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(_Wire, frozen=True):
    """The read part of a node's status."""

    allocatable: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    conditions: tuple[StatusCondition, ...] = ()


class Node(_Wire, frozen=True):
    """A node, projected."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def key(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def ready(self) -> bool:
        """Condition Ready is True; a missing condition is not ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class Namespace(_Wire, frozen=True):
    """A namespace's labels."""

    metadata: Meta = Meta()


def pod_spec(template: Mapping[str, Any]) -> PodSpec:
    """The read part of a decoded PodTemplateSpec. Raises msgspec.ValidationError naming the path of a bad field."""
    return msgspec.convert(template.get("spec") or {}, PodSpec)


def _add(into: Resources, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, 0) + amount


def _raise_to(floor: Resources, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        floor[name] = max(floor.get(name, 0), amount)


def container_requests(resources: ResourceRequirements) -> Resources:
    """Requests, with a limit in the place of a missing request."""
    return {**parse_list(resources.limits, "limits"), **parse_list(resources.requests, "requests")}


def _init_peak(init_containers: Iterable[Container]) -> tuple[Resources, Resources]:
    """(sum of the sidecars, largest need while an ordinary init container runs beside the sidecars started before)."""
    sidecars: Resources = {}
    peak: Resources = {}
    for container in init_containers:
        own = container_requests(container.resources)
        if container.restart_policy == "Always":
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            turn = dict(sidecars)
            _add(turn, own)
            _raise_to(peak, turn)
    return sidecars, peak


def effective_requests(spec: PodSpec) -> Resources:
    """What one pod takes of a node, in integer units, without the `pods` slot. Raises InvalidQuantity."""
    sidecars, peak = _init_peak(spec.init_containers)
    total = dict(sidecars)
    for container in spec.containers:
        _add(total, container_requests(container.resources))
    _raise_to(total, peak)
    if spec.resources is not None:
        total.update(container_requests(spec.resources))
    _add(total, parse_list(spec.overhead, "overhead"))
    return total
