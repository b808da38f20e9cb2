"""The pod subresource binding, which schedulers call.

Follows registry/core/pod/storage of Kubernetes 1.36. Called by store.py and calls.py.
"""

from __future__ import annotations

from api.embedded.patch import clone
from api.embedded.request import RequestTarget, WriteOptions, WriteStore
from api.embedded.rules.base import condition
from api.embedded.status import Obj, conflict, invalid, not_found, required
from api.embedded.table import StoredObject


def bind(store: WriteStore, target: RequestTarget, body: Obj, options: WriteOptions) -> StoredObject:
    """Binds the pod to `body.target.name`. Raises status 409 if it is gated, bound already, or being deleted."""
    kind, name = target.kind, target.name or ""
    old = store.record(kind, target.key)
    if old is None:
        raise not_found(kind, name)
    node = (body.get("target") or {}).get("name")
    if not node:
        raise invalid(kind, name, [required("target.name")])
    if why := _refusal(old.obj, name):
        raise conflict(kind, name, why, "binding")
    obj = clone(old.obj)
    obj["spec"]["nodeName"] = node
    obj["metadata"].setdefault("annotations", {}).update((body.get("metadata") or {}).get("annotations") or {})
    if not obj["metadata"]["annotations"]:
        del obj["metadata"]["annotations"]
    _scheduled(obj, store.now())
    record = StoredObject(old.key, obj, 0, options.manager, old.owners)
    return record if options.dry_run else store.write(kind, record)


def _refusal(pod: Obj, name: str) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _scheduled(pod: Obj, now: str) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    scheduled = condition(pod, "PodScheduled")
    if scheduled is not None:
        conditions.remove(scheduled)
    conditions.append({"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now})
