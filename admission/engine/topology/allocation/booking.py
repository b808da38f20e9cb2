"""Who owns which pod, and what each admission takes where.

An admission's pods are charged on its domains at once, bound or not. A bound pod of that workload, on a node of such a
domain, is covered: it is one of those already charged. Any other bound pod is foreign and charged on its node. When a
workload is released while pods of it are still bound, they become foreign until they are gone; when it is admitted
again, they are covered again. What a covered pod takes beyond its pod set's requests (an injected sidecar) is charged as
foreign. So no pod is ever charged twice and none goes uncharged.

Where nodes are counted one by one under a wider lowest level, each covered pod is charged on its own node, and those that
are not bound yet are held room for by assumed.py. Called by ledger.py; audited by bookings_audit.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from admission.engine.model import Admission, BoundPod, Flavor, PodSetAdmission, Workload
from admission.engine.topology.allocation.assumed import AssumedPods
from admission.engine.topology.allocation.capacity import Capacity, Kind, Spot
from admission.engine.topology.allocation.shares import Booking, Share, Slot, by_host, held
from admission.engine.topology.constraints import pod_amounts, wants_of
from admission.engine.topology.tree.tree import Values
from admission.engine.topology.usage import Vector, times
from admission.engine.trial import Journal


class Bookings:
    """All admissions in force and all bound pods."""

    def __init__(self, capacity: Capacity, flavors: Mapping[str, Flavor], journal: Journal) -> None:
        self.by_workload: dict[str, Booking] = {}
        self.by_queue: dict[str, set[str]] = {}
        self.pods: dict[str, BoundPod] = {}
        self._capacity = capacity
        self._flavors = flavors
        self._journal = journal
        self._pods_of: dict[str, set[str]] = {}
        self._pods_on: dict[str, set[str]] = {}
        self.slot_of: dict[str, Slot] = {}
        self._apart: dict[str, set[str]] = {}
        self._excess_of: dict[str, Slot] = {}
        self.assumed = AssumedPods(capacity, self.share_of, journal)

    # ---- admissions

    def charge(self, workload: Workload, admission: Admission) -> None:
        """Take the room of an admission; the workload must have none."""
        booking = Booking(workload, admission, dict(self._shares(workload, admission)))
        self._journal.put(self.by_workload, workload.key, booking)
        self._journal.add(self.by_queue.setdefault(admission.cluster_queue, set()), workload.key)
        for share in booking.shares.values():
            if not share.by_node:
                self._capacity.charge(share.spot, share.vector, share.count)
        for pod in sorted(self._pods_of.get(workload.key, ())):
            self._unsettle(pod)
            self._settle(pod)
        for share in booking.shares.values():
            self.assumed.pack(share)

    def claimed(self, workload: Workload, admission: Admission) -> list[tuple[Spot, Vector]] | None:
        """What `charge` would take; None where that depends on what is free, or pods of the workload are bound already."""
        shares = [share for _, share in self._shares(workload, admission)]
        if self._pods_of.get(workload.key) or any(share.by_node for share in shares):
            return None
        return [(share.spot, times(share.vector, share.count)) for share in shares]

    def renew(self, workload: Workload) -> None:
        """The workload is now this; what it takes is the same."""
        booking = self.by_workload[workload.key]
        if booking.workload != workload:
            self._journal.put(self.by_workload, workload.key, replace(booking, workload=workload))

    def release(self, key: str) -> Admission | None:
        """Give the room back; pods that are still bound are foreign from now on."""
        booking = self.by_workload.get(key)
        if booking is None:
            return None
        for share in booking.shares.values():
            self.assumed.clear(share)
        pods = sorted(self._pods_of.get(key, ()))
        for pod in pods:
            self._unsettle(pod)
        self._journal.drop(self.by_workload, key)
        self._journal.discard(self.by_queue[booking.admission.cluster_queue], key)
        for pod in pods:
            self._settle(pod)
        for share in booking.shares.values():
            if not share.by_node:
                self._capacity.charge(share.spot, share.vector, -share.count)
        for share in booking.shares.values():
            self.assumed.house(share.domain)
        return booking.admission

    def _shares(self, workload: Workload, admission: Admission) -> Iterator[tuple[tuple[str, Values], Share]]:
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        for got in admission.pod_sets:
            if got.assignment is None or got.name not in pod_sets:
                continue
            vector = self._capacity.columns.vector(pod_amounts(pod_sets[got.name]))
            flavor, levels = self.flavor_of(got), got.assignment.levels
            by_node = self._capacity.by_node and not by_host(levels)
            wants = wants_of(pod_sets[got.name], self._flavors.get(flavor))
            counts: dict[Values, int] = {}
            for domain in got.assignment.domains:
                counts[domain.values] = counts.get(domain.values, 0) + domain.count
            for values, count in counts.items():
                slot = (workload.key, got.name, values)
                yield (got.name, values), Share(slot, flavor, levels, vector, count, by_node, wants)

    def flavor_of(self, got: PodSetAdmission) -> str:
        """The flavor on whose tree the pod set stands."""
        names = sorted(set(got.flavors.values()))
        return next((name for name in names if name in self._capacity.trees), names[0] if names else "")

    # ---- what a snapshot keeps

    def inputs(self) -> Iterator[BoundPod]:
        """The bound pods by key, those first that an admission has counted: so they are counted again."""
        yield from (self.pods[key] for key in sorted(self.slot_of))
        yield from (self.pods[key] for key in sorted(self.pods.keys() - self.slot_of.keys()))

    def rooms(self) -> dict[Slot, dict[str, int]]:
        """Entry to node to the number of its pods that are not bound yet and that have their room there."""
        shares = (share for _, booking in sorted(self.by_workload.items()) for share in booking.shares.values())
        return {share.slot: dict(sorted(share.assumed.items())) for share in shares if share.assumed}

    def set_rooms(self, rooms: Mapping[Slot, Mapping[str, int]]) -> None:
        """Move the assumed pods to where these say."""
        shares = [share for booking in self.by_workload.values() for share in booking.shares.values() if share.by_node]
        for share in shares:
            self.assumed.clear(share)
        for share in shares:
            for node, count in rooms.get(share.slot, {}).items():
                self.assumed.shift(share, node, count)
            self.assumed.count_homeless(share)

    # ---- bound pods

    def pods_of(self, key: str) -> list[str]:
        """The bound pods that declare themselves part of the workload."""
        return sorted(self._pods_of.get(key, ()))

    def pods_on(self, node: str) -> list[str]:
        """The pods that are bound to the node (by name)."""
        return sorted(self._pods_on.get(node, ()))

    def pods_apart(self, key: str) -> list[str]:
        """Those of them that take something of their nodes which the workload's entries do not count."""
        return sorted(self._apart.get(key, ()))

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
        slot = self.slot_of.get(key)
        self._unsettle(key)
        if pod.workload is not None:
            self._leave(self._pods_of, pod.workload, key)
        self._leave(self._pods_on, pod.node, key)
        self._journal.drop(self.pods, key)
        if slot is not None:
            self._refill(slot)
        self.assumed.house_at(pod.node)

    def _leave(self, index: dict[str, set[str]], at: str, key: str) -> None:
        self._journal.discard(index[at], key)
        if not index[at] and not self._journal.recording:
            del index[at]

    def _refill(self, slot: Slot) -> None:
        """A covered pod is gone: one in excess takes its place, or else an assumed pod does."""
        share = self.share_of(slot)
        if share is None:
            return
        if share.excess:
            pod = min(share.excess)
            self._unsettle(pod)
            self._settle(pod)
        self.assumed.pack(share)

    def share_of(self, slot: Slot) -> Share | None:
        """The entry in force, if it is."""
        booking = self.by_workload.get(slot[0])
        return None if booking is None else booking.shares.get(slot[1:])

    def _settle(self, key: str) -> None:
        """Cover the pod if its workload's admission has room for it there; else charge it as foreign."""
        pod = self.pods[key]
        slot = self.slot_for(pod)
        share = None if slot is None else self.share_of(slot)
        if slot is not None and share is not None:
            if len(share.covered) < share.count:
                self._cover(slot, share, pod)
                return
            self._journal.add(share.excess, key)
            self._journal.put(self._excess_of, key, slot)
        self._set_apart(pod, True)
        self._capacity.add_foreign(pod.node, self._capacity.columns.vector(held(pod)))
        self.assumed.relieve(pod.node)

    def _cover(self, slot: Slot, share: Share, pod: BoundPod) -> None:
        self._journal.put(self.slot_of, pod.key, slot)
        self._journal.add(share.covered, pod.key)
        self.assumed.give_way(share, pod.node)
        self._charge_covered(share, pod, +1)
        self.assumed.relieve(pod.node)

    def _charge_covered(self, share: Share, pod: BoundPod, count: int) -> None:
        """Node by node the pod is charged where it is, as it is; else only what its entry has not charged already."""
        if share.by_node:
            taken = self._capacity.columns.vector(held(pod))
            self._capacity.charge(Spot(Kind.NODE, share.flavor, (pod.node,)), taken, count)
            self.assumed.count_homeless(share)
        elif surplus := self.surplus(share, pod):
            self._set_apart(pod, count > 0)
            self._capacity.add_foreign(pod.node, surplus, count)

    def _set_apart(self, pod: BoundPod, apart: bool) -> None:
        """Whether the pod, or what it takes beyond its entry, is charged on its node."""
        if pod.workload is not None:
            (self._journal.add if apart else self._journal.discard)(
                self._apart.setdefault(pod.workload, set()), pod.key
            )

    def surplus(self, share: Share, pod: BoundPod) -> Vector:
        """What the pod takes beyond what its entry counts for one pod."""
        taken = self._capacity.columns.vector(held(pod))
        counted = dict(share.vector)
        return tuple(
            (column, amount - counted.get(column, 0)) for column, amount in taken if amount > counted.get(column, 0)
        )

    def _unsettle(self, key: str) -> None:
        """Undo `_settle`."""
        pod = self.pods[key]
        slot = self.slot_of.get(key)
        if slot is None:
            self._forget_excess(pod)
            self._set_apart(pod, False)
            self._capacity.add_foreign(pod.node, self._capacity.columns.vector(held(pod)), -1)
            return
        share = self.share_of(slot)
        self._journal.drop(self.slot_of, key)
        if share is not None:
            self._journal.discard(share.covered, key)
            self._charge_covered(share, pod, -1)

    def _forget_excess(self, pod: BoundPod) -> None:
        slot = self._excess_of.get(pod.key)
        share = None if slot is None else self.share_of(slot)
        if share is not None:
            self._journal.discard(share.excess, pod.key)
        self._journal.drop(self._excess_of, pod.key)

    def slot_for(self, pod: BoundPod) -> Slot | None:
        """The entry that may count the pod: of its pod set where it names one, with room if there is one such."""
        booking = None if pod.workload is None else self.by_workload.get(pod.workload)
        if booking is None:
            return None
        found: Slot | None = None
        for got in booking.admission.pod_sets:
            if got.assignment is None or pod.pod_set not in (None, got.name):
                continue
            values = self._capacity.domain_of(pod.node, got.assignment.levels)
            share = None if values is None else booking.shares.get((got.name, values))
            if share is not None and values is not None:
                slot = (booking.workload.key, got.name, values)
                if len(share.covered) < share.count:
                    return slot
                found = found or slot
        return found

    # ---- nodes

    def node_moved(self, name: str) -> None:
        """The node came, went, or its labels changed: its pods may stand in another domain now, assumed pods must move."""
        pods = sorted(self._pods_on.get(name, ()))
        slots = {slot for pod in pods if (slot := self.slot_of.get(pod)) is not None}
        for pod in pods:
            self._unsettle(pod)
        for pod in pods:
            self._settle(pod)
        for slot in sorted(slots):
            self._refill(slot)
        self.assumed.leave(name)
        self.assumed.house_at(name)

    def node_changed(self, name: str) -> None:
        """The node offers other amounts."""
        self.assumed.relieve(name)
        self.assumed.house_at(name)

    def flavor_planted(self) -> None:
        """A flavor's tree was built anew: it may have room for what had none."""
        self.assumed.house_all()
