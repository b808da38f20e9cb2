"""Computes how much of each flavor and domain is free, used, foreign, held or unusable, and the largest gang that still fits.

For metrics. The amounts of nodes and foreign pods are collected in short steps and kept while neither changes; what workloads
use is read from the tree at the end, in one step. Reads the capacity, changes nothing. controllers/report/capacity_gauges.py
calls it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from admission.engine.model import CPU, PODS
from admission.engine.topology.allocation.capacity import Capacity, parts
from admission.engine.topology.allocation.footprint import Footprint
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values
from admission.engine.topology.usage import Columns, add

_PART: Final = 50
"""Rows or unusable nodes of one step: a millisecond, or ten just after a snapshot, when the process copies each page that it
touches.
"""
MOST_RESOURCES: Final = 8
"""Resources of a flavor that have figures: cpu, then extended resources, then the others, each by name."""
WHOLE_HOST: Final = "whole host"
_MILLI: Final = 1000


class State(StrEnum):
    """The state of an amount of a resource. The states of a flavor add up to what its nodes offer.

    `held` is kept for others: for pods that lose their host, and what the victims of a preemption have freed for a preemptor.
    `unusable` is all that nodes offer which are cordoned or not Ready, whatever still runs there; such nodes are in no domain.
    """

    FREE = "free"
    USED = "used"
    FOREIGN = "foreign"
    HELD = "held"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """The domains of one level: their paths, and by resource and state an amount for each, in the engine's units.

    `gangs` has, by the pod's shape, the pods of the largest gang that fits in one of the domains now.
    """

    level: str
    paths: Sequence[Values]
    amounts: Mapping[str, Mapping[State, Ints]]
    gangs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FlavorFigures:
    """The figures of a flavor: totals by resource and state, and its levels, widest first."""

    totals: Mapping[str, Mapping[State, int]]
    levels: Sequence[LevelFigures]


@dataclass(frozen=True, slots=True)
class _Base:
    """The figures of nodes and foreign pods: amounts by column and row, and by column those of unusable nodes."""

    tree: Tree
    size: int
    generation: int
    offered: Mapping[int, Ints]
    foreign: Mapping[int, Ints]
    unusable: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Domains:
    """The domains of a level."""

    name: str
    size: int
    """The number of slots."""
    ids: Ints
    """The slots of the domains."""
    paths: Sequence[Values]
    slots: Ints
    """The slot of each row."""

    def total(self, of_rows: Ints) -> Ints:
        """Returns the sum of each domain's rows."""
        sums = np.zeros(self.size, dtype=np.int64)
        np.add.at(sums, self.slots, of_rows)
        return sums[self.ids]


