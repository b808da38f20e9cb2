"""Decides which nodes a claim allows the pods that use it, or why it cannot be bound now. Pure.

It follows kube-scheduler's filters VolumeBinding, VolumeZone and VolumeRestrictions (Kubernetes 1.36):

    bound                          the node affinity and the zone labels of its volume
    unbound, class waits           an existing matching volume, or a provisioned one within the class's allowed topologies
    unbound, class does not wait   no pod that uses the claim is bound before the claim is

A claim that several pods share and that gets one of several local volumes is expected to get the smallest that matches, as
kube-scheduler chooses it. Not considered are driver capacity (CSIStorageCapacity) and the topology of a volume that is
provisioned without waiting for its pod. local.py counts the volumes that a host has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from admission.controllers.volumes.pod_claims import ClaimUse
from admission.engine.model import NodeSelectorRequirement, NodeSelectorTerm
from admission.engine.reasons import Reason
from api.errors import InvalidObject
from api.labels import matches
from api.quantity import to_int
from api.volumes import SELECTED_NODE, Claim, ClaimSpec, StorageClass, Volume

Selector = tuple[NodeSelectorTerm, ...]
"""Node selector terms, ORed, as in a pod's required node affinity."""

_MOST_TERMS: Final = 64
"""The maximum number of terms of a selector; dropping the rest may refuse a node, but never accepts one wrongly."""
_STORAGE: Final = "storage"


class CannotBind(Exception):
    """No pod that uses the claim can be bound now; holds reason and message of the wait."""

    def __init__(self, message: str, reason: Reason = Reason.WAITING_FOR_OBJECTS) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class Storage(Protocol):
    """Lookups of the cluster's storage objects."""

    def claim(self, key: str) -> Claim | None:
        """Returns the claim with that key (`namespace/name`), or None."""

    def volume(self, name: str) -> Volume | None:
        """Returns the PersistentVolume, or None."""

    def storage_class(self, name: str | None) -> StorageClass | None:
        """Returns the class of that name, or the default class for None."""

    def volumes_of_class(self, name: str) -> Sequence[Volume]:
        """Returns the class's volumes that are unclaimed or reserved for a claim."""


@dataclass(frozen=True, slots=True)
class BoundTo:
    """The nodes that reach the claim's volume: all selectors must match. `driver` attaches it; empty if unknown."""

    selectors: tuple[Selector, ...] = ()
    driver: str = ""


def of_named(key: str, pods: int, storage: Storage) -> BoundTo:
    """Resolves a claim that `pods` pods name. Raises CannotBind."""
    claim = storage.claim(key)
    name = key.partition("/")[2]
    if claim is None:
        raise CannotBind(f"waits for PersistentVolumeClaim {name} to be created")
    if claim.metadata.deletion_timestamp:
        raise CannotBind(f"PersistentVolumeClaim {name} is being deleted")
    if claim.status.phase == "Lost":
        raise CannotBind(f"PersistentVolumeClaim {name} has lost its volume")
    if claim.bound:
        return _bound(claim, name, storage)
    found = storage.storage_class(claim.spec.storage_class_name) if claim.spec.storage_class_name else None
    if claim.spec.volume_name or found is None or not found.waits_for_pods:
        raise CannotBind(f"waits for PersistentVolumeClaim {name} to be bound")
    if node := claim.metadata.annotations.get(SELECTED_NODE):
        return BoundTo(((_named_node(node),),), found.provisioner)
    return _to_be_bound(claim.spec, found, f"PersistentVolumeClaim {name}", storage, key, shared=pods > 1)


def of_each_pod(use: ClaimUse, spec: ClaimSpec, storage: Storage) -> BoundTo:
    """Resolves claims that are created for each pod. Raises CannotBind.

    Claims that outlive their pods may be bound already, so nothing is waited for.
    """
    name = spec.storage_class_name
    found = storage.storage_class(name) if name != "" else None
    if found is not None and found.provisions:
        return BoundTo(_selectors(_allowed(found)), found.provisioner)
    if use.lasting:
        return BoundTo()
    if found is None and name is None:
        raise CannotBind(f"volume {use.volume}: names no StorageClass, and the cluster has no default one")
    if found is None and name:
        raise CannotBind(f"volume {use.volume}: waits for StorageClass {name} to be created")
    fitting = [volume for volume in storage.volumes_of_class(name or "") if _fits(volume, spec, "")]
    if len(fitting) < use.pods:
        text = f"waits for {use.pods} PersistentVolumes of StorageClass {name or '(none)'} that match, {len(fitting)} are there"
        raise CannotBind(f"volume {use.volume}: {text}")
    if any(volume not in fitting and volume.spec.claim_ref is None for volume in storage.volumes_of_class(name or "")):
        text = f"PersistentVolumes of StorageClass {name or '(none)'} differ, so those that match are not counted"
        raise CannotBind(f"volume {use.volume}: {text}", Reason.UNSUPPORTED_POD_TERMS)
    return _one_of([_reach(volume) for volume in fitting], "")


