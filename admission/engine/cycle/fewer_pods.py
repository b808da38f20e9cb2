"""Fewer pods than a workload requests: how many it may give up, and which pod sets give them up. Pure.

A pod set with a `minCount` gives up pods by itself. The pod sets of a gang do so together: its minimum of pods is left, of
whichever roles. Called by nominate.py and, for groups of gangs, gang_fit.py and groups.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from admission.engine.model import PodSet, Workload


def spare_pods(workload: Workload) -> int:
    """Returns the number of pods that the workload may give up."""
    spare = sum(_deltas(workload))
    if workload.gang is None or workload.gang.minimum is None:
        return spare
    return max(0, min(spare, sum(p.count for p in workload.pod_sets) - workload.gang.minimum))


def with_fewer(workload: Workload, less: int) -> Iterator[Workload]:
    """Yields the workload with `less` pods fewer, at most `spare_pods`, in each way that is tried.

    All pod sets give up pods evenly, as in Kueue. A gang of several roles tries each role first, too: perhaps only one of them
    lacks room.
    """
    deltas, total = _deltas(workload), sum(_deltas(workload))
    if workload.gang is None or workload.gang.minimum is None or len(deltas) < 2:
        yield _without(workload, [delta * less // total if total else 0 for delta in deltas])
        return
    roles = range(len(deltas))
    even = [delta * less // total for delta in deltas] if total else [0] * len(deltas)
    for first in (None, *roles):
        cut = even if first is None else [0] * len(deltas)
        for role in sorted(roles, key=lambda role, first=first: role != first):  # type: ignore[misc]
            cut[role] += min(deltas[role] - cut[role], less - sum(cut))
        yield _without(workload, cut)


def fewest(workload: Workload) -> Workload:
    """Returns the workload with the fewest pods that it may start with, given up evenly."""
    spare = spare_pods(workload)
    return next(with_fewer(workload, spare)) if spare else workload


def share_given_up(workload: Workload, part: int, whole: int) -> Workload:
    """Returns the workload without this part of the pods that it may give up, given up evenly."""
    less = spare_pods(workload) * part // whole
    return next(with_fewer(workload, less)) if less else workload


def _deltas(workload: Workload) -> list[int]:
    return [0 if p.min_count is None else max(0, p.count - p.min_count) for p in workload.pod_sets]


def _without(workload: Workload, cut: Sequence[int]) -> Workload:
    pod_sets: tuple[PodSet, ...] = tuple(
        replace(p, count=p.count - less) for p, less in zip(workload.pod_sets, cut, strict=True)
    )
    return replace(workload, pod_sets=pod_sets)
