"""All groups of a workload by trying everything: an independent answer for small clusters.

Goes from group to group over all states of what is free (by host), keeping the fewest domains opened so far for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Free = tuple[tuple[int, ...], ...]
"""By host: cpus, gpus."""
Need = tuple[int, ...]


@dataclass(frozen=True)
class BruteRequest:
    """Pods of one pod set: `count` of `need` each; `slices`: (level, size); `even`: only on hosts with an even index."""

    count: int
    need: Need
    slices: tuple[int, int] | None = None
    even: bool = False


@dataclass(frozen=True)
class BruteGang:
    """Pod sets that share one level: in one domain of it if `required`."""

    level: int
    required: bool
    members: tuple[BruteRequest, ...]


def fewest(paths: Sequence[tuple[str, ...]], free: Free, gangs: Sequence[BruteGang]) -> int | None:
    """The fewest domains of the asked levels that hold all gangs, summed; None where nothing holds them."""
    states: dict[Free, int] = {free: 0}
    for gang in gangs:
        after: dict[Free, int] = {}
        for state, cost in states.items():
            for left, opened in _placed(paths, state, gang):
                after[left] = min(after.get(left, 1 << 30), cost + opened)
        states = after
    return min(states.values(), default=None)


def _placed(paths: Sequence[tuple[str, ...]], free: Free, gang: BruteGang) -> Iterator[tuple[Free, int]]:
    """Every way to place the gang: what is left, and how many domains it opens."""
    states: set[tuple[Free, frozenset[tuple[str, ...]]]] = {(free, frozenset())}
    for member in gang.members:
        after = set()
        for state, opened in states:
            most = [0 if member.even and i % 2 else _fits(host, member.need) for i, host in enumerate(state)]
            for counts in _spread(member.count, most):
                if not _sliced(paths, counts, member.slices):
                    continue
                used = opened | {path[: gang.level + 1] for path, count in zip(paths, counts, strict=True) if count}
                if gang.required and len(used) > 1:
                    continue
                left = tuple(
                    tuple(have - count * want for have, want in zip(host, member.need, strict=True))
                    for host, count in zip(state, counts, strict=True)
                )
                after.add((left, used))
        states = after
    yield from ((state, len(opened)) for state, opened in states)


def _fits(host: Sequence[int], need: Need) -> int:
    return min(have // want for have, want in zip(host, need, strict=True) if want)


def _spread(count: int, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not most:
        if not count:
            yield ()
        return
    for here in range(min(count, most[0]) + 1):
        for rest in _spread(count - here, most[1:]):
            yield (here, *rest)


def _sliced(paths: Sequence[tuple[str, ...]], counts: Sequence[int], slices: tuple[int, int] | None) -> bool:
    if slices is None:
        return True
    level, size = slices
    totals: dict[tuple[str, ...], int] = {}
    for path, count in zip(paths, counts, strict=True):
        totals[path[: level + 1]] = totals.get(path[: level + 1], 0) + count
    return all(total % size == 0 for total in totals.values())


def racks_hold(capacities: Sequence[int], demands: Sequence[int]) -> bool:
    """Whether each demand finds a rack, none over its capacity: which sets of demands the racks seen so far can hold."""
    sums = [sum(d for i, d in enumerate(demands) if mask >> i & 1) for mask in range(1 << len(demands))]
    reached = {0}
    for capacity in capacities:
        fitting = [mask for mask, total in enumerate(sums) if total <= capacity]
        reached |= {have | mask for have in reached for mask in fitting if not have & mask}
    return len(sums) - 1 in reached


def over(free: Mapping[str, Mapping[str, int]], taken: Mapping[tuple[str, str], int]) -> list[str]:
    """Hosts that hold more than they have."""
    return [f"{host} {resource}" for (host, resource), amount in taken.items() if amount > free[host].get(resource, 0)]
