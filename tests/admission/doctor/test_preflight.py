"""`stowage doctor --preflight` beside objects of Kueue, and what its verdict is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from admission.cli.local_cluster.install import manifests
from api.embedded.server import EmbeddedServer
from api.kube.client import Kube, PatchKind
from api.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
)
from api.kube.settings import ClientSettings
from api.names import GROUP
from tests.admission.doctor import healthy
from tests.admission.doctor.test_read import create, doctor, kube, refusing, server
from tests.builders import pod_template

__all__ = ["kube", "server"]


CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
fairSharing: {enable: true}
admissionFairSharing: {usageHalfLifeTime: 1h, usageSamplingInterval: 5m, resourceWeights: {cpu: 0}}
multiKueue: {gcInterval: 1m}
integrations: {frameworks: [batch/job, acme.io/rocket]}
"""


USUAL = """
apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
health: {healthProbeBindAddress: ":8081"}
metrics: {bindAddress: ":8443", enableClusterQueueResources: true}
webhook: {port: 9443}
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}
controller: {groupKindConcurrency: {Job.batch: 5}}
clientConnection: {qps: 50, burst: 100}
integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset, pod, deployment, statefulset]}
"""


async def kueue(kube: Kube, configuration: str) -> None:
    """A cluster with Kueue's CRDs, controller and Configuration."""
    for crd in (one for one in manifests() if one["kind"] == CRDS.kind and one["spec"]["group"] == GROUP):
        await kube.create(CRDS, {**crd, "spec": {**crd["spec"], "conversion": {"strategy": "None"}}})
    await kube.create(NAMESPACES, {"metadata": {"name": "kueue-system"}})
    metadata = {"name": "kueue-controller-manager", "namespace": "kueue-system", "labels": {"app": "kueue"}}
    template = {**pod_template(), "metadata": {"labels": {"app": "kueue"}}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "kueue"}}, "template": template}
    await kube.create(DEPLOYMENTS, {"metadata": metadata, "spec": spec})
    data = {"controller_manager_config.yaml": configuration}
    await kube.create(CONFIG_MAPS, {"metadata": {"name": "kueue-config", "namespace": "kueue-system"}, "data": data})


async def test_a_usual_kueue_is_ready_to_migrate(server: EmbeddedServer, kube: Kube, tmp_path: Path) -> None:
    """Settings of its own process stand in no way."""
    await kueue(kube, USUAL)
    await create(kube, CLUSTER_QUEUES, healthy.queue("q", "f"))
    done = await asyncio.to_thread(doctor, "--preflight", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("ready to migrate: ")


async def test_preflight_that_could_not_read_everything_does_not_say_ready(tmp_path: Path) -> None:
    """The verdict is about all that a migration depends on."""
    async with EmbeddedServer(refusing("workloads")) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, attempts=1)) as kube:
            await kueue(kube, USUAL)
        done = await asyncio.to_thread(doctor, "--preflight", "--kubeconfig", kubeconfig)
    assert done.exit_code == 2
    assert "kueue-kinds: not looked at: " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("not known whether ready to migrate: ")


