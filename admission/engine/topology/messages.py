"""The messages of failed placements, in Kueue's words (placement.md 5.7). Called by place_group.py."""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.decision import Exclusions, NoPlacement
from admission.engine.topology.compatible.tree_search import NoFit
from admission.engine.topology.constraints import ResolvedRequest
from admission.engine.topology.count import Numbers
from admission.engine.topology.tree.match import RESERVED
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
    """Returns what keeps pods away, from `taint_text`: a taint, or an advance reservation by name."""
    kind, _, name = text.rpartition(" ")  # no part of a taint has spaces
    return f"{RESERVED} {quoted(name)}" if kind == RESERVED else f"taint {quoted(text)}"


def quoted(text: str) -> str:
    """Returns the text in double quotes, as messages write names."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
