"""The joint problem: the groups that compete for the nodes of one flavor, and tests whether some of them share a domain.

A group item represents a group in the joint search: its pod sets as packing items, its requested level, and the number of
slices of its largest pod set that each domain of that level holds without other pods. A group with placement constraints is
an item like any other: if its pods do not fit without the constraints, they do not fit with them; but its assignment must
come from the solver for placement constraints.

`holds` tests whether several group items fit into one domain. Results are cached; equivalent domains (the same hosts in the
same domains of the levels that matter) and equal items share one result. joint.py creates a problem for each request;
domain_search.py reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.topology import count
from admission.engine.topology.constraints import Group, ResolvedRequest
from admission.engine.topology.exact.joint.capacity_view import CapacityView, DomainRef, PodShape, free_of
from admission.engine.topology.exact.joint.limits import LimitRow, PackingItem, Vec
from admission.engine.topology.exact.joint.packing import Counts, NodeBudget, NoPacking, pack
from admission.engine.topology.exact.joint.two_shapes import beside
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree

Packing = tuple[list[int], Counts]
"""Rows, and the number of pods of each item on each of them."""

_ONE_PACKING = 10
"""Divisor of the remaining budget that one packing may use."""
_MOST_ROWS = 4_000
_MOST_CELLS = 1 << 18
"""The largest table of two pod shapes in one domain (two_shapes.py) that is computed."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod set of a group: its resolved request (without a leader), and the number of its pods to place."""

    resolved: ResolvedRequest
    pods: int


@dataclass(frozen=True, slots=True)
class GroupItem:
    """A group in the joint search. Slots are given by name."""

    index: int
    group: Group
    items: tuple[int, ...]
    """The indexes of its pod sets' packing items."""
    level: int
    bound: bool
    """Whether the group must be in one domain of its level."""
    alone: Ints
    """The number of slices of its first pod set that fit without other pods, by slot of the level."""
    need: int
    """How many of these slices the group needs."""
    domains: tuple[int, ...]
    """The slots that could hold each pod set by itself."""
    possible: tuple[int, ...]
    """The slots that hold a pod of some pod set."""
    least: int | None
    """A lower bound of the domains that the group needs; None if all domains together do not hold it."""
    kind: int
    """Items of equal kind are interchangeable."""
    own_rules: bool
    """Whether only the solver for placement constraints may place the group."""


Choice = tuple[int, ...]
"""The chosen slots of a group item's level."""
Chosen = tuple[GroupItem, Choice]


@dataclass(frozen=True, slots=True)
class _TwoShapes:
    """Two pod shapes, and the most pods of the second that fit, by the number of pods of the first (two_shapes.py)."""

    shapes: tuple[PodShape, PodShape]
    most: Sequence[int]


