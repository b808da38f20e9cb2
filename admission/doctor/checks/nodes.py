"""Labels of levels on nodes: each node of a topology has all, and they form a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import View, labels, name_of
from admission.engine.listed import listed
from admission.levels.oddities import Inference, LabelledNode, contradictions, missing_levels
from api.kube.resources import NODES, RESOURCE_FLAVORS, TOPOLOGIES


def _trees(view: View) -> Iterator[tuple[str, tuple[str, ...], list[LabelledNode]]]:
    """Yields the name of each flavor that has levels, its levels and its nodes."""
    for flavor in view.of(RESOURCE_FLAVORS):
        if levels := view.levels(flavor):
            nodes = [LabelledNode(name_of(node), labels(node)) for node in view.nodes_of[name_of(flavor)]]
            yield name_of(flavor), levels, nodes


def _without_levels(view: View) -> Iterator[Finding]:
    seen: set[str] = set()
    for flavor, levels, nodes in _trees(view):
        inference = Inference(nodes, levels)
        for node in nodes:
            if (missing := missing_levels(node, levels)) and node.name not in seen:
                seen.add(node.name)
                given = [f"{level}={inference.value(node, level)}" for level in missing]
                command = view.command("label", "--overwrite", "nodes", node.name, *given)
                what = f"is of ResourceFlavor {flavor} and lacks {listed(missing)}"
                yield Finding(f"Node {node.name}", what, command)


def _contradictions(view: View) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for _, levels, nodes in _trees(view):
        for each in contradictions(nodes, levels):
            if (each.node, each.key) not in seen:
                seen.add((each.node, each.key))
                command = view.command("label", "--overwrite", "nodes", each.node, f"{each.key}={each.value}")
                yield Finding(f"Node {each.node}", each.what, command)


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
