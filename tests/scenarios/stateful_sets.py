"""StatefulSets with a queue name, as users write them, and their pods and Workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from api.kube.resources import PODS
from api.names import QUEUE_NAME_LABEL
from tests.scenarios.site import Site, eventually

MakeSite = Callable[[str], Site]


def a_set(
    here: Site,
    name: str,
    replicas: int,
    *,
    gpus: int = 1,
    annotations: Mapping[str, str] | None = None,
    ordered: bool = False,
    **spec: Any,
) -> dict[str, Any]:
    """A StatefulSet as a user writes it."""
    template = here.template(gpus)
    template["metadata"] = {"labels": {"app": name}, "annotations": dict(annotations or {})}
    template["spec"]["restartPolicy"] = "Always"
    spec |= {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    spec |= {"podManagementPolicy": "OrderedReady" if ordered else "Parallel", "serviceName": name}
    return {"metadata": {"name": name, "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}, "spec": spec}


async def pods_of(here: Site, name: str) -> list[dict[str, Any]]:
    """Its pods that are not going, in the order of their ordinals."""
    page = await here.kube.list(PODS, here.name, label_selector=f"app={name}")
    staying = [pod for pod in page.items if not pod["metadata"].get("deletionTimestamp")]
    return sorted(staying, key=lambda pod: int(pod["metadata"]["name"].rpartition("-")[2]))


async def story(here: Site, name: str) -> str:
    pods = [
        (
            pod["metadata"]["name"],
            pod["spec"].get("schedulingGates"),
            pod["metadata"].get("labels"),
            pod["metadata"].get("annotations"),
            pod["status"].get("phase"),
        )
        for pod in await pods_of(here, name)
    ]
    return f"{await here.story(name)}; pods: {pods}"


async def runs(here: Site, name: str, count: int) -> list[dict[str, Any]]:
    """Waits until so many of its pods run, and no others are there."""

    async def check() -> list[dict[str, Any]] | None:
        pods = await pods_of(here, name)
        going = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return pods if len(pods) == len(going) == count else None

    try:
        return await eventually(f"{count} pods of {name} run", check)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here, name)}") from None
