"""Charges the pods that run: a workload uses what it has reserved or what its bound pods request, whichever is more.

A reservation ends when an owner or a status says so; a pod uses its node until it has ended. So of each workload, for each
flavor and resource,

    charge = max(reserved by the admission, requests of its bound pods that have not ended)

no matter who owns the pods now. The quota tree has the reservation already; this module adds what the pods use beyond it. A pod
belongs to the workload that it names. The queue that pays, and the flavor of each resource, are those of the workload's last
admission for as long as one of its pods is bound. For a workload without a known admission, the feed names the queue (`Payer`),
and the flavor is the first one of that queue that has the pod's node. While a workload is considered for admission, those of
its pods that may never end count as the reservation that it is to get (`lifted`). Sums change with each pod and each admission,
and can be reverted (journal.py). Called by ledger.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache

from admission.engine.journal import Journal
from admission.engine.model import (
    PODS,
    Admission,
    BoundPod,
    ClusterQueue,
    Flavor,
    FlavorResource,
    Node,
    Payer,
    Workload,
)
from admission.engine.quota.tree import QuotaTree
from admission.engine.quota.usage_by_priority import UsageByPriority

Sums = Mapping[FlavorResource, int]
_NOTHING: Final[Sums] = {}
_SHAPES: Final = 4096
"""Distinct amounts of pods that are stored once; a miss only costs memory."""


@dataclass(frozen=True, slots=True)
class _Account:
    """Who pays for a workload's pods. `priority` is None without an admission: no eviction would end the pods sooner."""

    payer: Payer
    reserved: Sums = field(default_factory=dict)
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Excess:
    """What bound pods use beyond the reservation of their workload, and where it is charged."""

    payer: Payer
    amounts: Sums
    priority: int | None = None


