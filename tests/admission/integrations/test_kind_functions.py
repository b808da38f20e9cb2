"""TrainJob, AppWrapper, SparkApplication and RayJob: what their pods are, and what a start and a stop write."""

from __future__ import annotations

from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.declared.functions.trainjob import CLUSTER_RUNTIMES
from admission.integrations.declared.referenced import REFERENCED, MissingReference
from admission.integrations.job import BatchJob
from admission.integrations.podset import PodSetInfo
from admission.integrations.registry import BY_FRAMEWORK
from api.errors import InvalidObject
from api.pod.pod_requests import effective_requests
from api.pod.pods import pod_spec
from tests.admission.integrations.samples import merged, sample, template

Object = dict[str, Any]
MIB = 1 << 20


def kind(name: str) -> DeclaredJob:
    found = BY_FRAMEWORK[name]
    assert isinstance(found, DeclaredJob)
    return found


RUNS_ON = {"conditions": [{"type": "Succeeded", "status": "True"}], "replicaStatuses": {"Worker": {"active": 3}}}
RAY_ENDED = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}


@pytest.mark.parametrize(
    ("framework", "runs", "over"),
    [
        pytest.param(
            f"kubeflow.org/{name}", RUNS_ON, {**RUNS_ON, "replicaStatuses": {"Worker": {"succeeded": 3}}}, id=name
        )
        for name in ("mpijob", "pytorchjob", "tfjob", "paddlejob", "xgboostjob", "jaxjob")
    ]
    + [
        pytest.param(
            "ray.io/rayjob",
            {**RAY_ENDED, "rayClusterStatus": {"state": "ready"}},
            # KubeRay does not clear the last state of a cluster that it has deleted.
            {**RAY_ENDED, "rayClusterStatus": {"state": "ready"}, "rayClusterName": "gone"},
            id="rayjob",
        ),
        pytest.param(
            "trainer.kubeflow.org/trainjob",
            {"conditions": [{"type": "Complete", "status": "True"}], "jobsStatus": [{"name": "node", "active": 1}]},
            {"conditions": [{"type": "Complete", "status": "True"}], "jobsStatus": [{"name": "node", "active": 0}]},
            id="trainjob",
        ),
    ],
)
def test_finished_means_that_no_pod_is_active(framework: str, runs: Object, over: Object) -> None:
    """With `cleanPodPolicy: None` or a TTL, pods run on after the end: their quota is kept until they have ended."""
    end = kind(framework).finished({"status": over})
    assert kind(framework).finished({"status": runs}) is None
    assert end is not None
    assert end.success


RAY_JOB, TRAIN_JOB = kind("ray.io/rayjob"), kind("trainer.kubeflow.org/trainjob")
WRAPPER, SPARK = kind("workload.codeflare.dev/appwrapper"), kind("sparkoperator.k8s.io/sparkapplication")


def started(of: DeclaredJob, job: Object) -> Object:
    infos = [
        PodSetInfo(one.name, one.count, labels={"kueue.x-k8s.io/podset": one.name}, node_selector={"pool": one.name})
        for one in of.pod_sets(job)
    ]
    found: Object = merged(job, of.start(job, infos))
    return found


def spark(**spec: Any) -> Object:
    job = sample(SPARK)
    job["spec"] = {**job["spec"], **spec}
    return job


@pytest.mark.parametrize(
    ("spec", "role", "memory"),
    [
        pytest.param({}, "driver", (1024 + 384) * MIB, id="the least overhead"),
        pytest.param({"executor": {"memory": "10g"}}, "executor", (10240 + 1024) * MIB, id="a tenth"),
        pytest.param(
            {"type": "Python", "executor": {"memory": "10g"}}, "executor", (10240 + 4096) * MIB, id="python's factor"
        ),
        pytest.param({"executor": {"memory": "1g", "memoryOverhead": "600"}}, "executor", 1624 * MIB, id="in MiB"),
        pytest.param(
            {"executor": {"memory": "10g"}, "memoryOverheadFactor": "0.5"}, "executor", 15360 * MIB, id="a factor"
        ),
        pytest.param(
            {"sparkConf": {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1g"}},
            "executor",
            (1024 + 384 + 1024) * MIB,
            id="beside the heap",
        ),
    ],
)
def test_spark_pods_ask_for_what_spark_asks_for(spec: Object, role: str, memory: int) -> None:
    (found,) = (one for one in SPARK.pod_sets(spark(**spec)) if one.name == role)
    assert effective_requests(pod_spec(found.template))["memory"] == memory


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"driver": {"memory": "much"}}, "spec.driver.memory: 'much': must be an amount", id="memory"),
        pytest.param({"driver": 7}, "spec.driver: 7: must be an object", id="driver"),
        pytest.param({"executor": {"instances": -1}}, "spec.executor.instances: -1: must be a whole", id="instances"),
        pytest.param(
            {"sparkConf": {"spark.dynamicAllocation.enabled": "true"}},
            "spec.sparkConf[spark.dynamicAllocation.enabled]: 'true': must be false",
            id="dynamic allocation",
        ),
        pytest.param(
            {"executor": {}, "sparkConf": {"spark.executor.instances": "many"}},
            "spec.sparkConf[spark.executor.instances]: 'many': must be a whole",
            id="instances in sparkConf",
        ),
        pytest.param(
            {"sparkConf": {"spark.driver.resource.gpu.amount": "1"}},
            "spec.sparkConf[spark.driver.resource.gpu.vendor]: None: must be set beside",
            id="a device without vendor",
        ),
        pytest.param({"memoryOverheadFactor": "x"}, "spec.memoryOverheadFactor: 'x': must be a number", id="factor"),
    ],
)
def test_a_spark_application_that_cannot_be_read_names_the_field(spec: Object, message: str) -> None:
    with pytest.raises(InvalidObject, match=r".*") as error:
        SPARK.pod_sets(spark(**spec))
    assert message in str(error.value)


