"""The cohort tree by name: how much each queue may use of each flavor's resources, and how much it uses now.

The flavor search queries it and the ledger charges it. It holds quota and usage of ClusterQueues and Cohorts with nominal
quota, lending and borrowing limits on any number of levels; a queue without a cohort is a tree of its own. Cohorts that only
their members name exist too. Quota may change at any time while usage stays, and usage may be charged to a queue that is not
known yet, since objects arrive in any order. Cohorts whose parents form a cycle, and all nodes below them, are `cyclic`:
without links, and kept inactive. Every change is recorded in the journal, so that a trial can be rolled back. cohorts.py has
the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from admission.engine.journal import Journal
from admission.engine.model import ClusterQueue, Cohort, FlavorResource, Quota
from admission.engine.quota import cohorts
from admission.engine.quota.cohorts import QuotaNode

Usage = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Borrowing:
    """How far up the tree a request borrows: 0 for not at all, else the height of the lowest cohort whose quota covers it.

    `below_root` means that this cohort is not the root, so what its members lent out could be reclaimed.
    """

    level: int
    below_root: bool


_ALONE, _IN_COHORT = Borrowing(0, False), Borrowing(0, True)
"""The answers for requests that do not borrow."""


class QuotaTree:
    """The cohort tree. Queues and cohorts have separate names: a queue and a cohort may share a name.

    `changes` grows with each change of quota or usage, also when one is rolled back.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._queues: dict[str, QuotaNode] = {}
        self._cohorts: dict[str, QuotaNode] = {}
        self._specs: dict[str, ClusterQueue] = {}
        self._cohort_specs: dict[str, Cohort] = {}
        self._on_cycle: frozenset[str] = frozenset()
        self.changes = 0

    # ---- structure

    def set_queue(self, queue: ClusterQueue) -> None:
        """Creates or changes a queue; its usage stays."""
        self._journal.record(partial(self._put_queue, queue.name, self._specs.get(queue.name)))
        self._put_queue(queue.name, queue)

    def drop_queue(self, name: str) -> None:
        """Removes a queue's quota and cohort; usage charged to it stays until it is removed."""
        if name in self._specs:
            self._journal.record(partial(self._put_queue, name, self._specs[name]))
            self._put_queue(name, None)

    def set_cohort(self, cohort: Cohort) -> None:
        """Creates or changes a cohort."""
        self._journal.record(partial(self._put_cohort, cohort.name, self._cohort_specs.get(cohort.name)))
        self._put_cohort(cohort.name, cohort)

    def drop_cohort(self, name: str) -> None:
        """Removes a cohort's quota and parent; it continues to exist while it has members."""
        if name in self._cohort_specs:
            self._journal.record(partial(self._put_cohort, name, self._cohort_specs[name]))
            self._put_cohort(name, None)

    def _put_queue(self, name: str, spec: ClusterQueue | None) -> None:
        self.changes += 1
        before = self._specs.pop(name, None)
        if spec is not None:
            self._specs[name] = spec
        node = self._queues.setdefault(name, QuotaNode(name))
        _use_outside(node, before, -1)
        self._move(node, spec.cohort if spec else None)
        node.declared, node.weight_milli = spec is not None, spec.weight_milli if spec else 1000
        cohorts.set_quotas(node, queue_quotas(spec) if spec else {})
        _use_outside(node, spec, +1)
        self._forget_if_idle(node)

    def _put_cohort(self, name: str, spec: Cohort | None) -> None:
        self.changes += 1
        if spec is None:
            self._cohort_specs.pop(name, None)
        else:
            self._cohort_specs[name] = spec
        node = self._cohort(name)
        node.declared, node.weight_milli = spec is not None, spec.weight_milli if spec else 1000
        cohorts.set_quotas(node, spec.quotas if spec else {})
        old, node.wants = node.wants, spec.parent if spec else None
        if old != node.wants:
            self._relink()
        self._forget_unused(node)
        if old is not None and old in self._cohorts:
            self._forget_unused(self._cohorts[old])

    def _cohort(self, name: str) -> QuotaNode:
        return self._cohorts.setdefault(name, QuotaNode(name))

    def _move(self, queue: QuotaNode, cohort: str | None) -> None:
        old = queue.parent
        if (old.name if old else None) == cohort:
            return
        queue.wants = cohort
        parent = self._cohort(cohort) if cohort is not None else None
        cohorts.set_parent(queue, parent)
        if parent is not None:
            parent.queues.add(queue)
        if old is not None:
            old.queues.discard(queue)
            self._forget_unused(old)

    def _relink(self) -> None:
        """Updates the links between cohorts to what they declare, without links along a cycle."""
        for node in list(self._cohorts.values()):
            if node.wants is not None:
                self._cohort(node.wants)
        self._on_cycle = frozenset(name for name in self._cohorts if self._returns_to(name))
        for node in list(self._cohorts.values()):
            linked = node.wants is not None and node.name not in self._on_cycle
            parent = self._cohorts[node.wants] if linked and node.wants is not None else None
            if node.parent is not parent:
                self._link(node, parent)

    def _link(self, node: QuotaNode, parent: QuotaNode | None) -> None:
        if node.parent is not None:
            node.parent.cohorts.discard(node)
        cohorts.set_parent(node, parent)
        if parent is not None:
            parent.cohorts.add(node)

    def _returns_to(self, name: str) -> bool:
        seen: set[str] = set()
        at = self._cohorts[name].wants
        while at is not None and at not in seen:
            if at == name:
                return True
            seen.add(at)
            at = self._cohorts[at].wants if at in self._cohorts else None
        return False

    def _forget_unused(self, cohort: QuotaNode) -> None:
        if cohort.declared or cohort.queues or any(node.wants == cohort.name for node in self._cohorts.values()):
            return
        self._cohorts.pop(cohort.name, None)

    def _forget_if_idle(self, queue: QuotaNode) -> None:
        if not queue.declared and not queue.usage:
            self._queues.pop(queue.name, None)

    # ---- usage

    def add(self, queue: str, usage: Usage) -> None:
        """Charges usage to the queue and, beyond what it withholds, to its ancestors; never refuses, so call `fits` first."""
        if self._journal.recording:
            self._journal.record(partial(self._charge, queue, usage, -1))
        self._charge(queue, usage, +1)

    def remove(self, queue: str, usage: Usage) -> None:
        """Removes what `add` charged."""
        if self._journal.recording:
            self._journal.record(partial(self._charge, queue, usage, +1))
        self._charge(queue, usage, -1)

    def wait(self, queue: str, usage: Usage, sign: int = 1) -> None:
        """Counts this part of the queue's charged usage as kept for pending workloads; with `sign` -1, no longer."""
        if self._journal.recording:
            self._journal.record(partial(self._wait, queue, usage, -sign))
        self._wait(queue, usage, sign)

    def _wait(self, queue: str, usage: Usage, sign: int) -> None:
        self.changes += 1
        if (node := self._queues.get(queue)) is not None:
            for fr, amount in usage.items():
                cohorts.wait(node, fr, sign * amount)

    def _charge(self, queue: str, usage: Usage, sign: int) -> None:
        self.changes += 1
        node = self._queues.setdefault(queue, QuotaNode(queue))
        for fr, amount in usage.items():
            cohorts.change(node, fr, usage=sign * amount)
        self._forget_if_idle(node)

    # ---- queries

    def specs(self) -> Iterator[Cohort | ClusterQueue]:
        """Yields all declared cohorts and queues, each sorted by name."""
        yield from (self._cohort_specs[name] for name in sorted(self._cohort_specs))
        yield from (self._specs[name] for name in sorted(self._specs))

    def node(self, queue: str) -> QuotaNode | None:
        """Returns the queue's node, to be read only, or None."""
        return self._queues.get(queue)

    def charged_node(self, queue: str, seen_from: str = "") -> QuotaNode:
        """Returns the lowest node at which usage of the queue counts for the queue `seen_from`.

        That is its cohort, to which it passes on all of its usage. It is the queue itself if a lending limit withholds quota,
        if the queue has no cohort, or if it is `seen_from`.
        """
        node = self._queues.get(queue) or QuotaNode(queue)
        holds_back = any(quota.lending_limit is not None for quota in node.quotas.values())
        return node if node.parent is None or holds_back or queue == seen_from else node.parent

    def shift(self, node: QuotaNode, usage: Usage, sign: int) -> None:
        """Charges usage to the node itself (sign 1), or releases it (-1). A trial does not revert this."""
        self.changes += 1
        for fr, amount in usage.items():
            cohorts.use(node, fr, sign * amount)

    def cohort(self, name: str) -> QuotaNode | None:
        """Returns the cohort's node, to be read only, or None."""
        return self._cohorts.get(name)

    def spec(self, queue: str) -> ClusterQueue | None:
        """Returns the queue as last set, or None."""
        return self._specs.get(queue)

    def available(self, queue: str, fr: FlavorResource) -> int:
        """Returns what the queue may still use, including borrowing; never negative."""
        node = self._queues.get(queue)
        return max(0, cohorts.available(node, fr)) if node else 0

    def potential(self, queue: str, fr: FlavorResource) -> int:
        """Returns the most the queue could use if no other queue used anything."""
        node = self._queues.get(queue)
        return cohorts.potential(node, fr) if node else 0

    def fits(self, queue: str, usage: Usage) -> bool:
        """Reports whether all of the usage may be charged now."""
        return all(amount <= self.available(queue, fr) for fr, amount in usage.items())

    def nominal(self, queue: str, fr: FlavorResource) -> int:
        """Returns the queue's own quota."""
        node = self._queues.get(queue)
        return node.quota(fr).nominal if node else 0

    def borrowing_limit(self, queue: str, fr: FlavorResource) -> int | None:
        """Returns the queue's borrowing limit, or None."""
        node = self._queues.get(queue)
        return node.quota(fr).borrowing_limit if node else None

    def usage(self, queue: str) -> dict[FlavorResource, int]:
        """Returns the usage charged to the queue, without zeros."""
        node = self._queues.get(queue)
        return dict(node.usage) if node else {}

    def borrowing(self, queue: str, fr: FlavorResource, amount: int) -> Borrowing:
        """Returns how far up the tree the queue would have to borrow for `amount` more."""
        node = self._queues.get(queue)
        if node is None or node.parent is None or not _exceeds(node, fr, amount):
            return _ALONE if node is None or node.parent is None else _IN_COHORT
        left = amount - cohorts.local_available(node, fr)
        for ancestor in node.ancestors():
            if not _exceeds(ancestor, fr, left):
                return Borrowing(ancestor.height(), ancestor.parent is not None)
            left -= cohorts.local_available(ancestor, fr)
        return Borrowing(node.root().height(), False)

    def cyclic(self, queue: str) -> bool:
        """Reports whether the queue is below cohorts that form a cycle."""
        if not (on_cycle := self._on_cycle):
            return False
        node = self._queues.get(queue)
        return node is not None and any(ancestor.name in on_cycle for ancestor in node.ancestors())

    def tree_of(self, queue: str) -> str:
        """Returns a name for the queue's tree: equal for queues that share quota."""
        node = self._queues.get(queue)
        root = node.root() if node else None
        return f"queue {queue}" if root is None or root is node else f"cohort {root.name}"

    def relatives(self, queue: str) -> frozenset[str]:
        """Returns the queues of the queue's tree, including itself."""
        node = self._queues.get(queue)
        if node is None or node.parent is None:
            return frozenset((queue,))
        return frozenset(member.name for member in node.root().members())

    # ---- checks

    def state(self) -> dict[str, object]:
        """Returns the whole state in comparable form: equal states behave alike."""
        return {
            kind + name: (
                node.wants,
                node.parent and node.parent.name,
                *map(dict, (node.quotas, node.subtree, node.usage)),
            )
            for kind, nodes in (("queue ", self._queues), ("cohort ", self._cohorts))
            for name, node in nodes.items()
        }

    def audit(self) -> list[str]:
        """Recomputes every sum from quotas and usage; returns one line per discrepancy."""
        return [line for node in self._cohorts.values() for line in _disagreements(node)] + [
            f"queue {name}: usage of {flavor}/{resource} is negative: {amount}"
            for name, node in self._queues.items()
            for (flavor, resource), amount in node.usage.items()
            if amount < 0
        ]


