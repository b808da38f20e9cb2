"""The tree of one flavor in columns: its domains, and for each row what it has, what is used, foreign and held.

A row is a host, a node below a wider lowest level, or (Domains counting) a domain of the lowest level. Nodes that are
cordoned or not Ready have rows too, though the engine's tree leaves them out. Rows are renewed one by one; the structure is
read again after a change of nodes, labels or levels. trees.py keeps one of each flavor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from admission.dashboard.leaving import Leaving
from admission.dashboard.placements import DOMAIN, HOST, NODE, Placements, Row
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import RESERVED_EFFECT, NodeHold
from admission.engine.model import Node as EngineNode
from admission.engine.topology.allocation.entries import held as held_by
from admission.engine.topology.questions.figures import shown
from admission.engine.topology.tree.tree_spec import TreeSpec
from admission.engine.topology.usage import NodeRecord
from api.meta import rfc3339
from api.pod.pods import Node

USABLE, CORDONED, FAILED = 0, 1, 2
_STEP: Final = 500
"""Nodes that are read before other tasks run."""
_LONGEST: Final = 300
"""Characters of a node's condition that are shown."""
KINDS: Final = ("total", "used", "foreign", "held")
RunEntry = tuple[str, str, int, list[int]]
"""Workload, its ClusterQueue, pods, and amounts by resource. What a workload leaves for another one counts as held: it has no
amounts there."""
Waiting = tuple[str, str]
"""A workload that waits until others have left a row, and its ClusterQueue."""
Reservation = tuple[str, str, str]
"""Name, start and end of what holds a row's nodes (RFC 3339)."""
_RESERVATIONS: Final = 8
"""Reservations of one row that are shown, and waiting workloads that others leave it for."""


@dataclass(slots=True)
class HostRow:
    """The amounts of one row by resource, in the order of the tree's resources, its runs, and what reserves it.

    `held_for` has the workloads that wait until others have left the row.
    """

    state: int
    why: str
    total: list[int]
    used: list[int]
    foreign: list[int]
    held: list[int]
    runs: list[RunEntry]
    reserved: tuple[Reservation, ...] = ()
    held_for: tuple[Waiting, ...] = ()


