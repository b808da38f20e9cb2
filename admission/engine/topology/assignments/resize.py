"""A job that grows or shrinks while it runs keeps the assignment of its older slice: placement.md 5.11.

The pods of the older slice keep running, so they are not placed again. When the job grows, only the additional pods are
placed (and a leader, if there was none), while the kept pods count as usage. When it shrinks, pods are dropped from the
end of the assignment. If the tree no longer has a domain of the older slice, the whole group is placed again. A required
level holds for old and new pods together. Dropping pods ignores placement slices, so only an unconstrained job may shrink
(the webhook ensures that).

This module separates the pods that stay from those still to be placed; place_group.py places the latter. The caller has
released the older slice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from admission.engine.model import Assignment, PlacementRequest
from admission.engine.topology.assignments.assignment_parts import first_pods, stale, total
from admission.engine.topology.constraints import Group
from admission.engine.topology.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class Resize:
    """The kept assignment of each pod set, and the group still to be placed (None if every pod is kept)."""

    kept: tuple[tuple[PlacementRequest, Assignment], ...]
    rest: Group | None


def resize(tree: Tree, group: Group) -> Resize | None:
    """Returns the split of the group into kept and new pods; None if the whole group must be placed.

    That is so if there is no older slice, or if the tree no longer has one of its domains.
    """
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
