"""The trees of all flavors with a topology, kept as the cluster changes, and the JSON of their answers.

`renew` applies changes and returns which rows changed. A structure that changed is loaded again in steps, while answers come
from the old one. All viewers share the amounts; only the table of workloads depends on the viewer (`encoded`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from admission.dashboard.cluster import Changes, Cluster
from admission.dashboard.leaving import Leaving
from admission.dashboard.placements import DOMAIN, HOST, NODE, Placements, Row
from admission.dashboard.tree import KINDS, FlavorTree, HostRow, Reservation
from admission.engine.model import NodeHold
from admission.engine.topology.tree.tree_spec import TreeSpec
from api.kube.turns import Turns

MOST_ROWS: Final = 2000
"""Changed rows that one event lists; more are a change of the structure, after which clients ask for the tree again."""
_PAUSE: Final = 4.0
"""Between two readings of a structure, so many times as long as the first took: changed rows are published meanwhile."""
_LONG: Final = 0.1
"""Seconds of a reading that calls for a pause."""
_STEP: Final = 250
"""Rows that are read before other tasks run."""
Sees = Callable[[str], bool]
"""Whether the viewer may see the Workloads of a namespace."""


@dataclass(slots=True)
class TreeChanges:
    """Rows that changed by flavor, flavors whose structure did, and waiting workloads for which others leave hosts."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    structure: list[str] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A tree's answer without its two tables, and their rows: of workloads key and ClusterQueue, and reservations."""

    version: int
    body: bytes
    workloads: list[tuple[str, str]]
    reservations: list[Reservation]


