"""Which bound pods belong to no admitted workload, decided from the Workloads' admissions as the ledger does. Pure.

Labels, annotations and owner references of a pod only say where to look: all who may create pods can write them. A pod belongs
to a workload if that has quota for a pod of its pod set in the domain of the pod's node, and no other pod has taken that place.
Where more pods claim a place than were admitted, those that the workload's owner owns come first. Without an annotation (jobs
that Kueue started without a topology) the pod's controllers lead to the Workload.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Final

from admission.doctor.pod_facts import PodFacts
from admission.doctor.view import Obj, View, condition, labels, name_of, namespace_of, status_of
from api.assignment import decode
from api.kube.resources import DAEMON_SETS, NODES, WORKLOADS
from api.meta import parse_time
from api.names import EVICTED, FINISHED, HOSTNAME_LABEL, WORKLOAD_SLICE_NAME
from api.workloads import Admission, PodSetAssignment

DEPTH: Final = 4
"""Most controllers above a pod that are followed: TrainJob, JobSet, Job."""
_LEAVES: Final = 300.0
"""Seconds that pods of a workload that lost its quota, or finished, may take until they are being deleted."""
_GRACE: Final = 3600.0
"""Longest grace period of a pod that is being deleted. One with a longer one stays, and is named."""

_Key = tuple[str, str]
"""Namespace and name of a Workload; of a slice those of the first one."""


class Belonging:
    """Decides for the pods of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def foreign(self, chosen: Callable[[PodFacts], bool]) -> Iterator[PodFacts]:
        """Yields the chosen pods that belong to no admitted workload, DaemonSet or node, in the order of the view."""
        claimed: set[_Key] = set()
        suspects = [pod for pod in self._view.pods if chosen(pod) and not self._may_stay(pod)]
        for pod in suspects:
            claimed |= self._claims.get(id(pod), frozenset())
        placed = {id(pod) for key in sorted(claimed) for pod in self._placed(key)}
        yield from (pod for pod in suspects if id(pod) not in placed)

    def _may_stay(self, pod: PodFacts) -> bool:
        """Reports whether the pod is about to end, belongs to a DaemonSet or to its node, or its owners are not known."""
        owner, view = pod.owner, self._view
        if pod.until and pod.until <= view.now + _GRACE:
            return True
        if owner is None:
            return False
        if owner.kind == "Node":
            node = view.named(NODES, pod.node)
            return pod.mirror and node is not None and owner.uid == node["metadata"].get("uid")
        if owner.kind == "DaemonSet":
            return (pod.namespace, owner.uid) in self._daemon_sets
        return any(uid in view.unfollowed for uid in self._above(pod))

    # ---- whose a pod says to be

    @cached_property
    def _daemon_sets(self) -> frozenset[tuple[str, str]]:
        every = self._view.of(DAEMON_SETS)
        return frozenset((namespace_of(each), str(each["metadata"].get("uid"))) for each in every)

    @cached_property
    def _workloads(self) -> Mapping[_Key, list[Obj]]:
        """The Workloads by key; several for slices."""
        by_name: defaultdict[_Key, list[Obj]] = defaultdict(list)
        for workload in self._view.of(WORKLOADS):
            marks = workload["metadata"].get("annotations") or {}
            by_name[namespace_of(workload), marks.get(WORKLOAD_SLICE_NAME) or name_of(workload)].append(workload)
        return by_name

    @cached_property
    def _owners(self) -> Mapping[_Key, frozenset[str]]:
        """The UIDs of the owners of each Workload."""
        return {
            key: frozenset(
                str(owner.get("uid")) for each in some for owner in each["metadata"].get("ownerReferences") or ()
            )
            for key, some in self._workloads.items()
        }

    @cached_property
    def _owned(self) -> Mapping[tuple[str, str], set[_Key]]:
        """The keys of Workloads by the namespace and UID of an owner."""
        by_owner: defaultdict[tuple[str, str], set[_Key]] = defaultdict(set)
        for key, uids in self._owners.items():
            for uid in uids:
                by_owner[key[0], uid].add(key)
        return by_owner

    def _above(self, pod: PodFacts) -> Iterator[str]:
        """Yields the pod's UID and those of its controllers, upwards."""
        uid = pod.uid
        above = pod.owner.uid if pod.owner is not None else ""
        for _ in range(DEPTH + 1):
            if uid:
                yield uid
            uid, above = above, self._view.parents.get(above, "")

    @cached_property
    def _claims(self) -> Mapping[int, frozenset[_Key]]:
        """The keys of the Workloads that each pod may belong to, by the pod's identity."""
        claims: dict[int, frozenset[_Key]] = {}
        for pod in self._view.pods:
            if pod.workload:
                claims[id(pod)] = frozenset({(pod.namespace, pod.workload)} & self._workloads.keys())
            elif pod.managed:
                every = [self._owned.get((pod.namespace, uid), set()) for uid in self._above(pod)]
                claims[id(pod)] = frozenset().union(*every)
        return claims

    @cached_property
    def _claimants(self) -> Mapping[_Key, list[PodFacts]]:
        claimants: defaultdict[_Key, list[PodFacts]] = defaultdict(list)
        for pod in self._view.pods:
            for key in self._claims.get(id(pod), ()):
                claimants[key].append(pod)
        return claimants

    # ---- the places of a workload

    def _placed(self, key: _Key) -> list[PodFacts]:
        """Returns the pods that have a place of this Workload's admission."""
        pods, owners = self._claimants[key], self._owners[key]
        if any(self._leaves(each) for each in self._workloads[key]):
            return pods
        places = [place for each in self._workloads[key] for place in self._places(each)]

        def rank(pod: PodFacts) -> tuple[bool, bool, str]:
            return owners.isdisjoint(self._above(pod)), pod.owner is None, pod.name

        return [pod for pod in sorted(pods, key=rank) if any(place.takes(pod) for place in places)]

    def _leaves(self, workload: Obj) -> bool:
        """Reports whether the Workload has no quota since a moment: its pods are about to be deleted."""
        since = (condition(workload, kind) for kind in (EVICTED, FINISHED))
        times = [str(each.get("lastTransitionTime") or "") for each in since if each.get("status") == "True"]
        return any(self._view.now - (parse_time(time) or 0.0) < _LEAVES for time in times)

    def _places(self, workload: Obj) -> Iterator[_Places]:
        status = status_of(workload)
        if not status.get("admission") or condition(workload, FINISHED).get("status") == "True":
            return
        counts = {str(one["name"]): int(one["count"]) for one in (workload.get("spec") or {}).get("podSets") or ()}
        failed = frozenset(str(one.get("name")) for one in status.get("unhealthyNodes") or ())
        for assigned in Admission.from_wire(status["admission"]).pod_set_assignments:
            yield _Places(self._view, assigned, counts.get(assigned.name, 0), failed)


