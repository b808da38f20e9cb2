"""Which running workloads have lost nodes and need others: those whose assignment names an unhealthy node.

`nodes` marks the Workloads; engine/cycle/second_pass.py searches for other nodes. Nodes often fail together, as when a rack
loses power, and are marked one after the other, so a node that is gone counts as failed as soon as another node of the
workload is marked. A workload is checked whenever it changes, and again (`again`) when a write of the result has failed. Pods
that no node takes where they were sent get other places likewise (`displace`; pod_mover.py). The scheduler calls this before
each cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from admission.controllers.cluster_view import Views
from admission.engine.cycle.second_pass import Lost, moved_pods, second_pass
from admission.engine.decision import Decision
from admission.engine.ledger import Ledger
from api import assignment
from api.errors import InvalidObject
from api.kube.store import Change, ChangeType
from api.meta import is_true
from api.names import ADMITTED, EVICTED, FINISHED, HOSTNAME_LABEL
from api.workloads import PodSetAssignment, Workload


class NodeReplacements:
    """What is to be repaired. `request_cycle` is called when there is something new."""

    def __init__(self, views: Views, ledger: Ledger, request_cycle: Callable[[], None]) -> None:
        self._views, self._ledger, self._request_cycle = views, ledger, request_cycle
        self._due: dict[str, None] = {}
        self._displaced: dict[str, tuple[Lost, frozenset[str]]] = {}
        views.workloads.add_handler(self._changed)

    def again(self, key: str) -> None:
        """Look at the workload once more."""
        self._due[key] = None
        self._request_cycle()

    def displace(self, key: str, lost: Lost, avoid: frozenset[str]) -> None:
        """Find other places for pods that no node took, on none of the hosts `avoid`; the others stay where they are."""
        self._displaced[key] = lost, avoid
        self._request_cycle()

    def written(self, key: str) -> None:
        """A write of the workload has ended: handle a failure that occurred meanwhile."""
        if key in self._due or key in self._displaced:
            self._request_cycle()

    def due(self, busy: Container[str]) -> dict[str, list[str]]:
        """The workloads to look at next, with their failed nodes; `busy` as in `decisions`, which takes them."""
        return {key: nodes for key in self._due if (nodes := self._lost(key, busy))}

    def _lost(self, key: str, busy: Container[str]) -> list[str]:
        workload, admitted = self._views.workloads.objects.get(key), self._ledger.workload(key)
        if workload is None or admitted is None or admitted.evicted or key in busy:
            return []
        marked = failed_nodes(workload)
        if not marked:
            return []
        return [*marked, *(host for host in self._hosts(workload) if host not in marked and not self._alive(host))]

    def _hosts(self, workload: Workload) -> list[str]:
        return sorted(set(hostnames(workload)))

    def _alive(self, host: str) -> bool:
        """Whether there is a node of that hostname: its pods may run, even where it is not ready."""
        return self._views.node_named(host) is not None

    def decisions(self, busy: Container[str]) -> Iterator[Decision]:
        """What to do about each workload that is due: it moves, or it is evicted. No other workload is evicted for it.

        `busy`: workloads of which something is being written; they stay due until `written`.
        """
        due, self._due = self._due, {}
        for key in due:
            if key in busy:
                self._due[key] = None
            elif nodes := self._lost(key, busy):
                workload = self._views.workloads.objects[key]
                alive = {host for host in self._hosts(workload) if host not in nodes}
                yield from second_pass(self._ledger, key, nodes, fail_fast=True, alive=alive)

        yield from self._moves(busy)

    def _moves(self, busy: Container[str]) -> Iterator[Decision]:
        """Of workloads that lost no node."""
        displaced, self._displaced = self._displaced, {}
        for key, (lost, avoid) in displaced.items():
            workload = self._views.workloads.objects.get(key)
            if key in busy:
                self._displaced[key] = lost, avoid
            elif workload is not None and not failed_nodes(workload) and not self._ledger.is_evicted(key):
                alive = {host for host in self._hosts(workload) if self._alive(host)}
                yield from moved_pods(self._ledger, key, lost, avoid, alive)

    def _changed(self, change: Change[Workload]) -> None:
        if change.type is not ChangeType.DELETED and failed_nodes(change.object):
            self.again(change.key)


def failed_nodes(workload: Workload) -> list[str]:
    """The unhealthy nodes (by hostname) on which the running workload still has a place."""
    states = workload.status.conditions
    if not is_true(states, ADMITTED) or is_true(states, EVICTED) or is_true(states, FINISHED):
        return []
    assigned = set(hostnames(workload))
    return [node.name for node in workload.status.unhealthy_nodes if node.name in assigned]


def hostnames(workload: Workload) -> Iterator[str]:
    """The hosts of its assignment; none where the topology ends above them, or where it cannot be read."""
    for psa in workload.status.admission.pod_set_assignments if workload.status.admission else ():
        yield from hosts_of(psa)


def hosts_of(given: PodSetAssignment) -> Iterator[str]:
    """The hosts of one pod set, as `hostnames`."""
    yield from (host for host, _ in hosts_and_counts(given))


def hosts_and_counts(given: PodSetAssignment) -> Iterator[tuple[str, int]]:
    """The hosts of one pod set with how many of its pods they have."""
    placed = given.topology_assignment
    if placed is None or tuple(placed.levels[-1:]) != (HOSTNAME_LABEL,):
        return
    try:
        decoded = assignment.decode(placed)
    except InvalidObject:
        return
    yield from ((values[-1], count) for values, count in decoded)
