"""Searches a minimal set of admitted workloads whose end would admit the workload.

remedies.py calls it. It is unknown when workloads end, so "soonest" is taken as "fewest". Candidates are removed one after the
other until the workload fits, once starting with the largest users and once with the smallest; then each candidate that is not
needed is kept, the largest first. Candidates are the workloads that use the quota in question, or that run in the same one of
the domains that would suffice if empty. Among all sets found the one with the fewest members wins, then the one that uses
least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from admission.engine.explain.changes import Finish
from admission.engine.explain.flavor_capacity import FlavorCapacity
from admission.engine.explain.quotas import RelatedQueues
from admission.engine.explain.trials import Trials
from admission.engine.model import FlavorResource
from admission.engine.topology.constraints import Group, ResolvedRequest
from admission.engine.topology.count import Counter, rows_below

DOMAINS = 3
"""The number of domains of a flavor that are examined."""

MEMBERS = 32
"""A larger set is not proposed."""


@dataclass(frozen=True, slots=True)
class UnplacedGroup:
    """A group that was not placed on a flavor's nodes."""

    capacity: FlavorCapacity
    group: Group
    resolved: ResolvedRequest


Weights = Mapping[str, int]
"""How much each workload uses, comparable only within one set of candidates."""


def finishing(
    trials: Trials, unplaced_groups: Sequence[UnplacedGroup], related: RelatedQueues, short: Sequence[FlavorResource]
) -> Finish | None:
    """Returns the smallest set of workloads found whose end admits the workload, or None.

    `short` holds the quotas that do not suffice; `related`, the queues that share them.
    """
    holders = _holders(related, short)
    sets: list[tuple[int, int, tuple[str, ...]]] = []
    for first, others in _candidates(unplaced_groups, holders):
        weights = {**others, **first}
        then = _largest_first({key: weights[key] for key in others.keys() - first.keys()})
        for ordered in (_largest_first(first), _smallest_first(first)):
            chosen = _least(trials, [*ordered, *then], weights, min(sets)[0] if sets else MEMBERS)
            if chosen and len(chosen) == 1:
                chosen = _smallest_sufficient(trials, _smallest_first(weights), chosen[0])
            if chosen:
                sets.append((len(chosen), sum(weights[key] for key in chosen), tuple(sorted(chosen))))
    return Finish(min(sets)[2]) if sets else None


def _largest_first(weights: Weights) -> list[str]:
    return sorted(weights, key=lambda key: (-weights[key], key))


def _smallest_first(weights: Weights) -> list[str]:
    return sorted(weights, key=lambda key: (weights[key], key))


def _smallest_sufficient(trials: Trials, ordered: Sequence[str], alone: str) -> list[str]:
    """Returns the smallest user that suffices alone, like `alone`, by bisection that assumes larger users suffice too."""
    low, high = -1, ordered.index(alone)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if trials.admits(Finish((ordered[middle],))) else (middle, high)
    return [ordered[high]]


def _holders(related: RelatedQueues, short: Sequence[FlavorResource]) -> Weights:
    """Returns the workloads that use the quotas, at most `MEMBERS` of those with equal usage."""
    holders: dict[int, list[str]] = {}
    for name, amount in related.users_of(short).items():
        holders.setdefault(amount, []).append(name)
    return {name: amount for amount, names in holders.items() for name in nsmallest(MEMBERS, names)}


def _candidates(unplaced_groups: Sequence[UnplacedGroup], holders: Weights) -> Iterator[tuple[Weights, Weights]]:
    """Yields sets of candidates: those to remove first, and others that use the quota or nodes there."""
    if holders:
        yield holders, {}
    for unplaced in unplaced_groups:
        for weights in _by_domain(unplaced):
            if weights:
                yield weights, holders


def _by_domain(unplaced: UnplacedGroup) -> Iterator[Weights]:
    """Yields weights for each domain that would suffice if empty, best domain first: how many pods' worth each workload
    uses."""
    tree, resolved, capacity = unplaced.capacity.tree, unplaced.resolved, unplaced.capacity
    level = resolved.level if resolved.required else 0
    now = Counter(tree, resolved).levels()[level]
    empty = capacity.counts(resolved, level, Counter(tree, resolved, simulate_empty=True).levels()[level])
    need = (
        resolved.need
        if resolved.slice_size > 1 and level <= resolved.slice_level
        else resolved.need * resolved.slice_size
    )
    best = capacity.best(resolved, level, now)
    whole = [slot for slot in best if empty[slot] >= need][:DOMAINS]
    for slot in whole:
        yield _worth(unplaced, capacity, level, [slot])
    if not whole and not resolved.required:
        yield _worth(unplaced, capacity, level, best)


def _worth(unplaced: UnplacedGroup, capacity: FlavorCapacity, level: int, slots: Sequence[int]) -> Weights:
    rows = rows_below(capacity.tree, level, slots) & capacity.usable(unplaced.resolved)
    request = {
        capacity.tree.columns.of(name): amount for name, amount in unplaced.resolved.request.items() if amount > 0
    }
    return {
        key: max(amounts.get(column, 0) * 1000 // amount for column, amount in request.items())
        for key, amounts in capacity.takers.amounts(rows).items()
    }


def _least(trials: Trials, ordered: Sequence[str], weights: Weights, limit: int) -> list[str] | None:
    """Returns a minimal subset of the shortest sufficient prefix, of at most `limit` workloads, or None."""
    most = min(limit, len(ordered))
    low, high = 0, min(1, most)
    while high and not trials.admits(Finish(tuple(ordered[:high]))):
        if high == most:
            return None
        low, high = high, min(most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if trials.admits(Finish(tuple(ordered[:middle]))) else (middle, high)
    chosen = list(ordered[:high])
    for key in _largest_first({key: weights[key] for key in chosen}):
        rest = [other for other in chosen if other != key]
        if rest and trials.admits(Finish(tuple(rest))):
            chosen = rest
    return chosen
