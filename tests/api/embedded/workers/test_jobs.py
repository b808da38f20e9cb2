"""The Job controller's stand-in: pods, suspend and resume, ends."""

from __future__ import annotations

import pytest

from api.embedded.store import DeleteOptions
from api.embedded.workers import indexes
from api.embedded.workers.jobs import JobWorker
from api.kube.resources import JOBS, PODS
from api.names import JOB_COMPLETION_INDEX, TOPOLOGY_GATE
from tests.api.embedded.workers.cluster import Cluster, job, pod_template

GATES = [{"name": TOPOLOGY_GATE}]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    for name in ("a", "b"):
        made.node(name)
    return made


def test_an_indexed_job_gets_a_pod_for_each_index(cluster: Cluster) -> None:
    cluster.post(job("train"))
    pods = cluster.pods()
    assert [pod["metadata"]["labels"][JOB_COMPLETION_INDEX] for pod in pods] == ["0", "1"]
    assert [pod["metadata"]["name"][: len("train-0-")] for pod in pods] == ["train-0-", "train-1-"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["train-0", "train-1"]
    owner = pods[0]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "train", True)
    assert cluster.job("train")["status"]["active"] == 2
    assert cluster.job("train")["status"]["ready"] == 2


def test_pods_of_a_plain_job_have_no_index(cluster: Cluster) -> None:
    cluster.post(job(completionMode="NonIndexed"))
    assert all(JOB_COMPLETION_INDEX not in pod["metadata"].get("annotations", {}) for pod in cluster.pods())
    assert len(cluster.pods()) == 2


def test_a_suspended_job_has_no_pods_until_it_is_resumed(cluster: Cluster) -> None:
    cluster.post(job(suspend=True))
    assert cluster.pods() == []
    assert cluster.conditions(cluster.job("job")) == {"Suspended": "True"}
    assert "startTime" not in cluster.job("job")["status"]
    cluster.time += 5
    cluster.change("Job", "job", {"suspend": False, "template": {"spec": {"nodeSelector": {"example.com/rack": "r"}}}})
    assert cluster.conditions(cluster.job("job")) == {"Suspended": "False"}
    assert cluster.job("job")["status"]["startTime"] == cluster.store.now()
    assert [pod["spec"]["nodeSelector"] for pod in cluster.pods()] == [{"example.com/rack": "r"}] * 2


def test_suspending_removes_the_pods_and_counts_no_failure(cluster: Cluster) -> None:
    cluster.post(job())
    assert cluster.phases() == ["Running", "Running"]
    cluster.change("Job", "job", {"suspend": True})
    assert cluster.pods() == []
    status = cluster.job("job")["status"]
    assert "active" not in status
    assert "failed" not in status
    assert "startTime" not in status
    cluster.change("Job", "job", {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "b"}}}})
    cluster.change("Job", "job", {"suspend": False})
    assert [pod["spec"]["nodeName"] for pod in cluster.pods()] == ["b", "b"]


def test_gated_pods_go_with_a_suspension(cluster: Cluster) -> None:
    cluster.post(job(template=pod_template(schedulingGates=GATES)))
    assert cluster.phases() == ["Pending", "Pending"]
    cluster.change("Job", "job", {"suspend": True})
    assert cluster.pods() == []


@pytest.mark.parametrize(
    ("mode", "completions", "parallelism", "rounds"),
    [
        pytest.param("Indexed", 2, 2, 1, id="indexed at once"),
        pytest.param("Indexed", 5, 2, 3, id="indexed in rounds"),
        pytest.param("NonIndexed", 4, 2, 2, id="plain in rounds"),
        pytest.param("NonIndexed", None, 2, 1, id="work queue"),
    ],
)
def test_a_job_completes(cluster: Cluster, mode: str, completions: int | None, parallelism: int, rounds: int) -> None:
    template = pod_template({"stowage.test/run-for": "10s"})
    cluster.post(job(template=template, completionMode=mode, completions=completions, parallelism=parallelism))
    for _ in range(rounds - 1):
        cluster.after(10)
        assert "Complete" not in cluster.conditions(cluster.job("job"))
    cluster.after(10)
    found = cluster.job("job")
    assert cluster.conditions(found)["Complete"] == "True"
    assert found["status"]["succeeded"] == (completions or parallelism)
    assert found["status"]["completionTime"] == cluster.store.now()
    assert len(cluster.pods()) == (completions or parallelism)


