"""Finds the best answer on a tree of candidates by label setting: dynamic programming over domains from the bottom up.

A label gives the slices that some opened domains of one subtree hold, and their cost. A label dominates another label of
its subtree if it holds no less and costs no more, since the rest of an answer costs the same with both. So a subtree keeps
a Pareto front, on which holding more costs more. The labels of a subtree are the sums of its children's labels, one child
after the other; then every label except the empty one also opens the subtree's own domain.

A label is dropped if it cannot become a better answer than the known one: either its cheapest completion (by a lower bound
of the domains of each level) costs as much, or it wastes too much capacity. An answer opens k domains of the requested
level and may fall short of the k largest by at most the slack (subset_sum.py). So the sum of capacity - t over a label's
domains must not fall short of the same sum over all visited domains larger than t by more than the slack.

The budget counts pairs of labels. When it is spent, the best answer found so far is returned unproved. Called by solver.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from admission.engine.topology.exact.budget import BudgetSpent
from admission.engine.topology.exact.optimum.objective import FigureScale, Problem
from admission.engine.topology.exact.optimum.subset_sum import Top
from admission.engine.topology.exact.optimum.trees import Choice, families, leaves
from admission.engine.topology.tree.level import Ints

Label = tuple[int, int, "Choice | int"]
"""(slices held, cost, the chosen domains of the last level)."""

_EMPTY: Label = (0, 0, None)


class LabelSearch:
    """One search. `candidates` are slots by level; `least` is a lower bound of the domains that an answer opens, by level.

    `known` is the cost of the known answer, `budget` the number of label pairs to examine. After `run`, `expanded` is the
    number examined, and `spent` is set if the budget ended the search.
    """

    def __init__(
        self,
        problem: Problem,
        scale: FigureScale,
        top: Top,
        candidates: Sequence[Ints],
        least: Sequence[int],
        cost: int,
        budget: int,
    ) -> None:
        self._problem, self._scale, self._top = problem, scale, top
        self._capacity = [
            dict(zip(slots.tolist(), problem.capacity[level][slots].tolist(), strict=True))
            for level, slots in enumerate(candidates)
        ]
        self._children = families(problem, candidates)
        self._over = self._over_edge(candidates)
        self._sums = [np.cumsum(-np.sort(-problem.capacity[at][slots])).tolist() for at, slots in enumerate(candidates)]
        floor = [least[at] * scale.count(at) + problem.need * scale.stranded(at) for at in range(len(candidates))]
        self._fixed = [sum(floor[:level]) for level in range(len(candidates) + 1)]
        self._rests: list[dict[int, int | None]] = [{} for _ in range(len(candidates) + 1)]
        self._known = cost
        self._budget = budget
        self._requested_unit = scale.count(problem.requested)
        self.best: Choice | int = None
        self.expanded = 0
        self.spent = False

    def run(self) -> Ints | None:
        """Returns domains of the last level that cost less than the known answer; None if none were found."""
        try:
            self._merged(0, -1, 0)
        except BudgetSpent:
            self.spent = True
        return None if self.best is None else np.array(sorted(leaves(self.best)), dtype=np.int64)

    def _over_edge(self, candidates: Sequence[Ints]) -> list[dict[int, int]]:
        """Returns, by level down to the requested one and slot, the sum of capacity - t over domains inside larger than t."""
        problem, requested = self._problem, self._problem.requested
        slots = candidates[requested]
        over = np.zeros(len(problem.capacity[requested]), dtype=np.int64)
        over[slots] = np.maximum(problem.capacity[requested][slots] - self._top.last, 0)
        over_levels = [dict(zip(slots.tolist(), over[slots].tolist(), strict=True))]
        for level in range(requested, 0, -1):
            size = len(problem.capacity[level - 1])
            over = np.bincount(problem.parent[level], weights=over, minlength=size).astype(np.int64)
            slots = candidates[level - 1]
            over_levels.insert(0, dict(zip(slots.tolist(), over[slots].tolist(), strict=True)))
        return over_levels

    def _merged(self, level: int, parent: int, above: int) -> list[Label]:
        """Returns the labels of a domain's children together. `level` is that of the children, `above` the cost of opening
        their ancestors.
        """
        merged = [_EMPTY]
        over = -self._top.slack
        for slot in self._children[level].get(parent, ()):
            merged = self._added(merged, self._labels(level, slot, above), level, above)
            if level <= self._problem.requested:
                over += self._over[level][slot]
                merged = [label for label in merged if self._within_slack(label, over)]
        return merged

    def _within_slack(self, label: Label, least: int) -> bool:
        """Reports whether the sum of capacity - t over the label's domains is at least `least`."""
        held, cost, _ = label
        return held - self._top.last * (cost // self._requested_unit) >= least

    def _labels(self, level: int, slot: int, above: int) -> list[Label]:
        capacity = self._capacity[level][slot]
        opening = self._scale.domain(level, capacity)
        if level == self._problem.last:
            return [(capacity, opening, slot)]
        inside = self._merged(level + 1, slot, above + opening)
        return [(held, cost + opening, choice) for held, cost, choice in inside if held]

    def _added(self, labels: list[Label], more: list[Label], level: int, above: int) -> list[Label]:
        self.expanded += len(labels) * len(more)
        if self.expanded > self._budget:
            raise BudgetSpent
        need = self._problem.need
        best: dict[int, Label] = {label[0]: label for label in labels}
        for held, cost, choice in more:
            for before, paid, chosen in labels:
                total, price = held + before, cost + paid
                if total >= need:
                    if price + above < self._known:
                        self._known, self.best = price + above, choice if chosen is None else (chosen, choice)
                    break
                other = best.get(total)
                if other is None or price < other[1]:
                    best[total] = total, price, choice if chosen is None else (chosen, choice)
        return self._pareto_front(best, level)

    def _pareto_front(self, best: dict[int, Label], level: int) -> list[Label]:
        kept: list[Label] = []
        cheapest: int | None = None
        need, known, fixed = self._problem.need, self._known, self._fixed[level]
        rests = self._rests[level]
        for held in sorted(best, reverse=True):
            label = best[held]
            if cheapest is not None and label[1] >= cheapest:
                continue
            cheapest = label[1]
            missing = need - held
            if missing not in rests:
                rests[missing] = self._rest(level, missing)
            rest = rests[missing]
            if held == 0 or (rest is not None and label[1] + rest + fixed < known):
                kept.append(label)
        kept.reverse()
        return kept

    def _rest(self, level: int, missing: int) -> int | None:
        """Returns a lower bound of the cost of holding `missing` slices more; None if all domains together cannot."""
        cost = 0
        for at in range(level, self._problem.last + 1):
            more = bisect_left(self._sums[at], missing)
            if more == len(self._sums[at]):
                return None
            cost += (more + 1) * self._scale.count(at) + missing * self._scale.stranded(at)
        return cost
