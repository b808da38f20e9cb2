"""The demo as data: the datacenter, the queue objects, the jobs in order, and the expected outcome of each.

Five racks of 16 GPUs. However the pods are placed, no whole rack is free for `late` until `short`, which uses one whole rack,
has finished. Plain values and manifests; demo.py runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from api.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    Resource,
)
from api.names import HOSTNAME_LABEL, PREFER_TOPOLOGY, QUEUE_NAME_LABEL, REQUIRE_TOPOLOGY

Manifest = dict[str, Any]

NAMESPACE, QUEUE, FLAVOR = "research", "gpus", "gpu-hosts"
BLOCK = "cloud-provider.com/topology-block"
RACK = "cloud-provider.com/topology-rack"
GROUP = "cloud-provider.com/node-group"
GPU = "nvidia.com/gpu"
LEVELS = (BLOCK, RACK, HOSTNAME_LABEL)

HOSTS_PER_RACK, GPUS_PER_HOST = 4, 4
RACKS: Mapping[str, tuple[str, ...]] = {"block-1": ("rack-1", "rack-2", "rack-3"), "block-2": ("rack-1", "rack-2")}


class AwaitedState(StrEnum):
    """The state that the demo awaits after it submits a job."""

    RUNNING = "runs"
    WAITING = "waits"


@dataclass(frozen=True, slots=True)
class StoryJob:
    """One job. `pod_sets` maps a name to replicas and pods per replica; a Job has only `main`. Each pod uses one GPU.

    `run_for` is how long its pods run (a Go duration), counted from when some job waits.
    """

    name: str
    topology: Mapping[str, str]
    pod_sets: Mapping[str, tuple[int, int]]
    outcome: AwaitedState = AwaitedState.RUNNING
    run_for: str | None = None

    @property
    def is_jobset(self) -> bool:
        return "main" not in self.pod_sets

    @property
    def pods(self) -> int:
        return sum(replicas * pods for replicas, pods in self.pod_sets.values())

    @property
    def topology_text(self) -> str:
        """The requested topology in words, such as `require rack`."""
        (annotation, level), *_ = self.topology.items()
        return f"{'require' if annotation == REQUIRE_TOPOLOGY else 'prefer'} {level.rpartition('-')[2]}"


def story(run_for: str = "6s") -> tuple[StoryJob, ...]:
    """Returns the jobs in order of submission. `run_for` is the run time of `short` (a Go duration)."""
    return (
        StoryJob("steady", {REQUIRE_TOPOLOGY: RACK}, {"main": (1, 16)}),
        StoryJob("short", {REQUIRE_TOPOLOGY: RACK}, {"main": (1, 16)}, run_for=run_for),
        StoryJob("agents", {REQUIRE_TOPOLOGY: RACK}, {"driver": (1, 1), "workers": (2, 4)}),
        StoryJob("evals", {PREFER_TOPOLOGY: RACK}, {"main": (1, 28)}),
        StoryJob("late", {REQUIRE_TOPOLOGY: RACK}, {"main": (1, 16)}, outcome=AwaitedState.WAITING),
    )


LEAVES, FOLLOWS = "short", "late"
"""`FOLLOWS` starts when `LEAVES` has finished."""
NEXT = StoryJob("next", {REQUIRE_TOPOLOGY: RACK}, {"main": (1, 16)}, outcome=AwaitedState.WAITING)
"""Waits at the end of the story, as no rack is free: the page has a job to explain."""


def context() -> Iterator[tuple[Resource, Manifest]]:
    """Yields namespace, nodes, topology, flavor and queues, in order of creation."""
    yield NAMESPACES, {"metadata": {"name": NAMESPACE}}
    for node in nodes():
        yield NODES, node
    levels = [{"nodeLabel": label} for label in LEVELS]
    yield TOPOLOGIES, {"metadata": {"name": "datacenter"}, "spec": {"levels": levels}}
    flavor = {"nodeLabels": {GROUP: "gpu"}, "topologyName": "datacenter"}
    yield RESOURCE_FLAVORS, {"metadata": {"name": FLAVOR}, "spec": flavor}
    quotas = [{"name": "cpu", "nominalQuota": "640"}, {"name": GPU, "nominalQuota": "96"}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": FLAVOR, "resources": quotas}]}]
    cluster_queue = {"namespaceSelector": {}, "resourceGroups": groups}
    yield CLUSTER_QUEUES, {"metadata": {"name": QUEUE}, "spec": cluster_queue}
    yield LOCAL_QUEUES, {"metadata": {"name": QUEUE, "namespace": NAMESPACE}, "spec": {"clusterQueue": QUEUE}}


def nodes() -> Iterator[Manifest]:
    """Yields the hosts; `b1-r2-h3` is the third of block 1's second rack. The stand-in kubelets make them Ready."""
    size = {"cpu": "32", "memory": "256Gi", "pods": "110", GPU: str(GPUS_PER_HOST)}
    for block, racks in RACKS.items():
        for rack in racks:
            for number in range(1, HOSTS_PER_RACK + 1):
                name = f"b{block[-1]}-r{rack[-1]}-h{number}"
                labels = {GROUP: "gpu", BLOCK: block, RACK: rack, HOSTNAME_LABEL: name}
                yield {"metadata": {"name": name, "labels": labels}, "status": {"capacity": size, "allocatable": size}}


def manifest(job: StoryJob) -> tuple[Resource, Manifest]:
    """Returns the Job or JobSet that a user would write."""
    metadata = {
        "name": job.name,
        "namespace": NAMESPACE,
        "labels": {QUEUE_NAME_LABEL: QUEUE},
        "annotations": dict(job.topology),
    }
    if not job.is_jobset:
        return JOBS, {"metadata": metadata, "spec": _job_spec(job, job.pod_sets["main"][1])}
    replicated = [
        {"name": name, "replicas": replicas, "template": {"spec": _job_spec(job, pods)}}
        for name, (replicas, pods) in job.pod_sets.items()
    ]
    return JOBSETS, {"metadata": metadata, "spec": {"replicatedJobs": replicated}}


def _job_spec(job: StoryJob, pods: int) -> Manifest:
    resources = {"requests": {"cpu": "4"}, "limits": {GPU: "1"}}
    container = {"name": "main", "image": "registry.example.com/train", "resources": resources}
    template: Manifest = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    size = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}
    return {**size, "backoffLimit": 0, "template": template}
