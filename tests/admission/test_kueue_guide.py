"""What docs/guides/kueue.md decides otherwise than Kueue is held by a test, which this module names or has."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.state.actions import PatchWorkload
from admission.engine.convert import convert_queues
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.registry import BY_FRAMEWORK
from admission.metrics import controller as metrics
from admission.webhook.rules import jobs
from admission.webhook.rules.review_rules import ReviewRules
from api import queues
from api.errors import InvalidObject
from api.kube.client import Kube
from api.kube.informers.store import Store
from api.kube.metrics import GATE_REMOVAL
from api.kube.resources import WORKLOADS
from api.meta import rfc3339
from api.names import PRIORITY_CLASS_LABEL, TOPOLOGY_GATE
from api.pod.pods import Node, Pod
from api.process.unsupported_keys import answer_for
from api.queues import WorkloadPriorityClass
from api.workloads import Workload
from tests.admission.controllers.decide.test_scheduler import deciding
from tests.admission.controllers.full_node import FullNode
from tests.admission.controllers.jobs.planned import (
    AROUND,
    JOB,
    LOW,
    RUNNING,
    WAITING,
    admitted,
    waiting_job,
)
from tests.admission.integrations.samples import batch_job, merged, sample
from tests.builders import pod, workload
from ungater.gate_controller import Ungater
from ungater.settings import UngaterSection

PROJECT = Path(__file__).parents[2]
HERE = "tests/admission/test_kueue_guide.py"
TABLE = (PROJECT / "docs/guides/kueue.md").read_text().partition("## Where Stowage decides otherwise")[2]
CASES = [line.split("|")[1].strip() for line in TABLE.splitlines() if line.startswith("| ")][1:]

HELD_BY = {
    "admission fair sharing with `withinClusterQueue`": "tests/admission/engine/queue/test_usage_order.py::"
    "test_nothing_starts_that_the_next_would_evict_at_once",
    "a job with `job-min-parallelism`": "tests/scenarios/test_partial.py::"
    "test_partial_jobs_of_two_queues_do_not_oust_each_other",
    "fair sharing: a queue that owns nothing": "tests/admission/engine/cycle/test_fair_cohorts.py::"
    "test_a_cohort_reclaims_its_own_quota_and_keeps_it",
    "fair sharing: victims in two cohorts": "tests/admission/engine/cycle/test_fair_cohorts.py::"
    "test_of_equal_shares_the_lower_priority_goes",
    "pods of a workload that were reclaimed and come back": "tests/scenarios/test_reclaimed.py::"
    "test_a_jobset_that_restarts_is_charged_for_all_its_pods_again",
    "`reclaimablePods` above the size": "tests/admission/engine/test_convert.py::"
    "test_reclaimable_pods_never_exceed_the_pod_set",
    "all pods of one pod set have ended": "tests/scenarios/test_reclaimed.py::"
    "test_the_hosts_of_a_pod_set_that_has_ended_are_free_while_the_others_run",
    "a kind that has finished while its pods run on": "tests/admission/integrations/test_kind_functions.py::"
    "test_finished_means_that_no_pod_is_active",
    "`manageJobsWithoutQueueName`": "tests/scenarios/test_unqueued_jobs.py::"
    "test_a_namespace_that_nobody_marked_is_marked_and_holds_its_pods",
    "a Job whose controller is a Job": f"{HERE}::test_a_job_of_a_queued_job_is_a_job_of_its_own",
    "a RayJob with `clusterSelector`": f"{HERE}::test_a_ray_job_on_another_cluster_is_not_managed_whatever_its_spec",
    "pods that run beyond": "tests/scenarios/test_bound_pods.py::test_pods_beyond_the_admission_are_charged_told_and_ended",
    "`borrowWithinCohort` without": f"{HERE}::test_borrow_within_cohort_without_a_policy_changes_nothing",
    "what is written into a TrainJob": "tests/admission/integrations/test_kind_functions.py::"
    "test_a_start_of_a_train_job_keeps_the_tolerations_that_its_pods_have",
    "memory of a SparkApplication": f"{HERE}::test_memory_of_spark_in_units_of_kubernetes_is_refused",
    "a Workload slice without owner": "tests/admission/controllers/watch/test_slices.py::test_what_may_replace_what",
    "a Workload that reserved quota without": f"{HERE}::test_a_workload_with_quota_and_without_a_class_keeps_its_priority",
    "events about a preemption": "tests/scenarios/test_preemption.py::test_quota_that_was_lent_is_taken_back",
    "`kueue_admission_attempts_total`": f"{HERE}::test_a_cycle_that_admits_two_workloads_is_one_attempt",
    "`kueue_pending_workloads`": "tests/admission/engine/queue/test_queueing_hints.py::"
    "test_no_inadmissible_workload_could_start",
    "`kueue_pod_scheduling_gate_removal_seconds`": f"{HERE}::"
    "test_a_gate_is_held_since_the_admission_or_since_its_pod_was_created",
    "the gates `WorkloadPriorityClassDefaulting`": f"{HERE}::test_gates_of_kueue_that_are_always_on_cannot_be_turned_off",
}


@pytest.mark.parametrize("case", HELD_BY)
def test_a_decision_of_the_guide_is_held_by_a_test(case: str) -> None:
    assert [each for each in CASES if each.startswith(case)], CASES
    file, _, name = HELD_BY[case].partition("::")
    assert re.search(rf"def {name}\(", (PROJECT / file).read_text()), HELD_BY[case]


def test_a_job_of_a_queued_job_is_a_job_of_its_own() -> None:
    def part_of(api_version: str, kind: str) -> bool:
        owner = {"apiVersion": api_version, "kind": kind, "name": "parent", "uid": "u", "controller": True}
        job = batch_job()
        return jobs.is_part({**job, "metadata": {**job["metadata"], "ownerReferences": [owner]}}, ReviewRules())

    assert not part_of("batch/v1", "Job")
    assert part_of("jobset.x-k8s.io/v1alpha2", "JobSet")


def _kind(name: str) -> DeclaredJob:
    return cast("DeclaredJob", BY_FRAMEWORK[name])


def test_a_ray_job_on_another_cluster_is_not_managed_whatever_its_spec() -> None:
    ray = _kind("ray.io/rayjob")
    job = sample(ray)
    job["spec"]["clusterSelector"] = {"ray.io/cluster": "shared"}
    assert job["spec"]["rayClusterSpec"]
    assert ray.is_skipped(job)


def test_borrow_within_cohort_without_a_policy_changes_nothing() -> None:
    def policy(**preemption: Any) -> object:
        wire = {"metadata": {"name": "cq"}, "spec": {"preemption": {"reclaimWithinCohort": "Any", **preemption}}}
        return convert_queues.cluster_queue(queues.ClusterQueue.from_wire(wire)).preemption

    assert policy(borrowWithinCohort={}) == policy() == policy(borrowWithinCohort={"policy": "Never"})


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_memory_of_spark_in_units_of_kubernetes_is_refused(role: str) -> None:
    spark = _kind("sparkoperator.k8s.io/sparkapplication")
    job = sample(spark)
    job["spec"][role]["memory"] = "512Mi"
    with pytest.raises(InvalidObject, match="must be an amount of memory such as 512m or 4g"):
        spark.pod_sets(job)


def test_a_workload_with_quota_and_without_a_class_keeps_its_priority() -> None:
    around = replace(AROUND, workload_priority_classes={"low": WorkloadPriorityClass.from_wire(LOW)})
    workload = admitted(WAITING)
    renamed = merged(RUNNING, {"metadata": {"labels": {PRIORITY_CLASS_LABEL: "low"}}})
    assert plan(renamed, JOB, [workload], around, 0.0).actions == plan(RUNNING, JOB, [workload], around, 0.0).actions
    waits = merged(waiting_job(), {"metadata": {"labels": {PRIORITY_CLASS_LABEL: "low"}}})
    [action] = plan(waits, JOB, [WAITING], around, 0.0).actions
    assert isinstance(action, PatchWorkload)
    assert action.patch["spec"]["priorityClassRef"]["name"] == "low", "it follows while it waits"


async def test_a_cycle_that_admits_two_workloads_is_one_attempt() -> None:
    """The node has room for both once the workload on it has gone."""
    cluster = FullNode()
    cluster.node(True, cpus=8)
    for name in ("first", "second"):
        cluster.add(WORKLOADS, workload(name, count=2).to_wire())
    before = metrics.ATTEMPTS.labels("success")._value.get()
    async with deciding(cluster) as scheduler, asyncio.timeout(30):
        await scheduler.next_cycle()
        await scheduler.next_cycle()
        assert sorted(scheduler.admitted) == ["first", "second"]
    assert metrics.ATTEMPTS.labels("success")._value.get() == before + 1


@pytest.mark.parametrize("key", ["WorkloadPriorityClassDefaulting", "WorkloadValidationForPodSetMetadata"])
def test_gates_of_kueue_that_are_always_on_cannot_be_turned_off(key: str) -> None:
    assert answer_for(("featureGates", key)).endswith("what Kueue has on by default is always on")


@pytest.mark.parametrize(("admitted_at", "created_at", "waited"), [(100.0, 130.0, 20.0), (130.0, 100.0, 20.0)])
async def test_a_gate_is_held_since_the_admission_or_since_its_pod_was_created(
    admitted_at: float, created_at: float, waited: float
) -> None:
    pods, workloads, nodes = Store[Pod]("pods"), Store[Workload]("workloads"), Store[Node]("nodes")
    views: dict[str, Any] = {"workloads": workloads, "pods": pods, "nodes": nodes, "claims": Store[Any]("claims")}
    opened = asyncio.Event()

    class Server:
        async def patch(self, *_: Any, **__: Any) -> Pod:
            opened.set()
            return pod("p-0", gated=False)

    ungater = Ungater(cast("Kube", Server()), **views, settings=UngaterSection(), now=lambda: 150.0)
    gated = pod("p-0")
    metadata = msgspec.structs.replace(gated.metadata, creation_timestamp=rfc3339(created_at))
    pods.upsert(msgspec.structs.replace(gated, metadata=metadata))
    placed = workload(count=1, domains=[(("n1",), 1)])
    conditions = [
        each.model_copy(update={"last_transition_time": rfc3339(admitted_at)}) for each in placed.status.conditions
    ]
    status = placed.status.model_copy(update={"conditions": tuple(conditions)})
    workloads.upsert(placed.model_copy(update={"status": status}))
    series = GATE_REMOVAL.labels(TOPOLOGY_GATE, "cq", "false")
    before = series._sum.get()
    task = asyncio.create_task(ungater.run())
    async with asyncio.timeout(30):
        await opened.wait()
        while series._sum.get() == before:  # noqa: ASYNC110 - the metric tells nobody
            await asyncio.sleep(0.001)
    task.cancel()
    assert series._sum.get() - before == pytest.approx(waited)
