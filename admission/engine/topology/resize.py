"""A job that grows or shrinks keeps the places of its older slice: placement.md 5.11.

The older slice's pods keep running, so what stays is never placed again. Growing: only the additional pods are searched
for (and a leader, if there was none), while what stays counts as occupied. Shrinking: pods are dropped from the end of
the list. Same size: nothing moves. If a place of the older slice is gone (of workers or leader), the whole group is
placed again. Required levels hold for old and new pods together. Slices are not considered when pods are dropped, so
only an unconstrained job may shrink (the webhook ensures that).

This module says what stays and what is still to be placed; place.py places it. The caller has released the older slice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from admission.engine.model import Assignment, PlacementRequest
from admission.engine.topology.assignment_parts import first_pods, stale, total
from admission.engine.topology.constraints import Group
from admission.engine.topology.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class Resize:
    """What stays, by pod set, and the group that is still to be placed; None if nothing is."""

    kept: tuple[tuple[PlacementRequest, Assignment], ...]
    rest: Group | None


def resize(tree: Tree, group: Group) -> Resize | None:
    """Returns what an older slice leaves to place; None if the whole group is placed again."""
    before = group.workers.previous
    if before is None or any(stale(tree, member.previous) for member in group.members if member.previous is not None):
        return None
    kept = [(group.workers, first_pods(before, group.workers.count))]
    leader = group.leader
    if leader is not None and leader.previous is not None:
        kept.append((leader, leader.previous))
        leader = None
    return Resize(tuple(kept), _rest(group.workers, group.workers.count - total(before), leader))


def _rest(workers: PlacementRequest, more: int, leader: PlacementRequest | None) -> Group | None:
    if more > 0:
        return Group(replace(workers, count=more), leader)
    return None if leader is None else Group(leader)
