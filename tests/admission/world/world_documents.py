"""Made worlds as the documents that a user would write: a small tree, a queue, and jobs in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from admission.world.documents import Document
from admission.world.files import from_documents
from admission.world.world import World
from api import names

RACK, HOST = "rack", names.HOSTNAME_LABEL
Manifest = dict[str, Any]


def manifest(kind: str, name: str, namespace: str | None = None, **fields: Any) -> Manifest:
    """An object of one of the kinds below."""
    version = {"Node": "v1", "Namespace": "v1", "Pod": "v1", "Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"apiVersion": version.get(kind, names.API_VERSION), "kind": kind, "metadata": meta, **fields}


def node(name: str, rack: str, cpu: int = 4) -> Manifest:
    """A node of the pool `tas`."""
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return manifest("Node", name, metadata={"labels": {"pool": "tas", RACK: rack}}, status={"allocatable": amounts})


def tree(racks: int = 2, hosts: int = 2, cpu: int = 4) -> list[Manifest]:
    """Topology, flavor and nodes."""
    levels = [{"nodeLabel": RACK}, {"nodeLabel": HOST}]
    return [
        manifest("Topology", "default", spec={"levels": levels}),
        manifest("ResourceFlavor", "tas", spec={"nodeLabels": {"pool": "tas"}, "topologyName": "default"}),
        *(node(f"r{rack}-h{host}", f"r{rack}", cpu) for rack in range(racks) for host in range(hosts)),
    ]


def queue(name: str = "q", cpu: int = 100, **spec: Any) -> list[Manifest]:
    """A ClusterQueue with quota of the flavor, and the LocalQueue of its name."""
    quota = {"name": "tas", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    return [
        manifest("ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": groups, **spec}),
        manifest("LocalQueue", name, "default", spec={"clusterQueue": name}),
    ]


def job(
    name: str,
    pods: int = 1,
    cpu: str = "1",
    *,
    to: str = "q",
    require: str | None = None,
    at: str | None = None,
    runs: str | None = None,
    saves: str | None = None,
    created: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Manifest:
    """A Job; `at`, `runs` and `saves` are the annotations of the simulation."""
    annotations = {
        names.REQUIRE_TOPOLOGY: require,
        names.SIMULATED_ARRIVAL: at,
        names.SIMULATED_DURATION: runs,
        names.SIMULATED_CHECKPOINTS: saves,
    }
    meta: Manifest = {
        "labels": {names.QUEUE_NAME_LABEL: to, **(labels or {})},
        "annotations": {key: value for key, value in annotations.items() if value is not None},
    }
    if created:
        meta["creationTimestamp"] = created
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return manifest("Job", name, metadata=meta, spec={"parallelism": pods, "completions": pods, "template": template})


def world(*arguments: Iterable[Manifest] | Manifest) -> World:
    """The world of these."""
    return from_documents([Document("made.yaml", obj) for obj in flat(arguments)])


def flat(value: Iterable[Iterable[Manifest] | Manifest]) -> list[Manifest]:
    """One list of objects."""
    return [obj for one in value for obj in ([one] if isinstance(one, dict) else one)]


def written(path: Path, *arguments: Iterable[Manifest] | Manifest) -> Path:
    """The file with these as documents of YAML."""
    path.write_text(yaml.safe_dump_all(flat(arguments)))
    return path
