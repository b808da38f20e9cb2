"""The adapter of LeaderWorkerSet (leaderworkerset.x-k8s.io), each of whose groups gets its own Workload.

A group is a leader and `size` - 1 workers: the pod sets `leader` and `worker`, or, without a leader template, one pod set
`main`. Pods are ranked by their index within the group, where the leader has index 0. So workers in a placement group of their
own begin at 1 (the webhook annotates their template), and workers that share one with the leader follow it. A group beyond
`replicas` keeps its Workload while it has pods: a rollout creates new groups first, and old groups take time to end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from admission.integrations.names import workload_name
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.podset import kept_template
from admission.integrations.sets.replica_groups import PodMembership, ReplicaGroup, count_of
from api import names
from api.annotations.requests import parse_int32, topology_request
from api.errors import InvalidObject
from api.kube.resources import LEADER_WORKER_SETS, Resource
from api.workloads import PodSet

MAIN: Final = "main"
LEADER: Final = "leader"
WORKER: Final = "worker"
MOST_GROUPS: Final = 10_000
"""Each group is a Workload; a larger number is most likely a typing error."""


class LeaderWorkerSet:
    """The adapter of LeaderWorkerSet; SetKind documents the methods."""

    framework: Final = "leaderworkerset.x-k8s.io/leaderworkerset"
    resource: Final[Resource] = LEADER_WORKER_SETS
    needs_pod: Final = False

    def groups(
        self,
        obj: Mapping[str, Any],
        present: Collection[int],
        *,
        topology: bool = True,
        short: bool = False,
        example: Mapping[str, Any] | None = None,
    ) -> tuple[ReplicaGroup, ...]:
        """See SetKind."""
        replicas = count_of(obj.get("spec") or {}, "replicas")
        if replicas > MOST_GROUPS:
            name = (obj.get("metadata") or {}).get("name", "")
            raise InvalidObject("spec.replicas", replicas, f"at most {MOST_GROUPS}", name)
        indexes = sorted({*range(replicas), *present})
        pod_sets = _pod_sets(obj, topology) if indexes else ()
        return tuple(ReplicaGroup(index, _workload(obj, index, short), pod_sets) for index in indexes)

    def may_resize(self, obj: Mapping[str, Any]) -> bool:
        """See SetKind."""
        return False

    def set_of(self, pod: QueuedPod) -> str:
        """See SetKind."""
        return pod.labels.get(names.LWS_NAME, "")

    def index_of(self, pod: QueuedPod) -> int | None:
        """See SetKind. The LeaderWorkerSet webhook labels a leader just before the API server stores it."""
        return parse_int32(pod.labels.get(names.LWS_GROUP_INDEX, ""))

    def membership(self, obj: Mapping[str, Any], pod: QueuedPod, *, short: bool = False) -> PodMembership | None:
        """See SetKind."""
        index = self.index_of(pod)
        if index is None:
            return None
        pod_set = MAIN
        if leader_template(obj) is not None:
            pod_set = LEADER if pod.labels.get(names.LWS_WORKER_INDEX, "0") == "0" else WORKER
        return PodMembership(_workload(obj, index, short), pod_set)


def leader_template(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the leaders' pod template, or None if leaders use the workers' template."""
    template: Mapping[str, Any] | None = _templates(obj).get("leaderTemplate")
    return template


def worker_template(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the workers' pod template, which leaders without their own template use too."""
    return _templates(obj).get("workerTemplate") or {}


def size_of(obj: Mapping[str, Any]) -> int:
    """Returns the number of pods of a group."""
    return count_of(_templates(obj), "size")


def _templates(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return (obj.get("spec") or {}).get("leaderWorkerTemplate") or {}


def _pod_sets(obj: Mapping[str, Any], topology: bool) -> tuple[PodSet, ...]:
    leader, size = leader_template(obj), size_of(obj)
    annotations = (obj.get("metadata") or {}).get("annotations") if topology else None
    if leader is None:
        return (_pod_set(MAIN, worker_template(obj), size, annotations, topology, names.LWS_WORKER_INDEX),)
    first = _pod_set(LEADER, leader, 1, annotations, topology, None)
    if size < 2:
        return (first,)
    return first, _pod_set(WORKER, worker_template(obj), size - 1, annotations, topology, names.LWS_WORKER_INDEX)


def _pod_set(
    name: str,
    template: Mapping[str, Any],
    count: int,
    annotations: Mapping[str, str] | None,
    topology: bool,
    index: str | None,
) -> PodSet:
    kept = kept_template(template)
    fields: dict[str, Any] = {"name": name, "template": kept, "count": count}
    if topology:
        given = kept["metadata"].get("annotations")
        fields["topology_request"] = topology_request(given, job_annotations=annotations, pod_index_label=index)
    return PodSet(**fields)


def _workload(obj: Mapping[str, Any], index: int, short: bool) -> str:
    meta = obj["metadata"]
    return workload_name(LEADER_WORKER_SETS, f"{meta['name']}-{index}", meta.get("uid", ""), short=short)
