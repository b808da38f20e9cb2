"""What can still be better once the numbers are known: k domains of the asked level in at most m parents.

Let p be the price of a domain and v the rent of a parent. A domain is worth c - p; a parent, opened, is worth g - v, where g is
what its domains are worth that are worth more than nothing. So k domains in m parents hold at most U = p * k + v * m + the sum
of g - v over the parents where that is more than nothing. An answer holds U less its losses, each of which is zero or more:
what is left out though worth something, what is taken though worth less than nothing, the rent of parents fewer than m. The
losses of an answer that holds the need are at most L = U - need. With the best price (it is looked for among the capacities)
L is small however large the tree is: most domains and parents are decided at once, and what is left is a small table by
(worth, domains, parents).

Where no answer can leave out a domain below an opened one (all of these hold more than may be stranded), an opened domain costs
what it costs with all below it, and the table gives the best answer. Else the search has fewer domains to look at.
Called by solver.py and tight.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from admission.engine.topology.optimum.flat import Top
from admission.engine.topology.optimum.inside import Inside
from admission.engine.topology.optimum.objective import Problem, Scale
from admission.engine.topology.optimum.trees import Choice, candidates, families, leaves
from admission.engine.topology.tree.level import Ints


class _Way(NamedTuple):
    """One way to open a domain or a subtree: its worth, domains of the asked level, their parents, cost, which domains."""

    worth: int
    domains: int
    parents: int
    cost: int
    choice: Choice | int


_States = dict[tuple[int, int, int], tuple[int, Choice | int]]
"""By worth, domains, parents: the least cost, and which domains."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Price, rent, and L as `most`. `slots`: the domains of the asked level that an answer can still have, so many of them
    `undecided` inside their parent. `worth`: g of each parent, by its slot.
    """

    price: int
    rent: int
    most: int
    slots: Ints
    worth: Ints
    undecided: int

    @classmethod
    def of(cls, inside: Inside, top: Top, need: int, parents: int, near: int) -> Losses:
        """`inside`: of the domains that an answer can have; `parents`: how many at most, of which there is an answer; `near`:
        where the price is looked for first.
        """
        price, worth, bound = inside.cheapest(top, parents, near)
        rent, most = _rent(worth, parents), bound - need
        away = np.maximum(rent - worth, 0).take(inside.parent) + np.maximum(price - inside.capacity, 0)
        kept = (away <= most).nonzero()[0]
        undecided = int(np.count_nonzero(np.abs(inside.capacity.take(kept) - price) <= most))
        return cls(price, rent, most, inside.slots.take(kept), worth, undecided)


def _rent(worth: Ints, parents: int) -> int:
    """Between what the last parent is worth that is opened for the bound and the first that is not: so few can be exchanged."""
    at = len(worth) - parents
    ordered = np.partition(worth, (max(at - 1, 0), at))
    return (int(ordered[at]) + int(ordered[at - 1])) // 2 if at else 0


class _SpentError(Exception):
    pass


def costs(scale: Scale, asked: int, slots: Ints, capacity: Ints, below: Sequence[Ints]) -> dict[int, int]:
    """By slot, of opening a domain of the asked level with all below it; `below`: how many, from the next level on."""
    held, levels = capacity.tolist(), range(asked + 1, asked + 1 + len(below))
    room = sum(scale.room(level) for level in levels)
    opening = {some: scale.domain(asked, some) + some * room for some in set(held)}
    found = [opening[some] for some in held]
    for level, number in zip(levels, below, strict=True):
        count = scale.count(level)
        found = [cost + some * count for cost, some in zip(found, number.tolist(), strict=True)]
    return dict(zip(slots.tolist(), found, strict=True))


@dataclass(frozen=True, slots=True)
class Wanted:
    """An answer of so many domains, in so many parents at most, that holds no more than `waste` beyond the need and costs less
    than `known`, if one is."""

    domains: int
    parents: int
    waste: int
    known: int | None = None


class Table:
    """The best answer where opening a domain of the asked level has a cost of its own: `costs` by slot."""

    def __init__(
        self, problem: Problem, scale: Scale, losses: Losses, costs: Mapping[int, int], wanted: Wanted, budget: int
    ) -> None:
        """`budget`: pairs of a state and a way that may be looked at."""
        self._problem, self._scale, self._losses = problem, scale, losses
        self._costs, self._wanted, self._budget = costs, wanted, budget
        self._worth = losses.worth.tolist()
        own = problem.capacity[problem.asked][losses.slots] - losses.price
        self._own = {
            slot: (max(worth, 0), [_Way(worth, 1, 0, costs[slot], slot)])
            for slot, worth in zip(losses.slots.tolist(), own.tolist(), strict=True)
        }
        self._families = families(problem, candidates(problem, losses.slots))
        sizes = sorted(map(len, self._families[problem.asked].values()), reverse=True)
        self._fewest = wanted.domains - sum(sizes[: wanted.parents - 1])
        self._enough = problem.need - losses.rent * wanted.parents - losses.price * wanted.domains
        self.expanded = 0
        self.spent = False

    def run(self) -> Ints | None:
        """The domains, None where nothing is better (or where it is spent)."""
        losses, wanted, need = self._losses, self._wanted, self._problem.need
        try:
            states = self._merged(0, -1, losses.most)
        except _SpentError:
            self.spent = True
            return None
        known, best = wanted.known, None
        for (worth, domains, parents), (cost, choice) in states.items():
            held = worth + losses.rent * parents + losses.price * domains
            if domains != wanted.domains or not need <= held <= need + wanted.waste:
                continue
            if known is None or cost < known:
                known, best = cost, choice
        return None if best is None else np.array(sorted(leaves(best)), dtype=np.int64)

    def _merged(self, level: int, parent: int, most: int) -> _States:
        """The ways to open some of the children of a domain, that lose no more than `most`; `level`: theirs."""
        children = self._children(level, parent, most)
        decided = next((at for at, (top, ways) in enumerate(children) if len(ways) != 1 or top <= most), len(children))
        best = sum(top for top, _ in children[:decided])
        states = self._all_of([ways[0] for _, ways in children[:decided]], best - most)
        for top, ways in children[decided:]:
            best += top
            floor = best - most
            before = [one for one in states.items() if one[0][2] < self._wanted.parents]
            if top:
                states = {state: found for state, found in states.items() if state[0] >= floor}
            self.expanded += len(before) * len(ways)
            if self.expanded > self._budget:
                raise _SpentError
            for state, (paid, chosen) in before:
                self._join(states, state, paid, chosen, ways, floor)
        return states

    def _all_of(self, ways: Sequence[_Way], floor: int) -> _States:
        """What must be opened, each in the one way that it can; empty where that is too much, or not worth enough."""
        worth = domains = parents = cost = 0
        choice: Choice | int = None
        for way in ways:
            worth, cost = worth + way.worth, cost + way.cost
            domains, parents = domains + way.domains, parents + way.parents
            choice = way.choice if choice is None else (choice, way.choice)
        if worth < floor or domains > self._wanted.domains or parents > self._wanted.parents:
            return {}
        return {(worth, domains, parents): (cost, choice)}

    def _join(
        self,
        states: _States,
        state: tuple[int, int, int],
        paid: int,
        chosen: Choice | int,
        ways: Sequence[_Way],
        floor: int,
    ) -> None:
        """One child more, from the most worth on."""
        worth, domains, parents = state
        wanted, enough = self._wanted, self._enough
        for more, number, opened, cost, choice in ways:
            total = worth + more
            if total < floor:
                return
            if domains + number > wanted.domains or parents + opened > wanted.parents:
                continue
            # No domain comes any more after the last parent.
            last = parents + opened == wanted.parents
            if last and (domains + number < wanted.domains or not enough <= total <= enough + wanted.waste):
                continue
            key = total, domains + number, parents + opened
            other = states.get(key)
            if other is None or paid + cost < other[0]:
                states[key] = paid + cost, choice if chosen is None else (chosen, choice)

    def _children(self, level: int, parent: int, most: int) -> list[tuple[int, list[_Way]]]:
        """Of each child the most that it is worth, and its ways, the most worth first; those that are decided come first.

        Ways worth the same with as many domains can be exchanged: only the cheapest of these are kept, as many as can be taken.
        """
        slots = self._families[level].get(parent, ())
        if level == self._problem.asked - 1:
            slots = self._unlike(slots)
        if level == self._problem.asked:
            children = [self._own[slot] for slot in slots if self._own[slot][1][0].worth >= -most]
        else:
            children = [self._ways(level, slot, most) for slot in slots]
        kept = self._cheapest([ways for _, ways in children], level)
        found = [(top, ways) for (top, _), ways in zip(children, kept, strict=True) if ways or top]
        found.sort(key=lambda child: len(child[1]) + (child[0] <= most))
        return found

    def _unlike(self, parents: Sequence[int]) -> list[int]:
        """Of parents with equal domains in them, as many as there can be."""
        family, costs = self._families[self._problem.asked], self._costs
        seen: Counter[tuple[int, ...]] = Counter()
        kept = []
        for parent in parents:
            look = tuple([costs[slot] for slot in family[parent]])
            seen[look] += 1
            if seen[look] <= self._wanted.parents:
                kept.append(parent)
        return kept

    def _cheapest(self, children: list[list[_Way]], level: int) -> list[list[_Way]]:
        limit = self._wanted.domains if level == self._problem.asked else self._wanted.parents
        if len(children) <= limit:
            return children
        if max(Counter([way[:3] for ways in children for way in ways]).values(), default=0) <= limit:
            return children
        order = sorted((way.cost, at, number) for at, ways in enumerate(children) for number, way in enumerate(ways))
        seen: Counter[tuple[int, int, int]] = Counter()
        kept: list[list[int]] = [[] for _ in children]
        for _, at, number in order:
            way = children[at][number]
            seen[way[:3]] += 1
            if seen[way[:3]] <= limit:
                kept[at].append(number)
        return [[ways[number] for number in sorted(some)] for ways, some in zip(children, kept, strict=True)]

    def _ways(self, level: int, slot: int, most: int) -> tuple[int, list[_Way]]:
        """The most that a domain above is worth, opened or not, and the ways to open it that lose no more than `most`."""
        opening = self._scale.count(level)
        rent, opened = (self._losses.rent, 1) if level == self._problem.asked - 1 else (0, 0)
        top = self._worth[slot] - rent if opened else None
        inside = self._inside(level + 1, slot, most if top is None else most + min(top, 0))
        ways = [
            _Way(worth - rent, domains, parents + opened, cost + opening, choice)
            for (worth, domains, parents), (cost, choice) in inside.items()
            if domains >= max(1, self._fewest)
        ]
        ways.sort(key=lambda way: -way.worth)
        if top is None:
            top = self._tops(level + 1, slot)
        return max(top, 0), ways

    def _inside(self, level: int, parent: int, most: int) -> _States:
        """The same as merged, at once for a parent with one domain, of which only the way to open it matters."""
        slots = self._families[level].get(parent, ())
        if level != self._problem.asked or len(slots) != 1:
            return self._merged(level, parent, most)
        top, (way, *_) = self._own[slots[0]]
        if most < 0 or way.worth < -most:
            return {}
        self.expanded += top <= most
        return {way[:3]: way[3:]}

    def _tops(self, level: int, slot: int) -> int:
        """The most that a domain above the parents is worth; `level`: its children's."""
        some = self._families[level].get(slot, ())
        if level == self._problem.asked - 1:
            return sum(max(self._worth[one] - self._losses.rent, 0) for one in some)
        return sum(self._tops(level + 1, one) for one in some)
