"""Two pod shapes on the rows (hosts) of one domain: how many pods of one shape fit beside x pods of the other.

Dynamic programming over the rows yields one list for a domain, the same for every item: entry x is the largest number of
pods of the second shape beside x or more of the first. The list of a single row is computed directly; two lists are
combined by the best split of x. With the list, a check whether some pods fit together takes two sums and a lookup, where
packing.py would search each time. Pure arithmetic; called by problem.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from admission.engine.topology.exact.joint.limits import Vec, fit
from admission.engine.topology.tree.level import Ints

RowSpace = tuple[Vec, bool, bool]
"""The free amounts of a row, and whether the first and the second shape may use the row."""


def beside(spots: Sequence[RowSpace], first: Vec, second: Vec) -> list[int]:
    """Returns the list of a domain with these rows: entry x is the number of `second` pods that fit beside x `first` pods."""
    beside_each = np.zeros(1, dtype=np.int64)
    for free, may_first, may_second in spots:
        most = fit(free, first) if may_first else 0
        own = _own(free, first, second, most) if may_second else np.zeros(most + 1, dtype=np.int64)
        longer = np.zeros(len(beside_each) + most, dtype=np.int64)
        for number, others in enumerate(own.tolist()):
            part = longer[number : number + len(beside_each)]
            np.maximum(part, beside_each + others, out=part)
        beside_each = longer
    # Pods of the second shape that fit beside more than x pods of the first also fit beside x of them.
    most_beside: list[int] = np.maximum.accumulate(beside_each[::-1])[::-1].tolist()
    return most_beside


def _own(free: Vec, first: Vec, second: Vec, most: int) -> Ints:
    """Returns the list of one row: the number of `second` pods that fit, by the number of `first` pods up to `most`."""
    number = np.arange(most + 1, dtype=np.int64)
    fits = [(have - number * one) // other for have, one, other in zip(free, first, second, strict=True) if other]
    return np.maximum(np.minimum.reduce(fits), 0) if fits else np.zeros(most + 1, dtype=np.int64)