def test_a_job_fails_beyond_its_backoff_limit(cluster: Cluster) -> None:
    template = pod_template({"stowage.test/run-for": "1s", "stowage.test/exit-code": "3"})
    cluster.post(job(template=template, backoffLimit=1, parallelism=1, completions=1))
    cluster.after(1)
    assert cluster.job("job")["status"]["failed"] == 1
    assert len(cluster.pods()) == 1  # the next one waits for its backoff
    cluster.after(10)
    assert len(cluster.pods()) == 2
    cluster.after(1)
    found = cluster.job("job")
    assert cluster.conditions(found)["Failed"] == "True"
    assert found["status"]["failed"] == 2
    assert found["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"


def test_a_failed_job_ends_its_other_pods_first(cluster: Cluster) -> None:
    workers = Cluster((JobWorker,))
    workers.post(job())
    first, second = workers.pods()
    for item in (first, second):
        workers.store.bind("default", item["metadata"]["name"], "nowhere")
    name = first["metadata"]["name"]
    workers.store.patch(PODS, name, {"status": {"phase": "Failed"}}, "default", subresource="status")
    workers.settle()
    assert workers.conditions(workers.job("job")) == {"FailureTarget": "True"}
    assert "deletionTimestamp" in workers.store.get(PODS, second["metadata"]["name"], "default")["metadata"]


def test_a_deleted_pod_is_replaced(cluster: Cluster) -> None:
    cluster.post(job(backoffLimit=6))
    gone = cluster.pods()[0]["metadata"]["name"]
    cluster.store.delete(PODS, gone, "default")
    cluster.settle()
    cluster.after(10)
    assert len(cluster.pods()) == 2
    assert gone not in [pod["metadata"]["name"] for pod in cluster.pods()]
    assert cluster.job("job")["status"]["failed"] == 1


def test_a_pod_that_lost_its_owner_is_replaced_and_runs_on(cluster: Cluster) -> None:
    """Without the finalizer by which the Job counts its pods."""
    cluster.post(job("train"))
    taken = cluster.pods()[0]["metadata"]
    cluster.store.patch(PODS, taken["name"], {"metadata": {"ownerReferences": None}}, taken["namespace"])
    cluster.settle()
    pods = {pod["metadata"]["name"]: pod["metadata"] for pod in cluster.pods()}
    assert len(pods) == 3
    assert "finalizers" not in pods[taken["name"]]
    assert cluster.job("train")["status"]["active"] == 2


def test_parallelism_can_be_lowered(cluster: Cluster) -> None:
    cluster.post(job(completions=4, parallelism=4))
    cluster.change("Job", "job", {"parallelism": 1})
    assert [pod["metadata"]["labels"][JOB_COMPLETION_INDEX] for pod in cluster.pods()] == ["0"]


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_the_pods_of_a_deleted_job_go(cluster: Cluster, propagation: str) -> None:
    cluster.post(job())
    cluster.store.delete(JOBS, "job", "default", options=DeleteOptions(propagation))
    cluster.settle()
    assert cluster.pods() == []
    assert list(cluster.store.list(JOBS, "default")) == []


def test_a_job_of_another_manager_is_left_alone(cluster: Cluster) -> None:
    cluster.post(job(managedBy="example.com/other"))
    assert cluster.pods() == []
    assert cluster.job("job")["status"] == {}


def test_a_second_step_writes_nothing(cluster: Cluster) -> None:
    cluster.post(job())
    before = cluster.store.resource_version
    fresh = Cluster()
    fresh.store, fresh.workers = cluster.store, type(cluster.workers)(cluster.store)
    fresh.settle()
    assert cluster.store.resource_version == before


@pytest.mark.parametrize(
    ("done", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([2, 0, 1], "0-2"), ([0, 1, 3, 5, 6, 7], "0,1,3,5-7")],
)
def test_completed_indexes_as_the_status_writes_them(done: list[int], text: str) -> None:
    assert indexes.text(done) == text
    assert indexes.parse(text) == set(done)
