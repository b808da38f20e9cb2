"""Small jobs and queues for the webhook's tests."""

from __future__ import annotations

from typing import Any

from admission.webhook.rules.lookups import Lookups
from api import names
from api.queues import ClusterQueue, LocalQueue
from api.topology import ResourceFlavor, Topology

BLOCK, RACK = "cloud.com/block", "cloud.com/rack"
QUEUE = {names.QUEUE_NAME_LABEL: "team"}


def pod_template(annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """A template of one container."""
    metadata = {"annotations": annotations} if annotations else {}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}


def job(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    template: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Job `train`; `template` are the annotations of its pod template."""
    metadata: dict[str, Any] = {"name": "train", "namespace": "ns", "labels": QUEUE if labels is None else labels}
    if annotations:
        metadata["annotations"] = annotations
    spec = {"parallelism": 4, "template": pod_template(template), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def jobset(annotations: dict[str, str] | None, **templates: tuple[int, int, dict[str, str]]) -> dict[str, Any]:
    """A JobSet; each keyword is a replicated job: (replicas, parallelism, annotations of its pod template)."""
    replicated = [
        {"name": name, "replicas": n, "template": {"spec": {"parallelism": p, "template": pod_template(said)}}}
        for name, (n, p, said) in templates.items()
    ]
    metadata = {"name": "set", "namespace": "ns", "labels": QUEUE, "annotations": annotations or {}}
    spec = {"replicatedJobs": replicated}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def lookups(*levels: str, inline: bool = True, flavor: bool = True, default_queue: bool = False) -> Lookups:
    """LocalQueue ns/team -> ClusterQueue `cq` -> flavor `f` with the levels (inline or by Topology `t`)."""
    topology: dict[str, Any] = {"topology": {"levels": levels}} if inline else {"topologyName": "t"}
    local = [("team", "cq")] + ([("default", "cq")] if default_queue else [])
    flavors = {"f": ResourceFlavor.from_wire({"metadata": {"name": "f"}, "spec": topology if levels else {}})}
    nodes = [{"nodeLabel": level} for level in levels]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": []}]}
    return Lookups(
        {f"ns/{name}": _local_queue(name, cq) for name, cq in local},
        {"cq": ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": {"resourceGroups": [group]}})},
        flavors if flavor else {},
        {"t": Topology.from_wire({"metadata": {"name": "t"}, "spec": {"levels": nodes}})},
    )


def _local_queue(name: str, cluster_queue: str) -> LocalQueue:
    metadata = {"name": name, "namespace": "ns"}
    return LocalQueue.from_wire({"metadata": metadata, "spec": {"clusterQueue": cluster_queue}})
