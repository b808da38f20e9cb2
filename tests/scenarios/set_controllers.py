"""Stand-ins for the controllers of Deployments, StatefulSets and LeaderWorkerSets, where there is no real one.

They are clients of the API server, so that the pods that they create pass its webhooks, and look again every few moments. Of
the real ones' behaviour they show what concerns the admission of pods: names, labels and owners of pods, their order, what is
created when, what goes at a scaling down, replacement of pods that have ended, rolling updates.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from api.errors import AlreadyExists, ApiError, Conflict, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, PODS, STATEFUL_SETS, Resource

Obj = dict[str, Any]

REVISION = "controller-revision-hash"
POD_INDEX = "apps.kubernetes.io/pod-index"
LWS = "leaderworkerset.sigs.k8s.io"
_PERIOD = 0.2
_REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")


@contextlib.asynccontextmanager
async def running(*controllers: StandIn) -> AsyncIterator[None]:
    """The controllers work inside."""
    tasks = [asyncio.create_task(each.run(), name=type(each).__name__) for each in controllers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class StandIn:
    """Looks at every object of its kind, again and again."""

    resource: Resource

    def __init__(self, kube: Kube) -> None:
        self.kube = kube

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            with contextlib.suppress(ApiError):
                pods = (await self.kube.list(PODS)).items
                for obj in (await self.kube.list(self.resource)).items:
                    with contextlib.suppress(NotFound, Conflict, AlreadyExists):
                        if not obj["metadata"].get("deletionTimestamp"):
                            await self.sync(obj, [pod for pod in pods if _namespace(pod) == _namespace(obj)])
            await asyncio.sleep(_PERIOD)

    async def sync(self, obj: Obj, pods: Sequence[Obj]) -> None:
        """Brings one object a step further; `pods` are those of its namespace."""
        raise NotImplementedError

    async def create(self, owner: Obj, kind: Resource, name: str, template: Mapping[str, Any], labels: Obj) -> Obj:
        """A pod of the template, with those labels besides."""
        given = template.get("metadata") or {}
        meta = {
            "name": name,
            "namespace": _namespace(owner),
            "labels": {**(given.get("labels") or {}), **labels},
            "annotations": dict(given.get("annotations") or {}),
            "ownerReferences": [_reference(owner, kind)],
        }
        spec = {**template["spec"], "restartPolicy": "Always"}
        return await self.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def delete(self, pod: Obj) -> None:
        """Tells it to go, once."""
        if not pod["metadata"].get("deletionTimestamp"):
            await self.kube.delete(PODS, pod["metadata"]["name"], _namespace(pod), uid=pod["metadata"]["uid"])

    async def tell(self, obj: Obj, status: Obj) -> None:
        """Writes the status where it differs."""
        status["observedGeneration"] = obj["metadata"].get("generation", 1)
        if {**(obj.get("status") or {}), **status} != (obj.get("status") or {}):
            body = {"status": status}
            name = obj["metadata"]["name"]
            await self.kube.patch(
                self.resource, name, body, _namespace(obj), kind=PatchKind.MERGE, subresource="status"
            )


class Deployments(StandIn):
    """Of apps/v1, with one ReplicaSet that is only named: replicas, and replacement of pods that have ended or go."""

    resource = DEPLOYMENTS

    async def sync(self, obj: Obj, pods: Sequence[Obj]) -> None:
        """See StandIn."""
        uid = obj["metadata"]["uid"]
        mine = [pod for pod in pods if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences", ()))]
        standing = [pod for pod in mine if not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")]
        wanted = obj["spec"].get("replicas", 1)
        for _ in range(wanted - len(standing)):
            name = f"{obj['metadata']['name']}-{secrets.token_hex(4)}"
            await self.create(obj, _REPLICA_SETS, name, obj["spec"]["template"], {})
        for pod in (*standing[wanted:], *(pod for pod in mine if has_ended(pod))):
            await self.delete(pod)


class StatefulSets(StandIn):
    """Of apps/v1: ordinals, OrderedReady and Parallel, RollingUpdate, pods of its selector that nobody owns."""

    resource = STATEFUL_SETS

    async def sync(self, obj: Obj, pods: Sequence[Obj]) -> None:
        """See StandIn."""
        await self._adopt(obj, pods)
        spec, mine = obj["spec"], _owned(obj, pods)
        start = (spec.get("ordinals") or {}).get("start", 0)
        replicas, ordered = spec.get("replicas", 1), spec.get("podManagementPolicy") != "Parallel"
        revision = _revision(spec["template"])
        await self._replicas(obj, mine, range(start, start + replicas), revision, ordered=ordered)
        standing = list(mine.values())
        current = all(_labels(pod).get(REVISION) == revision for pod in standing)
        status = {"replicas": len(standing), "readyReplicas": sum(map(is_ready, standing)), "updateRevision": revision}
        await self.tell(obj, status | ({"currentRevision": revision} if current else {}))

    async def _adopt(self, obj: Obj, pods: Sequence[Obj]) -> None:
        wanted = obj["spec"]["selector"]["matchLabels"].items()
        for pod in pods:
            meta = pod["metadata"]
            if wanted <= _labels(pod).items() and not meta.get("ownerReferences") and not meta.get("deletionTimestamp"):
                meta["ownerReferences"] = [_reference(obj, STATEFUL_SETS)]
                body = {"metadata": {"uid": meta["uid"], "ownerReferences": meta["ownerReferences"]}}
                await self.kube.patch(PODS, meta["name"], body, _namespace(obj), kind=PatchKind.MERGE)

    async def _replicas(
        self, obj: Obj, mine: Mapping[int, Obj], wanted: range, revision: str, *, ordered: bool
    ) -> None:
        for ordinal in wanted:
            pod = mine.get(ordinal)
            if pod is None:
                name = f"{obj['metadata']['name']}-{ordinal}"
                labels = {"statefulset.kubernetes.io/pod-name": name, POD_INDEX: str(ordinal), REVISION: revision}
                await self.create(obj, STATEFUL_SETS, name, obj["spec"]["template"], labels)
            elif has_ended(pod):
                await self.delete(pod)
            if ordered and (pod is None or not is_ready(pod)):
                return
        for ordinal in sorted(set(mine) - set(wanted), reverse=True):
            await self.delete(mine[ordinal])
            if ordered:
                return
        for ordinal in reversed(wanted):
            if ordinal in mine and _labels(mine[ordinal]).get(REVISION) != revision:
                await self.delete(mine[ordinal])
                return


class LeaderWorkerSets(StandIn):
    """Of leaderworkerset.x-k8s.io/v1: leaders, and workers once their leader is there (or ready); a group goes as a whole."""

    resource = LEADER_WORKER_SETS

    async def sync(self, obj: Obj, pods: Sequence[Obj]) -> None:
        """See StandIn."""
        spec, name = obj["spec"], obj["metadata"]["name"]
        given = spec["leaderWorkerTemplate"]
        size, replicas = given.get("size", 1), spec.get("replicas", 1)
        leaders = {int(_labels(pod)[f"{LWS}/group-index"]): pod for pod in _owned(obj, pods).values()}
        ready = 0
        for index in range(replicas):
            leader = leaders.get(index)
            if leader is None:
                template = given.get("leaderTemplate") or given["workerTemplate"]
                await self.create(obj, LEADER_WORKER_SETS, f"{name}-{index}", template, _marks(name, index, 0))
                continue
            ready += await self._workers(obj, leader, index, size, pods)
        for index in sorted(set(leaders) - set(range(replicas)), reverse=True):
            await self.delete(leaders[index])
        await self.tell(obj, {"replicas": len(leaders), "readyReplicas": ready})

    async def _workers(self, obj: Obj, leader: Obj, index: int, size: int, pods: Sequence[Obj]) -> bool:
        """Whether the whole group is ready."""
        spec, name = obj["spec"], obj["metadata"]["name"]
        if leader["metadata"].get("deletionTimestamp"):
            return False
        if has_ended(leader):
            await self.delete(leader)
            return False
        if spec.get("startupPolicy") == "LeaderReady" and not is_ready(leader):
            return False
        workers = _owned(leader, pods)
        for rank in range(1, size):
            if rank not in workers:
                template = spec["leaderWorkerTemplate"]["workerTemplate"]
                await self.create(leader, PODS, f"{name}-{index}-{rank}", template, _marks(name, index, rank))
        return is_ready(leader) and sum(map(is_ready, workers.values())) == size - 1


def _marks(name: str, index: int, rank: int) -> Obj:
    key = hashlib.sha1(f"{name}-{index}".encode(), usedforsecurity=False).hexdigest()
    marks = {"name": name, "group-index": str(index), "worker-index": str(rank), "group-key": key}
    return {f"{LWS}/{label}": value for label, value in marks.items()}


def _owned(owner: Obj, pods: Sequence[Obj]) -> dict[int, Obj]:
    """Pods by the number at the end of their names."""
    uid = owner["metadata"]["uid"]
    mine = (pod for pod in pods if any(r["uid"] == uid for r in pod["metadata"].get("ownerReferences", ())))
    return {int(pod["metadata"]["name"].rpartition("-")[2]): pod for pod in mine}


def is_ready(pod: Obj) -> bool:
    """Runs, is ready, and stays."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def has_ended(pod: Obj) -> bool:
    """Whether it runs no more."""
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _labels(pod: Obj) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def _namespace(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))


def _revision(template: Obj) -> str:
    return hashlib.sha1(json.dumps(template, sort_keys=True).encode(), usedforsecurity=False).hexdigest()[:10]


def _reference(owner: Obj, kind: Resource) -> Obj:
    meta = owner["metadata"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
