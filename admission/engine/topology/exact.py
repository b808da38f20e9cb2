"""One homogeneous gang to a proved optimum where several domains are needed; where one suffices, Compatible's answer.

Levels, most important figure first, are in optimum/objective.py; how it is solved in optimum/solver.py. Below the slice level
each domain's pods go down as Compatible's do. Compatible answers, and nothing is proved, where the request asks for more than
the objective knows: a leader beside the workers, preferred nodes, balanced shares. Called by place.py for Profile Exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from admission.engine.decision import Certificate, Proof
from admission.engine.topology.constraints import Ask
from admission.engine.topology.count import Numbers
from admission.engine.topology.level import Ints
from admission.engine.topology.optimum.objective import Problem
from admission.engine.topology.optimum.solver import solve as optimum
from admission.engine.topology.search import Found, Search, Solved
from admission.engine.topology.select import Taken
from admission.engine.topology.tree import Tree

_HELD = Certificate(Proof.OPTIMAL)


def solve(tree: Tree, ask: Ask, numbers: Sequence[Numbers], budget: int) -> Solved:
    """The best domains for the Ask, with a certificate; `budget`: search nodes that may be expanded.

    The certificate's cost and bound are the figures of optimum/objective.py; without any where one domain holds it all.
    """
    search = Search(tree, ask, numbers)
    if not _plain(ask):
        return Solved(search.run())
    asked = numbers[ask.level].slice
    one = len(asked) > 0 and int(asked.max()) >= ask.need
    if one or ask.required or int(asked.sum()) < ask.need:
        outcome = search.run()
        return Solved(outcome, _HELD if isinstance(outcome, Found) else Certificate(Proof.INFEASIBLE))
    best = optimum(_problem(tree, ask, numbers), budget)
    return Solved(search.spread(_shares(tree, ask, numbers, best.slots)), best.certificate)


def _plain(ask: Ask) -> bool:
    """Whether the objective says all that the request asks for."""
    by_affinity = ask.by_affinity and bool(ask.wants.preferred)
    return not (ask.leaders or by_affinity or ask.balanced)


def _problem(tree: Tree, ask: Ask, numbers: Sequence[Numbers]) -> Problem:
    levels = tree.levels[: ask.slice_level + 1]
    return Problem(
        capacity=[some.slice for some in numbers[: ask.slice_level + 1]],
        parent=[level.parent for level in levels],
        label=[level.label for level in levels],
        asked=ask.level,
        need=ask.need,
    )


def _shares(tree: Tree, ask: Ask, numbers: Sequence[Numbers], slots: Ints) -> Taken:
    """All of them full but the smallest (of equal ones the last by name), which keeps what is over."""
    capacity, label = numbers[ask.slice_level].slice[slots], tree.levels[ask.slice_level].label[slots]
    order = np.lexsort((label, -capacity))
    shares = capacity[order]
    shares[-1] -= int(shares.sum()) - ask.need
    return Taken(slots[order], shares)
