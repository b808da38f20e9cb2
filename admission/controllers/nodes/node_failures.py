"""Decides whether a node has failed for a workload assigned to it, and which of its pods can no longer start there. Pure.

`node_controller` calls it, and acts. A deleted node has failed at once. A node that is not ready, or repels the pods by a
taint, has failed for a workload once none of its pods runs there: while one does, work continues, and the component that evicts
pods from nodes (Kubernetes itself, after the pods' toleration time) decides when it ends. The places there that have lost their
pod are moved meanwhile. So the order of events does not matter. Pods that were ungated for such a node and not bound can never
run and are ended, so that their job creates replacements. Source: cluster.md 7.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import msgspec

from admission.controllers.nodes.node_replacement import hostnames, hosts_and_counts, hosts_of
from admission.engine.topology.tree.match import tolerates
from api.meta import is_true, parse_time
from api.names import EVICTED, FINISHED, HOSTNAME_LABEL, QUOTA_RESERVED
from api.pod.pods import Node, Pod, Taint, Toleration, pod_spec
from api.topology import ResourceFlavor
from api.workloads import PodSetAssignment, UnhealthyNode, Workload, WorkloadStatus

MOST_UNHEALTHY = 8
"""The maximum number of entries of status.unhealthyNodes in the CRD."""
NOT_READY_DELAY = 30.0
"""Seconds that a node must be not ready, if that alone counts as a failure."""
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class FailureRules:
    """Kueue's feature gates with its defaults, and Stowage's extension."""

    on_pod_termination: bool = True  # TASReplaceNodeOnPodTermination
    on_taints: bool = True  # TASReplaceNodeOnNodeTaints
    after_fixed_time: bool = False  # TASReplaceNodeDueToNotReadyOverFixedTime
    together: bool = True
    """Whether several nodes are replaced together. If off, as in Kueue, a workload that loses a second node meanwhile is
    evicted.
    """


class NodePresence(Enum):
    """The state of a node for the workloads assigned to it."""

    GONE = auto()
    NOT_READY = auto()
    READY = auto()


@dataclass(frozen=True, slots=True)
class HostState:
    """A node by its hostname; `node` is None if it does not exist."""

    name: str
    node: Node | None

    @property
    def presence(self) -> NodePresence:
        """The node's state; a node without a Ready condition counts as gone."""
        ready = [c for c in self.node.status.conditions if c.type == "Ready"] if self.node else []
        if not ready:
            return NodePresence.GONE
        return NodePresence.READY if ready[0].status == "True" else NodePresence.NOT_READY

    @property
    def ready_since(self) -> float:
        """The last transition of the Ready condition, in epoch seconds."""
        conditions = self.node.status.conditions if self.node else ()
        return next((parse_time(c.last_transition_time) or 0.0 for c in conditions if c.type == "Ready"), 0.0)

    @property
    def repelling_taints(self) -> list[Taint]:
        """The node's taints with effect NoSchedule or NoExecute.

        A cordoned node has the taint that kube-scheduler's filter NodeUnschedulable sees, also before Kubernetes adds it.
        """
        if self.node is None:
            return []
        repelling = [t for t in self.node.spec.taints if t.effect in ("NoSchedule", "NoExecute")]
        return [*repelling, _CORDONED] if self.node.spec.unschedulable and _CORDONED not in repelling else repelling

    @property
    def may_have_failed(self) -> bool:
        """Reports whether the node may have failed for some workload."""
        return self.presence is not NodePresence.READY or bool(self.repelling_taints)


@dataclass(frozen=True, slots=True)
class FailureVerdict:
    """Whether the node has failed for a workload, and which of the workload's pods must be ended.

    `closed` means that the workload's pods on the node run on, and that the node takes no new pod of the workload.
    """

    failed: bool
    ended: tuple[Pod, ...] = ()
    closed: bool = False


def patience(host: HostState, rules: FailureRules, now: float) -> float | None:
    """Returns the seconds to wait before the node may be judged, or None."""
    if host.presence is not NodePresence.NOT_READY or rules.on_pod_termination:
        return None
    left = host.ready_since + NOT_READY_DELAY - now
    return left if left > 0 else None


def find(
    workload: Workload,
    host: HostState,
    pods: Sequence[Pod],
    flavors: Mapping[str, ResourceFlavor],
    rules: FailureRules,
    now: float,
) -> FailureVerdict:
    """Returns the verdict for the workload, with what its RuntimeClasses give its pods; only when `patience` returns None."""
    stranded = tuple(pod for pod in pods if _is_ungated_and_unbound(pod, host))
    if not is_assigned_to(workload, host.name):
        return FailureVerdict(False, stranded)
    if host.presence is NodePresence.GONE:
        return FailureVerdict(True, stranded)
    progressing = any(_runs_on(pod, host) for pod in pods)
    if host.presence is NodePresence.NOT_READY:
        overdue = rules.after_fixed_time and host.ready_since + NOT_READY_DELAY <= now
        failed = overdue or not rules.on_pod_termination or not progressing
        return FailureVerdict(failed, stranded, closed=not failed)
    if not rules.on_taints or not host.repelling_taints:
        return FailureVerdict(False)
    match _tolerance(host.repelling_taints, list(_tolerations(workload, host.name, flavors))):
        case _Tolerance.FOR_EVER:
            return FailureVerdict(False)
        case _Tolerance.NONE if not rules.on_pod_termination:
            return FailureVerdict(True, stranded)
        case _:
            return FailureVerdict(not progressing, stranded, closed=progressing)


