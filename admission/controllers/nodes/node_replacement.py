"""Finds running workloads that lost nodes and need replacements, or whose pods no node accepts.

The scheduler calls it before each cycle. `nodes` marks the Workloads; engine/cycle/second_pass.py searches for other nodes.
Nodes often fail together, as when a rack loses power, and are marked one after the other, so a missing node counts as failed as
soon as another node of the workload is marked. A workload is checked whenever it changes, and again (`again`) when a write of
the result has failed. Pods that no node accepts at their place are moved in the same way (`displace`; pod_displacer.py).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from admission.controllers.watch.cluster_view import Views
from admission.engine.cycle.second_pass import Lost, moved_pods, second_pass
from admission.engine.decision import Decision
from admission.engine.ledger.ledger import Ledger
from api import assignment
from api.errors import InvalidObject
from api.kube.informers.store import Change, ChangeType
from api.meta import is_true
from api.names import ADMITTED, EVICTED, FINISHED, HOSTNAME_LABEL
from api.workloads import PodSetAssignment, Workload


class NodeReplacements:
    """The workloads to repair; `request_cycle` is called when one is added."""

    def __init__(self, views: Views, ledger: Ledger, request_cycle: Callable[[], None]) -> None:
        self._views, self._ledger, self._request_cycle = views, ledger, request_cycle
        self._due: dict[str, None] = {}
        self._displaced: dict[str, tuple[Lost, frozenset[str]]] = {}
        views.workloads.add_handler(self._changed)

    def again(self, key: str) -> None:
        """Checks the workload once more."""
        self._due[key] = None
        self._request_cycle()

    def displace(self, key: str, lost: Lost, avoid: frozenset[str]) -> None:
        """Finds other places for pods that no node accepted, on none of the hosts `avoid`; the other pods stay."""
        self._displaced[key] = lost, avoid
        self._request_cycle()

    def written(self, key: str) -> None:
        """Handles the end of a write of the workload: a failure may have occurred meanwhile."""
        if key in self._due or key in self._displaced:
            self._request_cycle()

    def due(self, busy: Container[str]) -> dict[str, list[str]]:
        """Returns the failed nodes of the workloads to repair next; `busy` is as in `decisions`, which removes them."""
        return {key: nodes for key in self._due if (nodes := self._lost_hosts(key, busy))}

    def _lost_hosts(self, key: str, busy: Container[str]) -> list[str]:
        workload, admitted = self._views.workloads.objects.get(key), self._ledger.workload(key)
        if workload is None or admitted is None or admitted.evicted or key in busy:
            return []
        marked = failed_nodes(workload)
        if not marked:
            return []
        return [*marked, *(host for host in self._hosts(workload) if host not in marked and not self._exists(host))]

    def _hosts(self, workload: Workload) -> list[str]:
        return sorted(set(hostnames(workload)))

    def _exists(self, host: str) -> bool:
        """Reports whether a node of that hostname exists: its pods may run, even if it is not ready."""
        return self._views.node_named(host) is not None

    def decisions(self, busy: Container[str]) -> Iterator[Decision]:
        """Yields the decision on each workload due: it gets other nodes, or is evicted. No other workload is preempted for it.

        `busy` holds workloads with a write in progress; they stay due until `written`.
        """
        due, self._due = self._due, {}
        for key in due:
            if key in busy:
                self._due[key] = None
            elif nodes := self._lost_hosts(key, busy):
                workload = self._views.workloads.objects[key]
                alive = {host for host in self._hosts(workload) if host not in nodes}
                yield from second_pass(self._ledger, key, nodes, fail_fast=True, alive=alive)

        yield from self._displaced_decisions(busy)

    def _displaced_decisions(self, busy: Container[str]) -> Iterator[Decision]:
        """Yields the decisions on displaced pods of workloads that lost no node."""
        displaced, self._displaced = self._displaced, {}
        for key, (lost, avoid) in displaced.items():
            workload = self._views.workloads.objects.get(key)
            if key in busy:
                self._displaced[key] = lost, avoid
            elif workload is not None and not failed_nodes(workload) and not self._ledger.is_evicted(key):
                alive = {host for host in self._hosts(workload) if self._exists(host)}
                yield from moved_pods(self._ledger, key, lost, avoid, alive)

    def _changed(self, change: Change[Workload]) -> None:
        if change.type is not ChangeType.DELETED and failed_nodes(change.object):
            self.again(change.key)


def failed_nodes(workload: Workload) -> list[str]:
    """Returns the unhealthy nodes (by hostname) of the running workload's assignment."""
    states = workload.status.conditions
    if not is_true(states, ADMITTED) or is_true(states, EVICTED) or is_true(states, FINISHED):
        return []
    assigned = set(hostnames(workload))
    return [node.name for node in workload.status.unhealthy_nodes if node.name in assigned]


def hostnames(workload: Workload) -> Iterator[str]:
    """Yields the hosts of the assignment; nothing if the topology ends above hosts or the assignment is unreadable."""
    for psa in workload.status.admission.pod_set_assignments if workload.status.admission else ():
        yield from hosts_of(psa)


def hosts_of(assignment: PodSetAssignment) -> Iterator[str]:
    """Yields the hosts of one pod set's assignment, like `hostnames`."""
    yield from (host for host, _ in hosts_and_counts(assignment))


def hosts_and_counts(pod_set: PodSetAssignment) -> Iterator[tuple[str, int]]:
    """Yields the hosts of one pod set's assignment with their numbers of pods."""
    placed = pod_set.topology_assignment
    if placed is None or tuple(placed.levels[-1:]) != (HOSTNAME_LABEL,):
        return
    try:
        decoded = assignment.decode(placed)
    except InvalidObject:
        return
    yield from ((values[-1], count) for values, count in decoded)
