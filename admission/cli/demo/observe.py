"""The demo's view of its jobs through the API server: state, pods by host, and why a job waits.

Reads only. The states are the demo's own: queued, waiting, admitted, running, finished, failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from admission.cli.demo.story import BLOCK, NAMESPACE, RACK, StoryJob
from api.kube.client import Kube
from api.kube.resources import NODES, PODS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import ADMITTED, FINISHED, QUOTA_RESERVED, REQUIRE_TOPOLOGY, FinishedReason
from api.workloads import Workload

Obj = Mapping[str, Any]
_OWNERS = ("jobset.sigs.k8s.io/jobset-name", "batch.kubernetes.io/job-name")


class JobState(StrEnum):
    """State of a job in the demo."""

    QUEUED = "queued"
    WAITING = "waiting"
    ADMITTED = "admitted"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class JobView:
    """One job. `hosts` counts its running pods by host; `racks` counts them by pod set and `block/rack`."""

    job: StoryJob
    state: JobState
    reason: str = ""
    message: str = ""
    running: int = 0
    hosts: Mapping[str, int] = field(default_factory=dict)
    racks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def keeps_requirement(self) -> bool:
        """Reports whether each pod set with a required rack runs in one rack."""
        return REQUIRE_TOPOLOGY not in self.job.topology or all(len(racks) == 1 for racks in self.racks.values())


async def observe(kube: Kube, jobs: Sequence[StoryJob]) -> dict[str, JobView]:
    """Returns the current view of each submitted job, by name."""
    workloads = await _workloads(kube)
    pods = (await kube.list(PODS, NAMESPACE)).items
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in (await kube.list(NODES)).items}
    by_job: dict[str, list[Obj]] = {}
    for pod in pods:
        if pod.get("status", {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"):
            by_job.setdefault(_job_of(pod), []).append(pod)
    return {job.name: _view(job, workloads.get(job.name), by_job.get(job.name, ()), labels) for job in jobs}


async def _workloads(kube: Kube) -> dict[str, Workload]:
    items = (await kube.list(WORKLOADS, NAMESPACE)).items
    return {ref["name"]: Workload.from_wire(item) for item in items for ref in item["metadata"]["ownerReferences"]}


def _job_of(pod: Obj) -> str:
    labels = pod["metadata"].get("labels") or {}
    return next((str(labels[key]) for key in _OWNERS if key in labels), "")


def _view(
    job: StoryJob, workload: Workload | None, pods: Sequence[Obj], labels: Mapping[str, Mapping[str, str]]
) -> JobView:
    state, reason, message = _state(job, workload, len(pods))
    racks: dict[str, Counter[str]] = {}
    for pod in pods:
        name = pod["metadata"]["labels"].get("jobset.sigs.k8s.io/replicatedjob-name", "main")
        where = labels[pod["spec"]["nodeName"]]
        racks.setdefault(name, Counter())[f"{where[BLOCK]}/{where[RACK]}"] += 1
    hosts = Counter(str(pod["spec"]["nodeName"]) for pod in pods)
    return JobView(job, state, reason, message, len(pods), hosts, racks)


def _state(job: StoryJob, workload: Workload | None, running: int) -> tuple[JobState, str, str]:
    if workload is None:
        return JobState.QUEUED, "", ""
    conditions = workload.status.conditions
    if finished := find_condition(conditions, FINISHED):
        good = finished.reason == FinishedReason.SUCCEEDED
        return (JobState.FINISHED if good else JobState.FAILED), finished.reason, finished.message
    if is_true(conditions, ADMITTED):
        return (JobState.RUNNING if running == job.pods else JobState.ADMITTED), "", ""
    reserved = find_condition(conditions, QUOTA_RESERVED)
    if reserved is not None and reserved.status == "False":
        return JobState.WAITING, reserved.reason, reserved.message
    return JobState.QUEUED, "", ""
