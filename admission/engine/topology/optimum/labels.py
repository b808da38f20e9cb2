"""The best answer on a tree of candidates, by dynamic programming over domains from the bottom up.

A label says: this much can be held by opening these domains of one subtree, at this cost. Of two labels of a subtree the one
that holds no less and costs no more will do in every whole answer, since what else is opened costs the same beside both; so a
subtree keeps a staircase: holding more costs more. A subtree's labels are its children's, added up one child after the
other; then the subtree's own domain is opened for all but the empty one. A label is dropped when even the cheapest rest
that could complete it costs as much as an answer that is known: so many domains of each level at least, by the largest.

The budget counts the pairs of labels that are looked at. When it is spent, the best answer found so far stands unproved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from admission.engine.topology.level import Ints
from admission.engine.topology.optimum.objective import Problem, Scale

Choice = tuple["Choice | int", "Choice | int"] | None
Label = tuple[int, int, "Choice | int"]
"""(slices held, cost, which domains of the last level as a tree of pairs)"""

_EMPTY: Label = (0, 0, None)


class _SpentError(Exception):
    pass


class Labels:
    """One run. `candidates`: slots per level; `least`: of each level the fewest domains that any answer opens."""

    def __init__(
        self, problem: Problem, scale: Scale, candidates: Sequence[Ints], least: Sequence[int], known: int, budget: int
    ) -> None:
        self._problem, self._scale = problem, scale
        self._capacity = [
            dict(zip(slots.tolist(), problem.capacity[level][slots].tolist(), strict=True))
            for level, slots in enumerate(candidates)
        ]
        self._children = self._families(candidates)
        self._sums = [np.cumsum(-np.sort(-problem.capacity[at][slots])).tolist() for at, slots in enumerate(candidates)]
        floor = [least[at] * scale.count(at) + problem.need * scale.room(at) for at in range(len(candidates))]
        self._fixed = [sum(floor[:level]) for level in range(len(candidates) + 1)]
        self._rests: list[dict[int, int | None]] = [{} for _ in range(len(candidates) + 1)]
        self._known = known
        self._budget = budget
        self.best: Choice | int = None
        self.expanded = 0
        self.spent = False

    def run(self) -> Ints | None:
        """Domains of the last level that cost less than what was known, None if none were found."""
        try:
            self._merged(0, -1, 0)
        except _SpentError:
            self.spent = True
        return None if self.best is None else np.array(sorted(_leaves(self.best)), dtype=np.int64)

    def _families(self, candidates: Sequence[Ints]) -> list[dict[int, list[int]]]:
        """Per level and parent's slot the children, largest first, then by name; above the widest level there is one."""
        families: list[dict[int, list[int]]] = []
        for level, slots in enumerate(candidates):
            capacity, label = self._problem.capacity[level][slots], self._problem.label[level][slots]
            ordered = slots[np.lexsort((label, -capacity))]
            parents = np.full(len(slots), -1) if level == 0 else self._problem.parent[level][ordered]
            family: dict[int, list[int]] = {}
            for slot, parent in zip(ordered.tolist(), parents.tolist(), strict=True):
                family.setdefault(parent, []).append(slot)
            families.append(family)
        return families

    def _merged(self, level: int, parent: int, above: int) -> list[Label]:
        """What the children of a domain can hold together. `level`: theirs; `above`: what opening their ancestors costs."""
        found = [_EMPTY]
        for slot in self._children[level].get(parent, ()):
            found = self._added(found, self._labels(level, slot, above), level, above)
        return found

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


def _leaves(choice: Choice | int) -> list[int]:
    found: list[int] = []
    stack = [choice]
    while stack:
        one = stack.pop()
        if isinstance(one, tuple):
            stack += one
        elif one is not None:
            found.append(one)
    return found