def queue_quotas(queue: ClusterQueue) -> dict[FlavorResource, Quota]:
    """Returns the queue's quotas by (flavor, resource)."""
    return {
        (quotas.flavor, resource): quota
        for group in queue.groups
        for quotas in group.flavors
        for resource, quota in quotas.quotas.items()
    }


def outside_usage(queue: ClusterQueue | None) -> dict[FlavorResource, int]:
    """Returns usage of the queue's quota by pods that no Workload counts."""
    usage: dict[FlavorResource, int] = {}
    for resource, amount in queue.outside.items() if queue is not None else ():
        group = queue.group_of(resource) if queue is not None else None
        if group is not None and group.flavors:
            usage[group.flavors[0].flavor, resource] = amount
    return usage


def _use_outside(node: QuotaNode, queue: ClusterQueue | None, sign: int) -> None:
    for fr, amount in outside_usage(queue).items():
        cohorts.change(node, fr, usage=sign * amount)


def _exceeds(node: QuotaNode, fr: FlavorResource, amount: int) -> bool:
    return node.subtree.get(fr, 0) < node.usage.get(fr, 0) + amount


def _disagreements(cohort: QuotaNode) -> Iterator[str]:
    subtree, usage = cohorts.expected_sums(cohort)
    if subtree != cohort.subtree:
        yield f"cohort {cohort.name}: quota is {cohort.subtree}, its parts add up to {subtree}"
    if usage != cohort.usage:
        yield f"cohort {cohort.name}: usage is {cohort.usage}, its parts add up to {usage}"