def lost_places(
    workload: Workload, host: str, here: Mapping[str, int], everywhere: Mapping[str, int]
) -> dict[tuple[str, str], int]:
    """Returns, by (pod set, host), how many places of the workload on the host have lost their pod.

    `here` and `everywhere` count its pods that stay, by pod set: on the host, and on all of them. Pods that have succeeded need
    no place.
    """
    done = {each.name: each.count for each in workload.status.reclaimable_pods}
    lost_pods: dict[tuple[str, str], int] = {}
    for given in workload.status.admission.pod_set_assignments if workload.status.admission else ():
        places = list(hosts_and_counts(given))
        open_ = sum(count for _, count in places) - done.get(given.name, 0) - everywhere.get(given.name, 0)
        lost = min(open_, sum(count for name, count in places if name == host) - here.get(given.name, 0))
        if lost > 0:
            lost_pods[given.name, host] = lost
    return lost_pods


def is_assigned_to(workload: Workload, host: str) -> bool:
    """Reports whether the workload has quota and its assignment names the host."""
    states = workload.status.conditions
    if not is_true(states, QUOTA_RESERVED) or is_true(states, FINISHED) or is_true(states, EVICTED):
        return False
    return host in hostnames(workload)


def with_unhealthy_node(status: WorkloadStatus, host: str) -> WorkloadStatus:
    """Returns the status with the host as unhealthy node; the same object if it is listed."""
    if any(node.name == host for node in status.unhealthy_nodes):
        return status
    return status.model_copy(update={"unhealthy_nodes": (*status.unhealthy_nodes, UnhealthyNode(name=host))})


def has_room(status: WorkloadStatus, host: str) -> bool:
    """Reports whether the host is listed as unhealthy or the list has room for it."""
    return len(status.unhealthy_nodes) < MOST_UNHEALTHY or any(node.name == host for node in status.unhealthy_nodes)


def without_unhealthy_node(status: WorkloadStatus, host: str) -> WorkloadStatus:
    """Returns the status without the host as unhealthy node; the same object if it is not listed."""
    left = tuple(node for node in status.unhealthy_nodes if node.name != host)
    return status if left == status.unhealthy_nodes else status.model_copy(update={"unhealthy_nodes": left})


def multiple_failures(status: WorkloadStatus, host: str) -> str | None:
    """Returns the eviction message if another node already waits for its replacement, else None."""
    names = [node.name for node in status.unhealthy_nodes]
    if not names or host in names:
        return None
    listed = ", ".join([*names, host])
    return f"Workload eviction triggered due to multiple TAS assigned node failures, including: {listed}"


# ---- pods


def _runs_on(pod: Pod, host: HostState) -> bool:
    node = host.node.metadata.name if host.node else host.name
    return pod.spec.node_name == node and not pod.metadata.deletion_timestamp and not pod.terminated


def _is_ungated_and_unbound(pod: Pod, host: HostState) -> bool:
    """Reports whether the pod was ungated for this host and is not bound."""
    pinned = pod.spec.node_selector.get(HOSTNAME_LABEL) == host.name
    waits = pod.status.phase in ("", "Pending") and not pod.spec.node_name and not pod.metadata.deletion_timestamp
    return pinned and waits and not pod.gated


# ---- taints


class _Tolerance(Enum):
    NONE = auto()
    FOR_A_WHILE = auto()
    FOR_EVER = auto()


def _tolerance(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> _Tolerance:
    """Returns the tolerance of the least tolerated taint."""

    def of(taint: Taint) -> _Tolerance:
        fitting = [t for t in tolerations if tolerates(t, taint)]
        if not fitting:
            return _Tolerance.NONE
        timed = all(t.toleration_seconds is not None for t in fitting)
        return _Tolerance.FOR_A_WHILE if timed else _Tolerance.FOR_EVER

    return min((of(taint) for taint in taints), key=lambda tolerance: tolerance.value, default=_Tolerance.FOR_EVER)


def _tolerations(workload: Workload, host: str, flavors: Mapping[str, ResourceFlavor]) -> Iterator[Toleration]:
    """Yields the tolerations of the pod sets on the host: from templates, flavors and ready admission checks."""
    here = {psa.name: psa for psa in _assigned_to(workload, host)}
    for pod_set in workload.spec.pod_sets:
        if pod_set.name in here:
            yield from pod_spec(pod_set.template).tolerations
    for psa in here.values():
        for name in dict.fromkeys(psa.flavors.values()):
            if name in flavors:
                yield from _read(flavors[name].spec.tolerations)
    for check in workload.status.admission_checks:
        for update in check.pod_set_updates if check.state == "Ready" else ():
            if update.name in here:
                yield from _read(update.tolerations)


def _assigned_to(workload: Workload, host: str) -> Iterator[PodSetAssignment]:
    for psa in workload.status.admission.pod_set_assignments if workload.status.admission else ():
        if host in hosts_of(psa):
            yield psa


def _read(tolerations: Sequence[Mapping[str, Any]]) -> tuple[Toleration, ...]:
    return msgspec.convert(tolerations, tuple[Toleration, ...])
