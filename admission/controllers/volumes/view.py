"""Claims, volumes and storage classes as the cluster has them, and what they mean for each Workload that uses some. No IO.

The copies are made when the first Workload with a claim comes, so a cluster whose jobs have none pays nothing; until they hold
their first list such a Workload waits. `add_handler` tells which Workloads to look at again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from admission.controllers.node_amounts import with_amounts
from admission.controllers.projection import ProjectedPod
from admission.controllers.volumes import binding
from admission.controllers.volumes.attachments import PREFIX, Attachments
from admission.controllers.volumes.binding import BoundTo, CannotBind
from admission.controllers.volumes.copies import Copy
from admission.controllers.volumes.pod_claims import ClaimUse, claim_keys, claim_uses, volumes_of
from admission.engine import model
from admission.engine.decision import Reason
from api.kube.lazy_informer import LazyInformer
from api.kube.store import Change, ChangeType
from api.meta import is_true, object_key
from api.names import FINISHED, QUOTA_RESERVED
from api.pods import Node
from api.volumes import Claim, CsiNode, StorageClass, Volume
from api.workloads import Workload

_BY_CLAIM: Final = "claim"
_BY_CLASS: Final = "class"
_ANY: Final = "any"
_ALONE: Final = "ReadWriteOncePod"
_SHARED: Final = frozenset(("ReadWriteMany", "ReadOnlyMany"))


class VolumeView:
    """See the module."""

    def __init__(
        self,
        claims: Copy[Claim],
        volumes: Copy[Volume],
        classes: Copy[StorageClass],
        csi_nodes: Copy[CsiNode],
        nodes: Copy[Node],
        workloads: Copy[Workload],
        pods: Copy[ProjectedPod],
    ) -> None:
        self._claims, self._volumes, self._classes = claims, volumes, classes
        self._workloads, self._pods = workloads, pods
        self._copies: tuple[Copy[Any], ...] = (claims, volumes, classes, csi_nodes)
        self._lazy = [each for each in self._copies if isinstance(each, LazyInformer)]
        self._handlers: list[Callable[[Collection[Workload]], None]] = []
        workloads.add_index(_BY_CLAIM, _filed)
        pods.add_index(_BY_CLAIM, lambda pod: (_ANY, *pod.claims) if pod.claims else ())
        self.attachments = Attachments(csi_nodes, nodes, partial(pods.by_index, _BY_CLAIM, _ANY), self._driver_of)
        volumes.add_index(_BY_CLASS, lambda volume: [volume.spec.storage_class_name] if _is_free(volume) else [])
        claims.add_handler(self._claim_changed)
        volumes.add_handler(self._volume_changed)
        classes.add_handler(lambda _: self._changed(_ANY))
        pods.add_handler(self._pod_changed)
        workloads.add_handler(self._workload_changed)
        for each in self._lazy:
            each.on_synced(lambda: self._changed(_ANY))

    def add_handler(self, fn: Callable[[Collection[Workload]], None]) -> None:
        """`fn` gets the Workloads whose volumes have changed."""
        self._handlers.append(fn)

    # ---- what is asked

    def refusal(self, workload: Workload) -> tuple[str, str] | None:
        """Why no pod of the Workload, or not every one, can be bound now: (reason, message); None where nothing is known."""
        uses = claim_uses(workload)
        if not uses:
            return None
        if not self._known():
            return Reason.WAITING_FOR_OBJECTS, "PersistentVolumeClaims are being listed"
        try:
            for use in uses:
                self._bound_to(workload, use)
            for name in sorted({use.claim for use in uses if use.claim}):
                self._check_alone(workload, name, [use for use in uses if use.claim == name])
        except CannotBind as why:
            return why.reason, why.message
        return None

    def placed(self, workload: Workload, made: model.Workload) -> model.Workload:
        """The Workload with what its volumes require of nodes; the same object where that is nothing."""
        uses = claim_uses(workload)
        if not uses or not self._known():
            return made
        found, attached = dict[str, list[tuple[model.NodeSelectorTerm, ...]]](), dict[str, Counter[str]]()
        for use in uses:
            if use.example and use.claim:
                continue  # of one pod of a group, and other pods have other volumes
            try:
                bound = self._bound_to(workload, use)
            except CannotBind:
                continue
            found.setdefault(use.pod_set, []).extend(bound.selectors)
            if not self._is_shared(workload, use) and self.attachments.counts(bound.driver):
                attached.setdefault(use.pod_set, Counter())[f"{PREFIX}{bound.driver}"] += 1
        if not any(found.values()) and not attached:
            return made
        reached = (replace(p, volumes=tuple(dict.fromkeys(found.get(p.name, ())))) for p in made.pod_sets)
        return replace(made, pod_sets=tuple(with_amounts(p, attached.get(p.name, {})) for p in reached))

    def _is_shared(self, workload: Workload, use: ClaimUse) -> bool:
        """Whether pods of several nodes may have the claim, or those of this workload have it together."""
        claim = self.claim(object_key(workload.metadata.namespace, use.claim)) if use.claim else None
        spec = claim.spec if claim is not None else use.spec
        return bool(use.claim and use.pods > 1) or spec is None or bool(_SHARED & set(spec.access_modes))

    def _driver_of(self, key: str) -> str:
        """What attaches the volume of a claim that one node has at a time; empty for another, or where it is unknown."""
        claim = self.claim(key)
        if claim is None or _SHARED & set(claim.spec.access_modes):
            return ""
        if claim.spec.volume_name:
            volume = self.volume(claim.spec.volume_name)
            return volume.spec.csi.driver if volume is not None and volume.spec.csi else ""
        found = self.storage_class(claim.spec.storage_class_name)
        return found.provisioner if found is not None else ""

    def _bound_to(self, workload: Workload, use: ClaimUse) -> BoundTo:
        if use.spec is not None:
            return binding.of_each_pod(use, use.spec, self)
        return binding.of_named(object_key(workload.metadata.namespace, use.claim), use.pods, self)

    def _check_alone(self, workload: Workload, name: str, uses: Sequence[ClaimUse]) -> None:
        """A claim that only one pod may use. Raises CannotBind."""
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
            if other.key != workload.key and _runs(other):
                raise CannotBind(f"{said}, and Workload {other.metadata.name} uses it")

    def _known(self) -> bool:
        """Whether the copies hold what there is; from now on they will."""
        for each in self._lazy:
            each.wake()
        return all(each.has_synced for each in self._lazy)

    # ---- what binding.py looks up

    def claim(self, key: str) -> Claim | None:
        """See binding.Storage."""
        return self._claims.objects.get(key)

    def volume(self, name: str) -> Volume | None:
        """See binding.Storage."""
        return self._volumes.objects.get(name)

    def storage_class(self, name: str | None) -> StorageClass | None:
        """See binding.Storage. Of several default classes the newest is taken, as the API server does."""
        if name is not None:
            return self._classes.objects.get(name)
        default = [each for each in self._classes.objects.values() if each.is_default]
        default.sort(key=lambda each: each.key)
        return max(default, key=lambda each: each.metadata.creation_timestamp or "", default=None)

    def volumes_of_class(self, name: str) -> Sequence[Volume]:
        """See binding.Storage."""
        return self._volumes.by_index(_BY_CLASS, name)

    # ---- what changes

    def _changed(self, value: str, but: str = "") -> None:
        found = [each for each in self._workloads.by_index(_BY_CLAIM, value) if each.key != but]
        for fn in self._handlers if found else ():
            fn(found)

    def _claim_changed(self, change: Change[Claim]) -> None:
        gone = change.type is ChangeType.DELETED
        if gone or change.old is None or _said(change.old) != _said(change.object):
            self._changed(change.key)
            self.attachments.claim_changed(self._pods.by_index(_BY_CLAIM, change.key))

    def _volume_changed(self, change: Change[Volume]) -> None:
        ref = change.object.spec.claim_ref
        if ref is not None:
            self._changed(f"{ref.namespace}/{ref.name}")
        if ref is None or (change.old is not None and change.old.spec.claim_ref is None):
            self._changed(_ANY)

    def _pod_changed(self, change: Change[ProjectedPod]) -> None:
        for key in dict.fromkeys((*change.object.claims, *(change.old.claims if change.old else ()))):
            claim = self.claim(key)
            if claim is not None and _ALONE in claim.spec.access_modes:
                self._changed(key)

    def _workload_changed(self, change: Change[Workload]) -> None:
        """Others wait for the claim that this one has alone."""
        if change.old is None or _runs(change.old) == _runs(change.object) or not _has_claims(change.object):
            return
        for key in claim_keys(change.object):
            claim = self.claim(key)
            if claim is not None and _ALONE in claim.spec.access_modes:
                self._changed(key, but=change.key)


def _filed(workload: Workload) -> Iterator[str]:
    if _has_claims(workload):
        yield _ANY
        yield from claim_keys(workload)


def _has_claims(workload: Workload) -> bool:
    return any(True for pod_set in workload.spec.pod_sets for _ in volumes_of(pod_set.template))


def _runs(workload: Workload) -> bool:
    """Whether its pods may run: it has quota, or is being evicted."""
    states = workload.status.conditions
    return is_true(states, QUOTA_RESERVED) and not is_true(states, FINISHED)


def _is_free(volume: Volume) -> bool:
    """Whether no claim has it; a volume that is kept for a claim is free for that one."""
    return volume.status.phase in ("", "Available", "Pending")


def _said(claim: Claim) -> tuple[object, ...]:
    """All that matters of a claim."""
    meta = claim.metadata
    return claim.spec, claim.status, meta.annotations, meta.deletion_timestamp
