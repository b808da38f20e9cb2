"""Eliminates domains by reduced costs, given an answer with k domains of the requested level in at most m parents.

Let the Lagrange multipliers p and v be the price of a domain and of a parent (its rent). A domain of capacity c has value
c - p. A parent has value g - v, where g is the sum of the positive values of its domains. So k domains in m parents hold at
most

    U = p * k + v * m + sum of max(0, g - v) over the parents.

An answer holds U minus its losses (reduced costs), all of which are nonnegative: a positive value left out, a negative value
taken, the rent of each parent below m. The losses of an answer that holds the need are at most L = U - need. At the best
price (searched among the capacities) L is small even for large trees: most domains and parents are decided at once, and the
rest is solved by dynamic programming in a small table by (value, domains, parents).

If an opened domain must open all domains below it (since each holds more than may be stranded), its cost includes those, and
the table yields the best answer. Otherwise the elimination leaves fewer domains to search. Called by solver.py and tight.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from admission.engine.topology.exact.budget import BudgetSpent
from admission.engine.topology.exact.optimum.objective import FigureScale, Problem
from admission.engine.topology.exact.optimum.parent_table import ParentTable
from admission.engine.topology.exact.optimum.subset_sum import Top
from admission.engine.topology.exact.optimum.trees import Choice, candidates, families, leaves
from admission.engine.topology.tree.level import Ints


class _Option(NamedTuple):
    """One way to open a domain or a subtree: its value, numbers of domains and of parents, cost, and the chosen domains."""

    worth: int
    domains: int
    parents: int
    cost: int
    choice: Choice | int


_States = dict[tuple[int, int, int], tuple[int, Choice | int]]
"""Maps (value, number of domains, number of parents) to the least cost and the chosen domains."""


@dataclass(frozen=True, slots=True)
class ReducedCosts:
    """The price p, the rent v, and the largest total loss L."""

    price: int
    rent: int
    most: int
    """The largest total loss L."""
    slots: Ints
    """The domains of the requested level that an answer can still use."""
    worth: Ints
    """The g of each parent, by slot."""
    undecided: int
    """For how many of the domains it is not decided whether an answer uses them if it opens their parent."""

    @classmethod
    def of(cls, parent_table: ParentTable, top: Top, need: int, parents: int, near: int) -> ReducedCosts:
        """Returns the reduced costs for the domains of `parent_table`.

        `parents` is the number of parents of a known answer, `near` the price at which the search for the best price begins.
        """
        price, worth, bound = parent_table.cheapest(top, parents, near)
        rent, most = _rent(worth, parents), bound - need
        away = np.maximum(rent - worth, 0).take(parent_table.parent) + np.maximum(price - parent_table.capacity, 0)
        kept = (away <= most).nonzero()[0]
        undecided = int(np.count_nonzero(np.abs(parent_table.capacity.take(kept) - price) <= most))
        return cls(price, rent, most, parent_table.slots.take(kept), worth, undecided)


def _rent(worth: Ints, parents: int) -> int:
    """Returns a rent between the values of the m-th and the next best parent, so that few parents stay undecided.

    The next best is 0 if there are only m: removed domains, which also have the value 0, must not change the rent.
    """
    at = len(worth) - parents
    ordered = np.partition(worth, (max(at - 1, 0), at))
    return (int(ordered[at]) + (int(ordered[at - 1]) if at else 0)) // 2


def costs(scale: FigureScale, requested: int, slots: Ints, capacity: Ints, below: Sequence[Ints]) -> dict[int, int]:
    """Returns, by slot, the cost of opening a domain of the requested level with all domains below it.

    `below` has the number of these, by level and in the order of `slots`.
    """
    held, levels = capacity.tolist(), range(requested + 1, requested + 1 + len(below))
    stranded = sum(scale.stranded(level) for level in levels)
    opening = {some: scale.domain(requested, some) + some * stranded for some in set(held)}
    sums = [opening[some] for some in held]
    for level, number in zip(levels, below, strict=True):
        count = scale.count(level)
        sums = [cost + some * count for cost, some in zip(sums, number.tolist(), strict=True)]
    return dict(zip(slots.tolist(), sums, strict=True))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The limits of an answer."""

    domains: int
    """The exact number of domains."""
    parents: int
    """The most parents."""
    waste: int
    """The most stranded slices."""
    known: int | None = None
    """The cost is below this; None for any."""


