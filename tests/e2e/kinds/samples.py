"""A sample of each kind of job that has a real operator here: four pods of a GPU each, all in one rack.

What is said of a kind stands in its Sample and nowhere else; test_kinds.py runs all of them through the same life.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.integrations.paths import with_value
from admission.integrations.registry import BY_FRAMEWORK
from api.kube.resources import JOBSETS, Resource
from api.names import QUEUE_NAME_LABEL, REQUIRE_TOPOLOGY
from tests.scenarios.site import RACK, Site

Object = dict[str, Any]
PODS = 4
OWN: Final = "stowage.test/job"
RUNTIMES: Final = Resource("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime")


@dataclass(frozen=True)
class Sample:
    """One kind. `spec` makes the object's spec of a pod template; `ends` says whether it finishes when its pods do;
    `wrong` is a field with a value that is refused, and `said` words of the refusal; `operator` is a name of
    hack/controlplane/operators, None where the cluster has the controller anyway; `beside` is an object that the job refers to.
    Its pods bear `name_label`: the operator's own, or OWN in its templates."""

    resource: Resource
    suspend: tuple[str, ...]
    spec: Callable[[Object], Object]
    name_label: str
    wrong: tuple[tuple[str | int, ...], Any]
    said: str
    operator: str | None = None
    ends: bool = True
    beside: Callable[[Site, str], tuple[Resource, Object] | None] = lambda here, name: None

    def job(self, here: Site, name: str) -> Object:
        """As a user writes it: with a queue and the rack that all pods need, and not suspended."""
        metadata = {
            "name": name,
            "namespace": here.name,
            "labels": {QUEUE_NAME_LABEL: "lq"},
            "annotations": {REQUIRE_TOPOLOGY: RACK},
        }
        body = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        template = here.template()
        template["metadata"]["labels"] = {OWN: name}
        return {**body, "metadata": metadata, "spec": self.spec(template)}

    def malformed(self, here: Site, name: str) -> Object:
        """The same with the wrong field."""
        malformed: Object = with_value(self.job(here, name), *self.wrong)
        return malformed


def _kubeflow(field: str, leader: str) -> Callable[[Object], Object]:
    def spec(template: Object) -> Object:
        return {
            "runPolicy": {"cleanPodPolicy": "None"},
            field: {leader: {"template": template}, "Worker": {"replicas": PODS - 1, "template": template}},
        }

    return spec


def _jax(template: Object) -> Object:
    return {
        "runPolicy": {"cleanPodPolicy": "None"},
        "jaxReplicaSpecs": {"Worker": {"replicas": PODS, "template": template}},
    }


def _named(template: Object, name: str) -> Object:
    """Kubeflow's operators ask for the name of the main container."""
    container = {**template["spec"]["containers"][0], "name": name}
    return {**template, "spec": {**template["spec"], "containers": [container]}}


def _ray(template: Object) -> Object:
    ray = {**template, "spec": {k: v for k, v in template["spec"].items() if k != "restartPolicy"}}
    group = {"groupName": "small", "replicas": PODS - 1, "minReplicas": PODS - 1, "maxReplicas": PODS - 1}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": ray},
        "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": ray}],
    }


def _ray_job(template: Object) -> Object:
    """With the pod that submits: one worker fewer."""
    cluster = _ray(template)
    cluster["workerGroupSpecs"][0].update(replicas=PODS - 2, minReplicas=PODS - 2, maxReplicas=PODS - 2)
    return {
        "entrypoint": "sleep 1",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {"rayVersion": "2.46.0", **cluster},
        "submitterPodTemplate": template,
    }


def _ray_service(template: Object) -> Object:
    return {
        "serveConfigV2": "applications:\n- name: app\n  import_path: app:main\n",
        "rayClusterConfig": {"rayVersion": "2.46.0", **_ray(template)},
    }


def _train_job(template: Object) -> Object:
    name = template["metadata"]["labels"][OWN]
    return {"runtimeRef": {"kind": RUNTIMES.kind, "name": name}, "trainer": {"numNodes": PODS}}


def _runtime(here: Site, name: str) -> tuple[Resource, Object]:
    template = _named(here.template(), "node")
    template["metadata"]["labels"] = {OWN: name}
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {"name": "node", "template": {"metadata": step, "spec": {"backoffLimit": 0, "template": template}}}
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}}
    return RUNTIMES, {"metadata": {"name": name, "namespace": here.name}, "spec": spec}


def _spark(template: Object) -> Object:
    part = {"cores": 1, "memory": "512m", "labels": template["metadata"]["labels"]}
    return {
        "type": "Scala",
        "mode": "cluster",
        "sparkVersion": "4.0.0",
        "image": "spark",
        "mainClass": "Main",
        "mainApplicationFile": "local:///app.jar",
        "driver": part,
        "executor": {**part, "instances": PODS - 1},
    }


