"""What must hold at every moment, whatever goes wrong: checked after every single write, from inside the embedded server.

A watcher reads the store's own histories of nodes, pods and Workloads, puts them into the one order in which the writes
happened, and looks after each of them at what it touched:

- no node is over-booked, neither by the pods that are bound to it nor by the places that reservations give away on it;
- a gang that requires a rack never spans two, neither in its assignment nor by its pods;
- no pod of a gang is let through without its Workload being admitted;
- no more pods of a Workload are let through to a place than its assignment counts there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from api.assignment import Domain, decode
from api.embedded.store import ObjectStorage
from api.embedded.table import StoreEvent
from api.kube.resources import NODES, PODS, WORKLOADS
from api.meta import is_true
from api.names import (
    ADMITTED,
    FINISHED,
    HOSTNAME_LABEL,
    PODSET_LABEL,
    QUOTA_RESERVED,
    TOPOLOGY_GATE,
    TOPOLOGY_WORKLOAD,
    WORKLOAD_ANNOTATION,
)
from api.workloads import Workload
from tests.scenarios.site import BLOCK, GPU, RACK
from tests.tasks import running

Obj = dict[str, Any]
_PERIOD = 0.05


@dataclass
class Invariants:
    """`broken` says what did not hold, in the order in which it happened."""

    store: ObjectStorage
    broken: list[str] = field(default_factory=list)
    writes: int = 0
    _nodes: dict[str, Obj] = field(default_factory=dict)
    _pods: dict[str, Obj] = field(default_factory=dict)
    _workloads: dict[str, Workload] = field(default_factory=dict)
    _on_node: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _of_workload: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _booked: dict[str, Counter[str]] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[Invariants]:
        """Watches until the end; what happened in between was looked at by then."""
        watchers = [self.store.watch(kind) for kind in (NODES, PODS, WORKLOADS)]

        def look() -> None:
            events = [event for watcher in watchers for event in watcher.drain()]
            for event in sorted(events, key=lambda event: event.record.rv):
                self._take(event)

        async def run() -> None:
            while True:
                look()
                await asyncio.sleep(_PERIOD)

        try:
            async with running(run()):
                yield self
                look()
        finally:
            for watcher in watchers:
                watcher.close()

    # ---- one write

    def _take(self, event: StoreEvent) -> None:
        self.writes += 1
        obj, gone = event.record.obj, event.type == "DELETED"
        match obj["kind"]:
            case "Node":
                self._nodes[event.record.key] = obj
            case "Pod":
                self._pod(event.record.key, obj, gone)
            case "Workload":
                self._workload(event.record.key, obj, gone)

    def _pod(self, key: str, pod: Obj, gone: bool) -> None:
        node, workload = pod["spec"].get("nodeName"), _workload_key(pod)
        over = gone or pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        was_gated = key not in self._pods or _gated(self._pods[key])
        for name, index in ((node, self._on_node), (workload, self._of_workload)):
            if name:
                index[name].discard(key) if over else index[name].add(key)
        if over:
            self._pods.pop(key, None)
            return
        self._pods[key] = pod
        if node:
            self._check_node(node)
        if workload and was_gated and not _gated(pod):
            self._check_let_through(key, workload)

    def _workload(self, key: str, obj: Obj, gone: bool) -> None:
        workload = Workload.from_wire(obj)
        if gone:
            self._workloads.pop(key, None)
        else:
            self._workloads[key] = workload
        places = () if gone or not _reserves(workload) else tuple(_places(workload))
        booked = _by_host(workload, places)
        self._booked[key] = booked
        for host in booked:
            self._check_booked(host)
        for name, levels, domains in places:
            racks = {self._rack_of(levels, values) for values, _ in domains}
            if _requires_rack(workload, name) and len(racks) > 1:
                self.broken.append(f"Workload {key}: {name} is assigned to {sorted(racks)}")

    # ---- what must hold

    def _check_node(self, node: str) -> None:
        used = sum(_gpus(self._pods[key]["spec"]) for key in self._on_node[node])
        if used > self._capacity(node):
            self.broken.append(f"node {node}: {used} GPUs are bound: {sorted(self._on_node[node])}")

    def _check_booked(self, host: str) -> None:
        users = {key: booked[host] for key, booked in self._booked.items() if booked[host]}
        if sum(users.values()) > self._capacity(host):
            self.broken.append(f"node {host}: reserved twice: {users}")

    def _check_let_through(self, pod: str, key: str) -> None:
        workload = self._workloads.get(key)
        conditions = workload.status.conditions if workload else ()
        if workload is None or not is_true(conditions, ADMITTED):
            self.broken.append(f"pod {pod}: let through without an admitted Workload {key}")
            return
        pods = [self._pods[name] for name in self._of_workload[key]]
        pods = [one for one in pods if not _gated(one) and not one["metadata"].get("deletionTimestamp")]
        for name, levels, domains in _places(workload):
            own = [one for one in pods if one["metadata"]["labels"].get(PODSET_LABEL) == name]
            sent = Counter(tuple(one["spec"].get("nodeSelector", {}).get(level, "") for level in levels) for one in own)
            for values, count in domains:
                if sent[values] > count:
                    self.broken.append(f"Workload {key}: {sent[values]} pods of {name} for {count} at {values}")
            racks = {self._rack_of(levels, values) for values in sent}
            if _requires_rack(workload, name) and len(racks) > 1:
                self.broken.append(f"Workload {key}: pods of {name} are sent to {sorted(racks)}")

    def _capacity(self, node: str) -> int:
        return int(self._nodes[node]["status"]["allocatable"].get(GPU, 0)) if node in self._nodes else 0

    def _rack_of(self, levels: tuple[str, ...], values: tuple[str, ...]) -> str:
        known = dict(zip(levels, values, strict=True))
        if HOSTNAME_LABEL in known:  # an assignment to hosts need not name what is above them
            known = self._nodes[known[HOSTNAME_LABEL]]["metadata"]["labels"]
        return f"{known.get(BLOCK)}/{known.get(RACK)}"


def _gated(pod: Obj) -> bool:
    return any(gate["name"] == TOPOLOGY_GATE for gate in pod["spec"].get("schedulingGates") or ())


def _workload_key(pod: Obj) -> str | None:
    annotations, labels = pod["metadata"].get("annotations") or {}, pod["metadata"].get("labels") or {}
    name = annotations.get(WORKLOAD_ANNOTATION) or annotations.get(TOPOLOGY_WORKLOAD)
    return f"{pod['metadata']['namespace']}/{name}" if name and PODSET_LABEL in labels else None


def _gpus(spec: Obj) -> int:
    return sum(int(one.get("resources", {}).get("requests", {}).get(GPU, 0)) for one in spec["containers"])


def _reserves(workload: Workload) -> bool:
    conditions = workload.status.conditions
    return is_true(conditions, QUOTA_RESERVED) and not is_true(conditions, FINISHED)


def _places(workload: Workload) -> Iterator[tuple[str, tuple[str, ...], list[Domain]]]:
    """Pod set, levels and counted places, for the pod sets that have any."""
    for one in workload.status.admission.pod_set_assignments if workload.status.admission else ():
        if one.topology_assignment is not None:
            yield one.name, one.topology_assignment.levels, decode(one.topology_assignment)


def _by_host(workload: Workload, places: Iterable[tuple[str, tuple[str, ...], list[Domain]]]) -> Counter[str]:
    """GPUs that the assignment takes of each host that it names."""
    totals: Counter[str] = Counter()
    templates = {one.name: one.template for one in workload.spec.pod_sets}
    for name, levels, domains in places:
        if levels[-1] == HOSTNAME_LABEL:
            each = _gpus(dict(templates[name]["spec"]))
            for values, count in domains:
                totals[values[-1]] += count * each
    return totals


def _requires_rack(workload: Workload, pod_set: str) -> bool:
    request = next((one.topology_request for one in workload.spec.pod_sets if one.name == pod_set), None)
    return request is not None and request.required == RACK
