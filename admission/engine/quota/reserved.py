"""The quota that holds of nodes charge: their nodes, less what workloads of the queue use there.

A hold that has begun and names a ClusterQueue charges the resources of its nodes that the queue covers, host by host:

    charge(host) = max(0, allocatable - usage of the queue's workloads on the host)

for each resource, in the first flavor of the queue that has the node and whose topology ends at the host. So a workload on a
reserved host *draws on* the charge: it is charged itself, and the charge of the host is less by as much. A node of several
such holds is charged once, to the first of them by name. Every change touches one host, and can be reverted
(journal.py). While a charge is lifted (`lifted`), the quota is free for a workload that will draw on it. Called by ledger.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from admission.engine.journal import Journal
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    ClusterQueue,
    Flavor,
    FlavorResource,
    Node,
    NodeHold,
)
from admission.engine.quota.tree import QuotaTree

Sums = Mapping[FlavorResource, int]
_NOTHING: Final[Sums] = {}


class PaidNode(NamedTuple):
    """A node that is charged for a hold: the hold, the ClusterQueue, the host and the amounts."""

    hold: str
    queue: str
    host: str
    amounts: Sums


class ReservedQuota:
    """The charges of all holds of nodes. `flavors` are those of the ledger, only read.

    `nodes` has the nodes that are charged, by name; `tracked` the ClusterQueues whose workloads are counted; `shrunk` those
    whose charge may have become less because of a node, until the caller clears it.
    """

    def __init__(self, journal: Journal, quota: QuotaTree, flavors: Mapping[str, Flavor]) -> None:
        self._journal, self._quota, self._flavors = journal, quota, flavors
        self.nodes: dict[str, PaidNode] = {}
        self.tracked: frozenset[str] = frozenset()
        self._hosts: dict[tuple[str, str], dict[str, Sums]] = {}
        self._used: dict[tuple[str, str], Sums] = {}
        self._counted: dict[str, Mapping[tuple[str, str], Sums]] = {}
        self._payers: dict[tuple[str, str], PaidNode] = {}
        self._due: dict[str, tuple[str, Sums]] = {}
        self._lifted: set[str] = set()
        self.shrunk: set[str] = set()

    # ---- what workloads use

    def track(self, queues: frozenset[str]) -> None:
        """Counts what workloads of these ClusterQueues use on each host; those charged already are to come by `charged`."""
        for key in [key for key, used in self._counted.items() if not {queue for queue, _ in used} <= queues]:
            self.released(key)
        self.tracked = queues

    def charged(self, key: str, admission: Admission) -> None:
        """Counts an admission, if it was not counted yet."""
        if admission.cluster_queue not in self.tracked or key in self._counted:
            return
        used = {(admission.cluster_queue, host): sums for host, sums in usage_by_host(admission).items()}
        if used:
            self._journal.put(self._counted, key, used)
            for at, sums in used.items():
                self._use(at, sums, +1)

    def released(self, key: str) -> None:
        """No longer counts the admission under this key."""
        used = self._counted.get(key)
        if used is not None:
            self._journal.drop(self._counted, key)
            for at, sums in used.items():
                self._use(at, sums, -1)

    def _use(self, at: tuple[str, str], sums: Sums, sign: int) -> None:
        total = _sum(self._used.get(at, _NOTHING), sums, sign)
        before = self._charge_at(at)
        if total:
            self._journal.put(self._used, at, total)
        else:
            self._journal.drop(self._used, at)
        self._shift(at, before)

    def drawn(self, key: str) -> dict[FlavorResource, int]:
        """Returns what would be charged for holds of nodes again if the workload under this key ended."""
        amounts: dict[FlavorResource, int] = {}
        for at, sums in self._counted.get(key, {}).items():
            payer = self._payers.get(at)
            if payer is None or payer.hold in self._lifted:
                continue
            held, used = self._held(at), self._used.get(at, _NOTHING)
            for fr, amount in sums.items():
                free = held.get(fr, 0) - used.get(fr, 0)
                back = max(0, free + amount) - max(0, free)
                if back:
                    amounts[fr] = amounts.get(fr, 0) + back
        return amounts

    # ---- nodes

    def set_node(self, name: str, node: Node | None, holds: Iterable[NodeHold]) -> None:
        """Charges the node to the first hold by name that has begun, holds it and names a queue; or no longer."""
        after = None if node is None else self._paid(node, holds)
        before = self.nodes.get(name)
        if before == after:
            return
        if before is not None:
            self.shrunk.add(before.queue)
            self._journal.drop(self.nodes, name)
            self._set_at((before.queue, before.host), name, None)
        if after is not None:
            self._journal.put(self.nodes, name, after)
            self._set_at((after.queue, after.host), name, after)

    def _paid(self, node: Node, holds: Iterable[NodeHold]) -> PaidNode | None:
        for one in holds:
            if not (one.charging and one.holds(node.labels)):
                continue
            spec = self._quota.spec(one.queue)
            amounts = amounts_of(node, spec, self._flavors) if spec is not None else {}
            if amounts:
                return PaidNode(one.name, one.queue, node.labels[HOSTNAME_LABEL], amounts)
        return None

    def _set_at(self, at: tuple[str, str], name: str, paid: PaidNode | None) -> None:
        before, nodes = self._charge_at(at), dict(self._hosts.get(at, {}))
        old = self._payers.get(at)
        if paid is None:
            nodes.pop(name, None)
        else:
            nodes[name] = paid.amounts
        if old is not None and paid is not None and old.hold != paid.hold:
            self._add(old, before, -1)
            before = _NOTHING
        if paid is not None:
            self._journal.put(self._payers, at, paid)
        if nodes:
            self._journal.put(self._hosts, at, nodes)
            self._shift(at, before)
            return
        self._journal.drop(self._hosts, at)
        if old is not None:
            self._add(old, before, -1)
        self._journal.drop(self._payers, at)

    # ---- charges

    def _held(self, at: tuple[str, str]) -> Sums:
        sums: Sums = {}
        for amounts in self._hosts.get(at, {}).values():
            sums = _sum(sums, amounts, +1)
        return sums

    def _charge_at(self, at: tuple[str, str]) -> Sums:
        if at not in self._hosts:
            return _NOTHING
        used = self._used.get(at, _NOTHING)
        return {fr: amount - used.get(fr, 0) for fr, amount in self._held(at).items() if amount > used.get(fr, 0)}

    def _shift(self, at: tuple[str, str], before: Sums) -> None:
        """Charges the difference to what the host was charged before."""
        payer = self._payers.get(at)
        if payer is not None and (change := _sum(self._charge_at(at), before, -1)):
            self._add(payer, change, +1)

    def _add(self, payer: PaidNode, change: Sums, sign: int) -> None:
        if not change:
            return
        _, due = self._due.get(payer.hold, (payer.queue, _NOTHING))
        if total := _sum(due, change, sign):
            self._journal.put(self._due, payer.hold, (payer.queue, total))
        else:
            self._journal.drop(self._due, payer.hold)
        if payer.hold not in self._lifted:
            self._quota.add(payer.queue, {fr: sign * amount for fr, amount in change.items()})

    @contextmanager
    def lifted(self, names: Collection[str]) -> Iterator[None]:
        """Opens a context in which these holds charge nothing. A workload that is charged inside draws on them."""
        mine = sorted(name for name in names if name not in self._lifted)
        for name in mine:
            if name in self._due:
                self._quota.remove(*self._due[name])
            self._lifted.add(name)
        try:
            yield
        finally:
            for name in mine:
                self._lifted.discard(name)
                if name in self._due:
                    self._quota.add(*self._due[name])

    # ---- queries

    def charge_of(self, name: str) -> dict[FlavorResource, int]:
        """Returns what the hold charges now."""
        return dict(self._due.get(name, ("", _NOTHING))[1])

    def charges(self, queue: str) -> dict[str, Sums]:
        """Returns what is charged to the queue, by hold."""
        return {name: sums for name, (at, sums) in sorted(self._due.items()) if at == queue}

    def usage(self, queue: str) -> dict[FlavorResource, int]:
        """Returns what all holds of nodes charge to the queue."""
        total: Sums = {}
        for sums in self.charges(queue).values():
            total = _sum(total, sums, +1)
        return dict(total)

    def queues(self) -> list[str]:
        """Returns the queues that are charged for a hold of nodes, by name."""
        return sorted({queue for queue, _ in self._due.values()})

    def differences(self, admissions: Mapping[str, Admission]) -> Iterator[str]:
        """Recomputes the charges from the nodes and admissions, and yields a sentence for each difference."""
        held: dict[tuple[str, str], Sums] = {}
        for paid in self.nodes.values():
            at = paid.queue, paid.host
            held[at] = _sum(held.get(at, _NOTHING), paid.amounts, +1)
        used: dict[tuple[str, str], Sums] = {}
        for admission in admissions.values():
            if admission.cluster_queue in self.tracked:
                for host, sums in usage_by_host(admission).items():
                    at = admission.cluster_queue, host
                    used[at] = _sum(used.get(at, _NOTHING), sums, +1)
        due: dict[str, Sums] = {}
        for at, amounts in held.items():
            rest = _sum(amounts, used.get(at, _NOTHING), -1)
            positive = {fr: rest.get(fr, 0) for fr in amounts if rest.get(fr, 0) > 0}
            name = self._payers[at].hold
            due[name] = _sum(due.get(name, _NOTHING), positive, +1)
        want = {name: sums for name, sums in due.items() if sums}
        have = {name: dict(sums) for name, (_, sums) in self._due.items()}
        if want != have:
            yield f"holds of nodes are charged {have}, their nodes and workloads make {want}"


def amounts_of(node: Node, queue: ClusterQueue, flavors: Mapping[str, Flavor]) -> dict[FlavorResource, int]:
    """Returns what a reserved node is charged to the queue: its allocatable resources, each in the first flavor that has it."""
    if HOSTNAME_LABEL not in node.labels:
        return {}
    amounts: dict[FlavorResource, int] = {}
    for group in queue.groups:
        for quotas in group.flavors:
            flavor = flavors.get(quotas.flavor)
            if flavor is None or not _has(flavor, node):
                continue
            for resource in quotas.quotas:
                if (amount := node.allocatable.get(resource, 0)) > 0:
                    amounts[quotas.flavor, resource] = amount
            break
    return amounts


def _has(flavor: Flavor, node: Node) -> bool:
    by_host = bool(flavor.levels) and flavor.levels is not None and flavor.levels[-1] == HOSTNAME_LABEL
    return by_host and all(node.labels.get(key) == value for key, value in flavor.node_labels.items())


def covered(queue: ClusterQueue | None) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the flavors of the queue with their resources, which say what a reserved node is charged."""
    groups = () if queue is None else queue.groups
    return [(quotas.flavor, tuple(quotas.quotas)) for group in groups for quotas in group.flavors]


def nodes_of(flavor: Flavor | None) -> object:
    """Returns what says which nodes of the flavor may be charged: its node labels and its levels."""
    return None if flavor is None else (flavor.node_labels, flavor.levels)


def usage_by_host(admission: Admission) -> dict[str, Sums]:
    """Returns the quota that the admission uses on each host that its assignments name."""
    by_host: dict[str, Sums] = {}
    for got in admission.pod_sets:
        levels = () if got.assignment is None else got.assignment.levels
        if got.assignment is None or not got.count or not levels or levels[-1] != HOSTNAME_LABEL:
            continue
        for domain in got.assignment.domains:
            part = {
                (got.flavors[resource], resource): amount * domain.count // got.count
                for resource, amount in got.usage.items()
            }
            host = domain.values[-1]
            by_host[host] = _sum(by_host.get(host, _NOTHING), part, +1)
    return {host: sums for host, sums in by_host.items() if sums}


def _sum(sums: Sums, other: Sums, sign: int) -> dict[FlavorResource, int]:
    """Returns the sums without zeros."""
    total = dict(sums)
    for fr, amount in other.items():
        total[fr] = total.get(fr, 0) + sign * amount
    return {fr: amount for fr, amount in total.items() if amount}