class JointProblem:
    """The group items that compete for one flavor's tree as it is now, with a capacity view of the tree."""

    def __init__(self, tree: Tree, groups: Sequence[tuple[Group, Sequence[Member]]], *, simulate_empty: bool) -> None:
        self._tree = tree
        members = [member for _, some in groups for member in some]
        names = sorted({name for member in members for name, amount in member.resolved.request.items() if amount})
        masks = [tree.usable(member.resolved.wants, empty=simulate_empty) for member in members]
        self._items = [_item(member, names) for member in members]
        self._resources = len(names)
        levels = {some[0].resolved.level for _, some in groups}
        requested_levels = levels | {level for item in self._items for level, _ in item.layers}
        free = free_of(tree, names, simulate_empty)
        self.capacity_view = CapacityView(tree, free, [item.vector for item in self._items], masks, requested_levels)
        self._kinds: dict[object, int] = {}
        self._verdicts: dict[object, bool | None] = {}
        self._two_shapes: dict[object, _TwoShapes | None] = {}
        self._capacities: dict[DomainRef, Vec] = {}
        self._pods: list[Ints] = []
        self.group_items = self._group_items(groups, simulate_empty)
        self.demands = [self._demand(group_item) for group_item in self.group_items]
        self.level = max(levels)
        self.single_level = len(levels) == 1

    # ---- group items

    def _group_items(self, groups: Sequence[tuple[Group, Sequence[Member]]], simulate_empty: bool) -> list[GroupItem]:
        group_items, first = [], 0
        for index, (group, members) in enumerate(groups):
            items = tuple(range(first, first + len(members)))
            first += len(members)
            group_items.append(self._group_item(index, group, members, items, simulate_empty))
        return group_items

    def _group_item(
        self, index: int, group: Group, members: Sequence[Member], items: tuple[int, ...], simulate_empty: bool
    ) -> GroupItem:
        leading, level = members[0].resolved, members[0].resolved.level
        counts = [count.Counter(self._tree, m.resolved, simulate_empty=simulate_empty).levels()[level] for m in members]
        self._pods += [fits.pod for fits in counts]
        good = self._tree.levels[level].alive.copy()
        some = np.zeros_like(good)
        for fits, member in zip(counts, members, strict=True):
            good &= fits.slice >= member.resolved.need
            some |= fits.pod > 0
        alone = [(fits.slice, member.resolved.need) for fits, member in zip(counts, members, strict=True)]
        least = [_least(slices, need) for slices, need in alone]
        kind = (
            level,
            leading.required,
            tuple((self._items[item], self.capacity_view.shape_of[item]) for item in items),
        )
        return GroupItem(
            index=index,
            group=group,
            items=items,
            level=level,
            bound=leading.required,
            alone=counts[0].slice,
            need=leading.need,
            domains=tuple(self._tree.levels[level].in_order(np.flatnonzero(good).tolist())),
            possible=tuple(self._tree.levels[level].in_order(np.flatnonzero(some).tolist())),
            least=None if None in least else max(number for number in least if number is not None),
            kind=self._kinds.setdefault(kind, len(self._kinds)),
            own_rules=any(member.resolved.shaped for member in members),
        )

    def _demand(self, group_item: GroupItem) -> Vec:
        """Returns the total request of the group item, in the entries of `CapacityView.capacity`."""
        items = [self._items[item] for item in group_item.items]
        total = [sum(item.count * item.vector[r] for item in items) for r in range(self._resources)]
        for shape in self.capacity_view.shapes:
            alike = [item for item in group_item.items if _within(self.capacity_view.shape_of[item], shape)]
            total.append(sum(self._items[item].count for item in alike))
        return tuple(total)

    def fewest(self) -> int:
        """Returns a lower bound of the number of domains that an answer opens at the requested levels, summed over the items.

        Each item needs at least `least` domains. The items of one level together need at least as many domains as hold all
        their pods, if each pod is replaced by one of a shape that is at most as large. Every item must have a `least`.
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
        """Reports whether all items fit into the domain `place`, each into its chosen domains; None if the budget ended."""
        if self.exceeds(place, chosen):
            return False
        key = self._key(place, chosen)
        if key not in self._verdicts:
            self._verdicts[key] = self._verdict(place, chosen, budget)
        return self._verdicts[key]

    def _verdict(self, place: DomainRef, chosen: Sequence[Chosen], budget: NodeBudget) -> bool | None:
        """Computes `holds`: by counting if all items chose the whole domain, without slices, and have at most two pod shapes;
        otherwise by packing.
        """
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
        """Returns the table of two pod shapes in the domain; None if it would be too large."""
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
        """Reports whether the items together exceed the domain's upper bound `CapacityView.capacity`."""
        return any(
            sum([self.demands[group_item.index][number] for group_item, _ in chosen]) > have
            for number, have in enumerate(self.capacity_view.capacity(place))
        )

    def _tried(self, place: DomainRef, chosen: Sequence[Chosen], budget: NodeBudget) -> bool | None:
        packing = self.packed(place, chosen, budget)
        return None if packing is NoPacking.UNKNOWN else not isinstance(packing, NoPacking)

    def _key(self, place: DomainRef, chosen: Sequence[Chosen]) -> object:
        if _whole(place, chosen):
            return self.capacity_view.signature(place), tuple(sorted([group_item.kind for group_item, _ in chosen]))
        return place, tuple(sorted([(group_item.index, choice) for group_item, choice in chosen]))

    def packed(self, place: DomainRef, chosen: Sequence[Chosen], budget: NodeBudget) -> Packing | NoPacking:
        """Returns a packing of the chosen group items into the domain, or why there is none.

        The packing has the rows that some group item chose, and on each row the pods of each item, in the order of `chosen`.
        """
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
        counts = pack(rows, [self._items[item] for item in order], part)
        budget.left -= part.used
        budget.used += part.used
        return counts if isinstance(counts, NoPacking) else (numbers, counts)

    def _rows_of(self, place: DomainRef, chosen: Sequence[Chosen]) -> list[int]:
        """Returns the rows of the domain that some group item chose, in tree order."""
        if _whole(place, chosen):
            return self.capacity_view.rows(place)
        chains = {(group_item.level, slot) for group_item, choice in chosen for slot in choice}
        return self._tree.rows.in_order({row for one in chains for row in self.capacity_view.rows(one)})

    def spread(self, chosen: Sequence[Chosen], packing: Packing) -> Mapping[int, Mapping[int, int]]:
        """Returns the pods of a packing by item and slot of the lowest level."""
        order = [item for group_item, _ in chosen for item in group_item.items]
        by_domain: dict[int, dict[int, int]] = {item: {} for item in order}
        for number, pattern in zip(*packing, strict=True):
            domain = self.capacity_view.row(number).path[-1]
            for item, pods in zip(order, pattern, strict=True):
                if pods:
                    by_domain[item][domain] = by_domain[item].get(domain, 0) + pods
        return by_domain


def _whole(place: DomainRef, chosen: Sequence[Chosen]) -> bool:
    """Reports whether each group item chose the whole domain."""
    level, slot = place
    return all(group_item.level == level and choice == (slot,) for group_item, choice in chosen)


def _within(first: PodShape, second: PodShape) -> bool:
    """Reports whether a pod of shape `first` uses at least what one of `second` does, and only rows that `second` may use."""
    larger = all(a >= b for a, b in zip(first[0], second[0], strict=True))
    return larger and (second[1] is None or first[1] == second[1])


def _item(member: Member, names: Sequence[str]) -> PackingItem:
    layers = tuple((layer.level, layer.size) for layer in member.resolved.layers if layer.size > 1)
    return PackingItem(tuple(member.resolved.request.get(name, 0) for name in names), member.pods, layers)


def _least(slices: Ints, need: int) -> int | None:
    """Returns how many of the largest domains are needed to hold `need` slices; None if all of them do not."""
    totals = np.cumsum(np.sort(slices)[::-1])
    enough = np.flatnonzero(totals >= need)
    return int(enough[0]) + 1 if len(enough) else None
