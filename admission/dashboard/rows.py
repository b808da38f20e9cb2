"""Workloads as rows of a list, kept sorted as they change, and their positions in the queues. Pure but for the step of sorting.

A row is what the Workload's spec and status say; nothing is computed here.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from admission.dashboard.cluster import Cluster
from admission.engine.model import Workload as EngineWorkload
from admission.engine.queue.pending import Positions
from admission.visibility.pending import NOT_IN_LINE
from admission.world.workload_facts import expected_start
from api.errors import InvalidQuantity
from api.kube.turns import Turns
from api.meta import find_condition, is_true
from api.names import (
    ADMITTED,
    EVICTED,
    EXPLANATION,
    FINISHED,
    HOSTS_HELD,
    LEVELS_KEPT,
    MOVING,
    NOT_CREATED,
    PODS_HELD,
    QUOTA_RESERVED,
    UNSCHEDULABLE,
)
from api.text.quantity import to_int
from api.workloads import Workload

PENDING, RESERVED, ADMITTED_STATE, EVICTED_STATE, FINISHED_STATE = (
    "Pending",
    "Reserved",
    "Admitted",
    "Evicted",
    "Finished",
)
_NOTED: Final = {
    NOT_CREATED: "True",
    UNSCHEDULABLE: "True",
    PODS_HELD: "True",
    MOVING: "True",
    HOSTS_HELD: "False",
    LEVELS_KEPT: "False",
}
"""Conditions that tell what a workload with quota lacks, and the status that tells it."""
STATES: Final = (PENDING, RESERVED, ADMITTED_STATE, EVICTED_STATE, FINISHED_STATE)
_EXPECTED: Final = re.compile(r"(?<!is )expected to start at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
_GPU: Final = re.compile(r"/.*gpu")
_LONGEST: Final = 32768
_FRESH: Final = 1.0
"""Seconds for which positions are kept: sorting thousands of workloads takes milliseconds."""
_STEP: Final = 100
Row = dict[str, Any]


class Rows:
    """The rows by key, and the order of the queues."""

    def __init__(self, cluster: Cluster, held_hosts: Callable[[str], int]) -> None:
        """`held_hosts` returns how many hosts others are leaving for a waiting workload, by key."""
        self._cluster, self._held_hosts = cluster, held_hosts
        self._rows: dict[str, Row] = {}
        self._positions: dict[str, int] = {}
        self._sorted_at = -_FRESH
        self._sorting, self._listing = asyncio.Lock(), asyncio.Lock()
        self._version, self._listed = 0, (-1, list[Row]())

    def forget(self, keys: Iterable[str]) -> None:
        """Forgets the rows of workloads that changed; they are made again when they are asked for."""
        for key in keys:
            self._rows.pop(key, None)
            self._version += 1

    def queues_changed(self) -> None:
        """Forgets all rows: each names the ClusterQueue of its LocalQueue."""
        self._rows.clear()
        self._version += 1

    def of(self, key: str) -> Row | None:
        """Returns the row of a Workload, None if there is none."""
        workload = self._cluster.view.workloads.objects.get(key)
        if workload is None:
            return None
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._made(workload)
        row["position"], row["heldHosts"] = self._positions.get(key), self._held_hosts(key)
        return row

    async def all(self) -> list[Row]:
        """Returns the rows of all Workloads, those that wait first, in the order of their queues. Read only.

        They are sorted again only if a Workload or a position has changed since.
        """
        await self.sort()
        async with self._listing:
            version, rows = self._listed
            if version != self._version:
                version = self._version
                rows = await asyncio.to_thread(sorted, await self._remade(), key=_order)
                self._listed = version, rows
        return rows

    async def selected(self, wanted: Callable[[Row], bool]) -> list[Row]:
        """Returns those of all rows that are wanted, in their order."""
        rows: list[Row] = []
        turns = Turns()
        for number, row in enumerate(await self.all()):
            if wanted(row):
                rows.append(row)
            if number % _STEP == 0:
                await turns.give_way()
        return rows

    async def _remade(self) -> list[Row]:
        rows: list[Row] = []
        turns = Turns()
        for key in list(self._cluster.view.workloads.objects):
            if (row := self.of(key)) is not None:
                rows.append(row)
            await turns.give_way()
        return rows

    async def sort(self) -> None:
        """Brings the positions up to date."""
        async with self._sorting:
            if time.monotonic() - self._sorted_at < _FRESH:
                return
            queues = self._cluster.state.queues
            waiting, by = list(queues.workloads()), queues.positions_now()
            positions = await asyncio.to_thread(_positions, waiting, by)
            if positions != self._positions:
                self._positions = positions
                self._version += 1
            self._sorted_at = time.monotonic()

    def _made(self, workload: Workload) -> Row:
        meta, spec, status = workload.metadata, workload.spec, workload.status
        state, shown = _state(workload)
        reason, message, since = "", "", None
        if shown is not None and (condition := find_condition(status.conditions, shown)) is not None:
            reason, message, since = condition.reason, condition.message[:_LONGEST], condition.last_transition_time
        elif (error := self._cluster.feed.validation_error(workload)) is not None:
            reason, message = "Invalid", error
        local = self._cluster.view.local_queue_of(workload)
        queue = status.admission.cluster_queue if status.admission else local.spec.cluster_queue if local else ""
        owner = workload.owner
        expected = _EXPECTED.search(message) if state == PENDING else None
        told = expected_start(workload)
        return {
            "namespace": meta.namespace or "",
            "name": meta.name,
            "job": f"{owner.kind} {owner.name}" if owner is not None else "",
            "queue": spec.queue_name,
            "clusterQueue": queue,
            "priority": spec.priority or 0,
            "pods": sum(pod_set.count for pod_set in spec.pod_sets),
            "state": state,
            "reason": reason,
            "message": message,
            "hint": _hint(workload) if state == PENDING else "",
            "notes": [] if state in (PENDING, FINISHED_STATE) else list(_notes(workload)),
            "since": since,
            "created": meta.creation_timestamp,
            "started": since if state == ADMITTED_STATE else None,
            "ranBefore": status.accumulated_past_execution_time_seconds or 0,
            "gpus": _gpus(workload),
            "position": None,
            "heldHosts": 0,
            "earliestStart": None if expected else told.earliest,
            "expectedStart": expected.group(1) if expected else told.latest,
        }


def _gpus(workload: Workload) -> int:
    """Returns how many GPUs the Workload was admitted with; amounts that cannot be read count as none."""
    admission = workload.status.admission
    amounts = (each.resource_usage for each in admission.pod_set_assignments) if admission else ()
    try:
        return sum(to_int(name, amount) for usage in amounts for name, amount in usage.items() if _GPU.search(name))
    except InvalidQuantity:
        return 0


def _state(workload: Workload) -> tuple[str, str | None]:
    """Returns the state, and the type of the condition that says why."""
    conditions = workload.status.conditions
    if is_true(conditions, FINISHED):
        return FINISHED_STATE, FINISHED
    if is_true(conditions, EVICTED) and is_true(conditions, QUOTA_RESERVED):
        return EVICTED_STATE, EVICTED
    if is_true(conditions, ADMITTED):
        return ADMITTED_STATE, ADMITTED
    if is_true(conditions, QUOTA_RESERVED):
        return RESERVED, ADMITTED if find_condition(conditions, ADMITTED) else QUOTA_RESERVED
    return PENDING, QUOTA_RESERVED if find_condition(conditions, QUOTA_RESERVED) else None


def _hint(workload: Workload) -> str:
    """Returns the first line of what the controller explained, empty before it did."""
    explanation = find_condition(workload.status.conditions, EXPLANATION)
    return (
        explanation.message[:_LONGEST].partition("\n")[0]
        if explanation is not None and explanation.status == "True"
        else ""
    )


def _notes(workload: Workload) -> Iterator[dict[str, str]]:
    for kind, telling in _NOTED.items():
        one = find_condition(workload.status.conditions, kind)
        if one is not None and one.status == telling:
            yield {"type": kind.partition("/")[2], "reason": one.reason, "message": one.message[:_LONGEST]}


def _order(row: Row) -> tuple[int, str, int, str, str]:
    position = row["position"]
    return (
        STATES.index(row["state"]),
        row["clusterQueue"],
        0 if position is None else position,
        row["namespace"],
        row["name"],
    )


def _positions(waiting: list[EngineWorkload], by: Positions) -> dict[str, int]:
    """Returns the position of each workload in its ClusterQueue, from 1 on, in the order of evaluation."""
    return dict(_numbered(sorted((one for one in waiting if _in_line(one)), key=by)))


def _numbered(ordered: list[EngineWorkload]) -> Iterator[tuple[str, int]]:
    last: dict[str, int] = {}
    for one in ordered:
        last[one.cluster_queue] = place = last.get(one.cluster_queue, 0) + 1
        yield one.key, place


def _in_line(workload: EngineWorkload) -> bool:
    return workload.blocked is None or workload.blocked[0] not in NOT_IN_LINE
