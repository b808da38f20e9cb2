"""A proved optimum if several domains are needed: a quick answer, lower bounds, and a search between the two.

fewest_parents.py gives the counts at the requested level and above, with bounds. If an answer is at its lower bound in
every figure before the domains below, tight.py may find the best of those at once. Otherwise subset_sum.py chooses
inside the domains that fewest_parents.py opens above; if every figure meets its bound, that is the proof. If not,
everything that no better answer can use is dropped, which may raise the bounds: first parents that are too small, then
domains by their reduced costs (reduced_costs.py), whose table may find the best answer. labels.py searches the rest:
first among the domains beside the answer, then among all that are left. Called by exact.py. objective.py defines the
objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.decision import Certificate, Proof
from admission.engine.topology.optimum.fewest_parents import FewestParents, fewest_parents
from admission.engine.topology.optimum.labels import Labels
from admission.engine.topology.optimum.lower_bounds import by_capacity, fewest_below, fewest_of, multiple
from admission.engine.topology.optimum.numbers import capacities_of, pick, sum_of_largest
from admission.engine.topology.optimum.objective import Figure, Figures, Problem, Scale, mask, pairs
from admission.engine.topology.optimum.parent_table import ParentTable
from admission.engine.topology.optimum.reduced_costs import KnapsackTable, ReducedCosts, Wanted, costs
from admission.engine.topology.optimum.subset_sum import CapacityCounts, Top, fewest
from admission.engine.topology.optimum.tight import Tight
from admission.engine.topology.optimum.trees import candidates, children
from admission.engine.topology.tree.level import Ints

_LEAST_PAIRS = 64
"""Pairs of labels that one candidate takes, roughly. With less budget for each, no search starts."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """Domains of the last level, and their certificate."""

    slots: Ints
    certificate: Certificate


def solve(problem: Problem, budget: int) -> Optimum:
    """Solve the problem. All domains together must hold the need, and no single domain of the requested level may.

    `budget`: labels, options and states to examine.
    """
    capacity = problem.capacity[problem.asked]
    capacities = capacities_of(capacity)
    top = fewest_of(capacities, problem.need)
    among = (capacity >= max(1, top.last - top.slack)).nonzero()[0]
    found = fewest_parents(problem, capacities, top, among)
    spent = 0
    if problem.asked:
        tight = Tight(problem, found, capacities, top, budget)
        best, spent = tight.run(), tight.expanded
        if best is not None:
            slots, figures = best
            return Optimum(slots, Certificate(Proof.OPTIMAL, figures, figures, spent))
    return _Steps(problem, capacities, top, among, found, budget, spent).run()


class _Steps:
    """From a first answer to a proof. `spent`: the part of the budget that is used already."""

    def __init__(
        self,
        problem: Problem,
        capacities: CapacityCounts,
        top: Top,
        among: Ints,
        found: FewestParents,
        budget: int,
        spent: int,
    ) -> None:
        self._problem, self._capacities, self._top, self._among, self._few = problem, capacities, top, among, found
        self._budget, self._expanded = budget, spent
        self._capacity = problem.capacity[problem.asked]
        self._kinds_below = [capacities_of(capacity) for capacity in problem.capacity[problem.asked + 1 :]]
        self._below = [fewest_of(capacities, problem.need).k for capacities in self._kinds_below]
        self._bound = self._least_figures()
        self._slots, self._figures = self._answer(self._inside(found))

    def run(self) -> Optimum:
        below = any(name == "count" and level > self._problem.asked for name, level in self._gap())
        if self._figures > self._bound and not (below and self._problem.asked):
            self._bound = self._floor()
        if self._figures > self._bound and self._problem.asked:
            if not below and self._narrow():
                self._bound = self._floor()
            if self._figures > self._bound:
                self._weigh()
        if self._figures > self._bound:
            self._second()
            self._lift()
        if self._figures > self._bound:
            self._search()
        proof = Proof.OPTIMAL if self._figures <= self._bound else Proof.FEASIBLE
        return Optimum(self._slots, Certificate(proof, self._figures, self._bound, self._expanded))

    # ---- a quick answer

    def _second(self) -> None:
        """Try the largest domains, as fewest_parents.py chose them: they may need fewer below."""
        if self._problem.last > self._problem.asked:
            slots, figures = self._answer(self._few.slots)
            if figures < self._figures:
                self._slots, self._figures = slots, figures

    def _inside(self, found: FewestParents) -> Ints:
        """Returns the best numbers in the parents that are open anyway."""
        problem, among = self._problem, found.union
        if problem.asked:
            parent = problem.parent[problem.asked]
            among = among[mask(parent[found.slots], len(problem.capacity[problem.asked - 1]))[parent[among]]]
        return pick(problem, problem.asked, among)

    def _answer(self, chosen: Ints) -> tuple[Ints, Figures]:
        """From domains of the requested level to the last: at each level the fewest children that hold the need."""
        problem = self._problem
        opened = [chosen]
        if not self._whole(int(self._capacity[chosen].sum()) - problem.need):
            for level in range(problem.asked + 1, problem.last + 1):
                opened.append(pick(problem, level, children(problem, level, opened[-1])))
            return opened[-1], problem.figures(opened[-1])
        # All of them are needed, so nothing has to be picked.
        for level in range(problem.asked + 1, problem.last + 1):
            opened.append(children(problem, level, opened[-1]))
        return opened[-1], problem.measured(problem.above(problem.asked, opened))

    # ---- what no answer can beat

    def _least_figures(self) -> Figures:
        """Returns a lower bound of each figure that is cheap to compute."""
        problem = self._problem
        return self._figured(
            [multiple(capacities, problem.need) for capacities in (self._capacities, *self._kinds_below)]
        )

    def _floor(self) -> Figures:
        """Returns a lower bound of each figure. For stranded slices and the pairs it ignores the tree."""
        need = self._problem.need
        _, here, holes = by_capacity(self._capacities, need)
        over = [here]
        for capacities, least in zip(self._kinds_below, self._below, strict=True):
            count, some, _ = by_capacity(capacities, need)
            # What the fewest strand does not bound what more of them strand.
            over.append(some if count >= least else multiple(capacities, need))
        return (*self._figured(over), *pairs(holes))

    def _figured(self, over: Sequence[int]) -> Figures:
        """Returns the lower bounds of the counts, and by level from the requested one `over`; without pairs."""
        problem = self._problem
        above = zip(range(problem.asked, -1, -1), self._few.bound, strict=True)
        least: dict[Figure, int] = {("count", level): count for level, count in above}
        least.update((("count", level), count) for level, count in enumerate(self._below, problem.asked + 1))
        least.update((("stranded", level), some) for level, some in enumerate(over, problem.asked))
        return tuple(least[name] for name in problem.order)

    # ---- what can still be better

    def _narrow(self) -> bool:
        """Drop parents with too few domains or too little capacity for an answer in so few parents. Returns whether any
        were dropped.
        """
        problem, among = self._problem, self._among
        domains, parents = self._figures[:2]
        home, size = problem.parent[problem.asked][among], len(problem.capacity[problem.asked - 1])
        able = np.ones(size, dtype=np.bool_)
        for wanted, have in (
            (domains, np.bincount(home, minlength=size)),
            (problem.need, np.bincount(home, weights=self._capacity[among], minlength=size).astype(np.int64)),
        ):
            able &= have >= wanted - sum_of_largest(have, parents - 1)
        self._among = among[able[home]]
        self._capacities = capacities_of(self._capacity[self._among])
        return len(self._among) < len(among)

    def _weigh(self) -> None:
        """By reduced costs: drop what no better answer can use, and find the best of the rest.

        The table counts everything below if opened domains are whole, otherwise only the levels down to the requested
        one.
        """
        problem, known = self._problem, self._figures
        parent_table = self._few.parent_table
        if parent_table is None or len(parent_table.slots) != len(self._among):
            parent_table = ParentTable.of(problem, self._among, self._capacities, self._top)
        reduced = ReducedCosts.of(parent_table, self._top, problem.need, known[1], self._top.last)
        self._among = reduced.slots
        self._capacities = capacities_of(self._capacity[self._among])
        counts = problem.asked + 1
        waste = min(reduced.most, known[counts]) if known[:counts] == self._bound[:counts] else reduced.most
        last = problem.last if self._whole(waste) else problem.asked
        proved = self._by_table(reduced, waste, last)
        if proved is not None:
            self._bound = max(self._bound, proved)

    def _by_table(self, reduced: ReducedCosts, waste: int, last: int) -> Figures | None:
        """Take the best answer among the rest. Returns a lower bound of every answer there; None if the budget is
        spent.
        """
        problem, known = self._problem, self._figures
        scale = self._scale(reduced.slots)
        wanted = Wanted(known[0], known[1], waste, scale.of(problem, known, last))
        paid = self._costs(scale, reduced.slots, last)
        table = KnapsackTable(problem, scale, reduced, paid, wanted, self._budget - self._expanded)
        found = table.run()
        self._expanded += table.expanded
        best = known
        if found is not None:
            # If opened domains are whole, the fewest below them that hold the need are all.
            slots, best = self._answer(found)
            if best < known:
                self._slots, self._figures = slots, best
        if table.spent:
            return None
        return best if last == problem.last else self._above(best)

    def _above(self, best: Figures) -> Figures:
        """A lower bound: the best answer's figures down to the requested level, then the bounds below, then its pairs."""
        here, order = self._problem.asked + 2, len(self._problem.order)
        return (*best[:here], *self._floor()[here:order], *best[order:])

    def _whole(self, waste: int) -> bool:
        """Reports whether an opened domain opens everything below it, since each holds more than may be stranded."""
        problem = self._problem
        if problem.last == problem.asked:
            return True
        return self._kinds_below[-1].values[-1] > waste

    def _costs(self, scale: Scale, slots: Ints, last: int) -> dict[int, int]:
        """Returns the cost of opening each of these domains of the requested level with everything below, down to the `last`
        level.
        """
        problem, size = self._problem, len(self._capacity)
        home, inside, below = np.arange(size), slots, []
        for level in range(problem.asked + 1, last + 1):
            inside = children(problem, level, inside)
            home = problem.parent[level] if level == problem.asked + 1 else home[problem.parent[level]]
            below.append(np.bincount(home[inside], minlength=size)[slots])
        return costs(scale, problem.asked, slots, self._capacity[slots], below)

    def _scale(self, among: Ints) -> Scale:
        """For answers among these domains of the requested level, and for the known answer."""
        opened = self._capacity[self._problem.opened(self._slots)[self._problem.asked]]
        values = {*self._capacity[among].tolist(), *opened.tolist()}
        return Scale(self._problem, values)

    def _lift(self) -> None:
        """Recompute the bounds for what is left, including the levels below."""
        if any(name == "count" and level > self._problem.asked for name, level in self._gap()):
            self._below = list(map(max, self._below, fewest_below(self._problem, self._among, self._top.k)))
        self._bound = max(self._bound, self._floor())

    # ---- the search

    def _gap(self) -> list[Figure]:
        """Returns the first figure that is above its lower bound, if it has a name."""
        figures = zip(self._problem.order, self._figures, self._bound, strict=False)
        return [name for name, figure, bound in figures if figure > bound][:1]

    def _search(self) -> None:
        """Search beside the known answer, which may give a better one; then everywhere, which proves it."""
        problem, among = self._problem, self._among
        if problem.asked:
            parent = problem.parent[problem.asked]
            opened = problem.opened(self._slots)[problem.asked - 1]
            beside = among[mask(opened, len(problem.capacity[problem.asked - 1]))[parent[among]]]
            if len(beside) < len(among):
                self._labels(beside, self._budget // 2)
        if self._figures > self._bound and self._labels(among, self._budget - self._expanded):
            self._bound = self._figures

    def _labels(self, among: Ints, budget: int) -> bool:
        """Take the best answer among these domains. False: it may have been missed."""
        problem = self._problem
        some = self._candidates(among)
        top = fewest(capacities_of(self._capacity[among]), problem.need)
        if top is None or top.k > self._figures[0]:
            return True
        if sum(map(len, some)) * _LEAST_PAIRS > budget:
            return False
        scale = self._scale(among)
        known = scale.of(problem, self._figures, problem.last)
        labels = Labels(problem, scale, top, some, self._least(), known, budget)
        found = labels.run()
        self._expanded += labels.expanded
        if found is not None:
            self._slots, self._figures = found, problem.figures(found)
        return not labels.spent

    def _least(self) -> list[int]:
        """Returns, by level, a lower bound of the domains of an answer that is better than the known one."""
        least = [1] * len(self._problem.capacity)
        for (name, level), bound, figure in zip(self._problem.order, self._bound, self._figures, strict=False):
            if name == "count":
                least[level] = bound
            if figure > bound:
                break
        return least

    def _candidates(self, among: Ints) -> list[Ints]:
        """Per level what lies above and below these domains of the requested level and can hold something."""
        found = candidates(self._problem, among)
        for level in range(self._problem.asked + 1, self._problem.last + 1):
            found.append(children(self._problem, level, found[-1]))
        return found
