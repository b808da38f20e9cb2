"""The fields of PersistentVolumeClaims, PersistentVolumes, StorageClasses and CSINodes that limit the nodes of a pod.

Objects are decoded into these types, which skip all other fields, and are never written back.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from api.pod.pods import Meta, NodeSelector, NodeSelectorRequirement, ResourceRequirements, _Wire

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""On PersistentVolumeClaims: the claim is bound permanently."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""On PersistentVolumeClaims: the node for which kube-scheduler has the volume provisioned."""
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
"""On StorageClasses, "true": the class of claims that name none."""
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of StorageClasses whose volumes an administrator creates."""
ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""On PersistentVolumes: labels that its node must match; a value may list alternatives separated by `__`."""
_OLD_ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")
"""On PersistentVolumes: the older forms of the zone labels."""
_KEPT_ANNOTATIONS: Final = (BIND_COMPLETED, SELECTED_NODE, DEFAULT_CLASS)


class ClaimSpec(_Wire, frozen=True):
    """Requirements of a claim. `storage_class_name` None means the default class, once there is one."""

    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    access_modes: tuple[str, ...] = ()
    selector: dict[str, Any] | None = None
    resources: ResourceRequirements = ResourceRequirements()


class _Phase(_Wire, frozen=True):
    phase: str = ""


class Claim(_Wire, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Meta = Meta()
    spec: ClaimSpec = ClaimSpec()
    status: _Phase = _Phase()

    @property
    def bound(self) -> bool:
        """Reports whether binding is complete: the claim names its volume, and the volume controller has confirmed it."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations


class _Driver(_Wire, frozen=True):
    driver: str = ""


class _ClaimRef(_Wire, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeAffinity(_Wire, frozen=True):
    """The nodes that can use a volume."""

    required: NodeSelector | None = None


class VolumeSpec(_Wire, frozen=True):
    """Location and claim of a volume. `csi` is its driver, None for other kinds of volumes."""

    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    claim_ref: _ClaimRef | None = None
    node_affinity: VolumeAffinity | None = None
    csi: _Driver | None = None


class Volume(_Wire, frozen=True):
    """A PersistentVolume."""

    metadata: Meta = Meta()
    spec: VolumeSpec = VolumeSpec()
    status: _Phase = _Phase()

    @property
    def key(self) -> str:
        """The volume's name."""
        return self.metadata.name

    @property
    def zones(self) -> dict[str, tuple[str, ...]]:
        """Values of the volume's zone and region labels, by the current label key."""
        labels = self.metadata.labels
        texts = {
            new: labels.get(old, labels.get(new, "")) for new, old in zip(ZONE_LABELS, _OLD_ZONE_LABELS, strict=True)
        }
        return {key: tuple(text.split("__")) for key, text in texts.items() if text}


class TopologyExpression(_Wire, frozen=True):
    """One key of a topology term with its allowed values."""

    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(_Wire, frozen=True):
    """Topology expressions, all ANDed."""

    match_label_expressions: tuple[TopologyExpression, ...] = ()


class StorageClass(_Wire, frozen=True):
    """How volumes are provisioned and bound."""

    metadata: Meta = Meta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def key(self) -> str:
        """The class's name."""
        return self.metadata.name

    @property
    def waits_for_pods(self) -> bool:
        """Reports whether claims are bound only after a pod that uses them is scheduled."""
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def is_default(self) -> bool:
        """Reports whether this class applies to claims that name none."""
        return self.metadata.annotations.get(DEFAULT_CLASS) == "true"

    @property
    def provisions(self) -> bool:
        """Reports whether volumes are provisioned on demand."""
        return self.provisioner not in ("", NO_PROVISIONER)


class _Allocatable(_Wire, frozen=True):
    count: int | None = None


class NodeDriver(_Wire, frozen=True):
    """A CSI driver on a node. `topology_keys` are the labels by whose values the driver's volumes reach their nodes."""

    name: str = ""
    topology_keys: tuple[str, ...] | None = None
    allocatable: _Allocatable | None = None


class _CsiNodeSpec(_Wire, frozen=True):
    drivers: tuple[NodeDriver, ...] = ()


class CsiNode(_Wire, frozen=True):
    """The CSI drivers of the node of the same name."""

    metadata: Meta = Meta()
    spec: _CsiNodeSpec = _CsiNodeSpec()

    @property
    def key(self) -> str:
        """The node's name."""
        return self.metadata.name

    @property
    def limits(self) -> dict[str, int]:
        """Most volumes of each driver on the node; drivers without a limit are absent."""
        given = ((each.name, each.allocatable.count if each.allocatable else None) for each in self.spec.drivers)
        return {name: count for name, count in given if count is not None}


class _CsiDriverSpec(_Wire, frozen=True):
    storage_capacity: bool = False


class CsiDriver(_Wire, frozen=True):
    """A CSI driver of the cluster; `spec.storage_capacity`: it publishes how much it can still provision."""

    metadata: Meta = Meta()
    spec: _CsiDriverSpec = _CsiDriverSpec()

    @property
    def key(self) -> str:
        """The driver's name."""
        return self.metadata.name


class NodeLabels(_Wire, frozen=True):
    """A label selector of nodes."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()


class CsiCapacity(_Wire, frozen=True):
    """A CSIStorageCapacity: what a driver can still provision of a class for the nodes that `node_topology` selects."""

    metadata: Meta = Meta()
    node_topology: NodeLabels | None = None
    storage_class_name: str = ""
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class _ClaimTemplate(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: ClaimSpec = ClaimSpec()


class ClaimPerPod(_Wire, frozen=True):
    """A generic ephemeral volume, for which a claim is created per pod."""

    volume_claim_template: _ClaimTemplate = _ClaimTemplate()


class _Reader:
    """Decodes one kind and drops unused annotations. Raises msgspec.MsgspecError."""

    def __init__(self, kind: type[Any]) -> None:
        self._decode = msgspec.json.Decoder(kind).decode

    def __call__(self, data: bytes) -> Any:
        decoded = self._decode(data)
        meta: Meta = decoded.metadata
        kept = {key: meta.annotations[key] for key in _KEPT_ANNOTATIONS if key in meta.annotations}
        return msgspec.structs.replace(decoded, metadata=msgspec.structs.replace(meta, annotations=kept))


def read_claim(data: bytes) -> Claim:
    """Decodes a PersistentVolumeClaim. Raises msgspec.MsgspecError."""
    claim: Claim = _CLAIM(data)
    return claim


def read_volume(data: bytes) -> Volume:
    """Decodes a PersistentVolume. Raises msgspec.MsgspecError."""
    volume: Volume = _VOLUME(data)
    return volume


_CLAIM: Final = _Reader(Claim)
_VOLUME: Final = _Reader(Volume)
