"""The parts of a flavor that determine its tree, and the place of a node in it. Called by tree.py and capacity.py."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from admission.engine.model import HOSTNAME_LABEL, Counting, Flavor, Node

Values = tuple[str, ...]
"""Level values, widest first."""


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
            and all(key in node.labels for key in self.levels)
        )

    def path(self, node: Node) -> Values:
        """Returns the node's level values, widest first."""
        return tuple(node.labels[key] for key in self.levels)

    def row_key(self, node: Node) -> Hashable:
        """Returns the key that the nodes of one counting row share: hostname, node name, or path."""
        if self.by_host:
            return node.labels[HOSTNAME_LABEL]
        return node.name if self.hidden_nodes else self.path(node)