class CapacityFigures:
    """Computes the figures of flavors, and remembers what changes seldom."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._bases: dict[str, _Base] = {}

    def of(
        self, flavor: str, held: Iterable[Footprint], reserved: Iterable[Footprint]
    ) -> Generator[None, None, FlavorFigures | None]:
        """Returns the figures of a flavor with a topology; None if its tree changes meanwhile. Yields between two short steps.

        `held` are the footprints of held hosts, which count as used in the tree; `reserved`, those of capacity that is kept
        free. Both are read in the step that reads the tree.
        """
        base = self._bases.get(flavor)
        tree = self._capacity.trees.get(flavor)
        if tree is None:
            self._bases.pop(flavor, None)
            return None
        if base is None or base.tree is not tree or base.generation != self._capacity.base_generation:
            base = yield from self._collected(tree)
            if self._capacity.trees.get(flavor) is not tree or base.size != tree.rows.size:
                return None
            self._bases[flavor] = base
        amounts = _amounts(self._capacity, base, _by_cell(held, flavor), _by_cell(reserved, flavor))
        pods, domains = _pods(base, amounts), list(_domains(tree))
        yield
        names = self._capacity.columns.names
        unusable = {names[column]: amount for column, amount in base.unusable.items()}
        return _figures(domains, amounts, pods, unusable)

    def forget(self, flavor: str) -> None:
        """Forgets a flavor that no longer exists."""
        self._bases.pop(flavor, None)

    def _collected(self, tree: Tree) -> Generator[None, None, _Base]:
        generation, size = self._capacity.base_generation, tree.rows.size
        offered: dict[int, Ints] = {}
        foreign: dict[int, Ints] = {}
        for rows in parts(tree.rows.ids().tolist(), _PART):
            for row in rows:
                # a row that went meanwhile has no members, and one that came is counted next time
                for name in tree.members_now(row):
                    record = self._capacity.nodes[name]
                    for column, amount in record.offers:
                        _at(offered, column, size)[row] += amount
                    for column, amount in record.foreign.items():
                        _at(foreign, column, size)[row] += amount
            yield
        unusable: dict[int, int] = {}
        for names in parts(list(self._capacity.unusable), _PART):
            for name in names:
                node = self._capacity.unusable.get(name)
                if node is not None and tree.shape.accepts(replace(node, usable=True)):
                    add(unusable, self._capacity.nodes[name].offers)
            yield
        return _Base(tree, size, generation, offered, foreign, unusable)


def _at(arrays: dict[int, Ints], column: int, size: int) -> Ints:
    sums = arrays.get(column)
    if sums is None:
        sums = arrays[column] = np.zeros(size, dtype=np.int64)
    return sums


def _by_cell(footprints: Iterable[Footprint], flavor: str) -> dict[int, list[tuple[Ints, Ints]]]:
    """Returns (rows, amounts) by column."""
    cells_of: dict[int, list[tuple[Ints, Ints]]] = {}
    for each in footprints:
        if (cells := each.get(flavor)) is not None:
            for column in np.unique(cells.columns).tolist():
                mask = cells.columns == column
                cells_of.setdefault(column, []).append((cells.rows[mask], cells.amounts[mask]))
    return cells_of


def _summed(cells: Iterable[tuple[Ints, Ints]], size: int) -> Ints:
    total = np.zeros(size, dtype=np.int64)
    for rows, amounts in cells:
        np.add.at(total, rows, amounts)
    return total


def _amounts(
    capacity: Capacity,
    base: _Base,
    held: Mapping[int, Sequence[tuple[Ints, Ints]]],
    reserved: Mapping[int, Sequence[tuple[Ints, Ints]]],
) -> dict[str, dict[State, Ints]]:
    """Returns the amounts of each row, by resource and state."""
    tree, size, names = base.tree, base.tree.rows.size, capacity.columns.names
    amounts: dict[str, dict[State, Ints]] = {}
    for column in shown(capacity.columns, base.offered.keys() | base.unusable.keys()):
        nothing = np.zeros(size, dtype=np.int64)
        foreign = base.foreign.get(column, nothing)
        spare = _summed(held.get(column, ()), size)
        used = np.maximum(tree.used(column) - spare, 0)
        rest = np.maximum(base.offered.get(column, nothing) - foreign - used - spare, 0)
        kept = np.minimum(rest, _summed(reserved.get(column, ()), size))
        amounts[names[column]] = {
            State.FREE: rest - kept,
            State.USED: used,
            State.FOREIGN: foreign,
            State.HELD: spare + kept,
        }
    return amounts


def shown(columns: Columns, offered: Iterable[int]) -> list[int]:
    """Returns the columns that have figures, at most MOST_RESOURCES."""
    names, exclusive = columns.names, columns.exclusive
    wanted = [column for column in offered if column not in exclusive and names[column] != PODS]

    def rank(column: int) -> tuple[bool, bool, str]:
        return names[column] != CPU, "/" not in names[column], names[column]

    return sorted(wanted, key=rank)[:MOST_RESOURCES]


def _pods(base: _Base, amounts: Mapping[str, Mapping[State, Ints]]) -> dict[str, Ints]:
    """Returns how many pods of each shape fit into each row: pods of a whole host, and pods of one unit of a resource.

    A unit of memory says nothing about a gang, so only cpu and extended resources count.
    """
    shapes = {f"1 {name}": each[State.FREE] for name, each in amounts.items() if "/" in name}
    if CPU in amounts:
        shapes[f"1 {CPU}"] = amounts[CPU][State.FREE] // _MILLI
    if base.tree.by_node:
        idle = base.tree.idle()
        for by_state in amounts.values():
            idle &= (by_state[State.FOREIGN] == 0) & (by_state[State.HELD] == 0)
        shapes[WHOLE_HOST] = idle.astype(np.int64)
    return shapes


def _domains(tree: Tree) -> Iterator[_Domains]:
    """Yields the levels, lowest first, with the slot at that level of each row.

    Copies, since nodes may come and go before they are used.
    """
    slots = np.arange(tree.rows.size, dtype=np.int64)
    if tree.rows is not tree.levels[-1]:
        slots = tree.rows.parent[slots]
    for number in range(tree.depth - 1, -1, -1):
        level = tree.levels[number]
        ids = level.ids()
        yield _Domains(tree.shape.levels[number], level.size, ids, [level.paths[slot] for slot in ids.tolist()], slots)
        slots = level.parent[slots]


def _figures(
    domains: Sequence[_Domains],
    amounts: Mapping[str, Mapping[State, Ints]],
    pods: Mapping[str, Ints],
    unusable: Mapping[str, int],
) -> FlavorFigures:
    levels = []
    for level in domains:
        by_resource = {
            name: {state: level.total(each) for state, each in states.items()} for name, states in amounts.items()
        }
        gangs = {shape: int(level.total(each).max(initial=0)) for shape, each in pods.items()}
        levels.append(LevelFigures(level.name, level.paths, by_resource, gangs))
    totals = {
        name: {**{state: int(each.sum()) for state, each in states.items()}, State.UNUSABLE: unusable.get(name, 0)}
        for name, states in amounts.items()
    }
    return FlavorFigures(totals, levels[::-1])
