"""Solves the placement of a gang that needs several domains: a quick answer, lower bounds, and a search that closes the gap.

1. fewest_parents.py computes the numbers of domains at the requested level and above, with lower bounds.
2. If an answer may meet its lower bound in every figure down to the requested level, tight.py looks for the best of these.
3. Otherwise subset_sum.py chooses domains inside the parents that fewest_parents.py opened. If every figure of this answer
   meets its lower bound, the answer is proved.
4. If not, domains that no better answer can use are dropped, which may raise the bounds: first those in parents that are too
   small, then by reduced costs (reduced_costs.py), whose table may find the best answer.
5. labels.py searches the remaining domains, first in the parents of the answer, then in all parents.

Called by exact.py. objective.py defines the objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.decision import Certificate, Proof
from admission.engine.topology.exact.optimum.fewest_parents import FewestParents, fewest_parents
from admission.engine.topology.exact.optimum.labels import LabelSearch
from admission.engine.topology.exact.optimum.lower_bounds import by_capacity, fewest_below, fewest_of, multiple
from admission.engine.topology.exact.optimum.numbers import capacities_of, pick, sum_of_largest
from admission.engine.topology.exact.optimum.objective import Figure, Figures, FigureScale, Problem, mask, pairs
from admission.engine.topology.exact.optimum.parent_table import ParentTable
from admission.engine.topology.exact.optimum.reduced_costs import KnapsackTable, ReducedCosts, Wanted, costs
from admission.engine.topology.exact.optimum.subset_sum import CapacityCounts, Top, fewest
from admission.engine.topology.exact.optimum.tight import Tight
from admission.engine.topology.exact.optimum.trees import candidates, children
from admission.engine.topology.tree.level import Ints

_LEAST_PAIRS = 64
"""The approximate number of label pairs that one candidate takes. With less budget per candidate no search starts."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The chosen domains of the last level (where slices are counted), and their certificate."""

    slots: Ints
    certificate: Certificate


def solve(problem: Problem, budget: int) -> Optimum:
    """Returns the best answer found, with its certificate. `budget` is the number of labels, options and states to examine.

    All domains together must hold the need, and no single domain of the requested level may hold it.
    """
    capacity = problem.capacity[problem.requested]
    capacities = capacities_of(capacity)
    top = fewest_of(capacities, problem.need)
    among = (capacity >= max(1, top.last - top.slack)).nonzero()[0]
    fewest = fewest_parents(problem, capacities, top, among)
    spent = 0
    if problem.requested:
        tight = Tight(problem, fewest, capacities, top, budget)
        best, spent = tight.run(), tight.expanded
        if best is not None:
            slots, figures = best
            return Optimum(slots, Certificate(Proof.OPTIMAL, figures, figures, spent))
    return _Steps(problem, capacities, top, among, fewest, budget, spent).run()


