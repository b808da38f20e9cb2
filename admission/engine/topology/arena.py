"""What the groups of one flavor compete for, as small tuples: domains, the hosts in them, and parties that want them.

A party is a group as the joint search sees it: its pod sets as items, the level at which it wants one domain, and how many
slices of its largest pod set each domain of that level holds while nobody else stands there. A request that places pods by
rules of its own (placement constraints) is an item like any other here: what is impossible for its bare pods is impossible
for it as well, but an answer must come from its own solver.

`holds` says whether a set of parties fits into a domain together. It is remembered by what matters: equal domains (the
same hosts, in the same domains where anybody cares) and equal parties share an answer. Built by joint.py for one question;
read by assigning.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.topology.constraints import Ask, Group
from admission.engine.topology.count import Counter
from admission.engine.topology.level import Ints
from admission.engine.topology.packing import Budget, Counts, Item, No, Row, Vec, fit, pack
from admission.engine.topology.tree import Tree

Place = tuple[int, int]
"""(level, slot) of a domain; level -1: the whole tree."""
EVERYWHERE: Place = (-1, 0)

Packing = tuple[list[int], Counts]
"""Rows, and beside each how many pods of each item."""

_ONE_PACKING = 2_000
_MOST_ROWS = 4_000


@dataclass(frozen=True, slots=True)
class Member:
    """A pod set of a group on its own: what it asks (without a leader), and how many of its pods are to be placed."""

    ask: Ask
    pods: int


@dataclass(frozen=True, slots=True)
class Party:
    """A group in the search. `items`: numbers of its pod sets' items. `bound`: must have one domain of the level.

    `alone`: by slot of the level, slices of the largest pod set that fit; `need` of them. `domains`: slots that hold each
    member alone, by name; `possible`: that hold a pod of any member. `least`: no fewer domains of the level can hold it,
    None if all together cannot. `kind`: equal for parties that could be exchanged. `own_rules`: only its own solver may
    place it.
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
"""Slots of the party's level."""
Chosen = tuple[Party, Choice]
Look = tuple[Vec, bytes | None]
"""What one pod takes, and the rows that it may stand on (None: all)."""


@dataclass(frozen=True, slots=True)
class _Lists:
    """By row: what is free of each resource, where each item may stand; and the parents of each level, of the rows last."""

    free: list[list[int]]
    may: list[list[bool] | None]
    parents: list[list[int]]


