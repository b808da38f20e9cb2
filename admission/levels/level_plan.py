"""Plans Topologies and ResourceFlavors for the nodes of a cluster, from the labels that they have. Pure.

One flavor for each kind of machine, so that quota of one is never spent on another. Each flavor gets the levels that its nodes
have. A node that lacks a level which the other nodes of its flavor have gets a label for it: without one, no pod that uses the
topology could run there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.levels.oddities import Inference, LabelledNode, as_value, contradictions, missing_levels, parents_of
from admission.levels.sources import CLIQUE, FLAVOR_KEYS, HOST, NVLINK, SOURCES, WIDER, Source
from api.names import API_VERSION

_ACROSS: Final = 0.1
"""Share of nodes beyond which an NVLink domain lies across the level above it."""
_LONGEST_NAME: Final = 63
_MANY: Final = 64
"""Flavors of one resource group that a ClusterQueue may have."""


@dataclass(frozen=True, slots=True)
class PlannedFlavor:
    """A ResourceFlavor: the label that selects its nodes, its levels and the Topology that has them."""

    name: str
    key: str
    value: str
    topology: str
    levels: tuple[str, ...]
    nodes: tuple[LabelledNode, ...]


@dataclass(frozen=True, slots=True)
class MissingLabel:
    """A label that a node of a flavor lacks, and the value that places it."""

    node: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What `stowage topology init` writes, and what it found odd. `source` is empty if no known labels were found."""

    source: str
    topologies: tuple[tuple[str, tuple[str, ...]], ...]
    flavors: tuple[PlannedFlavor, ...]
    labels: tuple[MissingLabel, ...]
    oddities: tuple[str, ...]

    def topology_objects(self) -> list[dict[str, Any]]:
        """Returns the Topologies as manifests."""
        return [_object("Topology", n, {"levels": [{"nodeLabel": k} for k in levels]}) for n, levels in self.topologies]

    def flavor_objects(self) -> list[dict[str, Any]]:
        """Returns the ResourceFlavors as manifests."""
        return [
            _object("ResourceFlavor", f.name, {"nodeLabels": {f.key: f.value}, "topologyName": f.topology})
            for f in self.flavors
        ]


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def plan(
    nodes: Sequence[LabelledNode],
    name: str = "default",
    flavor_by: str = "",
    source: str = "",
    own: Sequence[str] = (),
) -> Plan:
    """Returns the plan. `name` is that of the first Topology; `flavor_by` a label key, `source` a source's name, or empty;
    `own` the keys of levels, widest first, in place of a source's.
    """
    nodes = sorted(nodes, key=lambda node: node.name)
    chosen = Source("your levels", tuple(key for key in own if key != HOST)) if own else _source(nodes, source)
    odd: list[str] = []
    groups = _groups(nodes, flavor_by, odd)
    by_levels: dict[tuple[str, ...], str] = {}
    flavors: list[PlannedFlavor] = []
    names = _Names()
    for (key, value), some in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        levels = _levels(some, chosen, odd)
        topology = by_levels.setdefault(levels, name if not by_levels else f"{name}-{len(by_levels) + 1}")
        flavors.append(PlannedFlavor(names.given(value), key, value, topology, levels, tuple(some)))
    labels = tuple(label for flavor in flavors for label in _labels(flavor))
    odd += [text for flavor in flavors for text in _oddities(flavor)]
    odd += _overlaps(flavors)
    if len(flavors) > _MANY:
        odd.append(
            f"{len(flavors)} ResourceFlavors, where a group of a ClusterQueue takes {_MANY}: --flavor-by names a label"
        )
    topologies = tuple((topology, levels) for levels, topology in by_levels.items())
    return Plan(chosen.name if chosen else "", topologies, tuple(flavors), labels, tuple(odd))


def levels_of(nodes: Sequence[LabelledNode]) -> tuple[str, ...]:
    """Returns the levels that the labels of the nodes of one flavor make, widest first; without any, the host alone."""
    return _levels(nodes, _source(nodes, ""), [])


def _source(nodes: Sequence[LabelledNode], wanted: str) -> Source | None:
    """Returns the source whose labels most nodes have; of several, the one with most levels."""
    known = [source for source in SOURCES if source.name == wanted or not wanted]

    def weight(source: Source) -> tuple[int, int]:
        labelled = sum(any(node.labels.get(key) for key in source.keys) for node in nodes)
        return labelled, sum(any(node.labels.get(key) for node in nodes) for key in source.keys)

    best = max(known, key=weight, default=None)
    return best if best is not None and weight(best)[0] else None


