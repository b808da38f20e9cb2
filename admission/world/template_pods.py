"""Expands the templates of Deployments, StatefulSets and ReplicaSets in files to pods.

A Deployment with a queue name passes it to its pods, as the webhook does; pods of other owners name their queue themselves. (A
StatefulSet with a queue name is admitted as a whole: sets.py.) A Job without a queue name is expanded if its pods belong to a
gang. If the files contain some of the pods, as a copy of a live cluster does, only missing ones are created. Pure; called by
builder.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from admission.integrations.job import pods_of
from admission.integrations.pods.gang import names_gang
from admission.world.documents import REPLICA_SETS, Document
from api.errors import InvalidObject
from api.kube.resources import DEPLOYMENTS, JOBS, LEADER_WORKER_SETS, PODS, STATEFUL_SETS, Resource
from api.names import (
    POD_GROUP_FAST_ADMISSION,
    POD_GROUP_NAME,
    SIMULATED_ARRIVAL,
    SIMULATED_CHECKPOINTS,
    SIMULATED_DURATION,
)

MAKERS: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)
FOREVER: Final = frozenset(kind.kind for kind in (*MAKERS, LEADER_WORKER_SETS))
"""Kinds of owners whose pods never end by themselves."""

_TIMES: Final = (SIMULATED_ARRIVAL, SIMULATED_CHECKPOINTS, SIMULATED_DURATION)

Object = dict[str, Any]


def owner(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the owner reference to the object's controller, or None."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), None)


def missing_pods(kind: Resource, document: Document, pods: Iterable[Document]) -> Iterator[Document]:
    """Yields the pods that the owner would create besides its own among `pods`. Raises InvalidObject."""
    maker, meta = document.object, document.object["metadata"]
    spec = maker.get("spec") or {}
    replicas = pods_of(spec) if kind is JOBS else spec.get("replicas", 1)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise InvalidObject("spec.replicas", replicas, "must be a whole number, not negative", document.name)
    template = spec.get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise InvalidObject("spec.template", template, "must be a pod template", document.name)
    if kind is STATEFUL_SETS and _never_complete(spec, template):
        wrong = "must be Parallel: pods that come when the one before is ready never make a whole group"
        raise InvalidObject("spec.podManagementPolicy", spec.get("podManagementPolicy"), wrong, document.name)
    there = {pod.object["metadata"]["name"] for pod in pods if _is_of(kind, meta, pod.object)}
    stem = meta["name"] if kind in (STATEFUL_SETS, JOBS) else f"{meta['name']}-pod"
    names = (f"{stem}-{number}" for number in range(replicas + len(there)))
    for name in [name for name in names if name not in there][: max(0, replicas - len(there))]:
        yield Document(document.where, _pod(kind, maker, template, name))


def _never_complete(spec: Mapping[str, Any], template: Mapping[str, Any]) -> bool:
    """Reports whether the set's pods would start one by one, so that their group is never complete."""
    if spec.get("podManagementPolicy") == "Parallel" or spec.get("replicas", 1) < 2:
        return False
    meta = template.get("metadata") or {}
    metadata = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    return metadata.get(POD_GROUP_FAST_ADMISSION) != "true" and (POD_GROUP_NAME in metadata or names_gang(meta))


def _pod(kind: Resource, maker: Object, template: Mapping[str, Any], name: str) -> Object:
    meta, shape = maker["metadata"], template.get("metadata") or {}
    own = meta.get("annotations") or {}
    times = {key: own[key] for key in _TIMES if key in own}
    reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta["name"], "uid": meta.get("uid", "")}
    made: Object = {
        "name": name,
        "namespace": meta["namespace"],
        "labels": dict(shape.get("labels") or {}),
        "annotations": {**times, **(shape.get("annotations") or {})},
        "ownerReferences": [{**reference, "controller": True}],
    }
    if meta.get("creationTimestamp"):
        made["creationTimestamp"] = meta["creationTimestamp"]
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": made, "spec": {**template["spec"]}}


def _is_of(kind: Resource, maker: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Reports whether the owner has the pod. A Deployment's pods belong to a ReplicaSet with its name and a hash."""
    by = owner(pod)
    if by is None or pod["metadata"].get("namespace") != maker["namespace"]:
        return False
    if kind is DEPLOYMENTS:
        return by.get("kind") == REPLICA_SETS.kind and str(by.get("name")).rpartition("-")[0] == maker["name"]
    return (by.get("kind"), by.get("name")) == (kind.kind, maker["name"])
