"""Labels of levels on nodes: each node of a topology has all, and they form a tree."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, labels, listed, name_of
from api.kube.resources import NODES, RESOURCE_FLAVORS, TOPOLOGIES
from api.names import HOSTNAME_LABEL


def _trees(view: View) -> Iterator[tuple[Obj, tuple[str, ...], list[Obj]]]:
    """Yields each flavor that has levels, its levels and its nodes."""
    for flavor in view.of(RESOURCE_FLAVORS):
        if levels := view.levels(flavor):
            yield flavor, levels, view.nodes_of[name_of(flavor)]


def _without_levels(view: View) -> Iterator[Finding]:
    told: set[str] = set()
    for flavor, levels, nodes in _trees(view):
        for node in nodes:
            missing = [level for level in levels if not labels(node).get(level)]
            if missing and name_of(node) not in told:
                told.add(name_of(node))
                what = f"is of ResourceFlavor {name_of(flavor)} and lacks {listed(missing)}"
                given = [f"{level}={inferred(node, levels, level, nodes)}" for level in missing]
                command = view.command("label", "--overwrite", "nodes", name_of(node), *given)
                yield Finding(f"Node {name_of(node)}", what, command)


def inferred(node: Obj, levels: Sequence[str], level: str, nodes: Sequence[Obj]) -> str:
    """Returns the value of a level for a node that lacks it.

    It is that of the nodes of the same domain below, if these agree; else the node's name: a domain of its own, where it
    can be used and is near no other node by mistake.
    """
    for below in levels[levels.index(level) + 1 :]:
        if not (value := labels(node).get(below)) or below == HOSTNAME_LABEL:
            continue
        found = {
            labels(other)[level] for other in nodes if labels(other).get(below) == value and labels(other).get(level)
        }
        if len(found) == 1:
            return found.pop()
    return name_of(node)


def _contradictions(view: View) -> Iterator[Finding]:
    told: set[tuple[str, str]] = set()
    for _, levels, nodes in _trees(view):
        yield from (
            Finding(f"Node {name}", what, view.command("label", "--overwrite", "nodes", name, f"{key}={value}"))
            for name, key, value, what in contradictions(nodes, levels)
            if (name, key) not in told and not told.add((name, key))  # type: ignore[func-returns-value]
        )


def contradictions(nodes: Sequence[Obj], levels: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yields (node, label, value that mends it, what is wrong) for nodes that contradict the others.

    Two nodes contradict each other if they have one hostname, or if they are of one domain that lies in two: a rack whose
    nodes name two blocks. Where most domains of a level have namesakes in others (racks numbered anew in each block), the
    names are taken to be meant so. Of two domains that claim a name, that of more nodes is right.
    """
    hosts = Counter(labels(node).get(HOSTNAME_LABEL) for node in nodes)
    for node in nodes:
        host = labels(node).get(HOSTNAME_LABEL)
        if HOSTNAME_LABEL in levels and host and hosts[host] > 1 and host != name_of(node):
            yield name_of(node), HOSTNAME_LABEL, name_of(node), f"has the hostname {host}, as another node"
    for wider, level in itertools.pairwise(levels):
        if level != HOSTNAME_LABEL:
            yield from _strays(nodes, wider, level)


def _strays(nodes: Sequence[Obj], wider: str, level: str) -> Iterator[tuple[str, str, str, str]]:
    parents: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        if (value := labels(node).get(level)) and (parent := labels(node).get(wider)):
            parents[value][parent] += 1
    doubled = {value: counts for value, counts in parents.items() if len(counts) > 1}
    if 2 * len(doubled) > len(parents) and len(parents) > 1:
        return
    for node in nodes:
        value, parent = labels(node).get(level, ""), labels(node).get(wider, "")
        if value not in doubled or not parent:
            continue
        right, most = _largest(doubled[value])
        if parent != right and doubled[value][parent] < most:
            what = f"is in {level}={value} with {most} nodes of {wider}={right}, but has {wider}={parent}"
            yield name_of(node), wider, right, what


def _largest(counts: Mapping[str, int]) -> tuple[str, int]:
    return min(counts.items(), key=lambda item: (-item[1], item[0]))


CHECKS: Final = (
    Check(
        "nodes-without-levels",
        (NODES, RESOURCE_FLAVORS, TOPOLOGIES),
        "A node of a flavor with a topology lacks the label of a level.",
        "It is in no domain, so no workload of the topology is placed there.",
        "gives the node the domain of its neighbours where these agree, else a domain of its own",
        _without_levels,
    ),
    Check(
        "nodes-contradict",
        (NODES, RESOURCE_FLAVORS, TOPOLOGIES),
        "Nodes of one domain name different domains above it, or two nodes have one hostname.",
        "The tree has the domain twice: a gang that needs all of it finds only a part.",
        "gives the node the label that most nodes of its domain have",
        _contradictions,
    ),
)
