"""Topology requests of pod sets and their results: levels, slices, constraints, assignments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from admission.engine.model.level_rule import LevelConstraint

AUTO_LEVEL = "auto"
"""As the level of a preferred request, the lowest level of the flavor's topology."""


@dataclass(frozen=True, slots=True)
class SliceLayer:
    """A slice layer: every `size` consecutive pods share one domain of `level`."""

    level: str
    size: int


class Profile(StrEnum):
    """How domains are chosen among several possibilities.

    Exact finds a proved optimum (topology/exact). Compatible gives Kueue's answer exactly. LeastFree is like
    Compatible, but prefers domains with little free capacity for all requests.
    """

    EXACT = "Exact"
    COMPATIBLE = "Compatible"
    LEAST_FREE = "LeastFree"


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """A pod set's topology request. At most one of required, preferred, unconstrained applies, in that order."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    group: str | None = None
    slices: tuple[SliceLayer, ...] = ()
    slice_topology_only: bool = False
    explicit: bool = True
    """False if only an index label was recorded: then topology applies only if the queue implies it."""
    constraints: tuple[LevelConstraint, ...] = ()
    """They apply inside the domain to which the request is bound."""
    relax_after: int | None = None
    """The seconds after which a required level widens by one level, finally becoming preferred; None for never."""
    near: tuple[str, ...] | None = None
    """The full path (level values, widest first) of a node whose domain of the required level must hold the pods; None for any
    domain."""
    spare_hosts: int = 0
    """The number of hosts to hold free for pods whose host fails."""

    @property
    def asks_beside(self) -> bool:
        """Whether capacity beside the pods is to be held."""
        return self.spare_hosts > 0

    def following(self, near: tuple[str, ...] | None) -> TopologyRequest:
        """Returns the request of pods that follow others to the domain of a node: what is held beside those is enough."""
        return replace(self, near=near, spare_hosts=0)


@dataclass(frozen=True, slots=True)
class DomainCount:
    """`count` pods in the domain with these level values, widest first; only the hostname in host topologies."""

    values: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """A pod set's domains, in the order in which the ungater assigns ranks."""

    levels: tuple[str, ...]
    domains: tuple[DomainCount, ...]
