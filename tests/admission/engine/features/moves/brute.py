"""The cheapest moves by trying every set of movers and every place of each, for clusters of few hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

from admission.engine.preemption.cost import FREE
from tests.admission.engine.features.moves.clusters import Running

Free = dict[str, int]


def cheapest(
    runs: Mapping[str, Running],
    costs: Mapping[str, int],
    racks: Mapping[str, str],
    cpus: int,
    pods: int,
    each: int,
    slices_of: int = 0,
) -> tuple[int, int] | None:
    """The least (cost, number of moves) with which `pods` of `each` cpu fit into one rack; None if no moves do it.

    `racks` has the rack of each host of `cpus`; `costs`, the cost of each workload that may be moved. `slices_of`: the gang may
    be in several racks, with slices of so many pods, each within one.
    """
    free = dict.fromkeys(racks, cpus)
    for one in runs.values():
        for host, count in one.hosts.items():
            free[host] -= count * one.cpus
    sets = (chosen for size in range(len(costs) + 1) for chosen in combinations(sorted(costs), size))
    for chosen in sorted(sets, key=lambda chosen: (sum(map(costs.__getitem__, chosen)), len(chosen))):
        beside = _with_gang(runs, chosen, free, racks, pods, each, slices_of)
        if any(_all_placed(runs, chosen, rest) for rest in beside):
            return sum(map(costs.__getitem__, chosen)), len(chosen)
    return None


def best_of_both(
    runs: Mapping[str, Running],
    movable: Mapping[str, int],
    evictable: Mapping[str, int],
    racks: Mapping[str, str],
    cpus: int,
    pods: int,
    each: int,
) -> tuple[int, ...] | None:
    """The least figures (see moves/blockers.py) with which the gang fits if workloads move or are evicted; None without any.

    `movable` and `evictable` have the cost of each.
    """
    free = dict.fromkeys(racks, cpus)
    for one in runs.values():
        for host, count in one.hosts.items():
            free[host] -= count * one.cpus
    keys = sorted({*movable, *evictable})
    best = None
    for ways in product(*(("stays", *(["moves"] * (k in movable)), *(["evicted"] * (k in evictable))) for k in keys)):
        moves = [key for key, way in zip(keys, ways, strict=True) if way == "moves"]
        out = [key for key, way in zip(keys, ways, strict=True) if way == "evicted"]
        levels = [runs[key].priority for key in out]
        top = max(levels, default=FREE.top)
        lost = sum(movable[key] for key in moves) + sum(evictable[key] for key in out)
        figures = (top, levels.count(top), len(out), sum(levels), lost, len(moves))
        if best is not None and figures >= best:
            continue
        if any(_all_placed(runs, moves, rest) for rest in _with_gang(runs, [*moves, *out], free, racks, pods, each)):
            best = figures
    return best


def _with_gang(
    runs: Mapping[str, Running],
    chosen: Sequence[str],
    free: Free,
    racks: Mapping[str, str],
    pods: int,
    each: int,
    slices_of: int = 0,
) -> Iterator[Free]:
    """What is free for movers beside each place that the gang can get once the chosen have left theirs."""
    later = dict(free)
    for key in chosen:
        for host, count in runs[key].hosts.items():
            later[host] += count * runs[key].cpus
    for rack in [""] if slices_of else sorted(set(racks.values())):
        hosts = [host for host in racks if not rack or racks[host] == rack]
        for counts in _spread(pods, [later[host] // each for host in hosts]):
            if slices_of and not _in_slices(zip(hosts, counts, strict=True), racks, slices_of):
                continue
            rest = {host: later[host] - n * each for host, n in zip(hosts, counts, strict=True)}
            yield {host: min(free[host], rest.get(host, free[host])) for host in free}


def _in_slices(pods: Iterable[tuple[str, int]], racks: Mapping[str, str], slices_of: int) -> bool:
    in_rack = Counter[str]()
    for host, count in pods:
        in_rack[racks[host]] += count
    return not any(count % slices_of for count in in_rack.values())


def _all_placed(runs: Mapping[str, Running], chosen: Sequence[str], free: Free) -> bool:
    if not chosen:
        return True
    one, hosts = runs[chosen[0]], list(free)
    most = [max(0, free[host]) // one.cpus for host in hosts]
    return any(
        _all_placed(runs, chosen[1:], {host: free[host] - n * one.cpus for host, n in zip(hosts, counts, strict=True)})
        for counts in _spread(sum(one.hosts.values()), most)
    )


def _spread(pods: int, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not most:
        if not pods:
            yield ()
        return
    for count in range(min(pods, most[0]), -1, -1):
        for rest in _spread(pods - count, most[1:]):
            yield (count, *rest)
