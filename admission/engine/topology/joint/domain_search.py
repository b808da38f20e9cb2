"""Which domain takes which group item: branch and bound over the domains of the requested levels.

Each group item may open a given number of domains at its level: one (always for a required level), several, or any.
Items with one domain come first: always the item with the fewest remaining domains (the largest wins a tie), and only
one of several equivalent domains (the same hosts with the same group items in them). The tightest domain is tried
first. After each step the remaining domains of the other items at the same place are checked again. A branch ends when

- some item has no domain left;
- some items together request more than all their domains together have, resource by resource and, for each pod shape,
  in pods at least that large;
- items of which no two can share a domain outnumber their domains.

A failed state is remembered up to exchanges of equivalent domains and items. Items with several domains then try the
sets of that many domains that hold them; items with any number come last. `open` says afterwards that some branch was
given up without proof, so that "nothing found" proves nothing. Called by joint.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from admission.engine.topology.joint.capacity_view import DomainRef
from admission.engine.topology.joint.packing import NodeBudget
from admission.engine.topology.joint.problem import Choice, Chosen, GroupItem, JointProblem

ANY = 0
"""As the number of domains of a group item: as many as it needs."""

Accept = Callable[[Sequence[Chosen]], bool | None]
"""Whether every item can be placed inside the chosen domains; then the search ends. None: neither placed nor refuted.
"""
Left = dict[int, list[int]]
"""By group item: domains of its level that may still take it."""


class DomainSearch:
    """A search."""

    def __init__(self, problem: JointProblem, numbers: Mapping[int, int], budget: NodeBudget, accept: Accept) -> None:
        """`numbers`: by group item, how many domains of its level it may open."""
        self._problem = problem
        self._capacity_view = problem.capacity_view
        self._numbers = numbers
        self._budget = budget
        self._accept = accept
        self._chosen: list[Chosen] = []
        self._inside: dict[DomainRef, list[Chosen]] = {}
        self._used: dict[DomainRef, int] = {}
        self._free: dict[DomainRef, list[int]] = {}
        self._failed: set[object] = set()
        self._separated: dict[tuple[int, int], bool] = {}
        self._single = [group_item for group_item in problem.group_items if numbers[group_item.index] == 1]
        several = [group_item for group_item in problem.group_items if numbers[group_item.index] != 1]
        self._several = sorted(several, key=lambda one: (numbers[one.index] == ANY, -one.need, one.index))
        self._exchangeable = problem.flat and not several
        self.open = False

    def run(self) -> bool:
        """Reports whether a choice was accepted."""
        return self._next({group_item.index: list(group_item.domains) for group_item in self._single})

    # ---- one domain each

    def _next(self, left: Left) -> bool:
        if not left:
            return self._next_several(0)
        if self._infeasible(left):
            return False
        state = self._state()
        if state is not None and state in self._failed:
            return False
        index = min(left, key=lambda index: (len(left[index]), -self._problem.group_items[index].need, index))
        group_item = self._problem.group_items[index]
        rest = {other: slots for other, slots in left.items() if other != index}
        for slot in self._branches(group_item, left[index]):
            if not self._put(group_item, (slot,)):
                continue
            smaller = self._narrowed(rest, (group_item.level, slot))
            if smaller is not None and self._next(smaller):
                return True
            self._take_back()
            if self._budget.left <= 0:
                self.open = True
                return False
        if state is not None:
            self._failed.add(state)
        return False

    def _state(self) -> object:
        """Returns what matters of the choices so far; None if exchanges are not considered."""
        if not self._exchangeable:
            return None
        return tuple(sorted([self._signature_of(place) for place in self._used if self._inside[place]]))

    def _signature_of(self, place: DomainRef) -> tuple[int, ...]:
        kinds = sorted([group_item.kind for group_item, _ in self._inside.get(place, ())])
        return (self._capacity_view.signature(place), *kinds)

    def _branches(self, group_item: GroupItem, slots: Sequence[int]) -> Iterator[int]:
        """Yields the tightest first, one of several equivalent domains."""
        level = self._capacity_view.tree.levels[group_item.level]
        seen: set[tuple[int, ...]] = set()

        def free(slot: int) -> int:
            inside = self._inside.get((group_item.level, slot), ())
            return int(group_item.alone[slot]) - sum(other.need for other, _ in inside)

        for slot in sorted(slots, key=lambda slot: (free(slot), int(level.label[slot]))):
            shape = self._signature_of((group_item.level, slot))
            if not self._exchangeable:
                shape = (-1, slot) if len(shape) > 1 else (int(level.parent[slot]), *shape)
            if shape not in seen:
                seen.add(shape)
                yield slot

    def _narrowed(self, left: Left, taken: DomainRef) -> Left | None:
        """Returns the domains left for the other items now that this domain is used; None: some item has none."""
        level, slot = taken
        smaller: Left = {}
        for index, slots in left.items():
            group_item = self._problem.group_items[index]
            if group_item.level == level and slot in slots and not self._fits(group_item, (slot,)):
                slots = [one for one in slots if one != slot]
            if not slots:
                return None
            smaller[index] = slots
        return smaller

    # ---- choices

    def _put(self, group_item: GroupItem, choice: Choice) -> bool:
        """Give the item these domains, if everything there still fits."""
        if not self._budget.take():
            self.open = True
            return False
        if not self._fits(group_item, choice):
            return False
        place = self._capacity_view.around(group_item.level, choice)
        self._chosen.append((group_item, choice))
        self._used[place] = self._used.get(place, 0) + 1
        for around in self._capacity_view.chain(place):
            self._inside.setdefault(around, []).append((group_item, choice))
        if self._problem.flat:
            demand = self._problem.demands[group_item.index]
            self._free[place] = [a - b for a, b in zip(self._free_in(place), demand, strict=True)]
        return True

    def _take_back(self) -> None:
        group_item, choice = self._chosen.pop()
        place = self._capacity_view.around(group_item.level, choice)
        self._used[place] -= 1
        for around in self._capacity_view.chain(place):
            self._inside[around].pop()
        if self._problem.flat:
            demand = self._problem.demands[group_item.index]
            self._free[place] = [a + b for a, b in zip(self._free[place], demand, strict=True)]

    def _fits(self, group_item: GroupItem, choice: Choice) -> bool:
        """Reports whether it fits beside everything in this domain, and in each surrounding domain that some item has as a
        whole.
        """
        place = self._capacity_view.around(group_item.level, choice)
        for around in self._capacity_view.chain(place):
            if around == place or self._used.get(around):
                chosen = [*self._inside.get(around, ()), (group_item, choice)]
                holds = self._problem.holds(around, chosen, self._budget)
                self.open |= holds is None
                if not holds:
                    return False
        return True

    # ---- bounds

    def _infeasible(self, left: Left) -> bool:
        if not self._problem.flat:
            return False
        order = sorted(left, key=lambda index: (len(left[index]), index))
        union: set[int] = set()
        free = [0] * len(self._problem.demands[order[0]])
        for index in order:
            more = [slot for slot in left[index] if slot not in union]
            if len(union) + len(more) > 2 * len(order):
                break
            union.update(more)
            for slot in more:
                free = [a + b for a, b in zip(free, self._free_in((self._problem.level, slot)), strict=True)]
            free = [a - b for a, b in zip(free, self._problem.demands[index], strict=True)]
            if min(free) < 0:
                return True
        return self._too_few_domains(left, order)

    def _free_in(self, place: DomainRef) -> Sequence[int]:
        """Free amounts of the domain beside everything that was put there."""
        free = self._free.get(place)
        return self._capacity_view.capacity(place) if free is None else free

    def _too_few_domains(self, left: Left, order: Sequence[int]) -> bool:
        """Reports whether items that each need a domain of their own outnumber their domains."""
        clique: list[int] = []
        union: set[int] = set()
        for index in order:
            if len(left[index]) < len(order) and all(self._incompatible(index, other) for other in clique):
                clique.append(index)
                union.update(left[index])
                if len(union) < len(clique):
                    return True
        return False

    def _incompatible(self, one: int, other: int) -> bool:
        """Reports whether the two can share no domain even if nothing else is there."""
        pair = (min(one, other), max(one, other))
        if pair not in self._separated:
            first, second = (self._problem.group_items[index] for index in pair)
            both = [slot for slot in first.domains if slot in second.domains]
            self._separated[pair] = all(
                self._problem.holds((self._problem.level, slot), [(first, (slot,)), (second, (slot,))], self._budget)
                is False
                for slot in both
            )
        return self._separated[pair]

    # ---- several domains

    def _next_several(self, position: int) -> bool:
        """Items with any number of domains are placed all together at the end."""
        if position == len(self._several) or self._numbers[self._several[position].index] == ANY:
            anywhere = [(group_item, group_item.possible) for group_item in self._several[position:]]
            accepted = self._accept([*self._chosen, *anywhere])
            self.open |= accepted is None
            return bool(accepted)
        group_item = self._several[position]
        for choice in self._sets(group_item):
            if self._put(group_item, choice):
                if self._next_several(position + 1):
                    return True
                self._take_back()
            if self._budget.left <= 0:
                self.open = True
                return False
        return False

    def _sets(self, group_item: GroupItem) -> Iterator[Choice]:
        """Yields the sets of the given number of domains that hold the item while nothing else is there, the roomiest first."""
        slots = sorted(group_item.possible, key=lambda slot: -int(group_item.alone[slot]))
        sizes = [int(group_item.alone[slot]) for slot in slots]
        yield from self._subsets(slots, sizes, 0, self._numbers[group_item.index], group_item.need)

    def _subsets(
        self, slots: Sequence[int], sizes: Sequence[int], start: int, number: int, need: int
    ) -> Iterator[Choice]:
        if number == 0:
            yield ()
            return
        for index in range(start, len(slots) - number + 1):
            if sum(sizes[index : index + number]) < need:
                return
            for rest in self._subsets(slots, sizes, index + 1, number - 1, need - sizes[index]):
                yield (slots[index], *rest)