def _bound(claim: Claim, name: str, storage: Storage) -> BoundTo:
    volume = storage.volume(claim.spec.volume_name)
    if volume is None:
        raise CannotBind(f"PersistentVolumeClaim {name}: waits for PersistentVolume {claim.spec.volume_name}")
    return BoundTo((*_selectors(_reach(volume)), *_selectors(_zone(volume))), _driver(volume))


def _to_be_bound(
    spec: ClaimSpec, found: StorageClass, said: str, storage: Storage, key: str, *, shared: bool
) -> BoundTo:
    fitting = sorted((v for v in storage.volumes_of_class(found.key) if _fits(v, spec, key)), key=_size)
    if not fitting and not found.provisions:
        raise CannotBind(f"{said}: waits for a PersistentVolume of StorageClass {found.key} that matches")
    if shared and not found.provisions:
        fitting = fitting[:1]
    reached = [_reach(volume) for volume in fitting]
    if found.provisions:
        reached.append(_allowed(found))
    return _one_of(reached, found.provisioner)


def _one_of(reached: Sequence[Selector | None], driver: str) -> BoundTo:
    """Returns the nodes that at least one of the selectors allows."""
    if any(each is None for each in reached):
        return BoundTo((), driver)
    return BoundTo((_merged(term for each in reached for term in each or ()),), driver)


def _selectors(terms: Selector | None) -> tuple[Selector, ...]:
    return () if terms is None else (terms,)


def _reach(volume: Volume) -> Selector | None:
    """Returns the nodes that reach the volume; None for all."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    return required.node_selector_terms[:_MOST_TERMS] if required else None


def _zone(volume: Volume) -> Selector | None:
    """Returns the nodes with the volume's zone labels, and those without any such labels; None for all."""
    zones = volume.zones
    if not zones:
        return None
    alike = tuple(NodeSelectorRequirement(key=key, operator="In", values=values) for key, values in zones.items())
    without = tuple(NodeSelectorRequirement(key=key, operator="DoesNotExist") for key in zones)
    return NodeSelectorTerm(match_expressions=alike), NodeSelectorTerm(match_expressions=without)


def _allowed(found: StorageClass) -> Selector | None:
    """Returns the nodes for which the class provisions volumes; None for all."""
    terms = tuple(
        NodeSelectorTerm(
            match_expressions=tuple(
                NodeSelectorRequirement(key=each.key, operator="In", values=each.values)
                for each in term.match_label_expressions
            )
        )
        for term in found.allowed_topologies[:_MOST_TERMS]
    )
    return terms or None


def _named_node(name: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,)),))


def _fits(volume: Volume, spec: ClaimSpec, key: str) -> bool:
    """Reports whether the volume can be bound to the claim with that key."""
    has, ref = volume.spec, volume.spec.claim_ref
    if volume.metadata.deletion_timestamp or has.volume_mode != spec.volume_mode:
        return False
    if ref is not None:
        return f"{ref.namespace}/{ref.name}" == key
    if volume.status.phase not in ("", "Available") or not set(spec.access_modes) <= set(has.access_modes):
        return False
    if spec.selector is not None and not _selected(spec, volume):
        return False
    return _amount(has.capacity) >= _amount(spec.resources.requests)


def _selected(spec: ClaimSpec, volume: Volume) -> bool:
    try:
        return matches(spec.selector, volume.metadata.labels)
    except (AttributeError, KeyError, TypeError):
        return False


def _size(volume: Volume) -> tuple[bool, int, str]:
    """Returns the sort key of volumes: those reserved for the claim first, then the smallest."""
    return volume.spec.claim_ref is None, _amount(volume.spec.capacity), volume.key


def _amount(given: Mapping[str, str | int | float]) -> int:
    try:
        return to_int(_STORAGE, given.get(_STORAGE, 0))
    except InvalidObject:
        return 0


def _driver(volume: Volume) -> str:
    return volume.spec.csi.driver if volume.spec.csi else ""


def _merged(terms: Iterable[NodeSelectorTerm]) -> Selector:
    """Returns an equivalent selector with fewer terms: terms that only list values of one label are merged."""
    values, others = dict[str, dict[str, None]](), dict[NodeSelectorTerm, None]()
    for term in terms:
        one = term.match_expressions[0] if len(term.match_expressions) == 1 and not term.match_fields else None
        if one is not None and one.operator == "In":
            values.setdefault(one.key, {}).update(dict.fromkeys(one.values))
        else:
            others[term] = None
    made = (
        NodeSelectorTerm(
            match_expressions=(NodeSelectorRequirement(key=key, operator="In", values=tuple(sorted(each))),)
        )
        for key, each in sorted(values.items())
    )
    return (*made, *others)[:_MOST_TERMS]
