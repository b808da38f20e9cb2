"""The best of the answers that are tight: in every figure down to the asked level at the least that is possible at all.

few.py has proved how few domains and parents there can be; what is stranded in them is at least what no sum of capacities
avoids. Where all domains below an opened one have to be opened, since each holds more than that, such answers differ only in
how many domains they open below and which holes they leave: a question for sieve.py, or for the table of losses.py where few
domains are undecided. Often there is such an answer, and then it is the optimum, without looking for a first one.
Called by solver.py.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from admission.engine.topology.optimum.bounds import multiple
from admission.engine.topology.optimum.few import Few, counts
from admission.engine.topology.optimum.flat import Kinds, Top
from admission.engine.topology.optimum.losses import Losses, Table, Wanted, costs
from admission.engine.topology.optimum.objective import Figures, Problem, Scale, mask, pairs
from admission.engine.topology.optimum.sieve import Sieve
from admission.engine.topology.optimum.trees import children
from admission.engine.topology.tree.level import Ints

_MANY = 64
"""So many undecided domains make the table worth a sieve."""
_FEW_WAYS = 2_000


class Tight:
    """One search, where the asked level has another above it.

    `found`: of few.py; `budget`: ways, or pairs of a state and a way, to look at.
    """

    def __init__(self, problem: Problem, found: Few, kinds: Kinds, top: Top, budget: int) -> None:
        self._problem, self._found, self._kinds, self._top = problem, found, kinds, top
        self._budget = budget
        domains, parents, *_ = found.counts
        self._wanted = Wanted(domains, parents, multiple(kinds, problem.need))
        self._largest = problem.capacity[problem.asked].take(found.slots).tolist()
        self.expanded = 0

    def run(self) -> tuple[Ints, Figures] | None:
        """The domains of the last level, and the figures; None: there is no such answer, or it takes too long to find it."""
        problem, found = self._problem, self._found
        if found.inside is None or not self._promising():
            return None
        losses = Losses.of(found.inside, self._top, problem.need, self._wanted.parents, min(self._largest))
        below = _Below(problem, losses.slots)
        if int(problem.capacity[problem.last].take(below.slots).min()) <= self._wanted.waste:
            return None
        # A sieve does not ask what lies above the parents.
        chosen = self._sifted(losses, below) if losses.undecided >= _MANY and problem.asked == 1 else None
        if chosen is None:
            chosen = self._tabled(losses, below)
        if chosen is None or (problem.asked > 1 and counts(problem, chosen) != found.counts):
            return None
        return self._answer(chosen, below.of(chosen))

    def _promising(self) -> bool:
        """Whether the counts are proved, and a first answer, by the largest domains, would leave a gap below."""
        problem, found = self._problem, self._found
        if problem.last != problem.asked + 1 or found.counts != found.bound:
            return False
        most = int(problem.capacity[problem.last].max())
        if most <= self._wanted.waste:
            return False
        least = -(-problem.need // most)
        if sum(-(-held // most) for held in self._largest) > least:
            return True
        below = mask(found.slots, len(problem.capacity[problem.asked])).take(problem.parent[problem.last])
        return int(np.count_nonzero(below)) > least

    def _sifted(self, losses: Losses, below: _Below) -> Ints | None:
        sieve = Sieve(self._problem, losses, below.number, self._wanted, min(self._budget, _FEW_WAYS))
        found = sieve.run()
        self.expanded += sieve.expanded
        return found

    def _tabled(self, losses: Losses, below: _Below) -> Ints | None:
        problem, slots = self._problem, losses.slots
        capacity = problem.capacity[problem.asked].take(slots)
        scale = Scale(problem, set(capacity.tolist()))
        paid = costs(scale, problem.asked, slots, capacity, [below.number.take(slots)])
        table = Table(problem, scale, losses, paid, self._wanted, self._budget - self.expanded)
        found = table.run()
        self.expanded += table.expanded
        return found

    def _answer(self, chosen: Ints, below: Ints) -> tuple[Ints, Figures]:
        """Below whole domains lies as much as in them."""
        capacity = self._problem.capacity[self._problem.asked][chosen]
        waste = int(capacity.sum()) - self._problem.need
        figures = (*self._found.counts, waste, len(below), waste, *pairs(Counter(capacity.tolist())))
        return below, figures


class _Below:
    """The domains of the last level that hold something and lie in some of the asked one; how many lie in each."""

    def __init__(self, problem: Problem, slots: Ints) -> None:
        self._size = len(problem.capacity[problem.asked])
        self.slots = children(problem, problem.last, slots)
        self._parent = problem.parent[problem.last].take(self.slots)
        self.number = np.bincount(self._parent, minlength=self._size)

    def of(self, slots: Ints) -> Ints:
        """Those in these."""
        return self.slots.take(mask(slots, self._size).take(self._parent).nonzero()[0])