class KnapsackTable:
    """Finds the best answer if opening a domain of the requested level has a fixed cost (`costs`, by slot)."""

    def __init__(
        self,
        problem: Problem,
        scale: FigureScale,
        reduced: ReducedCosts,
        costs: Mapping[int, int],
        wanted: Wanted,
        budget: int,
    ) -> None:
        """`budget` is the number of pairs of a state and an option to examine."""
        self._problem, self._scale, self._reduced = problem, scale, reduced
        self._costs, self._wanted, self._budget = costs, wanted, budget
        self._worth = reduced.worth.tolist()
        own = problem.capacity[problem.requested][reduced.slots] - reduced.price
        self._own = {
            slot: (max(worth, 0), [_Option(worth, 1, 0, costs[slot], slot)])
            for slot, worth in zip(reduced.slots.tolist(), own.tolist(), strict=True)
        }
        self._families = families(problem, candidates(problem, reduced.slots))
        sizes = sorted(map(len, self._families[problem.requested].values()), reverse=True)
        self._fewest = wanted.domains - sum(sizes[: wanted.parents - 1])
        self._enough = problem.need - reduced.rent * wanted.parents - reduced.price * wanted.domains
        self.expanded = 0
        self.spent = False

    def run(self) -> Ints | None:
        """Returns the best domains; None if no answer is within the limits, or if the budget is spent (then `spent` is set)."""
        reduced, wanted, need = self._reduced, self._wanted, self._problem.need
        try:
            states = self._merged(0, -1, reduced.most)
        except BudgetSpent:
            self.spent = True
            return None
        known, best = wanted.known, None
        for (worth, domains, parents), (cost, choice) in states.items():
            held = worth + reduced.rent * parents + reduced.price * domains
            if domains != wanted.domains or not need <= held <= need + wanted.waste:
                continue
            if known is None or cost < known:
                known, best = cost, choice
        return None if best is None else np.array(sorted(leaves(best)), dtype=np.int64)

    def _merged(self, level: int, parent: int, most: int) -> _States:
        """Returns the states of opening some children of a domain with losses up to `most`. `level` is that of the children."""
        children = self._children(level, parent, most)
        decided = next(
            (at for at, (top, options) in enumerate(children) if len(options) != 1 or top <= most), len(children)
        )
        best = sum(top for top, _ in children[:decided])
        states = self._all_of([options[0] for _, options in children[:decided]], best - most)
        for top, options in children[decided:]:
            best += top
            floor = best - most
            before = [one for one in states.items() if one[0][2] < self._wanted.parents]
            if top:
                states = {state: cost for state, cost in states.items() if state[0] >= floor}
            self.expanded += len(before) * len(options)
            if self.expanded > self._budget:
                raise BudgetSpent
            for state, (paid, chosen) in before:
                self._join(states, state, paid, chosen, options, floor)
        return states

    def _all_of(self, options: Sequence[_Option], floor: int) -> _States:
        """Returns the state that opens each child with a single option; empty beyond a limit or with too little value."""
        worth = domains = parents = cost = 0
        choice: Choice | int = None
        for option in options:
            worth, cost = worth + option.worth, cost + option.cost
            domains, parents = domains + option.domains, parents + option.parents
            choice = option.choice if choice is None else (choice, option.choice)
        if worth < floor or domains > self._wanted.domains or parents > self._wanted.parents:
            return {}
        return {(worth, domains, parents): (cost, choice)}

    def _join(
        self,
        states: _States,
        state: tuple[int, int, int],
        paid: int,
        chosen: Choice | int,
        options: Sequence[_Option],
        floor: int,
    ) -> None:
        """Extends one state by the options of a child, the most valuable option first."""
        worth, domains, parents = state
        wanted, enough = self._wanted, self._enough
        for more, number, opened, cost, choice in options:
            total = worth + more
            if total < floor:
                return
            if domains + number > wanted.domains or parents + opened > wanted.parents:
                continue
            # No domain can be added after the last parent.
            last = parents + opened == wanted.parents
            if last and (domains + number < wanted.domains or not enough <= total <= enough + wanted.waste):
                continue
            key = total, domains + number, parents + opened
            other = states.get(key)
            if other is None or paid + cost < other[0]:
                states[key] = paid + cost, choice if chosen is None else (chosen, choice)

    def _children(self, level: int, parent: int, most: int) -> list[tuple[int, list[_Option]]]:
        """Returns each child's highest value and its options, most valuable first; decided children come first.

        Options of equal value and size are interchangeable: only the cheapest are kept, as many as can be taken.
        """
        slots = self._families[level].get(parent, ())
        if level == self._problem.requested - 1:
            slots = self._distinct(slots)
        if level == self._problem.requested:
            children = [self._own[slot] for slot in slots if self._own[slot][1][0].worth >= -most]
        else:
            children = [self._options(level, slot, most) for slot in slots]
        kept = self._cheapest([options for _, options in children], level)
        with_options = [(top, options) for (top, _), options in zip(children, kept, strict=True) if options or top]
        with_options.sort(key=lambda child: len(child[1]) + (child[0] <= most))
        return with_options

    def _distinct(self, parents: Sequence[int]) -> list[int]:
        """Returns the parents, limited to as many of each set of parents with equal domains as an answer can have."""
        family, costs = self._families[self._problem.requested], self._costs
        seen: Counter[tuple[int, ...]] = Counter()
        kept = []
        for parent in parents:
            look = tuple([costs[slot] for slot in family[parent]])
            seen[look] += 1
            if seen[look] <= self._wanted.parents:
                kept.append(parent)
        return kept

    def _cheapest(self, children: list[list[_Option]], level: int) -> list[list[_Option]]:
        limit = self._wanted.domains if level == self._problem.requested else self._wanted.parents
        if len(children) <= limit:
            return children
        if max(Counter([option[:3] for options in children for option in options]).values(), default=0) <= limit:
            return children
        order = sorted(
            (option.cost, at, number) for at, options in enumerate(children) for number, option in enumerate(options)
        )
        seen: Counter[tuple[int, int, int]] = Counter()
        kept: list[list[int]] = [[] for _ in children]
        for _, at, number in order:
            option = children[at][number]
            seen[option[:3]] += 1
            if seen[option[:3]] <= limit:
                kept[at].append(number)
        return [[options[number] for number in sorted(some)] for options, some in zip(children, kept, strict=True)]

    def _options(self, level: int, slot: int, most: int) -> tuple[int, list[_Option]]:
        """Returns, for a domain above the requested level, its highest value and its options with losses up to `most`."""
        opening = self._scale.count(level)
        rent, opened = (self._reduced.rent, 1) if level == self._problem.requested - 1 else (0, 0)
        top = self._worth[slot] - rent if opened else None
        inside = self._inside(level + 1, slot, most if top is None else most + min(top, 0))
        options = [
            _Option(worth - rent, domains, parents + opened, cost + opening, choice)
            for (worth, domains, parents), (cost, choice) in inside.items()
            if domains >= max(1, self._fewest)
        ]
        options.sort(key=lambda option: -option.worth)
        if top is None:
            top = self._tops(level + 1, slot)
        return max(top, 0), options

    def _inside(self, level: int, parent: int, most: int) -> _States:
        """Returns what `_merged` returns, with a shortcut for a parent with a single domain."""
        slots = self._families[level].get(parent, ())
        if level != self._problem.requested or len(slots) != 1:
            return self._merged(level, parent, most)
        top, (option, *_) = self._own[slots[0]]
        if most < 0 or option.worth < -most:
            return {}
        self.expanded += top <= most
        return {option[:3]: option[3:]}

    def _tops(self, level: int, slot: int) -> int:
        """Returns the highest value of a domain above the parents; `level` is that of its children."""
        some = self._families[level].get(slot, ())
        if level == self._problem.requested - 1:
            return sum(max(self._worth[one] - self._reduced.rent, 0) for one in some)
        return sum(self._tops(level + 1, one) for one in some)
