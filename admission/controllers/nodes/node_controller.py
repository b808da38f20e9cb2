"""The node failure controller: marks Workloads that lost nodes, and ends pods that can never run.

`node_failures` makes the decisions; the next cycle assigns a marked Workload other nodes (node_replacement.py), and the
ungater sends its new pods there. While some of its pods run on a node that takes no new ones, the places of the others are
moved alone. With Kueue's settings, a Workload that loses another node before that is evicted. Nodes that
are created, deleted or change readiness or taints trigger it, as do pods on such nodes that end and admissions onto them. Only
troubled hosts cost anything: the ledger lists the workloads assigned to them, and unbound pods are listed from the API server,
since this process watches bound pods only.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from admission.controllers.nodes.displaced import DISRUPTION
from admission.controllers.nodes.ended_pods import end_pod
from admission.controllers.nodes.node_failures import (
    FailureRules,
    FailureVerdict,
    HostState,
    find,
    has_room,
    is_assigned_to,
    lost_places,
    multiple_failures,
    patience,
    with_unhealthy_node,
    without_unhealthy_node,
)
from admission.controllers.nodes.node_replacement import hostnames
from admission.controllers.nodes.pod_displacer import Displace
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.evictions import Eviction
from admission.controllers.watch.cluster_view import Views, hostname
from admission.controllers.watch.projection import ProjectedPod
from admission.controllers.watch.runtime_classes import scheduled
from admission.controllers.write.evictor import Evictor
from admission.controllers.write.report_writer import ReportWriter
from admission.engine.ledger.ledger import Ledger
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import PODS
from api.names import HOSTNAME_LABEL, EvictedReason
from api.pod.pods import Node, Pod, PodMeta, PodSpec, PodStatus
from api.workloads import Workload

BY_UNHEALTHY = "unhealthyNode"
_UNBOUND = "spec.nodeName=,status.phase=Pending"
_ENDED = "Pod terminated by Kueue NodeController due to node taint"
_POD_DELAY, _END_DELAY = 0.1, 1.0
# Pods may be ungated for a host for some seconds after its failure, so the host is checked this often at this interval.
_LOOKS, _LOOK_AGAIN = 6, 10.0
_NO_SPACE = 1.0
_decode_pod = msgspec.json.Decoder(Pod).decode


class NodeController:
    """Maintains status.unhealthyNodes while it runs."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        ledger: Ledger,
        evictor: Evictor,
        recorder: EventRecorder,
        now: Callable[[], float] = time.time,
        rules: FailureRules | None = None,
        displace: Displace = lambda key, lost, avoid: None,
    ) -> None:
        """`displace` finds other places for pods that a workload has lost on a node where others of its pods run."""
        self._kube, self._views, self._ledger, self._evictor = kube, views, ledger, evictor
        self._recorder, self._now, self._rules = recorder, now, rules or FailureRules()
        self._reports = ReportWriter(kube, Writer.NODES, observe=views.workloads.observe)
        self._displace = displace
        self._looks: dict[str, int] = {}
        self.reconciler = Reconciler("nodes", self._reconcile, workers=1)
        views.workloads.add_index(BY_UNHEALTHY, lambda w: [node.name for node in w.status.unhealthy_nodes])
        views.nodes.add_handler(self._node_changed)
        views.pods.add_handler(self._pod_changed)
        views.workloads.add_handler(self._workload_changed)

    # ---- watch handlers

    def _node_changed(self, change: Change[Node]) -> None:
        new, old = HostState(hostname(change.object), change.object), change.old
        if change.type is ChangeType.MODIFIED and old is not None:
            was = HostState(new.name, old)
            if (was.presence, was.repelling_taints) == (new.presence, new.repelling_taints):
                return
        if new.name:
            self._check_after(new.name)

    def _pod_changed(self, change: Change[ProjectedPod]) -> None:
        before = change.old.bound if change.old else None
        bound = change.object.bound or before
        ends = change.type is ChangeType.DELETED or change.object.deleting or change.object.bound is None
        if not ends or bound is None or bound.workload is None:
            return
        node = self._views.nodes.objects.get(bound.node)
        host = HostState(hostname(node) if node is not None else bound.node, node)
        if host.may_have_failed:
            # Of a pod that only ended it is not known at once whether it succeeded and needs no place any more.
            going = change.type is ChangeType.DELETED or change.object.deleting
            self._check_after(host.name, _POD_DELAY if going else _END_DELAY)

    def _workload_changed(self, change: Change[Workload]) -> None:
        admission = change.object.status.admission
        if change.type is ChangeType.DELETED or admission is None:
            return
        if change.old is not None and change.old.status.admission == admission:
            return
        for name in hostnames(change.object):
            if self._find_host(name).may_have_failed:
                self._check_after(name)

    def _check_after(self, host: str, after: float = 0.0) -> None:
        self._looks[host] = _LOOKS
        self.reconciler.add_after(host, after)

    # ---- one host

    def _find_host(self, name: str) -> HostState:
        return HostState(name, self._views.node_named(name))

    async def _reconcile(self, name: str) -> float | None:
        host = self._find_host(name)
        unhealthy = {w.key for w in self._views.workloads.by_index(BY_UNHEALTHY, name)}
        if not host.may_have_failed and not unhealthy:
            self._looks.pop(name, None)
            return None
        if (wait := patience(host, self._rules, self._now())) is not None:
            return wait
        unbound = await self._unbound_pods(name) if host.may_have_failed else ()
        # A new node has the taint not-ready for some milliseconds, and a workload may be admitted onto it while the list
        # request runs, so the host is read again.
        host = self._find_host(name)
        pods = self._bound_pods(host)
        for pod in unbound:
            pods[pod.workload or ""].append(pod)
        affected = unhealthy | self._assigned_workloads(name) | pods.keys()
        for key in sorted(affected):
            workload = self._views.workloads.objects.get(key)
            if workload is not None:
                now, host = self._now(), self._find_host(name)
                as_run = scheduled(workload, self._views.runtime_classes.objects)
                verdict = find(as_run, host, pods.get(key, ()), self._views.flavors.objects, self._rules, now)
                if workload.of_one_pod:
                    # No controller replaces its pod, so another assignment would stay unused.
                    verdict = replace(verdict, failed=False)
                await self._settle(workload, host, verdict)
        if affected and host.may_have_failed:
            return self._again(name)
        self._looks.pop(name, None)
        return None

    def _again(self, name: str) -> float | None:
        self._looks[name] = left = self._looks.get(name, 0) - 1
        if left > 0:
            return _LOOK_AGAIN
        del self._looks[name]
        return None

    def _assigned_workloads(self, name: str) -> set[str]:
        """Returns the workloads that the ledger has assigned to the host."""
        return {
            key
            for key, admission in self._ledger.admissions.items()
            if any(
                domain.values[-1] == name
                for pod_set in admission.pod_sets
                if pod_set.assignment is not None and pod_set.assignment.levels[-1] == HOSTNAME_LABEL
                for domain in pod_set.assignment.domains
            )
        }

    def _bound_pods(self, host: HostState) -> defaultdict[str, list[Pod]]:
        """Returns the pods bound to the node, by workload."""
        pods: defaultdict[str, list[Pod]] = defaultdict(list)
        node = host.node.key if host.node is not None else host.name
        for key in self._ledger.allocations.pods_on(node):
            held = self._views.pods.objects.get(key)
            if held is not None and held.bound is not None and held.bound.workload is not None:
                pods[held.bound.workload].append(_as_pod(held))
        return pods

    def _staying_pods(self, key: str) -> Counter[tuple[str, str]]:
        """Counts the workload's bound pods that are not being deleted, by pod set and hostname."""
        staying = Counter[tuple[str, str]]()
        for name in self._ledger.allocations.pods_of(key):
            seen = self._views.pods.objects.get(name)
            if seen is None or seen.bound is None or seen.deleting:
                continue
            node = self._views.nodes.objects.get(seen.bound.node)
            staying[seen.bound.pod_set or "", hostname(node) if node is not None else seen.bound.node] += 1
        return staying

    async def _unbound_pods(self, host: str) -> Iterable[Pod]:
        """Lists pods of workloads that were ungated for the host and are not bound."""
        pods, token = list[Pod](), None
        while True:
            page = await self._kube.list(PODS, field_selector=_UNBOUND, limit=500, continue_=token, decode=_decode_pod)
            pods += (p for p in page.items if p.workload and p.spec.node_selector.get(HOSTNAME_LABEL) == host)
            if not (token := page.continue_):
                return pods

    # ---- actions

    async def _settle(self, workload: Workload, host: HostState, verdict: FailureVerdict) -> None:
        if verdict.closed and self._rules.together and not workload.of_one_pod:
            everywhere = self._staying_pods(workload.key)
            here = Counter({name: count for (name, node), count in everywhere.items() if node == host.name})
            total = Counter[str]()
            for (name, _), count in everywhere.items():
                total[name] += count
            if lost := lost_places(workload, host.name, here, total):
                self._displace(workload.key, lost, frozenset((host.name,)))
        if is_assigned_to(workload, host.name) or host.name in {n.name for n in workload.status.unhealthy_nodes}:
            await self._update_unhealthy_nodes(workload, host.name, verdict.failed)
        for pod in verdict.ended:
            await self._end_pod(pod)

    async def _update_unhealthy_nodes(self, workload: Workload, host: str, failed: bool) -> None:
        if failed and self._rules.together and not has_room(workload.status, host):
            self.reconciler.add_after(host, _NO_SPACE)  # until listed nodes have been replaced
            return
        too_many = multiple_failures(workload.status, host) if failed and not self._rules.together else None
        if too_many is not None:
            await self._evictor.evict(workload, Eviction(EvictedReason.NODE_FAILURES, too_many), Writer.NODES)
            return
        status = with_unhealthy_node(workload.status, host) if failed else without_unhealthy_node(workload.status, host)
        await self._reports.write(workload, status)

    async def _end_pod(self, pod: Pod) -> None:
        """Ends a pod that can never run; its job replaces it and may ignore the failure, as it ignores those of nodes."""
        if not await end_pod(self._kube, pod.metadata, _ENDED, self._now(), ((DISRUPTION, "NodeFailed"),)):
            return
        self._recorder.record(ref_to(PODS, pod), "Normal", "PodTerminatedByKueue", _ENDED)


def _as_pod(held: ProjectedPod) -> Pod:
    """Converts a projected bound pod to the few fields of a Pod that matter here."""
    meta, bound = held.metadata, held.bound
    gone = "going" if held.deleting else None
    return Pod(
        metadata=PodMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, deletion_timestamp=gone),
        spec=PodSpec(node_name=bound.node if bound else ""),
        status=PodStatus(phase="Running"),
    )
