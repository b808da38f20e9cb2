"""Holds of nodes: a feature keeps nodes for some workloads from one time until another. Their marks on nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

from admission.engine.model.nodes import Node
from admission.engine.model.workloads import PodSet, Workload
from api.pod.pods import Taint

RESERVED_EFFECT: Final = "Reserved"
"""The effect of the taint that marks a held node. The API server knows no such effect, so no node can have it of itself, and no
toleration of a pod covers it."""


@dataclass(frozen=True, slots=True)
class NodeHold(ABC):
    """Nodes that are held from one time until another. A feature says for whom."""

    kind: ClassVar[str]
    """The kind of the object that holds the nodes."""
    noun: ClassVar[str]
    """What messages call it; it has a space, as no part of a taint has."""

    name: str
    labels: Mapping[str, str]
    """The nodes that have all of these are held."""
    start: float
    """Epoch seconds."""
    end: float
    """Epoch seconds."""
    queue: str = ""
    """The ClusterQueue whose quota the nodes are charged to from the start; empty: none."""
    begun: bool = False

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Reports whether a node with these labels is held."""
        return all(labels.get(key) == value for key, value in self.labels.items())

    @property
    def charging(self) -> bool:
        """Reports whether its nodes are charged to a ClusterQueue now."""
        return self.begun and bool(self.queue)

    @property
    def mark(self) -> Taint:
        """The taint that marks its nodes."""
        return Taint(key=self.noun, value=self.name, effect=RESERVED_EFFECT)

    def at(self, now: float) -> Self | None:
        """Returns the hold as it is at `now` (epoch seconds); None if it is over."""
        if self.end <= now:
            return None
        return replace(self, begun=True) if self.start <= now and not self.begun else self

    @abstractmethod
    def usable_by(self, workload: Workload, now: float) -> bool:
        """Reports whether the workload may start on the nodes at `now` (epoch seconds), or stays there if it runs. This only
        shrinks with time until the hold ends, so no wait ends by time alone before that.
        """

    @abstractmethod
    def keeps(self, workload: Workload) -> bool:
        """Reports whether pods of the running workload may be placed on the nodes."""

    @abstractmethod
    def confines(self, workload: Workload, pod_set: PodSet) -> bool:
        """Reports whether these pods are placed on the nodes alone, and so draw on the quota that these are charged."""


def marked(node: Node, holds: Iterable[NodeHold]) -> Node:
    """Returns the node with the marks of those that hold it, and no others."""
    own = tuple(taint for taint in node.taints if taint.effect != RESERVED_EFFECT)
    marks = tuple(hold.mark for hold in holds if hold.holds(node.labels))
    return node if node.taints == own + marks else replace(node, taints=own + marks)