def test_the_node_selector_of_a_whole_application_moves_into_its_roles() -> None:
    """The operator refuses one beside those of a role."""
    job = spark(nodeSelector={"disk": "ssd"}, driver={}, executor={})
    running = started(SPARK, job)
    assert "nodeSelector" not in running["spec"]
    assert running["spec"]["driver"]["nodeSelector"] == {"disk": "ssd", "pool": "driver"}
    assert running["spec"]["executor"]["nodeSelector"] == {"disk": "ssd", "pool": "executor"}


def test_a_train_job_waits_for_its_runtime() -> None:
    job = sample(TRAIN_JOB)
    REFERENCED.keep(CLUSTER_RUNTIMES, {})
    with pytest.raises(MissingReference, match="must be a ClusterTrainingRuntime that exists"):
        TRAIN_JOB.pod_sets(job)
    job["spec"]["runtimeRef"] = {"name": "torch", "kind": "Secret"}
    with pytest.raises(InvalidObject, match="must name a TrainingRuntime or ClusterTrainingRuntime"):
        TRAIN_JOB.pod_sets(job)


@pytest.mark.parametrize(
    ("as_node", "nodes", "counts"),
    [
        pytest.param(True, 4, {"node": 3, "launcher": 1}, id="the launcher is a node"),
        pytest.param(False, 4, {"node": 4, "launcher": 1}, id="it is none"),
        pytest.param(True, None, {"node": 1, "launcher": 1}, id="the runtime's own number"),
    ],
)
def test_a_train_job_of_mpi_has_its_launcher_beside_the_nodes(
    as_node: bool, nodes: int | None, counts: dict[str, int]
) -> None:
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    jobs = [
        {"name": "node", "template": {"spec": {"template": template()}}},
        {"name": "launcher", "template": {"metadata": {"labels": step}, "spec": {"template": template()}}},
    ]
    policy = {"numNodes": 1, "mpi": {"runLauncherAsNode": as_node}}
    job = sample(TRAIN_JOB)
    runtime = {"spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}}
    REFERENCED.keep(CLUSTER_RUNTIMES, {"torch": runtime})
    job["spec"]["trainer"] = {"numNodes": nodes} if nodes else {}
    assert {one.name: one.count for one in TRAIN_JOB.pod_sets(job)} == counts


CONF_CASES: list[Any] = [
    pytest.param({"sparkConf": {"spark.executor.instances": "10"}}, 10, id="instances"),
    pytest.param(
        {"executor": {"instances": 3}, "sparkConf": {"spark.executor.instances": "9"}}, 3, id="the field wins"
    ),
    pytest.param(
        {"sparkConf": {"spark.kubernetes.driver.master": "local[4]"}, "executor": {"instances": 2}}, 0, id="local"
    ),
    pytest.param({"driver": {"kubernetesMaster": "local"}, "executor": {"instances": 2}}, 0, id="local by its field"),
    pytest.param({}, 2, id="the default of Spark"),
]


@pytest.mark.parametrize(("spec", "executors"), CONF_CASES)
def test_executors_of_spark_are_counted_where_spark_conf_says_how_many(spec: Object, executors: int) -> None:
    job = spark(**{"executor": {}, "driver": {}, **spec})
    assert {one.name: one.count for one in SPARK.pod_sets(job)} == {"driver": 1, "executor": executors}
    states = {f"exec-{number}": "RUNNING" for number in range(executors)}
    job["status"] = {"applicationState": {"state": "RUNNING"}, "executorState": states}
    assert SPARK.pods_ready(job)
    if executors:
        job["status"]["executorState"].popitem()
        assert not SPARK.pods_ready(job)


def test_spark_conf_gives_pods_devices_cores_selectors_and_labels() -> None:
    conf = {
        "spark.executor.resource.gpu.amount": "2",
        "spark.executor.resource.gpu.vendor": "nvidia.com",
        "spark.executor.resource.gpu.discoveryScript": "/opt/gpus.sh",
        "spark.kubernetes.executor.request.cores": "500m",
        "spark.kubernetes.node.selector.zone": "b",
        "spark.kubernetes.executor.node.selector.disk": "ssd",
        "spark.kubernetes.executor.annotation.kueue.x-k8s.io/podset-required-topology": "rack",
    }
    job = spark(sparkConf=conf, driver={"cores": 1}, executor={"cores": 4, "instances": 1})
    driver, executor = SPARK.pod_sets(job)
    requests = effective_requests(pod_spec(executor.template))
    assert (requests["cpu"], requests["nvidia.com/gpu"]) == (500, 2)
    assert executor.template["spec"]["nodeSelector"] == {"zone": "b", "disk": "ssd"}
    assert driver.template["spec"]["nodeSelector"] == {"zone": "b"}
    assert "nvidia.com/gpu" not in effective_requests(pod_spec(driver.template))
    assert executor.topology_request is not None
    assert executor.topology_request.required == "rack"
    running = started(SPARK, job)
    assert running["spec"]["executor"]["nodeSelector"] == {"pool": "executor"}
    held: Object = merged(running, {"spec": {"suspend": True}})
    assert merged(held, SPARK.stop(held, (driver, executor)))["spec"] == {**job["spec"], "suspend": True}


@pytest.mark.parametrize(
    ("state", "active", "final"),
    [
        ("RUNNING", True, False),
        ("FAILING", True, False),
        ("PENDING_RERUN", True, False),
        ("INVALIDATING", True, False),
        ("SUBMISSION_FAILED", True, False),
        ("SUCCEEDING", True, False),
        ("UNKNOWN", True, False),
        ("SUSPENDED", False, False),
        ("FAILED", False, True),
        ("COMPLETED", False, True),
    ],
)
def test_only_failed_and_completed_are_final_states_of_spark(state: str, active: bool, final: bool) -> None:
    job = spark()
    job["status"] = {"applicationState": {"state": state}, "executorState": {}}
    assert (SPARK.is_active(job), SPARK.finished(job) is not None) == (active, final)


def test_a_start_of_a_train_job_keeps_the_tolerations_that_its_pods_have() -> None:
    """Trainer merges the patch strategically: a list of tolerations replaces the one below it."""
    job = sample(TRAIN_JOB)
    [patch] = job["spec"]["runtimePatches"]
    team = {"key": "team", "operator": "Exists"}
    patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"] = [
        {"name": "node", "template": {"spec": {"template": {"spec": {"tolerations": [team]}}}}}
    ]
    infos = [PodSetInfo(one.name, one.count, tolerations=({"key": "pool"},)) for one in TRAIN_JOB.pod_sets(job)]
    running: Object = merged(job, TRAIN_JOB.start(job, infos))
    _, ours = running["spec"]["runtimePatches"]
    keys = {
        one["name"]: [each["key"] for each in one["template"]["spec"]["template"]["spec"]["tolerations"]]
        for one in ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    }
    assert keys == {"dataset-initializer": ["gpu", "pool"], "node": ["team", "pool"]}
    again: Object = merged(running, TRAIN_JOB.start(running, infos))
    assert again["spec"]["runtimePatches"] == running["spec"]["runtimePatches"], "a start may be written twice"


