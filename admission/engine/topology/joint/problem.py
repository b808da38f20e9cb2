"""The joint problem: the group items that compete for one flavor's nodes, and which of them fit into a domain together.

A group item is a group in the joint search: its pod sets as items, the level at which it wants one domain, and how many
slices of its largest pod set each domain of that level holds while nothing else is there. A request with placement
constraints is an item like any other: what is impossible for its bare pods is impossible for it as well, but an answer
must come from its own solver.

`holds` says whether a set of group items fits into a domain together. It is cached by what matters: equivalent domains
(the same hosts, in the same domains of the levels that matter) and equal items share an answer. joint.py builds one for
each question; domain_search.py reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.topology import count
from admission.engine.topology.constraints import Ask, Group
from admission.engine.topology.joint.capacity_view import CapacityView, DomainRef, PodShape, free_of
from admission.engine.topology.joint.limits import LimitRow, PackingItem, Vec
from admission.engine.topology.joint.packing import Counts, NodeBudget, NoPacking, pack
from admission.engine.topology.joint.two_shapes import beside
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree

Packing = tuple[list[int], Counts]
"""Rows, and for each how many pods of each item."""

_ONE_PACKING = 10
"""Divisor of the remaining budget that one packing may use."""
_MOST_ROWS = 4_000
_MOST_CELLS = 1 << 18
"""Larger tables of two pod shapes in one domain are not computed."""


@dataclass(frozen=True, slots=True)
class Member:
    """A pod set of a group on its own: what it asks (without a leader), and how many of its pods are to be placed."""

    ask: Ask
    pods: int


@dataclass(frozen=True, slots=True)
class GroupItem:
    """A group in the search. `items`: indexes of its pod sets' items. `bound`: must have one domain of the level.

    `alone`: by slot of the level, slices of the largest pod set that fit; it needs `need`. `domains`: slots that hold
    each member alone, by name; `possible`: slots that hold a pod of some member. `least`: a lower bound of the domains
    of the level that it needs; None if all together do not hold it. `kind`: equal for items that could be exchanged.
    `own_rules`: only its own solver may place it.
    """

    index: int
    group: Group
    items: tuple[int, ...]
    level: int
    bound: bool
    alone: Ints
    need: int
    domains: tuple[int, ...]
    possible: tuple[int, ...]
    least: int | None
    kind: int
    own_rules: bool


Choice = tuple[int, ...]
"""Slots of the group item's level."""
Chosen = tuple[GroupItem, Choice]


@dataclass(frozen=True, slots=True)
class _TwoShapes:
    """Two pod shapes, and by pods of the first the most of the second that fit beside them (two_shapes.py)."""

    shapes: tuple[PodShape, PodShape]
    most: Sequence[int]