class _Steps:
    """Improves a first answer until it is proved or the budget is spent. `spent` is the part of the budget already used."""

    def __init__(
        self,
        problem: Problem,
        capacities: CapacityCounts,
        top: Top,
        among: Ints,
        fewest: FewestParents,
        budget: int,
        spent: int,
    ) -> None:
        self._problem, self._capacities, self._top, self._among, self._fewest = problem, capacities, top, among, fewest
        self._budget, self._expanded = budget, spent
        self._capacity = problem.capacity[problem.requested]
        self._kinds_below = [capacities_of(capacity) for capacity in problem.capacity[problem.requested + 1 :]]
        self._below = [fewest_of(capacities, problem.need).k for capacities in self._kinds_below]
        self._bound = self._least_figures()
        self._slots, self._figures = self._answer(self._inside(fewest))

    def run(self) -> Optimum:
        below = any(name == "count" and level > self._problem.requested for name, level in self._gap())
        if self._figures > self._bound and not (below and self._problem.requested):
            self._bound = self._floor()
        if self._figures > self._bound and self._problem.requested:
            if not below and self._eliminate_small_parents():
                self._bound = self._floor()
            if self._figures > self._bound:
                self._eliminate_by_costs()
        if self._figures > self._bound:
            self._try_largest()
            self._raise_bounds()
        if self._figures > self._bound:
            self._search()
        proof = Proof.OPTIMAL if self._figures <= self._bound else Proof.FEASIBLE
        return Optimum(self._slots, Certificate(proof, self._figures, self._bound, self._expanded))

    # ---- a quick answer

    def _try_largest(self) -> None:
        """Tries the largest domains, as fewest_parents.py chose them: they may need fewer domains below."""
        if self._problem.last > self._problem.requested:
            slots, figures = self._answer(self._fewest.slots)
            if figures < self._figures:
                self._slots, self._figures = slots, figures

    def _inside(self, fewest: FewestParents) -> Ints:
        """Returns the domains that subset_sum.py chooses inside the parents of this answer."""
        problem, among = self._problem, fewest.union
        if problem.requested:
            parent = problem.parent[problem.requested]
            among = among[mask(parent[fewest.slots], len(problem.capacity[problem.requested - 1]))[parent[among]]]
        return pick(problem, problem.requested, among)

    def _answer(self, chosen: Ints) -> tuple[Ints, Figures]:
        """Returns domains of the last level inside the chosen ones, with the figures: at each level the fewest children."""
        problem = self._problem
        opened = [chosen]
        if not self._whole(int(self._capacity[chosen].sum()) - problem.need):
            for level in range(problem.requested + 1, problem.last + 1):
                opened.append(pick(problem, level, children(problem, level, opened[-1])))
            return opened[-1], problem.figures(opened[-1])
        # Every domain below the chosen ones is needed, so nothing has to be picked.
        for level in range(problem.requested + 1, problem.last + 1):
            opened.append(children(problem, level, opened[-1]))
        return opened[-1], problem.measured(problem.above(problem.requested, opened))

    # ---- lower bounds of every answer

    def _least_figures(self) -> Figures:
        """Returns a lower bound of each figure that is cheap to compute."""
        problem = self._problem
        return self._figured(
            [multiple(capacities, problem.need) for capacities in (self._capacities, *self._kinds_below)]
        )

    def _floor(self) -> Figures:
        """Returns a lower bound of each figure. The bounds of stranded slices and of pairs ignore the tree."""
        need = self._problem.need
        _, here, unused_pairs = by_capacity(self._capacities, need)
        over = [here]
        for capacities, least in zip(self._kinds_below, self._below, strict=True):
            count, some, _ = by_capacity(capacities, need)
            # The slices that the fewest domains strand are no bound for answers with more domains.
            over.append(some if count >= least else multiple(capacities, need))
        return (*self._figured(over), *pairs(unused_pairs))

    def _figured(self, over: Sequence[int]) -> Figures:
        """Returns lower bounds of the figures before the pairs; `over` bounds stranded slices from the requested level down."""
        problem = self._problem
        above = zip(range(problem.requested, -1, -1), self._fewest.bound, strict=True)
        least: dict[Figure, int] = {("count", level): count for level, count in above}
        least.update((("count", level), count) for level, count in enumerate(self._below, problem.requested + 1))
        least.update((("stranded", level), some) for level, some in enumerate(over, problem.requested))
        return tuple(least[name] for name in problem.order)

    # ---- elimination of domains that no better answer can use

    def _eliminate_small_parents(self) -> bool:
        """Drops parents with too few domains or too little capacity for an answer with as few parents as the known one.

        Reports whether any were dropped.
        """
        problem, among = self._problem, self._among
        domains, parents = self._figures[:2]
        home, size = problem.parent[problem.requested][among], len(problem.capacity[problem.requested - 1])
        able = np.ones(size, dtype=np.bool_)
        for wanted, have in (
            (domains, np.bincount(home, minlength=size)),
            (problem.need, np.bincount(home, weights=self._capacity[among], minlength=size).astype(np.int64)),
        ):
            able &= have >= wanted - sum_of_largest(have, parents - 1)
        self._among = among[able[home]]
        self._capacities = capacities_of(self._capacity[self._among])
        return len(self._among) < len(among)

    def _eliminate_by_costs(self) -> None:
        """Drops domains by reduced costs, and take the best answer that the table finds among the others.

        The table includes the levels below if every opened domain opens all domains below it; otherwise it includes only the
        levels down to the requested one.
        """
        problem, known = self._problem, self._figures
        parent_table = self._fewest.parent_table
        if parent_table is None or len(parent_table.slots) != len(self._among):
            parent_table = ParentTable.of(problem, self._among, self._capacities, self._top)
        reduced = ReducedCosts.of(parent_table, self._top, problem.need, known[1], self._top.last)
        self._among = reduced.slots
        self._capacities = capacities_of(self._capacity[self._among])
        counts = problem.requested + 1
        waste = min(reduced.most, known[counts]) if known[:counts] == self._bound[:counts] else reduced.most
        last = problem.last if self._whole(waste) else problem.requested
        proved = self._by_table(reduced, waste, last)
        if proved is not None:
            self._bound = max(self._bound, proved)

    def _by_table(self, reduced: ReducedCosts, waste: int, last: int) -> Figures | None:
        """Takes the best answer among the remaining domains.

        Returns a lower bound of every answer among them; None if the budget is spent.
        """
        problem, known = self._problem, self._figures
        scale = self._scale(reduced.slots)
        wanted = Wanted(known[0], known[1], waste, scale.of(problem, known, last))
        paid = self._costs(scale, reduced.slots, last)
        table = KnapsackTable(problem, scale, reduced, paid, wanted, self._budget - self._expanded)
        figures = table.run()
        self._expanded += table.expanded
        best = known
        if figures is not None:
            # If an opened domain opens all domains below it, `_answer` opens these too.
            slots, best = self._answer(figures)
            if best < known:
                self._slots, self._figures = slots, best
        if table.spent:
            return None
        return best if last == problem.last else self._above(best)

    def _above(self, best: Figures) -> Figures:
        """Returns a lower bound: the best answer's figures down to the requested level, bounds below it, the answer's pairs."""
        here, order = self._problem.requested + 2, len(self._problem.order)
        return (*best[:here], *self._floor()[here:order], *best[order:])

    def _whole(self, waste: int) -> bool:
        """Reports whether an opened domain must open all domains below, since each holds more slices than may be stranded."""
        problem = self._problem
        if problem.last == problem.requested:
            return True
        return self._kinds_below[-1].values[-1] > waste

    def _costs(self, scale: FigureScale, slots: Ints, last: int) -> dict[int, int]:
        """Returns, by slot, the cost of opening a domain of the requested level and all domains below, down to `last`."""
        problem, size = self._problem, len(self._capacity)
        home, inside, below = np.arange(size), slots, []
        for level in range(problem.requested + 1, last + 1):
            inside = children(problem, level, inside)
            home = problem.parent[level] if level == problem.requested + 1 else home[problem.parent[level]]
            below.append(np.bincount(home[inside], minlength=size)[slots])
        return costs(scale, problem.requested, slots, self._capacity[slots], below)

    def _scale(self, among: Ints) -> FigureScale:
        """Returns the scale for answers among these domains of the requested level, and for the known answer."""
        opened = self._capacity[self._problem.opened(self._slots)[self._problem.requested]]
        values = {*self._capacity[among].tolist(), *opened.tolist()}
        return FigureScale(self._problem, values)

    def _raise_bounds(self) -> None:
        """Recomputes the lower bounds for the remaining domains, including the levels below."""
        if any(name == "count" and level > self._problem.requested for name, level in self._gap()):
            self._below = list(map(max, self._below, fewest_below(self._problem, self._among, self._top.k)))
        self._bound = max(self._bound, self._floor())

    # ---- the search

    def _gap(self) -> list[Figure]:
        """Returns the first figure above its lower bound; an empty list if there is none or if it is one of the pairs."""
        figures = zip(self._problem.order, self._figures, self._bound, strict=False)
        return [name for name, figure, bound in figures if figure > bound][:1]

    def _search(self) -> None:
        """Searches the parents of the known answer first, which may improve it cheaply; then all parents, which proves it."""
        problem, among = self._problem, self._among
        if problem.requested:
            parent = problem.parent[problem.requested]
            opened = problem.opened(self._slots)[problem.requested - 1]
            beside = among[mask(opened, len(problem.capacity[problem.requested - 1]))[parent[among]]]
            if len(beside) < len(among):
                self._labels(beside, self._budget // 2)
        if self._figures > self._bound and self._labels(among, self._budget - self._expanded):
            self._bound = self._figures

    def _labels(self, among: Ints, budget: int) -> bool:
        """Takes the best answer among these domains. Reports whether the search was complete."""
        problem = self._problem
        some = self._candidates(among)
        top = fewest(capacities_of(self._capacity[among]), problem.need)
        if top is None or top.k > self._figures[0]:
            return True
        if sum(map(len, some)) * _LEAST_PAIRS > budget:
            return False
        scale = self._scale(among)
        known = scale.of(problem, self._figures, problem.last)
        labels = LabelSearch(problem, scale, top, some, self._least(), known, budget)
        answer = labels.run()
        self._expanded += labels.expanded
        if answer is not None:
            self._slots, self._figures = answer, problem.figures(answer)
        return not labels.spent

    def _least(self) -> list[int]:
        """Returns, by level, a lower bound of the domains that an answer better than the known one opens."""
        least = [1] * len(self._problem.capacity)
        for (name, level), bound, figure in zip(self._problem.order, self._bound, self._figures, strict=False):
            if name == "count":
                least[level] = bound
            if figure > bound:
                break
        return least

    def _candidates(self, among: Ints) -> list[Ints]:
        """Returns, by level, the domains above and below these domains of the requested level that can hold a slice."""
        by_level = candidates(self._problem, among)
        for level in range(self._problem.requested + 1, self._problem.last + 1):
            by_level.append(children(self._problem, level, by_level[-1]))
        return by_level
