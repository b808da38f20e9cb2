"""`stowage uninstall` on a real control plane where no process of ours runs any more."""

from __future__ import annotations

import pytest
import yaml
from typer.testing import CliRunner

from admission.cli.local_cluster.install import CONFIG
from admission.cli.main import app
from api.names import GROUP, IN_USE_FINALIZER
from hack.controlplane.api import eventually
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.nodes import node
from hack.controlplane.options import ClusterOptions
from tests.builders import pod_template
from tests.e2e.aggregated_roles import job_kind_roles

CONTROL_PLANE = ClusterOptions()


def queue(cluster: ControlPlane) -> None:
    """A queue and a Workload that wait for somebody to take their finalizers away."""
    held = {"finalizers": [IN_USE_FINALIZER]}
    pod_set = {"name": "main", "count": 1, "template": pod_template("1")}
    objects = [
        ("ClusterQueue", {"name": "cq", **held}, {"namespaceSelector": {}}),
        ("LocalQueue", {"name": "lq", "namespace": "default"}, {"clusterQueue": "cq"}),
        ("Workload", {"name": "w", "namespace": "default", **held}, {"queueName": "lq", "podSets": [pod_set]}),
    ]
    version = f"{GROUP}/v1beta2"
    text = yaml.safe_dump_all([{"apiVersion": version, "kind": k, "metadata": m, "spec": s} for k, m, s in objects])
    # our webhooks are registered, and no process answers them
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        cluster.kubectl("delete", kind, "-l", "app.kubernetes.io/name=stowage")
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)


def uninstall(cluster: ControlPlane, *args: str, answer: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(app, ["uninstall", "--kubeconfig", str(cluster.kubeconfig), *args], input=answer)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def kinds(cluster: ControlPlane) -> str:
    """All kinds that the API server serves without us."""
    served = cluster.kubectl("api-resources", "--verbs=list,delete", "-o", "name").split()
    return ",".join(kind for kind in served if not kind.startswith("events"))


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane, kinds: str) -> ControlPlane:
    cluster.add_nodes(node(f"host-{n}", {}) for n in range(2))
    cluster.kubectl("apply", "--server-side", "-k", str(CONFIG / "default"))
    # An aggregated API that nobody serves: the API server would not delete a namespace while it is registered.
    for file in ("apiservice", "service", "secret", "rbac", "policy"):
        cluster.kubectl("apply", "--server-side", "-f", str(CONFIG / "visibility" / f"{file}.yaml"))
    for file in ("rbac", "service", "secret", "users", "policy", "topologies"):
        cluster.kubectl("apply", "--server-side", "-f", str(CONFIG / "dashboard" / f"{file}.yaml"))
    job_kind_roles(cluster)
    eventually("the CRDs are served", lambda: "workloads" in cluster.kubectl("api-resources", f"--api-group={GROUP}"))
    queue(cluster)
    return cluster


def left(cluster: ControlPlane, kinds: str) -> set[str]:
    """Our objects of all kinds, in all namespaces, and the roles that `stowage jobkind rbac` prints."""
    ours = ("-l", "app.kubernetes.io/name=stowage", "-o", "name", "-A")
    aggregated = ("-l", "stowage.dev/aggregate-to-controller", "-o", "name")
    found = cluster.kubectl("get", kinds, *ours).split()
    return {*found, *cluster.kubectl("get", "clusterrole", *aggregated).split()}


def test_no_changes_nothing(installed: ControlPlane, kinds: str) -> None:
    before = left(installed, kinds)
    code, said = uninstall(installed, answer="n\n")
    assert code == 1
    assert "1 Workloads, 1 ClusterQueues, 1 LocalQueues" in said
    assert left(installed, kinds) == before


def test_the_crds_can_stay_for_kueue(installed: ControlPlane, kinds: str) -> None:
    code, said = uninstall(installed, "--keep-crds", answer="y\n")
    assert code == 0, said
    assert all(name.startswith("customresourcedefinition") for name in left(installed, kinds))
    assert installed.api.get(f"/apis/{GROUP}/v1beta2/namespaces/default/workloads/w")["metadata"]["finalizers"]


def test_nothing_is_left_and_nothing_hangs(installed: ControlPlane, kinds: str) -> None:
    code, said = uninstall(installed, "--yes")
    assert code == 0, said
    assert not left(installed, kinds)
    code, said = uninstall(installed, "--yes")
    assert code == 0, f"a second run finds nothing to do: {said}"
