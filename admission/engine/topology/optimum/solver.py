"""A proved optimum where several domains are needed: a quick answer, lower bounds, and a search for what lies between.

The answer's counts at the asked level and above come from few.py, with bounds; inside the domains that it opens above, flat.py
chooses. If every figure meets its bound, that is the proof. Else the domains that no better answer can have are left out, which
may lift the bounds; then labels.py searches, first among the domains beside the answer, then among all that are left.
Called by exact.py. The objective is in objective.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admission.engine.decision import Certificate, Proof
from admission.engine.topology.level import Ints
from admission.engine.topology.optimum.few import Few, few
from admission.engine.topology.optimum.flat import Flat, Kinds, fewest
from admission.engine.topology.optimum.labels import Labels
from admission.engine.topology.optimum.numbers import kinds_of, pick, sum_of_largest
from admission.engine.topology.optimum.objective import Figures, Name, Problem, Scale, distinct, mask, pairs

_PRICES = 6
_LEAST_PAIRS = 64
"""Pairs of labels that a candidate takes, about: where the budget has less for each, no search is begun."""
_MANY = 4096
"""More domains than these are not looked through for such as can be left out."""


@dataclass(frozen=True, slots=True)
class Best:
    """Domains of the last level, and how good they are."""

    slots: Ints
    certificate: Certificate


def solve(problem: Problem, budget: int) -> Best:
    """All domains together must hold the need, and no domain of the asked level alone."""
    return _Solver(problem, budget).solve()


class _Solver:
    def __init__(self, problem: Problem, budget: int) -> None:
        self._problem, self._budget = problem, budget
        self._expanded = 0
        below = problem.capacity[problem.asked + 1 :]
        self._flat_below = [_flat(kinds_of(capacity), problem.need) for capacity in below]
        self._below = [0] * len(below)
        self._capacity = problem.capacity[problem.asked]
        kinds = kinds_of(self._capacity)
        top = fewest(kinds, problem.need)
        if top is None:
            raise AssertionError("asked only where there is room")
        self._kinds, self._top = kinds, top
        self._among = np.flatnonzero(self._capacity >= max(1, top.last - top.slack))
        self._few = few(problem, kinds, top, self._among)
        self._bound = self._floor()
        self._slots, self._figures = self._first()

    def solve(self) -> Best:
        if self._figures > self._bound:
            self._narrow()
            self._bound = max(self._bound, self._floor())
        if self._figures > self._bound:
            self._search()
        proof = Proof.OPTIMAL if self._figures <= self._bound else Proof.FEASIBLE
        return Best(self._slots, Certificate(proof, self._figures, self._bound, self._expanded))

    # ---- a quick answer

    def _first(self) -> tuple[Ints, Figures]:
        problem = self._problem
        tried = [self._inside(self._few)]
        if problem.last > problem.asked and not np.array_equal(np.sort(tried[0]), np.sort(self._few.slots)):
            tried.append(self._few.slots)
        answers = [self._down(chosen) for chosen in tried]
        return min(((slots, problem.figures(slots)) for slots in answers), key=lambda answer: answer[1])

    def _inside(self, found: Few) -> Ints:
        """The best numbers in the parents that are open anyway."""
        problem, among = self._problem, self._among
        if problem.asked:
            parent = problem.parent[problem.asked]
            among = among[mask(parent[found.slots], len(problem.capacity[problem.asked - 1]))[parent[among]]]
        return pick(problem, problem.asked, among)

    def _down(self, chosen: Ints) -> Ints:
        """From domains of the asked level to the last: at each level the fewest children that hold the need."""
        problem = self._problem
        for level in range(problem.asked + 1, problem.last + 1):
            chosen = pick(problem, level, _children(problem, level, chosen))
        return chosen

    # ---- what no answer can beat

    def _floor(self) -> Figures:
        """Each figure at its least. Of stranded slices and holes that is what they would be without a tree."""
        problem = self._problem
        above = zip(range(problem.asked, -1, -1), self._few.bound, strict=True)
        least: dict[Name, int] = {("count", level): count for level, count in above}
        _, least["stranded", problem.asked], holes = _flat(self._kinds, problem.need)
        for level, (fewest_here, flat) in enumerate(zip(self._below, self._flat_below, strict=True), problem.asked + 1):
            count, over, _ = flat
            least["count", level] = max(count, fewest_here)
            # What is stranded by the fewest says nothing of what more of them strand.
            least["stranded", level] = over if count >= fewest_here else 0
        return (*(least[name] for name in problem.order), *pairs(holes))

    # ---- the search

    def _narrow(self) -> None:
        """Leave out what no better answer can have: parents that with the best others hold too little. Look below."""
        problem, top = self._problem, self._top
        if problem.asked and len(self._among) <= _MANY:
            parent, capacity = problem.parent[problem.asked][self._among], self._capacity[self._among]
            hold = _best(parent, capacity, len(problem.capacity[problem.asked - 1]), top.k)
            most = np.sort(hold)[::-1]
            kept = hold + most[: self._figures[1] - 1].sum() >= problem.need
            self._among = self._among[kept[parent]]
            self._kinds = kinds_of(self._capacity[self._among])
        if any(name == "count" and level > problem.asked for name, level in self._gap()):
            self._below = self._fewest_below()

    def _gap(self) -> list[Name]:
        """The first figure that is not at its least, if it has a name."""
        figures = zip(self._problem.order, self._figures, self._bound, strict=False)
        return [name for name, figure, bound in figures if figure > bound][:1]

    def _fewest_below(self) -> list[int]:
        """How many domains of each level below k domains need, by what those hold beyond a price for each (few.py)."""
        problem, k = self._problem, self._top.k
        found, size = [], len(self._capacity)
        inside = mask(self._among, size)
        home = np.arange(size)
        for level in range(problem.asked + 1, problem.last + 1):
            home = home[problem.parent[level]]
            slots = np.flatnonzero(inside[home] & (problem.capacity[level] > 0))
            capacity, group = problem.capacity[level][slots], home[slots]
            fewest_here = 0
            for price in kinds_of(capacity).values[:_PRICES]:
                worth = np.bincount(group, weights=np.maximum(capacity - price, 0), minlength=size).astype(np.int64)
                left = problem.need - sum_of_largest(worth, k)
                fewest_here = max(fewest_here, -(-left // price))
            found.append(fewest_here)
        return found

    def _search(self) -> None:
        """Beside the answer that is known, which may give a better one; then everywhere, which proves it."""
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
        candidates = self._candidates(among)
        top = fewest(kinds_of(self._capacity[among]), problem.need)
        if top is None or top.k > self._figures[0]:
            return True
        if sum(map(len, candidates)) * _LEAST_PAIRS > budget:
            return False
        widest = max(int(self._capacity.sum()), sum(map(len, candidates)))
        values = {*self._capacity[among].tolist(), *self._capacity[problem.opened(self._slots)[problem.asked]].tolist()}
        scale = Scale(problem, values, widest)
        labels = Labels(problem, scale, top, candidates, self._least(), scale.cost(problem, self._slots), budget)
        found = labels.run()
        self._expanded += labels.expanded
        if found is not None:
            self._slots, self._figures = found, problem.figures(found)
        return not labels.spent

    def _least(self) -> list[int]:
        """By level the fewest domains of an answer that is better than what is known."""
        least = [1] * len(self._problem.capacity)
        for (name, level), bound, figure in zip(self._problem.order, self._bound, self._figures, strict=False):
            if name == "count":
                least[level] = bound
            if figure > bound:
                break
        return least

    def _candidates(self, among: Ints) -> list[Ints]:
        """Per level what lies above and below these domains of the asked level, and can hold something."""
        problem = self._problem
        found = [among]
        for level in range(problem.asked, 0, -1):
            found.insert(0, distinct(problem.parent[level][found[0]], len(problem.capacity[level - 1])))
        for level in range(problem.asked + 1, problem.last + 1):
            found.append(_children(problem, level, found[-1]))
        return found


def _flat(kinds: Kinds, need: int) -> tuple[int, int, dict[int, int]]:
    """Without a tree: how many domains, stranded there, and how many of each capacity."""
    top = fewest(kinds, need)
    if top is None:
        raise AssertionError("every level holds what the asked one holds")
    solved = Flat(kinds, top).solve()
    return (top.k, 0, {}) if solved is None else (top.k, *solved)


def _children(problem: Problem, level: int, parents: Ints) -> Ints:
    """Those that can hold something."""
    inside = mask(parents, len(problem.capacity[level - 1]))
    return np.flatnonzero(inside[problem.parent[level]] & (problem.capacity[level] > 0))


def _best(group: Ints, capacity: Ints, size: int, k: int) -> Ints:
    """What the k largest of each group hold."""
    order = np.lexsort((-capacity, group))
    ordered = group[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    kept = order[rank < k]
    return np.bincount(group[kept], weights=capacity[kept], minlength=size).astype(np.int64)