def test_a_start_of_a_train_job_leaves_the_patches_of_others() -> None:
    job = sample(TRAIN_JOB)
    other = {"manager": "example.com/other", "trainingRuntimeSpec": {}}
    job["spec"]["runtimePatches"] = [other]
    running = started(TRAIN_JOB, job)
    theirs, ours = running["spec"]["runtimePatches"]
    assert theirs == other
    assert ours["manager"] == "kueue.x-k8s.io/manager"
    patched = ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert {one["name"]: one["template"]["spec"]["template"]["spec"]["nodeSelector"]["pool"] for one in patched} == {
        "dataset-initializer": "dataset-initializer",
        "node": "node",
    }


@pytest.mark.parametrize(
    ("pod_sets", "message"),
    [
        pytest.param([{"path": "spec.template"}], "must be a path that begins with `template`", id="another root"),
        pytest.param([{"path": "template.spec.nowhere"}], "must be a pod template", id="into nothing"),
        pytest.param([{"path": "template.spec.template", "replicas": -1}], "must be a whole number", id="replicas"),
        pytest.param([{"path": "template" + ".a" * 300}], "must be a path", id="endless"),
    ],
)
def test_a_wrapper_whose_pods_are_not_there_is_refused(pod_sets: list[Object], message: str) -> None:
    job = sample(WRAPPER)
    job["spec"]["components"] = [{**job["spec"]["components"][0], "podSets": pod_sets}]
    with pytest.raises(InvalidObject, match=message):
        WRAPPER.pod_sets(job)


