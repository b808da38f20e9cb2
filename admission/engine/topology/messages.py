"""The messages of failed placements: in Kueue's words where Kueue has the failure (placement.md 5.7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from admission.engine.decision import Exclusions, NoPlacement
from admission.engine.topology.compatible.tree_search import NoFit
from admission.engine.topology.constraints import ResolvedRequest
from admission.engine.topology.count import Numbers
from admission.engine.topology.tree.tree import Tree


def failure(
    tree: Tree, resolved: ResolvedRequest, numbers: Sequence[Numbers], no_fit: NoFit, exclusions: Exclusions
) -> NoPlacement:
    """Returns the failure of a search that found no domains for all pods, in Kueue's words (placement.md 5.7)."""
    in_layers = resolved.inner and not no_fit.reason
    text = _layers_text(tree, resolved, numbers, no_fit) if in_layers else _plain_text(resolved, no_fit)
    return NoPlacement(text + exclusion_text(exclusions), no_fit.fit, no_fit.total, exclusions)


def _plain_text(resolved: ResolvedRequest, no_fit: NoFit) -> str:
    unit = "pod(s)" if resolved.slice_size == 1 else "slice(s)"
    topology = f"topology {quoted(resolved.topology)}"
    if no_fit.reason:
        return f"{topology} doesn't allow to fit all of {no_fit.total} {unit}: {no_fit.reason}"
    if no_fit.fit == 0:
        return f"{topology} doesn't allow to fit any of {no_fit.total} {unit}"
    return f"{topology} allows to fit only {no_fit.fit} out of {no_fit.total} {unit}"