def _jobset(template: Object) -> Object:
    job = {"spec": {"parallelism": PODS, "completions": PODS, "backoffLimit": 0, "template": template}}
    return {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": job}]}


class WrappedJob(Sample):
    """An AppWrapper of one Job, which has its name."""

    def job(self, here: Site, name: str) -> Object:
        made = super().job(here, name)
        made["spec"]["components"][0]["template"]["metadata"]["name"] = name
        return made


def _wrapped(template: Object) -> Object:
    spec = {"parallelism": PODS, "completions": PODS, "backoffLimit": 0, "template": template}
    return {"components": [{"template": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": spec}}]}


def _kubeflow_sample(plural: str, field: str, leader: str, container: str) -> Sample:
    make = _kubeflow(field, leader) if leader else _jax
    return Sample(
        BY_FRAMEWORK[f"kubeflow.org/{plural}"].resource,
        ("spec", "runPolicy", "suspend"),
        lambda template: make(_named(template, container)),
        "training.kubeflow.org/job-name",
        (("spec", field, "Worker", "replicas"), -1),
        f"spec.{field}",
        operator="mpi" if plural == "mpijob" else "training",
    )


SAMPLES: Mapping[str, Sample] = {
    "PyTorchJob": _kubeflow_sample("pytorchjob", "pytorchReplicaSpecs", "Master", "pytorch"),
    "TFJob": _kubeflow_sample("tfjob", "tfReplicaSpecs", "Chief", "tensorflow"),
    "XGBoostJob": _kubeflow_sample("xgboostjob", "xgbReplicaSpecs", "Master", "xgboost"),
    "PaddleJob": _kubeflow_sample("paddlejob", "paddleReplicaSpecs", "Master", "paddle"),
    "JAXJob": _kubeflow_sample("jaxjob", "jaxReplicaSpecs", "", "jax"),
    "MPIJob": _kubeflow_sample("mpijob", "mpiReplicaSpecs", "Launcher", "mpi"),
    "RayCluster": Sample(
        BY_FRAMEWORK["ray.io/raycluster"].resource,
        ("spec", "suspend"),
        _ray,
        "ray.io/cluster",
        (
            ("spec", "workerGroupSpecs"),
            [{"groupName": "small", "replicas": -1, "template": {"spec": {"containers": []}}}],
        ),
        "spec.workerGroupSpecs",
        operator="kuberay",
        ends=False,
    ),
    "RayJob": Sample(
        BY_FRAMEWORK["ray.io/rayjob"].resource,
        ("spec", "suspend"),
        _ray_job,
        OWN,
        (("spec", "shutdownAfterJobFinishes"), False),
        "spec.shutdownAfterJobFinishes",
        operator="kuberay",
    ),
    "RayService": Sample(
        BY_FRAMEWORK["ray.io/rayservice"].resource,
        ("spec", "rayClusterConfig", "suspend"),
        _ray_service,
        OWN,
        (
            ("spec", "rayClusterConfig", "workerGroupSpecs"),
            [{"groupName": "small", "replicas": -1, "template": {"spec": {"containers": []}}}],
        ),
        "workerGroupSpecs",
        operator="kuberay",
        ends=False,
    ),
    "TrainJob": Sample(
        BY_FRAMEWORK["trainer.kubeflow.org/trainjob"].resource,
        ("spec", "suspend"),
        _train_job,
        OWN,
        (("metadata", "annotations"), {REQUIRE_TOPOLOGY: "not a label!"}),
        "require-topology",
        operator="trainer",
        beside=_runtime,
    ),
    "SparkApplication": Sample(
        BY_FRAMEWORK["sparkoperator.k8s.io/sparkapplication"].resource,
        ("spec", "suspend"),
        _spark,
        OWN,
        (("spec", "dynamicAllocation"), {"enabled": True, "minExecutors": 1, "maxExecutors": 3}),
        "spec.dynamicAllocation",
        operator="spark",
    ),
    "AppWrapper": WrappedJob(
        BY_FRAMEWORK["workload.codeflare.dev/appwrapper"].resource,
        ("spec", "suspend"),
        _wrapped,
        "workload.codeflare.dev/appwrapper",
        (("spec", "components", 0, "podSets"), [{"path": "template.spec.nowhere"}]),
        "spec.components[0]",
        operator="appwrapper",
    ),
    "JobSet": Sample(
        JOBSETS,
        ("spec", "suspend"),
        _jobset,
        "jobset.sigs.k8s.io/jobset-name",
        (("metadata", "annotations"), {REQUIRE_TOPOLOGY: "not a label!"}),
        "require-topology",
    ),
}
