"""What the stories of the documents have in common: a cluster of their own, pods with the documents' lines, states.

The manifests name no nodes, so each story has the cluster's nodes to itself and takes them away at its end.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import yaml

from api.errors import NotFound
from api.kube.resources import JOBS, NAMESPACES, NODES, PODS, WORKLOADS, Resource
from api.names import HOSTNAME_LABEL
from tests.scenarios.site import GPU, Site, eventually, never

Obj = dict[str, Any]


@contextlib.asynccontextmanager
async def cluster(here: Site, nodes: Mapping[str, Mapping[str, str]], gpus: int = 0) -> AsyncIterator[None]:
    """Nodes by name with their labels, and the story's namespace; gone at the end, its pods and jobs, too."""
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    await add_nodes(here, nodes, gpus)
    try:
        yield
    finally:
        for resource in (JOBS, PODS):
            for obj in (await here.kube.list(resource, here.name)).items:
                await removed(here, resource, obj["metadata"]["name"], here.name)
        for node in (await here.kube.list(NODES)).items:
            await removed(here, NODES, node["metadata"]["name"])

        async def empty() -> bool:
            return not (await here.kube.list(PODS, here.name)).items

        await eventually("the story's pods are gone", empty)


async def add_nodes(here: Site, nodes: Mapping[str, Mapping[str, str]], gpus: int) -> None:
    for name, labels in nodes.items():
        capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                 "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        meta = {"name": name, "labels": {HOSTNAME_LABEL: name, "kubernetes.io/os": "linux", **labels}}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        await here.make(NODES, {"metadata": meta, "status": status})


async def removed(here: Site, resource: Resource, name: str, namespace: str | None = None) -> None:
    with contextlib.suppress(NotFound):
        await here.kube.delete(resource, name, namespace, grace_seconds=0, propagation="Background")


def pod(here: Site, name: str, text: str, gpus: int = 0, **spec: Any) -> Obj:
    """A pod with the document's lines of metadata."""
    requests = {"cpu": "1", **({GPU: str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "nginx", "resources": {"requests": requests, "limits": requests}}
    meta = {**yaml.safe_load(text), "name": name, "namespace": here.name}
    whole = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"metadata": meta, "spec": whole}


async def states(here: Site) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in (await here.kube.list(PODS, here.name)).items:
        if not one["metadata"].get("deletionTimestamp"):
            gated = bool(one["spec"].get("schedulingGates"))
            found["Gated" if gated else one.get("status", {}).get("phase", "Pending")] += 1
    return found


async def are(here: Site, **wanted: int) -> list[Obj]:
    """Waits until the namespace's pods are in these states; gives them."""

    async def check() -> bool:
        return await states(here) == Counter(wanted)

    try:
        await eventually(f"pods of {here.name}: {wanted}", check, 90)
    except AssertionError as late:
        workloads = (await here.kube.list(WORKLOADS, here.name)).items
        said = [[c.get("message") for c in w.get("status", {}).get("conditions", ())] for w in workloads]
        raise AssertionError(f"{late}; {await states(here)}; {said}") from None
    return list((await here.kube.list(PODS, here.name)).items)


async def stay(here: Site, seconds: float = 2.0, **wanted: int) -> None:
    async def other() -> bool:
        return await states(here) != Counter(wanted)

    await never(f"pods of {here.name} are no more {wanted}", other, seconds)
