"""Matches bound pods with admissions, and charges every pod exactly once.

An admission is charged on its domains at once, whether its pods are bound or not. A bound pod of the workload, on a node
of such a domain, is covered: the charge already includes the pod. Any other bound pod is foreign and charged on its node.
If a workload is released while its pods are still bound, the pods become foreign until they end; if the workload is
admitted again, they are covered again. What a covered pod uses beyond its pod set's requests (an injected sidecar, say)
is charged as foreign.

Where nodes are counted one by one under a wider lowest level, each covered pod is charged on its own node, and
assumed.py holds capacity for pods that are not bound yet. Called by ledger.py; audited by audit.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from admission.engine.journal import Journal
from admission.engine.model import Admission, BoundPod, Flavor, PodSetAdmission, Workload
from admission.engine.topology.allocation.assumed import AssumedPods
from admission.engine.topology.allocation.capacity import Capacity, Spot, SpotKind
from admission.engine.topology.allocation.entries import Allocation, EntryUsage, Slot, by_host, held
from admission.engine.topology.constraints import pod_amounts, wants_of
from admission.engine.topology.neighbours.counts import Shift, on_node
from admission.engine.topology.tree.tree_spec import Values
from admission.engine.topology.usage import Vector, times


class Allocations:
    """All admissions in force and all bound pods, with the usage that they are charged for."""

    def __init__(self, capacity: Capacity, flavors: Mapping[str, Flavor], journal: Journal) -> None:
        self.by_workload: dict[str, Allocation] = {}
        self.by_queue: dict[str, set[str]] = {}
        self.yielding: dict[str, float] = {}
        """The workloads that overtook another one, by key, with `Workload.yields`."""
        self.pods: dict[str, BoundPod] = {}
        self._capacity = capacity
        self._flavors = flavors
        self._journal = journal
        self._pods_of: dict[str, set[str]] = {}
        self._pods_on: dict[str, set[str]] = {}
        self.slot_of: dict[str, Slot] = {}
        self._with_surplus: dict[str, set[str]] = {}
        self._excess_of: dict[str, Slot] = {}
        self.assumed = AssumedPods(capacity, self.entry_of, journal)
        self._placed = capacity.placed
        self._placed.source = self

    # ---- admissions

    def charge(self, workload: Workload, admission: Admission) -> None:
        """Charges an admission and cover the workload's bound pods. The workload must have no admission in force."""
        allocation = Allocation(workload, admission, dict(self._entries(workload, admission)))
        for entry in allocation.entries.values():
            if entry.facts is not None and entry.facts.has_terms:
                self._placed.watch(borne=True)
                break
        self._journal.put(self.by_workload, workload.key, allocation)
        self._journal.file(self.by_queue, admission.cluster_queue, workload.key)
        self._note_yields(workload)
        self._shift(allocation, +1)
        for pod in sorted(self._pods_of.get(workload.key, ())):
            self._unsettle(pod)
            self._settle(pod)
        for entry in allocation.by_node():
            self.assumed.pack(entry)

    def _shift(self, allocation: Allocation, sign: int) -> None:
        """Charge (sign 1) or release (-1) the entries that are charged as a whole, and report the pods of all entries to the
        terms that count them.
        """
        for entry in allocation.entries.values() if self._placed.takes else ():
            self._placed.shift(entry.facts, entry.place, 0, sign * entry.count, entry.slot[0])
        whole = [entry for entry in allocation.entries.values() if not entry.by_node]
        self._capacity.charge_all((entry.spot, entry.vector, sign * entry.count) for entry in whole)

    def would_charge(self, workload: Workload, admission: Admission) -> list[tuple[Spot, Vector]] | None:
        """Returns the usage that `charge` would add, or None.

        None means that the usage depends on free capacity, or that pods of the workload are bound already.
        """
        entries = [entry for _, entry in self._entries(workload, admission)]
        if self._pods_of.get(workload.key) or any(entry.by_node for entry in entries):
            return None
        return [(entry.spot, times(entry.vector, entry.count)) for entry in entries]

    def renew(self, workload: Workload, admission: Admission) -> None:
        """Replaces the workload object of an admission in force, and its admission by one with the same places."""
        allocation = self.by_workload[workload.key]
        if allocation.workload != workload or allocation.admission != admission:
            renewed = replace(allocation, workload=workload, admission=admission)
            self._journal.put(self.by_workload, workload.key, renewed)
            self._note_yields(workload)

    def _note_yields(self, workload: Workload) -> None:
        if workload.yields is not None:
            self._journal.put(self.yielding, workload.key, workload.yields)
        else:
            self._journal.drop(self.yielding, workload.key)

    def release(self, key: str) -> Admission | None:
        """Releases the workload's admission and return it; None if it has none. Its bound pods become foreign."""
        allocation = self.by_workload.get(key)
        if allocation is None:
            return None
        for entry in allocation.by_node():
            self.assumed.clear(entry)
        pods = sorted(self._pods_of.get(key, ()))
        for pod in pods:
            self._unsettle(pod)
        self._journal.drop(self.by_workload, key)
        self._journal.unfile(self.by_queue, allocation.admission.cluster_queue, key)
        self._journal.drop(self.yielding, key)
        for pod in pods:
            self._settle(pod)
        self._shift(allocation, -1)
        for entry in allocation.by_node():
            self.assumed.place_unplaced(entry.domain)
        return allocation.admission

    def _entries(self, workload: Workload, admission: Admission) -> Iterator[tuple[tuple[str, Values], EntryUsage]]:
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        for got in admission.pod_sets:
            if got.assignment is None or got.name not in pod_sets:
                continue
            vector = self._capacity.columns.vector(pod_amounts(pod_sets[got.name]))
            flavor, levels = self.flavor_of(got), got.assignment.levels
            by_node = self._capacity.by_node and not by_host(levels)
            # Its pods have their places, whatever is reserved there.
            wants = replace(wants_of(pod_sets[got.name], self._flavors.get(flavor)), node_holds=None)
            facts = workload.facts_of(pod_sets[got.name])
            counts: dict[Values, int] = {}
            for domain in got.assignment.domains:
                counts[domain.values] = counts.get(domain.values, 0) + domain.count
            for values, count in counts.items():
                slot = (workload.key, got.name, values)
                yield (got.name, values), EntryUsage(slot, flavor, levels, vector, count, by_node, wants, facts)

    def flavor_of(self, pod_set: PodSetAdmission) -> str:
        """Returns the flavor whose tree the pod set is placed on."""
        names = sorted(set(pod_set.flavors.values()))
        return next((name for name in names if name in self._capacity.trees), names[0] if names else "")

    # ---- the pods that terms count (PodSource)

    def bound(self) -> Iterator[Shift]:
        """Returns an iterator over the bound pods as of this call."""
        pods, admitted = list(self.pods.values()), self.slot_of.copy()

        def shifts() -> Iterator[Shift]:
            for pod in pods:
                if pod.facts is not None:
                    counted = int(pod.key in admitted)
                    yield pod.facts, on_node(pod.node), 1 - counted, counted

        return shifts()

    def admitted(self) -> list[str]:
        """Returns the keys of the workloads with an admission in force."""
        return list(self.by_workload)

    def unbound(self, workload: str) -> list[Shift]:
        """Returns the pods of the workload's admission that are not bound yet; none without an admission."""
        allocation = self.by_workload.get(workload)
        entries = () if allocation is None else allocation.entries.values()
        return [
            (entry.facts, entry.place, 0, rest)
            for entry in entries
            if entry.facts is not None and (rest := entry.count - len(entry.covered))
        ]

    # ---- what a snapshot keeps

    def inputs(self) -> Iterator[BoundPod]:
        """Yields the bound pods by key, covered ones first, so that restoring a snapshot covers the same pods."""
        yield from (self.pods[key] for key in sorted(self.slot_of))
        yield from (self.pods[key] for key in sorted(self.pods.keys() - self.slot_of.keys()))

    def assumed_pods(self) -> dict[Slot, dict[str, int]]:
        """Returns the assumed pods: entry -> node -> number of pods that hold capacity there."""
        entries = (entry for _, allocation in sorted(self.by_workload.items()) for entry in allocation.entries.values())
        return {entry.slot: dict(sorted(entry.assumed.items())) for entry in entries if entry.assumed}

    def set_assumed_pods(self, pods: Mapping[Slot, Mapping[str, int]]) -> None:
        """Puts the assumed pods on these nodes."""
        entries = [
            entry for allocation in self.by_workload.values() for entry in allocation.entries.values() if entry.by_node
        ]
        for entry in entries:
            self.assumed.clear(entry)
        for entry in entries:
            for node, count in pods.get(entry.slot, {}).items():
                self.assumed.shift(entry, node, count)
            self.assumed.track_unplaced(entry)

    # ---- bound pods

    def pods_of(self, key: str) -> list[str]:
        """Returns the keys of the bound pods that name the workload, sorted."""
        return sorted(self._pods_of.get(key, ()))

    def pods_on(self, node: str) -> list[str]:
        """Returns the keys of the pods that are bound to the node, sorted."""
        return sorted(self._pods_on.get(node, ()))

    def pods_with_surplus(self, key: str) -> list[str]:
        """Returns the keys of the workload's bound pods with usage that its entries do not include, sorted."""
        return sorted(self._with_surplus.get(key, ()))

    def has_surplus(self, key: str) -> bool:
        """Reports whether `pods_with_surplus` has any."""
        return key in self._with_surplus

    def set_pod(self, pod: BoundPod) -> None:
        """Records a bound pod, or its changed state, and charge it."""
        if self.pods.get(pod.key) == pod:
            return
        if pod.facts is not None and pod.facts.has_terms:
            self._placed.watch(borne=True)
        self.drop_pod(pod.key)
        self._journal.put(self.pods, pod.key, pod)
        if pod.workload is not None:
            self._journal.file(self._pods_of, pod.workload, pod.key)
        self._journal.file(self._pods_on, pod.node, pod.key)
        self._settle(pod.key)

    def drop_pod(self, key: str) -> None:
        """Forgets a bound pod and release its charge."""
        pod = self.pods.get(key)
        if pod is None:
            return
        slot = self.slot_of.get(key)
        self._unsettle(key)
        if pod.workload is not None:
            self._journal.unfile(self._pods_of, pod.workload, key)
        self._journal.unfile(self._pods_on, pod.node, key)
        self._journal.drop(self.pods, key)
        if slot is not None:
            self._refill(slot)
        self.assumed.place_unplaced_on(pod.node)

    def _refill(self, slot: Slot) -> None:
        """After a covered pod ended, cover an excess pod of the entry, or else hold capacity for an unbound pod."""
        entry = self.entry_of(slot)
        if entry is None:
            return
        if entry.excess:
            pod = min(entry.excess)
            self._unsettle(pod)
            self._settle(pod)
        self.assumed.pack(entry)

    def entry_of(self, slot: Slot) -> EntryUsage | None:
        """Returns the entry of an admission in force, or None."""
        allocation = self.by_workload.get(slot[0])
        return None if allocation is None else allocation.entries.get(slot[1:])

    def _settle(self, key: str) -> None:
        """Covers the pod if its workload's admission includes a pod there that is not bound yet; else charge it as foreign."""
        pod = self.pods[key]
        slot = self.slot_for(pod)
        entry = None if slot is None else self.entry_of(slot)
        if slot is not None and entry is not None:
            if len(entry.covered) < entry.count:
                self._cover(slot, entry, pod)
                return
            self._journal.add(entry.excess, key)
            self._journal.put(self._excess_of, key, slot)
        self._mark_surplus(pod, True)
        if self._placed.takes:
            self._placed.shift(pod.facts, on_node(pod.node), 1, 0)
        self._capacity.add_foreign(pod.node, self._capacity.columns.vector(held(pod)))
        self.assumed.move_from_overcommitted(pod.node)

    def _cover(self, slot: Slot, entry: EntryUsage, pod: BoundPod) -> None:
        self._journal.put(self.slot_of, pod.key, slot)
        self._journal.add(entry.covered, pod.key)
        if self._placed.takes:
            self._placed.shift(pod.facts, on_node(pod.node), 0, 1)
            self._placed.shift(entry.facts, entry.place, 0, -1, slot[0])
        self.assumed.replace_by_bound(entry, pod.node)
        self._charge_covered(entry, pod, +1)
        self.assumed.move_from_overcommitted(pod.node)

    def _charge_covered(self, entry: EntryUsage, pod: BoundPod, count: int) -> None:
        """Charges the pod on its node if nodes are counted one by one; otherwise charge only its surplus."""
        if entry.by_node:
            taken = self._capacity.columns.vector(held(pod))
            self._capacity.charge(Spot(SpotKind.NODE, entry.flavor, (pod.node,)), taken, count)
            self.assumed.track_unplaced(entry)
        elif surplus := self.surplus(entry, pod):
            self._mark_surplus(pod, count > 0)
            self._capacity.add_foreign(pod.node, surplus, count)

    def _mark_surplus(self, pod: BoundPod, apart: bool) -> None:
        """Records whether the pod, or what it uses beyond its entry, is charged on its node."""
        if pod.workload is not None:
            mark = self._journal.file if apart else self._journal.unfile
            mark(self._with_surplus, pod.workload, pod.key)

    def surplus(self, entry: EntryUsage, pod: BoundPod) -> Vector:
        """Returns the usage of the pod beyond the amounts that its entry counts for one pod."""
        taken = self._capacity.columns.vector(held(pod))
        if taken == entry.vector:
            return ()
        counted = dict(entry.vector)
        return tuple(
            (column, amount - counted.get(column, 0)) for column, amount in taken if amount > counted.get(column, 0)
        )

    def _unsettle(self, key: str) -> None:
        """Undoes `_settle`."""
        pod = self.pods[key]
        slot = self.slot_of.get(key)
        if slot is None:
            self._forget_excess(pod)
            self._mark_surplus(pod, False)
            if self._placed.takes:
                self._placed.shift(pod.facts, on_node(pod.node), -1, 0)
            self._capacity.add_foreign(pod.node, self._capacity.columns.vector(held(pod)), -1)
            return
        entry = self.entry_of(slot)
        self._journal.drop(self.slot_of, key)
        if self._placed.takes:
            if entry is not None:
                self._placed.shift(entry.facts, entry.place, 0, 1, slot[0])
            self._placed.shift(pod.facts, on_node(pod.node), 0, -1)
        if entry is not None:
            self._journal.discard(entry.covered, key)
            self._charge_covered(entry, pod, -1)

    def _forget_excess(self, pod: BoundPod) -> None:
        slot = self._excess_of.get(pod.key)
        entry = None if slot is None else self.entry_of(slot)
        if entry is not None:
            self._journal.discard(entry.excess, pod.key)
        self._journal.drop(self._excess_of, pod.key)

    def slot_for(self, pod: BoundPod) -> Slot | None:
        """Returns the entry for the pod's domain and pod set, preferably one whose pods are not all bound; or None."""
        allocation = None if pod.workload is None else self.by_workload.get(pod.workload)
        if allocation is None:
            return None
        first: Slot | None = None
        for got in allocation.admission.pod_sets:
            if got.assignment is None or pod.pod_set not in (None, got.name):
                continue
            values = self._capacity.domain_of(pod.node, got.assignment.levels)
            entry = None if values is None else allocation.entries.get((got.name, values))
            if entry is not None and values is not None:
                slot = (allocation.workload.key, got.name, values)
                if len(entry.covered) < entry.count:
                    return slot
                first = first or slot
        return first

    # ---- nodes

    def node_moved(self, name: str) -> None:
        """Handles a node that was added, removed or relabelled.

        The domains of its pods are determined again, and its assumed pods move to other nodes.
        """
        pods = sorted(self._pods_on.get(name, ()))
        slots = {slot for pod in pods if (slot := self.slot_of.get(pod)) is not None}
        for pod in pods:
            self._unsettle(pod)
        for pod in pods:
            self._settle(pod)
        for slot in sorted(slots):
            self._refill(slot)
        self.assumed.leave(name)
        self.assumed.place_unplaced_on(name)

    def node_changed(self, name: str) -> None:
        """Handles a node whose allocatable amounts changed."""
        self.assumed.move_from_overcommitted(name)
        self.assumed.place_unplaced_on(name)

    def flavor_rebuilt(self) -> None:
        """Handles a rebuilt flavor tree: try to place the assumed pods that fit on no node."""
        self.assumed.place_all_unplaced()
