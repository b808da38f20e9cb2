"""The best answer on a tree of candidates, by dynamic programming over domains from the bottom up.

A label says: this much can be held by opening these domains of one subtree, at this cost. Of two labels of a subtree the one
that holds no less and costs no more will do in every whole answer, since what else is opened costs the same beside both; so a
subtree keeps a staircase: holding more costs more. A subtree's labels are its children's, added up one child after the
other; then the subtree's own domain is opened for all but the empty one. A label is dropped when it cannot become a better
answer than the one that is known: when even the cheapest rest that could complete it costs as much (so many domains of each
level at least, by the largest); or when it wastes too much. An answer opens k domains of the asked level and may fall short
of the k largest by the slack (flat.py); so what a label's domains hold, each less t, may by the slack fall short of what is
over t in all domains that were looked at.

The budget counts the pairs of labels that are looked at. When it is spent, the best answer found so far stands unproved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from admission.engine.topology.optimum.flat import Top
from admission.engine.topology.optimum.objective import Problem, Scale
from admission.engine.topology.optimum.trees import Choice, families, leaves
from admission.engine.topology.tree.level import Ints

Label = tuple[int, int, "Choice | int"]
"""(slices held, cost, which domains of the last level as a tree of pairs)"""

_EMPTY: Label = (0, 0, None)


class _SpentError(Exception):
    pass


class Labels:
    """One run. `candidates`: slots per level; `least`: of each level the fewest domains that any answer opens."""

    def __init__(
        self,
        problem: Problem,
        scale: Scale,
        top: Top,
        candidates: Sequence[Ints],
        least: Sequence[int],
        known: int,
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
        floor = [least[at] * scale.count(at) + problem.need * scale.room(at) for at in range(len(candidates))]
        self._fixed = [sum(floor[:level]) for level in range(len(candidates) + 1)]
        self._rests: list[dict[int, int | None]] = [{} for _ in range(len(candidates) + 1)]
        self._known = known
        self._budget = budget
        self._asked_unit = scale.count(problem.asked)
        self.best: Choice | int = None
        self.expanded = 0
        self.spent = False

    def run(self) -> Ints | None:
        """Domains of the last level that cost less than what was known, None if none were found."""
        try:
            self._merged(0, -1, 0)
        except _SpentError:
            self.spent = True
        return None if self.best is None else np.array(sorted(leaves(self.best)), dtype=np.int64)

    def _over_edge(self, candidates: Sequence[Ints]) -> list[dict[int, int]]:
        """Per level down to the asked one: what is over t in the domains of the asked level inside."""
        problem, asked = self._problem, self._problem.asked
        slots = candidates[asked]
        over = np.zeros(len(problem.capacity[asked]), dtype=np.int64)
        over[slots] = np.maximum(problem.capacity[asked][slots] - self._top.last, 0)
        found = [dict(zip(slots.tolist(), over[slots].tolist(), strict=True))]
        for level in range(asked, 0, -1):
            size = len(problem.capacity[level - 1])
            over = np.bincount(problem.parent[level], weights=over, minlength=size).astype(np.int64)
            slots = candidates[level - 1]
            found.insert(0, dict(zip(slots.tolist(), over[slots].tolist(), strict=True)))
        return found

    def _merged(self, level: int, parent: int, above: int) -> list[Label]:
        """What the children of a domain can hold together. `level`: theirs; `above`: what opening their ancestors costs."""
        found = [_EMPTY]
        over = -self._top.slack
        for slot in self._children[level].get(parent, ()):
            found = self._added(found, self._labels(level, slot, above), level, above)
            if level <= self._problem.asked:
                over += self._over[level][slot]
                found = [label for label in found if self._thrifty(label, over)]
        return found

    def _thrifty(self, label: Label, least: int) -> bool:
        """Whether its domains hold at least so much, each less t."""
        held, cost, _ = label
        return held - self._top.last * (cost // self._asked_unit) >= least

    def _labels(self, level: int, slot: int, above: int) -> list[Label]:
        capacity = self._capacity[level][slot]
        opening = self._scale.domain(level, capacity)
        if level == self._problem.last:
            return [(capacity, opening, slot)]
        inside = self._merged(level + 1, slot, above + opening)
        return [(held, cost + opening, choice) for held, cost, choice in inside if held]

    def _added(self, found: list[Label], more: list[Label], level: int, above: int) -> list[Label]:
        self.expanded += len(found) * len(more)
        if self.expanded > self._budget:
            raise _SpentError
        need = self._problem.need
        best: dict[int, Label] = {label[0]: label for label in found}
        for held, cost, choice in more:
            for before, paid, chosen in found:
                total, price = held + before, cost + paid
                if total >= need:
                    if price + above < self._known:
                        self._known, self.best = price + above, choice if chosen is None else (chosen, choice)
                    break
                other = best.get(total)
                if other is None or price < other[1]:
                    best[total] = total, price, choice if chosen is None else (chosen, choice)
        return self._staircase(best, level)

    def _staircase(self, best: dict[int, Label], level: int) -> list[Label]:
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
        """The least that holding so much more costs at this level and below; None: all cannot hold it."""
        cost = 0
        for at in range(level, self._problem.last + 1):
            more = bisect_left(self._sums[at], missing)
            if more == len(self._sums[at]):
                return None
            cost += (more + 1) * self._scale.count(at) + missing * self._scale.room(at)
        return cost