class _Places:
    """The places of one pod set that are left: in each domain of its assignment, or on the nodes of its flavors.

    Pods on a node that waits for its replacement keep their places, wherever the assignment now has them.
    """

    def __init__(self, view: View, assigned: PodSetAssignment, count: int, failed: frozenset[str]) -> None:
        self._view, self._assigned, self._failed = view, assigned, failed
        self._left = count if assigned.count is None else assigned.count
        placed = assigned.topology_assignment
        self._levels = None if placed is None else placed.levels
        self._domains = {} if placed is None else dict(decode(placed))
        flavors = set(assigned.flavors.values())
        self._nodes = frozenset(name_of(node) for flavor in flavors for node in view.nodes_of.get(flavor, ()))

    def takes(self, pod: PodFacts) -> bool:
        """Gives the pod a place, if there is one for it."""
        if pod.pod_set not in ("", self._assigned.name) or not self._left:
            return False
        if pod.node not in self._failed:
            if self._levels is None:
                if pod.node not in self._nodes:
                    return False
            elif not self._takes_in_domain(pod.node):
                return False
        self._left -= 1
        return True

    def _takes_in_domain(self, name: str) -> bool:
        node = self._view.named(NODES, name)
        node_labels = {HOSTNAME_LABEL: name} if node is None else labels(node)
        values = tuple(node_labels.get(level, "") for level in self._levels or ())
        if not self._domains.get(values):
            return False
        self._domains[values] -= 1
        return True
