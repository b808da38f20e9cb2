"""The hosts of the flavors with a topology at one moment, as far as a forecast looks at them. No later event changes them.

Hosts of one lowest domain that look alike and have the same occupants are one group, so that the end of a gang changes one
number for each of its domains. Only requests of waiting workloads are counted (`PodShape`), and only resources that they name.
`HostReader` reads the requests first, then the hosts. Called by inputs.py; rooms.py replays on this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import PlacementRequest
from admission.engine.topology.allocation.simulated_removal import taken
from admission.engine.topology.constraints import Group, ResolvedRequest, build, pod_amounts
from admission.engine.topology.count import rows_below
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.match import Wants
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.usage import Vector

_SHAPES: Final = 64
"""Shapes of pods that are counted on one flavor. Workloads with further ones are forecast by quota alone."""

_STEP: Final = 256
"""Groups of hosts between two pauses."""


@dataclass(frozen=True, slots=True)
class PodShape:
    """Pods of one kind."""

    request: Vector
    """What each requests, as (column, amount)."""
    whole: tuple[int, ...]
    """By chain level, how many pods of a slice stay in one domain."""
    widest: int
    """The first level of the chain that is asked for."""


@dataclass(frozen=True, slots=True)
class GangPlace:
    """What a placement group needs on a flavor. All its pods are in one domain."""

    flavor: str
    levels: tuple[int, ...]
    """The domain is of the first level that has room. Level 0 of the chain is the whole flavor, the last one the single host.
    """
    pods: tuple[tuple[int, int], ...]
    """The shape and the number of pods of each pod set."""
    known: bool
    """Whether a replay sees all that decides about the place."""


HostState = tuple[tuple[int, ...], int]
"""Free amounts by resource that is looked at, and which shapes the host is open to (an index of `FlavorHosts.open`)."""


@dataclass(frozen=True, slots=True)
class FlavorHosts:
    """The hosts of a flavor as groups: the slot of the lowest domain, the number of hosts, the first by name, and the state.

    The chain of levels goes from the whole flavor to the lowest level above the host: `parents` has the slot above by slot
    (empty for the first), `ranks` the order of the domains of equal room. `columns` are the resources in states and shapes.
    `taken` has by workload (group, number in `vectors`): what it uses on each host of the group.
    """

    columns: tuple[int, ...]
    shapes: tuple[PodShape, ...]
    open: tuple[tuple[bool, ...], ...]
    parents: tuple[tuple[int, ...], ...]
    ranks: tuple[tuple[int, ...], ...]
    below: tuple[int, ...]
    sizes: tuple[int, ...]
    firsts: tuple[int, ...]
    states: tuple[HostState, ...]
    taken: dict[str, list[tuple[int, int]]]
    vectors: tuple[Vector, ...]


@dataclass(slots=True)
class _Requests:
    """The shapes that waiting workloads ask of one flavor, with the mask of the hosts that each may use (None: all)."""

    tree: Tree
    size: int
    known: dict[object, int] = field(default_factory=dict)
    shapes: list[PodShape] = field(default_factory=list)
    masks: list[Ints] = field(default_factory=list)


class HostReader:
    """Reads requests, then hosts."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._flavors: dict[str, _Requests] = {}

    # ---- requests

    def place(self, members: Sequence[PlacementRequest]) -> GangPlace | None:
        """Returns the place that pod sets of one placement group need on their flavor; None if they can never be there."""
        flavor = members[0].flavor
        asked, spec = self._flavors.get(flavor), self._ledger.flavors.get(flavor)
        tree = self._ledger.capacity.trees.get(flavor) if asked is None else asked.tree
        if tree is None or spec is None:
            return None
        group = Group.of(list(members))
        resolved = build(tree, spec, group, self._ledger.options)
        if isinstance(resolved, str):
            return None
        if asked is None:
            asked = self._flavors[flavor] = _Requests(tree, tree.rows.size)
        depth, level = len(_chain(tree)), resolved.level + 1
        levels = (
            (level,) if resolved.required else (level, 0) if resolved.unconstrained else tuple(range(level, -1, -1))
        )
        widest = min(levels[-1], depth - 1)
        sliced = PodShape(_request(tree, resolved.request), _whole(resolved, depth, tree), widest)
        pods = [(self._number(asked, resolved, sliced, resolved.wants), resolved.need * resolved.slice_size)]
        beside = [] if resolved.leader is None else [(resolved.leader, resolved.leader_wants or resolved.wants, 1)]
        beside += [(pod_amounts(each.pod_set), resolved.wants, each.count) for each in group.others]
        for amounts, wants, count in beside:
            plain = PodShape(_request(tree, amounts), (1,) * (depth + 1), widest)
            pods.append((self._number(asked, resolved, plain, wants), count))
        needed = tuple([(shape, count) for shape, count in pods if shape is not None])
        if len(needed) < len(pods):
            return GangPlace(flavor, (), (), known=False)
        return GangPlace(flavor, levels, needed, known=_is_known(members, resolved))

    def _number(self, asked: _Requests, resolved: ResolvedRequest, shape: PodShape, wants: Wants) -> int | None:
        """Returns the number of the shape on the hosts that these pods may use; None if there are too many shapes."""
        tree = asked.tree
        if asked.size != tree.rows.size:
            raise LookupError("hosts came or went")
        wants = replace(wants, facts=None, preferred=())
        key = (shape, wants, resolved.within)
        number = asked.known.get(key)
        if number is None and len(asked.shapes) < _SHAPES:
            number = asked.known[key] = len(asked.shapes)
            asked.shapes.append(shape)
            asked.masks.append(_mask(tree, wants, resolved))
        return number

    # ---- hosts

    def hosts(self, keys: Iterable[str], pause: Callable[[], None]) -> dict[str, FlavorHosts]:
        """Returns the hosts of the flavors that were asked for. `keys`: the workloads that may end, and held places.

        Raises LookupError if a tree changed meanwhile so that its numbers mean other hosts.
        """
        if not self._flavors:
            return {}
        vectors: dict[str, dict[str, list[tuple[int, Vector]]]] = {name: {} for name in self._flavors}
        for key in keys:
            for flavor, row, vector in self._taken(key):
                vectors[flavor].setdefault(key, []).append((row, vector))
            pause()
        capacity = self._ledger.capacity
        made = {}
        for name, asked in self._flavors.items():
            if capacity.trees.get(name) is not asked.tree or asked.tree.rows.size != asked.size:
                raise LookupError(f"the tree of flavor {name}")
            made[name] = _hosts(asked, vectors[name], pause)
            pause()
        return made

    def _taken(self, key: str) -> Iterator[tuple[str, int, Vector]]:
        """Yields what the workload takes, with what it holds beside its pods, of the hosts that are looked at."""
        capacity, allocations = self._ledger.capacity, self._ledger.allocations
        for charged in (key, *(hold.key for hold in self._ledger.holds.beside(key))):
            if charged in allocations.by_workload:
                for spot, vector in taken(allocations, capacity, charged):
                    for name in self._flavors:
                        if name in capacity.trees and (row := capacity.row(name, spot)) is not None:
                            yield name, row, vector