class JointProblem:
    """One flavor's tree at one moment, and the group items."""

    def __init__(self, tree: Tree, groups: Sequence[tuple[Group, Sequence[Member]]], *, simulate_empty: bool) -> None:
        self._tree = tree
        members = [member for _, some in groups for member in some]
        names = sorted({name for member in members for name, amount in member.ask.request.items() if amount})
        masks = [tree.usable(member.ask.wants, empty=simulate_empty) for member in members]
        self._items = [_item(member, names) for member in members]
        self._resources = len(names)
        levels = {some[0].ask.level for _, some in groups}
        cared = levels | {level for item in self._items for level, _ in item.layers}
        free = free_of(tree, names, simulate_empty)
        self.capacity_view = CapacityView(tree, free, [item.vector for item in self._items], masks, cared)
        self._kinds: dict[object, int] = {}
        self._verdicts: dict[object, bool | None] = {}
        self._two_shapes: dict[object, _TwoShapes | None] = {}
        self._capacities: dict[DomainRef, Vec] = {}
        self._pods: list[Ints] = []
        self.group_items = self._group_items(groups, simulate_empty)
        self.demands = [self._demand(group_item) for group_item in self.group_items]
        self.level = max(levels)
        self.flat = len(levels) == 1

    # ---- group items

    def _group_items(self, groups: Sequence[tuple[Group, Sequence[Member]]], simulate_empty: bool) -> list[GroupItem]:
        found, first = [], 0
        for index, (group, members) in enumerate(groups):
            items = tuple(range(first, first + len(members)))
            first += len(members)
            found.append(self._group_item(index, group, members, items, simulate_empty))
        return found

    def _group_item(
        self, index: int, group: Group, members: Sequence[Member], items: tuple[int, ...], simulate_empty: bool
    ) -> GroupItem:
        speaker, level = members[0].ask, members[0].ask.level
        counts = [count.Counter(self._tree, m.ask, simulate_empty=simulate_empty).levels()[level] for m in members]
        self._pods += [fits.pod for fits in counts]
        good = self._tree.levels[level].alive.copy()
        some = np.zeros_like(good)
        for fits, member in zip(counts, members, strict=True):
            good &= fits.slice >= member.ask.need
            some |= fits.pod > 0
        alone = [(fits.slice, member.ask.need) for fits, member in zip(counts, members, strict=True)]
        least = [_least(slices, need) for slices, need in alone]
        kind = (
            level,
            speaker.required,
            tuple((self._items[item], self.capacity_view.shape_of[item]) for item in items),
        )
        return GroupItem(
            index=index,
            group=group,
            items=items,
            level=level,
            bound=speaker.required,
            alone=counts[0].slice,
            need=speaker.need,
            domains=tuple(self._tree.levels[level].in_order(np.flatnonzero(good).tolist())),
            possible=tuple(self._tree.levels[level].in_order(np.flatnonzero(some).tolist())),
            least=None if None in least else max(number for number in least if number is not None),
            kind=self._kinds.setdefault(kind, len(self._kinds)),
            own_rules=any(member.ask.shaped for member in members),
        )

    def _demand(self, group_item: GroupItem) -> Vec:
        """Returns what it requests, in the units of `capacity`."""
        items = [self._items[item] for item in group_item.items]
        total = [sum(item.count * item.vector[r] for item in items) for r in range(self._resources)]
        for shape in self.capacity_view.shapes:
            alike = [item for item in group_item.items if _within(self.capacity_view.shape_of[item], shape)]
            total.append(sum(self._items[item].count for item in alike))
        return tuple(total)

    def fewest(self) -> int:
        """Returns a lower bound of the domains that an answer opens at the requested levels, summed over the items.

        Each item needs at least its `least`. The items of one level together need at least as many as hold all their
        pods, counted as pods of a shape that is at most as large. Every item must have a `least`.
        """
        return sum(
            self._fewest_of([p for p in self.group_items if p.level == level])
            for level in {p.level for p in self.group_items}
        )

    def _fewest_of(self, group_items: Sequence[GroupItem]) -> int:
        best = sum(group_item.least or 0 for group_item in group_items)
        plain = [item for group_item in group_items for item in group_item.items if not self._items[item].layers]
        for item in {self.capacity_view.shape_of[item]: item for item in plain}.values():
            number = self._resources + self.capacity_view.shapes.index(self.capacity_view.shape_of[item])
            pods = sum(self.demands[group_item.index][number] for group_item in group_items)
            others = sum(
                group_item.least or 0 for group_item in group_items if not self.demands[group_item.index][number]
            )
            best = max(best, others + (_least(self._pods[item], pods) or 0))
        return best

    # ---- which items fit where together

    def holds(self, place: DomainRef, chosen: Sequence[Chosen], budget: NodeBudget) -> bool | None:
        """Reports whether all of them fit into the domain, each into what it chose there; None: unknown within the budget."""
        if self.exceeds(place, chosen):
            return False
        key = self._key(place, chosen)
        if key not in self._verdicts:
            self._verdicts[key] = self._verdict(place, chosen, budget)
        return self._verdicts[key]

    def _verdict(self, place: DomainRef, chosen: Sequence[Chosen], budget: NodeBudget) -> bool | None:
        """By numbers if all pods that may use any part of the domain have one or two shapes; otherwise by packing."""
        pods: Counter[PodShape] = Counter()
        for item in (item for group_item, _ in chosen for item in group_item.items):
            pods[self.capacity_view.shape_of[item]] += self._items[item].count
        if _whole(place, chosen) and not any(
            self._items[item].layers for group_item, _ in chosen for item in group_item.items
        ):
            if len(pods) == 1:
                return True
            if len(pods) == 2 and (room := self._fits_of_two(place, (*pods,), budget)) is not None:
                first, second = room.shapes
                return pods[first] < len(room.most) and room.most[pods[first]] >= pods[second]
        return self._tried(place, chosen, budget)

    def _fits_of_two(self, place: DomainRef, both: Sequence[PodShape], budget: NodeBudget) -> _TwoShapes | None:
        """Returns how many of two shapes fit beside each other; None: too many to count."""
        numbers = [self._resources + self.capacity_view.shapes.index(shape) for shape in both]
        pods = [self.capacity_view.capacity(place)[number] for number in numbers]
        shapes = (both[0], both[1]) if pods <= pods[::-1] else (both[1], both[0])
        key = self.capacity_view.signature(place), shapes
        if key not in self._two_shapes:
            items = [self.capacity_view.shape_of.index(shape) for shape in shapes]
            rows = [self.capacity_view.row(number) for number in self.capacity_view.rows(place)]
            spots = [(row.free, row.allowed[items[0]], row.allowed[items[1]]) for row in rows]
            most, (first, second) = min(pods), (shape[0] for shape in shapes)
            small = (most + len(rows)) * (most + 1) <= _MOST_CELLS
            budget.left -= len(rows) // 8
            self._two_shapes[key] = _TwoShapes(shapes, beside(spots, first, second)) if small else None
        return self._two_shapes[key]

    def exceeds(self, place: DomainRef, chosen: Sequence[Chosen]) -> bool:
        """Reports whether together they request more of something than there is."""
        return any(
            sum([self.demands[group_item.index][number] for group_item, _ in chosen]) > have
            for number, have in enumerate(self.capacity_view.capacity(place))
        )

    def _tried(self, place: DomainRef, chosen: Sequence[Chosen], budget: NodeBudget) -> bool | None:
        found = self.packed(place, chosen, budget)
        return None if found is NoPacking.UNKNOWN else not isinstance(found, NoPacking)

    def _key(self, place: DomainRef, chosen: Sequence[Chosen]) -> object:
        if _whole(place, chosen):
            return self.capacity_view.signature(place), tuple(sorted([group_item.kind for group_item, _ in chosen]))
        return place, tuple(sorted([(group_item.index, choice) for group_item, choice in chosen]))

    def packed(self, place: DomainRef, chosen: Sequence[Chosen], budget: NodeBudget) -> Packing | NoPacking:
        """Rows of the domain that some item chose, and for each row the pods of each item of the group items in order."""
        order = [item for group_item, _ in chosen for item in group_item.items]
        numbers = self._rows_of(place, chosen)
        budget.left -= len(numbers) // 8
        if budget.left <= 0 or len(numbers) > _MOST_ROWS:
            return NoPacking.UNKNOWN
        choices = [(group_item.level, set(choice)) for group_item, choice in chosen for _ in group_item.items]
        rows, whole = [], _whole(place, chosen)
        for row in map(self.capacity_view.row, numbers):
            allowed = tuple([row.allowed[item] for item in order])
            if not whole:
                inside = [row.path[level] in slots for level, slots in choices]
                allowed = tuple([may and ok for may, ok in zip(allowed, inside, strict=True)])
            rows.append(LimitRow(row.free, row.path, allowed))
        part = NodeBudget(max(1, budget.left // _ONE_PACKING))
        found = pack(rows, [self._items[item] for item in order], part)
        budget.left -= part.used
        budget.used += part.used
        return found if isinstance(found, NoPacking) else (numbers, found)

    def _rows_of(self, place: DomainRef, chosen: Sequence[Chosen]) -> list[int]:
        """In tree order."""
        if _whole(place, chosen):
            return self.capacity_view.rows(place)
        chains = {(group_item.level, slot) for group_item, choice in chosen for slot in choice}
        return self._tree.rows.in_order({row for one in chains for row in self.capacity_view.rows(one)})

    def spread(self, chosen: Sequence[Chosen], packing: Packing) -> Mapping[int, Mapping[int, int]]:
        """Returns a packing's pods by item and slot of the lowest level."""
        order = [item for group_item, _ in chosen for item in group_item.items]
        found: dict[int, dict[int, int]] = {item: {} for item in order}
        for number, pattern in zip(*packing, strict=True):
            domain = self.capacity_view.row(number).path[-1]
            for item, pods in zip(order, pattern, strict=True):
                if pods:
                    found[item][domain] = found[item].get(domain, 0) + pods
        return found


def _whole(place: DomainRef, chosen: Sequence[Chosen]) -> bool:
    """Reports whether each of them chose the whole domain."""
    level, slot = place
    return all(group_item.level == level and choice == (slot,) for group_item, choice in chosen)


def _within(one: PodShape, other: PodShape) -> bool:
    """Reports whether a pod of `one` uses at least what a pod of `other` uses, on rows that `other` may use as well."""
    larger = all(a >= b for a, b in zip(one[0], other[0], strict=True))
    return larger and (other[1] is None or one[1] == other[1])


def _item(member: Member, names: Sequence[str]) -> PackingItem:
    layers = tuple((layer.level, layer.size) for layer in member.ask.layers if layer.size > 1)
    return PackingItem(tuple(member.ask.request.get(name, 0) for name in names), member.pods, layers)


def _least(slices: Ints, need: int) -> int | None:
    """Returns how many of the largest domains it takes to hold the need."""
    totals = np.cumsum(np.sort(slices)[::-1])
    enough = np.flatnonzero(totals >= need)
    return int(enough[0]) + 1 if len(enough) else None
