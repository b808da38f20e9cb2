"""Counts of a queue's active and inadmissible workloads, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import QueueLine


@dataclass(frozen=True, slots=True)
class PendingCounts:
    """Numbers of workloads and of equivalence classes. Inadmissible includes blocked workloads and those in backoff.

    `requested`: the total requests of all workloads in the line, by resource (base units).
    """

    active: int = 0
    inadmissible: int = 0
    active_classes: int = 0
    inadmissible_classes: int = 0
    requested: Mapping[str, int] = field(default_factory=dict)


def pending_counts(line: QueueLine, total: int, reserved: int, find: Callable[[str], Workload]) -> PendingCounts:
    """Returns the counts of a line. `total` is the number of all pending workloads of the queue, `reserved` of those
    that wait for their victims.
    """
    classes = list(line.classes.values())
    inadmissible = [group for group in classes if group.refused is not None]
    active = sum(len(group.members) for group in classes) - sum(len(group.members) for group in inadmissible) + reserved
    requested: Counter[str] = Counter()
    for group in classes:
        one = find(next(iter(group.members)))  # all members have the same requests
        for pod_set in one.pod_sets:
            for resource, amount in pod_set.requests.items():
                requested[resource] += amount * pod_set.count * len(group.members)
    return PendingCounts(active, total - active, len(classes) - len(inadmissible), len(inadmissible), requested)
