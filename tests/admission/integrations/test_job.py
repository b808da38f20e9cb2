"""batch/v1 Job: states, counts, and what the API server allows when."""

from __future__ import annotations

from typing import Any

import pytest

from admission.integrations.base import JobResult
from admission.integrations.job import BatchJob
from admission.integrations.podset import PodSetInfo
from tests.admission.integrations.samples import batch_job, merged

KIND = BatchJob()
RESUMED = {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "False"}]}
PARTIAL = {"kueue.x-k8s.io/job-min-parallelism": "2"}
EQUAL = PARTIAL | {"kueue.x-k8s.io/job-completions-equal-parallelism": "true"}


def job(status: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    body = batch_job(**spec)
    body["status"] = body["status"] if status is None else status
    body["metadata"]["annotations"] = annotations or {}
    return body


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        pytest.param({"parallelism": 4, "completions": None}, 4, id="no completions"),
        pytest.param({"parallelism": 4, "completions": 2}, 2, id="fewer completions"),
        pytest.param({"parallelism": None, "completions": 9}, 1, id="default parallelism"),
        pytest.param({"parallelism": 0}, 0, id="paused"),
    ],
)
def test_count(spec: dict[str, Any], count: int) -> None:
    assert KIND.pod_sets(job(**spec))[0].count == count


def test_labels_of_the_api_server_are_not_the_pod_sets() -> None:
    assert KIND.pod_sets(job())[0].template["metadata"]["labels"] == {"app": "train"}


@pytest.mark.parametrize(
    ("status", "active"),
    [
        pytest.param({}, False, id="never started"),
        pytest.param(RESUMED | {"active": 3}, True, id="running"),
        pytest.param(RESUMED, True, id="resumed, pods not made yet"),
        pytest.param({"active": 1, "conditions": [{"type": "Suspended", "status": "True"}]}, True, id="a pod left"),
        pytest.param({"conditions": [{"type": "Suspended", "status": "True"}]}, False, id="suspended"),
    ],
)
def test_active(status: dict[str, Any], active: bool) -> None:
    assert KIND.is_active(job(status)) is active


