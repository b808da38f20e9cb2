"""Stand-in for the volume controller: binds a claim to the volume that it names. Never chooses or provisions a volume."""

from __future__ import annotations

from typing import ClassVar

from api.fake.status import Obj
from api.fake.table import StoreEvent
from api.fake.workers.base import Worker
from api.kube.resources import CLAIMS, VOLUMES, Resource
from api.volumes import BIND_COMPLETED


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
