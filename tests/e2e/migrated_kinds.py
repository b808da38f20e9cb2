"""The kinds that a migration takes over: what a user creates, and how one loses a pod, is scaled, and is rolled over.

Each object has two pods, with the label `app` of its name; each kind has its own queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from api.names import GROUP, POD_GROUP_NAME, POD_GROUP_TOTAL_COUNT, QUEUE_NAME_LABEL
from hack.controlplane.api import Api
from tests.builders import pod_template

Obj = dict[str, Any]
NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ROLLED = {"metadata": {"annotations": {"rolled": "yes"}}}


@dataclass(frozen=True)
class Kind:
    """`kinds` is the collection's name in the API, `made` the objects of a name whose pods each request `cpu`.

    `scaled` patches the number of pods, `rolled` the pod template; empty where the kind allows neither.
    """

    name: str
    version: str
    kinds: str
    made: Callable[[str, str], list[Obj]]
    title: str
    scaled: Callable[[Api, str, int], object] | None = None
    runs_of_four: int = 0
    rolled: Callable[[Api, str], object] | None = None

    @property
    def path(self) -> str:
        root = "/api" if self.version == "v1" else "/apis"
        return f"{root}/{self.version}/namespaces/{NAMESPACE}/{self.kinds}"

    @property
    def is_replaced(self) -> bool:
        """Whether a controller makes a lost pod anew; else its user does."""
        return self.kinds != "pods"

    def create(self, api: Api, name: str, cpu: str = "1") -> None:
        for obj in self.made(name, cpu):
            api.create(self.path, obj)

    def replace(self, api: Api, name: str, pod: str) -> None:
        """Creates another pod in place of a lost one where no controller does."""
        if not self.is_replaced:
            self.add(api, name, f"{pod}-again")

    def add(self, api: Api, name: str, pod: str) -> None:
        """Creates one more pod of plain pods or a group."""
        first = self.made(name, "1")[0]
        api.create(PODS, {**first, "metadata": {**first["metadata"], "name": pod}})


def _template(name: str, cpu: str, *, restart: str) -> Obj:
    template = pod_template(cpu)
    template["metadata"] = {"labels": {"app": name}}
    template["spec"] |= {"restartPolicy": restart, "terminationGracePeriodSeconds": 1}
    return template


def _queued(version: str, kind: str, name: str, spec: Obj) -> list[Obj]:
    labels = {QUEUE_NAME_LABEL: name.partition("-")[0]}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return [{"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}]


def _job(name: str, cpu: str) -> list[Obj]:
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    return _queued("batch/v1", "Job", name, {**spec, "template": _template(name, cpu, restart="Never")})


def _jobset(name: str, cpu: str) -> list[Obj]:
    template = {"spec": {"parallelism": 1, "completions": 1, "template": _template(name, cpu, restart="Never")}}
    spec = {"replicatedJobs": [{"name": "main", "replicas": 2, "template": template}]}
    return _queued("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec)


def _pods(name: str, cpu: str) -> list[Obj]:
    return [_pod(name, f"{name}-{number}", cpu, {}, {}) for number in range(2)]


def _group(name: str, cpu: str) -> list[Obj]:
    labels, annotations = {POD_GROUP_NAME: name}, {POD_GROUP_TOTAL_COUNT: "2"}
    return [_pod(name, f"{name}-{number}", cpu, labels, annotations) for number in range(2)]


def _pod(name: str, pod: str, cpu: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Obj:
    (queued,) = _queued("v1", "Pod", name, _template(name, cpu, restart="Never")["spec"])
    queued["metadata"]["labels"] |= {"app": name, **labels}
    queued["metadata"] |= {"name": pod, "annotations": dict(annotations)}
    return queued


def _deployment(name: str, cpu: str) -> list[Obj]:
    spec = {"selector": {"matchLabels": {"app": name}}, "template": _template(name, cpu, restart="Always")}
    return _queued("apps/v1", "Deployment", name, {"replicas": 2, **spec})


def _statefulset(name: str, cpu: str) -> list[Obj]:
    spec = {"selector": {"matchLabels": {"app": name}}, "template": _template(name, cpu, restart="Always")}
    return _queued("apps/v1", "StatefulSet", name, {"replicas": 2, "serviceName": name, **spec})


def _leaderworkerset(name: str, cpu: str) -> list[Obj]:
    group = {"size": 2, "workerTemplate": _template(name, cpu, restart="Always")}
    return _queued(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, {"replicas": 1, "leaderWorkerTemplate": group}
    )


def _by_scale(kind: str, size: int = 1) -> Callable[[Api, str, int], object]:
    """As `kubectl scale` and autoscalers do, which webhooks of the object do not see."""
    return lambda api, name, pods: api.merge(f"{kind}/{name}/scale", {"spec": {"replicas": pods // size}})


def _scale_job(api: Api, name: str, pods: int) -> object:
    return api.merge(f"{JOBS}/{name}", {"spec": {"parallelism": pods, "completions": pods}})


def _by_template(kind: str) -> Callable[[Api, str], object]:
    return lambda api, name: api.merge(f"{kind}/{name}", {"spec": {"template": ROLLED}})


def _roll_groups(api: Api, name: str) -> object:
    return api.merge(f"{GROUPS}/{name}", {"spec": {"leaderWorkerTemplate": {"workerTemplate": ROLLED}}})


JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
STATEFUL_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
LWS = "leaderworkerset.x-k8s.io/v1"
GROUPS = f"/apis/{LWS}/namespaces/{NAMESPACE}/leaderworkersets"

KINDS = (
    Kind("job", "batch/v1", "jobs", _job, "Job", _scale_job, 0),
    Kind("jobset", "jobset.x-k8s.io/v1alpha2", "jobsets", _jobset, "JobSet"),
    Kind("pod", "v1", "pods", _pods, "Pod"),
    Kind("group", "v1", "pods", _group, "pod group"),
    Kind(
        "deployment",
        "apps/v1",
        "deployments",
        _deployment,
        "Pod",
        _by_scale(DEPLOYMENTS),
        3,
        _by_template(DEPLOYMENTS),
    ),
    Kind(
        "statefulset",
        "apps/v1",
        "statefulsets",
        _statefulset,
        "StatefulSet",
        _by_scale(STATEFUL_SETS),
        0,
        _by_template(STATEFUL_SETS),
    ),
    Kind("lws", LWS, "leaderworkersets", _leaderworkerset, "LeaderWorkerSet", _by_scale(GROUPS, 2), 2, _roll_groups),
)
"""`runs_of_four`: how many of four pods run where the queue has room for three."""


def queue_objects(levels: tuple[str, ...], node_labels: Mapping[str, str], quota: int) -> list[Obj]:
    """A queue for each kind, over one flavor with a topology."""

    def named(kind: str, name: str, spec: Obj, **meta: Any) -> Obj:
        return {"apiVersion": f"{GROUP}/v1beta2", "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}

    resources = [{"name": "cpu", "nominalQuota": quota}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "machines", "resources": resources}]}
    return [
        named("Topology", "dc", {"levels": [{"nodeLabel": label} for label in levels]}),
        named("ResourceFlavor", "machines", {"nodeLabels": dict(node_labels), "topologyName": "dc"}),
        *(named("ClusterQueue", kind.name, {"namespaceSelector": {}, "resourceGroups": [group]}) for kind in KINDS),
        *(named("LocalQueue", kind.name, {"clusterQueue": kind.name}, namespace=NAMESPACE) for kind in KINDS),
    ]
