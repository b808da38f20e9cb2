"""Pods of gangs for scenarios, and expectations about their phases, events and PodGroups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from api.errors import NotFound
from api.kube.client import PatchKind
from api.kube.resources import (
    EVENTS,
    POD_GROUPS,
    PODS,
    WORKLOADS,
)
from api.names import (
    GANG_MINIMUM,
    GANG_NAME,
    QUEUE_NAME_LABEL,
)
from tests.scenarios.site import GROUP, Site, eventually, never

Texts = dict[str, str]


def a_pod(
    here: Site, name: str, labels: Texts, annotations: Texts | None = None, *, gpus: int = 2, queue: str | None = None
) -> Any:
    """A pod as a user writes it, of no queue unless one is named."""
    template = here.template(gpus)
    metadata = {
        "name": name,
        "namespace": here.name,
        "labels": {**labels, **({QUEUE_NAME_LABEL: queue} if queue else {})},
        "annotations": {**template["metadata"]["annotations"], **(annotations or {})},
    }
    spec = {**template["spec"], "nodeSelector": {GROUP: here.name}}
    if not gpus:
        spec["containers"] = [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]
    return {"metadata": metadata, "spec": spec}


def said(gang: str, minimum: int) -> Texts:
    """The gang in the coscheduling dialect."""
    return {GANG_NAME: gang, GANG_MINIMUM: str(minimum)}


async def create(here: Site, *pods: Any) -> None:
    for pod in pods:
        await here.make(PODS, pod)


async def phases(here: Site, prefix: str = "") -> Counter[str]:
    """How many pods whose names begin so are in which phase; those that are gated are Gated."""
    found: Counter[str] = Counter()
    for pod in (await here.kube.list(PODS, here.name)).items:
        if pod["metadata"]["name"].startswith(prefix) and not pod["metadata"].get("deletionTimestamp"):
            gated = bool(pod["spec"].get("schedulingGates"))
            found["Gated" if gated else pod.get("status", {}).get("phase", "Pending")] += 1
    return found


async def expect_phases(here: Site, prefix: str, **wanted: int) -> None:
    """Waits until the pods whose names begin so are in these phases."""

    async def check() -> bool:
        return await phases(here, prefix) == Counter(wanted)

    try:
        await eventually(f"{prefix}: {wanted}", check)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here)}") from None


async def expect_same_phases(here: Site, prefix: str, **wanted: int) -> None:
    async def other() -> bool:
        return await phases(here, prefix) != Counter(wanted)

    await never(f"{prefix} is no more {wanted}", other)


async def story(here: Site) -> str:
    workloads = [
        (
            w["metadata"]["name"],
            [(c["type"], c["status"], c["message"]) for c in w.get("status", {}).get("conditions", ())],
        )
        for w in (await here.kube.list(WORKLOADS, here.name)).items
    ]
    events = [f"{e['reason']}: {e.get('message', '')}" for e in (await here.kube.list(EVENTS, here.name)).items]
    return f"{dict(await phases(here))}; workloads: {workloads}; events: {events[-12:]}"


async def expect_reason(here: Site, gang: str, text: str, resource: Any = POD_GROUPS) -> None:
    """Waits until the gang's PodGroup says why it waits."""
    last = ""

    async def check() -> bool:
        nonlocal last
        try:
            group = await here.kube.get(resource, gang, here.name)
        except NotFound:
            return False
        last = str(group.get("status"))
        return any(text in c["message"] for c in group.get("status", {}).get("conditions", ()))

    try:
        await eventually(f"{gang} is told {text}", check)
    except AssertionError as late:
        raise AssertionError(f"{late}; {last}; {await story(here)}") from None


async def expect_events_on_members(here: Site, *texts: str, members: int) -> None:
    """Waits until `kubectl describe` of each of so many pods says so."""

    async def check() -> bool:
        events = (await here.kube.list(EVENTS, here.name)).items
        said = [e for e in events if all(text in e.get("message", "") for text in texts)]
        return len({e["involvedObject"]["name"] for e in said if e["involvedObject"]["kind"] == "Pod"}) == members

    await eventually(f"{members} pods are told {texts}", check)


async def expect_group_phase(here: Site, gang: str, wanted: str, resource: Any = POD_GROUPS) -> dict[str, Any]:
    async def check() -> dict[str, Any] | None:
        try:
            group = await here.kube.get(resource, gang, here.name)
        except NotFound:
            return None
        return group if group.get("status", {}).get("phase") == wanted else None

    try:
        return await eventually(f"PodGroup {gang} is {wanted}", check)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here)}") from None


async def end(here: Site, names: Iterable[str], how: str = "Succeeded") -> None:
    for name in names:
        body = {"status": {"phase": how}}
        await here.kube.patch(PODS, name, body, here.name, kind=PatchKind.MERGE, subresource="status")
