"""Answers about hosts: one host, sums of flavors, and the search for names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final

from admission.dashboard.cluster import Cluster
from admission.dashboard.tree import KINDS, FlavorTree
from admission.dashboard.trees import Trees, shown
from admission.dashboard.viewer import Permissions
from api.meta import split_key

MOST_FOUND: Final = 50
_STEP: Final = 1000
"""Names that are compared before other tasks run."""


def host_items(trees: Trees, name: str, permissions: Permissions) -> list[dict[str, Any]]:
    """Returns answers.Host of each flavor whose tree has a host of that name."""
    return [
        _host(tree, at, permissions)
        for _, tree in sorted(trees.by_flavor.items())
        for at, known in enumerate(tree.names)
        if known == name
    ]


def _host(tree: FlavorTree, at: int, permissions: Permissions) -> dict[str, Any]:
    row = tree.rows[at]
    runs = []
    for key, queue, pods, amounts in row.runs:
        workload, cluster_queue = shown(key, queue, permissions.sees, queues=permissions.queues)
        used = dict(zip(tree.resources, amounts, strict=True))
        runs.append({"workload": workload, "clusterQueue": cluster_queue, "pods": pods, "amounts": used})
    sums = {kind: dict(zip(tree.resources, getattr(row, kind), strict=True)) for kind in KINDS}
    named = {"flavor": tree.flavor, "path": tree.path(at), "name": tree.names[at]}
    return {**named, "state": row.state, "why": row.why, **sums, "runs": runs}


def occupancy(trees: Trees) -> list[dict[str, Any]]:
    """Returns answers.FlavorOccupancy of each flavor."""
    found = []
    for flavor, tree in sorted(trees.by_flavor.items()):
        resources = []
        for index, resource in enumerate(tree.resources):
            sums = {kind: tree.sums[kind][index] for kind in KINDS}
            free = sums["total"] - sums["used"] - sums["foreign"] - sums["held"]
            resources.append({"resource": resource, **sums, "free": max(0, free), "unusable": tree.unusable[index]})
        found.append({"flavor": flavor, "topology": tree.topology, "hosts": len(tree.names), "resources": resources})
    return found


async def search(cluster: Cluster, trees: Trees, text: str, permissions: Permissions) -> list[dict[str, Any]]:
    """Returns answers.Found whose name contains `text`, at most MOST_FOUND of those that the viewer may see."""
    found: list[dict[str, Any]] = []
    if not text:
        return found
    for number, (kind, namespace, name, flavor) in enumerate(_names(cluster, trees, permissions), 1):
        if text in (f"{namespace}/{name}" if namespace else name).lower():
            found.append({"kind": kind, "namespace": namespace, "name": name, "flavor": flavor})
            if len(found) >= MOST_FOUND:
                break
        if number % _STEP == 0:
            await asyncio.sleep(0)
    return found


def _names(cluster: Cluster, trees: Trees, permissions: Permissions) -> Iterator[tuple[str, str, str, str]]:
    view = cluster.view
    yield from (("Workload", *key, "") for key in _keys(view.workloads.objects, permissions))
    yield from (("LocalQueue", *key, "") for key in _keys(view.local_queues.objects, permissions))
    if permissions.queues:
        yield from (("ClusterQueue", "", name, "") for name in sorted(view.cluster_queues.objects))
    if permissions.nodes:
        for flavor, tree in sorted(trees.by_flavor.items()):
            yield "Flavor", "", flavor, flavor
            yield from (("Domain", "", name, flavor) for name, _ in tree.domains)
            yield from (("Host", "", name, flavor) for name in tree.names)


def _keys(objects: Iterable[str], permissions: Permissions) -> list[tuple[str, str]]:
    found = ((namespace or "", name) for namespace, name in map(split_key, sorted(objects)))
    return [(namespace, name) for namespace, name in found if permissions.sees(namespace)]
