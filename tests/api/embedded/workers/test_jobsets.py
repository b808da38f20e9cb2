"""The JobSet controller's stand-in: children, suspend and resume with merging, restarts, ends."""

from __future__ import annotations

from copy import deepcopy

import pytest

from api.kube.resources import JOBS
from api.names import JOBSET_JOB_INDEX, TOPOLOGY_GATE
from tests.api.embedded.workers.cluster import Cluster, Obj, jobset, pod_template

KEY = "jobset.sigs.k8s.io"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.node("a", cpu="16")
    return made


def children(cluster: Cluster) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.store.list(JOBS, "default")]


def test_a_jobset_becomes_jobs_and_pods(cluster: Cluster) -> None:
    cluster.post(jobset())
    assert children(cluster) == ["set-driver-0", "set-workers-0", "set-workers-1"]
    last = cluster.job("set-workers-1")
    for labels in (last["metadata"]["labels"], last["spec"]["template"]["metadata"]["labels"]):
        assert labels[f"{KEY}/jobset-name"] == "set"
        assert labels[f"{KEY}/replicatedjob-name"] == "workers"
        assert labels[f"{KEY}/replicatedjob-replicas"] == "2"
        assert labels[JOBSET_JOB_INDEX] == "1"
        assert labels[f"{KEY}/job-global-index"] == "2"
    assert cluster.phases() == ["Running"] * 3
    counts = {item["name"]: item["ready"] for item in cluster.jobset("set")["status"]["replicatedJobsStatus"]}
    assert counts == {"driver": 1, "workers": 2}


def test_a_suspended_jobset_has_suspended_jobs_only(cluster: Cluster) -> None:
    cluster.post(jobset(suspend=True))
    assert [cluster.job(name)["spec"]["suspend"] for name in children(cluster)] == [True] * 3
    assert cluster.pods() == []
    assert cluster.conditions(cluster.jobset("set")) == {"Suspended": "True"}


def test_a_resume_merges_and_takes_nothing_out(cluster: Cluster) -> None:
    gated = pod_template(schedulingGates=[{"name": TOPOLOGY_GATE}], nodeSelector={"old": "x", "both": "x"})
    cluster.post(jobset(template=gated, suspend=True))
    replicated = [dict(item) for item in cluster.jobset("set")["spec"]["replicatedJobs"]]
    changed = [_with_template(item, {"new": "y", "both": "y"}) for item in replicated]
    cluster.change("JobSet", "set", {"suspend": False, "replicatedJobs": changed})
    spec = cluster.job("set-driver-0")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"old": "x", "both": "y", "new": "y"}
    assert spec["schedulingGates"] == [{"name": TOPOLOGY_GATE}]
    assert cluster.job("set-driver-0")["spec"]["template"]["metadata"]["labels"]["mark"] == "given"
    assert len(cluster.pods()) == 3
    assert cluster.conditions(cluster.jobset("set")) == {"Suspended": "False"}


def _with_template(replicated: Obj, selector: dict[str, str]) -> Obj:
    changed = deepcopy(replicated)
    template = changed["template"]["spec"]["template"]
    template["spec"].pop("schedulingGates", None)
    template["spec"]["nodeSelector"] = selector
    template["metadata"]["labels"] = {"mark": "given"}
    return changed


def test_suspending_reaches_the_pods(cluster: Cluster) -> None:
    cluster.post(jobset())
    cluster.change("JobSet", "set", {"suspend": True})
    assert cluster.pods() == []
    assert cluster.conditions(cluster.jobset("set")) == {"Suspended": "True"}
    assert not any(item["active"] for item in cluster.jobset("set")["status"]["replicatedJobsStatus"])
    cluster.change("JobSet", "set", {"suspend": False})
    assert cluster.phases() == ["Running"] * 3
    assert cluster.conditions(cluster.jobset("set")) == {"Suspended": "False"}


def test_a_jobset_completes_when_all_its_jobs_have(cluster: Cluster) -> None:
    cluster.post(jobset(template=pod_template({"stowage.test/run-for": "3s"})))
    cluster.after(3)
    found = cluster.jobset("set")
    assert cluster.conditions(found)["Completed"] == "True"
    assert found["status"]["terminalState"] == "Completed"


@pytest.mark.parametrize(("restarts", "reason"), [(0, "FailedJobs"), (1, "ReachedMaxRestarts")])
def test_a_jobset_fails_after_its_restarts(cluster: Cluster, restarts: int, reason: str) -> None:
    failing = pod_template({"stowage.test/run-for": "3s", "stowage.test/exit-code": "1"})
    given = jobset(template=failing)
    if restarts:
        given["spec"]["failurePolicy"] = {"maxRestarts": restarts}
    for replicated in given["spec"]["replicatedJobs"]:
        replicated["template"]["spec"]["backoffLimit"] = 0
    cluster.post(given)
    for attempt in range(restarts + 1):
        assert len(cluster.pods(f"{KEY}/restart-attempt={attempt}")) == 3
        cluster.after(3)
    found = cluster.jobset("set")
    assert cluster.conditions(found)["Failed"] == "True"
    assert found["status"]["conditions"][-1]["reason"] == reason
    assert found["status"]["restarts"] == restarts
