"""Sets of movers for a gang whose slices must each stay in one part of a domain, such as in a rack of a block.

Enough room in the whole domain is not enough there: it must be in few parts. So the work that any set loses is
bounded by parts: a mover's loss is divided among the parts in proportion to what it frees there, and the cheapest parts are
taken. The same figures give a first set to try, without which the search would go through sets that leave every part in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from admission.engine.features.moves.movers import Mover
from admission.engine.topology.evictions.eviction_gains import CandidateDomain, SliceCounts

Wanted = Mapping[int, int]
"""The number of slices in each part."""


def lacks_slices(domain: CandidateDomain) -> bool:
    """Reports whether the gang's slices have no room by count."""
    return domain.slices is not None and domain.slices.missing > 0


def least_loss(slices: SliceCounts, movers: Iterable[Mover]) -> int | None:
    """Returns a lower bound of the work (device-seconds) lost to make room for the slices; None if no movers can."""
    parts = _cheapest_parts(slices, movers, ())
    return None if parts is None else parts[0]


def first_set(domain: CandidateDomain, movers: Sequence[Mover], without: Collection[int]) -> tuple[Mover, ...]:
    """Returns movers that make room for the slices by leaving, none of them needless; empty if none were found.

    No mover is counted as gone before and afterwards. The parts in `without` are left as they are.
    """
    slices = domain.slices
    parts = None if slices is None else _cheapest_parts(slices, movers, without)
    if slices is None or parts is None:
        return ()
    chosen: dict[str, Mover] = {}
    for part, wanted in sorted(parts[1].items()):
        for mover in _by_ratio(slices, movers, part):
            if slices.holds[part] >= wanted * slices.size:
                break
            if mover.key not in chosen:
                chosen[mover.key] = mover
                domain.evict(mover.key)
    for mover in sorted(chosen.values(), key=lambda mover: (-mover.weight, mover.key)):
        domain.bring_back(mover.key)
        if lacks_slices(domain) or domain.missing:
            domain.evict(mover.key)
        else:
            del chosen[mover.key]
    enough = not lacks_slices(domain) and not domain.missing
    for key in chosen:
        domain.bring_back(key)
    return tuple(sorted(chosen.values(), key=lambda mover: mover.key)) if enough else ()


def _by_ratio(slices: SliceCounts, movers: Iterable[Mover], part: int) -> list[Mover]:
    """Returns the movers in the part, the least loss for each unit that they free there first."""
    inside = ((slices.gain[one.key][part], one) for one in movers if part in slices.gain.get(one.key, ()))
    return [one for gain, one in sorted(inside, key=lambda each: (Fraction(each[1].weight, each[0]), each[1].key))]


def _cheapest_parts(
    slices: SliceCounts, movers: Iterable[Mover], without: Collection[int]
) -> tuple[int, Wanted] | None:
    """Returns a lower bound of the loss, and in which parts the slices are then; None if there is no room for them."""
    shares: dict[int, list[tuple[int, int]]] = {}
    for mover in _lightest(movers):
        gains = slices.gain.get(mover.key, {})
        total = sum(gains.values())
        for part, gain in gains.items():
            shares.setdefault(part, []).append((mover.weight * gain // total, gain))
    prices: list[tuple[int, int]] = []
    for part, holds in sorted(slices.holds.items()):
        line = () if part in without else shares.get(part, ())
        prices += ((price, part) for price in _prices(slices, holds, line))
    if len(prices) < slices.want:
        return None
    cheapest = sorted(prices)[: slices.want]
    return sum(price for price, _ in cheapest), Counter(part for _, part in cheapest)


def _lightest(movers: Iterable[Mover]) -> list[Mover]:
    """Returns one mover of each workload, since it may be there twice (blockers.py): the one that counts least."""
    lightest: dict[str, Mover] = {}
    for mover in movers:
        known = lightest.get(mover.key)
        if known is None or mover.weight < known.weight:
            lightest[mover.key] = mover
    return list(lightest.values())


def _prices(slices: SliceCounts, holds: int, shares: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Yields the least loss for the first slice in a part, then what each further one adds, as far as there may be room.

    `shares` are (share of the loss, units that it frees) of each mover there, of which fractions are taken.
    """
    line, index, lost, free, before = sorted(shares, key=lambda share: Fraction(*share)), 0, 0, holds, 0
    for wanted in range(slices.size, slices.want * slices.size + 1, slices.size):
        while index < len(line) and free + line[index][1] < wanted:
            lost, free, index = lost + line[index][0], free + line[index][1], index + 1
        if free >= wanted:
            price = lost
        elif index < len(line):
            price = lost + line[index][0] * (wanted - free) // line[index][1]
        else:
            return
        yield price - before
        before = price
