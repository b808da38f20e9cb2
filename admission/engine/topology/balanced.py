"""Balanced placement: equal shares of as few domains as possible (placement.md 5.12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from admission.engine.topology.constraints import Ask
from admission.engine.topology.level import Ints
from admission.engine.topology.pick import Dom, Profile
from admission.engine.topology.tree import Tree


@dataclass(frozen=True, slots=True)
class Start:
    """Where the descent begins."""

    level: int
    doms: list[Dom]


def find(tree: Tree, ask: Ask, profile: Profile, doms: Callable[[int, Ints], list[Dom]]) -> Start | None:
    """The domains with their shares; None: BestFit is to be tried."""
    return None
