"""Stand-ins for controllers of volumes.

VolumeBinder binds a claim to the volume that it names; it never chooses or provisions a volume. EphemeralClaims creates the
claims of pods with generic ephemeral volumes.
"""

from __future__ import annotations

from typing import ClassVar

from api.embedded.status import Obj
from api.embedded.table import StoreEvent
from api.embedded.workers.base import Worker
from api.kube.resources import CLAIMS, PODS, VOLUMES, Resource
from api.pod.volumes import BIND_COMPLETED


class VolumeBinder(Worker):
    """Reconciles claims when they or their volumes change."""

    kinds: ClassVar[tuple[Resource, ...]] = (CLAIMS, VOLUMES)

    def seen(self, kind: Resource, event: StoreEvent) -> None:
        if event.type == "DELETED":
            return
        if kind is CLAIMS:
            self.look_at(event.record.key)
        elif ref := event.record.obj["spec"].get("claimRef"):
            self.look_at(f"{ref['namespace']}/{ref['name']}")

    def sync(self, key: str) -> None:
        claim = self.at(CLAIMS, key)
        name = claim["spec"].get("volumeName") if claim else ""
        volume = self.at(VOLUMES, name) if name else None
        if (
            claim is not None
            and volume is not None
            and BIND_COMPLETED not in (claim["metadata"].get("annotations") or {})
        ):
            self._bind(claim, volume)

    def _bind(self, claim: Obj, volume: Obj) -> None:
        meta, name = claim["metadata"], volume["metadata"]["name"]
        ref = {
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        }
        self.store.patch(VOLUMES, name, {"spec": {"claimRef": ref}})
        self.store.patch(VOLUMES, name, {"status": {"phase": "Bound"}}, subresource="status")
        done = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}}
        self.store.patch(CLAIMS, meta["name"], done, meta["namespace"])
        self.store.patch(CLAIMS, meta["name"], {"status": {"phase": "Bound"}}, meta["namespace"], subresource="status")


class EphemeralClaims(Worker):
    """Creates the claim of each generic ephemeral volume of a pod, named after both and owned by the pod."""

    kinds: ClassVar[tuple[Resource, ...]] = (PODS,)

    def seen(self, kind: Resource, event: StoreEvent) -> None:
        if event.type == "ADDED" and any("ephemeral" in each for each in event.record.obj["spec"].get("volumes") or ()):
            self.look_at(event.record.key)

    def sync(self, key: str) -> None:
        pod = self.at(PODS, key)
        for volume in pod["spec"].get("volumes") or () if pod is not None else ():
            if pod is not None and "ephemeral" in volume:
                self._create(pod["metadata"], volume)

    def _create(self, meta: Obj, volume: Obj) -> None:
        name, template = f"{meta['name']}-{volume['name']}", volume["ephemeral"].get("volumeClaimTemplate") or {}
        if self.at(CLAIMS, f"{meta['namespace']}/{name}") is not None:
            return
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
        given = template.get("metadata") or {}
        made = {"name": name, "namespace": meta["namespace"], "ownerReferences": [owner]}
        kept = {key: given[key] for key in ("labels", "annotations") if key in given}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {**kept, **made}}
        self.store.create(CLAIMS, {**claim, "spec": template.get("spec") or {}}, meta["namespace"])