def _chain(tree: Tree) -> list[Ints]:
    """Returns the labels of the domains by slot for each level of the chain above the hosts."""
    above = tree.levels if tree.rows is not tree.levels[-1] else tree.levels[:-1]
    return [np.zeros(1, dtype=np.int64), *(level.label for level in above)]


def _request(tree: Tree, amounts: Mapping[str, int]) -> Vector:
    return tuple(sorted(tree.columns.vector({name: amount for name, amount in amounts.items() if amount})))


def _whole(resolved: ResolvedRequest, depth: int, tree: Tree) -> tuple[int, ...]:
    sizes = dict(resolved.inner)
    sizes[resolved.slice_level] = resolved.slice_size
    hidden = tree.rows is not tree.levels[-1]
    return (1, *(1 if hidden and level == depth - 1 else sizes.get(level, 1) for level in range(depth)))


def _mask(tree: Tree, wants: Wants, resolved: ResolvedRequest) -> Ints:
    mask = tree.rows.alive.copy()
    feasible = tree.matcher.feasible(wants, tree.rows.size) if tree.by_node else None
    if feasible is not None:
        mask &= feasible
    if resolved.within is not None:
        level = len(resolved.within) - 1
        mask &= rows_below(tree, level, [tree.levels[level].slots[resolved.within]])
    return mask.astype(np.int64)


