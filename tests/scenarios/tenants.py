"""Tenants of one site: queues in its cohort, priorities, and what is seen of who had to go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.kube.resources import CLUSTER_QUEUES, EVENTS, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from api.meta import find_condition
from api.names import PREEMPTED, PRIORITY_CLASS_LABEL
from api.workloads import Workload
from tests.scenarios.site import GPU, Site

RECLAIM = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


async def tenant(here: Site, name: str, quota: int, **queue: Any) -> None:
    """A ClusterQueue of the site's cohort with so many GPUs, and the LocalQueue `name` that leads to it."""
    resources = [{"name": "cpu", "nominalQuota": 1000}, {"name": GPU, "nominalQuota": quota}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": here.name, "resources": resources}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups, "cohortName": here.name, **queue}
    await here.make(CLUSTER_QUEUES, {"metadata": {"name": f"{here.name}-{name}"}, "spec": spec})
    local = {"metadata": {"name": name, "namespace": here.name}, "spec": {"clusterQueue": f"{here.name}-{name}"}}
    await here.make(LOCAL_QUEUES, local)


async def prioritized(here: Site, job: dict[str, Any], value: int) -> dict[str, Any]:
    """The job with a priority class of that value."""
    name = f"{here.name}-p{value}"
    await here.make(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    job["metadata"]["labels"][PRIORITY_CLASS_LABEL] = name
    return job


async def evicted(here: Site) -> dict[str, Workload]:
    """By job: the Workloads of the site that were ever preempted."""
    page = await here.kube.list(WORKLOADS, here.name)
    found = [Workload.from_wire(item) for item in page.items]
    gone = [w for w in found if find_condition(w.status.conditions, PREEMPTED) is not None]
    return {w.metadata.owner_references[0].name: w for w in gone}


async def told(here: Site, reason: str) -> set[str]:
    """The objects about which something was told."""
    events = (await here.kube.list(EVENTS, here.name)).items
    return {event["involvedObject"]["name"] for event in events if event["reason"] == reason}


async def usage(here: Site, queue: str) -> Mapping[str, str]:
    """Total and borrowed GPUs in the status of a ClusterQueue."""
    found = await here.kube.get(CLUSTER_QUEUES, f"{here.name}-{queue}")
    flavors = (found.get("status") or {}).get("flavorsReservation") or [{"resources": []}]
    return next(({k: r[k] for k in ("total", "borrowed")} for r in flavors[0]["resources"] if r["name"] == GPU), {})
