"""A store on a clock that the test moves, with workers, and the objects that the tests of this folder post."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from api.embedded.store import ObjectStorage
from api.embedded.workers.base import Worker
from api.embedded.workers.driver import ALL, Workers
from api.kube.resources import JOBS, JOBSETS, NODES, PODS

Obj = dict[str, Any]
RACK = "example.com/rack"


class Cluster:
    """`settle()` after each change; `after(seconds)` moves the clock and settles."""

    def __init__(self, kinds: Sequence[type[Worker]] = ALL) -> None:
        self.time = 1_800_000_000.0
        self.store = ObjectStorage(clock=lambda: self.time, seed=1)
        self.workers = Workers(self.store, kinds)

    def settle(self) -> None:
        self.workers.settle()

    def after(self, seconds: float) -> None:
        self.time += seconds
        self.settle()

    def node(self, name: str, *, cpu: str = "4", **more: Any) -> None:
        size = {"cpu": cpu, "memory": "16Gi", "pods": "10"}
        labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
        self.store.create(
            NODES, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": size}, **more}
        )
        self.settle()

    def post(self, obj: Mapping[str, Any]) -> None:
        self.store.create({"Job": JOBS, "JobSet": JOBSETS, "Pod": PODS}[obj["kind"]], obj, "default")
        self.settle()

    def job(self, name: str) -> Obj:
        return self.store.get(JOBS, name, "default")

    def jobset(self, name: str) -> Obj:
        return self.store.get(JOBSETS, name, "default")

    def pods(self, labels: str = "") -> list[Obj]:
        return list(self.store.list(PODS, "default", labels=labels))

    def phases(self, labels: str = "") -> list[str]:
        return [pod["status"]["phase"] for pod in self.pods(labels)]

    def change(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        self.store.patch({"Job": JOBS, "JobSet": JOBSETS}[kind], name, {"spec": spec}, "default")
        self.settle()

    def conditions(self, obj: Obj) -> dict[str, str]:
        return {item["type"]: item["status"] for item in obj.get("status", {}).get("conditions") or ()}


def pod_template(annotations: Mapping[str, str] | None = None, *, cpu: str = "1", **spec: Any) -> Obj:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"annotations": dict(annotations or {}), "labels": {"app": "test"}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def job(name: str = "job", template: Obj | None = None, **spec: Any) -> Obj:
    given = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0, **spec}
    body = {"spec": {**given, "template": template or pod_template()}, "metadata": {"name": name}}
    return {"apiVersion": "batch/v1", "kind": "Job", **body}


def pod(name: str, **more: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_template(**more)["spec"]}


def jobset(name: str = "set", template: Obj | None = None, *, replicas: int = 2, **spec: Any) -> Obj:
    child = {"template": {"spec": {"parallelism": 1, "completions": 1, "template": template or pod_template()}}}
    replicated = [{"name": "driver", "replicas": 1, **child}, {"name": "workers", "replicas": replicas, **child}]
    body = {"spec": {"replicatedJobs": replicated, **spec}, "metadata": {"name": name}}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **body}
