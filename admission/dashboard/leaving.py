"""Places that workloads are leaving for waiting ones: victims of a preemption, and workloads that move, until their pods end.

The controller holds such places for the waiting workload (engine/ledger/holds.py, queue/pending_reservations.py). The
conditions of those that leave name it, and their bound pods say where. Each change reads only the workloads that changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.controllers.state.moving import for_whom
from admission.dashboard.cluster import Cluster
from admission.engine.preemption.wording import preemptor_of
from api.kube.turns import Turns
from api.meta import find_condition, is_true
from api.names import EVICTED, FINISHED, PREEMPTED, QUOTA_RESERVED
from api.workloads import Workload

_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class _Leaver:
    """A workload that leaves `nodes` for the workload `waiting`."""

    waiting: str
    nodes: frozenset[str]


@dataclass(slots=True)
class Changed:
    """What a refresh changed: names of nodes, and keys of waiting workloads."""

    nodes: set[str]
    waiting: set[str]


class Leaving:
    """The workloads that leave their places, by node and by whom they leave for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._leavers: dict[str, _Leaver] = {}
        self._on: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._for: defaultdict[str, set[str]] = defaultdict(set)
        self._uids: dict[str, str] = {}
        self._keys: dict[str, str] = {}

    def on(self, node: str) -> Mapping[str, str]:
        """Returns the keys of the workloads that leave the node, with those of the workloads that wait for it."""
        return self._on.get(node, _NOTHING)

    def hosts_for(self, waiting: str) -> int:
        """Returns how many nodes are being left for a waiting workload."""
        leavers = self._for.get(waiting, ())
        return len({node for key in leavers for node in self._leavers[key].nodes})

    def is_victim(self, key: str) -> bool:
        """Reports whether a workload that leaves has been evicted: all its pods leave. Of one that moves, the old ones do."""
        workload = self._cluster.view.workloads.objects.get(key)
        return workload is not None and is_true(workload.status.conditions, EVICTED)

    def queue_of(self, waiting: str) -> str:
        """Returns the ClusterQueue of a waiting workload, empty if it has none."""
        workload = self._cluster.state.queues.workload(waiting)
        return "" if workload is None else workload.cluster_queue

    async def refresh(self, changed: Iterable[str]) -> Changed:
        """Reads these workloads again, and those that leave for one of them."""
        todo, turns = set(changed), Turns()
        for key in todo:
            self._identify(key)
            await turns.give_way()
        todo |= {leaver for key in todo for leaver in self._for.get(key, ())}
        moved = Changed(set(), set())
        for key in sorted(todo):
            await turns.give_way()
            before, now = self._leavers.get(key), self._leaver(key)
            if before == now:
                continue
            for one in (before, now):
                if one is not None:
                    moved.nodes |= one.nodes
                    moved.waiting.add(one.waiting)
            self._set(key, before, now)
        return moved

    def _identify(self, key: str) -> None:
        workload = self._cluster.view.workloads.objects.get(key)
        uid = "" if workload is None else workload.metadata.uid or ""
        if (old := self._uids.pop(key, "")) and self._keys.get(old) == key:
            del self._keys[old]
        if uid:
            self._uids[key], self._keys[uid] = uid, key

    def _set(self, key: str, before: _Leaver | None, now: _Leaver | None) -> None:
        if before is not None:
            for node in before.nodes:
                self._on[node].pop(key, None)
                if not self._on[node]:
                    del self._on[node]
            self._for[before.waiting].discard(key)
            if not self._for[before.waiting]:
                del self._for[before.waiting]
            del self._leavers[key]
        if now is not None:
            self._leavers[key] = now
            self._for[now.waiting].add(key)
            for node in now.nodes:
                self._on[node][key] = now.waiting

    def _leaver(self, key: str) -> _Leaver | None:
        workload = self._cluster.view.workloads.objects.get(key)
        if workload is None:
            return None
        waiting, nodes = self._as_victim(workload) or self._as_mover(workload) or ("", frozenset())
        return _Leaver(waiting, nodes) if nodes and waiting != key and self._waits(waiting) else None

    def _as_victim(self, workload: Workload) -> tuple[str, frozenset[str]] | None:
        conditions = workload.status.conditions
        preempted = find_condition(conditions, PREEMPTED)
        if preempted is None or preempted.status != "True" or not is_true(conditions, EVICTED):
            return None
        waiting = self._keys.get(preemptor_of(preempted.message), "")
        allocations = self._cluster.ledger.allocations
        nodes = frozenset(allocations.pods[pod].node for pod in allocations.pods_of(workload.key))
        return (waiting, nodes) if waiting else None

    def _as_mover(self, workload: Workload) -> tuple[str, frozenset[str]] | None:
        """Of a workload that moves, the pods that are not where its status says are those at the old place."""
        waiting = for_whom(workload.status)
        if not waiting or not is_true(workload.status.conditions, QUOTA_RESERVED):
            return None
        allocations = self._cluster.ledger.allocations
        old = (pod for pod in allocations.pods_of(workload.key) if pod not in allocations.slot_of)
        return waiting, frozenset(allocations.pods[pod].node for pod in old)

    def _waits(self, key: str) -> bool:
        workload = self._cluster.view.workloads.objects.get(key)
        return (
            workload is not None
            and self._cluster.ledger.admission(key) is None
            and not is_true(workload.status.conditions, FINISHED)
        )
