"""What holds for every registered kind of job."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from admission.integrations.base import JobIntegration
from admission.integrations.podset import PodSetConflict, PodSetInfo
from admission.integrations.registry import ADAPTERS
from api.errors import InvalidObject
from tests.admission.integrations.samples import counts, merged, sample, suspended

KINDS = pytest.mark.parametrize("kind", ADAPTERS, ids=lambda kind: kind.framework)
GATE = "kueue.x-k8s.io/topology"


def infos(kind: JobIntegration, job: dict[str, Any], **what: Any) -> list[PodSetInfo]:
    fields: dict[str, Any] = {
        "labels": {"kueue.x-k8s.io/podset": "p"},
        "annotations": {"kueue.x-k8s.io/workload": "w"},
        "node_selector": {"pool": "tas"},
        "tolerations": ({"key": "spot", "operator": "Exists"},),
        "scheduling_gates": (GATE,),
    } | what
    return [PodSetInfo(p.name, p.count, **fields) for p in kind.pod_sets(job)]


def stopped(kind: JobIntegration, job: dict[str, Any], original: Any) -> dict[str, Any]:
    """The job after all patches of a stop, its controller confirming the suspension in between."""
    for _ in range(5):
        patch = kind.stop(job, original)
        if patch is None:
            return job
        job = merged(job, patch)
        job["status"] = {"conditions": [{"type": "Suspended", "status": "True"}]}
    raise AssertionError("the stop never ends")


@KINDS
def test_pod_sets_have_names_and_counts(kind: JobIntegration) -> None:
    assert {p.name: p.count for p in kind.pod_sets(sample(kind))} == counts(kind)


@KINDS
def test_without_topology_there_is_no_request(kind: JobIntegration) -> None:
    assert all(p.topology_request is None for p in kind.pod_sets(sample(kind), topology=False))


@KINDS
def test_a_request_on_the_job_holds_for_each_pod_set(kind: JobIntegration) -> None:
    job = sample(kind)
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/require-topology": "rack"}
    requests = [p.topology_request for p in kind.pod_sets(job)]
    assert [request.required for request in requests if request] == ["rack"] * len(requests)


@KINDS
def test_start_is_one_patch_that_unsuspends_and_fills_every_template(kind: JobIntegration) -> None:
    job = sample(kind)
    before = copy.deepcopy(job)
    patch = kind.start(job, infos(kind, job))
    assert job == before, "the job given must not change"
    assert patch["metadata"] == {"resourceVersion": job["metadata"]["resourceVersion"]}
    running = merged(job, patch)
    assert not kind.is_suspended(running)
    for pod_set in kind.pod_sets(running):
        meta, spec = pod_set.template["metadata"], pod_set.template["spec"]
        assert meta["labels"] == {"app": "train", "kueue.x-k8s.io/podset": "p"}
        assert meta["annotations"] == {"team": "a", "kueue.x-k8s.io/workload": "w"}
        assert spec["nodeSelector"] == {"disk": "ssd", "pool": "tas"}
        assert [t["key"] for t in spec["tolerations"]] == ["gpu", "spot"]
        assert [g["name"] for g in spec["schedulingGates"]] == ["example.com/other", GATE]


@KINDS
def test_what_is_there_already_is_not_added_twice(kind: JobIntegration) -> None:
    job = sample(kind)
    once = merged(job, kind.start(job, infos(kind, job)))
    rests = suspended(kind, once)
    assert merged(rests, kind.start(rests, infos(kind, rests)))["spec"] == once["spec"]


@KINDS
def test_stop_after_start_restores_the_job_exactly(kind: JobIntegration) -> None:
    job = sample(kind)
    running = merged(job, kind.start(job, infos(kind, job)))
    assert stopped(kind, running, kind.pod_sets(job))["spec"] == job["spec"]


@KINDS
def test_stop_without_a_workload_only_suspends(kind: JobIntegration) -> None:
    job = sample(kind)
    running = merged(job, kind.start(job, infos(kind, job)))
    assert stopped(kind, running, None)["spec"] == suspended(kind, running)["spec"]


@KINDS
def test_nothing_to_stop_is_no_patch(kind: JobIntegration) -> None:
    job = sample(kind)
    assert kind.stop(job, kind.pod_sets(job)) is None
    assert not kind.is_active(job)


@KINDS
@pytest.mark.parametrize(
    ("field", "what"),
    [
        pytest.param("nodeSelector", {"node_selector": {"disk": "hdd"}}, id="node selector"),
        pytest.param("labels", {"labels": {"app": "serve"}}, id="labels"),
        pytest.param("annotations", {"annotations": {"team": "b"}}, id="annotations"),
    ],
)
def test_a_conflict_names_field_and_key(kind: JobIntegration, field: str, what: dict[str, Any]) -> None:
    job = sample(kind)
    with pytest.raises(PodSetConflict, match=f"conflict for {field}: conflict for key=") as caught:
        kind.start(job, infos(kind, job, **what))
    assert (caught.value.field, caught.value.key) == (field, next(iter(next(iter(what.values())))))


@KINDS
def test_stale_marks_of_our_own_are_written_over(kind: JobIntegration) -> None:
    job = sample(kind)
    copied = merged(job, kind.start(job, infos(kind, job)))
    copied = suspended(kind, copied)
    fresh = infos(kind, copied, annotations={"kueue.x-k8s.io/workload": "new"})
    for pod_set in kind.pod_sets(merged(copied, kind.start(copied, fresh))):
        assert pod_set.template["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == "new"


@KINDS
def test_infos_for_other_pod_sets_are_refused(kind: JobIntegration) -> None:
    with pytest.raises(InvalidObject, match=r"podSetAssignments.*'stranger'"):
        kind.start(sample(kind), [PodSetInfo("stranger", 1)])


@KINDS
def test_a_running_job_is_neither_finished_nor_ready(kind: JobIntegration) -> None:
    job = sample(kind)
    assert kind.finished(job) is None
    assert not kind.pods_ready(job)
