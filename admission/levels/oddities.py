"""Nodes that lack the label of a level, or contradict the others. Pure; `nodes` are those of one topology."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from api.names import HOSTNAME_LABEL

_LONGEST_VALUE: Final = 63


@dataclass(frozen=True, slots=True)
class LabelledNode:
    """A node's name and labels."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A node's label that contradicts those of other nodes, and the value that fixes it."""

    node: str
    key: str
    value: str
    what: str


def missing_levels(node: LabelledNode, levels: Sequence[str]) -> list[str]:
    """Returns the levels whose label the node lacks; an empty value names no domain."""
    return [level for level in levels if not node.labels.get(level)]


def widest_first(nodes: Sequence[LabelledNode], levels: Sequence[str]) -> tuple[str, ...]:
    """Returns the levels with each one moved behind those that contain its domains, as far as the nodes show it.

    A level is wider than another one if each domain of the other lies in one of its own, and one of its own has several.
    """
    order = list(levels)
    for _ in levels:
        swapped = False
        for at, (first, second) in enumerate(itertools.pairwise(order)):
            if HOSTNAME_LABEL not in (first, second) and _is_wider(nodes, second, first):
                order[at : at + 2] = [second, first]
                swapped = True
        if not swapped:
            break
    return tuple(order)


def _is_wider(nodes: Sequence[LabelledNode], wide: str, narrow: str) -> bool:
    pairs = {(w, n) for node in nodes if (w := node.labels.get(wide)) and (n := node.labels.get(narrow))}
    wides, narrows = {w for w, _ in pairs}, {n for _, n in pairs}
    return len(pairs) == len(narrows) > len(wides)


def as_value(name: str) -> str:
    """Returns a node's name as a value of a label, which is shorter than names may be."""
    if len(name) <= _LONGEST_VALUE:
        return name
    return f"{name[: _LONGEST_VALUE - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class Inference:
    """The values of levels for nodes of one topology that lack them."""

    def __init__(self, nodes: Sequence[LabelledNode], levels: Sequence[str]) -> None:
        self._nodes, self._levels = nodes, levels
        self._above: dict[tuple[str, str], dict[str, Counter[str]]] = {}

    def value(self, node: LabelledNode, level: str) -> str:
        """Returns the value of a level for a node that lacks it.

        It is the value of the other nodes of the next lower domain, if these agree, and otherwise the node's name: in a domain
        of its own, the node can be used and counts as near no other node.
        """
        for below in self._levels[self._levels.index(level) + 1 :]:
            if (value := node.labels.get(below)) and below != HOSTNAME_LABEL:
                parents = self._parents(level, below).get(value, ())
                if len(parents) == 1:
                    return next(iter(parents))
        return as_value(node.name)

    def _parents(self, level: str, below: str) -> Mapping[str, Counter[str]]:
        """Returns the domains of a level by domain of one below it; counted once for all nodes."""
        if (level, below) not in self._above:
            self._above[level, below] = parents_of(self._nodes, level, below)
        return self._above[level, below]


def contradictions(nodes: Sequence[LabelledNode], levels: Sequence[str]) -> Iterator[Contradiction]:
    """Yields the nodes that contradict others.

    Nodes contradict each other if they have the same hostname, or if they are in one domain that lies in two: a rack whose
    nodes name two blocks. If most names of a level occur in several wider domains (racks numbered from 1 in each block), that
    is taken to be intended. Of two wider domains that claim a domain, the one with more nodes is right.
    """
    hosts = Counter(node.labels.get(HOSTNAME_LABEL) for node in nodes)
    for node in nodes:
        host = node.labels.get(HOSTNAME_LABEL)
        if HOSTNAME_LABEL in levels and host and hosts[host] > 1 and host != node.name:
            yield Contradiction(
                node.name, HOSTNAME_LABEL, as_value(node.name), f"has the hostname {host}, as another node"
            )
    for wider, level in itertools.pairwise(levels):
        if level != HOSTNAME_LABEL:
            yield from _strays(nodes, wider, level)


def _strays(nodes: Sequence[LabelledNode], wider: str, level: str) -> Iterator[Contradiction]:
    parents = parents_of(nodes, wider, level)
    doubled = {value: counts for value, counts in parents.items() if len(counts) > 1}
    if 2 * len(doubled) > len(parents) and len(parents) > 1:
        return
    largest = {value: _largest(counts) for value, counts in doubled.items()}
    for node in nodes:
        value, parent = node.labels.get(level, ""), node.labels.get(wider, "")
        if value not in doubled or not parent:
            continue
        right, most = largest[value]
        if parent != right and doubled[value][parent] < most:
            what = f"is in {level}={value} with {most} nodes of {wider}={right}, but has {wider}={parent}"
            yield Contradiction(node.name, wider, right, what)


def parents_of(nodes: Sequence[LabelledNode], wider: str, level: str) -> dict[str, Counter[str]]:
    """Returns the domains of the wider level by domain of a level, with their numbers of nodes."""
    parents: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        if (value := node.labels.get(level)) and (parent := node.labels.get(wider)):
            parents[value][parent] += 1
    return dict(parents)


def _largest(counts: Mapping[str, int]) -> tuple[str, int]:
    return min(counts.items(), key=lambda item: (-item[1], item[0]))