def _layers_text(tree: Tree, resolved: ResolvedRequest, numbers: Sequence[Numbers], no_fit: NoFit) -> str:
    """Returns the message with the number of slices of each layer that fit into the largest domain of the level."""
    level = tree.levels[no_fit.level]
    slices = numbers[no_fit.level].slice
    best = min(level.ids().tolist(), key=lambda slot: (-int(slices[slot]), ",".join(level.paths[slot])))
    text = f"topology {quoted(resolved.topology)} doesn't allow to fit"
    for layer in resolved.layers:
        pods = numbers[layer.level].pod[_below(tree, no_fit.level, best, layer.level)]
        fit = int((pods // layer.size).sum())
        text += f"; {fit}/{resolved.count // layer.size} slice(s) fit on level {tree.shape.levels[layer.level]}"
    return text


def _below(tree: Tree, level: int, slot: int, target: int) -> list[int]:
    slots = [slot]
    for depth in range(level, target):
        slots = [child for one in slots for child in tree.levels[depth].children[one]]
    return slots


def exclusion_text(exclusions: Exclusions) -> str:
    """Returns the part of the message that counts excluded nodes by cause; empty if no node was excluded."""
    parts = [f"{_repels(taint)}: {count}" for taint, count in exclusions.taints.items()]
    parts += [f"resource {quoted(resource)}: {count}" for resource, count in exclusions.resources.items()]
    parts += [f"{term}: {count}" for term, count in exclusions.pods.items()]
    plain = {
        "nodeSelector": exclusions.node_selector,
        "affinity": exclusions.affinity,
        "topologyDomain": exclusions.topology_domain,
        "volumes": exclusions.volumes,
    }
    parts += [f"{name}: {count}" for name, count in plain.items() if count]
    if not parts:
        return ""
    more = [f"{exclusions.more_taints} more taints: {exclusions.beyond}"] if exclusions.more_taints else []
    return f". Total nodes: {exclusions.total_nodes}; excluded: {', '.join([*sorted(parts), *more])}"


def _repels(text: str) -> str:
    """Returns what keeps pods away, from `taint_text`: a taint, or a hold of nodes by name."""
    noun, _, name = text.rpartition(" ")
    # A taint ends with a colon and its effect, also one of a file whose value has spaces.
    return f"{noun} {quoted(name)}" if noun and ":" not in name else f"taint {quoted(text)}"


# ---- failures that Kueue does not have, or has without a message of its own


def without_tree(flavor: str) -> str:
    """Returns the message of a flavor that has no topology."""
    return f'workload requires Topology, but there is no TAS cache information for flavor "{flavor}"'


def without_domains(level: str) -> str:
    """Returns the message of a level that no usable node has."""
    return f"no topology domains at level: {level}"


def apart(key: str) -> str:
    """Returns the message of a group whose own anti-affinity keeps leader and workers apart."""
    return f"required pod anti-affinity keeps leader and workers of the group apart by {key}"


def needs_exact(pod_sets: int) -> str:
    """Returns the message of a group of so many pod sets without the placement profile Exact."""
    return f"a pod set group of {pod_sets} pod sets needs the placement profile Exact"


def uneven(key: str, *, several: bool) -> str:
    """Returns the message of pods that would lie less evenly than they ask: of several pod sets together, or of one."""
    whose = "pods of several pod sets" if several else "pods that are placed with a leader, in slices or by constraints"
    return f"{whose} lie less evenly by {key} than their topologySpreadConstraints ask"


def fits_evenly(resolved: ResolvedRequest, most: int, keys: str, skews: Collection[int]) -> str:
    """Returns the message of pods of which only `most` can lie evenly; `skews` are those of constraints with minDomains."""
    fits = f"allows to fit at most {most} out of {resolved.count} pod(s)"
    text = f"topology {quoted(resolved.topology)} {fits} evenly by {keys}, as their topologySpreadConstraints ask"
    return f"{text} (with minDomains, at most {min(skews)} on a host)" if skews else text


def gathered(keys: Sequence[str], why: str) -> str:
    """Returns where pods must lie that `why` keeps together."""
    return f"in one domain of {' and '.join(keys)}, where {why} keeps them together"


def leader_not_gathered(resolved: ResolvedRequest, where: str) -> str:
    """Returns the message of pods with a leader that would have to lie together."""
    return f'topology "{resolved.topology}" has no way to say that all pods go {where}'


def fits_together(resolved: ResolvedRequest, most: int, where: str) -> str:
    """Returns the message of pods of which only `most` can lie together."""
    return f"topology {quoted(resolved.topology)} allows to fit at most {most} out of {resolved.count} pod(s) {where}"


def no_host_for_leader(resolved: ResolvedRequest) -> str:
    """Returns the message of workers beside which no host has room for the leader."""
    return f"topology {quoted(resolved.topology)} has no host for the leader beside its workers"


def without_hostname(resolved: ResolvedRequest) -> str:
    """Returns the message of a node whose pods cannot be told apart from those of another."""
    where = f"topology {quoted(resolved.topology)}"
    return f"{where} has a node without a hostname of its own, by which terms of pods are counted"


BEING_COUNTED: Final = (
    "terms of pods: all pods of the cluster are being counted for the first time, which takes some seconds"
)
"""The message while the first count of pods has not ended."""


def unbound_affinity(pod_set: str) -> str:
    """Returns the message of several pod sets of which one waits for a pod near which it has to lie."""
    return (
        f"pod set {pod_set}: required pod affinity to pods of which none is bound yet, in a workload of several pod sets: "
        "it is placed once such a pod is bound"
    )


def no_common_domain(resolved: ResolvedRequest, level: str, pod_sets: int) -> str:
    """Returns the message of a group that no domain of the level holds as a whole."""
    return f'topology "{resolved.topology}" has no domain at level {level} for all {pod_sets} pod sets of the group'


def stale_domain(name: str) -> str:
    """Returns the message of an assignment to a domain that is gone, whose lost nodes cannot be replaced."""
    why = "the existing topologyAssignment is invalid, as it contains the stale domain"
    return f"Cannot replace the node, because {why} {name}"


def relabelled(level: str) -> str:
    """Returns the message of pods that stay, but no longer in one domain of the required level."""
    return f"nodes were relabelled, and no domain of level {level} has most of the pods that stay"


def no_replacement(nodes: Collection[str]) -> str:
    """Returns the message of failed nodes for which there is no replacement."""
    which = f"node: {next(iter(nodes))}" if len(nodes) == 1 else f"nodes: {', '.join(sorted(nodes))}"
    return f"cannot find replacement assignment for unhealthy {which}"


def without_hosts(what: str) -> str:
    """Returns the message of what goes to whole hosts in a topology that has none."""
    return f"{what}: the lowest level of the topology is no host"


def quoted(text: str) -> str:
    """Returns the text in double quotes, as messages write names."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