async def test_preflight_reads_the_gates_among_the_arguments_of_kueue(
    server: EmbeddedServer, kube: Kube, tmp_path: Path
) -> None:
    await kueue(kube, USUAL)
    container = {"args": ["--zap-log-level=2", "--feature-gates=LocalQueueMetrics=true,TopologyAwareScheduling=true"]}
    template = {"spec": {"containers": [{"name": "manager", "image": "kueue", **container}]}}
    patch = {"spec": {"template": template}}
    await kube.patch(DEPLOYMENTS, "kueue-controller-manager", patch, "kueue-system", kind=PatchKind.MERGE)
    words = ("--preflight", "--json", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
    (found,) = json.loads((await asyncio.to_thread(doctor, *words)).stdout)["findings"]
    assert found["object"] == "Deployment kueue-system/kueue-controller-manager"
    assert found["what"].startswith("featureGates.LocalQueueMetrics: the setting for this is metrics.")


async def test_preflight_says_that_kueue_is_in_another_namespace(
    server: EmbeddedServer, kube: Kube, tmp_path: Path
) -> None:
    """Its settings were not read, so they cannot be called fine."""
    await kueue(kube, CONFIGURATION)
    words = ("--preflight", "--namespace", "elsewhere", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
    done = await asyncio.to_thread(doctor, *words)
    assert done.exit_code == 1
    assert "# stowage doctor --preflight --namespace kueue-system" in done.stdout


@pytest.mark.parametrize(
    ("configuration", "what", "command"),
    [
        pytest.param(
            "waitForPodsReady: {timeout: 5m}",
            "waitForPodsReady: timeout has no effect without enabled: say enabled: true, or false to leave it off",
            "# in config/manager/settings/admission.yaml write what this says of waitForPodsReady",
            id="a section that is on in Kueue when it is there",
        ),
        pytest.param(
            "waitForPodsReady: {enable: false, timeout: 5m}",
            "waitForPodsReady.enable: the switch is waitForPodsReady.enabled",
            "# in config/manager/settings/admission.yaml write what this says of waitForPodsReady.enable",
            id="a switch of v1beta1 with another name",
        ),
        pytest.param(
            "queueVisibility: {updateIntervalSeconds: 5}",
            "queueVisibility: Stowage does not have this: config/visibility serves positions in queues",
            "# leave queueVisibility out of config/manager/settings/admission.yaml",
            id="a section that only v1beta1 has",
        ),
    ],
)
async def test_preflight_says_whether_a_setting_is_left_out_or_written_otherwise(
    server: EmbeddedServer, kube: Kube, tmp_path: Path, configuration: str, what: str, command: str
) -> None:
    """Who left waitForPodsReady out would lose a feature that Kueue has on."""
    await kueue(kube, f"{USUAL}\n{configuration}")
    words = ("--preflight", "--json", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
    (found,) = json.loads((await asyncio.to_thread(doctor, *words)).stdout)["findings"]
    assert (found["what"], found["command"]) == (what, command)


async def test_preflight_beside_a_kueue_that_is_too_old_does_not_say_ready(
    server: EmbeddedServer, kube: Kube, tmp_path: Path
) -> None:
    """It serves v1beta1 alone, in which nothing is read: no check of its objects could find anything."""
    await kueue(kube, USUAL)
    for plural in ("workloads", "clusterqueues", "admissionchecks"):
        crd = await kube.get(CRDS, f"{plural}.{GROUP}")
        versions = [{**each, "served": each["name"] == "v1beta1"} for each in crd["spec"]["versions"]]
        await kube.patch(CRDS, f"{plural}.{GROUP}", {"spec": {"versions": versions}}, kind=PatchKind.MERGE)
    words = ("--preflight", "--json", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
    done = await asyncio.to_thread(doctor, *words)
    (found,) = json.loads(done.stdout)["findings"]
    assert (done.exit_code, found["check"], found["object"]) == (1, "kueue-versions", "Kueue")
    assert "does not serve admissionchecks, clusterqueues, workloads in v1beta2" in found["what"]


async def test_preflight_takes_a_check_out_of_its_queues_before_it_deletes_it(
    server: EmbeddedServer, kube: Kube, tmp_path: Path
) -> None:
    """Kueue keeps a check that a queue names, and kubectl waits for it. No command brings back what another one took away."""
    await kueue(kube, USUAL)
    for name, controller in (("multi", "multikueue"), ("capacity", "provisioning-request"), ("own", "example")):
        spec = {"controllerName": f"kueue.x-k8s.io/{controller}"}
        await create(kube, ADMISSION_CHECKS, {"metadata": {"name": name}, "spec": spec})
    named = {"both": ("multi", "capacity"), "one": ("own", "multi"), **{f"many-{n}": ("capacity",) for n in range(6)}}
    for name, checks in named.items():
        strategy = {"admissionChecks": [{"name": check, "onFlavors": ["f"]} for check in checks]}
        await create(kube, CLUSTER_QUEUES, healthy.queue(name, "f", admissionChecksStrategy=strategy))
    words = ("--preflight", "--json", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
    found = json.loads((await asyncio.to_thread(doctor, *words)).stdout)["findings"]
    commands = {one["object"]: one["command"].split(" && ") for one in found}
    assert commands.keys() == {"AdmissionCheck multi", "AdmissionCheck capacity"}
    (told,) = commands["AdmissionCheck capacity"]
    assert told.startswith("# take it out of spec.admissionChecksStrategy of the ClusterQueues both, many-0, many-1, ")
    assert told.endswith("delete admissioncheck capacity")
    first, second, last = commands["AdmissionCheck multi"]
    assert """patch clusterqueue both --type=merge -p '{"spec":{"admissionChecksStrategy":null}}'""" in first
    assert """'{"spec":{"admissionChecksStrategy":{"admissionChecks":[{"name":"own","onFlavors":["f"]}]}}}'""" in second
    assert last.endswith("delete admissioncheck multi")


async def test_preflight_names_what_stands_in_the_way(server: EmbeddedServer, kube: Kube, tmp_path: Path) -> None:
    await kueue(kube, CONFIGURATION)
    check = {"controllerName": "kueue.x-k8s.io/multikueue"}
    await create(kube, ADMISSION_CHECKS, {"metadata": {"name": "multi"}, "spec": check})
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    policy = {"migration": {"mode": "RetainFirstAdmission"}}
    queue = healthy.queue("q", "f", admissionScope=scope, concurrentAdmissionPolicy=policy)
    await create(kube, CLUSTER_QUEUES, queue)
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    done = await asyncio.to_thread(doctor, "--preflight", "--json", "--kubeconfig", kubeconfig)
    findings = json.loads(done.stdout)["findings"]
    assert done.exit_code == 1
    assert {(each["check"], each["object"], each["what"].partition(":")[0]) for each in findings} == {
        ("kueue-settings", "ConfigMap kueue-system/kueue-config", "multiKueue"),
        ("kueue-settings", "ConfigMap kueue-system/kueue-config", "integrations.frameworks"),
        ("kueue-fields", "AdmissionCheck multi", "is of kueue.x-k8s.io/multikueue, which is not implemented"),
        ("kueue-fields", "ClusterQueue q", "spec.concurrentAdmissionPolicy has no effect"),
    }
    said = (await asyncio.to_thread(doctor, "--preflight", "--kubeconfig", kubeconfig)).stdout
    assert said.splitlines()[-1].startswith("not ready to migrate: ")