def _groups(nodes: Sequence[LabelledNode], flavor_by: str, odd: list[str]) -> dict[tuple[str, str], list[LabelledNode]]:
    """Returns the nodes by the label that selects their flavor."""
    keys = (flavor_by,) if flavor_by else FLAVOR_KEYS
    groups: defaultdict[tuple[str, str], list[LabelledNode]] = defaultdict(list)
    for node in nodes:
        key = next((key for key in keys if node.labels.get(key)), None)
        if key is not None:
            groups[key, node.labels[key]].append(node)
    unknown = [node.name for node in nodes if not any(node.labels.get(key) for key in keys)]
    if unknown:
        of = f"{unknown[0]} has" if len(unknown) == 1 else f"{unknown[0]} and {len(unknown) - 1} more have"
        odd.append(f"node {of} no label that tells kinds of machines apart ({', '.join(keys)}): in no flavor")
    return dict(groups)


def _levels(nodes: Sequence[LabelledNode], source: Source | None, odd: list[str]) -> tuple[str, ...]:
    """Returns the levels of the nodes of one flavor, widest first; the host is always the last."""
    keys = [key for key in WIDER if len({node.labels.get(key) for node in nodes if node.labels.get(key)}) > 1]
    keys += [key for key in (source.keys if source else ()) if any(node.labels.get(key) for node in nodes)]
    if not NVLINK.intersection(keys) and any(node.labels.get(CLIQUE) for node in nodes):
        keys.append(CLIQUE)
    kept: list[str] = []
    for key in keys:
        if key in NVLINK and kept and _lies_across(nodes, kept[-1], key):
            odd.append(f"the domains of {key} lie across those of {kept[-1]}: it is no level")
        elif _is_host(nodes, key):
            odd.append(f"each node has a {key} of its own: it is left out, {HOST} says the same")
        else:
            kept.append(key)
    return (*kept, HOST)


def _lies_across(nodes: Sequence[LabelledNode], wider: str, key: str) -> bool:
    counts = parents_of(nodes, wider, key).values()
    strays = sum(sum(each.values()) - max(each.values()) for each in counts)
    return strays > _ACROSS * sum(sum(each.values()) for each in counts)


def _is_host(nodes: Sequence[LabelledNode], key: str) -> bool:
    counts = Counter(node.labels[key] for node in nodes if node.labels.get(key))
    return len(nodes) > 1 and len(counts) == len(nodes)


def _labels(flavor: PlannedFlavor) -> Iterator[MissingLabel]:
    inference = Inference(flavor.nodes, flavor.levels)
    for node in flavor.nodes:
        for level in missing_levels(node, flavor.levels):
            yield MissingLabel(node.name, level, inference.value(node, level))


def _oddities(flavor: PlannedFlavor) -> Iterator[str]:
    for missing in _labels(flavor):
        alone = "a domain of its own" if missing.value == as_value(missing.node) else missing.value
        yield f"node {missing.node} has no {missing.key}: it gets {alone}"
    for each in contradictions(flavor.nodes, flavor.levels):
        yield f"node {each.node} {each.what}"
    yield from _small(flavor)


def _overlaps(flavors: Sequence[PlannedFlavor]) -> Iterator[str]:
    """Flavors whose label is also on nodes of another flavor, such as a machine type of which some nodes lack a GPU's label."""
    by_label = {(flavor.key, flavor.value): flavor.name for flavor in flavors}
    keys = dict.fromkeys(flavor.key for flavor in flavors)
    shared: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for flavor in flavors:
        for node in flavor.nodes:
            selecting = (by_label.get((key, node.labels[key])) for key in keys if key in node.labels)
            for name in (each for each in selecting if each and each != flavor.name):
                shared[name, flavor.name].append(node.name)
    for (one, other), names in sorted(shared.items()):
        yield f"ResourceFlavor {one} selects {len(names)} nodes of {other} too, such as {names[0]}"


def _small(flavor: PlannedFlavor) -> Iterator[str]:
    """Domains above the hosts with one node, where others have more."""
    if len(flavor.levels) < 2:
        return
    level = flavor.levels[-2]
    counts = Counter(node.labels[level] for node in flavor.nodes if node.labels.get(level))
    if max(counts.values(), default=0) > 1:
        yield from (f"{level}={value} has one node" for value, number in sorted(counts.items()) if number == 1)


class _Names:
    """Names of flavors: a label's value as a name of Kubernetes, each given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def given(self, value: str) -> str:
        """Returns a name for the value, with a number if others have it already."""
        base = re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-")[:_LONGEST_NAME].strip("-") or "flavor"
        name = base
        while name in self._taken:
            self._numbers[base] += 1
            name = f"{base[: _LONGEST_NAME - 8]}-{self._numbers[base] + 1}"
        self._taken.add(name)
        return name
