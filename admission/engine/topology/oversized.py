"""Pods that are larger than every host, in words. Used for the message of a workload that can never run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from admission.engine.model import EXCLUSIVE_PREFIXES, PodSet, to_text
from admission.engine.topology.tree.tree import Tree


def oversized(trees: Sequence[Tree], pod_sets: Iterable[PodSet]) -> str:
    """Returns what pods ask for and no host of these trees has without workloads; empty if a host has each amount.

    A tree that counts whole domains, not hosts, says nothing. Trees without any host say nothing either: what is missing is the
    hosts, not their size.
    """
    if not all(tree.by_node for tree in trees) or not any(tree.rows.alive.any() for tree in trees):
        return ""
    largest: dict[str, int] = {}
    for pod_set in pod_sets:
        for resource, asked in pod_set.requests.items():
            if not resource.startswith(EXCLUSIVE_PREFIXES) and asked > max(_most(tree, resource) for tree in trees):
                largest[resource] = max(largest.get(resource, 0), asked)
    parts = []
    for resource, asked in sorted(largest.items()):
        most = to_text(resource, max(_most(tree, resource) for tree in trees))
        parts.append(f"{resource}: {to_text(resource, asked)} asked, {most} at most on any host")
    return "; ".join(parts)


def _most(tree: Tree, resource: str) -> int:
    """Returns the largest amount that a host has for workloads."""
    column = tree.columns.index.get(resource)
    free = None if column is None else tree.free(column)
    if column is None or free is None or not tree.rows.alive.any():
        return 0
    return max(0, int((free + tree.used(column))[tree.rows.alive].max()))