class Trees:
    """The trees by flavor."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.placements, self.leaving = Placements(cluster.ledger), Leaving(cluster)
        self.by_flavor: dict[str, FlavorTree] = {}
        self._bodies: dict[str, _Encoded] = {}
        self._structures: dict[str, tuple[TreeSpec, str]] = {}
        self._holds: dict[str, NodeHold] = {}
        self._stale: set[str] = set()
        self._not_before: dict[str, float] = {}
        # Begins with the time: a client that knows trees of a process before this one sees that they are older.
        self.version = time.time_ns() // 1_000_000
        self._encoding = asyncio.Lock()

    async def renew(self, changes: Changes) -> TreeChanges:
        """Applies the changes and returns what they changed."""
        tree_changes = TreeChanges()
        touched = self.placements.refresh(changes.workloads)
        left, reserved = await self.leaving.refresh(changes.workloads), await self._newly_reserved()
        tree_changes.waiting = left.waiting
        touched |= {(NODE, name) for name in changes.nodes | changes.touched.nodes | reserved | left.nodes}
        spots = {key for _, key in changes.touched.spots}
        reloaded = await self._reload(changes.nodes)
        for flavor, tree in sorted(self.by_flavor.items()):
            if flavor in reloaded:
                tree_changes.structure.append(flavor)
                continue
            spotted: set[Row] = {(HOST, key) for key in spots} | {(NODE, key) for key in spots}
            spotted |= {(DOMAIN, (flavor, key)) for key in spots}
            rows = sorted({tree.row_of[row] for row in touched | spotted if row in tree.row_of})
            changed = await self._renew_rows(tree, rows)
            if not changed:
                continue
            tree.version = self._next()
            if len(changed) > MOST_ROWS:
                tree_changes.structure.append(flavor)
            else:
                tree_changes.rows[flavor] = changed
        tree_changes.structure += [flavor for flavor in reloaded if flavor not in self.by_flavor]
        return tree_changes

    async def _newly_reserved(self) -> set[str]:
        """Returns the nodes of the holds that came, changed or went."""
        old, new = self._holds, dict(self._cluster.ledger.node_holds)
        self._holds = new
        names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        changed = [one for name in sorted(names) for one in (old.get(name), new.get(name)) if one is not None]
        reserved, turns = set(), Turns()
        for name, record in list(self._cluster.ledger.capacity.nodes.items()) if changed else ():
            if record.node is not None and any(one.holds(record.node.labels) for one in changed):
                reserved.add(name)
            await turns.give_way()
        return reserved

    def _next(self) -> int:
        self.version += 1
        return self.version

    async def _renew_rows(self, tree: FlavorTree, rows: list[int]) -> list[int]:
        changed = []
        nodes = dict(self._cluster.view.nodes.objects) if len(rows) > _STEP else self._cluster.view.nodes.objects
        for number, at in enumerate(rows, 1):
            if tree.renew(at, self._cluster.ledger, self.placements, nodes, self.leaving):
                changed.append(at)
            if number % _STEP == 0:
                await asyncio.sleep(0)
        return changed

    async def _reload(self, nodes: set[str]) -> set[str]:
        """Loads the trees again whose flavor, topology or nodes' places changed. Returns their flavors.

        One whose nodes come and go all the time is loaded after pauses, so that changed rows need not wait for it.
        """
        wanted = self._wanted()
        changed = {flavor for flavor, key in wanted.items() if self._structures.get(flavor) != key}
        gone = self.by_flavor.keys() - wanted.keys()
        for flavor in gone:
            del self.by_flavor[flavor], self._structures[flavor]
            self._bodies.pop(flavor, None)
        for flavor, tree in self.by_flavor.items():
            if not await self._is_current(tree, nodes):
                self._stale.add(flavor)
        self._stale &= wanted.keys()
        now = time.monotonic()
        due = changed | {flavor for flavor in self._stale if self._not_before.get(flavor, 0.0) <= now}
        for flavor in sorted(due):
            await self._read(flavor, wanted[flavor])
        self._stale -= due
        return due | gone

    async def _is_current(self, tree: FlavorTree, nodes: set[str]) -> bool:
        for number, name in enumerate(nodes, 1):
            if not tree.is_current(name, self._cluster.ledger):
                return False
            if number % _STEP == 0:
                await asyncio.sleep(0)
        return True

    async def _read(self, flavor: str, structure: tuple[TreeSpec, str]) -> None:
        began = time.monotonic()
        spec, topology = structure
        tree = FlavorTree(flavor, topology, spec, self._next())
        for _ in tree.load(self._cluster.ledger):
            await asyncio.sleep(0)
        await self._renew_rows(tree, list(range(len(tree.names))))
        tree.version = self._next()
        self.by_flavor[flavor], self._structures[flavor] = tree, structure
        ended = time.monotonic()
        self._not_before[flavor] = ended + _PAUSE * (ended - began) if ended - began > _LONG else ended

    def due_in(self) -> float | None:
        """Returns the seconds until a structure that changed is to be read again; None if none did."""
        if not self._stale:
            return None
        return max(0.0, min(self._not_before.get(flavor, 0.0) for flavor in self._stale) - time.monotonic())

    def _wanted(self) -> dict[str, tuple[TreeSpec, str]]:
        counting = self._cluster.ledger.options.counting
        specs = {}
        for name, flavor in self._cluster.ledger.flavors.items():
            spec = TreeSpec.of(flavor, counting)
            if spec is not None:
                specs[name] = spec, flavor.topology or ""
        return specs

    async def encoded(self, flavor: str, sees: Sees, *, queues: bool, reservations: bool = True) -> bytes | None:
        """Returns the answer for a flavor, None if it has no tree.

        `queues` tells the ClusterQueues of hidden workloads too, `reservations` what holds hosts.
        """
        tree = self.by_flavor.get(flavor)
        if tree is None:
            return None
        async with self._encoding:
            known = self._bodies.get(flavor)
            if known is None or known.version != tree.version:
                rows, version = list(tree.rows), tree.version
                known = await asyncio.to_thread(_encoded, tree, rows, version)
                self._bodies[flavor] = known
        table = [shown(key, queue, sees, queues=queues) for key, queue in known.workloads]
        tables = {
            "workloads": table,
            "reservations": [shown_reservation(one, reservations) for one in known.reservations],
        }
        return msgspec.json.encode(tables)[:-1] + b"," + known.body[1:]


def shown(key: str, queue: str, sees: Sees, *, queues: bool) -> tuple[str, str]:
    """Returns key and ClusterQueue of a workload as the viewer may see them: empty where they may not."""
    if sees(key.partition("/")[0]):
        return key, queue
    return "", queue if queues else ""


def shown_reservation(reservation: Reservation, shows: bool) -> dict[str, str]:
    """Returns answers.Reservation, with empty texts unless it `shows`."""
    name, start, end = reservation if shows else ("", "", "")
    return {"name": name, "start": start, "end": end}


def _encoded(tree: FlavorTree, rows: list[HostRow], version: int) -> _Encoded:
    columns = range(len(tree.columns))
    numbers: dict[tuple[str, str], int] = {}
    host: list[int] = []
    workload: list[int] = []
    pods: list[int] = []
    amounts: list[list[int]] = [[] for _ in columns]
    reservations: dict[Reservation, int] = {}
    reserved: dict[str, list[int]] = {}
    held_for: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        if row.held_for:
            held_for[str(at)] = [numbers.setdefault(one, len(numbers)) for one in row.held_for]
        if row.reserved:
            reserved[str(at)] = [reservations.setdefault(one, len(reservations)) for one in row.reserved]
        for key, queue, count, used in row.runs:
            host.append(at)
            workload.append(numbers.setdefault((key, queue), len(numbers)))
            pods.append(count)
            for column in columns:
                amounts[column].append(used[column])
    answer = {
        "flavor": tree.flavor,
        "topology": tree.topology,
        "levels": list(tree.spec.levels),
        "resources": tree.resources,
        "version": version,
        "domains": tree.domains,
        "hosts": {
            "name": tree.names,
            "domain": tree.domain,
            "state": [row.state for row in rows],
            "why": {str(at): row.why for at, row in enumerate(rows) if row.why},
            "reserved": reserved,
            "heldFor": held_for,
            **{kind: [[getattr(row, kind)[column] for row in rows] for column in columns] for kind in KINDS},
        },
        "runs": {"host": host, "workload": workload, "pods": pods, "amounts": amounts},
    }
    return _Encoded(version, msgspec.json.encode(answer), list(numbers), list(reservations))