@pytest.mark.parametrize("inner", ["RayCluster", "RayJob"])
@pytest.mark.parametrize(
    ("group", "count"),
    [
        pytest.param({"replicas": 3}, 3, id="replicas"),
        pytest.param({"replicas": 3, "numOfHosts": 2}, 6, id="several hosts"),
        pytest.param({"replicas": 3, "suspend": True}, 0, id="suspended"),
    ],
)
def test_a_wrapped_ray_cluster_counts_the_workers_that_kuberay_creates(inner: str, group: Object, count: int) -> None:
    cluster = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [{"template": template(), **group}]}
    spec = cluster if inner == "RayCluster" else {"rayClusterSpec": cluster}
    job = sample(WRAPPER)
    job["spec"]["components"] = [{"template": {"apiVersion": "ray.io/v1", "kind": inner, "spec": spec}}]
    assert [each.count for each in WRAPPER.pod_sets(job)] == [1, count]


@pytest.mark.parametrize("deployed", [False, True])
@pytest.mark.parametrize(("phase", "ends"), [("Succeeded", (True, True)), ("Failed", (False, True)), ("Running", ())])
def test_a_wrapper_that_has_succeeded_is_over_while_what_it_wraps_is_kept(
    deployed: bool, phase: str, ends: tuple[bool, ...]
) -> None:
    """It keeps that for a week; of one that failed, pods may still run until then."""
    condition = {"type": "ResourcesDeployed", "status": "True" if deployed else "False"}
    job = {**sample(WRAPPER), "status": {"phase": phase, "conditions": [condition]}}
    end = WRAPPER.finished(job)
    assert (() if end is None else (end.success, True)) == (() if deployed and phase == "Failed" else ends)


def test_a_wrapped_job_is_a_part_only_with_the_pods_that_the_wrapper_says() -> None:
    running = started(WRAPPER, sample(WRAPPER))
    inner = sample(WRAPPER)["spec"]["components"][0]["template"]
    job = {**inner, "metadata": {"name": "inner"}}
    batch = BatchJob()
    assert WRAPPER.child_fault(batch.resource, batch.pod_sets(job), running) == ""
    job["spec"]["parallelism"] = job["spec"]["completions"] = 50
    assert "has at most 3 pods in one pod set, not 50" in WRAPPER.child_fault(
        batch.resource, batch.pod_sets(job), running
    )


def test_the_submitter_of_a_ray_job_counts_also_where_none_is_written() -> None:
    job = sample(RAY_JOB)
    del job["spec"]["submitterPodTemplate"]
    found = {one.name: one for one in RAY_JOB.pod_sets(job)}
    requests = effective_requests(pod_spec(found["submitter"].template))
    assert (requests["cpu"], requests["memory"]) == (500, 200 * MIB)
    running = started(RAY_JOB, job)
    written = running["spec"]["submitterPodTemplate"]["spec"]
    assert written["nodeSelector"] == {"pool": "submitter"}
    assert written["containers"][0]["image"] == "x", "the head's"
    running["spec"]["suspend"] = True
    assert merged(running, RAY_JOB.stop(running, RAY_JOB.pod_sets(job)))["spec"] == job["spec"]


@pytest.mark.parametrize(
    ("mode", "names", "cpu"),
    [
        pytest.param("K8sJobMode", ["head", "small", "large", "submitter"], 1000, id="a Job of its own"),
        pytest.param("SidecarMode", ["head", "small", "large"], 1500, id="beside the head"),
        pytest.param("HTTPMode", ["head", "small", "large"], 1000, id="by HTTP"),
    ],
)
def test_a_ray_job_submits_as_its_mode_says(mode: str, names: list[str], cpu: int) -> None:
    job = sample(RAY_JOB)
    job["spec"]["submissionMode"] = mode
    found = RAY_JOB.pod_sets(job)
    assert [one.name for one in found] == names
    assert effective_requests(pod_spec(found[0].template))["cpu"] == cpu


def test_a_ray_job_on_a_cluster_of_others_is_not_managed_and_an_invalid_one_is_on_hold() -> None:
    job = sample(RAY_JOB)
    assert not RAY_JOB.is_skipped(job)
    assert not RAY_JOB.is_on_hold(job)
    job["status"] = {"jobDeploymentStatus": "ValidationFailed"}
    assert RAY_JOB.is_on_hold(job)
    assert not RAY_JOB.is_active(job)
    job["spec"]["clusterSelector"] = {"ray.io/cluster": "shared"}
    assert RAY_JOB.is_skipped(job)