class BoundUsage:
    """The usage of bound pods by workload, charged beyond what is reserved. `flavors` and nodes are only read.

    `changed` has the queues of payers whose charge has changed since the caller cleared it, each with its LocalQueue;
    `shrunk` those whose charge has become less.
    """

    def __init__(
        self,
        journal: Journal,
        quota: QuotaTree,
        by_priority: UsageByPriority,
        flavors: Mapping[str, Flavor],
        node: Callable[[str], Node | None],
    ) -> None:
        self._journal, self._quota, self._by_priority = journal, quota, by_priority
        self._flavors, self._node = flavors, node
        self._pods: dict[str, dict[str, tuple[BoundPod, Sums]]] = {}
        self._shapes: LRUCache[tuple[tuple[FlavorResource, int], ...], Sums] = LRUCache(_SHAPES)
        self._used: dict[str, Sums] = {}
        self._accounts: dict[str, _Account] = {}
        self._excess: dict[str, Excess] = {}
        self._of_queue: dict[str, Sums] = {}
        self._of_local_queue: dict[str, Sums] = {}
        self.changed: dict[tuple[str, str], None] = {}
        self.shrunk: set[str] = set()

    # ---- pods

    def add(self, pod: BoundPod) -> None:
        """Counts a bound pod, which must not be counted yet."""
        key = pod.workload
        if key is None:
            return
        if key not in self._pods:
            self._journal.put(self._pods, key, {})
        account = self._accounts.get(key)
        amounts = _NOTHING if account is None else self._priced(account.payer, pod)
        self._journal.put(self._pods[key], pod.key, (pod, amounts))
        self._use(key, amounts, +1)

    def drop(self, pod: BoundPod) -> None:
        """No longer counts a bound pod, which has ended or changed."""
        key = pod.workload
        if key is None or pod.key not in self._pods.get(key, {}):
            return
        _, amounts = self._pods[key][pod.key]
        self._journal.drop(self._pods[key], pod.key)
        self._use(key, amounts, -1)
        if not self._pods[key]:
            self._journal.drop(self._pods, key)
            self._forget_unused(key)

    def _use(self, key: str, amounts: Sums, sign: int) -> None:
        if total := _sum(self._used.get(key, _NOTHING), amounts, sign):
            self._journal.put(self._used, key, total)
        else:
            self._journal.drop(self._used, key)
        self._settle(key)

    def _priced(self, payer: Payer, pod: BoundPod) -> Sums:
        """Returns what the pod counts, by flavor and resource, without what the queue does not cover."""
        taken = {**(pod.requests if pod.charged is None else pod.charged), PODS: 1}
        prices: dict[FlavorResource, int] = {}
        for resource, amount in taken.items():
            if amount > 0 and (flavor := self._flavor_of(payer, pod, resource)) is not None:
                prices[flavor, resource] = amount
        return self._shapes.setdefault(tuple(prices.items()), prices)

    def _flavor_of(self, payer: Payer, pod: BoundPod, resource: str) -> str | None:
        own = payer.flavors.get(pod.pod_set or "", {})
        if resource in own:
            return own[resource]
        for each in payer.flavors.values():
            if resource in each:
                return each[resource]
        spec = self._quota.spec(payer.cluster_queue)
        node = self._node(pod.node)
        return None if spec is None else self._by_node(spec, {} if node is None else node.labels, resource)

    def _by_node(self, queue: ClusterQueue, labels: Mapping[str, str], resource: str) -> str | None:
        group = queue.group_of(resource)
        names = [quotas.flavor for quotas in group.flavors if resource in quotas.quotas] if group is not None else []
        fitting = (name for name in names if _has(self._flavors.get(name), labels))
        return next(fitting, names[0] if names else None)

    # ---- admissions and payers

    def charged(self, workload: Workload, admission: Admission) -> None:
        """Counts the reservation of an admission that is charged from now on."""
        flavors = {got.name: got.flavors for got in admission.pod_sets}
        payer = Payer(workload.key, admission.cluster_queue, workload.queue, flavors)
        self._put(workload.key, _Account(payer, admission.usage(), workload.lowest_priority))

    def released(self, key: str) -> None:
        """Counts no reservation any more; the queue pays for the pods that are still bound."""
        account = self._accounts.get(key)
        if account is None:
            return
        if key in self._pods:
            self._put(key, _Account(account.payer))
        else:
            self._journal.drop(self._accounts, key)

    def set_payer(self, payer: Payer) -> None:
        """Names the queue that pays for bound pods of a workload without an admission, unless its last admission says so."""
        key = payer.workload
        if key in self._pods and key not in self._accounts:
            self._put(key, _Account(payer))

    def _put(self, key: str, account: _Account) -> None:
        before = self._accounts.get(key)
        self._journal.put(self._accounts, key, account)
        pods = self._pods.get(key)
        if pods and (before is None or before.payer != account.payer):
            priced = {name: (pod, self._priced(account.payer, pod)) for name, (pod, _) in pods.items()}
            self._journal.put(self._pods, key, priced)
            self._journal.put(self._used, key, _total(amounts for _, amounts in priced.values()))
        self._settle(key)

    def _forget_unused(self, key: str) -> None:
        account = self._accounts.get(key)
        if account is not None and account.priority is None:
            self._journal.drop(self._accounts, key)
            self._settle(key)

    # ---- charges

    def _settle(self, key: str) -> None:
        """Charges the difference to what the workload's pods were charged before."""
        before, after = self._excess.get(key), self._beyond(key)
        if before == after:
            return
        if before is not None:
            self._charge(before, -1)
            self._journal.drop(self._excess, key)
        if after is not None:
            self._charge(after, +1)
            self._journal.put(self._excess, key, after)
        if self._journal.recording or before is None or self._is_leaving(key):
            return
        if after is None or not _covers(after, before):
            self.shrunk.add(before.payer.cluster_queue)

    def _is_leaving(self, key: str) -> bool:
        """Reports whether the workload keeps its nodes without a reservation until all of its pods have ended: the end of the
        last one frees what others wait for.
        """
        account = self._accounts.get(key)
        return account is not None and account.priority is not None and not account.reserved

    def _beyond(self, key: str) -> Excess | None:
        account, used = self._accounts.get(key), self._used.get(key)
        if account is None or not used:
            return None
        amounts = {fr: more for fr, amount in used.items() if (more := amount - account.reserved.get(fr, 0)) > 0}
        return Excess(account.payer, amounts, account.priority) if amounts else None

    def _charge(self, excess: Excess, sign: int) -> None:
        payer = excess.payer
        if not self._journal.recording:
            self.changed[payer.cluster_queue, payer.local_queue] = None
        for sums, name in ((self._of_queue, payer.cluster_queue), (self._of_local_queue, payer.local_queue)):
            if total := _sum(sums.get(name, _NOTHING), excess.amounts, sign):
                self._journal.put(sums, name, total)
            else:
                self._journal.drop(sums, name)
        if excess.priority is not None:
            self._by_priority.add(payer.cluster_queue, excess.priority, excess.amounts, sign)
        (self._quota.add if sign > 0 else self._quota.remove)(payer.cluster_queue, excess.amounts)

    @contextmanager
    def lifted(self, key: str) -> Iterator[None]:
        """Opens a context in which the workload's pods on nodes that do not respond charge nothing beyond its reservation.

        Such pods may never end. An admission that is charged inside covers them; any other pod would run beside the new ones.
        """
        excess = self._excess.get(key)
        if excess is None:
            yield
            return
        lasting = _total(amounts for pod, amounts in self._pods[key].values() if self._responds(pod))
        amounts = {fr: less for fr, amount in excess.amounts.items() if (less := amount - lasting.get(fr, 0)) > 0}
        self._quota.remove(excess.payer.cluster_queue, amounts)
        try:
            yield
        finally:
            self._quota.add(excess.payer.cluster_queue, amounts)

    def _responds(self, pod: BoundPod) -> bool:
        node = self._node(pod.node)
        return node is not None and node.responds

    def has_pods(self, key: str) -> bool:
        """Reports whether pods of the workload are bound."""
        return key in self._pods

    def pods_bound(self, key: str) -> int:
        """Returns the number of the workload's bound pods."""
        return len(self._pods.get(key, ()))

    def staying(self, key: str) -> Iterator[BoundPod]:
        """Yields the workload's bound pods on nodes that respond."""
        return (pod for pod, _ in list(self._pods.get(key, {}).values()) if self._responds(pod))

    def ending(self, key: str) -> bool:
        """Reports whether bound pods of the workload are still to end, on nodes that respond."""
        return any(True for _ in self.staying(key))

    # ---- queries

    def excess_of(self, key: str) -> Sums:
        """Returns what the workload's bound pods are charged beyond its reservation."""
        account = self._excess.get(key)
        return _NOTHING if account is None else account.amounts

    @property
    def exceeding(self) -> Collection[str]:
        """The workloads whose bound pods are charged beyond their reservation."""
        return self._excess.keys()

    def payer_of(self, key: str) -> Payer | None:
        """Returns who pays for the workload's bound pods, or None."""
        account = self._accounts.get(key)
        return None if account is None else account.payer

    def of_queue(self, name: str) -> Sums:
        """Returns what bound pods are charged to the ClusterQueue beyond reservations."""
        return self._of_queue.get(name, _NOTHING)

    def of_local_queue(self, key: str) -> Sums:
        """Returns what bound pods of the LocalQueue's workloads are charged beyond reservations."""
        return self._of_local_queue.get(key, _NOTHING)

    def all(self) -> Iterator[Excess]:
        """Yields every charge beyond a reservation."""
        yield from self._excess.values()

    def payers(self) -> Iterator[Payer]:
        """Yields, by workload, who pays for bound pods without an admission."""
        yield from (one.payer for _, one in sorted(self._accounts.items()) if one.priority is None)

    def differences(self, admissions: Mapping[str, Admission], pods: Mapping[str, BoundPod]) -> Iterator[str]:
        """Recomputes the charges from admissions and bound pods; yields a sentence for each difference."""
        counted = {name for each in self._pods.values() for name in each}
        for name in sorted(counted ^ {name for name, pod in pods.items() if pod.workload is not None}):
            yield f"bound pod {name} is counted: {name in counted}, bound: {name in pods}"
        for key in sorted(self._pods.keys() | self._excess.keys()):
            reserved = admissions[key].usage() if key in admissions else _NOTHING
            used = _total(amounts for _, amounts in self._pods.get(key, {}).values())
            want = {fr: amount - reserved.get(fr, 0) for fr, amount in used.items()}
            want = {fr: amount for fr, amount in want.items() if amount > 0}
            if (have := dict(self.excess_of(key))) != want:
                yield f"bound pods of {key} are charged {have} beyond its reservation, they use {want}"


def _covers(excess: Excess, other: Excess) -> bool:
    """Reports whether `excess` charges at least as much to the same queue."""
    same = excess.payer.cluster_queue == other.payer.cluster_queue
    return same and all(excess.amounts.get(fr, 0) >= amount for fr, amount in other.amounts.items())


def _total(amounts: Iterable[Sums]) -> Sums:
    total: dict[FlavorResource, int] = {}
    for each in amounts:
        for fr, amount in each.items():
            total[fr] = total.get(fr, 0) + amount
    return total


def _has(flavor: Flavor | None, labels: Mapping[str, str]) -> bool:
    return flavor is not None and all(labels.get(key) == value for key, value in flavor.node_labels.items())


def _sum(sums: Sums, other: Sums, sign: int) -> dict[FlavorResource, int]:
    """Returns the sums without zeros."""
    total = dict(sums)
    for fr, amount in other.items():
        total[fr] = total.get(fr, 0) + sign * amount
    return {fr: amount for fr, amount in total.items() if amount}
