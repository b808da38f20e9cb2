"""Stand-in for kubelets: nodes become Ready; bound pods run, end as annotated, and are removed when deleted.

Implements the stages of hack/controlplane/kwok-stages.yaml: a pod runs for ever, unless its annotation `stowage.test/run-for`
(a Go duration from its start) ends it; it then succeeds, or fails with `stowage.test/exit-code`. A node labelled
`stowage.test/node-down` is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar

from api.embedded.status import Obj
from api.embedded.store import DeleteOptions, ObjectStorage
from api.embedded.table import StoreEvent
from api.embedded.workers.base import Worker, holds
from api.kube.resources import NODES, PODS, Resource
from api.names import MANAGED_FINALIZER
from api.text.duration import seconds

RUN_FOR, EXIT_CODE, DOWN = "stowage.test/run-for", "stowage.test/exit-code", "stowage.test/node-down"
_SIZE = {"cpu": "32", "memory": "256Gi", "pods": "110"}
_NOW = DeleteOptions(grace=0)


class Kubelet(Worker):
    """The kubelets of all nodes."""

    kinds: ClassVar[tuple[Resource, ...]] = (NODES, PODS)

    def __init__(self, store: ObjectStorage) -> None:
        super().__init__(store)
        self._since: dict[str, float] = {}  # uid: start time, more precise than the status

    def seen(self, kind: Resource, event: StoreEvent) -> None:
        if event.type == "DELETED":
            self._since.pop(event.record.uid, None)
        elif kind is NODES or event.record.obj["spec"].get("nodeName"):
            self.look_at(event.record.key)

    def sync(self, key: str) -> None:
        if "/" not in key:
            self._node(key)
        elif (pod := self.at(PODS, key)) is not None:
            self._pod(key, pod)

    def _node(self, name: str) -> None:
        node = self.at(NODES, name)
        if node is None or DOWN in (node["metadata"].get("labels") or {}):
            return
        status = node.get("status") or {}
        if holds(status, "Ready"):
            return
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        }
        others = [item for item in status.get("conditions") or () if item["type"] != "Ready"]
        now = self.store.now()
        body: Obj = {"conditions": [*others, {**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}]}
        if not status.get("allocatable"):
            body |= {"capacity": _SIZE, "allocatable": _SIZE}
        self.store.patch(NODES, name, {"status": body}, subresource="status")

    def _pod(self, key: str, pod: Obj) -> None:
        meta, phase = pod["metadata"], pod.get("status", {}).get("phase")
        if "deletionTimestamp" in meta:
            if MANAGED_FINALIZER in meta.get("finalizers", ()) and phase in ("Pending", "Running"):
                self._write(pod, {"phase": "Failed"})  # the finalizer keeps the pod, which must not seem to run
            elif meta.get("deletionGracePeriodSeconds"):
                self.store.delete(PODS, meta["name"], meta["namespace"], options=_NOW)
        elif phase == "Pending":
            self._run(key, pod)
        elif phase == "Running":
            self._end_when_due(key, pod)

    def _run(self, key: str, pod: Obj) -> None:
        now = self.store.now()
        self._since[pod["metadata"]["uid"]] = self.store.clock()
        types = ["Initialized", "ContainersReady", "Ready"]
        types += [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
        conditions = _merged(pod, ({"type": kind, "status": "True", "lastTransitionTime": now} for kind in types))
        state = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}}}
        status = {"phase": "Running", "startTime": now, "conditions": conditions}
        self._write(pod, {**status, "containerStatuses": _containers(pod, state)})

    def _end_when_due(self, key: str, pod: Obj) -> None:
        text = (pod["metadata"].get("annotations") or {}).get(RUN_FOR)
        if text is None:
            return
        due = self._begun(pod) + seconds(text)
        if self.store.clock() < due:
            self.look_later(key, due)
        else:
            self._end(pod)

    def _begun(self, pod: Obj) -> float:
        return self._since.setdefault(
            pod["metadata"]["uid"], _epoch(pod["status"].get("startTime") or self.store.now())
        )

    def _end(self, pod: Obj) -> None:
        code = int((pod["metadata"].get("annotations") or {}).get(EXIT_CODE) or 0)
        now, why = self.store.now(), "PodFailed" if code else "PodCompleted"
        over = {"status": "False", "reason": why, "lastTransitionTime": now}
        conditions = _merged(pod, ({"type": kind, **over} for kind in ("ContainersReady", "Ready")))
        end = {"exitCode": code, "reason": "Error" if code else "Completed"}
        ended = {**end, "startedAt": pod["status"].get("startTime"), "finishedAt": now}
        state = {"ready": False, "started": False, "restartCount": 0, "state": {"terminated": ended}}
        phase = "Failed" if code else "Succeeded"
        self._write(pod, {"phase": phase, "conditions": conditions, "containerStatuses": _containers(pod, state)})

    def _write(self, pod: Obj, status: Obj) -> None:
        meta = pod["metadata"]
        self.store.patch(PODS, meta["name"], {"status": status}, meta["namespace"], subresource="status")


def _epoch(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _merged(pod: Obj, changes: Iterable[Obj]) -> list[Obj]:
    """Returns the pod's conditions, with `changes` replacing those of the same types."""
    by_type = {item["type"]: item for item in pod.get("status", {}).get("conditions") or ()}
    by_type |= {item["type"]: item for item in changes}
    return list(by_type.values())


def _containers(pod: Obj, state: Obj) -> list[Obj]:
    return [{"name": item["name"], "image": item.get("image", ""), **state} for item in pod["spec"]["containers"]]
