"""Queueing hints: which change can make an inadmissible workload admissible. Only such a change requeues it.

A flavor search fails when every flavor of some resource group fails (flavors/search.py). The same search fails again until one
of these flavors has enough free quota, or, where its nodes were too full, more free capacity. Other changes cannot help. The
usage of the workload's own earlier pod sets counts too, so a hint considers only the first group of pod sets. A workload that
can start with fewer pods gets no hint.

In a queue that may preempt, a change of usage in the cohort tree can help too, since it can create victims. It cannot help
while quota would still be short after evicting every eligible victim:

    reclaimable_bound(queue, flavor and resource, priority) < needed        (preemption/reclaimable.py)

The bound depends on the priority of the workload, so the hint stores the priority.

cycle/heads/head_hints.py makes hints; cluster_queue.py stores them with the equivalence class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from admission.engine.flavors.assign import Attempt, FlavorAssignment, Mode
from admission.engine.model import ClusterQueue, FlavorResource
from admission.engine.reasons import Reason

Free = Callable[[FlavorResource, int | None], int]
"""Free quota of a queue in base units. With a priority: at most, after evicting every victim eligible for that priority."""

FreeOf = Callable[[str, FlavorResource, int | None], int]
"""`Free` for the queue of this name."""

_PERMANENT = (Reason.NO_MATCHING_FLAVOR, Reason.EXCEEDS_MAX_QUOTA)


@dataclass(frozen=True, slots=True)
class QueueingHint:
    """What has to change before an inadmissible workload is evaluated again. If both amounts and flavors are empty, only a
    change of the queue, its cohort or a flavor helps, which requeues every workload anyway.
    """

    quota: tuple[tuple[FlavorResource, int], ...] | None = None
    """One of these amounts (base units) must be free for the queue; None: any change in the cohort tree may help."""
    capacity: frozenset[str] | None = None
    """One of these flavors must gain capacity on its nodes; None: any flavor."""
    priority: int | None = None
    """Set for a workload that may preempt; passed to `Free`."""

    def satisfied_by(self, free: Free) -> bool:
        """Reports whether the free quota of the queue may be enough."""
        if self.quota is None:
            return True
        for fr, amount in self.quota:  # noqa: SIM110 - each cycle of a full cluster asks this for every class
            if free(fr, self.priority) >= amount:
                return True
        return False


NOTHING_HELPS = QueueingHint((), frozenset())
USAGE_MAY_HELP = QueueingHint(None, frozenset())


def queueing_hint_of_preemptor(queue: ClusterQueue, flavors: FlavorAssignment, priority: int) -> QueueingHint | None:
    """Returns the hint for a workload of this priority in a queue that may preempt; None: any change may help, or nodes are too
    full.

    The quota is necessary but not sufficient: there must also be victims that free it.
    """
    hint = queueing_hint(queue, flavors)
    return None if hint is None or hint.capacity else replace(hint, priority=priority)


def queueing_hint(queue: ClusterQueue, flavors: FlavorAssignment) -> QueueingHint | None:
    """Returns the hint for a failed search in a queue that never preempts; None: any change may help."""
    first = next(iter(flavors.pod_sets), None)
    if first is None or first.mode is Mode.FIT or first.error is not None:
        return None
    if not first.attempts:
        return NOTHING_HELPS if first.reason is Reason.NO_MATCHING_FLAVOR else None
    for group in _failed_groups(queue, first.attempts):
        return _hint_of_attempts(group)
    return None


def _failed_groups(queue: ClusterQueue, attempts: Sequence[Attempt]) -> Iterator[list[Attempt]]:
    """Yields the attempts of each resource group in which every flavor failed."""
    for group in queue.groups:
        names = {quotas.flavor for quotas in group.flavors}
        own = [attempt for attempt in attempts if attempt.flavor in names]
        if len(own) == len(names) and all(attempt.mode < Mode.FIT for attempt in own):
            yield own


def _hint_of_attempts(attempts: Sequence[Attempt]) -> QueueingHint | None:
    quota: list[tuple[FlavorResource, int]] = []
    capacity: set[str] = set()
    for attempt in attempts:
        if attempt.reason is Reason.TOPOLOGY_PLACEMENT_FAILED:
            capacity.add(attempt.flavor)
        elif attempt.needed_quota is not None and attempt.reason is Reason.WAITING_FOR_QUOTA:
            quota.append(attempt.needed_quota)
        elif attempt.reason not in _PERMANENT:
            return None
    return QueueingHint(tuple(quota), frozenset(capacity))