class FlavorTree:
    """The rows of one flavor. `version` grows with each change of a row."""

    def __init__(self, flavor: str, topology: str, spec: TreeSpec, version: int) -> None:
        self.flavor, self.topology, self.spec, self.version = flavor, topology, spec, version
        self.columns: list[int] = []
        self.resources: list[str] = []
        self.domains: list[tuple[str, int]] = []
        self.names: list[str] = []
        self.domain: list[int] = []
        self.rows: list[HostRow] = []
        self.row_of: dict[Row, int] = {}
        self.sums: dict[str, list[int]] = {}
        self.unusable: list[int] = []
        self._nodes: list[tuple[str, ...]] = []
        self._keys: list[tuple[Row, ...]] = []
        self._domain_of: dict[tuple[str, ...], int] = {}
        self._places: dict[str, tuple[tuple[str, ...], Row, str]] = {}
        self._offered: set[int] = set()

    def load(self, ledger: Ledger) -> Iterator[None]:
        """Reads the structure in steps; yields between two of them. Rows are read by `renew`."""
        spec, capacity = self.spec, ledger.capacity
        units: dict[Row, tuple[tuple[str, ...], str, list[str]]] = {}
        for number, name in enumerate(sorted(capacity.nodes)):
            if number % _STEP == 0:
                yield
            record = capacity.nodes.get(name)
            node = record.node if record is not None else None
            if record is None or node is None or not spec.accepts(replace(node, usable=True)):
                continue
            self._offered.update(column for column, _ in record.offers)
            self._places[name] = self._place(replace(node, usable=True))
            path, key, shown_as = self._place(node)
            units.setdefault(key, (path, shown_as, []))[2].append(name)
        self.columns = shown(capacity.columns, self._offered)
        self.resources = [capacity.columns.names[column] for column in self.columns]
        self.sums = {kind: [0] * len(self.columns) for kind in KINDS}
        self.unusable = [0] * len(self.columns)
        ordered = sorted(units.items(), key=lambda unit: (unit[1][0], unit[1][1]))
        for number, (key, (path, shown_as, nodes)) in enumerate(ordered):
            if number % _STEP == 0:
                yield
            self._add(key, path, shown_as, nodes)

    def is_current(self, name: str, ledger: Ledger) -> bool:
        """Reports whether the node is where it was when the structure was read, and offers nothing that has no column.

        Its other labels, its taints and its state are not part of the structure: controllers change those of all nodes.
        """
        record = ledger.capacity.nodes.get(name)
        node = None if record is None or record.node is None else replace(record.node, usable=True)
        if record is None or node is None or not self.spec.accepts(node):
            return name not in self._places
        return self._places.get(name) == self._place(node) and all(
            column in self._offered for column, _ in record.offers
        )

    def _place(self, node: EngineNode) -> tuple[tuple[str, ...], Row, str]:
        """Returns the domains above the node's row, the row, and its name."""
        path = self.spec.path(node)
        if self.spec.by_host:
            return path[:-1], (HOST, path[-1]), node.name
        if self.spec.hidden_nodes:
            return path, (NODE, node.name), node.name
        if node.usable:
            return path[:-1], (DOMAIN, (self.flavor, path)), path[-1]
        return path[:-1], (NODE, node.name), node.name

    def _add(self, key: Row, path: tuple[str, ...], shown_as: str, nodes: Sequence[str]) -> None:
        parent = -1
        for depth in range(1, len(path) + 1):
            at = self._domain_of.get(path[:depth])
            if at is None:
                at = self._domain_of[path[:depth]] = len(self.domains)
                self.domains.append((path[depth - 1], parent))
            parent = at
        at = len(self.names)
        self.names.append(shown_as)
        self.domain.append(parent)
        self._nodes.append(tuple(nodes))
        keys = {key, *((NODE, name) for name in nodes)}
        self._keys.append(tuple(keys))
        self.row_of.update(dict.fromkeys(keys, at))
        nothing = [0] * len(self.columns)
        self.rows.append(HostRow(USABLE, "", nothing, nothing, nothing, nothing, []))

    def renew(
        self, at: int, ledger: Ledger, placements: Placements, nodes: Mapping[str, Node], leaving: Leaving
    ) -> bool:
        """Reads one row again and reports whether it changed. `nodes` has the API's objects, for their conditions."""
        records = [record for name in self._nodes[at] if (record := ledger.capacity.nodes.get(name)) is not None]
        total, foreign = self._amounts(records)
        used, held, runs = [0] * len(self.columns), [0] * len(self.columns), []
        left = {key: waiting for name in self._nodes[at] for key, waiting in leaving.on(name).items()}
        for key in self._keys[at]:
            for workload, run in placements.on(key).items():
                amounts = [run.amounts.get(column, 0) for column in self.columns]
                is_left = workload in left and leaving.is_victim(workload)
                into = held if placements.is_held(workload) or is_left else used
                for index, amount in enumerate(amounts):
                    into[index] += amount
                if not placements.is_held(workload):
                    shown = [0] * len(amounts) if is_left else amounts
                    runs.append((workload, _queue_of(ledger, workload), run.pods, shown))
        if left:
            self._hold_what_is_left(at, ledger, left, foreign, held)
        runs.sort(key=lambda run: run[0])
        state, why = _state([nodes[name] for name in self._nodes[at] if name in nodes])
        waiting = tuple((key, leaving.queue_of(key)) for key in sorted(set(left.values()))[:_RESERVATIONS])
        new = HostRow(state, why, total, used, foreign, held, runs, _reserved(records, ledger), waiting)
        old = self.rows[at]
        if new == old:
            return False
        self.rows[at] = new
        for sign, row in ((-1, old), (1, new)):
            self._count(row, sign)
        return True

    def _hold_what_is_left(
        self, at: int, ledger: Ledger, left: Mapping[str, str], foreign: list[int], held: list[int]
    ) -> None:
        """Counts pods of those that leave as held, not as foreign: one that runs elsewhere next has its quota there already."""
        allocations = ledger.allocations
        for name in self._nodes[at]:
            for key in allocations.pods_on(name):
                if key in allocations.slot_of or allocations.pods[key].workload not in left:
                    continue
                amounts = dict(ledger.capacity.columns.vector(held_by(allocations.pods[key])))
                for index, column in enumerate(self.columns):
                    amount = min(amounts.get(column, 0), foreign[index])
                    foreign[index] -= amount
                    held[index] += amount

    def _count(self, row: HostRow, sign: int) -> None:
        for index in range(len(self.columns)):
            if row.state != USABLE:
                self.unusable[index] += sign * row.total[index]
                continue
            for kind in KINDS:
                self.sums[kind][index] += sign * getattr(row, kind)[index]

    def _amounts(self, records: Sequence[NodeRecord]) -> tuple[list[int], list[int]]:
        total, foreign = [0] * len(self.columns), [0] * len(self.columns)
        for record in records:
            offers = dict(record.offers)
            for index, column in enumerate(self.columns):
                total[index] += offers.get(column, 0)
                foreign[index] += record.foreign.get(column, 0)
        return total, foreign

    def path(self, at: int) -> list[str]:
        """Returns the names of the domains above a row, widest first."""
        names, parent = [], self.domain[at]
        while parent >= 0:
            name, parent = self.domains[parent]
            names.append(name)
        return names[::-1]

    def entry(self, at: int) -> dict[str, Any]:
        """Returns the part of an event that says what a row has now."""
        row = self.rows[at]
        return {
            "i": at,
            "state": row.state,
            "why": row.why,
            **{kind: getattr(row, kind) for kind in KINDS},
            "runs": row.runs,
            "reserved": row.reserved,
            "heldFor": row.held_for,
        }


def _reserved(records: Sequence[NodeRecord], ledger: Ledger) -> tuple[Reservation, ...]:
    if not ledger.node_holds:
        return ()
    taints = (taint for record in records if record.node is not None for taint in record.node.taints)
    names = {taint.value for taint in taints if taint.effect == RESERVED_EFFECT}
    holds = [ledger.node_holds[name] for name in sorted(names & ledger.node_holds.keys())]
    return tuple(_shown(hold) for hold in holds[:_RESERVATIONS])


def _shown(hold: NodeHold) -> Reservation:
    """Returns what is shown of a hold."""
    return hold.name, rfc3339(hold.start), rfc3339(hold.end)


def _queue_of(ledger: Ledger, workload: str) -> str:
    admission = ledger.admissions.get(workload)
    return admission.cluster_queue if admission is not None else ""


def _state(nodes: Sequence[Node]) -> tuple[int, str]:
    """Returns the worst state of a row's nodes, and why. Cordoned means by a user; all else that is not Ready has failed."""
    state, why = USABLE, ""
    for node in nodes:
        ready = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
        if ready is None or ready.status != "True":
            why = "has no Ready condition" if ready is None else f"is not Ready: {ready.reason or ready.status}"
            return FAILED, f"{node.metadata.name} {why}"[:_LONGEST]
        if node.spec.unschedulable:
            state, why = CORDONED, "cordoned"
    return state, why
