"""Sets of shares as the bits of an integer: bit n stands for n pods.

Pure arithmetic; called by domain_kinds.py, plans.py and fallback.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_

import numpy as np

from admission.engine.model import LevelRule
from admission.engine.topology.tree.level import Bools

Options = tuple[tuple[int, int], ...]
"""The shares above 0 that children of one kind may have, as bits, and the number of such children."""


def up_to(most: int) -> int:
    """Returns the set of all shares up to `most`."""
    return (2 << most) - 1


def any_shares(cap: int, children: Iterable[tuple[int, int, bool]]) -> int:
    """Returns the shares up to `cap` that children can have together: each may have any share of its set.

    A child is given by its set, the number of such children, and whether each of them must have a share.
    """
    shares, every = 1, up_to(cap)
    for options, many, must in children:
        for _ in range(many):
            more = (summed(shares, options) | (0 if must else shares)) & every
            if more == shares:
                break
            shares = more
    return shares


def even_shares(rule: LevelRule, cap: int, options: Options) -> int:
    """Returns the shares up to `cap` that children without kept pods can have together under a rule that is `even`."""
    shares = 1
    if rule.packs:
        return reduce(or_, (bits for bits, _ in options), shares)
    steps = cap // rule.step
    some, more, both = _all_takers(rule, steps, options)
    units = range(1, (steps // rule.partitions if rule.partitions else steps) + 1)
    for small in units:
        low, high, either = some[small], more[small], both[small]
        top = min(either, steps // small)
        for parts in range(1, top + 1) if rule.partitions is None else (rule.partitions,):
            least, most = max(0, parts - low), min(parts, high)
            if parts <= top and least <= most:
                shares |= _strided(most - least + 1, rule.step) << (parts * small + least) * rule.step
    return shares & up_to(cap)


def _all_takers(rule: LevelRule, steps: int, options: Options) -> tuple[list[int], list[int], list[int]]:
    """Returns three lists: for each number of steps, how many children can have it, one more, and either."""
    low, either = np.zeros(steps + 2, dtype=np.int64), np.zeros(steps + 2, dtype=np.int64)
    for bits, many in options:
        can = _flags(bits, (steps + 2) * rule.step)[:: rule.step]
        low += many * can
        either[:-1] += many * (can[:-1] | can[1:])
    return low.tolist(), [*low[1:].tolist(), 0], either.tolist()


def _flags(bits: int, size: int) -> Bools:
    """Returns the lowest `size` bits as an array."""
    raw = np.frombuffer((bits & ((1 << size) - 1)).to_bytes(-(-size // 8), "little"), dtype=np.uint8)
    return np.unpackbits(raw, bitorder="little", count=size).astype(np.bool_)


def _strided(many: int, step: int) -> int:
    """Returns an integer with `many` one-bits, `step` bits apart."""
    return (1 << many) - 1 if step == 1 else sum(1 << at * step for at in range(many))


def runs(bits: int) -> Iterator[tuple[int, int]]:
    """Yields (position, length) of each run of one-bits, ascending."""
    at = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        at, bits = at + zeros, bits >> zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        yield at, ones
        at, bits = at + ones, bits >> ones


def summed(first: int, second: int) -> int:
    """Returns the set of sums of a number in `first` and a number in `second`."""
    sums = 0
    for start, length in runs(second):
        stretch, done = first << start, 1
        while done < length:
            step = min(done, length - done)
            stretch |= stretch << step
            done += step
        sums |= stretch
    return sums
