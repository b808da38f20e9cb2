"""Nodes of a topology: each has the labels of all levels, these form a tree, widest first, and its devices are there."""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from admission.doctor.devices import lost, usual_amounts
from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, labels, name_of, spec_of
from admission.engine.listed import listed
from admission.levels.oddities import Inference, LabelledNode, contradictions, missing_levels, widest_first
from api.kube.resources import CLUSTER_QUEUES, NODES, RESOURCE_FLAVORS, TOPOLOGIES, Resource
from api.names import HOSTNAME_LABEL

_MOST_NODES: Final = 100


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
        if widest_first(nodes, levels) != levels:
            continue  # in the right order the labels may well form a tree
        for each in contradictions(nodes, levels):
            if (each.node, each.key) not in seen:
                seen.add((each.node, each.key))
                command = view.command("label", "--overwrite", "nodes", each.node, f"{each.key}={each.value}")
                yield Finding(f"Node {each.node}", each.what, command)


def _order(view: View) -> Iterator[Finding]:
    seen: set[str] = set()
    for flavor, levels, nodes in _trees(view):
        right = widest_first(nodes, levels)
        own = spec_of(view.named(RESOURCE_FLAVORS, flavor)).get("topology")
        kind, name = (RESOURCE_FLAVORS, flavor) if own else (TOPOLOGIES, _topology(view, flavor))
        title = f"{kind.kind} {name}"
        if right == levels or title in seen:
            continue
        seen.add(title)
        what = f"its levels are {listed(levels)}; on the nodes of ResourceFlavor {flavor} the widest first are {listed(right)}"
        yield Finding(title, what, _in_order(view, kind, name, levels, right))


def _in_order(view: View, kind: Resource, name: str, levels: Sequence[str], right: Sequence[str]) -> str:
    """Returns the command that puts the levels in order; of a Topology the webhook lets them be added and removed only.

    So those that are in the wrong place go first, and come back in the right one.
    """

    def patch(spec: Obj) -> str:
        return view.command("patch", kind.kind.lower(), name, "--type=merge", "-p", json.dumps({"spec": spec}))

    if kind == RESOURCE_FLAVORS:
        return patch({"topology": {"levels": list(right)}})
    if levels[-1] != HOSTNAME_LABEL:
        others = f"create one with the levels {listed(right)}, and flavors that name it instead of {name}"
        return f"# the levels of a Topology without {HOSTNAME_LABEL} are immutable: {others}"
    blocks = difflib.SequenceMatcher(None, levels, right, autojunk=False).get_matching_blocks()
    kept = [level for block in blocks for level in levels[block.a : block.a + block.size]]
    return " && ".join(patch({"levels": [{"nodeLabel": level} for level in step]}) for step in (kept, right))


def _topology(view: View, flavor: str) -> str:
    return str(spec_of(view.named(RESOURCE_FLAVORS, flavor)).get("topologyName") or "")


# ---- devices


def _without_devices(view: View) -> Iterator[Finding]:
    for flavor in view.of(RESOURCE_FLAVORS):
        nodes = view.nodes_of[name_of(flavor)]
        if name_of(flavor) not in view.used_flavors:
            continue
        usual = usual_amounts(nodes)
        gone = {name_of(node): devices for node in nodes if (devices := lost(node, usual)) and not _is_cordoned(node)}
        for title, some in _by_domain(view, flavor, nodes, gone):
            devices = sorted({device for name in some for device in gone[name]})
            what = (
                f"has no {listed(devices)} (allocatable 0), which other nodes of ResourceFlavor {name_of(flavor)} have"
            )
            yield Finding(title, what, view.command("cordon", *some[:_MOST_NODES]))


def _is_cordoned(node: Obj) -> bool:
    return bool(spec_of(node).get("unschedulable"))


def _by_domain(
    view: View, flavor: Obj, nodes: Sequence[Obj], gone: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, list[str]]]:
    """Yields each lowest domain above the nodes of which every node is among `gone`, and the other nodes one by one."""
    above = [level for level in view.levels(flavor) if level != HOSTNAME_LABEL][-1:]
    domains: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        domains[labels(node).get(above[0], "") if above else ""].append(name_of(node))
    for value, members in sorted(domains.items()):
        if above and value and len(members) > 1 and all(name in gone for name in members):
            yield f"{above[0]} {value}", members
        else:
            yield from ((f"Node {name}", [name]) for name in members if name in gone)


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
    Check(
        "levels-out-of-order",
        (NODES, RESOURCE_FLAVORS, TOPOLOGIES),
        "A level comes before one that is wider: each of its domains lies in one domain of the next level.",
        "A gang that needs a domain of the wider level gets the narrower one, or waits for ever.",
        "puts the levels in the order of their domains on the nodes, widest first",
        _order,
    ),
    Check(
        "nodes-without-devices",
        (NODES, RESOURCE_FLAVORS, CLUSTER_QUEUES, TOPOLOGIES),
        "Nodes of a flavor have none of the devices that its other nodes have: their device plugin has stopped, or the devices "
        "have failed.",
        "The flavor's quota promises the devices: workloads get quota, and wait for a place.",
        "takes the nodes out of scheduling, until somebody has mended them and uncordons them",
        _without_devices,
    ),
)
