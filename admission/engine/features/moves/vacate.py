"""Plans the moves that make a whole domain of a level free of workloads: the cheapest domain that can be made free.

All workloads with pods in the domain move, or none. Their new places are free while the old ones are in use, as for a gang
(new_places.py), and in other domains that are in use: in one without workloads, one free domain would be exchanged for another.
Pods that no Workload counts, such as those of DaemonSets, stay. So each plan makes one more domain free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from admission.engine.features.moves.free_hosts import slots_at
from admission.engine.features.moves.movers import Mover, Movers, movers_of
from admission.engine.features.moves.new_places import NewPlaces, PlacesOfAll
from admission.engine.features.moves.plan import PlanOptions
from admission.engine.features.moves.plans import MovePlan, NoPlan, NoPlanReason
from admission.engine.features.moves.search import PLACEMENT, BestMoves, MoveCost
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import HOSTNAME_LABEL
from admission.engine.topology.allocation.footprint import SparseAmounts
from admission.engine.topology.assignments.on_hosts import on_hosts
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values


def vacate(
    ledger: Ledger, flavor: str, level: str, now: float, options: PlanOptions | None = None, *, least: int = 1
) -> MovePlan | NoPlan:
    """Returns the cheapest moves found that make a domain of the level free, or why there are none. `now`: epoch seconds.

    Only domains of at least `least` hosts count.
    """
    options = options or PlanOptions()
    tree = ledger.capacity.trees.get(flavor)
    number = None if tree is None else tree.level_of(level)
    if tree is None or number is None:
        return NoPlan(NoPlanReason.NEVER, f"flavor {flavor} has no level {level}")
    movers = movers_of(ledger, now, options.left, bound=options.bound, pause=options.pause)
    stays = movers.staying(ledger, {flavor})
    hosts, users = _rows(tree, number), _users(ledger, tree, flavor, number, options.pause)
    unused = [row for slot, rows in hosts.items() if slot not in users and len(rows) >= least for row in rows]
    best, new_places = BestMoves(options.budget), NewPlaces(ledger, (), options.pause, {flavor: _free_in(tree, unused)})
    domain: Values = ()
    for cost, path, inside in _candidates(tree, number, users, movers, options):
        rows = hosts.get(tree.levels[number].slots[path], [])
        if len(rows) < least:
            continue
        options.pause()
        if not best.beaten_by(cost):
            break
        if best.spent:
            best.floors.append(cost)
            break
        before = new_places.placements
        names = _hosts(ledger, tree, rows)
        places = new_places.find([_elsewhere(mover, names) for mover in inside])
        best.expanded += 1 + PLACEMENT * (new_places.placements - before)
        if isinstance(places, PlacesOfAll):
            best.cost, best.places, domain = cost, places, path
        else:
            best.floors.append(cost)
    if best.places is not None:
        return MovePlan(best.places.moves, best.certificate(), domain=domain)
    if best.spent:
        text = f"the search ended at its budget before it found moves for a domain of {level}"
        return NoPlan(NoPlanReason.BUDGET, text, stays, best.expanded)
    if best.floors:
        text = f"for no domain of {level} do other domains in use have places for all workloads in it"
        return NoPlan(NoPlanReason.NO_OTHER_PLACE, text, stays, best.expanded)
    text = f"every domain of {level} is free of workloads or has one that may not be moved"
    return NoPlan(NoPlanReason.NOT_MOVABLE, text, stays)


def _candidates(
    tree: Tree, number: int, users: Mapping[int, Collection[str]], movers: Movers, options: PlanOptions
) -> Iterator[tuple[MoveCost, Values, Sequence[Mover]]]:
    """Yields the domains that are used by movable workloads alone, cheapest first, then by path."""
    level, candidates = tree.levels[number], []
    for slot, keys in users.items():
        options.pause()
        if all(key in movers.by_key for key in keys):
            some = [movers.by_key[key] for key in sorted(keys)]
            if _allowed(some, options.left):
                candidates.append(((sum(mover.cost for mover in some), len(some)), level.paths[slot], some))
    yield from sorted(candidates, key=lambda each: each[:2])


def _rows(tree: Tree, number: int) -> dict[int, list[int]]:
    """Returns the rows of each domain of the level, by the domain's slot."""
    slots, rows = slots_at(tree, number), dict[int, list[int]]()
    for row in tree.rows.ids().tolist():
        rows.setdefault(slots[row], []).append(row)
    return rows


def _users(ledger: Ledger, tree: Tree, flavor: str, number: int, pause: Callable[[], None]) -> dict[int, set[str]]:
    """Returns the workloads with pods in each domain of the level, by the domain's slot."""
    slots, users = slots_at(tree, number), dict[int, set[str]]()
    for key in list(ledger.admissions):
        pause()
        cells = ledger.footprint(key).get(flavor) if key in ledger.admissions else None
        for row in () if cells is None else set(cells.rows.tolist()):
            users.setdefault(slots[row], set()).add(key)
    return users


def _free_in(tree: Tree, rows: Sequence[int]) -> SparseAmounts:
    """Returns what is free in these rows, of all resources that are amounts."""
    some = np.array(rows, dtype=np.int64)
    counted = (column for column in sorted(tree.columns.index.values()) if column not in tree.columns.exclusive)
    columns_and_free = [(column, free[some]) for column in counted if (free := tree.free(column)) is not None]
    columns = np.repeat(np.array([column for column, _ in columns_and_free], dtype=np.int64), len(some))
    amounts = np.concatenate([some[:0], *(np.maximum(free, 0) for _, free in columns_and_free)])
    return SparseAmounts(columns, np.tile(some, len(columns_and_free)), amounts)


def _allowed(movers: Sequence[Mover], left: Mapping[str, int]) -> bool:
    """Reports whether the queues have moves left for all of these."""
    made: dict[str, int] = {}
    for mover in movers:
        queue = mover.admission.cluster_queue
        made[queue] = made.get(queue, 0) + 1
    return all(count <= left.get(queue, count) for queue, count in made.items())


def _hosts(ledger: Ledger, tree: Tree, rows: Sequence[int]) -> list[str]:
    names = (name for row in rows for name in tree.members_now(row))
    nodes = (ledger.capacity.nodes[name].node for name in names)
    return sorted(node.labels.get(HOSTNAME_LABEL, node.name) for node in nodes if node is not None)


def _elsewhere(mover: Mover, hosts: Sequence[str]) -> Mover:
    return replace(mover, requests=tuple(on_hosts(request, "NotIn", hosts) for request in mover.requests))
