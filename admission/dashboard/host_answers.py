"""Answers about hosts: one host, sums of flavors, and the search for names."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any, Final

from admission.dashboard.cluster import Cluster
from admission.dashboard.tree import KINDS, FlavorTree
from admission.dashboard.trees import Trees, shown, shown_reservation
from admission.dashboard.viewer import Permissions
from api.kube.turns import Turns
from api.meta import split_key

MOST_FOUND: Final = 50
_NAMESPACED: Final = ("Workload", "LocalQueue")


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
    reservations = [shown_reservation(one, permissions.reservations) for one in row.reserved]
    waiting = [shown(key, queue, permissions.sees, queues=permissions.queues) for key, queue in row.held_for]
    held_for = [{"workload": workload, "clusterQueue": cluster_queue} for workload, cluster_queue in waiting]
    state = {"state": row.state, "why": row.why, "reservations": reservations, "heldFor": held_for}
    return {**named, **state, **sums, "runs": runs}


def occupancy(trees: Trees) -> list[dict[str, Any]]:
    """Returns answers.FlavorOccupancy of each flavor."""
    answers = []
    for flavor, tree in sorted(trees.by_flavor.items()):
        resources = []
        for index, resource in enumerate(tree.resources):
            sums = {kind: tree.sums[kind][index] for kind in KINDS}
            free = sums["total"] - sums["used"] - sums["foreign"] - sums["held"]
            resources.append({"resource": resource, **sums, "free": max(0, free), "unusable": tree.unusable[index]})
        answers.append({"flavor": flavor, "topology": tree.topology, "hosts": len(tree.names), "resources": resources})
    return answers


async def search(cluster: Cluster, trees: Trees, text: str, permissions: Permissions) -> list[dict[str, Any]]:
    """Returns answers.Found whose name contains `text`, at most MOST_FOUND of those that the viewer may see."""
    matches: list[dict[str, Any]] = []
    if not text:
        return matches
    for kind, flavor, keys in _names(cluster, trees, permissions):
        for key in heapq.nsmallest(MOST_FOUND - len(matches), await _matching(keys, text)):
            namespace, name = split_key(key) if kind in _NAMESPACED else ("", key)
            matches.append({"kind": kind, "namespace": namespace, "name": name, "flavor": flavor})
        if len(matches) >= MOST_FOUND:
            break
    return matches


def _names(cluster: Cluster, trees: Trees, permissions: Permissions) -> Iterator[tuple[str, str, Iterable[str]]]:
    """Yields kinds with their flavor and the keys that the viewer may see."""
    view = cluster.view
    for kind, objects in zip(_NAMESPACED, (view.workloads.objects, view.local_queues.objects), strict=True):
        yield kind, "", (key for key in list(objects) if permissions.sees(split_key(key)[0] or ""))
    if permissions.queues:
        yield "ClusterQueue", "", list(view.cluster_queues.objects)
    if permissions.nodes:
        for flavor, tree in sorted(trees.by_flavor.items()):
            yield "Flavor", flavor, (flavor,)
            yield "Domain", flavor, (name for name, _ in list(tree.domains))
            yield "Host", flavor, list(tree.names)


async def _matching(keys: Iterable[str], text: str) -> list[str]:
    """Returns the keys that contain `text`, which it looks for in turns."""
    matching, turns = [], Turns()
    for key in keys:
        if text in key.lower():
            matching.append(key)
        await turns.give_way()
    return matching
