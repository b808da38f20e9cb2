"""What the pending queues remember of answers given: who was refused, and what besides a snapshot has to keep.

Called by queues.py, which takes it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine.decision import Reason
from admission.engine.queue.lacks import Lack
from admission.engine.queue.line import EqualClass, Line, order_of
from admission.engine.queue.pending import Item


@dataclass(frozen=True, slots=True)
class Memory:
    """By key of workload. `lacks`: what those that were refused wait for; `short`: for want of how much quota those were last
    refused that are to be considered again; `untold`: who never had an answer; `returning`: who waited for victims to leave,
    and was not considered since; `unforeseen`: of whom nobody can tell when they start, so that none of their queue is told.
    """

    lacks: Mapping[str, Lack] = field(default_factory=dict)
    short: Mapping[str, tuple[Reason, Lack]] = field(default_factory=dict)
    untold: frozenset[str] = frozenset()
    returning: frozenset[str] = frozenset()
    unforeseen: frozenset[str] = frozenset()


def refusals(items: Mapping[str, Item], lines: Mapping[str, Line]) -> dict[str, tuple[Reason, float | None]]:
    """Who sleeps, or parks its line: by key, why, and when it is worth another look by itself (epoch seconds)."""
    found = {}
    for key, item in items.items():
        if item.group is not None and (reason := _refusal(item, item.group, lines)) is not None:
            found[key] = (reason, item.group.again)
    return found


def _refusal(item: Item, group: EqualClass, lines: Mapping[str, Line]) -> Reason | None:
    parked = lines[item.workload.cluster_queue].parked
    if parked is not None and parked[0] == order_of(item.workload):
        return parked[1]
    return group.refused


def remembered(items: Mapping[str, Item], lines: Mapping[str, Line]) -> Memory:
    """What is remembered besides."""
    lacks, short, untold = {}, {}, set[str]()
    for key, item in items.items():
        group, line = item.group, lines.get(item.workload.cluster_queue)
        if group is None or line is None:
            continue
        parked = line.parked is not None and line.parked[0][-1] == key
        lack = line.parked_lack if parked else group.lack
        if lack is not None and (parked or group.refused is not None):
            lacks[key] = lack
        elif group.short is not None:
            short[key] = group.short
        if key in group.untold:
            untold.add(key)
    returning = frozenset(key for key, item in items.items() if item.lapsed)
    return Memory(lacks, short, frozenset(untold), returning)
