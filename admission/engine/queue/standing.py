"""How many of a queue's pending workloads are active and how many are not, in figures. For metrics; decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from admission.engine.model import Workload
from admission.engine.queue.line import Line


@dataclass(frozen=True, slots=True)
class Standing:
    """Workloads, and kinds of equal ones. Inadmissible are those that sleep, are blocked or wait for a backoff to end.

    `requested`: what all that stand in line ask for, by resource (base units).
    """

    active: int = 0
    inadmissible: int = 0
    active_classes: int = 0
    inadmissible_classes: int = 0
    requested: Mapping[str, int] = field(default_factory=dict)


def standing(line: Line, total: int, promised: int, find: Callable[[str], Workload]) -> Standing:
    """Of a line; `total` of its queue pend, and `promised` of those wait for their victims to leave."""
    classes = list(line.classes.values())
    asleep = [group for group in classes if group.refused is not None]
    active = sum(len(group.members) for group in classes) - sum(len(group.members) for group in asleep) + promised
    requested: Counter[str] = Counter()
    for group in classes:
        one = find(next(iter(group.members)))  # they all ask for the same
        for pod_set in one.pod_sets:
            for resource, amount in pod_set.requests.items():
                requested[resource] += amount * pod_set.count * len(group.members)
    return Standing(active, total - active, len(classes) - len(asleep), len(asleep), requested)
