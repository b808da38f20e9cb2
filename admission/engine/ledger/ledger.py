"""The ledger: nodes, usage and admissions, kept incrementally. It is the only state that a decision reads.

`apply` takes an object of the cluster. `charge` and `release` add and remove an admission, inside a trial or for good. Every
change can be reverted (journal.py), and its cost grows with what it touches, not with the cluster. `placement` answers
questions about placement (topology/questions/queries.py), and `audit` recomputes everything; neither changes the ledger.
quota/tree.py counts quota; topology/ counts capacity and assigns pods to workloads. Called by the feed (apply) and by cycle/
(everything else).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain

from admission.engine.journal import Journal, Trial
from admission.engine.ledger.audit import wrong_nodes, wrong_quota
from admission.engine.ledger.holds import Holds
from admission.engine.model import (
    Admission,
    BoundPod,
    ClusterQueue,
    Cohort,
    Event,
    Flavor,
    FlavorResource,
    Namespace,
    Node,
    NodeHold,
    ObjectRemoved,
    Payer,
    PlacementOptions,
    PodFacts,
    RemovedKind,
    Workload,
    marked,
)
from admission.engine.quota.bound import BoundUsage
from admission.engine.quota.reserved import ReservedQuota, covered, nodes_of
from admission.engine.quota.tree import QuotaTree
from admission.engine.quota.usage_by_priority import UsageByPriority
from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.away import AwayUsage
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.allocation.entries import Allocation, Slot
from admission.engine.topology.allocation.footprint import Footprint, SparseAmounts, footprint, free
from admission.engine.topology.allocation.ranked import RankedAllocations, RankedQueue
from admission.engine.topology.allocation.simulated_removal import shift, taken
from admission.engine.topology.neighbours.counts import Steps
from admission.engine.topology.questions.queries import PlacementQueries
from admission.engine.topology.tree.tree import Tree


class Ledger:
    """One cluster's ledger.

    `quota` is the cohort tree, `usage_by_priority` its usage by priority, `flavors` the flavors by name, `admissions` what is
    allocated by workload, `reserved` the quota that holds of nodes charge, `bound` what pods are charged beyond their
    reservation, `holds` what is kept for somebody.
    """

    def __init__(self, options: PlacementOptions | None = None) -> None:
        self.options = options or PlacementOptions()
        self.journal = Journal()
        self.quota = QuotaTree(self.journal)
        self.usage_by_priority = UsageByPriority(self.journal)
        self.flavors: dict[str, Flavor] = {}
        self.node_holds: dict[str, NodeHold] = {}
        self.reserved = ReservedQuota(self.journal, self.quota, self.flavors)
        self.admissions: dict[str, Admission] = {}
        self._away: frozenset[str] = frozenset()
        self._capacity = Capacity(self.options, self.journal)
        self._allocations = Allocations(self._capacity, self.flavors, self.journal)
        self._away_usage = AwayUsage(self._allocations, self._capacity)
        self._ranked = RankedAllocations()
        self.holds = Holds(self.journal, self.quota, self._capacity, self.admissions, self.charge, self.release)
        self.bound = BoundUsage(self.journal, self.quota, self.usage_by_priority, self.flavors, self._node)
        self.placement = PlacementQueries(self._capacity, self._allocations, self.flavors, self.options, self.journal)

    # ---- what the cluster says

    def apply(self, event: Event) -> None:
        """Applies the current state of an object, or its removal."""
        match event:
            case Node():
                self._set_node(event.name, event)
            case BoundPod():
                self._set_pod(event)
            case Payer():
                self.bound.set_payer(event)
            case Workload():
                self._set_workload(event)
            case Namespace():
                self._capacity.placed.set_namespace(event.name, event.labels)
            case Flavor():
                deque(self.set_flavor(event), maxlen=0)
            case NodeHold():
                deque(self.set_node_hold(event.name, event), maxlen=0)
            case ClusterQueue():
                self._set_queue(event.name, event)
            case Cohort():
                self.quota.set_cohort(event)
            case ObjectRemoved():
                self._remove(event)

    def _remove(self, gone: ObjectRemoved) -> None:
        match gone.kind:
            case RemovedKind.NODE:
                self._set_node(gone.key, None)
            case RemovedKind.POD:
                self._drop_pod(gone.key)
            case RemovedKind.WORKLOAD:
                self.release(gone.key)
            case RemovedKind.NAMESPACE:
                self._capacity.placed.set_namespace(gone.key, None)
            case RemovedKind.FLAVOR:
                self._capacity.stop_growing(gone.key)
                self._set_flavor(gone.key, None)
            case RemovedKind.CLUSTER_QUEUE:
                self._set_queue(gone.key, None)
            case RemovedKind.NODE_HOLD:
                deque(self.set_node_hold(gone.key, None), maxlen=0)
            case RemovedKind.COHORT:
                self.quota.drop_cohort(gone.key)

    def _set_pod(self, pod: BoundPod) -> None:
        before = self._allocations.pods.get(pod.key)
        if before == pod:
            return
        if before is not None:
            self.bound.drop(before)
        self._allocations.set_pod(pod)
        self.bound.add(pod)

    def _drop_pod(self, key: str) -> None:
        pod = self._allocations.pods.get(key)
        if pod is not None:
            self._allocations.drop_pod(key)
            self.bound.drop(pod)

    def _node(self, name: str) -> Node | None:
        record = self._capacity.nodes.get(name)
        return None if record is None else record.node

    def _set_node(self, name: str, node: Node | None) -> None:
        if node is not None and self.node_holds:
            node = marked(node, self._sorted_node_holds())
        if self._capacity.set_node(name, node):
            self._allocations.node_moved(name)
        else:
            self._allocations.node_changed(name)
        if self.node_holds or self.reserved.nodes:
            self._pay_for(name, node)

    def _pay_for(self, name: str, node: Node | None) -> None:
        self.reserved.set_node(name, node, self._sorted_node_holds())

    def _set_queue(self, name: str, queue: ClusterQueue | None) -> None:
        """Sets or removes the queue; reserved nodes are charged anew if it covers other flavors and resources."""
        before = self.quota.spec(name)
        if queue is None:
            self.quota.drop_queue(name)
        else:
            self.quota.set_queue(queue)
        paying = any(one.charging and one.queue == name for one in self.node_holds.values())
        if paying and covered(before) != covered(queue):
            self._pay_anew(name)

    def _pay_anew(self, queue: str = "") -> None:
        """Charges the reserved nodes again, after a change of the queue (empty: of any) or of a flavor."""
        paying = [one for one in self.node_holds.values() if one.charging and (not queue or one.queue == queue)]
        for name, record in self._capacity.nodes.items() if paying else ():
            if record.node is not None and any(one.holds(record.node.labels) for one in paying):
                self._pay_for(name, record.node)

    def _sorted_node_holds(self) -> tuple[NodeHold, ...]:
        return tuple(one for _, one in sorted(self.node_holds.items()))

    def set_node_hold(self, name: str, hold: NodeHold | None) -> Iterator[None]:
        """Sets the hold of nodes (None: removes it): names it in every flavor, and marks its nodes.

        Each node ends a step, and so does each workload of the ClusterQueue that it charges: there are thousands.
        """
        before = self.node_holds.get(name)
        if before == hold:
            return
        if hold is None:
            del self.node_holds[name]
        else:
            self.node_holds[name] = hold
        for flavor in list(self.flavors.values()):
            self._set_flavor(flavor.name, flavor)
        yield from self._track()
        held = [one for one in (before, hold) if one is not None]
        for key in list(self._capacity.nodes):
            record = self._capacity.nodes.get(key)
            node = None if record is None else record.node
            if node is not None and any(one.holds(node.labels) for one in held):
                self._set_node(key, marked(node, self._sorted_node_holds()))
            yield

    def _track(self) -> Iterator[None]:
        """Counts what the workloads of the ClusterQueues that holds of nodes charge use on each host."""
        new = frozenset(one.queue for one in self.node_holds.values() if one.queue)
        added = new - self.reserved.tracked
        self.reserved.track(new)
        for key in [key for queue in sorted(added) for key in sorted(self._allocations.by_queue.get(queue, ()))]:
            if (admission := self.admissions.get(key)) is not None:
                self.reserved.charged(key, admission)
            yield

    def set_flavor(self, flavor: Flavor) -> Iterator[None]:
        """Sets the flavor once its new tree is built, a node a step: there are thousands. A later change overtakes it."""
        self._capacity.stop_growing(flavor.name)
        shape = self._capacity.new_shape(flavor)
        grown = None if shape is None else (yield from self._capacity.grow(flavor.name, shape))
        if shape is None or grown is not None:
            self._set_flavor(flavor.name, flavor, grown)

    def _set_flavor(self, name: str, flavor: Flavor | None, grown: Tree | None = None) -> None:
        if flavor is not None:
            holds = self._sorted_node_holds()
            flavor = flavor if flavor.node_holds == holds else replace(flavor, node_holds=holds)
        before = self.flavors.get(name)
        if before == flavor:
            return
        if flavor is None:
            self.journal.drop(self.flavors, name)
        else:
            self.journal.put(self.flavors, name, flavor)
        if self._capacity.set_flavor(name, flavor, grown):
            self._allocations.flavor_rebuilt()
        if nodes_of(before) != nodes_of(flavor):
            self._pay_anew()

    def _set_workload(self, workload: Workload) -> None:
        allocation = self._allocations.by_workload.get(workload.key)
        if workload.admission is None:
            self.release(workload.key)
        elif (
            allocation is None
            or _places(allocation.admission) != _places(workload.admission)
            or _takes(allocation.workload) != _takes(workload)
        ):
            self.charge(workload, workload.admission)
        else:
            self._renew(allocation, workload, workload.admission)

    def _renew(self, allocation: Allocation, workload: Workload, admission: Admission) -> None:
        """Follows a change of quota or priority of a workload whose pods keep their places."""
        before, key = allocation.admission, workload.key
        if before != admission or allocation.workload.lowest_priority != workload.lowest_priority:
            self.quota.remove(before.cluster_queue, before.usage())
            self.usage_by_priority.add(before.cluster_queue, allocation.workload.lowest_priority, before.usage(), -1)
            self.quota.add(admission.cluster_queue, admission.usage())
            self.usage_by_priority.add(admission.cluster_queue, workload.lowest_priority, admission.usage())
            self.journal.put(self.admissions, key, admission)
            self.bound.charged(workload, admission)
            if self.reserved.tracked and before != admission:
                self.reserved.released(key)
                self.reserved.charged(key, admission)
        self._allocations.renew(workload, admission)

    # ---- what explains a decision; to be read only

    @property
    def capacity(self) -> Capacity:
        """Nodes, trees and usage."""
        return self._capacity

    @property
    def allocations(self) -> Allocations:
        """The usage of each workload on each node, and the workload of each pod."""
        return self._allocations

    # ---- allocations

    def admission(self, key: str) -> Admission | None:
        """Returns the charged admission of the workload; None if it has none."""
        return self.admissions.get(key)

    def charged_to(self, queue: str) -> list[Allocation]:
        """Returns the workloads that are charged to the ClusterQueue, by key; without holds and without workloads in `away`."""
        keys = sorted(self._allocations.by_queue.get(queue, set()) - self.holds.keys - self._away)
        return [self._allocations.by_workload[key] for key in keys]

    def ranked(self, queue: str) -> tuple[RankedQueue, Set[str]]:
        """Returns the workloads of `charged_to` in the order of evictions, and their keys: the line may hold more."""
        keys = self._allocations.by_queue.get(queue, set()) - self.holds.keys - self._away
        return self._ranked.of(queue, keys, self._allocations.by_workload, self._allocations.by_queue), keys

    def workload(self, key: str) -> Workload | None:
        """Returns the workload that is charged under this key, with its admission."""
        allocation = self._allocations.by_workload.get(key)
        return replace(allocation.workload, admission=allocation.admission) if allocation else None

    def watch_terms(self, workload: Workload) -> None:
        """Counts the pods that the workload's pod terms select from now on."""
        facts = [pod_set.facts for pod_set in workload.pod_sets if pod_set.facts is not None]
        if facts:
            self._capacity.placed.watch(placed_next=facts)

    def count_in_steps(self, steps: Steps) -> None:
        """Makes the first count of pods for terms in steps from now on; workloads with terms wait for its end."""
        self._capacity.placed.in_steps = steps

    def is_evicted(self, key: str) -> bool:
        """Reports whether the workload that is charged under this key is being evicted."""
        allocation = self._allocations.by_workload.get(key)
        return allocation is not None and allocation.workload.evicted

    def trial(self) -> AbstractContextManager[Trial]:
        """Opens a context that reverts everything inside at its end, unless `trial.keep()` was called."""
        return self.journal.trial()

    def charge(self, workload: Workload, admission: Admission) -> None:
        """Charges an admission: quota of its queue, capacity in its domains.

        Releases an earlier admission of the workload.
        """
        self._release(workload.key)
        usage = admission.usage()
        self.quota.add(admission.cluster_queue, usage)
        self.usage_by_priority.add(admission.cluster_queue, workload.lowest_priority, usage)
        self._allocations.charge(workload, admission)
        self.bound.charged(workload, admission)
        self.journal.put(self.admissions, workload.key, admission)
        if self.reserved.tracked:
            self.reserved.charged(workload.key, admission)
        if workload.asks_beside:
            self.journal.put(self.holds.askers, workload.key, 0)

    def charge_instead(self, old: str, workload: Workload, admission: Admission) -> None:
        """Charges an admission in place of that of the workload `old`, whose bound pods belong to this workload from now on.

        If `old` is empty or has no admission, this is the same as `charge`.
        """
        if old not in self.admissions:
            self.charge(workload, admission)
            return
        pods = [self._allocations.pods[key] for key in self._allocations.pods_of(old)]
        self.remove_with_pods(old)
        self.charge(workload, admission)
        for pod in pods:
            self._set_pod(replace(pod, workload=workload.key))

    def release(self, key: str) -> Admission | None:
        """Releases and returns the admission of the workload, with what it holds beside its pods; None if it has none. Bound
        pods of the workload are charged until they have ended.
        """
        admission = self._release(key)
        if admission is not None:
            self.bound.released(key)
        return admission

    def _release(self, key: str) -> Admission | None:
        if key in self.holds.askers:
            self.journal.drop(self.holds.askers, key)
            for hold in self.holds.beside(key):
                self.release(hold.key)
        allocation = self._allocations.by_workload.get(key)
        admission = self._allocations.release(key)
        if allocation is not None and admission is not None:
            usage = admission.usage()
            self.holds.ended(key)
            self.journal.drop(self.admissions, key)
            self.quota.remove(admission.cluster_queue, usage)
            if self.reserved.tracked:
                self.reserved.released(key)
            self.usage_by_priority.add(admission.cluster_queue, allocation.workload.lowest_priority, usage, -1)
        return admission

    def returned(self, key: str, admission: Admission) -> dict[FlavorResource, int]:
        """Returns the quota that is free when the workload under this key and its pods end: without what it draws on a
        hold of nodes.
        """
        usage = self.taken(key, admission)
        for fr, amount in self.reserved.drawn(key).items() if self.reserved.nodes else ():
            usage[fr] = usage.get(fr, 0) - amount
        return usage

    def taken(self, key: str, admission: Admission) -> dict[FlavorResource, int]:
        """Returns the quota that the workload under this key is charged: its admission, and more where its pods use more."""
        usage = admission.usage()
        for fr, amount in self.bound.excess_of(key).items():
            usage[fr] = usage.get(fr, 0) + amount
        return usage

    def remove_with_pods(self, key: str) -> None:
        """Removes the workload and its bound pods, as in a trial, so that its quota and capacity are free."""
        self.release(key)
        for pod in self._allocations.pods_of(key):
            self._drop_pod(pod)

    @contextmanager
    def away(self, keys: frozenset[str], *, nodes: bool = True) -> Iterator[None]:
        """Opens a trial in which these workloads and their pods are off the nodes and hold nothing. Quota is not changed.

        `nodes` False leaves the nodes as they are, if no caller will ask for capacity.
        """
        before = self._away
        leaving = keys & self.admissions.keys() if nodes else frozenset[str]()
        at_once = set(filter(self._away_usage.countable, leaving))
        with self.journal.trial(), self._away_usage.freed(at_once):
            for key in leaving - at_once:
                self.simulate_removal(key)
            self._away = before | keys
            try:
                yield
            finally:
                self._away = before

    def simulate_removal(self, key: str) -> None:
        """In a trial: frees the capacity of the workload and its bound pods. Its quota stays charged."""
        shift(self._allocations, self._capacity, key, -1)

    def undo_removal(self, key: str) -> None:
        """Reverts `simulate_removal` in the same trial."""
        shift(self._allocations, self._capacity, key, +1)

    def footprint(self, key: str) -> Footprint:
        """Returns the amounts that `simulate_removal` would free for the workload under this key."""
        return footprint(self._capacity, taken(self._allocations, self._capacity, key))

    def claim(self, workload: Workload, admission: Admission) -> Footprint | None:
        """Returns the amounts that a hold would take on the nodes; None if only the hold itself can tell."""
        would_charge = self._allocations.would_charge(workload, admission)
        return None if would_charge is None else footprint(self._capacity, would_charge)

    def shift_free(self, flavor: str, cells: SparseAmounts, sign: int) -> None:
        """Frees these amounts (1) or takes them again (-1), on the nodes alone. A trial does not revert this."""
        free(self._capacity, flavor, cells, sign)

    # ---- generations, inputs and audit

    def generation(self, flavor: str) -> int:
        """Returns a number that grows whenever capacity on the flavor's nodes may have grown; 0 for an unknown flavor."""
        return self._capacity.generation(flavor)

    @property
    def openings(self) -> int:
        """A number that grows whenever pod terms may open nodes that were closed."""
        return self._capacity.openings

    def inputs(self) -> Iterator[Event]:
        """Yields all events on which the ledger depends, by kind and name. Applied to an empty ledger they give an equal one.

        A workload comes with the admission that the ledger has for it. Holds are not included: each cycle makes its own, and
        holds what is missing.
        """
        yield from (replace(flavor, node_holds=()) for _, flavor in sorted(self.flavors.items()))
        yield from (one for _, one in sorted(self.node_holds.items()))
        yield from self.quota.specs()
        yield from self._capacity.placed.inputs()
        yield from (marked(node, ()) for node in self._capacity.inputs())
        keys = sorted(self._allocations.by_workload.keys() - self.holds.keys)
        yield from (w for key in keys if (w := self.workload(key)) is not None)
        yield from self._allocations.inputs()
        yield from self.bound.payers()

    def assumed_pods(self) -> dict[Slot, dict[str, int]]:
        """Returns the capacity held for admitted pods that are not bound yet, by node.

        Besides this, only what is held (`holds`) depends on history.
        """
        return self._allocations.assumed_pods()

    def set_assumed_pods(self, pods: Mapping[Slot, Mapping[str, int]]) -> None:
        """Restores that capacity from another ledger with the same inputs."""
        self._allocations.set_assumed_pods(pods)

    def audit(self) -> list[str]:
        """Recomputes everything from the inputs. Returns one sentence for each difference; empty if the ledger is right."""
        return list(chain.from_iterable(self.auditing()))

    def auditing(self) -> Iterator[list[str]]:
        """Yields the differences of `audit` in parts: between two parts the caller may do other work and apply changes to the
        ledger.
        """
        yield from wrong_nodes(self._allocations, self._capacity)
        yield from wrong_quota(self._allocations, self.quota, self.usage_by_priority, self.reserved, self.bound)


def _places(admission: Admission) -> list[tuple[object, ...]]:
    """Returns what says which queue pays for the admission and which places it has: all but the amounts of quota."""
    pod_sets = ((got.name, got.flavors, got.count, got.assignment) for got in admission.pod_sets)
    return [(admission.cluster_queue,), *pod_sets]


def _takes(workload: Workload) -> list[tuple[str, dict[str, int], PodFacts]]:
    """Returns the requests, exclusive names and facts of a workload's pods, on which its allocation depends."""
    return [
        (pod_set.name, {**pod_set.requests, **pod_set.exclusive}, workload.facts_of(pod_set))
        for pod_set in workload.pod_sets
    ]
