"""Finds the spare hosts of a flavor: idle hosts in each domain of a level, as many as its rule says (model.SpareRule).

Called by cycle/flavor_spares.py, which holds them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from admission.engine.model import Amounts, SpareRule
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values


@dataclass(frozen=True, slots=True)
class FlavorSpares:
    """The spare hosts of one flavor. `held` has the hosts by domain, in order of path.

    `wanted_of` is how many the rule says for each domain; `nodes`, how many hosts the flavor had then, and `generation`, the
    ledger's: when it has grown, a host may be in another domain now, and while there are too few, hosts are looked for again.
    """

    rule: SpareRule
    held: dict[Values, tuple[str, ...]]
    wanted_of: dict[Values, int]
    nodes: int
    generation: int

    @property
    def wanted(self) -> int:
        """How many hosts the rule says."""
        return sum(self.wanted_of.values())

    def hosts(self) -> set[str]:
        """Returns the names of the held hosts."""
        return {host for hosts in self.held.values() for host in hosts}

    @property
    def count(self) -> int:
        """The number of held hosts."""
        return sum(map(len, self.held.values()))


def wanted(tree: Tree, rule: SpareRule) -> dict[Values, int]:
    """Returns the number of spare hosts of each domain that has some, by path."""
    level = tree.level_of(rule.level)
    if level is None or not tree.shape.by_host:
        return {}
    above = _domain_of_hosts(tree, level)[tree.levels[-1].alive]
    numbers = np.bincount(above, minlength=tree.levels[level].size) // rule.of * rule.hosts
    paths = tree.levels[level].paths
    return {paths[slot]: int(numbers[slot]) for slot in tree.levels[level].in_order(np.flatnonzero(numbers).tolist())}


def idle_hosts(tree: Tree, rule: SpareRule, domains: Collection[Values]) -> dict[Values, list[str]]:
    """Returns by domain the hosts on which no admitted workload uses anything, by name. O(hosts), for all domains together."""
    level = tree.level_of(rule.level)
    found: dict[Values, list[str]] = {domain: [] for domain in domains}
    if level is None or not domains:
        return found
    slots = {slot: domain for domain in domains if (slot := tree.levels[level].slots.get(domain)) is not None}
    above = _domain_of_hosts(tree, level)
    for host in tree.levels[-1].in_order(np.flatnonzero(tree.idle() & np.isin(above, list(slots))).tolist()):
        found[slots[int(above[host])]].append(tree.values(host)[-1])
    return found


def domain_of(tree: Tree, rule: SpareRule, host: str) -> Values | None:
    """Returns the domain of the rule's level in which the host is, or None if the tree has no such host."""
    row, level = tree.row_of_host.get(host), tree.level_of(rule.level)
    return None if row is None or level is None else tree.levels[-1].paths[row][: level + 1]


def free_amounts(tree: Tree, host: str) -> Amounts:
    """Returns what is free on the host, by resource; without pod slots and exclusive names."""
    row, columns = tree.row_of_host[host], tree.columns
    found = {
        name: tree.free_at(row, column) for column, name in enumerate(columns.names) if column not in columns.exclusive
    }
    return {name: amount for name, amount in found.items() if amount > 0 and name != "pods"}


def _domain_of_hosts(tree: Tree, level: int) -> Ints:
    """Returns for each host's slot the slot of its domain at that level."""
    above = np.arange(tree.levels[-1].size, dtype=np.int64)
    for lower in range(tree.depth - 1, level, -1):
        above = tree.levels[lower].parent[above]
    return above
