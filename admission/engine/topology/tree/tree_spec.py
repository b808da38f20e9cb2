"""The parts of a flavor that determine its tree, the place of a node in it, and the names of its levels.

A user may write `rack` for the level `example.com/rack`, or `hostname` for `kubernetes.io/hostname`; `node` also means the
level of single hosts, as in the examples of sakkara.md. A full label key always takes precedence. Names are resolved for each
tree, since one workload may be tried on flavors with different levels.

Called by tree.py and capacity.py, and by constraints.py for the levels of placement constraints (required and preferred levels
are always full keys).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from admission.engine.model import HOSTNAME_LABEL, Counting, Flavor, Node

Values = tuple[str, ...]
"""Level values, widest first."""

NODE = "node"
"""The name of the level of single hosts."""


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """The parts of a flavor that determine its tree: levels and node labels, and the counting mode."""

    levels: tuple[str, ...]
    node_labels: tuple[tuple[str, str], ...]
    counting: Counting

    @classmethod
    def of(cls, flavor: Flavor, counting: Counting) -> TreeSpec | None:
        """Returns the spec of the flavor's tree; None for a flavor without levels."""
        if not flavor.levels:
            return None
        return cls(flavor.levels, tuple(sorted(flavor.node_labels.items())), counting)

    @property
    def by_host(self) -> bool:
        """Reports whether the lowest level is the host."""
        return self.levels[-1] == HOSTNAME_LABEL

    @property
    def hidden_nodes(self) -> bool:
        """Reports whether nodes form a hidden level below the lowest level."""
        return not self.by_host and self.counting is Counting.NODES

    def accepts(self, node: Node | None) -> bool:
        """Reports whether the node is usable and has the flavor's labels and a value for every level."""
        return (
            node is not None
            and node.usable
            and all(node.labels.get(key) == value for key, value in self.node_labels)
            and all(node.labels.get(key) for key in self.levels)
        )

    def path(self, node: Node) -> Values:
        """Returns the node's level values, widest first."""
        return tuple(node.labels[key] for key in self.levels)

    def row_key(self, node: Node) -> Hashable:
        """Returns the key that the nodes of one counting row share: hostname, node name, or path."""
        if self.by_host:
            return node.labels[HOSTNAME_LABEL]
        return node.name if self.hidden_nodes else self.path(node)


def resolve(name: str, levels: Sequence[str]) -> int | str:
    """Returns the index of the named level in `levels` (label keys, widest first), or why the name is unknown or ambiguous."""
    if name in levels:
        return levels.index(name)
    named = [level for level in levels if level.rpartition("/")[2] == name]
    if not named and name == NODE:
        named = [level for level in levels if level == HOSTNAME_LABEL]
    if len(named) == 1:
        return levels.index(named[0])
    if named:
        return f"level {name} could be any of: {', '.join(named)}"
    return f"no level {name}: there are {', '.join(levels)}"
