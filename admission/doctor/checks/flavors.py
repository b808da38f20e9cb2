"""ResourceFlavors: they select nodes, have their topology, and share no nodes."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, is_made, labels, name_of, node_labels, spec_of
from admission.engine.listed import listed
from admission.levels.level_plan import levels_of
from admission.levels.oddities import LabelledNode, missing_levels
from api.kube.resources import CLUSTER_QUEUES, NODES, RESOURCE_FLAVORS, TOPOLOGIES
from api.names import API_VERSION, STOWAGE

FLAVOR_LABEL: Final = f"{STOWAGE}/flavor"
"""On nodes, by a command of `stowage doctor`: the one ResourceFlavor that selects them, if several did."""
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
"""On nodes of the control plane: `stowage doctor` offers them to no flavor."""
_MOST_NODES: Final = 100


def _without_nodes(view: View) -> Iterator[Finding]:
    for flavor in view.of(RESOURCE_FLAVORS):
        name, wanted = name_of(flavor), node_labels(flavor)
        if name in view.used_flavors and wanted and not view.nodes_of[name]:
            words = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
            yield Finding(f"ResourceFlavor {name}", f"selects no node: none has {words}", _labelled(view, wanted))


def _labelled(view: View, wanted: dict[str, str]) -> str:
    """Returns the command that labels nodes that no flavor selects."""
    taken = {name_of(node) for name, nodes in view.nodes_of.items() if name in view.used_flavors for node in nodes}
    free = [name_of(node) for node in view.of(NODES) if name_of(node) not in taken and not _is_control_plane(node)]
    pairs = [f"{key}={value}" for key, value in sorted(wanted.items())]
    if not free:
        return f"# every node is of another flavor; label those that shall be of this one: {' '.join(pairs)}"
    return view.command("label", "--overwrite", "nodes", *free[:_MOST_NODES], *pairs)


def _is_control_plane(node: Obj) -> bool:
    return CONTROL_PLANE in labels(node)


def _without_topology(view: View) -> Iterator[Finding]:
    for flavor in view.of(RESOURCE_FLAVORS):
        topology = spec_of(flavor).get("topologyName")
        if topology and view.named(TOPOLOGIES, str(topology)) is None:
            what = f"names the Topology {topology}, which does not exist"
            yield Finding(f"ResourceFlavor {name_of(flavor)}", what, _topology(view, flavor, str(topology)))


def _topology(view: View, flavor: Obj, name: str) -> str:
    """Returns the command that creates the Topology.

    It has the levels of the Topology whose labels all nodes of the flavor have, the longest of several; else those that clouds
    and Topograph put on these nodes.
    """
    nodes = [LabelledNode(name_of(node), labels(node)) for node in view.nodes_of[name_of(flavor)]]
    known = [[str(level.get("nodeLabel")) for level in spec_of(each)["levels"]] for each in view.of(TOPOLOGIES)]
    fitting = [levels for levels in known if nodes and not any(missing_levels(node, levels) for node in nodes)]
    levels = max(fitting, key=len) if fitting else levels_of(nodes)
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    topology = {"apiVersion": API_VERSION, "kind": TOPOLOGIES.kind, "metadata": {"name": name}, "spec": spec}
    return f"echo {shlex.quote(json.dumps(topology))} | {view.command('apply', '--server-side', '-f', '-')}"


def _overlaps(view: View) -> Iterator[Finding]:
    flavors = [each for each in view.of(RESOURCE_FLAVORS) if node_labels(each) and not is_made(each)]
    used = [each for each in flavors if name_of(each) in view.used_flavors]
    for one, other in itertools.combinations(used, 2):
        first, second = ({name_of(node) for node in view.nodes_of[name_of(each)]} for each in (one, other))
        if shared := sorted(first & second):
            wide, narrow = (one, other) if len(first) >= len(second) else (other, one)
            what = f"selects nodes that {name_of(narrow)} selects too: {listed(shared)}"
            yield Finding(f"ResourceFlavor {name_of(wide)}", what, _apart(view, wide, narrow, shared))


def _apart(view: View, wide: Obj, narrow: Obj, shared: Sequence[str]) -> str:
    """Returns the commands that leave the shared nodes to one flavor.

    A flavor with `topologyName` keeps its nodeLabels; if both have one, the nodes lose the label of one of them.
    """
    for flavor in (wide, narrow):
        rest = [name for node in view.nodes_of[name_of(flavor)] if (name := name_of(node)) not in shared]
        if rest and not spec_of(flavor).get("topologyName"):
            label = view.command(
                "label", "--overwrite", "nodes", *rest[:_MOST_NODES], f"{FLAVOR_LABEL}={name_of(flavor)}"
            )
            body = json.dumps({"spec": {"nodeLabels": {FLAVOR_LABEL: name_of(flavor)}}})
            return f"{label} && {view.command('patch', 'resourceflavor', name_of(flavor), '--type=merge', '-p', body)}"
    for flavor, other in ((wide, narrow), (narrow, wide)):
        own = sorted(node_labels(flavor).keys() - node_labels(other).keys())
        if own and len(view.nodes_of[name_of(flavor)]) > len(shared):
            return view.command("label", "nodes", *shared[:_MOST_NODES], f"{own[0]}-")
    return "# one selects all nodes of the other: give its quota to the other flavor, and take it out of the queues"


CHECKS: Final = (
    Check(
        "flavors-without-nodes",
        (RESOURCE_FLAVORS, CLUSTER_QUEUES, NODES),
        "A queue has quota of a flavor that selects no node.",
        "Its workloads get quota, or a reason, but never a node.",
        "gives the labels of the flavor to the nodes that are of no flavor",
        _without_nodes,
    ),
    Check(
        "flavors-without-topology",
        (RESOURCE_FLAVORS, TOPOLOGIES, NODES),
        "A flavor names a Topology that does not exist.",
        "Queues with quota of it are inactive.",
        "creates the Topology with the levels of another one whose labels all nodes of the flavor have, else with those that "
        "clouds and Topograph put on its nodes",
        _without_topology,
    ),
    Check(
        "flavors-overlap",
        (RESOURCE_FLAVORS, CLUSTER_QUEUES, NODES),
        "Two flavors that queues have quota of select the same nodes.",
        "Their quotas promise the same nodes twice, so workloads with quota wait for nodes.",
        f"leaves the shared nodes to one of them: a flavor without `topologyName` keeps the nodes that get `{FLAVOR_LABEL}`, "
        "else the shared nodes lose the label of one flavor",
        _overlaps,
    ),
)
