"""The cluster's claims, volumes and storage classes, and their effect on Workloads that use claims. No IO.

The informers start with the first Workload that has a claim, so a cluster without claims has no cost; until they have synced
such a Workload waits. `add_handler` reports the Workloads to evaluate again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from admission.controllers.watch.kinds import Kinds
from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.node_amounts import NOTHING, AmountsChanged, with_amounts
from admission.controllers.watch.projection import ProjectedPod
from admission.controllers.watch.view_feature import ViewFeature
from admission.controllers.watch.volumes import binding
from admission.controllers.watch.volumes.attachments import PREFIX, Attachments
from admission.controllers.watch.volumes.capacity import DriverCapacity
from admission.controllers.watch.volumes.choosers import Choosers, has_quota
from admission.controllers.watch.volumes.local import MOST_CLASSES, LocalVolumes
from admission.controllers.watch.volumes.local import PREFIX as LOCAL
from admission.controllers.watch.volumes.pod_claims import ClaimUse, claim_keys, claim_uses, volumes_of
from admission.controllers.watch.volumes.reach import BoundTo, CannotBind, Selector
from admission.controllers.watch.watched import Watched, item
from admission.engine import model
from admission.engine.reasons import Reason
from api.kube.informers.lazy_informer import LazyInformer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import (
    CLAIMS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from api.meta import object_key
from api.pod.volumes import (
    Claim,
    ClaimSpec,
    CsiCapacity,
    CsiDriver,
    CsiNode,
    StorageClass,
    Volume,
    read_claim,
    read_volume,
)
from api.workloads import Workload

_BY_CLAIM: Final = "claim"
_BY_DRIVER: Final = "driver"
_BY_CLASS: Final = "class"
_OF_CLASS: Final = "class "
_ANY: Final = "any"
_ALONE: Final = "ReadWriteOncePod"


class VolumeView(ViewFeature):
    """Resolves claims of Workloads to nodes."""

    storage_classes = Watched(
        STORAGE_CLASSES, item(StorageClass), informer=LazyInformer, without="the classes of claims"
    )
    persistent_volumes = Watched(VOLUMES, lambda: read_volume, informer=LazyInformer, without="the volumes of claims")
    claims = Watched(CLAIMS, lambda: read_claim, informer=LazyInformer, without="claims of pods")
    csi_nodes = Watched(CSI_NODES, item(CsiNode), informer=LazyInformer, without="how many volumes nodes can have")
    csi_drivers = Watched(
        CSI_DRIVERS, item(CsiDriver), informer=LazyInformer, without="which drivers tell their capacity"
    )
    csi_capacities = Watched(
        CSI_CAPACITIES, item(CsiCapacity), informer=LazyInformer, without="how much drivers can provision"
    )

    def __init__(self, view: Kinds, copies: Mapping[Resource, Copy[Any]]) -> None:
        super().__init__(view, copies)
        claims, volumes, classes, csi_nodes = self.claims, self.persistent_volumes, self.storage_classes, self.csi_nodes
        nodes, workloads, pods = view.nodes, view.workloads, view.pods
        self._workloads, self._pods = workloads, pods
        self._lazy = [each for kind in self.kinds() if isinstance(each := copies[kind.resource], LazyInformer)]
        self._handlers: list[Callable[[AmountsChanged], None]] = []
        workloads.add_index(_BY_CLAIM, _filed)
        pods.add_index(_BY_CLAIM, lambda pod: (_ANY, *pod.claims) if pod.claims else ())
        csi_nodes.add_index(_BY_DRIVER, lambda node: [driver.name for driver in node.spec.drivers])
        claims.add_index(_BY_CLASS, lambda claim: [] if claim.bound else [claim.spec.storage_class_name or ""])
        self._capacity = DriverCapacity(self.csi_drivers, self.csi_capacities, self._class_changed)
        self._choosers = Choosers(self, volumes, workloads, pods)
        self.attachments = Attachments(csi_nodes, nodes, partial(pods.by_index, _BY_CLAIM, _ANY), self._driver_of)
        self.local = LocalVolumes(volumes, nodes, self._volume_of, partial(pods.by_index, _BY_CLAIM))
        volumes.add_index(_BY_CLASS, lambda volume: [volume.spec.storage_class_name] if _is_free(volume) else [])
        claims.add_handler(self._claim_changed)
        volumes.add_handler(self._volume_changed)
        classes.add_handler(lambda _: self._changed(_ANY))
        pods.add_handler(self._pod_changed)
        workloads.add_handler(self._workload_changed)
        for each in self._lazy:
            each.on_synced(lambda: self._changed(_ANY))

    def on_amounts(self, fn: Callable[[AmountsChanged], None]) -> None:
        """Calls `fn` with the Workloads, nodes and pods whose volumes have changed."""
        self._handlers.append(fn)
        self.attachments.add_handler(fn)
        self.local.add_handler(fn)

    # ---- queries

    def refusal(self, workload: Workload) -> tuple[str, str] | None:
        """Returns why some pod of the Workload cannot be bound now, as (reason, message), or None."""
        uses = claim_uses(workload)
        if not uses:
            return None
        if not self._known():
            return Reason.WAITING_FOR_OBJECTS, "PersistentVolumeClaims are being listed"
        try:
            for use in uses:
                self._bound_to(workload, use, uses)
                self._check_local(workload, use)
            for name in sorted({use.claim for use in uses if use.claim}):
                self._check_alone(workload, name, [use for use in uses if use.claim == name])
            self._choosers.check(workload, uses)
        except CannotBind as why:
            return why.reason, why.message
        return None

    def refuses_start(self, workload: Workload) -> bool:
        """Reports whether the volumes that the Workload's pods need are not free any more."""
        return self.refusal(workload) is not None

    def offered(self, node: str) -> Mapping[str, int]:
        """Returns the volumes that the node can attach, and those that only it reaches."""
        attached, local = self.attachments.offered(node), self.local.offered(node)
        return {**attached, **local} if attached or local else NOTHING

    def taken(self, pod: ProjectedPod) -> Mapping[str, int]:
        """Returns the volumes that a bound pod uses of these."""
        attached, local = self.attachments.taken(pod), self.local.taken(pod)
        return {**attached, **local} if attached or local else NOTHING

    def claim_problem(self, key: str) -> str | None:
        """Returns why a pod that names this claim (`namespace/name`) cannot be bound now, or None."""
        if not self._known():
            return "PersistentVolumeClaims are being listed"
        try:
            binding.of_named(key, 1, self)
        except CannotBind as why:
            return why.message
        return None

    def start(self, workload: Workload) -> None:
        """Notes that the Workload gets quota, before the watch shows that."""
        if _has_claims(workload):
            self._choosers.start(workload.key)

    def started(self, key: str) -> None:
        """Handles the end of the write of the Workload's quota, after which the watched state applies."""
        if self._choosers.started(key):
            self._tell_held()

    def converted(self, workload: Workload, converted: model.Workload) -> model.Workload:
        """Returns the Workload with its volumes' requirements on nodes; the same object without any."""
        uses = claim_uses(workload)
        if not uses or not self._known():
            return converted
        selectors, attached = dict[str, list[tuple[model.NodeSelectorTerm, ...]]](), dict[str, Counter[str]]()
        gathered = dict[str, list[str]]()
        for use in uses:
            if use.example and use.claim:
                continue  # one pod's claim, which other pods of the group do not share
            if (name := self._local_class(workload, use)) and self.local.count(name):
                attached.setdefault(use.pod_set, Counter())[f"{LOCAL}{name}"] += 1
            try:
                bound = self._bound_to(workload, use, uses)
            except CannotBind:
                continue
            selectors.setdefault(use.pod_set, []).extend(bound.selectors)
            gathered.setdefault(use.pod_set, []).extend(bound.gathered)
            if self.attachments.counts(bound.driver):
                attached.setdefault(use.pod_set, Counter())[f"{PREFIX}{bound.driver}"] += 1
        if not any(selectors.values()) and not any(gathered.values()) and not attached:
            return converted
        reached = (
            replace(
                p,
                volumes=tuple(dict.fromkeys(selectors.get(p.name, ()))),
                gathered=tuple(sorted(set(gathered.get(p.name, ())))),
            )
            for p in converted.pod_sets
        )
        return replace(converted, pod_sets=tuple(with_amounts(p, attached.get(p.name, {})) for p in reached))

    def _check_local(self, workload: Workload, use: ClaimUse) -> None:
        """Checks that local volumes of the class can be counted. Raises CannotBind."""
        if self.local.is_full and (name := self._local_class(workload, use)) and not self.local.count(name):
            text = f"local PersistentVolumes of more than {MOST_CLASSES} StorageClasses are asked for"
            raise CannotBind(f"{text}: those of {name} are not counted", Reason.UNSUPPORTED_POD_TERMS)

    def _local_class(self, workload: Workload, use: ClaimUse) -> str:
        """Returns the class of which each pod chooses a local volume; empty for none."""
        return "" if use.example and use.claim else self._choosers.counted_class(workload, use)

    def _volume_of(self, key: str) -> Volume | None:
        """Returns the claim's volume."""
        claim = self.claim(key)
        return self.volume(claim.spec.volume_name) if claim is not None and claim.spec.volume_name else None

    def _driver_of(self, key: str) -> str:
        """Returns the driver of a claim; an empty string if unknown."""
        claim = self.claim(key)
        if claim is None:
            return ""
        if claim.spec.volume_name:
            volume = self.volume(claim.spec.volume_name)
            return volume.spec.csi.driver if volume is not None and volume.spec.csi else ""
        storage_class = self.storage_class(claim.spec.storage_class_name)
        return storage_class.provisioner if storage_class is not None else ""

    def _bound_to(self, workload: Workload, use: ClaimUse, uses: Sequence[ClaimUse]) -> BoundTo:
        if use.spec is not None:
            wanted = use.spec.storage_class_name
            claims = sum(each.pods for each in uses if each.spec and each.spec.storage_class_name == wanted)
            return binding.of_each_pod(use, use.spec, self, claims=claims)
        alike = [each for each in uses if each.claim == use.claim]
        pods = 1 if use.example else sum(each.pods for each in alike)
        pod_sets = len({each.pod_set for each in alike})
        return binding.of_named(object_key(workload.metadata.namespace, use.claim), pods, self, pod_sets=pod_sets)

    def _check_alone(self, workload: Workload, name: str, uses: Sequence[ClaimUse]) -> None:
        """Checks a claim that only one pod may use. Raises CannotBind."""
        key = object_key(workload.metadata.namespace, name)
        claim = self.claim(key)
        if claim is None or _ALONE not in claim.spec.access_modes:
            return
        said, pods = f"PersistentVolumeClaim {name} is {_ALONE}", sum(use.pods for use in uses)
        if pods > 1 and not any(use.example for use in uses):
            raise CannotBind(f"{said}, and {pods} pods of this workload name it", Reason.MISCONFIGURED)
        for pod in self._pods.by_index(_BY_CLAIM, key):
            if pod.bound is not None and pod.bound.workload != workload.key:
                raise CannotBind(f"{said}, and pod {pod.metadata.name} uses it")
        for other in self._workloads.by_index(_BY_CLAIM, key):
            if other.key != workload.key and self._choosers.runs(other):
                raise CannotBind(f"{said}, and Workload {other.metadata.name} uses it")

    def _known(self) -> bool:
        """Starts the informers if necessary; reports whether they have synced."""
        for each in self._lazy:
            each.wake()
        return all(each.has_synced for each in self._lazy)

    # ---- lookups of binding.py

    def claim(self, key: str) -> Claim | None:
        """See binding.Storage."""
        return self.claims.objects.get(key)

    def volume(self, name: str) -> Volume | None:
        """See binding.Storage."""
        return self.persistent_volumes.objects.get(name)

    def storage_class(self, name: str | None) -> StorageClass | None:
        """See binding.Storage. Of several default classes the newest wins, as in the API server."""
        if name is not None:
            return self.storage_classes.objects.get(name)
        default = [each for each in self.storage_classes.objects.values() if each.is_default]
        default.sort(key=lambda each: each.key)
        return max(default, key=lambda each: each.metadata.creation_timestamp or "", default=None)

    def volumes_of_class(self, name: str) -> Sequence[Volume]:
        """See binding.Storage."""
        return self.persistent_volumes.by_index(_BY_CLASS, name)

    def capacity_nodes(self, storage_class: StorageClass, spec: ClaimSpec) -> Selector | None:
        """See binding.Storage."""
        return self._capacity.nodes(storage_class, spec)

    def topology_keys(self, driver: str) -> tuple[str, ...]:
        """See binding.Storage."""
        nodes = self.csi_nodes.by_index(_BY_DRIVER, driver)
        drivers = (each for node in nodes for each in node.spec.drivers if each.name == driver)
        return tuple(sorted({key for each in drivers for key in each.topology_keys or ()}))

    # ---- watch handlers

    def _changed(self, value: str, but: str = "") -> None:
        workloads = [each for each in self._workloads.by_index(_BY_CLAIM, value) if each.key != but]
        self._tell(workloads)

    def _class_changed(self, name: str) -> None:
        """Reports the Workloads whose pods get volumes of the class."""
        keys = (object_key(c.metadata.namespace, c.metadata.name) for c in self.claims.by_index(_BY_CLASS, name))
        named = [each for key in keys for each in self._workloads.by_index(_BY_CLAIM, key)]
        each_pod = self._workloads.by_index(_BY_CLAIM, f"{_OF_CLASS}{name}")
        self._tell({each.key: each for each in (*named, *each_pod)}.values())

    def _tell_held(self) -> None:
        """Reports the Workloads that wait until another one has its volumes."""
        self._tell([self._workloads.objects[key] for key in self._choosers.held() if key in self._workloads.objects])

    def _tell(self, workloads: Collection[Workload]) -> None:
        for fn in self._handlers if workloads else ():
            fn(AmountsChanged(workloads))

    def _claim_changed(self, change: Change[Claim]) -> None:
        gone = change.type is ChangeType.DELETED
        if gone or change.old is None or _scheduling_parts(change.old) != _scheduling_parts(change.object):
            self._changed(change.key)
            pods = self._pods.by_index(_BY_CLAIM, change.key)
            self.attachments.claim_changed(pods)
            for pod in pods:
                self.local.pod_changed(pod)
            self._tell_held()

    def _volume_changed(self, change: Change[Volume]) -> None:
        ref = change.object.spec.claim_ref
        if ref is not None:
            self._changed(f"{ref.namespace}/{ref.name}")
        if ref is None or (change.old is not None and change.old.spec.claim_ref is None):
            self._changed(_ANY)

    def _pod_changed(self, change: Change[ProjectedPod]) -> None:
        if change.object.claims or (change.old is not None and change.old.claims):
            self.local.pod_changed(change.object if change.object.claims or change.old is None else change.old)
            self._tell_held()
        for key in dict.fromkeys((*change.object.claims, *(change.old.claims if change.old else ()))):
            claim = self.claim(key)
            if claim is not None and _ALONE in claim.spec.access_modes:
                self._changed(key)

    def _workload_changed(self, change: Change[Workload]) -> None:
        """Reports Workloads that wait for a claim that this one holds exclusively, or for volumes that it chooses from."""
        if not _has_claims(change.object):
            return
        runs = change.type is not ChangeType.DELETED and has_quota(change.object)
        self._choosers.changed(change.key, runs=runs)
        if change.old is None or has_quota(change.old) == runs:
            return
        self._tell_held()
        for key in claim_keys(change.object):
            claim = self.claim(key)
            if claim is not None and _ALONE in claim.spec.access_modes:
                self._changed(key, but=change.key)


def _filed(workload: Workload) -> Iterator[str]:
    if _has_claims(workload):
        yield _ANY
        yield from claim_keys(workload)
        yield from {
            f"{_OF_CLASS}{use.spec.storage_class_name or ''}" for use in claim_uses(workload) if use.spec is not None
        }


def _has_claims(workload: Workload) -> bool:
    return any(True for pod_set in workload.spec.pod_sets for _ in volumes_of(pod_set.template))


def _is_free(volume: Volume) -> bool:
    """Reports whether the volume is unclaimed or reserved for a claim."""
    return volume.status.phase in ("", "Available", "Pending")


def _scheduling_parts(claim: Claim) -> tuple[object, ...]:
    """Returns the parts of a claim that affect scheduling."""
    meta = claim.metadata
    return claim.spec, claim.status, meta.annotations, meta.deletion_timestamp