class Arena:
    """One flavor's tree at one moment, and the parties."""

    def __init__(self, tree: Tree, groups: Sequence[tuple[Group, Sequence[Member]]], *, simulate_empty: bool) -> None:
        self.tree = tree
        self._lists: _Lists | None = None
        self._members = [member for _, members in groups for member in members]
        names = sorted({name for member in self._members for name, amount in member.ask.request.items() if amount})
        self._free = _free(tree, names, simulate_empty)
        self._items = [_item(member, names) for member in self._members]
        self._masks = [tree.matcher.feasible(member.ask.wants, tree.rows.size) for member in self._members]
        self._rows: dict[Place, list[int]] = {}
        self._row: dict[int, Row] = {}
        self._alike: dict[object, int] = {}
        self._signs: dict[Place, int] = {}
        self._verdicts: dict[object, bool | None] = {}
        self._capacities: dict[Place, Vec] = {}
        self._look_of = [self._look(number) for number in range(len(self._items))]
        self._looks = list(dict.fromkeys(self._look_of))
        self.parties = self._parties(groups, simulate_empty)
        self._cared = sorted({p.level for p in self.parties} | {level for i in self._items for level, _ in i.layers})
        self.demands = [self._demand(party) for party in self.parties]
        self.level = next(iter({party.level for party in self.parties}), 0)
        self.flat = all(party.level == self.level for party in self.parties)

    # ---- parties

    def _parties(self, groups: Sequence[tuple[Group, Sequence[Member]]], simulate_empty: bool) -> list[Party]:
        found, first = [], 0
        for index, (group, members) in enumerate(groups):
            items = tuple(range(first, first + len(members)))
            first += len(members)
            found.append(self._party(index, group, members, items, simulate_empty))
        return found

    def _party(
        self, index: int, group: Group, members: Sequence[Member], items: tuple[int, ...], simulate_empty: bool
    ) -> Party:
        speaker, level = members[0].ask, members[0].ask.level
        counts = [Counter(self.tree, m.ask, simulate_empty=simulate_empty).levels()[level] for m in members]
        good = self.tree.levels[level].alive.copy()
        some = np.zeros_like(good)
        for count, member in zip(counts, members, strict=True):
            good &= count.slice >= member.ask.need
            some |= count.pod > 0
        alone = [(count.slice, member.ask.need) for count, member in zip(counts, members, strict=True)]
        least = [_least(slices, need) for slices, need in alone]
        kind = (level, speaker.required, tuple((self._items[item], self._look_of[item]) for item in items))
        return Party(
            index=index,
            group=group,
            items=items,
            level=level,
            bound=speaker.required,
            alone=counts[0].slice,
            need=speaker.need,
            domains=tuple(self.tree.levels[level].in_order(np.flatnonzero(good).tolist())),
            possible=tuple(self.tree.levels[level].in_order(np.flatnonzero(some).tolist())),
            least=None if None in least else max(number for number in least if number is not None),
            kind=self._alike.setdefault(kind, len(self._alike)),
            own_rules=any(member.ask.shaped for member in members),
        )

    def _look(self, item: int) -> Look:
        mask = self._masks[item]
        return self._items[item].vector, None if mask is None else mask.tobytes()

    def _demand(self, party: Party) -> Vec:
        """In the units of `capacity`."""
        items = [self._items[item] for item in party.items]
        total = [sum(item.count * item.vector[r] for item in items) for r in range(len(self._free))]
        for look in self._looks:
            alike = [item for item in party.items if _within(self._look_of[item], look)]
            total.append(sum(self._items[item].count for item in alike))
        return tuple(total)

    # ---- domains

    def chain(self, place: Place) -> list[Place]:
        """The domain and all around it."""
        level, slot = place
        found = []
        while level >= 0:
            found.append((level, slot))
            slot, level = int(self.tree.levels[level].parent[slot]), level - 1
        return [*found, EVERYWHERE]

    def around(self, level: int, choice: Choice) -> Place:
        """The smallest domain that has all the chosen ones in it."""
        slots = set(choice)
        if not slots:
            return EVERYWHERE
        while len(slots) > 1:
            slots = {int(self.tree.levels[level].parent[slot]) for slot in slots} if level > 0 else {0}
            level -= 1
        return (level, slots.pop()) if level >= 0 else EVERYWHERE

    def rows(self, place: Place) -> list[int]:
        """The counting rows in the domain, in the order of the tree."""
        if place not in self._rows:
            self._rows[place] = self.tree.rows.in_order(self._below(place))
        return self._rows[place]

    def _below(self, place: Place) -> list[int]:
        level, slot = place
        if level < 0:
            found: list[int] = self.tree.rows.ids().tolist()
            return found
        slots = [slot]
        chain = self.tree.levels[level:] if self.tree.shape.hidden_nodes else self.tree.levels[level:-1]
        for depth in chain:
            slots = [child for one in slots for child in depth.children[one]]
        return slots

    def row(self, row: int) -> Row:
        """What a row offers."""
        found = self._row.get(row)
        if found is None:
            lists = self._read()
            free = tuple([column[row] for column in lists.free])
            allowed = tuple([may is None or may[row] for may in lists.may])
            found = self._row[row] = Row(free, self._path(row), allowed)
        return found

    def _read(self) -> _Lists:
        """The arrays as lists, from which single cells are quicker to have."""
        if self._lists is None:
            may = [None if mask is None else mask.tolist() for mask in self._masks]
            parents = [level.parent.tolist() for level in (*self.tree.levels, self.tree.rows)]
            self._lists = _Lists([column.tolist() for column in self._free], may, parents)
        return self._lists

    def _path(self, row: int) -> Vec:
        """Slots from the widest domain down to the lowest level's."""
        parents, slot, path = self._read().parents, row, []
        if self.tree.shape.hidden_nodes:
            slot = parents[-1][slot]
        for level in range(self.tree.depth - 1, -1, -1):
            path.append(slot)
            slot = parents[level][slot]
        path.reverse()
        return tuple(path)

    def sign(self, place: Place) -> int:
        """Equal for domains that are as good as each other, whoever stands in them."""
        if place not in self._signs:
            level, slot = place
            looks: object
            if any(cared > level for cared in self._cared) and 0 <= level < self.tree.depth - 1:
                looks = tuple(sorted(self.sign((level + 1, child)) for child in self.tree.levels[level].children[slot]))
            else:
                rows = [self.row(row) for row in self.rows(place)]
                looks = tuple(sorted([(row.free, row.allowed) for row in rows]))
            self._signs[place] = self._alike.setdefault((level, looks), len(self._alike))
        return self._signs[place]

    def capacity(self, place: Place) -> Vec:
        """At most: what is free of each resource, then for each look how many pods of it (or larger ones) fit."""
        if place == EVERYWHERE:
            return self._everywhere()
        if place not in self._capacities:
            rows = [self.row(row) for row in self.rows(place)]
            total = [sum(row.free[r] for row in rows) for r in range(len(self._free))]
            for look in self._looks:
                item = self._look_of.index(look)
                total.append(sum(fit(row.free, look[0]) for row in rows if row.allowed[item]))
            self._capacities[place] = tuple(total)
        return self._capacities[place]

    def _everywhere(self) -> Vec:
        total = [int(column.sum()) for column in self._free]
        for (vector, _), mask in zip(
            self._looks, map(self._masks.__getitem__, map(self._look_of.index, self._looks)), strict=True
        ):
            fits = np.minimum.reduce([column // want for column, want in zip(self._free, vector, strict=True) if want])
            total.append(int((fits if mask is None else fits[mask]).sum()))
        return tuple(total)

    # ---- who fits where together

    def holds(self, place: Place, chosen: Sequence[Chosen], budget: Budget) -> bool | None:
        """Whether all of them fit into the domain, each into what it chose there; None: not known within the budget."""
        if self.exceeds(place, chosen):
            return False
        key = self._key(place, chosen)
        if key not in self._verdicts:
            self._verdicts[key] = True if self._counted(place, chosen) else self._tried(place, chosen, budget)
        return self._verdicts[key]

    def exceeds(self, place: Place, chosen: Sequence[Chosen]) -> bool:
        """Whether together they ask for more of something than there is."""
        return any(
            sum([self.demands[party.index][number] for party, _ in chosen]) > have
            for number, have in enumerate(self.capacity(place))
        )

    def _counted(self, place: Place, chosen: Sequence[Chosen]) -> bool:
        """Whether all pods look alike and may stand anywhere in the domain, so that counting them is all there is to it."""
        items = [item for party, _ in chosen for item in party.items]
        alike = len({self._look_of[item] for item in items}) == 1
        return alike and _whole(place, chosen) and not any(self._items[item].layers for item in items)

    def _tried(self, place: Place, chosen: Sequence[Chosen], budget: Budget) -> bool | None:
        found = self.packed(place, chosen, budget)
        return None if found is No.UNKNOWN else not isinstance(found, No)

    def _key(self, place: Place, chosen: Sequence[Chosen]) -> object:
        if _whole(place, chosen):
            return self.sign(place), tuple(sorted([party.kind for party, _ in chosen]))
        return place, tuple(sorted([(party.index, choice) for party, choice in chosen]))

    def packed(self, place: Place, chosen: Sequence[Chosen], budget: Budget) -> Packing | No:
        """Rows of the domain that somebody chose, and for each the pods of each item of the parties in their order."""
        order = [item for party, _ in chosen for item in party.items]
        numbers = self._rows_of(place, chosen)
        budget.left -= len(numbers) // 8
        if budget.left <= 0 or len(numbers) > _MOST_ROWS:
            return No.UNKNOWN
        choices = [(party.level, set(choice)) for party, choice in chosen for _ in party.items]
        rows, whole = [], _whole(place, chosen)
        for row in map(self.row, numbers):
            allowed = tuple([row.allowed[item] for item in order])
            if not whole:
                inside = [row.path[level] in slots for level, slots in choices]
                allowed = tuple([may and ok for may, ok in zip(allowed, inside, strict=True)])
            rows.append(Row(row.free, row.path, allowed))
        part = Budget(min(_ONE_PACKING, budget.left))
        found = pack(rows, [self._items[item] for item in order], part)
        budget.left -= part.used
        budget.used += part.used
        return found if isinstance(found, No) else (numbers, found)

    def _rows_of(self, place: Place, chosen: Sequence[Chosen]) -> list[int]:
        """In the order of the tree."""
        if _whole(place, chosen):
            return self.rows(place)
        chains = {(party.level, slot) for party, choice in chosen for slot in choice}
        return self.tree.rows.in_order({row for one in chains for row in self.rows(one)})

    def spread(self, chosen: Sequence[Chosen], packing: Packing) -> Mapping[int, Mapping[int, int]]:
        """A packing's pods by item and slot of the lowest level."""
        order = [item for party, _ in chosen for item in party.items]
        found: dict[int, dict[int, int]] = {item: {} for item in order}
        for number, pattern in zip(*packing, strict=True):
            domain = self.row(number).path[-1]
            for item, pods in zip(order, pattern, strict=True):
                if pods:
                    found[item][domain] = found[item].get(domain, 0) + pods
        return found


def _whole(place: Place, chosen: Sequence[Chosen]) -> bool:
    """Whether each of them chose the whole domain."""
    level, slot = place
    return all(party.level == level and choice == (slot,) for party, choice in chosen)


def _within(one: Look, other: Look) -> bool:
    """Whether a pod of the one look takes at least what one of the other takes, on rows where that may stand as well."""
    larger = all(a >= b for a, b in zip(one[0], other[0], strict=True))
    return larger and (other[1] is None or one[1] == other[1])


def _item(member: Member, names: Sequence[str]) -> Item:
    layers = tuple((layer.level, layer.size) for layer in member.ask.layers if layer.size > 1)
    return Item(tuple(member.ask.request.get(name, 0) for name in names), member.pods, layers)


def _free(tree: Tree, names: Iterable[str], simulate_empty: bool) -> list[Ints]:
    """By resource and row what is free; zeros for a resource that no row ever had."""
    found: list[Ints] = []
    for name in names:
        column = tree.columns.index.get(name)
        free = None if column is None else tree.free(column)
        if column is None or free is None:
            found.append(np.zeros(tree.rows.size, dtype=np.int64))
        else:
            found.append(np.maximum(free + tree.used(column) if simulate_empty else free, 0))
    return found


def _least(slices: Ints, need: int) -> int | None:
    """How many of the largest domains it takes to hold the need."""
    totals = np.cumsum(np.sort(slices)[::-1])
    enough = np.flatnonzero(totals >= need)
    return int(enough[0]) + 1 if len(enough) else None
