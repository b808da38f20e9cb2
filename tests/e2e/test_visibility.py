"""The visibility API behind a real API server's aggregation: kubectl, kueuectl, tenants, and clients that go past the proxy.

The controller runs outside the cluster, so the Service is an ExternalName for loopback; config/visibility has the rest.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml

from admission.cli.local_cluster.install import CONFIG
from admission.cli.local_cluster.ports import free_port
from admission.visibility.api_documents import VERSIONS
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.errors import ControlPlaneError
from hack.controlplane.fixtures import built
from hack.controlplane.kueuectl import RECIPE
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import eventually
from tests.scenarios.stage import real

in_loop = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions()
GROUP = "visibility.kueue.x-k8s.io"
OF_CLUSTER_QUEUE = f"/apis/{GROUP}/v1beta2/clusterqueues/cq/pendingworkloads"
OF_LOCAL_QUEUE = f"/apis/{GROUP}/v1beta2/namespaces/team-a/localqueues/queue/pendingworkloads"


def queues() -> str:
    """A ClusterQueue without quota, and its LocalQueues in the namespaces of two teams."""
    quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": 0}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    version = "kueue.x-k8s.io/v1beta2"
    made: list[dict[str, Any]] = [
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}},
        {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": spec},
    ]
    for team in ("team-a", "team-b"):
        metadata = {"name": "queue", "namespace": team}
        made += [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}},
            {"apiVersion": version, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": "cq"}},
        ]
    for name, value in (("low", 1), ("high", 9), ("highest", 20)):
        made.append(
            {"apiVersion": version, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        )
    return yaml.safe_dump_all(made)


def job(name: str, team: str, priority: str) -> str:
    labels = {"kueue.x-k8s.io/queue-name": "queue", "kueue.x-k8s.io/priority-class": priority}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    metadata = {"name": name, "namespace": team, "labels": labels}
    return yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


def aggregate(cluster: ControlPlane, port: int) -> None:
    """Installs config/visibility, with the API at a port of loopback."""
    for file in ("secret", "rbac", "apiservice"):
        cluster.kubectl("apply", "--server-side", "-f", str(CONFIG / "visibility" / f"{file}.yaml"))
    metadata = {"name": "stowage-visibility", "namespace": "stowage-system"}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(service))
    for version in VERSIONS:
        patch = json.dumps({"spec": {"service": {"port": port}}})
        cluster.kubectl("patch", "apiservice", f"{version}.{GROUP}", "--type=merge", "-p", patch)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[ControlPlane, int]]:
    """The cluster, where three jobs of two teams wait, and the port of the API."""
    port = free_port()
    settings = {"ENABLED": "true", "BIND_ADDRESS": "127.0.0.1", "BIND_PORT": str(port)}
    environment = {f"STOWAGE_VISIBILITY_SERVER__{name}": value for name, value in settings.items()}
    cluster.kubectl("create", "namespace", "stowage-system")
    cluster.kubectl("create", "serviceaccount", "stowage-controller", "-n", "stowage-system")
    aggregate(cluster, port)
    async with real(cluster, tmp_path_factory.mktemp("visibility"), environment):
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=queues())
        for name, team, priority in (
            ("last", "team-a", "low"),
            ("first", "team-b", "highest"),
            ("second", "team-a", "high"),
        ):
            cluster.kubectl("apply", "-f", "-", stdin=job(name, team, priority))

        async def listed() -> bool:
            with contextlib.suppress(ControlPlaneError):
                return all(len(pending(cluster, OF_CLUSTER_QUEUE.replace("v1beta2", each))) == 3 for each in VERSIONS)
            return False

        await eventually("the three workloads are listed", listed, 60)
        yield cluster, port


def pending(cluster: ControlPlane, path: str, *user: str) -> list[tuple[str, int, int]]:
    """The owner of each workload and its positions in ClusterQueue and LocalQueue, as `kubectl get --raw` shows them."""
    items = json.loads(cluster.kubectl("get", "--raw", path, *user))["items"]
    return [
        (
            item["metadata"]["ownerReferences"][0]["name"],
            item["positionInClusterQueue"],
            item["positionInLocalQueue"],
        )
        for item in items
    ]


@in_loop
async def test_kubectl_shows_the_line_by_priority(served: tuple[ControlPlane, int]) -> None:
    cluster, _ = served
    whole = [("first", 0, 0), ("second", 1, 0), ("last", 2, 1)]
    assert pending(cluster, OF_CLUSTER_QUEUE) == whole
    assert pending(cluster, OF_CLUSTER_QUEUE.replace("v1beta2", "v1beta1")) == whole
    assert pending(cluster, f"{OF_CLUSTER_QUEUE}?limit=1&offset=1") == whole[1:2]
    assert pending(cluster, OF_LOCAL_QUEUE) == whole[1:]
    found = {
        each["name"] for each in json.loads(cluster.kubectl("get", "--raw", f"/apis/{GROUP}/v1beta2"))["resources"]
    }
    assert found == {f"{kind}{sub}" for kind in ("clusterqueues", "localqueues") for sub in ("", "/pendingworkloads")}


def kueuectl(cluster: ControlPlane, program: Path, *args: str) -> str:
    """What the command prints. Raises CalledProcessError."""
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run([program, *args], env=environment, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@in_loop
async def test_kueuectl_shows_positions(served: tuple[ControlPlane, int]) -> None:
    cluster, _ = served
    program = built(RECIPE).program("kueuectl")
    told = kueuectl(cluster, program, "list", "workload", "-A")
    header, *rows = told.splitlines()
    place, owner = header.index("POSITION IN QUEUE"), header.index("JOB NAME")
    found = {row[owner:].split()[0]: row[place:].split()[0] for row in rows}
    assert found == {"first": "0", "second": "0", "last": "1"}, told  # in the LocalQueue


BOARD_COLUMNS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.ownerReferences.0.name",
    "priority",
    "localQueueName",
    "positionInClusterQueue",
    "positionInLocalQueue",
)
"""What the tables of Kueue's two Grafana boards select of each item."""


