"""A controller's cold start beside a large cluster: how long until it is ready, and how much memory that takes.

    python -m tests.bench coldstart
    python -m tests.bench coldstart nodes

The embedded API server is loaded with what loads.json says: nodes in blocks and racks, jobs that were admitted and run, all
their pods bound, and pods of others. The controller is started for real, as an operator would, and has to list all of it
and to book it before it is ready. Load `nodes` is 100,000 nodes and nothing else. The server answers from this process, on the
same cores.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from admission.cli.local_cluster.embedded import NAMESPACE as STOWAGE
from admission.cli.local_cluster.install import install
from admission.cli.local_cluster.processes import StowageProcesses
from api import names
from api.assignment import encode
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.embedded.store import ObjectStorage
from api.kube.client import Kube
from api.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from api.kube.settings import ClientSettings
from tests.bench.loads import loads
from tests.bench.measure import cost
from tests.builders import condition

NAMESPACE = "team"
GPU = "nvidia.com/gpu"
LEVELS = ("example.com/block", "example.com/rack", names.HOSTNAME_LABEL)
SINCE = "2026-01-01T00:00:00Z"
# What a host of the generated jobs holds.
PER_HOST = 8


def run(load: str = "coldstart") -> None:
    """Prints one line. `load`: its name in loads.json."""
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        asyncio.run(_measure(Path(folder), load, loads(load)))


async def _measure(folder: Path, name: str, load: dict[str, Any]) -> None:
    tokens = {"controller": f"system:serviceaccount:{STOWAGE}:stowage-controller"}
    async with EmbeddedServer(EmbeddedSettings(tokens=tokens)) as server:
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
            await install(kube, "https://127.0.0.1:1")
        began = time.perf_counter()
        fill(server.store, load)
        print(f"coldstart: cluster made in {time.perf_counter() - began:.1f} s", flush=True)
        # As after a restart of the server: what is listed was encoded before.
        own = server.kubeconfig(folder / "controller.kubeconfig", token="controller")
        processes = StowageProcesses({"controller": own}, folder)
        began = time.perf_counter()
        async with processes:
            seconds = time.perf_counter() - began
            await asyncio.sleep(0)
            spent = cost(processes.pids[0])
        _tell(name, load, seconds, spent.cpu, spent.highest)


def _tell(name: str, load: dict[str, Any], seconds: float, cpu: float, highest: float) -> None:
    nodes = load["blocks"] * load["racks"] * load["hosts"]
    pods = load["jobs"] * load["pods_per_job"] + load["foreign_pods"]
    aims = load["aims"]
    print(
        f"SUMMARY {name}: {nodes} nodes, {pods} pods, {load['jobs']} jobs: ready after {seconds:.1f} s "
        f"(aim {aims.get('ready_s', 'none')}), CPU {cpu:.1f} s (aim {aims.get('cpu_s', 'none')}), "
        f"highest resident {highest:.0f} MiB (aim {aims['resident_mib']})"
    )


# ---- the cluster


def fill(store: ObjectStorage, load: dict[str, Any]) -> None:
    """Puts all of it into the store, past the rules."""
    hosts = [_node(index, load) for index in range(load["blocks"] * load["racks"] * load["hosts"])]
    store.create(store.kinds["", "namespaces"], {"metadata": {"name": NAMESPACE}})
    store.seed(TOPOLOGIES, [_named("dc", {"levels": [{"nodeLabel": level} for level in LEVELS]})])
    store.seed(RESOURCE_FLAVORS, [_named("gpu", {"nodeLabels": {"pool": "gpu"}, "topologyName": "dc"})])
    store.seed(CLUSTER_QUEUES, [_cluster_queue(len(hosts))])
    store.seed(LOCAL_QUEUES, [_named("lq", {"clusterQueue": "cq"}, NAMESPACE)])
    store.seed(NODES, iter(hosts))
    store.seed(JOBS, (_job(index, load) for index in range(load["jobs"])))
    store.seed(WORKLOADS, (_workload(index, load, _uid_of(store, index)) for index in range(load["jobs"])))
    store.seed(PODS, _pods(load))


def _named(name: str, spec: dict[str, Any], namespace: str | None = None) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"metadata": meta, "spec": spec}


def _cluster_queue(nodes: int) -> dict[str, Any]:
    resources = [
        {"name": "cpu", "nominalQuota": str(64 * nodes)},
        {"name": "memory", "nominalQuota": f"{512 * nodes}Gi"},
        {"name": GPU, "nominalQuota": str(PER_HOST * nodes)},
    ]
    group = {"coveredResources": ["cpu", "memory", GPU], "flavors": [{"name": "gpu", "resources": resources}]}
    return _named("cq", {"namespaceSelector": {}, "resourceGroups": [group]})


def _host(index: int) -> str:
    return f"node-{index:05}"


def _node(index: int, load: dict[str, Any]) -> dict[str, Any]:
    """With about as many labels, annotations and managed fields, and a status about as long, as a cloud's nodes have."""
    rack = index // load["hosts"]
    labels = {
        names.HOSTNAME_LABEL: _host(index),
        LEVELS[0]: f"block-{rack // load['racks']:03}",
        LEVELS[1]: f"rack-{rack:04}",
        "pool": "gpu",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "gpu-8x",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": "region-1-a",
    }
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(PER_HOST), "ephemeral-storage": "2Ti"}
    conditions = [
        condition(kind, "True" if kind == "Ready" else "False", f"Kubelet{kind}", "kubelet has said so")
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    info = {"kubeletVersion": "v1.36.0", "osImage": "Linux", "architecture": "amd64", "operatingSystem": "linux"}
    images = [
        {
            "names": [f"registry.example/system/agent-{n}@sha256:{n:064}", f"registry.example/system/agent-{n}:1.{n}"],
            "sizeBytes": n,
        }
        for n in range(10)
    ]
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": conditions,
        "nodeInfo": info,
        "images": images,
    }
    annotations = {
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "csi.volume.kubernetes.io/nodeid": f'{{"disk.csi.example.com":"{_host(index)}"}}',
    }
    metadata = {"name": _host(index), "labels": labels, "annotations": annotations, "managedFields": _managed(labels)}
    return {"metadata": metadata, "spec": {"podCIDR": "10.0.0.0/24"}, "status": status}


