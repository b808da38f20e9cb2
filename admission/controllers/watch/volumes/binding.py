"""Decides which nodes a claim allows the pods that use it, or why it cannot be bound now. Pure.

It follows kube-scheduler's filters VolumeBinding, VolumeZone and VolumeRestrictions (Kubernetes 1.36):

    bound                          the node affinity and the zone labels of its volume
    unbound, class waits           an existing matching volume, or a provisioned one within the class's allowed topologies
    unbound, class does not wait   no pod that uses the claim is bound before the claim is

Which volume an unbound claim gets depends on the node of the first pod that is bound. If several pods share the claim, all of
them must be in one domain whose nodes reach the same volumes (`gathered`). Not considered is the topology of a volume that is
provisioned without waiting for its pod. capacity.py has the nodes for which a driver can provision; local.py counts the volumes
that a host has left; choosers.py lets one workload at a time choose among volumes that are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from admission.controllers.watch.volumes import shared
from admission.controllers.watch.volumes.local import host_of
from admission.controllers.watch.volumes.pod_claims import ClaimUse
from admission.controllers.watch.volumes.reach import (
    BoundTo,
    CannotBind,
    Selector,
    allowed,
    both,
    named_node,
    one_of,
    reach,
    reached_by,
    selectors,
    zone,
)
from admission.engine.reasons import Reason
from api.errors import InvalidObject
from api.pod.labels import matches
from api.pod.volumes import SELECTED_NODE, Claim, ClaimSpec, StorageClass, Volume
from api.text.quantity import to_int

_STORAGE: Final = "storage"


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

    def capacity_nodes(self, storage_class: StorageClass, spec: ClaimSpec) -> Selector | None:
        """Returns the nodes for which the class's driver has capacity for the claim's volume; None for all."""

    def topology_keys(self, driver: str) -> tuple[str, ...]:
        """Returns the label keys of which one domain each reaches a volume of the driver; empty if every node does."""


def of_named(key: str, pods: int, storage: Storage, *, pod_sets: int = 1) -> BoundTo:
    """Resolves a claim that `pods` pods of `pod_sets` pod sets name. Raises CannotBind."""
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
    storage_class = storage.storage_class(claim.spec.storage_class_name) if claim.spec.storage_class_name else None
    if claim.spec.volume_name or storage_class is None or not storage_class.waits_for_pods:
        raise CannotBind(f"waits for PersistentVolumeClaim {name} to be bound")
    if node := claim.metadata.annotations.get(SELECTED_NODE):
        return BoundTo(((named_node(node),),), storage_class.provisioner)
    said = f"PersistentVolumeClaim {name}"
    fitting = _fitting(claim.spec, storage_class, said, storage, key)
    if pods > 1:
        made = (
            _provisioned(storage_class, claim.spec, storage, "" if fitting else said)
            if storage_class.provisions
            else None
        )
        keys = storage.topology_keys(storage_class.provisioner)
        return shared.one_volume(fitting, storage_class, said, made, keys, pod_sets=pod_sets)
    reached = [reach(volume) for volume in fitting]
    if storage_class.provisions:
        reached.append(_provisioned(storage_class, claim.spec, storage, "" if fitting else said))
    return one_of(reached, storage_class.provisioner)


def of_each_pod(use: ClaimUse, spec: ClaimSpec, storage: Storage, *, claims: int) -> BoundTo:
    """Resolves claims that are created for each pod. Raises CannotBind.

    `claims` is the number of claims of the class that the Workload's pods get, those of other volumes and pod sets included.
    Claims that outlive their pods may be bound already, so nothing is waited for.
    """
    name = spec.storage_class_name
    storage_class = storage.storage_class(name) if name != "" else None
    if storage_class is not None and storage_class.provisions:
        said = "" if use.lasting else f"volume {use.volume}"
        return BoundTo(selectors(_provisioned(storage_class, spec, storage, said)), storage_class.provisioner)
    if use.lasting:
        return BoundTo()
    if storage_class is None and name is None:
        raise CannotBind(f"volume {use.volume}: names no StorageClass, and the cluster has no default one")
    if storage_class is None and name:
        raise CannotBind(f"volume {use.volume}: waits for StorageClass {name} to be created")
    fitting = [volume for volume in storage.volumes_of_class(name or "") if _fits(volume, spec, "")]
    if len(fitting) < claims:
        text = f"waits for {claims} PersistentVolumes of StorageClass {name or '(none)'} that match, {len(fitting)} are there"
        raise CannotBind(f"volume {use.volume}: {text}")
    if any(volume not in fitting and volume.spec.claim_ref is None for volume in storage.volumes_of_class(name or "")):
        text = f"PersistentVolumes of StorageClass {name or '(none)'} differ, so those that match are not counted"
        raise CannotBind(f"volume {use.volume}: {text}", Reason.UNSUPPORTED_POD_TERMS)
    reached = [reach(volume) for volume in fitting]
    if claims == 1 or len(set(reached)) == 1 or all(map(host_of, fitting)):
        return one_of(reached, "")
    if (enough := reached_by(reached, claims)) is not None:
        return BoundTo((enough,))
    text = (
        f"PersistentVolumes of StorageClass {name or '(none)'} reach different sets of nodes, and no node is reached by "
        f"{claims} of them; which of them a pod gets is not counted"
    )
    raise CannotBind(f"volume {use.volume}: {text}", Reason.UNSUPPORTED_POD_TERMS)


def _bound(claim: Claim, name: str, storage: Storage) -> BoundTo:
    volume = storage.volume(claim.spec.volume_name)
    if volume is None:
        raise CannotBind(f"PersistentVolumeClaim {name}: waits for PersistentVolume {claim.spec.volume_name}")
    return BoundTo((*selectors(reach(volume)), *selectors(zone(volume))), _driver(volume))


def _fitting(spec: ClaimSpec, storage_class: StorageClass, claim: str, storage: Storage, key: str) -> list[Volume]:
    """Returns the volumes that the claim may get, the preferred ones first. Raises CannotBind if it needs one and has none."""
    fitting = sorted(
        (v for v in storage.volumes_of_class(storage_class.key) if _fits(v, spec, key)), key=_binding_order
    )
    if not fitting and not storage_class.provisions:
        raise CannotBind(f"{claim}: waits for a PersistentVolume of StorageClass {storage_class.key} that matches")
    return fitting


def _provisioned(storage_class: StorageClass, spec: ClaimSpec, storage: Storage, claim: str) -> Selector | None:
    """Returns the nodes for which the class provisions the claim's volume; None for all.

    Raises CannotBind if the driver has capacity for none, and `claim` names the claim.
    """
    with_capacity, where = storage.capacity_nodes(storage_class, spec), allowed(storage_class)
    if with_capacity == () and claim:
        asked = spec.resources.requests.get(_STORAGE)
        raise CannotBind(f"{claim}: no CSIStorageCapacity of StorageClass {storage_class.key} has {asked} left")
    return both(where, with_capacity)


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


def _binding_order(volume: Volume) -> tuple[bool, int, str]:
    """Returns the sort key of volumes: those reserved for the claim first, then the smallest."""
    return volume.spec.claim_ref is None, _amount(volume.spec.capacity), volume.key


def _amount(amounts: Mapping[str, str | int | float]) -> int:
    try:
        return to_int(_STORAGE, amounts.get(_STORAGE, 0))
    except InvalidObject:
        return 0


def _driver(volume: Volume) -> str:
    return volume.spec.csi.driver if volume.spec.csi else ""