def selected(item: Any, path: str) -> Any:
    for part in path.split("."):
        item = item[int(part)] if part.isdigit() else item[part]
    return item


@in_loop
@pytest.mark.parametrize(
    ("variable", "value", "table"),
    [
        pytest.param("/apis/kueue.x-k8s.io/v1beta1/clusterqueues", "cq", OF_CLUSTER_QUEUE, id="cluster-queue"),
        pytest.param(
            "/apis/kueue.x-k8s.io/v1beta1/namespaces/team-a/localqueues", "queue", OF_LOCAL_QUEUE, id="local-queue"
        ),
    ],
)
async def test_kueue_s_boards_have_their_data(
    served: tuple[ControlPlane, int], variable: str, value: str, table: str
) -> None:
    """Both read v1beta1: the queues for their variable, then the pending workloads of the chosen one."""
    cluster, _ = served
    names = [item["metadata"]["name"] for item in json.loads(cluster.kubectl("get", "--raw", variable))["items"]]
    assert value in names
    items = json.loads(cluster.kubectl("get", "--raw", table.replace("v1beta2", "v1beta1")))["items"]
    assert items
    assert all(selected(item, column) is not None for item in items for column in BOARD_COLUMNS)


@in_loop
async def test_a_tenant_sees_the_queues_of_its_namespaces(served: tuple[ControlPlane, int]) -> None:
    """The cluster's role `view` in a namespace is enough there, and for nothing else."""
    cluster, _ = served
    cluster.kubectl("create", "rolebinding", "ann", "--clusterrole=view", "--user=ann", "-n", "team-a")
    ann = "--as=ann"

    async def may() -> bool:
        return cluster.try_kubectl("get", "--raw", OF_LOCAL_QUEUE, ann).returncode == 0

    await eventually("the role is known", may)
    assert pending(cluster, OF_LOCAL_QUEUE, ann) == [("second", 1, 0), ("last", 2, 1)]
    for path in (OF_CLUSTER_QUEUE, OF_LOCAL_QUEUE.replace("team-a", "team-b")):
        assert "forbidden" in cluster.try_kubectl("get", "--raw", path, ann).stderr.lower()
    missing = cluster.try_kubectl("get", "--raw", OF_CLUSTER_QUEUE.replace("/cq/", "/none/"))
    assert "not found" in missing.stderr.lower()


@in_loop
@pytest.mark.parametrize("certificate", ["none", "of-a-user", "of-an-admin"])
async def test_past_the_proxy_nobody_is_anybody(served: tuple[ControlPlane, int], certificate: str) -> None:
    """A pod that reaches the port names itself in the proxy's headers: the port answers nobody but the proxy."""
    cluster, port = served
    bundle = json.loads(cluster.kubectl("get", "apiservice", f"v1beta2.{GROUP}", "-o", "json"))["spec"]["caBundle"]
    context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    if certificate != "none":
        groups = ("system:masters",) if certificate == "of-an-admin" else ()
        pair = cluster.authority.client(certificate, "front-proxy-client", groups)
        context.load_cert_chain(pair.certificate, pair.key)
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    url = f"https://127.0.0.1:{port}{OF_CLUSTER_QUEUE}"
    name = "stowage-visibility.stowage-system.svc"
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(url, headers=headers, ssl=context, server_hostname=name) as response:
                assert response.status == 401
        except aiohttp.ClientError:
            assert certificate != "none"  # another CA's certificate: the handshake has failed


@in_loop
async def test_namespaces_can_be_deleted(served: tuple[ControlPlane, int]) -> None:
    """The API server has to know every group's kinds before it deletes a namespace."""
    cluster, _ = served
    cluster.kubectl("create", "namespace", "short")
    cluster.kubectl("delete", "namespace", "short", "--timeout=120s")
