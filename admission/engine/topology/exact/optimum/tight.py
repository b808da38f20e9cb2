"""Finds the best answer among those that meet the lower bound in every figure down to the requested level.

fewest_parents.py has proved the fewest domains and parents, and the gcd of the capacities bounds the stranded slices. If an
opened domain must open all domains below it, since each holds more than may be stranded, such answers differ only in the
number of domains below and in the domains that stay free. elimination.py finds the best one, or, if few domains are
undecided, the table of reduced_costs.py. Often such an answer exists; it is then the optimum, and no other search is needed.
Called by solver.py.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from admission.engine.topology.exact.optimum.elimination import Elimination
from admission.engine.topology.exact.optimum.fewest_parents import FewestParents, counts
from admission.engine.topology.exact.optimum.lower_bounds import multiple
from admission.engine.topology.exact.optimum.objective import Figures, FigureScale, Problem, mask, pairs
from admission.engine.topology.exact.optimum.reduced_costs import KnapsackTable, ReducedCosts, Wanted, costs
from admission.engine.topology.exact.optimum.subset_sum import CapacityCounts, Top
from admission.engine.topology.exact.optimum.trees import children
from admission.engine.topology.tree.level import Ints

_MANY = 64
"""The number of undecided domains from which on elimination runs before the table."""
_OPTION_BUDGET = 2_000


class Tight:
    """One search. The requested level must have a level above it.

    `found` is the result of fewest_parents.py. `budget` limits the options, and the pairs of a state and an option, to
    examine; `expanded` counts them.
    """

    def __init__(
        self, problem: Problem, fewest: FewestParents, capacities: CapacityCounts, top: Top, budget: int
    ) -> None:
        self._problem, self._found, self._capacities, self._top = problem, fewest, capacities, top
        self._budget = budget
        domains, parents, *_ = fewest.counts
        self._wanted = Wanted(domains, parents, multiple(capacities, problem.need))
        self._largest = problem.capacity[problem.requested].take(fewest.slots).tolist()
        self.expanded = 0

    def run(self) -> tuple[Ints, Figures] | None:
        """Returns the domains of the last level and the figures; None if no such answer was found within the budget."""
        problem, fewest = self._problem, self._found
        if fewest.parent_table is None or not self._promising():
            return None
        reduced = ReducedCosts.of(
            fewest.parent_table, self._top, problem.need, self._wanted.parents, min(self._largest)
        )
        below = _Below(problem, reduced.slots)
        if int(problem.capacity[problem.last].take(below.slots).min()) <= self._wanted.waste:
            return None
        # Elimination ignores the levels above the parents, so it applies only if there are none.
        chosen = self._by_elimination(reduced, below) if reduced.undecided >= _MANY and problem.requested == 1 else None
        if chosen is None:
            chosen = self._by_table(reduced, below)
        if chosen is None or (problem.requested > 1 and counts(problem, chosen) != fewest.counts):
            return None
        return self._answer(chosen, below.of(chosen))

    def _promising(self) -> bool:
        """Reports whether the counts are proved, and an answer with the largest domains would miss a lower bound below."""
        problem, fewest = self._problem, self._found
        if problem.last != problem.requested + 1 or fewest.counts != fewest.bound:
            return False
        most = int(problem.capacity[problem.last].max())
        if most <= self._wanted.waste:
            return False
        least = -(-problem.need // most)
        if sum(-(-held // most) for held in self._largest) > least:
            return True
        below = mask(fewest.slots, len(problem.capacity[problem.requested])).take(problem.parent[problem.last])
        return int(np.count_nonzero(below)) > least

    def _by_elimination(self, reduced: ReducedCosts, below: _Below) -> Ints | None:
        elimination = Elimination(self._problem, reduced, below.number, self._wanted, min(self._budget, _OPTION_BUDGET))
        domains = elimination.run()
        self.expanded += elimination.expanded
        return domains

    def _by_table(self, reduced: ReducedCosts, below: _Below) -> Ints | None:
        problem, slots = self._problem, reduced.slots
        capacity = problem.capacity[problem.requested].take(slots)
        scale = FigureScale(problem, set(capacity.tolist()))
        paid = costs(scale, problem.requested, slots, capacity, [below.number.take(slots)])
        table = KnapsackTable(problem, scale, reduced, paid, self._wanted, self._budget - self.expanded)
        domains = table.run()
        self.expanded += table.expanded
        return domains

    def _answer(self, chosen: Ints, below: Ints) -> tuple[Ints, Figures]:
        """Returns the answer with its figures. Whole domains hold exactly as much as the domains below them."""
        capacity = self._problem.capacity[self._problem.requested][chosen]
        waste = int(capacity.sum()) - self._problem.need
        figures = (*self._found.counts, waste, len(below), waste, *pairs(Counter(capacity.tolist())))
        return below, figures


class _Below:
    """The nonempty domains of the last level inside domains of the requested level, and their number in each (`number`)."""

    def __init__(self, problem: Problem, slots: Ints) -> None:
        self._size = len(problem.capacity[problem.requested])
        self.slots = children(problem, problem.last, slots)
        self._parent = problem.parent[problem.last].take(self.slots)
        self.number = np.bincount(self._parent, minlength=self._size)

    def of(self, slots: Ints) -> Ints:
        """Returns the domains of the last level inside these domains of the requested level."""
        return self.slots.take(mask(slots, self._size).take(self._parent).nonzero()[0])
