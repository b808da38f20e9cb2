"""Whose admission a job runs on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from admission.controllers.jobs.ancestors import JobAncestors
from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.jobs.plan.workload import composed
from admission.controllers.watch.caches import InformerView
from admission.integrations.registry import BY_FRAMEWORK
from api.workloads import Workload
from tests.admission.integrations.samples import batch_job
from tests.builders import workload

JOBSET, JOB = "jobset.x-k8s.io/jobset", "batch/job"


class HeldObjects:
    """Stands for a view."""

    def __init__(self, objects: Mapping[str, Any], indexed: Mapping[str, list[Any]] | None = None) -> None:
        self.objects, self._indexed = objects, indexed or {}

    def by_index(self, _: str, value: str) -> list[Any]:
        return self._indexed.get(value, [])


def jobset(uid: str = "u", queue: str | None = "q") -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    replicated = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": template}}}
    meta = {"name": "set", "namespace": "ns", "uid": uid, "labels": labels}
    return {"metadata": meta, "spec": {"replicatedJobs": [replicated]}}


def owned(original: Workload) -> Workload:
    reference = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "set",
        "uid": "u",
        "controller": True,
    }
    return Workload.from_wire(
        {**original.to_wire(), "metadata": {**original.to_wire()["metadata"], "ownerReferences": [reference]}}
    )


def child(
    kind: str = "JobSet", name: str = "set-w-0", pods: int = 2, cpu: str = "1", of: str = "set"
) -> dict[str, Any]:
    version = "jobset.x-k8s.io/v1alpha2" if kind == "JobSet" else "example.com/v1"
    owner = {"apiVersion": version, "kind": kind, "name": "set", "uid": "u", "controller": True}
    labels = {"jobset.sigs.k8s.io/jobset-name": of}
    meta = {"name": name, "namespace": "ns", "uid": "c", "labels": labels, "ownerReferences": [owner]}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    return {"metadata": meta, "spec": {"parallelism": pods, "template": template}}


ADMITTED = owned(workload(admitted=True))


@pytest.mark.parametrize(
    ("parents", "workloads", "job", "admitted"),
    [
        pytest.param([jobset()], [owned(workload(admitted=True))], child(), True, id="admitted"),
        pytest.param([jobset()], [owned(workload())], child(), False, id="waits"),
        pytest.param([jobset()], [], child(), False, id="has-no-workload-yet"),
        pytest.param([jobset(queue=None)], [], child(), None, id="owner-is-not-managed"),
        pytest.param([], [], child(), None, id="owner-does-not-exist"),
        pytest.param([jobset(uid="another")], [], child(), None, id="owner-was-replaced"),
        # Naming an owner does not make a Job its child
        pytest.param([jobset()], [ADMITTED], child(name="mine"), None, id="of-another-name"),
        pytest.param([jobset()], [ADMITTED], child(name="set-w-2"), None, id="one-too-many"),
        pytest.param([jobset()], [ADMITTED], child(of="another"), None, id="without-its-label"),
        pytest.param([jobset()], [ADMITTED], child(pods=3), None, id="of-more-pods"),
        pytest.param([jobset()], [ADMITTED], child(cpu="2"), None, id="of-larger-pods"),
        pytest.param([], [], child("Crane"), None, id="owner-of-no-kind-of-ours"),
        pytest.param([], [], {"metadata": {"name": "x", "namespace": "ns"}}, None, id="no-owner"),
    ],
)
def test_a_job_is_part_of_another_only_while_that_is_there_and_managed(
    parents: list[dict[str, Any]], workloads: list[Workload], job: dict[str, Any], admitted: bool | None
) -> None:
    jobs = {
        JOBSET: HeldObjects({f"ns/{parent['metadata']['name']}": parent for parent in parents}),
        JOB: HeldObjects({}),
    }
    family = JobAncestors(
        BY_FRAMEWORK,
        cast("Mapping[str, InformerView[dict[str, Any]]]", jobs),
        cast("InformerView[Workload]", HeldObjects({}, {f"{JOBSET}:ns/set": workloads})),
        JobOptions(),
    )
    assert family.ancestor_admitted(job, BY_FRAMEWORK[JOB]) is admitted


STARTED = {"active": 1, "startTime": "t", "conditions": []}
OWN = workload(admitted=True).status


@pytest.mark.parametrize(
    ("admitted", "own", "job", "done"),
    [
        pytest.param(True, False, batch_job(suspend=False), ["DeleteWorkload"], id="its owner has the quota"),
        pytest.param(False, False, {**batch_job(suspend=False), "status": STARTED}, ["PatchJob"], id="its owner waits"),
        pytest.param(False, False, {**batch_job(), "status": STARTED}, [], id="its last pods run"),
        pytest.param(False, False, batch_job(), ["DeleteWorkload"], id="it rests"),
        pytest.param(
            True, True, {**batch_job(suspend=False), "status": STARTED}, ["PatchJob"], id="on quota of its own"
        ),
        pytest.param(True, True, {**batch_job(), "status": STARTED}, [], id="that is not free yet"),
        pytest.param(True, True, batch_job(), ["DeleteWorkload"], id="that is free"),
    ],
)
def test_a_part_that_queued_before_its_owner_did_loses_its_workload(
    admitted: bool, own: bool, job: dict[str, Any], done: list[str]
) -> None:
    """Else its pods would count twice."""
    kind = BY_FRAMEWORK[JOB]
    made = composed(job, kind, JobContext())
    if own:
        made = made.model_copy(update={"status": OWN})
    found = plan(job, kind, [made], JobContext(ancestor_admitted=admitted), 0.0)
    names = [type(action).__name__ for action in found.actions]
    assert [name for name in names if name != "PatchWorkload"] == done
    assert plan(job, kind, [], JobContext(ancestor_admitted=True), 0.0).actions == ()