@pytest.mark.parametrize("status", [RESUMED, RESUMED | {"active": 1}], ids=["unconfirmed", "a pod left"])
def test_the_template_waits_until_the_suspension_is_confirmed(status: dict[str, Any]) -> None:
    original = KIND.pod_sets(job())
    changed = job(status)
    changed["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "tas"}
    assert KIND.stop(changed, original) is None


def test_suspension_and_template_never_go_in_one_patch() -> None:
    running = job(RESUMED, suspend=False)
    patch = KIND.stop(running, KIND.pod_sets(job()))
    assert patch == {"spec": {"suspend": True}, "metadata": {"resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("conditions", "finish"),
    [
        pytest.param([], None, id="none"),
        pytest.param([{"type": "Complete", "status": "False"}], None, id="not true"),
        pytest.param([{"type": "Complete", "status": "True", "message": "m"}], JobResult("m", True), id="complete"),
        pytest.param([{"type": "Failed", "status": "True", "message": "m"}], JobResult("m", False), id="failed"),
        pytest.param([{"type": "FailureTarget", "status": "True"}], None, id="still ending"),
    ],
)
def test_finished(conditions: list[dict[str, Any]], finish: JobResult | None) -> None:
    assert KIND.finished(job({"conditions": conditions})) == finish


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [
        pytest.param(PARTIAL, {"parallelism": 2, "completions": 5}, id="parallelism alone"),
        pytest.param(EQUAL, {"parallelism": 2, "completions": 2}, id="completions with it"),
        pytest.param({}, {"parallelism": 3, "completions": 5}, id="no partial admission"),
    ],
)
def test_partial_admission_scales_at_start_and_back_at_stop(annotations: dict[str, str], spec: dict[str, int]) -> None:
    whole = job(annotations=annotations)
    if annotations is EQUAL:
        whole["spec"]["completions"] = 3
    running = merged(whole, KIND.start(whole, [PodSetInfo("main", 2)]))
    assert {key: running["spec"][key] for key in spec} == spec
    suspended = merged(running, {"spec": {"suspend": True}})
    patch = KIND.stop(suspended, KIND.pod_sets(whole)) or {}
    assert merged(suspended, patch)["spec"] == whole["spec"]


@pytest.mark.parametrize(
    ("spec", "succeeded", "count"),
    [
        pytest.param({"parallelism": 3, "completions": 5}, 2, 0, id="all still needed"),
        pytest.param({"parallelism": 3, "completions": 5}, 3, 1, id="last round"),
        pytest.param({"parallelism": 3, "completions": 5}, 5, 3, id="all done"),
        pytest.param({"parallelism": 1, "completions": 5}, 4, 0, id="one at a time"),
        pytest.param({"parallelism": 10, "completions": 4}, 1, 1, id="more pods than completions: those queued count"),
        pytest.param({"parallelism": 10, "completions": 20}, 15, 5, id="shrunk after its pods ended"),
    ],
)
def test_reclaimable(spec: dict[str, Any], succeeded: int, count: int) -> None:
    assert sum(p.count for p in KIND.reclaimable_pods(job({"succeeded": succeeded}, **spec))) == count


@pytest.mark.parametrize(
    ("indexes", "count"),
    [("", 0), ("4", 1), ("0,2-3", 3), ("0-4", 3), ("2-1", 0), ("x", 0), ("-", 0), ("1-99999999999", 0)],
)
def test_failed_indexes_need_no_quota_any_more(indexes: str, count: int) -> None:
    """With `backoffLimitPerIndex` a failed index is not tried again."""
    found = KIND.reclaimable_pods(job({"succeeded": 2, "failedIndexes": indexes}, parallelism=3, completions=5))
    assert sum(p.count for p in found) == count


@pytest.mark.parametrize(
    ("status", "count"),
    [
        pytest.param({"succeeded": 6, "completedIndexes": "0,5-9"}, 1, id="completed and removed"),
        pytest.param({"succeeded": 1, "completedIndexes": "0", "failedIndexes": "1,7-9"}, 2, id="failed and removed"),
        pytest.param({"succeeded": 2, "failedIndexes": "5-9"}, 2, id="no list of completed indexes"),
        pytest.param({"completedIndexes": "6-9", "succeeded": 4}, 0, id="all removed"),
    ],
)
def test_indexes_that_an_indexed_job_no_longer_has_need_quota_as_before(status: dict[str, Any], count: int) -> None:
    """It ran ten pods and was lowered to five: the pods of the five indexes that are left count."""
    found = KIND.reclaimable_pods(job(status, parallelism=5, completions=5, completionMode="Indexed"))
    assert sum(p.count for p in found) == count


@pytest.mark.parametrize(("active", "count"), [(2, 3), (4, 1), (0, 3)])
def test_a_job_without_completions_needs_the_pods_that_still_run(active: int, count: int) -> None:
    found = KIND.reclaimable_pods(job({"succeeded": 3, "active": active}, parallelism=5, completions=None))
    assert sum(p.count for p in found) == count


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        pytest.param({"ready": 2}, False, id="one missing"),
        pytest.param({"ready": 2, "succeeded": 1}, True, id="all"),
        pytest.param({"ready": 2, "uncountedTerminatedPods": {"succeeded": ["u"]}}, True, id="one not counted yet"),
        pytest.param({"ready": 2, "uncountedTerminatedPods": {"failed": ["u"]}}, False, id="one failed"),
        pytest.param({"ready": 2, "failedIndexes": "1"}, True, id="one failed for good"),
    ],
)
def test_pods_ready(status: dict[str, int], ready: bool) -> None:
    assert KIND.pods_ready(job(status)) is ready