def _managed(labels: dict[str, str]) -> list[dict[str, Any]]:
    """What the server writes down of the kubelet's first and last write."""
    of_kinds: dict[str, Any] = {
        f'k:{{"type":"{kind}"}}': {".": {}, "f:status": {}} for kind in ("MemoryPressure", "DiskPressure", "Ready")
    }
    writes = [
        {"f:metadata": {"f:labels": {f"f:{label}": {} for label in labels}}},
        {"f:status": {"f:allocatable": {"f:cpu": {}, f"f:{GPU}": {}}, "f:conditions": of_kinds}},
    ]
    return [
        {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
        for fields in writes
    ]


def _template() -> dict[str, Any]:
    requests = {"cpu": "4", "memory": "32Gi", GPU: "1"}
    container = {
        "name": "trainer",
        "image": "registry.example/train/trainer:1.4.2",
        "command": ["python", "-m", "trainer"],
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(12)],
        "resources": {"requests": requests, "limits": {GPU: "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    metadata = {"labels": {"app": "trainer"}, "annotations": {names.REQUIRED_TOPOLOGY: LEVELS[1]}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    return {"metadata": metadata, "spec": spec}


def _uid_of(store: ObjectStorage, index: int) -> str:
    """Of the job in the store, which gives it."""
    return str(store.get(JOBS, f"job-{index:05}", NAMESPACE)["metadata"]["uid"])


def _started(index: int) -> dict[str, Any]:
    """The template as the start has left it."""
    template = _template()
    marks = {names.WORKLOAD_ANNOTATION: f"job-{index:05}", names.TOPOLOGY_WORKLOAD: f"job-{index:05}"}
    template["metadata"]["annotations"] |= marks | {names.TOPOLOGY_PODSET: "main"}
    template["metadata"]["labels"] |= {names.PODSET_LABEL: "main"}
    template["spec"] |= {"nodeSelector": {"pool": "gpu"}, "schedulingGates": [{"name": names.TOPOLOGY_GATE}]}
    return template


def _job(index: int, load: dict[str, Any]) -> dict[str, Any]:
    count = load["pods_per_job"]
    return {
        "metadata": {
            "name": f"job-{index:05}",
            "namespace": NAMESPACE,
            "labels": {names.QUEUE_NAME_LABEL: "lq"},
        },
        "spec": {
            "parallelism": count,
            "completions": count,
            "completionMode": "Indexed",
            "suspend": False,
            "template": _started(index),
        },
        "status": {"active": count, "ready": count, "startTime": SINCE},
    }


def _hosts_of(index: int, load: dict[str, Any]) -> list[str]:
    """Neighbours in one rack: jobs fill the racks one after the other, as far as whole jobs fit. Small jobs share hosts."""
    if load["pods_per_job"] < PER_HOST:
        return [_host(index % (load["blocks"] * load["racks"] * load["hosts"]))]
    each = load["pods_per_job"] // PER_HOST
    per_rack = load["hosts"] // each
    start = index // per_rack * load["hosts"] + index % per_rack * each
    return [_host(number) for number in range(start, start + each)]


def _workload(index: int, load: dict[str, Any], uid: str) -> dict[str, Any]:
    count, name = load["pods_per_job"], f"job-{index:05}"
    domains = [((host,), min(count, PER_HOST)) for host in _hosts_of(index, load)]
    usage = {"cpu": str(4 * count), "memory": f"{32 * count}Gi", GPU: str(count)}
    assignment = {
        "name": "main",
        "flavors": dict.fromkeys(usage, "gpu"),
        "resourceUsage": usage,
        "count": count,
        "topologyAssignment": encode((names.HOSTNAME_LABEL,), domains).to_wire(),
    }
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    asked = {"required": LEVELS[1], "podIndexLabel": names.JOB_COMPLETION_INDEX}
    pod_set = {"name": "main", "count": count, "template": _template(), "topologyRequest": asked}
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "finalizers": [names.IN_USE_FINALIZER],
            "labels": {names.JOB_UID_LABEL: uid},
            "ownerReferences": [owner],
        },
        "spec": {"active": True, "queueName": "lq", "priority": 0, "podSets": [pod_set]},
        "status": {
            "conditions": [condition(names.QUOTA_RESERVED), condition(names.ADMITTED)],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
        },
    }


def _pods(load: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for index in range(load["jobs"]):
        hosts = _hosts_of(index, load)
        for number in range(load["pods_per_job"]):
            yield _pod(f"job-{index:05}-{number}", NAMESPACE, hosts[number // PER_HOST], _started(index), number)
    nodes = load["blocks"] * load["racks"] * load["hosts"]
    for number in range(load["foreign_pods"]):
        yield _pod(f"agent-{number:05}", "kube-system", _host(number % nodes), _agent(), number)


def _agent() -> dict[str, Any]:
    """A daemon's pod."""
    requests = {"cpu": "100m", "memory": "200Mi"}
    container = {"name": "agent", "image": "registry.example/agent:2", "resources": {"requests": requests}}
    anywhere = [{"operator": "Exists", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    return {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container], "tolerations": anywhere}}


def _pod(name: str, namespace: str, host: str, template: dict[str, Any], number: int) -> dict[str, Any]:
    """Bound and running; the gate is out, the host in its selector."""
    meta, spec = template["metadata"], {**template["spec"], "nodeName": host}
    if spec.pop("schedulingGates", None):
        spec["nodeSelector"] = {**spec["nodeSelector"], names.HOSTNAME_LABEL: host}
        meta = {**meta, "labels": {**meta["labels"], names.JOB_COMPLETION_INDEX: str(number)}}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    status = {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": SINCE} for kind in kinds],
        "podIP": "10.1.2.3",
        "startTime": SINCE,
    }
    return {"metadata": {**meta, "name": name, "namespace": namespace}, "spec": spec, "status": status}
