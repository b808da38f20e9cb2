"""Elastic jobs of declared kinds: how many pods they ask for, and what is planned while they change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.jobs.plan.start import plan_start
from admission.controllers.jobs.plan.workload import composed
from admission.controllers.state import conditions
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PatchWorkload
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.registry import BY_FRAMEWORK
from api import names
from api.errors import InvalidObject
from api.topology import ResourceFlavor
from api.workloads import Admission, PodSetAssignment, Workload
from tests.admission.integrations.samples import merged, template

Object = dict[str, Any]
FLAVOR = ResourceFlavor.from_wire({"metadata": {"name": "tas"}, "spec": {"nodeLabels": {"pool": "tas"}}})
AROUND = JobContext(flavors={"tas": FLAVOR})
CLOSED = replace(AROUND, options=JobOptions(resizes=False))
"""The gate ElasticJobsViaWorkloadSlices is off."""


def kind(name: str) -> DeclaredJob:
    found = BY_FRAMEWORK[name]
    assert isinstance(found, DeclaredJob)
    return found


RAY, PYTORCH = kind("ray.io/raycluster"), kind("kubeflow.org/pytorchjob")


def cluster(
    replicas: object, least: object = None, most: object = None, *, hosts: int = 1, elastic: bool = True
) -> Object:
    """A RayCluster of a head and one group of workers."""
    group = {"groupName": "work", "replicas": replicas, "minReplicas": least, "maxReplicas": most, "numOfHosts": hosts}
    given = {key: value for key, value in group.items() if value is not None}
    annotations = {names.ELASTIC_JOB: "true"} if elastic else {}
    meta = {
        "name": "c",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "annotations": annotations,
    }
    spec = {
        "suspend": True,
        "headGroupSpec": {"template": template()},
        "workerGroupSpecs": [{**given, "template": template()}],
    }
    return {"metadata": {**meta, "labels": {names.QUEUE_NAME_LABEL: "q"}}, "spec": spec}


def torch(workers: int, policy: Object | None) -> Object:
    meta = {"name": "t", "namespace": "ns", "uid": "u", "annotations": {names.ELASTIC_JOB: "true"}}
    roles = {"Master": {"template": template()}, "Worker": {"replicas": workers, "template": template()}}
    return {"metadata": meta, "spec": {"pytorchReplicaSpecs": roles, **({"elasticPolicy": policy} if policy else {})}}


@pytest.mark.parametrize(
    ("of", "job", "asked"),
    [
        pytest.param(RAY, cluster(5, 2, 12), {"head": (1, None), "work": (5, 2)}, id="within its bounds"),
        pytest.param(RAY, cluster(1, 2, 12), {"head": (1, None), "work": (2, None)}, id="too few"),
        pytest.param(RAY, cluster(40, 2, 12), {"head": (1, None), "work": (12, 2)}, id="too many"),
        pytest.param(RAY, cluster(5, 2, 12, hosts=4), {"head": (1, None), "work": (20, 8)}, id="hosts of a replica"),
        pytest.param(RAY, cluster(5, 0, 12), {"head": (1, None), "work": (5, 1)}, id="a Workload starts with one pod"),
        pytest.param(RAY, cluster(5), {"head": (1, None), "work": (5, None)}, id="no bounds"),
        pytest.param(RAY, cluster(None, 3, 12), {"head": (1, None), "work": (3, None)}, id="no number"),
        pytest.param(RAY, cluster(40, 2, 12, elastic=False), {"head": (1, None), "work": (12, None)}, id="not elastic"),
        pytest.param(PYTORCH, torch(4, None), {"master": (1, None), "worker": (4, None)}, id="no policy"),
        pytest.param(
            PYTORCH,
            torch(9, {"minReplicas": 2, "maxReplicas": 6}),
            {"master": (1, None), "worker": (6, 2)},
            id="policy",
        ),
    ],
)
def test_a_pod_set_stays_between_its_bounds(
    of: DeclaredJob, job: Object, asked: dict[str, tuple[int, int | None]]
) -> None:
    assert {p.name: (p.count, p.min_count) for p in of.pod_sets(job)} == asked


@pytest.mark.parametrize(
    ("job", "message"),
    [
        pytest.param(cluster(5, 7, 3), r"maxReplicas: 3: must be at least 7 \(minReplicas\)", id="bounds"),
        pytest.param(cluster(5, -1), r"workerGroupSpecs\[0\].minReplicas: -1: must be a whole number", id="negative"),
        pytest.param(cluster(5, 1, "9"), r"workerGroupSpecs\[0\].maxReplicas: '9': must be a whole number", id="text"),
        pytest.param(cluster(2**30, 1, hosts=4), r"workerGroupSpecs\[0\]: 4294967296: must have at most", id="product"),
    ],
)
def test_bounds_that_cannot_be_read_are_named(job: Object, message: str) -> None:
    with pytest.raises(InvalidObject, match=message):
        RAY.pod_sets(job)


def test_of_several_groups_one_may_start_with_fewer() -> None:
    """A Workload has one such pod set."""
    job = cluster(5, 2, 12)
    first = job["spec"]["workerGroupSpecs"][0]
    job["spec"]["workerGroupSpecs"] = [{**first, "groupName": name} for name in ("a", "b")]
    assert [(p.name, p.min_count) for p in RAY.pod_sets(job)] == [("head", None), ("a", 2), ("b", None)]


def admitted(workload: Workload, workers: int) -> Workload:
    """With quota for the head and so many workers."""
    counts = {p.name: p.count if p.name == "head" else workers for p in workload.spec.pod_sets}
    given = tuple(PodSetAssignment(name=n, flavors={"cpu": "tas"}, count=count) for n, count in counts.items())
    admission = Admission(cluster_queue="cq", pod_set_assignments=given)
    status = conditions.synced_admitted(conditions.reserved(workload.status, admission, 0.0), 0.0)
    return workload.model_copy(update={"status": status})


def started(job: Object, workload: Workload) -> Object:
    [patch] = [action.patch for action in plan_start(job, RAY, workload, AROUND, 0.0).actions]  # type: ignore[union-attr]
    return {**merged(job, patch), "status": {"state": "ready"}}


def resized(job: Object, workers: int) -> Object:
    group = {**job["spec"]["workerGroupSpecs"][0], "replicas": workers}
    return {
        **job,
        "spec": {**job["spec"], "workerGroupSpecs": [group]},
        "metadata": {**job["metadata"], "generation": 2},
    }


def test_a_job_that_got_fewer_pods_asks_for_the_others() -> None:
    job = cluster(12, 5, 12)
    workload = admitted(composed(job, RAY, AROUND), 7)
    running = started(job, workload)
    assert running["spec"]["workerGroupSpecs"][0]["replicas"] == 12, "its controller makes all pods, and some wait"
    [made] = plan(running, RAY, [workload], AROUND, 0.0).actions
    assert isinstance(made, CreateWorkload)
    assert {p.name: (p.count, p.min_count) for p in made.workload.spec.pod_sets} == {
        "head": (1, None),
        "work": (12, None),
    }
    assert made.workload.metadata.annotations[names.REPLACEMENT_FOR] == workload.key
    assert plan(running, RAY, [workload, made.workload], AROUND, 0.0).actions == ()


@pytest.mark.parametrize(
    ("workers", "count"), [pytest.param(3, 3, id="shrinks"), pytest.param(0, 2, id="to its minimum")]
)
def test_a_job_that_shrinks_gives_back_at_once(workers: int, count: int) -> None:
    job = cluster(7, 2, 12)
    workload = admitted(composed(job, RAY, AROUND), 7)
    running = resized(started(job, workload), workers)
    [patch] = plan(running, RAY, [workload], AROUND, 0.0).actions
    assert isinstance(patch, PatchWorkload)
    assert [(p["name"], p["count"], "minCount" in p) for p in patch.patch["spec"]["podSets"]] == [
        ("head", 1, False),
        ("work", count, False),
    ]


@pytest.mark.parametrize("workers", [pytest.param(7, id="as many as run"), pytest.param(3, id="fewer")])
def test_a_job_that_no_longer_lacks_pods_takes_its_wish_back_before_it_gives_back(workers: int) -> None:
    """Else the slice that still waits would start on what the other one gives back."""
    job = cluster(12, 5, 12)
    workload = admitted(composed(job, RAY, AROUND), 7)
    running = started(job, workload)
    [made] = plan(running, RAY, [workload], AROUND, 0.0).actions
    assert isinstance(made, CreateWorkload)
    actions = plan(resized(running, workers), RAY, [workload, made.workload], AROUND, 0.0).actions
    *_, deleted, patch = actions
    assert isinstance(deleted, DeleteWorkload)
    assert deleted.workload.key == made.workload.key
    assert isinstance(patch, PatchWorkload)
    assert patch.workload.key == workload.key
    assert patch.patch["spec"]["podSets"][1]["count"] == max(workers, 5)


@pytest.mark.parametrize(
    ("job", "around"),
    [
        pytest.param(cluster(5, 2, 12, elastic=False), AROUND, id="no annotation"),
        pytest.param(cluster(5, 2, 12), CLOSED, id="gate closed"),
    ],
)
def test_one_that_is_not_elastic_restarts_when_its_size_changes(job: Object, around: JobContext) -> None:
    workload = admitted(composed(job, RAY, around), 5)
    assert [pod_set.min_count for pod_set in workload.spec.pod_sets] == [None, None]
    running = resized(started(job, workload), 9)
    found = plan(running, RAY, [workload], around, 0.0)
    assert [event.reason for action in found.actions for event in getattr(action, "events", ())] == ["Stopped"]
