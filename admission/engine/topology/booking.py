"""Who owns which pod, and what each admission takes where.

An admission's pods are charged on its domains at once, bound or not. A bound pod of that workload, on a node of such a
domain, is covered: it is one of those already charged. Any other bound pod is foreign and charged on its node. When a
workload is released while pods of it are still bound, they become foreign until they are gone; when it is admitted
again, they are covered again. What a covered pod takes beyond its pod set's requests (an injected sidecar) is charged as
foreign. So no pod is ever charged twice and none goes uncharged.

Where nodes are counted one by one under a wider lowest level, an assignment does not say which node gets a pod. Pods
that are not bound yet are then charged as shadows: packed onto the domain's nodes first-fit by name, and replaced by the
real node as the pods bind. Shadows give way: they move when their node goes or is needed by pods that are really there.
Called by ledger.py; place.py asks only `spots`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from admission.engine.model import (
    HOSTNAME_LABEL,
    PODS,
    Admission,
    Assignment,
    BoundPod,
    Flavor,
    PodSetAdmission,
    Workload,
)
from admission.engine.topology.capacity import Capacity, Kind, Spot
from admission.engine.topology.constraints import pod_amounts, wants_of
from admission.engine.topology.match import Wants
from admission.engine.topology.tree import Tree, Values
from admission.engine.topology.usage import Vector, times
from admission.engine.trial import Journal

Slot = tuple[str, str, Values]
"""(workload, pod set, domain's values): one entry of an assignment."""

Domain = tuple[tuple[str, ...], Values]
"""(levels, values)."""


@dataclass(slots=True)
class Share:
    """What one entry of an assignment takes: `count` pods of `vector` in one domain.

    `covered`: bound pods that are among them; `excess`: bound pods beyond the count, charged as foreign. `shadows`: by
    node, the pods that are not bound yet (only where the domain's nodes are charged one by one).
    """

    flavor: str
    levels: tuple[str, ...]
    values: Values
    vector: Vector
    count: int
    by_node: bool
    wants: Wants
    covered: set[str] = field(default_factory=set)
    excess: set[str] = field(default_factory=set)
    shadows: dict[str, int] = field(default_factory=dict)

    @property
    def domain(self) -> Domain:
        """Where it is, whatever the flavor."""
        return self.levels, self.values

    @property
    def unplaced(self) -> int:
        """Pods that are on no node: neither bound nor shadowed."""
        return self.count - len(self.covered) - sum(self.shadows.values())


@dataclass(frozen=True, slots=True)
class Booking:
    """An admission in force. `shares` by (pod set, values)."""

    workload: Workload
    admission: Admission
    shares: Mapping[tuple[str, Values], Share]


def _by_host(levels: tuple[str, ...]) -> bool:
    return bool(levels) and levels[-1] == HOSTNAME_LABEL


def _spot(flavor: str, levels: tuple[str, ...], values: Values) -> Spot:
    kind = Kind.HOST if _by_host(levels) else Kind.DOMAIN
    return Spot(kind, flavor, values[-1:] if kind is Kind.HOST else values)


def spots(
    capacity: Capacity, flavor: str, assignment: Assignment, vector: Vector, wants: Wants
) -> Iterator[tuple[Spot, int]]:
    """What the assignment would be charged on. Packing looks at what is free now: charge each before asking for the next."""
    by_node = capacity.by_node and not _by_host(assignment.levels)
    for domain in assignment.domains:
        if not by_node:
            yield _spot(flavor, assignment.levels, domain.values), domain.count
            continue
        rest = domain.count
        for node, fit in _room(capacity, flavor, (assignment.levels, domain.values), vector, wants):
            if rest and (count := min(fit, rest)):
                rest -= count
                yield Spot(Kind.NODE, flavor, (node,)), count


def _room(capacity: Capacity, flavor: str, where: Domain, vector: Vector, wants: Wants) -> Iterator[tuple[str, int]]:
    """The domain's nodes that the pods may stand on, by name, each with how many pods of this size it still holds."""
    levels, values = where
    tree = capacity.trees.get(flavor)
    if tree is None or tree.shape.levels != levels:
        return
    domain = tree.domain_row(values)
    mask = tree.matcher.feasible(wants, tree.rows.size)
    for row in () if domain is None else tree.rows_of_domain(domain):
        if mask is None or mask[row]:
            yield tree.members(row)[0], room(tree, row, vector)


def room(tree: Tree, row: int, vector: Vector) -> int:
    """How many pods of this size one row still holds."""
    return max(0, min((tree.free_at(row, column) // amount for column, amount in vector if amount > 0), default=0))


class Bookings:
    """All admissions in force and all bound pods."""

    def __init__(self, capacity: Capacity, flavors: Mapping[str, Flavor], journal: Journal) -> None:
        self.by_workload: dict[str, Booking] = {}
        self.pods: dict[str, BoundPod] = {}
        self._capacity = capacity
        self._flavors = flavors
        self._journal = journal
        self._pods_of: dict[str, set[str]] = {}
        self._pods_on: dict[str, set[str]] = {}
        self._slot_of: dict[str, Slot] = {}
        self._shadows_on: dict[str, set[Slot]] = {}
        self._excess_of: dict[str, Slot] = {}
        self._homeless: dict[Domain, set[Slot]] = {}

    # ---- admissions

    def charge(self, workload: Workload, admission: Admission) -> None:
        """Take the room of an admission; the workload must have none."""
        booking = Booking(workload, admission, dict(self._shares(workload, admission)))
        self._journal.put(self.by_workload, workload.key, booking)
        for share in booking.shares.values():
            if not share.by_node:
                self._capacity.charge(_spot(share.flavor, share.levels, share.values), share.vector, share.count)
        for pod in sorted(self._pods_of.get(workload.key, ())):
            self._unsettle(pod)
            self._settle(pod)
        for pod_set, values in booking.shares:
            self._pack((workload.key, pod_set, values))

    def release(self, key: str) -> Admission | None:
        """Give the room back; pods that are still bound are foreign from now on."""
        booking = self.by_workload.get(key)
        if booking is None:
            return None
        for (pod_set, values), share in booking.shares.items():
            self._clear(key, pod_set, values, share)
        pods = sorted(self._pods_of.get(key, ()))
        for pod in pods:
            self._unsettle(pod)
        self._journal.drop(self.by_workload, key)
        for pod in pods:
            self._settle(pod)
        for share in booking.shares.values():
            if not share.by_node:
                self._capacity.charge(_spot(share.flavor, share.levels, share.values), share.vector, -share.count)
        for share in booking.shares.values():
            self._house(share.domain)
        return booking.admission

    def _clear(self, key: str, pod_set: str, values: Values, share: Share) -> None:
        slot = (key, pod_set, values)
        for node in sorted(share.shadows):
            self._shadow(slot, share, node, -share.shadows[node])
        if share.domain in self._homeless:
            self._journal.discard(self._homeless[share.domain], slot)

    def _shares(self, workload: Workload, admission: Admission) -> Iterator[tuple[tuple[str, Values], Share]]:
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        for got in admission.pod_sets:
            if got.assignment is None or got.name not in pod_sets:
                continue
            vector = self._capacity.columns.vector(pod_amounts(pod_sets[got.name]))
            flavor, levels = self.flavor_of(got), got.assignment.levels
            by_node = self._capacity.by_node and not _by_host(levels)
            wants = wants_of(pod_sets[got.name], self._flavors.get(flavor))
            counts: dict[Values, int] = {}
            for domain in got.assignment.domains:
                counts[domain.values] = counts.get(domain.values, 0) + domain.count
            for values, count in counts.items():
                yield (got.name, values), Share(flavor, levels, values, vector, count, by_node, wants)

    def flavor_of(self, got: PodSetAdmission) -> str:
        """The flavor on whose tree the pod set stands."""
        names = sorted(set(got.flavors.values()))
        return next((name for name in names if name in self._capacity.trees), names[0] if names else "")

    # ---- bound pods

    def set_pod(self, pod: BoundPod) -> None:
        """The pod holds a node, as this says."""
        if self.pods.get(pod.key) == pod:
            return
        self.drop_pod(pod.key)
        self._journal.put(self.pods, pod.key, pod)
        if pod.workload is not None:
            self._journal.add(self._pods_of.setdefault(pod.workload, set()), pod.key)
        self._journal.add(self._pods_on.setdefault(pod.node, set()), pod.key)
        self._settle(pod.key)

    def drop_pod(self, key: str) -> None:
        """The pod holds no node any more."""
        pod = self.pods.get(key)
        if pod is None:
            return
        slot = self._slot_of.get(key)
        self._unsettle(key)
        if pod.workload is not None:
            self._leave(self._pods_of, pod.workload, key)
        self._leave(self._pods_on, pod.node, key)
        self._journal.drop(self.pods, key)
        if slot is not None:
            self._refill(slot)
        self._house_at(pod.node)

    def _leave(self, index: dict[str, set[str]], at: str, key: str) -> None:
        self._journal.discard(index[at], key)
        if not index[at] and not self._journal.recording:
            del index[at]

    def _refill(self, slot: Slot) -> None:
        """A covered pod is gone: one in excess takes its place, or else a shadow does."""
        share = self._share(slot)
        if share is None:
            return
        if share.excess:
            pod = min(share.excess)
            self._unsettle(pod)
            self._settle(pod)
        self._pack(slot)

    def _share(self, slot: Slot) -> Share | None:
        booking = self.by_workload.get(slot[0])
        return None if booking is None else booking.shares.get(slot[1:])

    def _settle(self, key: str) -> None:
        """Cover the pod if its workload's admission has room for it there; else charge it as foreign."""
        pod = self.pods[key]
        slot = self._slot_for(pod)
        share = None if slot is None else self._share(slot)
        if slot is not None and share is not None:
            if len(share.covered) < share.count:
                self._cover(slot, share, pod)
                return
            self._journal.add(share.excess, key)
            self._journal.put(self._excess_of, key, slot)
        self._capacity.add_foreign(pod.node, self._capacity.columns.vector(_held(pod)))
        self._relieve(pod.node)

    def _cover(self, slot: Slot, share: Share, pod: BoundPod) -> None:
        self._journal.put(self._slot_of, pod.key, slot)
        self._journal.add(share.covered, pod.key)
        if share.unplaced < 0:
            self._shadow(slot, share, pod.node if pod.node in share.shadows else max(share.shadows), -1)
        self._charge_covered(slot, share, pod, +1)
        self._relieve(pod.node)

    def _charge_covered(self, slot: Slot, share: Share, pod: BoundPod, count: int) -> None:
        """Node by node the pod is charged where it is, as it is; else only what its entry has not charged already."""
        if share.by_node:
            held = self._capacity.columns.vector(_held(pod))
            self._capacity.charge(Spot(Kind.NODE, share.flavor, (pod.node,)), held, count)
            self._count_homeless(slot, share)
        elif surplus := self._surplus(share, pod):
            self._capacity.add_foreign(pod.node, surplus, count)

    def _surplus(self, share: Share, pod: BoundPod) -> Vector:
        """What the pod takes beyond what its entry counts for one pod."""
        held = self._capacity.columns.vector(_held(pod))
        counted = dict(share.vector)
        return tuple(
            (column, amount - counted.get(column, 0)) for column, amount in held if amount > counted.get(column, 0)
        )

    def _unsettle(self, key: str) -> None:
        """Undo `_settle`."""
        pod = self.pods[key]
        slot = self._slot_of.get(key)
        if slot is None:
            self._forget_excess(pod)
            self._capacity.add_foreign(pod.node, self._capacity.columns.vector(_held(pod)), -1)
            return
        share = self._share(slot)
        self._journal.drop(self._slot_of, key)
        if share is not None:
            self._journal.discard(share.covered, key)
            self._charge_covered(slot, share, pod, -1)

    def _forget_excess(self, pod: BoundPod) -> None:
        slot = self._excess_of.get(pod.key)
        share = None if slot is None else self._share(slot)
        if share is not None:
            self._journal.discard(share.excess, pod.key)
        self._journal.drop(self._excess_of, pod.key)

    def _slot_for(self, pod: BoundPod) -> Slot | None:
        """The entry that may count the pod: of its pod set where it names one, with room if there is one such."""
        booking = None if pod.workload is None else self.by_workload.get(pod.workload)
        if booking is None:
            return None
        found: Slot | None = None
        for got in booking.admission.pod_sets:
            if got.assignment is None or pod.pod_set not in (None, got.name):
                continue
            values = self._values(pod.node, got.assignment.levels)
            share = None if values is None else booking.shares.get((got.name, values))
            if share is not None and values is not None:
                slot = (booking.workload.key, got.name, values)
                if len(share.covered) < share.count:
                    return slot
                found = found or slot
        return found

    def _values(self, name: str, levels: tuple[str, ...]) -> Values | None:
        """The domain of a node under these levels. A node that is not known yet is taken to bear its name as hostname."""
        book = self._capacity.nodes.get(name)
        node = None if book is None else book.node
        if node is None:
            return (name,) if levels == (HOSTNAME_LABEL,) else None
        if any(level not in node.labels for level in levels):
            return None
        return tuple(node.labels[level] for level in levels)

    # ---- nodes

    def node_moved(self, name: str) -> None:
        """The node came, went, or its labels changed: its pods may stand in another domain now, shadows must move."""
        pods = sorted(self._pods_on.get(name, ()))
        slots = {slot for pod in pods if (slot := self._slot_of.get(pod)) is not None}
        for pod in pods:
            self._unsettle(pod)
        for pod in pods:
            self._settle(pod)
        for slot in sorted(slots):
            self._refill(slot)
        for slot in sorted(self._shadows_on.get(name, ())):
            share = self._share(slot)
            if share is not None:
                self._shadow(slot, share, name, -share.shadows[name])
                self._pack(slot)
        self._house_at(name)

    def node_changed(self, name: str) -> None:
        """The node offers other amounts."""
        self._relieve(name)
        self._house_at(name)

    def flavor_planted(self) -> None:
        """A flavor's tree was built anew: it may have room for what had none."""
        for domain in sorted(self._homeless):
            self._house(domain)

    # ---- shadows

    def _pack(self, slot: Slot) -> None:
        """Give the entry's pods that are on no node a place, as far as there is room."""
        share = self._share(slot)
        if share is None or not share.by_node:
            return
        rest = share.unplaced
        if rest > 0:
            nodes = list(_room(self._capacity, share.flavor, share.domain, share.vector, share.wants))
            for node, fit in nodes:
                count = min(fit, rest)
                if count:
                    self._shadow(slot, share, node, count)
                    rest -= count
        self._count_homeless(slot, share)

    def _shadow(self, slot: Slot, share: Share, node: str, count: int) -> None:
        """`count` shadows of the entry come to the node (negative: leave)."""
        total = share.shadows.get(node, 0) + count
        if total:
            self._journal.put(share.shadows, node, total)
            self._journal.add(self._shadows_on.setdefault(node, set()), slot)
        else:
            self._journal.drop(share.shadows, node)
            self._journal.discard(self._shadows_on.setdefault(node, set()), slot)
        self._capacity.charge(Spot(Kind.NODE, share.flavor, (node,)), share.vector, count)

    def _count_homeless(self, slot: Slot, share: Share) -> None:
        if share.unplaced > 0:
            self._journal.add(self._homeless.setdefault(share.domain, set()), slot)
        elif share.domain in self._homeless:
            self._journal.discard(self._homeless[share.domain], slot)

    def _house(self, domain: Domain) -> None:
        """Room may have come: try again for the domain's pods that are on no node."""
        for slot in sorted(self._homeless.get(domain, ())):
            self._pack(slot)

    def _house_at(self, node: str) -> None:
        if self._homeless:
            for levels in sorted({tree.shape.levels for tree in self._capacity.trees.values()}):
                values = self._values(node, levels)
                if values is not None:
                    self._house((levels, values))

    def _relieve(self, name: str) -> None:
        """The node may hold more than it has: shadows on it give way."""
        for slot in sorted(self._shadows_on.get(name, ()), reverse=True):
            share = self._share(slot)
            while share is not None and share.shadows.get(name) and self._overfull(name, share):
                self._shadow(slot, share, name, -1)
                self._pack(slot)

    def _overfull(self, name: str, share: Share) -> bool:
        """Whether something that the share takes of the node is promised more often than it is there."""
        tree = self._capacity.trees.get(share.flavor)
        row = None if tree is None else tree.row_of_node.get(name)
        if tree is None or row is None:
            return False
        return any(amount > 0 and tree.free_at(row, column) < 0 for column, amount in share.vector)

    # ---- audit

    def differences(self) -> Iterator[str]:
        """What does not agree with the kept admissions and pods."""
        yield from self._wrong_usage()
        yield from self._wrong_foreign()
        yield from self._wrong_cover()

    def _wrong_usage(self) -> Iterator[str]:
        wanted: dict[Spot, dict[int, int]] = {}
        for booking in self.by_workload.values():
            for share in booking.shares.values():
                for spot, vector in self._charged(share):
                    entry = wanted.setdefault(self._capacity.canonical(spot), {})
                    for column, amount in vector:
                        entry[column] = entry.get(column, 0) + amount
        have = self._capacity.charges()
        for spot in sorted(wanted.keys() | have.keys(), key=str):
            want = {column: amount for column, amount in wanted.get(spot, {}).items() if amount}
            if want != have.get(spot, {}):
                yield f"usage of {spot.kind.value} {'/'.join(spot.key)} is {have.get(spot, {})}, its workloads take {want}"

    def _charged(self, share: Share) -> Iterator[tuple[Spot, Vector]]:
        if not share.by_node:
            yield _spot(share.flavor, share.levels, share.values), times(share.vector, share.count)
            return
        for node, count in share.shadows.items():
            yield Spot(Kind.NODE, share.flavor, (node,)), times(share.vector, count)
        for pod in (self.pods[key] for key in share.covered):
            yield Spot(Kind.NODE, share.flavor, (pod.node,)), self._capacity.columns.vector(_held(pod))

    def _wrong_foreign(self) -> Iterator[str]:
        wanted: dict[str, dict[int, int]] = {}
        for pod in self.pods.values():
            slot = self._slot_of.get(pod.key)
            share = None if slot is None else self._share(slot)
            for column, amount in self._as_foreign(pod, share):
                entry = wanted.setdefault(pod.node, {})
                entry[column] = entry.get(column, 0) + amount
        have = {name: book.foreign for name, book in self._capacity.nodes.items() if book.foreign}
        for name in sorted(wanted.keys() | have.keys()):
            want = {column: amount for column, amount in wanted.get(name, {}).items() if amount}
            if want != have.get(name, {}):
                yield f"foreign pods on node {name} take {have.get(name, {})} by the book, in truth {want}"

    def _as_foreign(self, pod: BoundPod, share: Share | None) -> Vector:
        if share is None:
            return self._capacity.columns.vector(_held(pod))
        return () if share.by_node else self._surplus(share, pod)

    def _wrong_cover(self) -> Iterator[str]:
        for key, booking in self.by_workload.items():
            for (pod_set, values), share in booking.shares.items():
                where = f"workload {key}, pod set {pod_set}, domain {'/'.join(values)}"
                if len(share.covered) > share.count or share.unplaced < 0:
                    yield f"{where}: more pods than its {share.count}"
                if share.excess and len(share.covered) < share.count:
                    yield f"{where}: pods in excess while there is room"
                wrong = [pod for pod in share.covered if self._slot_of.get(pod) != (key, pod_set, values)]
                yield from (f"{where}: pod {pod} is not covered here" for pod in wrong)
        for pod in self.pods.values():
            wanted = None if pod.key in self._slot_of else self._slot_for(pod)
            share_there = None if wanted is None else self._share(wanted)
            if share_there is not None and len(share_there.covered) < share_there.count:
                yield f"pod {pod.key} is foreign though its workload's admission has room for it"
        yield from self._wrong_slots()

    def _wrong_slots(self) -> Iterator[str]:
        for pod, slot in self._slot_of.items():
            share_of = self._share(slot)
            if share_of is None or pod not in share_of.covered:
                yield f"pod {pod} is covered by an admission that does not count it"
            elif self._values(self.pods[pod].node, share_of.levels) != share_of.values:
                yield f"pod {pod} is covered outside its domain"


def _held(pod: BoundPod) -> dict[str, int]:
    return {**pod.requests, PODS: 1}
