"""JobSet: states, and the one-patch stop."""

from __future__ import annotations

from typing import Any

import pytest

from admission.integrations.base import JobResult
from admission.integrations.jobset import JobSet
from admission.integrations.podset import PodSetInfo
from tests.admission.integrations.samples import batch_job, jobset, merged

KIND = JobSet()
GATE = "kueue.x-k8s.io/topology"


def with_status(**status: Any) -> dict[str, Any]:
    return jobset() | {"status": status}


@pytest.mark.parametrize(
    ("status", "active"),
    [
        pytest.param({}, False, id="never seen"),
        pytest.param({"conditions": [{"type": "Suspended", "status": "True"}]}, False, id="suspended"),
        pytest.param({"conditions": [{"type": "Suspended", "status": "False"}]}, True, id="resumed"),
        pytest.param({"replicatedJobsStatus": [{"name": "worker", "active": 1}]}, True, id="a child runs"),
    ],
)
def test_active(status: dict[str, Any], active: bool) -> None:
    assert KIND.is_active(with_status(**status)) is active


@pytest.mark.parametrize(
    ("kind", "finish"),
    [("Completed", JobResult("m", True)), ("Failed", JobResult("m", False)), ("StartupPolicyInProgress", None)],
)
def test_finished(kind: str, finish: JobResult | None) -> None:
    assert KIND.finished(with_status(conditions=[{"type": kind, "status": "True", "message": "m"}])) == finish


def test_finished_means_that_no_job_is_active() -> None:
    """By its success policy a JobSet completes while other jobs still run."""
    done = [{"type": "Completed", "status": "True", "message": "m"}]
    driver, workers = {"name": "driver", "succeeded": 1}, {"name": "worker", "active": 2}
    assert KIND.finished(with_status(conditions=done, replicatedJobsStatus=[driver, workers])) is None
    assert KIND.finished(with_status(conditions=done, replicatedJobsStatus=[driver])) == JobResult("m", True)


def test_suspension_and_templates_go_in_one_patch() -> None:
    whole = jobset()
    infos = [PodSetInfo(p.name, p.count, node_selector={"pool": "tas"}) for p in KIND.pod_sets(whole)]
    running = merged(whole, KIND.start(whole, infos))
    patch = KIND.stop(running, KIND.pod_sets(whole)) or {}
    assert set(patch["spec"]) == {"suspend", "replicatedJobs"}
    assert merged(running, patch)["spec"] == whole["spec"]


def test_rank_comes_from_the_child_job_and_the_pod() -> None:
    request = KIND.pod_sets(jobset())[1].topology_request
    assert request is not None
    assert (request.sub_group_count, request.sub_group_index_label) == (2, "jobset.sigs.k8s.io/job-index")
    assert request.pod_index_label == "batch.kubernetes.io/job-completion-index"
    assert not request.explicit


def test_reclaimable_pods_are_those_of_finished_children() -> None:
    done = KIND.reclaimable_pods(with_status(replicatedJobsStatus=[{"name": "worker", "succeeded": 1}]))
    assert [(p.name, p.count) for p in done] == [("worker", 3)]


@pytest.mark.parametrize(("ready", "all_ready"), [(1, False), (2, True)])
def test_pods_ready(ready: int, all_ready: bool) -> None:
    statuses = [{"name": "driver", "succeeded": 1}, {"name": "worker", "ready": ready}]
    assert KIND.pods_ready(with_status(replicatedJobsStatus=statuses)) is all_ready


def test_pod_sets_have_lower_case_names() -> None:
    job = jobset()
    job["spec"]["replicatedJobs"][0]["name"] = "Driver"
    assert [p.name for p in KIND.pod_sets(job)] == ["driver", "worker"]


def child(**template_spec: Any) -> dict[str, Any]:
    job = batch_job()
    job["metadata"]["labels"] = {"jobset.sigs.k8s.io/replicatedjob-name": "worker"}
    job["spec"]["template"]["spec"] |= template_spec
    return job


LEFT = {"nodeSelector": {"disk": "ssd", "old": "x", "rack": "r"}, "schedulingGates": [{"name": GATE}]}


@pytest.mark.parametrize(
    ("info", "resting", "left"),
    [
        pytest.param(PodSetInfo("worker", 6), True, {"disk": "ssd", "rack": "r"}, id="taken off"),
        pytest.param(
            PodSetInfo("worker", 6, node_selector={"old": "y"}), True, {"disk", "old", "rack"}, id="given anew"
        ),
        pytest.param(PodSetInfo("worker", 6), False, None, id="not while it runs"),
        pytest.param(PodSetInfo("driver", 1), True, None, id="another pod set's"),
    ],
)
def test_leftovers_of_an_earlier_start(info: PodSetInfo, resting: bool, left: Any) -> None:
    before = child(**LEFT)
    before["spec"]["suspend"] = resting
    patch = KIND.child_patch(jobset(), before, [info], {"old", "pool"})
    if left is None:
        assert patch is None
        return
    after = merged(before, patch)["spec"]["template"]["spec"]
    assert set(after["nodeSelector"]) == set(left)
    assert "schedulingGates" not in after


def test_a_gate_that_is_wanted_again_stays() -> None:
    before = child(nodeSelector={"disk": "ssd"}, schedulingGates=[{"name": GATE}])
    assert KIND.child_patch(jobset(), before, [PodSetInfo("worker", 6, scheduling_gates=(GATE,))], {"old"}) is None
