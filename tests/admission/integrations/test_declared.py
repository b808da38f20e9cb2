"""What a declared kind of job reads of its objects, and what it says of those that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.registry import BY_FRAMEWORK
from api.errors import InvalidObject
from tests.admission.integrations.samples import declared, sample, suspended

KIND = BY_FRAMEWORK["kubeflow.org/pytorchjob"]
assert isinstance(KIND, DeclaredJob)
Object = dict[str, Any]


def job(**status: Any) -> Object:
    assert isinstance(KIND, DeclaredJob)
    return {**declared(KIND), "status": status}


def conditions(**message: str) -> Object:
    return {"conditions": [{"type": kind, "status": status, "message": "so it is"} for kind, status in message.items()]}


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        pytest.param(None, "spec.pytorchReplicaSpecs: None: must have at least one of Master, Worker", id="missing"),
        pytest.param([], r"spec.pytorchReplicaSpecs: \[\]: must have at least one of", id="no map"),
        pytest.param({"Chief": {}}, "spec.pytorchReplicaSpecs: 'Chief': must be one of Master, Worker", id="role"),
        pytest.param({"Worker": None}, "spec.pytorchReplicaSpecs.Worker: None: must be an object", id="null"),
        pytest.param({"Worker": {"template": "x"}}, "pytorchReplicaSpecs.Worker.template: .*: must be", id="text"),
        pytest.param({"Worker": {"template": {}, "replicas": True}}, "Worker.replicas: True: must be a", id="boolean"),
        pytest.param({"Worker": {"template": {}, "replicas": 2**31}}, "Worker.replicas: 2147483648", id="too many"),
    ],
)
def test_what_cannot_be_read_is_named(replicas: Any, message: str) -> None:
    bad = job()
    bad["spec"]["pytorchReplicaSpecs"] = replicas
    with pytest.raises(InvalidObject, match=message):
        KIND.pod_sets(bad)


@pytest.mark.parametrize(
    ("status", "active"),
    [
        pytest.param({}, False, id="never started"),
        pytest.param({"replicaStatuses": {"Worker": {"active": 1}}}, True, id="a pod is active"),
        pytest.param({"replicaStatuses": {"Worker": {"active": 0}, "Master": {}}}, False, id="none is"),
        pytest.param(conditions(Running="True"), True, id="it runs"),
        pytest.param(conditions(Running="False", Suspended="True"), False, id="it was suspended"),
        pytest.param({"replicaStatuses": "many"}, False, id="no map"),
    ],
)
def test_it_is_active_while_pods_of_it_may_be(status: Object, active: bool) -> None:
    assert KIND.is_active(job(**status)) is active


@pytest.mark.parametrize(
    ("status", "active"),
    [
        pytest.param({}, False, id="never started"),
        pytest.param(conditions(RayClusterSuspended="False"), True, id="its pods start"),
        pytest.param({"state": "suspended", **conditions(RayClusterSuspended="False")}, True, id="started anew"),
        pytest.param({"state": "ready", **conditions(RayClusterSuspended="False")}, True, id="its pods run or go"),
        pytest.param({"state": "suspended", **conditions(RayClusterSuspended="True")}, False, id="its pods are gone"),
        pytest.param({"state": "ready"}, True, id="no conditions: it runs"),
        pytest.param({"state": "suspended"}, False, id="no conditions: it was suspended"),
    ],
)
def test_a_ray_cluster_is_active_until_its_last_pod_is_gone(status: Object, active: bool) -> None:
    """KubeRay says `ready` only once all pods are."""
    assert BY_FRAMEWORK["ray.io/raycluster"].is_active({"status": status}) is active


def of_service(part: str, **cluster: Any) -> Object:
    return {f"{part}ServiceStatus": {"rayClusterName": "c", "rayClusterStatus": cluster}}


@pytest.mark.parametrize(
    ("status", "active"),
    [
        pytest.param({}, False, id="never started"),
        pytest.param(conditions(Ready="True"), True, id="it serves"),
        pytest.param(conditions(Ready="False"), False, id="it does not serve, and nothing is said of a cluster"),
        pytest.param(of_service("pending", **conditions(RayClusterSuspended="False")), True, id="its first pods start"),
        pytest.param(
            {**conditions(Ready="False"), **of_service("active", **conditions(RayClusterSuspended="False"))},
            True,
            id="its pods are going",
        ),
        pytest.param(
            {
                **of_service("active", **conditions(RayClusterSuspended="True")),
                **of_service("pending", **conditions(RayClusterSuspended="False")),
            },
            True,
            id="those of the next cluster stand",
        ),
        pytest.param(of_service("active", **conditions(RayClusterSuspended="True")), False, id="its pods are gone"),
        pytest.param(of_service("active", state="ready"), True, id="no conditions: it runs"),
        pytest.param(of_service("active", state="suspended"), False, id="no conditions: it was suspended"),
        pytest.param({"activeServiceStatus": "broken", "pendingServiceStatus": 3}, False, id="no status at all"),
    ],
)
def test_a_ray_service_is_active_while_pods_of_one_of_its_clusters_stand(status: Object, active: bool) -> None:
    """So it is without parts, also in a process whose controller knows parts of other jobs."""
    assert BY_FRAMEWORK["ray.io/rayservice"].is_active({"status": status}) is active


@pytest.mark.parametrize(
    ("status", "success"),
    [
        pytest.param(conditions(Succeeded="True"), True, id="ok"),
        pytest.param(conditions(Failed="True"), False, id="failed"),
    ],
)
def test_it_ends_as_its_conditions_say(status: Object, success: bool) -> None:
    found = KIND.finished(job(**status))
    assert found is not None
    assert (found.message, found.success) == ("so it is", success)


def test_the_priority_class_is_its_own_else_that_of_the_first_role_that_names_one() -> None:
    assert isinstance(KIND, DeclaredJob)
    one = job()
    assert KIND.priority_class(one) is None
    one["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = "low"
    assert KIND.priority_class(one) == "low"
    one["spec"]["runPolicy"]["schedulingPolicy"] = {"priorityClass": "high"}
    assert KIND.priority_class(one) == "high"


def test_templates_stay_until_no_pod_is_active() -> None:
    before = KIND.pod_sets(job())
    assert KIND.stop(job(replicaStatuses={"Worker": {"active": 1}}), before) is None
    running = suspended(KIND, job(**conditions(Running="True")), value=False)
    assert KIND.stop(running, before) == {
        "metadata": {"resourceVersion": "9"},
        "spec": {"runPolicy": {"suspend": True}},
    }


@pytest.mark.parametrize(
    ("labels", "cpu", "suspend", "message"),
    [
        pytest.param({"training.kubeflow.org/job-name": "d"}, "1", False, "", id="its own"),
        pytest.param({}, "1", False, "has only pods with the label training.kubeflow.org/job-name: d", id="no label"),
        pytest.param({"training.kubeflow.org/job-name": "d"}, "9", False, "asks for 1 of cpu", id="more"),
        pytest.param(
            {"training.kubeflow.org/job-name": "d"}, "1", True, "is suspended and has no pods", id="suspended"
        ),
    ],
)
def test_a_pod_is_its_own_only_as_its_controller_makes_it(
    labels: Object, cpu: str, suspend: bool, message: str
) -> None:
    assert isinstance(KIND, DeclaredJob)
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    pod = {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [container]}}
    assert KIND.pod_fault(pod, suspended(KIND, job(), value=suspend)).startswith(message)
    assert bool(KIND.pod_fault(pod, suspended(KIND, job(), value=suspend))) is bool(message)


WAITS = {"name": "init-pytorch", "image": "x", "resources": {"requests": {"cpu": "50m", "memory": "10Mi"}}}
GREEDY = {"name": "init", "image": "x", "resources": {"requests": {"cpu": "8"}}}


@pytest.mark.parametrize(
    ("requests", "added", "message"),
    [
        pytest.param({"nvidia.com/gpu": "1"}, WAITS, "", id="gpu alone"),
        pytest.param({"cpu": "1"}, WAITS, "", id="cpu alone"),
        pytest.param({"cpu": "10m", "memory": "1Mi"}, WAITS, "", id="less than the container asks for"),
        pytest.param({}, WAITS, "", id="nothing"),
        pytest.param({"cpu": "1"}, GREEDY, "asks for 1 of cpu", id="a greedy one"),
    ],
)
def test_a_worker_may_wait_for_its_master_in_a_container_of_the_operator(
    requests: Object, added: Object, message: str
) -> None:
    assert isinstance(KIND, DeclaredJob)
    one = suspended(KIND, job(), value=False)
    for part in one["spec"]["pytorchReplicaSpecs"].values():
        part["template"]["spec"]["containers"] = [{"name": "c", "image": "x", "resources": {"requests": requests}}]
    spec = {**one["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"], "initContainers": [added]}
    pod = {"metadata": {"name": "p", "labels": {"training.kubeflow.org/job-name": "d"}}, "spec": spec}
    assert KIND.pod_fault(pod, one).startswith(message)
    assert bool(KIND.pod_fault(pod, one)) is bool(message)


@pytest.mark.parametrize("framework", ["ray.io/raycluster", "ray.io/rayjob", "ray.io/rayservice"])
def test_a_suspended_group_of_ray_workers_has_no_pods(framework: str) -> None:
    of = BY_FRAMEWORK[framework]
    assert isinstance(of, DeclaredJob)
    made = sample(of)
    groups: list[Object] = (made["spec"].get("rayClusterSpec") or made["spec"].get("rayClusterConfig") or made["spec"])[
        "workerGroupSpecs"
    ]
    groups[0] |= {"suspend": True, "minReplicas": 1}
    counts = {one.name: one.count for one in of.pod_sets(made)}
    assert counts[groups[0]["groupName"]] == 0
    assert counts["head"] == 1
