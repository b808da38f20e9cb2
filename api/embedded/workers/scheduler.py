"""Stand-in for kube-scheduler: binds ungated pods to the first node, by name, that fits.

Pods of higher priority come first, then older ones. A pod that fits nowhere gets PodScheduled=False, Unschedulable, and a
warning FailedScheduling, and is retried when a node changes or capacity is released. It never scores or preempts. fitting.py
has the filters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from api.embedded.status import Obj
from api.embedded.store import ObjectStorage
from api.embedded.table import StoreEvent
from api.embedded.workers.base import Worker
from api.embedded.workers.fitting import allocatable, named_nodes, refusal, requests, shortage, unschedulable
from api.kube.resources import EVENTS, NODES, PODS, Resource
from api.pod.pods import Node, Pod
from api.text.quantity import Resources

NAME = "default-scheduler"


class PodScheduler(Worker):
    """Tracks free capacity per node and binds pods one by one."""

    kinds: ClassVar[tuple[Resource, ...]] = (NODES, PODS)

    def __init__(self, store: ObjectStorage) -> None:
        super().__init__(store)
        self._nodes: dict[str, Node] = {}
        self._free: dict[str, Resources] = {}
        self._placed: dict[str, tuple[str, Resources]] = {}  # pod key: node, and what the pod uses there
        self._waiting: dict[str, None] = {}

    # ---- events

    def seen(self, kind: Resource, event: StoreEvent) -> None:
        if kind is NODES:
            self._node_seen(event)
        else:
            self._pod_seen(event)

    def _node_seen(self, event: StoreEvent) -> None:
        name = event.record.key
        self._nodes.pop(name, None)
        if event.type != "DELETED":
            self._nodes[name] = msgspec.convert(event.record.obj, Node)
        self._account(name)
        self._wake()

    def _pod_seen(self, event: StoreEvent) -> None:
        key, obj = event.record.key, event.record.obj
        node = obj["spec"].get("nodeName")
        ended = obj.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if event.type == "DELETED" or ended or not node:
            self._forget(key)
            if event.type != "DELETED" and not ended:
                self.look_at(key)
        elif key not in self._placed:
            self._take(key, node, requests(msgspec.convert(obj, Pod).spec))

    def _wake(self) -> None:
        for key in self._waiting:
            self.look_at(key)

    # ---- free capacity

    def _account(self, name: str) -> None:
        """Recomputes the free capacity of a node."""
        self._free.pop(name, None)
        if name in self._nodes:
            self._free[name] = allocatable(self._nodes[name])
            for node, taken in self._placed.values():
                if node == name:
                    _add(self._free[name], taken, -1)

    def _take(self, key: str, node: str, amounts: Resources) -> None:
        self._placed[key] = (node, amounts)
        if node in self._free:
            _add(self._free[node], amounts, -1)

    def _forget(self, key: str) -> None:
        self._waiting.pop(key, None)
        node, amounts = self._placed.pop(key, ("", {}))
        if node in self._free:
            _add(self._free[node], amounts, 1)
        if node:
            self._wake()

    # ---- one pod

    def order(self, keys: Iterable[str]) -> list[str]:
        def rank(key: str) -> tuple[int, str, str]:
            pod = self.at(PODS, key) or {"spec": {}, "metadata": {}}
            return (-int(pod["spec"].get("priority") or 0), pod["metadata"].get("creationTimestamp", ""), key)

        return sorted(keys, key=rank)

    def sync(self, key: str) -> None:
        obj = self.at(PODS, key)
        self._waiting.pop(key, None)
        if obj is None or not _to_schedule(obj):
            return
        pod = msgspec.convert(obj, Pod)
        wanted, reasons = requests(pod.spec), []
        for name in self._candidates(pod):
            why = refusal(pod.spec, self._nodes[name]) or shortage(wanted, self._free[name])
            if not why:
                self._bind(pod, name, wanted)
                return
            reasons.append(why)
        self._wait(key, obj, unschedulable(reasons, len(self._nodes)))

    def _candidates(self, pod: Pod) -> Iterable[str]:
        named = named_nodes(pod.spec)
        return sorted(self._nodes if named is None else set(named) & self._nodes.keys())

    def _bind(self, pod: Pod, node: str, wanted: Resources) -> None:
        self.store.bind(pod.metadata.namespace, pod.metadata.name, node)
        self._take(pod.key, node, wanted)

    def _wait(self, key: str, obj: Obj, message: str) -> None:
        self._waiting[key] = None
        status: Obj = {"conditions": [dict(item) for item in obj.get("status", {}).get("conditions") or ()]}
        scheduled = next((item for item in status["conditions"] if item["type"] == "PodScheduled"), None)
        if scheduled is not None and scheduled.get("message") == message:
            return
        if scheduled is not None:
            status["conditions"].remove(scheduled)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        status["conditions"].append({**condition, "lastProbeTime": None, "lastTransitionTime": self.store.now()})
        namespace, _, name = key.partition("/")
        self.store.patch(PODS, name, {"status": status}, namespace, subresource="status")
        self._warn(obj, message)

    def _warn(self, pod: Obj, message: str) -> None:
        meta, now = pod["metadata"], self.store.now()
        self.store.create(
            EVENTS,
            {
                "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    **{key: meta[key] for key in ("namespace", "name", "uid")},
                },
                "reason": "FailedScheduling",
                "type": "Warning",
                "message": message,
                "reportingComponent": NAME,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            },
        )


def _to_schedule(pod: Obj) -> bool:
    spec = pod["spec"]
    mine = spec.get("schedulerName", NAME) == NAME and "deletionTimestamp" not in pod["metadata"]
    return mine and not spec.get("nodeName") and not spec.get("schedulingGates")


def _add(into: Resources, amounts: Resources, sign: int) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0) + sign * amount
