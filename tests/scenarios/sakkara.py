"""What the scenarios of Sakkara groups make and look at: nodes and their tree, groups, members, states."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from api.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    WORKLOADS,
)
from api.names import (
    SAKKARA_GROUP,
    SAKKARA_GROUP_NAME,
    SAKKARA_TOPOLOGY,
)
from tests.scenarios.site import GROUP, Site, eventually, never

Units = Mapping[str, Sequence[int]]
"""GPUs of each node, by unit (rack or server)."""


MakeSite = Callable[[str], Site]
Tree = dict[str, dict[str, dict[str, str]]]


async def site_of(here: Site, units: Units) -> None:
    """A namespace, and nodes `<site>-b-<unit>-<n>` with so many GPUs."""
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    for unit, gpus in units.items():
        for n, amount in enumerate(gpus):
            here.gpus_per_host = amount
            await here.add_node_in("b", unit, node(here, unit, n))


def node(here: Site, unit: str, n: int) -> str:
    return f"{here.name}-b-{unit}-{n}"


def tree_of(here: Site, units: Units, level: str = "rack", **data: str) -> dict[str, Any]:
    """The topology ConfigMap of these nodes."""
    tree: Tree = {unit: {node(here, unit, n): {} for n in range(len(gpus))} for unit, gpus in units.items()}
    given = {"name": here.name, "level-names": json.dumps([level, "node"]), "tree": json.dumps(tree), **data}
    metadata = {"name": f"tree-{here.name}", "namespace": "default", "labels": {SAKKARA_TOPOLOGY: ""}}
    return {"metadata": metadata, "data": given}


@contextlib.asynccontextmanager
async def tree(here: Site, units: Units, level: str = "rack") -> AsyncIterator[None]:
    """The nodes, and their tree while the block lasts."""
    await site_of(here, units)
    made = tree_of(here, units, level)
    await here.make(CONFIG_MAPS, made)
    try:
        yield
    finally:
        await here.kube.delete(CONFIG_MAPS, made["metadata"]["name"], "default")


def a_group(here: Site, name: str, size: int | str, constraints: Any = None, **data: str) -> dict[str, Any]:
    """The group's ConfigMap."""
    given = {"name": name, "size": str(size), **data}
    if constraints is not None:
        given["constraints"] = constraints if isinstance(constraints, str) else json.dumps(constraints)
    return {"metadata": {"name": name, "namespace": here.name, "labels": {SAKKARA_GROUP: ""}}, "data": given}


def a_pod(
    here: Site, name: str, group: str, *, gpus: int = 1, labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A member, of a scheduler that does not exist."""
    made = template(here, {SAKKARA_GROUP_NAME: group, **(labels or {})}, gpus)
    return {
        "metadata": {"name": name, "namespace": here.name, "labels": made["metadata"]["labels"]},
        "spec": made["spec"],
    }


def template(here: Site, labels: Mapping[str, str], gpus: int = 1) -> dict[str, Any]:
    made = here.template(gpus)
    spec = {**made["spec"], "nodeSelector": {GROUP: here.name}, "schedulerName": "sakkara-scheduler"}
    return {"metadata": {"labels": dict(labels)}, "spec": spec}


async def create(here: Site, group: str, count: int, *, first: int = 0, **more: Any) -> None:
    for number in range(first, first + count):
        await here.make(PODS, a_pod(here, f"{group}-{number}", group, **more))


def a_job(here: Site, group: str, pods: int) -> dict[str, Any]:
    """A Job of no queue whose pods are members, each made again some time after it was deleted."""
    spec = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "backoffLimit": 100,
        "template": template(here, {SAKKARA_GROUP_NAME: group}),
    }
    return {"metadata": {"name": group, "namespace": here.name}, "spec": spec}


def a_deployment(here: Site, group: str, pods: int) -> dict[str, Any]:
    """A Deployment whose pods are members, each made again at once when it is deleted."""
    made = template(here, {SAKKARA_GROUP_NAME: group, "app": group})
    made["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": pods, "selector": {"matchLabels": {"app": group}}, "template": made}
    return {"metadata": {"name": group, "namespace": here.name}, "spec": spec}


async def members(here: Site, prefix: str) -> list[dict[str, Any]]:
    page = await here.kube.list(PODS, here.name)
    mine = [pod for pod in page.items if pod["metadata"]["name"].startswith(prefix)]
    return [
        pod
        for pod in mine
        if not pod["metadata"].get("deletionTimestamp") and pod.get("status", {}).get("phase") != "Failed"
    ]


async def states(here: Site, prefix: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for pod in await members(here, prefix):
        gated = bool(pod["spec"].get("schedulingGates"))
        found["Gated" if gated else pod.get("status", {}).get("phase", "Pending")] += 1
    return found


async def are(here: Site, prefix: str, **wanted: int) -> list[dict[str, Any]]:
    """Waits until the pods whose names begin so are in these states; returns them."""
    last: Counter[str] = Counter()

    async def check() -> bool:
        nonlocal last
        last = await states(here, prefix)
        return last == Counter(wanted)

    try:
        await eventually(f"{prefix}: {wanted}", check, 60)
    except AssertionError as late:
        raise AssertionError(f"{late}; {dict(last)}; {await story(here)}") from None
    return await members(here, prefix)


async def stay(here: Site, prefix: str, **wanted: int) -> None:
    async def other() -> bool:
        return await states(here, prefix) != Counter(wanted)

    await never(f"{prefix} is no more {wanted}", other)


async def story(here: Site) -> str:
    said = []
    for made in (await here.kube.list(WORKLOADS, here.name)).items:
        conditions = made.get("status", {}).get("conditions", ())
        said.append((made["metadata"]["name"], [f"{c['type']}={c['status']} {c['message']}" for c in conditions]))
    events = [f"{e['reason']}: {e['message']}" for e in (await here.kube.list(EVENTS, here.name)).items]
    return f"workloads: {said}; events: {events[-12:]}"


def shares(pods: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Pods on each used node, the fullest first, by unit."""
    nodes = Counter(pod["spec"]["nodeName"] for pod in pods)
    found: dict[str, list[int]] = {}
    for name, count in nodes.items():
        found.setdefault(name.rsplit("-", 2)[1], []).append(count)
    return {unit: sorted(counts, reverse=True) for unit, counts in sorted(found.items())}


async def told(here: Site, text: str, *, kind: str = "Pod", reason: str = "GangWaiting", namespace: str = "") -> None:
    """Waits until an event of that reason says so."""
    last: list[str] = []

    async def check() -> bool:
        nonlocal last
        events = (await here.kube.list(EVENTS, namespace or here.name)).items
        last = [e["message"] for e in events if e["involvedObject"]["kind"] == kind and e["reason"] == reason]
        return text in last

    try:
        await eventually(f"told {text}", check)
    except AssertionError as late:
        raise AssertionError(f"{late}; {last}") from None
