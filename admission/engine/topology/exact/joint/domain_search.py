"""Assignment of group items to domains: branch and bound over the domains of the requested levels.

Each group item may open a given number of domains at its level: one (always for a required level), several, or any.
Items with one domain are assigned first. The search branches on the item with the fewest remaining domains (the largest
wins a tie), tries the tightest domain first, and tries only one of several equivalent domains (the same hosts with the
same group items in them). After each step it checks the remaining domains of the items that could use the same domain.
It cuts a branch when

- an item has no domain left;
- some items together request more than their domains have, in a resource or in pods of at least some shape;
- items that cannot share a domain pairwise outnumber their domains.

Failed states are memoized; states that differ only by an exchange of equivalent domains and items count as the same.
Next, items with several domains try each set of that many domains that could hold them; items with any number of
domains come last. `open` is set if a branch was given up without proof, so that a failed search proves nothing.
Called by joint.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from admission.engine.topology.exact.joint.capacity_view import DomainRef
from admission.engine.topology.exact.joint.packing import NodeBudget
from admission.engine.topology.exact.joint.problem import Choice, Chosen, GroupItem, JointProblem

ANY = 0
"""The number of domains that stands for as many as the group item needs."""

Accept = Callable[[Sequence[Chosen]], bool | None]
"""Callback that returns True if every item was placed inside the chosen domains, which ends the search, False if that is
proved impossible, and None if neither is known."""
Left = dict[int, list[int]]
"""Maps each group item's index to the slots of its level that may still hold the item."""


class DomainSearch:
    """One search over a joint problem with a fixed number of domains for each group item."""

    def __init__(self, problem: JointProblem, numbers: Mapping[int, int], budget: NodeBudget, accept: Accept) -> None:
        """`numbers` maps each group item's index to the number of domains of its level that it may open."""
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
        self._several = sorted(several, key=lambda item: (numbers[item.index] == ANY, -item.need, item.index))
        self._exchangeable = problem.single_level and not several
        self.open = False

    def run(self) -> bool:
        """Reports whether `accept` accepted a choice of domains. False is a proof only if `open` is not set."""
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
        """Returns the key under which the choices so far are memoized; None if items and domains are not exchangeable."""
        if not self._exchangeable:
            return None
        return tuple(sorted([self._signature_of(place) for place in self._used if self._inside[place]]))

    def _signature_of(self, place: DomainRef) -> tuple[int, ...]:
        kinds = sorted([group_item.kind for group_item, _ in self._inside.get(place, ())])
        return (self._capacity_view.signature(place), *kinds)

    def _branches(self, group_item: GroupItem, slots: Sequence[int]) -> Iterator[int]:
        """Yields the domains to try, the tightest first and only one of several equivalent domains."""
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
        """Returns the domains left for the other items after this domain was used; None if an item has no domain left."""
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
        """Assigns these domains to the item. Returns False, without a change, if the items there would not fit."""
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
        if self._problem.single_level:
            demand = self._problem.demands[group_item.index]
            self._free[place] = [a - b for a, b in zip(self._free_in(place), demand, strict=True)]
        return True

    def _take_back(self) -> None:
        group_item, choice = self._chosen.pop()
        place = self._capacity_view.around(group_item.level, choice)
        self._used[place] -= 1
        for around in self._capacity_view.chain(place):
            self._inside[around].pop()
        if self._problem.single_level:
            demand = self._problem.demands[group_item.index]
            self._free[place] = [a + b for a, b in zip(self._free[place], demand, strict=True)]

    def _fits(self, group_item: GroupItem, choice: Choice) -> bool:
        """Reports whether the item fits beside the items in this domain, and in each surrounding domain that an item was
        assigned as a whole.
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
        if not self._problem.single_level:
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
        """Returns the capacity of the domain minus the demands of the items assigned to it."""
        free = self._free.get(place)
        return self._capacity_view.capacity(place) if free is None else free

    def _too_few_domains(self, left: Left, order: Sequence[int]) -> bool:
        """Reports whether some items that cannot share a domain pairwise outnumber their remaining domains."""
        clique: list[int] = []
        union: set[int] = set()
        for index in order:
            if len(left[index]) < len(order) and all(self._incompatible(index, other) for other in clique):
                clique.append(index)
                union.update(left[index])
                if len(union) < len(clique):
                    return True
        return False

    def _incompatible(self, item: int, another: int) -> bool:
        """Reports whether it is proved that the two items can share no domain, even without other items."""
        pair = (min(item, another), max(item, another))
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
        """Assigns the items with several domains from this position on; items with any number are left to `accept`."""
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
        """Yields each set of the given number of domains that could hold the item by itself, the largest domains first."""
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