def _is_known(members: Sequence[PlacementRequest], resolved: ResolvedRequest) -> bool:
    """Reports whether capacity for the pods alone decides: no constraint, pod term or shared volume, nothing beside them."""
    plain = not any(
        (each.facts is not None and each.facts.has_terms) or each.asks_beside or each.pod_set.gathered
        for each in members
    )
    return plain and not resolved.shaped


def _hosts(asked: _Requests, taken_by: dict[str, list[tuple[int, Vector]]], pause: Callable[[], None]) -> FlavorHosts:
    tree = asked.tree
    columns = tuple(sorted({column for shape in asked.shapes for column, _ in shape.request}))
    rows = tree.rows.in_order(tree.rows.ids().tolist())
    amounts = [
        free[rows] if (free := tree.free(column)) is not None else np.zeros(len(rows), np.int64) for column in columns
    ]
    states, state_of = _distinct(np.array(amounts, dtype=np.int64).reshape(len(columns), len(rows)))
    kinds, kind_of = _distinct(np.array(asked.masks, dtype=np.int64)[:, rows])
    chain = _chain(tree)
    lowest = tree.rows.parent[rows].tolist() if len(chain) > 1 else [0] * len(rows)
    above = [level.parent.tolist() for level in tree.levels[: len(chain) - 1]]
    if above:
        above[0] = [0] * len(above[0])
    ranks = tuple(tuple(each.tolist()) for each in chain)
    pause()
    vectors: dict[Vector, int] = {}
    occupants: list[tuple[tuple[str, int], ...]] = [()] * (max(rows, default=-1) + 1)
    looked_at = frozenset(columns)
    for key, cells in taken_by.items():
        for row, vector in cells:
            number = vectors.get(vector)
            if number is None:
                number = vectors[vector] = len(vectors)
            if row < len(occupants):
                occupants[row] += ((key, number),)
        pause()
    groups: dict[object, int] = {}
    below, sizes, firsts, of_group = list[int](), list[int](), list[int](), list[HostState]()
    taken: dict[str, list[tuple[int, int]]] = {}
    for number, (row, domain, state, kind) in enumerate(zip(rows, lowest, state_of, kind_of, strict=True)):
        here = occupants[row]
        at = (domain, state, kind, here)
        group = groups.get(at)
        if group is not None:
            sizes[group] += 1
            continue
        groups[at] = group = len(below)
        below.append(domain)
        sizes.append(1)
        firsts.append(number)
        of_group.append((states[state], kind))
        for key, amounts_of in here:
            taken.setdefault(key, []).append((group, amounts_of))
        if not group % _STEP:
            pause()
    some = tuple(tuple([cell for cell in vector if cell[0] in looked_at]) for vector in vectors)
    open_to = tuple(tuple(map(bool, kind)) for kind in kinds)
    parents = ((), *map(tuple, above))
    return FlavorHosts(
        columns,
        tuple(asked.shapes),
        open_to,
        parents,
        ranks,
        tuple(below),
        tuple(sizes),
        tuple(firsts),
        tuple(of_group),
        taken,
        some,
    )


def _distinct(table: Ints) -> tuple[list[tuple[int, ...]], list[int]]:
    """Returns the different columns of the table, and the number of the one at each place."""
    number_of: dict[bytes, int] = {}
    columns = np.ascontiguousarray(table.T)
    width = columns.shape[1] * columns.itemsize
    data = columns.tobytes()
    numbers = (
        [number_of.setdefault(data[at : at + width], len(number_of)) for at in range(0, len(data), width)]
        if width
        else []
    )
    different = [tuple(np.frombuffer(one, dtype=np.int64).tolist()) for one in number_of]
    return different or [()], numbers or [0] * len(columns)
