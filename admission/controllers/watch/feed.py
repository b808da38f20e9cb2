"""Feeds the ledger: converts every change of the watched objects into events of the ledger and the pending queues.

Each object is converted once per change: by engine/convert/convert_nodes.py and convert_queues.py, or workload_conversion.py.
Changes without effect on the engine (a node's heartbeat, a status that Stowage wrote itself) end here. A change requeues every
workload that it could help and requests a cycle. An object that cannot be converted is logged with name and field, and its last
valid state stays in force; for a Workload, the status reports the validation error.

A change that concerns many queues or waiting workloads converts them in rounds of short steps (affected.py), and a cycle
decides between two rounds (`settled`). The capacity of an evicted workload is free when its pods have left (`leaving`). While
an admission or an eviction is being written, the scheduler owns the Workload: older states that the watch still shows are
ignored (`hold`, `let_go`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from admission.controllers.watch.affected import AffectedWorkloads
from admission.controllers.watch.cluster_view import BY_REPLACED, ClusterView
from admission.controllers.watch.in_steps import InSteps
from admission.controllers.watch.node_amounts import AmountsChanged
from admission.controllers.watch.past_usage import UsageReader
from admission.controllers.watch.projection import ProjectedPod
from admission.controllers.watch.slice_index import SliceIndex
from admission.controllers.watch.view_feature import TreesChanged
from admission.controllers.watch.workload_conversion import (
    Guess,
    WorkloadConversion,
    leaving,
    no_guess,
    payer_of,
)
from admission.engine import model
from admission.engine.convert import convert_nodes, convert_queues
from admission.engine.quota.charging import PLAIN, ResourceRules
from admission.engine.scheduler_state import SchedulerState
from api.elastic_quotas import cluster_queue_name
from api.errors import InvalidObject
from api.kube.informers.store import Change, ChangeType
from api.meta import is_true
from api.names import ELASTIC_QUOTA_LABEL, FINISHED, QUOTA_RESERVED
from api.pod.pods import Namespace, Node
from api.queues import ClusterQueue, Cohort, LocalQueue
from api.topology import ResourceFlavor, Topology
from api.workloads import Workload

log = logging.getLogger(__name__)

_DELETED = ChangeType.DELETED
_FEW = 16
"""So many objects that depend on another one are handled with it; more are handled in a round."""


class Feed:
    """Keeps ledger and queues current with the informers; `request_cycle` is called when a cycle could decide something.

    `rules`, `by_eviction` and `groups_outrank` are arguments of `convert.workload`.
    """

    def __init__(
        self,
        views: ClusterView,
        state: SchedulerState,
        request_cycle: Callable[[], None],
        *,
        request_cycle_soon: Callable[[], None] | None = None,
        rules: ResourceRules = PLAIN,
        by_eviction: bool = True,
        groups_outrank: bool = False,
        wall: Callable[[], float] = time.time,
        guess: Guess = no_guess,
        tell_unread: Callable[[LocalQueue, str], None] = lambda queue, text: None,
    ) -> None:
        """`request_cycle_soon` is called instead of `request_cycle` while no queue has a head.

        `wall` returns epoch seconds: holds of nodes that have begun charge quota. `guess` is an argument of
        WorkloadConversion, `tell_unread` of UsageReader.
        """
        self._wall, self._rules = wall, rules
        self._views, self._state, self._request_cycle = views, state, request_cycle
        self._request_cycle_soon = request_cycle_soon or request_cycle
        self._nodes: dict[str, model.Node] = {}
        self._cluster_queues: dict[str, model.ClusterQueue] = {}
        self._validation_errors: dict[str, str] = {}
        self._held: set[str] = set()
        self._lingering: set[str] = set()
        self._moved: dict[str, None] = {}
        self._recounted: dict[str, None] = {}
        self._slices = SliceIndex(views, state)
        self.conversion = WorkloadConversion(
            views, self._slices, rules, by_eviction=by_eviction, groups_outrank=groups_outrank, guess=guess
        )
        self._counting = InSteps()
        self._affected = AffectedWorkloads(views, self._refresh_one, request_cycle)
        self._tell_error: Callable[[str], None] = lambda key: None
        self._tell_usage: Callable[[str, str], None] = lambda queue, local_queue: None
        views.outside.charged = lambda namespace: state.ledger.bound.of_queue(cluster_queue_name(namespace))
        self.past_usage = UsageReader(views.local_queues, state, request_cycle, tell_unread=tell_unread)
        views.topologies.add_handler(self._topology_changed)
        views.features.on_trees(self._trees_changed)
        views.flavors.add_handler(self._flavor_changed)
        views.cohorts.add_handler(self._cohort_changed)
        views.features.on_node_holds(self.set_node_hold)
        views.checks.add_handler(lambda _: self._requeue_all())
        views.cluster_queues.add_handler(self._cluster_queue_changed)
        views.namespaces.add_handler(self._namespace_changed)
        views.features.on_amounts(self._amounts_changed)
        views.nodes.add_handler(self._node_changed)
        views.workloads.add_handler(self._workload_changed)
        views.pods.add_handler(self._pod_changed)
        views.outside.add_handler(self._outside_changed)

    def validation_error(self, workload: Workload) -> str | None:
        """Returns the error that keeps the engine from accepting the Workload, or None."""
        return self._validation_errors.get(workload.key)

    def on_validation_error(self, fn: Callable[[str], None]) -> None:
        """Calls `fn` with the key of a Workload whose `validation_error` has changed."""
        self._tell_error = fn

    def refresh_in_steps(self) -> None:
        """Converts many workloads in rounds of short steps, for a loop that others share: `settled` waits for them."""
        self._affected.rounds.in_steps = True

    async def settled(self) -> None:
        """Waits until each change is handled for all workloads that it concerns; see Rounds.settled."""
        await self._affected.rounds.settled()

    def finish(self) -> None:
        """Handles all changes now, for a copy of the process that reads the state."""
        self._affected.rounds.finish()

    def count_in_steps(self) -> None:
        """Counts bound pods for pod terms in steps, for a loop that others share: workloads with pod terms wait until then."""
        self._state.ledger.count_in_steps(self._count)

    def _count(self, counting: Iterator[None]) -> None:
        """Counts pods in short steps, since counting all of them takes a second at scale."""

        def steps() -> Iterator[None]:
            yield from counting
            self._state.requeue_all()
            self._request_cycle()

        self._counting.start(steps())

    # ---- flavors and queues

    def _topology_changed(self, change: Change[Topology]) -> None:
        if change.old is not None and change.type is not _DELETED and change.old.spec == change.object.spec:
            return
        for flavor in self._views.flavors.objects.values():
            if flavor.spec.topology_name == change.key:
                self._set_flavor(flavor.key)
        self._requeue_all()

    def _trees_changed(self, change: TreesChanged) -> None:
        for flavor in self._views.flavors.objects.values():
            if flavor.spec.topology_name in change.topologies:
                self._set_flavor(flavor.key)
        self._set_again(sorted(change.nodes), ())
        self._requeue_all()

    def _flavor_changed(self, change: Change[ResourceFlavor]) -> None:
        if change.type is _DELETED:
            self._state.apply(model.ObjectRemoved(model.RemovedKind.FLAVOR, change.key))
        else:
            self._set_flavor(change.key)
        self._requeue_all()

    def _set_flavor(self, name: str) -> None:
        """Sets the flavor in rounds. Of two changes of one flavor before its turn the later one is made."""
        self._affected.rounds.add_found(f"flavor {name}", lambda: self._setting_flavor(name))

    def _setting_flavor(self, name: str) -> Iterator[None]:
        flavor = self._views.flavors.objects.get(name)
        if flavor is None:  # it was removed before its turn
            return
        topology = self._views.topology(flavor.spec.topology_name or "")
        tas = self._views.gates.topology_aware_scheduling
        try:
            yield from self._state.set_flavor(convert_queues.flavor(flavor, topology, topology_aware=tas))
        except InvalidObject as bad:
            log.warning("flavor not taken: %s", bad, extra={"flavor": flavor.key})

    def _cohort_changed(self, change: Change[Cohort]) -> None:
        try:
            if change.type is _DELETED:
                self._state.apply(model.ObjectRemoved(model.RemovedKind.COHORT, change.key))
            else:
                self._state.apply(convert_queues.cohort(change.object))
        except InvalidObject as bad:
            log.warning("cohort not taken: %s", bad, extra={"cohort": change.key})
        self._requeue_all()

    def set_node_hold(self, name: str, hold: model.NodeHold | None) -> None:
        """Holds the nodes in rounds; from its start the hold also charges quota. None ends it.

        Of two changes of one hold before its turn the later one is made.
        """
        present = None if hold is None else hold.at(self._wall())
        self._affected.rounds.add_found(f"hold {name}", lambda: self._state.set_node_hold(name, present))

    def _requeue_all(self) -> None:
        """Evaluates every queue again, in rounds, since flavors, topologies, checks and cohorts change rarely."""
        self._affected.rounds.add(self._views.cluster_queues.objects)
        self._state.requeue_all()
        self._request_cycle()

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        if change.type is not _DELETED:
            self._set_cluster_queue(change.object)
            return
        self._cluster_queues.pop(change.key, None)
        namespace = change.object.metadata.labels.get(ELASTIC_QUOTA_LABEL, "")
        if change.key == cluster_queue_name(namespace):
            self._views.outside.forget(namespace)
        self._apply(model.ObjectRemoved(model.RemovedKind.CLUSTER_QUEUE, change.key))
        self._affected.by_cluster_queue(change.key)

    def _set_cluster_queue(self, queue: ClusterQueue) -> None:
        activity = self._views.activity(queue)
        try:
            namespace = queue.metadata.labels.get(ELASTIC_QUOTA_LABEL, "")
            new = convert_queues.cluster_queue(
                queue,
                inactive=None if activity.active else activity.message,
                unanswered=activity.unanswered,
                only_checks=activity.only_checks,
                outside=self._views.outside.of(namespace) if queue.key == cluster_queue_name(namespace) else {},
            )
        except InvalidObject as bad:
            log.warning("queue not taken: %s", bad, extra={"cluster_queue": queue.key})
            return
        if self._cluster_queues.get(queue.key) == new:
            return
        self._cluster_queues[queue.key] = new
        self._state.apply(new)
        self._affected.by_cluster_queue(queue.key)
        self._request_cycle()

    def _outside_changed(self, namespace: str) -> None:
        """Updates the queue of an elastic quota, which counts every pod of its namespace."""
        queue = self._views.cluster_queues.objects.get(cluster_queue_name(namespace))
        if queue is not None:
            self._set_cluster_queue(queue)

    def _namespace_changed(self, change: Change[Namespace]) -> None:
        if change.type is _DELETED:
            self._apply(model.ObjectRemoved(model.RemovedKind.NAMESPACE, change.key))
            return
        if change.old is not None and change.old.metadata.labels == change.object.metadata.labels:
            return
        self._apply(model.Namespace(change.key, change.object.metadata.labels))
        self._affected.by_namespace(change.key)

    def kinds_changed(self) -> None:
        """Converts the workloads again after a change of the managed job kinds."""
        self._affected.by_kinds()

    # ---- nodes and pods

    def _node_changed(self, change: Change[Node]) -> None:
        if change.type is _DELETED:
            self._nodes.pop(change.key, None)
            self._apply(model.ObjectRemoved(model.RemovedKind.NODE, change.key))
            self._take_lingering(tuple(self._lingering))
        else:
            self._set_node(change.object)

    def _set_node(self, stored: Node) -> None:
        """Passes the node to the ledger, with the labels from trees of ConfigMaps and its extra capacity."""
        try:
            node = convert_nodes.node(stored)
        except InvalidObject as bad:
            log.warning("node not taken: %s", bad, extra={"node": stored.key})
            return
        if levels := self._views.features.labels_of(node.name):
            node = replace(node, labels={**node.labels, **levels})
        if more := self._views.features.offered(node.name):
            node = replace(node, allocatable={**node.allocatable, **more})
        if self._nodes.get(node.name) == node:
            return
        self._nodes[node.name] = node
        self._apply(node)
        self._take_lingering(tuple(self._lingering))

    def _pod_changed(self, change: Change[ProjectedPod]) -> None:
        pod = None if change.type is _DELETED else change.object.bound
        if pod == (change.old.bound if change.old else None):
            return
        if pod is None:
            self._apply(model.ObjectRemoved(model.RemovedKind.POD, change.key))
        else:
            self._set_pod(change.object, pod)
        if self._lingering and change.old is not None and change.old.bound is not None:
            self._take_lingering((self._slices.current(change.old.bound.workload) or "",))

    def _set_pod(self, seen: ProjectedPod, pod: model.BoundPod) -> None:
        counted = self._counted(seen, pod)
        self._apply(counted)
        if counted.workload is not None:
            self._name_payer(counted.workload)

    def _name_payer(self, key: str) -> None:
        """Names the queue that pays for the workload's bound pods, if the ledger knows none."""
        bound, workload = self._state.ledger.bound, self._views.workloads.objects.get(key)
        if workload is None or not bound.has_pods(key) or bound.payer_of(key) is not None:
            return
        if (payer := payer_of(workload, self._views.local_queue_of(workload))) is not None:
            self._apply(payer)

    def _counted(self, seen: ProjectedPod, pod: model.BoundPod) -> model.BoundPod:
        """Returns the pod as the ledger counts it: with its devices and volumes, for its workload's present slice."""
        if (key := self._slices.current(pod.workload)) != pod.workload:
            pod = replace(pod, workload=key)
        if more := self._views.features.taken(seen):
            pod = replace(pod, requests={**pod.requests, **more})
        charged = self._rules.charged(pod.requests)
        return pod if charged is None else replace(pod, charged=charged)

    def _amounts_changed(self, changed: AmountsChanged) -> None:
        self._set_again(changed.nodes, [seen.bound.key for seen in changed.pods if seen.bound is not None])
        self._affected.add(changed.workloads)
        self._request_cycle()

    def _set_again(self, nodes: Collection[str], pods: Collection[str]) -> None:
        """Passes nodes and bound pods to the ledger again, whose labels or amounts changed: at once, or many in a round."""
        self._moved.update(dict.fromkeys(nodes))
        self._recounted.update(dict.fromkeys(pods))
        if len(self._moved) + len(self._recounted) > _FEW:
            self._affected.rounds.add_found("nodes and pods", self._setting_again)
        else:
            for _ in self._setting_again():
                pass

    def _setting_again(self) -> Iterator[None]:
        while self._moved:
            if (node := self._views.nodes.objects.get(_take_first(self._moved))) is not None:
                self._set_node(node)
            yield
        while self._recounted:
            seen = self._views.pods.objects.get(_take_first(self._recounted))
            if seen is not None and seen.bound is not None:
                self._set_pod(seen, seen.bound)
            yield

    def _apply(self, event: model.Event) -> None:
        if self._state.apply(event):
            (self._request_cycle if self._state.queues.has_head() else self._request_cycle_soon)()
        if changed := self._state.ledger.bound.changed:
            queues = list(changed)
            changed.clear()
            for queue, local_queue in queues:
                self._tell_usage(queue, local_queue)
                self._count_outside(queue)

    def on_bound_usage(self, fn: Callable[[str, str], None]) -> None:
        """Calls `fn` with each ClusterQueue, and the LocalQueue's key, whose bound pods are charged differently from before."""
        self._tell_usage = fn

    def _count_outside(self, queue: str) -> None:
        """Counts the pods anew that no Workload counts, if this is the queue of an elastic quota."""
        cluster_queue = self._views.cluster_queues.objects.get(queue)
        namespace = "" if cluster_queue is None else cluster_queue.metadata.labels.get(ELASTIC_QUOTA_LABEL, "")
        if cluster_queue is not None and queue == cluster_queue_name(namespace):
            self._views.outside.count_again(namespace)

    # ---- workloads

    def may_start(self, key: str) -> bool:
        """Reports whether the volumes that the Workload's pods need are still free; if not, the Workload waits again. Another
        workload of the same cycle may have taken them.
        """
        workload = self._views.workloads.objects.get(key)
        if workload is None or not self._views.features.refuses_start(workload):
            return True
        self._take(workload)
        return False

    def hold(self, key: str) -> None:
        """Ignores changes of the Workload until `let_go`, because the scheduler writes its admission or eviction."""
        self._held.add(key)
        if (workload := self._views.workloads.objects.get(key)) is not None:
            self._views.features.start(workload)

    def let_go(self, key: str) -> None:
        """Ends `hold` after the write or its failure: the state that the informer shows now is in force."""
        self._held.discard(key)
        self._views.features.started(key)
        workload = self._views.workloads.objects.get(key)
        if workload is None:
            charged = self._state.ledger.workload(key)
            old = self._views.workloads.objects.get(charged.replaces) if charged is not None else None
            self._remove(key)
            self._refresh([*([old] if old is not None else []), *self._views.workloads.by_index(BY_REPLACED, key)])
        else:
            self._take(workload)
            self._refresh(self._slices.related_slices(workload))

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.key in self._held:
            return
        if change.type is _DELETED:
            self._remove(change.key)
        else:
            self._take(change.object)
        self._refresh(self._slices.related_slices(change.object))

    def _refresh(self, workloads: Sequence[Workload]) -> None:
        """Converts workloads that depend on another one, usually one or two."""
        if len(workloads) > _FEW:
            self._affected.add(workloads)
            return
        for workload in workloads:
            self._refresh_one(workload.key)

    def _refresh_one(self, key: str) -> None:
        """Converts the Workload of a key, or the ClusterQueue of a name, which has no slash."""
        if (queue := self._views.cluster_queues.objects.get(key)) is not None:
            self._set_cluster_queue(queue)
        elif (workload := self._views.workloads.objects.get(key)) is not None and key not in self._held:
            self._take(workload)

    def _remove(self, key: str) -> None:
        """Removes the workload; the pods of its job count for the remaining slice."""
        self._set_error(key, None)
        self._lingering.discard(key)
        pods = self._state.ledger.allocations.pods_of(key)
        seen = [bound for pod in sorted(pods) if (bound := self._views.pods.objects.get(pod)) is not None]
        self._slices.forget(key)
        self._apply(model.ObjectRemoved(model.RemovedKind.WORKLOAD, key))
        self._name_payer(key)
        payer = self._state.ledger.bound.payer_of(key)
        for one in seen:
            if one.bound is not None and one.bound.workload not in (None, key):
                self._set_pod(one, one.bound)
                if payer is not None and (other := self._slices.current(one.bound.workload)) is not None:
                    self._apply(replace(payer, workload=other))

    def _take(self, workload: Workload) -> None:
        key = workload.key
        if is_true(workload.status.conditions, FINISHED) or self._slices.has_successor(workload):
            self._remove(key)
            return
        try:
            taken = self.conversion.converted(workload)
        except InvalidObject as bad:
            self._set_error(key, str(bad))
            self._leave_out(workload)
            return
        self._set_error(key, None)
        if taken.admission is None and (evicted := leaving(self._state.ledger, key)) is not None:
            self._lingering.add(key)
            self._apply(evicted)
            return
        self._lingering.discard(key)
        self._apply(taken)
        if taken.admission is None:
            self._name_payer(key)
        else:
            for pod in self._slices.pods_to_move(workload):
                self._apply(pod)

    def _set_error(self, key: str, error: str | None) -> None:
        if self._validation_errors.get(key) == error:
            return
        if error is None:
            del self._validation_errors[key]
        else:
            self._validation_errors[key] = error
        self._tell_error(key)

    def _take_lingering(self, keys: Iterable[str]) -> None:
        seen = self._views.workloads.objects
        self._refresh([seen[key] for key in keys if key in self._lingering and key in seen])

    def _leave_out(self, workload: Workload) -> None:
        """Removes an invalid workload from the queue; its allocation stays as long as it has quota."""
        if is_true(workload.status.conditions, QUOTA_RESERVED):
            self._state.queues.remove(workload.key)
            self._request_cycle()
        else:
            self._apply(model.ObjectRemoved(model.RemovedKind.WORKLOAD, workload.key))
            self._name_payer(workload.key)


def _take_first(keys: dict[str, None]) -> str:
    first = next(iter(keys))
    del keys[first]
    return first
