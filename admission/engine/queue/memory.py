"""The results of earlier evaluations that a snapshot has to keep: refusals, queueing hints, what was never evaluated.

Called by queues.py, whose `restore` restores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine.queue.cluster_queue import EquivalenceClass, QueueLine, order_of
from admission.engine.queue.pending import PendingWorkload
from admission.engine.queue.queueing_hints import QueueingHint
from admission.engine.reasons import ReasonCode


@dataclass(frozen=True, slots=True)
class QueueMemory:
    """What was decided of workloads, by their keys."""

    hints: Mapping[str, QueueingHint] = field(default_factory=dict)
    """Queueing hints of inadmissible workloads."""
    short: Mapping[str, tuple[ReasonCode, QueueingHint]] = field(default_factory=dict)
    """Reason and hint of active workloads that were last refused for quota alone."""
    unevaluated: frozenset[str] = frozenset()
    """Workloads that were never evaluated."""
    returning: frozenset[str] = frozenset()
    """Workloads whose capacity reservation ended and that were not evaluated since."""
    unforeseen: frozenset[str] = frozenset()
    """Heads whose start is unknown."""
    blocking: frozenset[str] = frozenset()
    """Refused heads of StrictFIFO queues that nothing passes."""


def refusals(
    items: Mapping[str, PendingWorkload], lines: Mapping[str, QueueLine]
) -> dict[str, tuple[ReasonCode, float | None]]:
    """Returns the inadmissible workloads by key: the reason, and when time alone requeues them (epoch seconds)."""
    refused = {}
    for key, item in items.items():
        if item.group is not None and (reason := _refusal(item, item.group, lines)) is not None:
            refused[key] = (reason, item.group.again)
    return refused


def _refusal(item: PendingWorkload, group: EquivalenceClass, lines: Mapping[str, QueueLine]) -> ReasonCode | None:
    inadmissible_head = lines[item.workload.cluster_queue].inadmissible_head
    if inadmissible_head is not None and inadmissible_head[0] == order_of(item.workload):
        return inadmissible_head[1]
    return group.refused


def remembered(items: Mapping[str, PendingWorkload], lines: Mapping[str, QueueLine]) -> QueueMemory:
    """Everything a snapshot keeps except `refusals`."""
    hints, short, unevaluated, blocking = {}, {}, set[str](), set[str]()
    for key, item in items.items():
        group, line = item.group, lines.get(item.workload.cluster_queue)
        if group is None or line is None:
            continue
        inadmissible_head = line.inadmissible_head is not None and line.inadmissible_head[0][-1] == key
        if inadmissible_head:
            blocking.add(key)
        hint = line.inadmissible_head_hint if inadmissible_head else group.hint
        if hint is not None and (inadmissible_head or group.refused is not None):
            hints[key] = hint
        elif group.short is not None:
            short[key] = group.short
        if key in group.unevaluated:
            unevaluated.add(key)
    returning = frozenset(key for key, item in items.items() if item.lapsed)
    return QueueMemory(hints, short, frozenset(unevaluated), returning, blocking=frozenset(blocking))
