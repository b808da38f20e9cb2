"""The scheduler's state: ledger and pending queues. Each event updates both and requeues the workloads that it could help.

Only this module decides which event requeues which queues. It makes no admission decision and converts nothing. The feed calls
it with events of the watch; a world loaded from files or from a snapshot (admission/world) calls it the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial

from admission.engine.ledger.ledger import Ledger
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
    RemovedKind,
    Workload,
)
from admission.engine.preemption.projected_quota import reclaimable_beside
from admission.engine.queue.queues import PendingQueues


class SchedulerState:
    """`apply` returns whether a cycle could now decide something that it could not decide before.

    Two numbers are for moves/: `movability` grows whenever running workloads may be moved that might not be before, and `freed`
    whenever capacity of nodes may have become free.
    """

    def __init__(self, ledger: Ledger, queues: PendingQueues) -> None:
        self.ledger, self.queues = ledger, queues
        self.movability = self.freed = 0
        self._known: set[str] = set()
        self._generations: dict[str, int] = {}
        self._beside = partial(reclaimable_beside, ledger)

    def apply(self, event: Event) -> bool:
        """Applies the current state of an object, or its removal."""
        return self._apply(event) or self.queues.has_head()

    def _apply(self, event: Event) -> bool:
        match event:
            case Node():
                self.ledger.apply(event)
                return (
                    self._requeue_if_charged_less() | self._requeue_if_capacity_freed() | self._held_hosts_may_change()
                )
            case BoundPod():
                before, openings = self.ledger.allocations.pods.get(event.key), self.ledger.openings
                self.ledger.apply(event)
                # A pod that was resized in place may have given something back; a new one may be near whom others want to be.
                changed = (before is not None and before != event) or self.ledger.openings != openings
                return self._requeue_if_charged_less() | (changed and self._requeue_if_capacity_freed())
            case Payer():
                self.ledger.apply(event)
                return self._requeue_if_charged_less()
            case Namespace():
                self.ledger.apply(event)
                return self._requeue_if_capacity_freed()
            case NodeHold():
                deque(self.set_node_hold(event.name, event), maxlen=0)
                return True
            case Flavor() | Cohort():
                self.ledger.apply(event)
                return self.requeue_all()
            case ClusterQueue():
                return self._set_queue(event)
            case Workload():
                return self._set_workload(event)
            case ObjectRemoved():
                return self._remove(event)

    def set_flavor(self, flavor: Flavor) -> Iterator[None]:
        """Sets the flavor in steps of one node, and requeues all workloads in the last one."""
        yield from self.ledger.set_flavor(flavor)
        self.requeue_all()

    def set_node_hold(self, name: str, hold: NodeHold | None) -> Iterator[None]:
        """Sets the hold of nodes (None: removes it) in steps of one node, and requeues all workloads in the last one."""
        if self.ledger.node_holds.get(name) == hold:
            return
        timed = bool(self.ledger.node_holds)
        yield from self.ledger.set_node_hold(name, hold)
        if timed != bool(self.ledger.node_holds):
            self.queues.time_shapes(timed=not timed)
        self.ledger.reserved.shrunk.clear()
        self.requeue_all()

    def requeue_all(self) -> bool:
        """Requeues all workloads, after a change on which any queue may depend."""
        self.queues.lines.requeue(self._known)
        return True

    def _set_queue(self, queue: ClusterQueue) -> bool:
        self._known.add(queue.name)
        before = self.ledger.quota.spec(queue.name)
        if before is None or (before.restart, before.moves_per_day) != (queue.restart, queue.moves_per_day):
            self.movability += 1
        left = self.ledger.quota.relatives(queue.name)
        self.ledger.apply(queue)
        self.queues.set_queue(queue)
        self.queues.lines.requeue(left | self.ledger.quota.relatives(queue.name))
        return True

    def _set_workload(self, workload: Workload) -> bool:
        if workload.admission is not None:
            known = self.ledger.workload(workload.key)
            before = None if known is None or known.admission is None else self.ledger.taken(known.key, known.admission)
            self.queues.remove(workload.key)
            self.ledger.apply(workload)
            if known is not None and _permission(known) != _permission(workload):
                self.movability += 1
            self._set_usage(workload, workload.admission)
            stays = known is not None and known.evicted and not workload.evicted
            if stays:
                self.queues.lines.stays(workload)
            less = before is not None and self._requeue_if_less(workload.key, before, workload.admission)
            weaker = known is not None and (
                workload.priority < known.priority
                or workload.lowest_priority < known.lowest_priority
                or workload.queued > known.queued
            )
            if known is not None and workload.priority != known.priority:
                self.queues.evictions.forget(workload.key)
            if weaker:  # more workloads may evict it now
                self.queues.lines.requeue(self.ledger.quota.relatives(workload.admission.cluster_queue))
                self._requeue_for_partners(workload)
            return stays or less or weaker
        self.release(workload.key)
        self.ledger.watch_terms(workload)
        self.queues.put(workload)
        return True

    def _set_usage(self, workload: Workload, admission: Admission) -> None:
        """Counts the workload's quota in the past usage of its LocalQueue, and settles its penalty once it is written."""
        self.queues.past.hold(workload, admission)
        if workload.reserved is not None:
            self.queues.past.written(workload, workload.reserved)

    def _requeue_if_less(self, key: str, before: Mapping[FlavorResource, int], now: Admission) -> bool:
        """Requeues the queue and its relatives if the workload under this key is charged less than `before`."""
        left = self.ledger.taken(key, now)
        if all(amount <= left.get(fr, 0) for fr, amount in before.items()):
            return False
        self._requeue_after_release(now.cluster_queue)
        return True

    def release(self, key: str) -> bool:
        """Releases the admission of the workload, if it has one, and requeues the workloads that want its quota or nodes."""
        workload, admission = self.ledger.workload(key), self.ledger.admission(key)
        self.queues.past.release(key)
        if admission is None:
            return False
        self.ledger.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
        self._requeue_after_release(admission.cluster_queue, key)
        if workload is not None:
            self._requeue_for_partners(workload)
        return True

    def _requeue_for_partners(self, workload: Workload) -> None:
        """Requeues who may evict the workloads that started together with this one and still run: they are evicted as a
        whole, by the highest priority of those that run.
        """
        members = workload.gang.together if workload.gang is not None else ()
        admissions = (self.ledger.admission(member) for member in members if member != workload.key)
        for name in {admission.cluster_queue for admission in admissions if admission is not None}:
            self.queues.lines.requeue(self.ledger.quota.relatives(name) | {name})

    def _requeue_after_release(self, queue: str, left: str = "") -> None:
        self.queues.lines.quota_freed(self.ledger.quota.relatives(queue) | {queue}, self._beside, left)
        self._requeue_if_capacity_freed()

    def _remove(self, gone: ObjectRemoved) -> bool:
        match gone.kind:
            case RemovedKind.WORKLOAD:
                waited = gone.key in self.queues  # the workload behind it may be next now
                self.queues.remove(gone.key)
                return self.release(gone.key) or waited
            case RemovedKind.CLUSTER_QUEUE:
                self._known.discard(gone.key)
                self.ledger.apply(gone)
                self.queues.drop_queue(gone.key)
                return True
            case RemovedKind.FLAVOR | RemovedKind.COHORT:
                self.ledger.apply(gone)
                if gone.kind is RemovedKind.FLAVOR:
                    self._generations.pop(gone.key, None)
                return self.requeue_all()
            case RemovedKind.NODE_HOLD:
                deque(self.set_node_hold(gone.key, None), maxlen=0)
                return True
            case RemovedKind.POD | RemovedKind.NAMESPACE:
                self.ledger.apply(gone)
                return self._requeue_if_charged_less() | self._requeue_if_capacity_freed()
            case RemovedKind.NODE:
                self.ledger.apply(gone)
                return self._requeue_if_charged_less() | self._held_hosts_may_change()

    def _held_hosts_may_change(self) -> bool:
        """Reports whether a change of nodes may give back hosts that are held of a flavor: a cycle holds and releases them."""
        return bool(self.ledger.holds.of_flavor)

    def _requeue_if_charged_less(self) -> bool:
        """Requeues the queues that share quota with one that is charged for fewer reserved nodes or bound pods than before."""
        names, self.ledger.reserved.shrunk = self.ledger.reserved.shrunk, set()
        for name in sorted(names):
            self.queues.lines.requeue(self.ledger.quota.relatives(name) | {name})
        ended, self.ledger.bound.shrunk = self.ledger.bound.shrunk, set()
        for name in sorted(ended):
            self.queues.lines.quota_freed(self.ledger.quota.relatives(name) | {name}, self._beside, "")
        return bool(names or ended)

    def _requeue_if_capacity_freed(self) -> bool:
        """Requeues the queues of flavors whose free capacity may have grown since the last call."""
        grown = []
        for name in self.ledger.flavors:
            generation = self.ledger.generation(name)
            if self._generations.get(name) != generation:
                self._generations[name] = generation
                grown.append(name)
        if grown:
            self.freed += 1
            self.queues.lines.capacity_freed(grown, self._beside)
        return bool(grown)


def _permission(workload: Workload) -> tuple[object, ...]:
    """Returns which of the workload's terms say whether it may be moved. A checkpoint changes only the cost."""
    terms = workload.restart
    return terms.movable, terms.minimum_run, terms.moving
