"""Placement requests and the options of placement."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from admission.engine.model.topology import Assignment, Profile
from admission.engine.model.workloads import PodSet
from api.pod.pod_terms import PodFacts


class Counting(StrEnum):
    """Where pods are counted if the lowest level is wider than a host.

    Nodes counts on each node, with its taints and labels: a rack of two nodes with 3 free GPUs each holds no pod of 4 GPUs.
    Domains counts on the domain's sum, ignoring taints and selectors, as Kueue does; the conformance cases use it.
    """

    NODES = "Nodes"
    DOMAINS = "Domains"


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """Kueue's feature gates for placement and their defaults (quirks A.2), and Stowage's own options, which are the first
    three.
    """

    counting: Counting = Counting.NODES
    profile: Profile = Profile.EXACT
    exact_budget: int = 20_000
    """Bounds the exact solvers by the number of search nodes instead of time, so that the same input always gives the same
    answer; at least 1."""
    least_free_for_unconstrained: bool = True  # TASProfileMixed
    balanced: bool = False  # TASBalancedPlacement
    multi_layer: bool = True  # TASMultiLayerTopology
    respect_preferred_affinity: bool = False  # TASRespectNodeAffinityPreferred
    overlapping_flavors: bool = True  # TASHandleOverlappingFlavors
    leader_constraints: bool = True  # a leader's own selectors and tolerations apply, not only its workers'


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """One pod set to place on the nodes of one flavor."""

    pod_set: PodSet
    flavor: str
    count: int
    implied: bool = False
    """Whether the queue, not the user, requests topology."""
    previous: Assignment | None = None
    """Its present assignment: of the older slice (to place) or of this workload (to replace a node)."""
    profile: Profile | None = None
    """The workload's or its queue's own; None for that of the options."""
    facts: PodFacts | None = None
    """What terms of other pods see of its pods."""
    most_per_host: int = 0
    """Limits its pods on each host, so that less is held beside them; 0 for no limit."""

    @property
    def asks_beside(self) -> bool:
        """Whether capacity beside its pods is to be held."""
        return self.pod_set.topology is not None and self.pod_set.topology.asks_beside
