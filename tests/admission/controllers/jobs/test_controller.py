"""The job controller at an API server, the embedded and the real one: what a user sees of a job's way through the queue."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admission.controllers.jobs.context import JobOptions
from admission.controllers.state import conditions
from admission.controllers.state.condition_table import Writer
from admission.controllers.write.status import patch_status
from admission.integrations.base import JobIntegration
from admission.integrations.registry import ADAPTERS, BY_FRAMEWORK
from api.errors import NotFound
from api.kube.client import PatchKind
from api.kube.resources import JOBS, PODS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from api.meta import find_condition, is_true, parse_time
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.fixtures import cluster, control_plane_tools
from hack.controlplane.options import ClusterOptions
from tests.admission.controllers.jobs.world import JobCluster, embedded, real
from tests.admission.integrations.samples import batch_job, counts, sample
from tests.tasks import eventually

__all__ = ["cluster", "control_plane_tools"]

BATCH, JOBSET = ADAPTERS[:2]
DECLARED = BY_FRAMEWORK["kubeflow.org/pytorchjob"]
KINDS = pytest.mark.parametrize("kind", [BATCH, JOBSET, DECLARED], ids=lambda kind: kind.framework)
COMPLETE = {BATCH: "Complete", JOBSET: "Completed", DECLARED: "Succeeded"}


CONTROL_PLANE = ClusterOptions(jobset=True, kwok=False, scheduler=False)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.e2e)])
async def here(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[JobCluster]:
    if request.param == "embedded":
        async with embedded(tmp_path) as made:
            yield made
    else:
        plane: ControlPlane = request.getfixturevalue("cluster")
        async with real(plane.kubeconfig) as made:
            yield made


def fresh(kind: JobIntegration, **meta: Any) -> dict[str, Any]:
    """A job as a user would post it."""
    job = sample(kind)
    job.pop("status")
    job["metadata"] = {"name": "train", "namespace": "ns", "labels": {"kueue.x-k8s.io/queue-name": "q"}} | meta
    if kind is BATCH:
        job["spec"]["template"]["metadata"]["labels"] = {"app": "train"}
    return job


async def created(here: JobCluster, kind: JobIntegration, **meta: Any) -> dict[str, Any]:
    return await here.kube.create(kind.resource, fresh(kind, **meta))


async def running(here: JobCluster, kind: JobIntegration) -> dict[str, Any]:
    job: dict[str, Any] = await eventually(lambda: _if(here, kind, suspended=False))
    return job


async def suspended(here: JobCluster, kind: JobIntegration) -> dict[str, Any]:
    job: dict[str, Any] = await eventually(lambda: _if(here, kind, suspended=True))
    return job


async def _if(here: JobCluster, kind: JobIntegration, *, suspended: bool) -> dict[str, Any] | None:
    job = await here.job(kind, "train")
    return job if kind.is_suspended(job) is suspended else None


@KINDS
async def test_a_queued_job_gets_one_workload(here: JobCluster, kind: JobIntegration) -> None:
    job = await created(here, kind)
    workload = await eventually(lambda: here.workload(kind))
    meta, spec = workload.metadata, workload.spec
    assert meta.name.startswith(f"{kind.resource.kind.lower()}-train-")
    assert meta.labels["kueue.x-k8s.io/job-uid"] == job["metadata"]["uid"]
    assert meta.finalizers == ("kueue.x-k8s.io/resource-in-use",)
    owner = meta.owner_references[0]
    assert (owner.uid, owner.controller, owner.name) == (job["metadata"]["uid"], True, "train")
    assert (spec.queue_name, spec.priority) == ("q", 0)
    assert {p.name: p.count for p in spec.pod_sets} == counts(kind)
    await here.told("CreatedWorkload", f"Created Workload: {workload.key}")
    assert [who for who, _, _ in here.recorded.events] == [f"{owner.kind}/train"]


@KINDS
async def test_an_admitted_job_starts_with_all_that_its_pods_need(here: JobCluster, kind: JobIntegration) -> None:
    await created(here, kind)
    workload = await here.admit(kind, topology=True)
    for pod_set in kind.pod_sets(await running(here, kind)):
        meta, spec = pod_set.template["metadata"], pod_set.template["spec"]
        assert spec["nodeSelector"] == {"disk": "ssd", "pool": "tas"}
        assert {gate["name"] for gate in spec["schedulingGates"]} >= {"kueue.x-k8s.io/topology"}
        assert meta["labels"] == {
            "app": "train",
            "kueue.x-k8s.io/podset": pod_set.name,
            "kueue.x-k8s.io/local-queue-name": "q",
            "kueue.x-k8s.io/cluster-queue-name": "cq",
        }
        assert meta["annotations"] == {
            "team": "a",
            "kueue.x-k8s.io/workload": workload.metadata.name,
            "kueue.x-k8s.io/topology-workload": workload.metadata.name,
            "kueue.x-k8s.io/topology-podset": pod_set.name,
            "kueue.x-k8s.io/podset-unconstrained-topology": "true",
        }
    await here.told("Started", "Admitted by clusterQueue cq")


async def test_a_job_that_kubernetes_overlooks_is_changed_and_reported(tmp_path: Path) -> None:
    async with embedded(tmp_path, kubernetes=False) as here:
        await created(here, BATCH)
        await here.admit(BATCH, at=time.time() - 3600)
        await running(here, BATCH)
        text = "Not begun by its own controller within 330 s of its start; changed, so that it is looked at"
        await here.told("Woken", text)
        job = await here.job(BATCH, "train")
        assert abs((parse_time(job["metadata"]["annotations"]["stowage.dev/woken-at"]) or 0.0) - time.time()) < 60


@KINDS
async def test_a_job_costs_four_writes_from_queue_to_end(here: JobCluster, kind: JobIntegration) -> None:
    if here.real:
        pytest.skip("the real server takes an ended job only from pods that ended; the scenarios do that")
    await created(here, kind)
    await here.admit(kind)
    await running(here, kind)
    status: dict[str, Any] = {"conditions": [{"type": COMPLETE[kind], "status": "True", "message": "all done"}]}
    if kind is not BATCH:
        status["terminalState"] = "Completed"  # the JobSet controller ends what still runs
    await here.kube.patch(kind.resource, "train", {"status": status}, "ns", kind=PatchKind.MERGE, subresource="status")

    async def let_go() -> Any:
        workload = await here.workload(kind)
        return None if workload.metadata.finalizers else workload

    workload = await eventually(let_go)
    finished = find_condition(workload.status.conditions, "Finished")
    assert finished is not None
    assert (finished.reason, finished.message) == ("Succeeded", "all done")
    assert Counter(here.writes) == {
        ("create", "workloads"): 1,
        ("patch", kind.resource.plural): 1,
        ("patch", "workloads/status"): 1,
        ("patch", "workloads"): 1,
    }


async def test_pods_that_end_one_by_one_are_reported_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    period = 0.5
    monkeypatch.setattr("admission.controllers.jobs.job_controller.PROGRESS", period)
    job = fresh(BATCH)
    job["spec"] |= {"parallelism": 200, "completions": 200}
    async with embedded(tmp_path) as here:
        await here.kube.create(BATCH.resource, job)
        await here.admit(BATCH)
        await running(here, BATCH)
        here.writes.clear()
        began = time.monotonic()
        for succeeded in range(1, 200):
            status = {"active": 200 - succeeded, "succeeded": succeeded, "startTime": "2026-01-01T00:00:00Z"}
            await here.kube.patch(JOBS, "train", {"status": status}, "ns", kind=PatchKind.MERGE, subresource="status")

        async def told() -> bool:
            return [pod.count for pod in (await here.workload(BATCH)).status.reclaimable_pods] == [199]

        await eventually(told)
        # The event of a write triggers no further one, however many pods end meanwhile.
        assert Counter(here.writes)[("patch", "workloads/status")] <= (time.monotonic() - began) / period + 2


@KINDS
async def test_an_evicted_job_gives_its_quota_back_when_it_has_stopped(here: JobCluster, kind: JobIntegration) -> None:
    job = await created(here, kind)
    await here.admit(kind)
    await running(here, kind)
    await here.evict(kind)

    async def released() -> Any:
        workload = await here.workload(kind)
        return None if is_true(workload.status.conditions, "QuotaReserved") else workload

    workload = await eventually(released)
    assert workload.status.admission is None
    reasons = {c.type: (c.status, c.reason) for c in workload.status.conditions}
    assert reasons["QuotaReserved"] == ("False", "PendingEvaluation")
    assert reasons["Admitted"] == ("False", "NoReservation")
    assert reasons["Requeued"] == ("True", "Preempted")
    assert (await here.job(kind, "train"))["spec"] == job["spec"]
    await here.told("Stopped", "make room")
    await here.admit(kind)
    await running(here, kind)


@KINDS
async def test_a_job_unsuspended_by_hand_is_suspended_again(here: JobCluster, kind: JobIntegration) -> None:
    await created(here, kind)
    await eventually(lambda: here.workload(kind))
    await here.unsuspend(kind, "train")
    await suspended(here, kind)
    await here.told("Stopped", "Not admitted by cluster queue")


@KINDS
async def test_a_deleted_workload_stops_the_job_and_a_new_one_is_made(here: JobCluster, kind: JobIntegration) -> None:
    job = await created(here, kind)
    await here.admit(kind)
    await running(here, kind)
    old = await here.workload(kind)
    await here.kube.delete(WORKLOADS, old.metadata.name, "ns")

    async def renewed() -> Any:
        new = await here.workload(kind)
        return new if new.metadata.uid != old.metadata.uid else None

    await eventually(renewed)
    assert (await here.job(kind, "train"))["spec"] == job["spec"]


@KINDS
async def test_the_workload_goes_with_its_job(here: JobCluster, kind: JobIntegration) -> None:
    await created(here, kind)
    workload = await here.admit(kind)
    await running(here, kind)
    await here.kube.delete(kind.resource, "train", "ns", propagation="Background")

    async def gone() -> bool:
        try:
            await here.kube.get(WORKLOADS, workload.metadata.name, "ns")
        except NotFound:
            return True
        return False

    await eventually(gone)


async def test_child_jobs_keep_nothing_of_an_earlier_flavor(here: JobCluster) -> None:
    await created(here, JOBSET)
    await here.admit(JOBSET, topology=True)
    await running(here, JOBSET)

    async def children(suspended: bool) -> Any:
        jobs = (await here.kube.list(JOBS, "ns")).items
        return jobs if len(jobs) == 3 and all(job["spec"]["suspend"] is suspended for job in jobs) else None

    specs = [job["spec"]["template"]["spec"] for job in await eventually(lambda: children(suspended=False))]
    assert [spec["nodeSelector"] for spec in specs] == [{"disk": "ssd", "pool": "tas"}] * 3
    await here.evict(JOBSET)

    async def released() -> bool:
        return (await here.workload(JOBSET)).status.admission is None

    await eventually(released)
    await here.admit(JOBSET, flavor="zone")
    specs = [job["spec"]["template"]["spec"] for job in await eventually(lambda: children(suspended=False))]
    assert [spec["nodeSelector"] for spec in specs] == [{"disk": "ssd", "zone": "z"}] * 3
    assert [spec["schedulingGates"] for spec in specs] == [[{"name": "example.com/other"}]] * 3


async def test_a_workload_whose_job_left_it_behind_is_finished(here: JobCluster) -> None:
    await created(here, BATCH)
    workload = await eventually(lambda: here.workload(BATCH))
    await here.kube.delete(JOBS, "train", "ns", propagation="Orphan")

    async def finished() -> Any:
        now = await here.kube.get(WORKLOADS, workload.metadata.name, "ns")
        return now["status"].get("conditions") if "finalizers" not in now["metadata"] else None

    conditions = await eventually(finished)
    assert [(c["type"], c["reason"]) for c in conditions] == [("Finished", "OwnerNotFound")]


async def test_the_workload_follows_a_job_that_is_edited_while_it_waits(here: JobCluster) -> None:
    await created(here, BATCH)
    old = await eventually(lambda: here.workload(BATCH))
    change = {
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}},
        "spec": {"parallelism": 2, "template": {"spec": {"nodeSelector": {"disk": "hdd"}}}},
    }
    await here.kube.patch(JOBS, "train", change, "ns", kind=PatchKind.MERGE)

    async def followed() -> Any:
        now = await here.workload(BATCH)
        return now if now.spec.queue_name == "other" and now.spec.pod_sets[0].count == 2 else None

    now = await eventually(followed)
    assert now.metadata.uid == old.metadata.uid
    assert now.spec.pod_sets[0].template["spec"]["nodeSelector"] == {"disk": "hdd"}


async def test_a_job_waits_for_its_priority_class(here: JobCluster) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "high"}
    await created(here, BATCH, labels=labels)

    await here.told("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "high" not found')
    assert not here.writes
    await here.kube.create(
        WORKLOAD_PRIORITY_CLASSES,
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "high"},
            "value": 7,
        },
    )
    workload = await eventually(lambda: here.workload(BATCH))
    assert workload.spec.priority == 7


async def test_a_job_too_large_for_a_workload_is_reported(here: JobCluster) -> None:
    job = fresh(JOBSET)
    worker = job["spec"]["replicatedJobs"][1]
    job["spec"]["replicatedJobs"] = [worker | {"name": f"w{index}"} for index in range(19)]
    await here.kube.create(JOBSET.resource, job)

    async def refused() -> bool:
        return any(reason == "ErrWorkloadCompose" and "podSets" in text for _, reason, text in here.recorded.events)

    await eventually(refused)


async def test_a_prebuilt_workload_is_adopted_when_it_comes(here: JobCluster) -> None:
    job = fresh(BATCH)
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/prebuilt-workload-name": "mine"}
    await here.kube.create(JOBS, job)
    pod_sets = [pod_set.to_wire() for pod_set in BATCH.pod_sets(job)]
    made = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "mine", "namespace": "ns"},
        "spec": {"podSets": pod_sets, "queueName": "q"},
    }
    await here.kube.create(WORKLOADS, made)

    async def adopted() -> Any:
        return (await here.kube.get(WORKLOADS, "mine", "ns"))["metadata"].get("ownerReferences")

    assert (await eventually(adopted))[0]["name"] == "train"
    await here.admit(BATCH)
    await running(here, BATCH)
    assert ("create", "workloads") not in here.writes


async def test_a_stranger_is_left_alone(here: JobCluster) -> None:
    stranger = batch_job(suspend=False)
    stranger["metadata"] = {"name": "stranger", "namespace": "ns"}
    stranger["spec"]["template"]["metadata"]["labels"] = {}
    await here.kube.create(JOBS, stranger)
    await created(here, BATCH)
    await eventually(lambda: here.workload(BATCH))
    assert here.writes == [("create", "workloads")]


@KINDS
async def test_a_job_that_we_deactivated_is_deleted_with_its_pods(tmp_path: Path, kind: JobIntegration) -> None:
    async with embedded(tmp_path, JobOptions(deactivated_kept=0.0)) as here:
        await created(here, kind)
        await here.admit(kind)
        await running(here, kind)
        workload = await here.workload(kind)
        gone = conditions.evicted(workload.status, "Deactivated", "out of time", 0.0, "MaximumExecutionTimeExceeded")
        await patch_status(here.kube, workload, gone, Writer.LIFECYCLE)
        off = {"spec": {"active": False}}
        await here.kube.patch(WORKLOADS, workload.metadata.name, off, "ns", kind=PatchKind.MERGE)
        await here.told("Deleted", "Deleted job: deactivation retention period expired")

        async def is_gone() -> bool:
            return not (await here.kube.list(kind.resource, "ns")).items

        await eventually(is_gone)
        await here.told("Stopped", "out of time")


@pytest.mark.parametrize(
    ("kind", "owner", "phase", "waits"),
    [
        pytest.param(BATCH, "its own", "Running", True, id="a Job's pod runs"),
        pytest.param(BATCH, "its own", "Pending", True, id="a Job's pod is pending"),
        pytest.param(BATCH, "its own", "Succeeded", False, id="a Job's pod ended"),
        pytest.param(BATCH, "another", "Running", False, id="a pod of another owner bears the Job's labels"),
        pytest.param(JOBSET, "its own", "Running", True, id="a pod of a JobSet's Job runs"),
        pytest.param(JOBSET, "another", "Running", False, id="a pod of another owner bears the JobSet's labels"),
    ],
)
async def test_an_evicted_job_keeps_its_quota_until_its_pods_are_gone(
    tmp_path: Path, kind: JobIntegration, owner: str, phase: str, waits: bool
) -> None:
    """The Job controller creates pods before it counts them: a Job that is evicted in between looks at rest."""
    async with embedded(tmp_path, kubernetes=False) as here:
        job = await created(here, kind)
        await here.admit(kind)
        job = await running(here, kind)
        if kind is JOBSET:
            child = batch_job()
            child["metadata"] = {
                "name": "train-0", "namespace": "ns", "labels": {"jobset.sigs.k8s.io/jobset-name": "train"},
                "ownerReferences": [_controller("JobSet", job)],
            }  # fmt: skip
            job = await here.kube.create(JOBS, child)
            labels = {"jobset.sigs.k8s.io/jobset-name": "train"}
        else:
            labels = job["spec"]["selector"]["matchLabels"]
        other = await here.kube.create(JOBS, batch_job() | {"metadata": {"name": "other", "namespace": "ns"}})
        pod = {
            "metadata": {
                "name": "train-0-x", "namespace": "ns", "labels": labels,
                "ownerReferences": [_controller("Job", job if owner == "its own" else other)],
            },
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }  # fmt: skip
        await here.kube.create(PODS, pod)
        status = {"status": {"phase": phase}}
        await here.kube.patch(PODS, "train-0-x", status, "ns", kind=PatchKind.MERGE, subresource="status")
        await here.evict(kind)
        await suspended(here, kind)
        if waits:
            await _looked_for_pods(here, times=2)
            assert is_true((await here.workload(kind)).status.conditions, "QuotaReserved")
            await here.kube.delete(PODS, "train-0-x", "ns", grace_seconds=0)

        async def released() -> bool:
            return not is_true((await here.workload(kind)).status.conditions, "QuotaReserved")

        await eventually(released)


def _controller(kind: str, owner: dict[str, Any]) -> dict[str, Any]:
    meta = owner["metadata"]
    return {"apiVersion": "batch/v1", "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


async def _looked_for_pods(here: JobCluster, times: int) -> None:
    """Returns once the controller has listed pods that many times more."""
    before = here.lists["pods"]

    async def is_done() -> bool:
        return here.lists["pods"] >= before + times

    await eventually(is_done)
