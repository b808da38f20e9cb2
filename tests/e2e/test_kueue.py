"""Beside Kueue itself, which has admitted a Job: `stowage doctor --preflight`, then the migration there and back.

Kueue's manager is built from its module (hack/controlplane/kueue) and installed with the
objects of its own config/default. A part of its objects is stored in v1beta1, as by a Kueue that was upgraded.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from admission.cli.main import app
from admission.integrations.pods.pod import role_hash
from api.names import GROUP, HOSTNAME_LABEL, MULTIKUEUE, ROLE_HASH
from hack.controlplane import kueue
from hack.controlplane.api import eventually
from hack.controlplane.build import Tools
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.errors import RequestError
from hack.controlplane.fixtures import built
from hack.controlplane.nodes import node
from hack.controlplane.options import ClusterOptions
from tests.builders import pod_template
from tests.scenarios.site import BLOCK, RACK
from tests.scenarios.site import GROUP as NODE_GROUP
from tests.scenarios.stage import real

pytestmark = pytest.mark.long  # Kueue's manager is built the first time: two minutes of two cores
CONTROL_PLANE = ClusterOptions()
FLAVOR, QUEUE = "gpu", "research"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
Obj = dict[str, Any]


def named(kind: str, name: str, spec: Obj, version: str = "v1beta1", **meta: Any) -> Obj:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def objects() -> list[Obj]:
    """Queues for three CPUs on the hosts of one rack."""
    levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOSTNAME_LABEL)]
    resources = [{"name": "cpu", "nominalQuota": 3}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": resources}]}
    fungible = {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}
    queue = {"cohort": "all", "namespaceSelector": {}, "flavorFungibility": fungible, "resourceGroups": [group]}
    return [
        named("Topology", "dc", {"levels": levels}),
        named("ResourceFlavor", FLAVOR, {"nodeLabels": {NODE_GROUP: FLAVOR}, "topologyName": "dc"}),
        named("ClusterQueue", QUEUE, queue),
        named("LocalQueue", "lq", {"clusterQueue": QUEUE}, namespace="default"),
    ]


def job(name: str, pods: int) -> Obj:
    template = pod_template("1")
    template["metadata"] = {"annotations": {f"{GROUP}/podset-required-topology": RACK}}
    metadata = {"name": name, "namespace": "default", "labels": {f"{GROUP}/queue-name": "lq"}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def apply(cluster: ControlPlane, *arguments: Obj) -> None:
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(arguments))


def store_in(cluster: ControlPlane, version: str) -> None:
    """What is written from now on is stored in this version."""
    for kind in ("clusterqueues", "localqueues", "workloads"):
        crd = cluster.api.get(f"{CRDS}/{kind}.{GROUP}")
        versions = [{**each, "storage": each["name"] == version} for each in crd["spec"]["versions"]]
        cluster.api.merge(f"{CRDS}/{kind}.{GROUP}", {"spec": {"versions": versions}})


def running(cluster: ControlPlane, name: str, count: int) -> dict[str, str]:
    """Waits for this many running pods of a Job; their UIDs by name."""

    def found() -> dict[str, str]:
        items = cluster.api.get(f"/api/v1/namespaces/default/pods?labelSelector=job-name={name}")["items"]
        runs = {p["metadata"]["name"]: p["metadata"]["uid"] for p in items if p["status"].get("phase") == "Running"}
        return runs if len(runs) == count else {}

    return eventually(f"{count} pods of {name} run", found)


def workloads(cluster: ControlPlane) -> list[Obj]:
    """All of them; the API server does not answer for a moment after their CRD has changed."""

    def read() -> Obj | None:
        try:
            return cluster.api.get(f"/apis/{GROUP}/v1beta2/workloads")
        except RequestError as failed:
            if failed.status != 429:
                raise
            return None

    found: list[Obj] = eventually("Workloads are served", read)["items"]
    return found


def admissions(cluster: ControlPlane) -> dict[str, Obj]:
    """What each Workload has got, by UID."""
    return {
        w["metadata"]["uid"]: w["status"]["admission"]
        for w in workloads(cluster)
        if w.get("status", {}).get("admission")
    }


def waits(cluster: ControlPlane, name: str) -> bool:
    """Whether the Job is suspended and its Workload says that quota is missing."""
    mine = [
        w.get("status", {}).get("conditions", ()) for w in workloads(cluster) if f"-{name}-" in w["metadata"]["name"]
    ]
    said = [each["message"] for conditions in mine for each in conditions]
    suspended = cluster.api.get(f"/apis/batch/v1/namespaces/default/jobs/{name}")["spec"].get("suspend")
    return bool(suspended) and any("insufficient unused quota" in each for each in said)


@pytest.fixture(scope="module")
def of_kueue() -> Tools:
    """Kueue's manager; skips where a user may make no namespaces of processes."""
    if subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], check=False).returncode:
        pytest.skip("this user may make no user and mount namespaces, which Kueue's manager needs here")
    return built(kueue.RECIPE)


@pytest.fixture(scope="module")
def manager(cluster: ControlPlane, of_kueue: Tools) -> Iterator[ExitStack]:
    """Kueue runs, and a Job of two pods that it has admitted; leaving the stack ends Kueue."""
    cluster.add_nodes(node(f"host-{n}", {BLOCK: "b1", RACK: "r1", NODE_GROUP: FLAVOR}) for n in range(4))
    with ExitStack() as stack:
        stack.enter_context(kueue.running(cluster, of_kueue))
        store_in(cluster, "v1beta1")
        apply(cluster, *objects())
        apply(cluster, job("train", 2))
        running(cluster, "train", 2)
        store_in(cluster, "v1beta2")
        yield stack


def preflight(cluster: ControlPlane, *words: str) -> tuple[int, str]:
    told = CliRunner().invoke(app, ["doctor", "--preflight", "--kubeconfig", str(cluster.kubeconfig), *words])
    return told.exit_code, told.stdout


def test_a_kueue_with_its_own_settings_is_ready_to_migrate(cluster: ControlPlane, manager: ExitStack) -> None:
    stored = cluster.api.get(f"{CRDS}/workloads.{GROUP}")["status"]["storedVersions"]
    assert stored == ["v1beta2", "v1beta1"]
    code, told = preflight(cluster)
    verdict, fate = told.splitlines()
    assert (code, verdict) == (0, "ready to migrate: 6 checks passed, 0 findings")
    assert fate.startswith("  Job: 1 with quota, 0 waiting: ")


# ---- roles of pods


def some(rng: Random, **parts: Any) -> Obj:
    """A draw of these parts, each there or not; also empty ones."""
    return {name: rng.choice(values) for name, values in parts.items() if rng.random() < 0.5}


def drawn_container(rng: Random, name: str) -> Obj:
    amounts = [{}, {"cpu": "1"}, {"memory": "1Gi", "cpu": "1500m"}, {"cpu": "0"}]
    resources = some(rng, requests=amounts, limits=[{}, {"cpu": "2", "memory": "2Gi"}])
    ports = [[], [{"containerPort": 80}], [{"name": "b", "containerPort": 81, "protocol": "UDP"}]]
    return {"name": name, "image": "none", **some(rng, resources=[resources, {}], ports=ports)}


def drawn_pod(rng: Random) -> Obj:
    """A pod with what its role depends on, drawn."""
    term = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    away = {"labelSelector": {"matchLabels": {"b": "1", "a": "2"}}, "topologyKey": HOSTNAME_LABEL}
    affinity = [
        {},
        {"nodeAffinity": required},
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}},
    ]
    spread = {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "ScheduleAnyway"}
    more = some(
        rng,
        nodeSelector=[{}, {"b": "1", "a": "2"}],
        tolerations=[[], [{"key": "a", "operator": "Exists"}]],
        affinity=affinity,
        topologySpreadConstraints=[[], [spread]],
        resources=[{}, {"requests": {"memory": "4Gi", "cpu": "4"}}, {"limits": {"cpu": "9", "memory": "9Gi"}}],
        priorityClassName=["system-node-critical"],
        initContainers=[[], [drawn_container(rng, "first")]],
    )
    containers = [drawn_container(rng, f"c{number}") for number in range(rng.choice([1, 1, 2]))]
    meta = {"name": f"drawn-{rng.randrange(10**9)}", "namespace": "default", "labels": {f"{GROUP}/queue-name": "lq"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **more}}


def test_the_role_of_a_pod_is_kueues(cluster: ControlPlane, manager: ExitStack) -> None:
    rng, compared = Random(36), 0
    for _ in range(60):
        pod = drawn_pod(rng)
        try:
            made = cluster.api.create("/api/v1/namespaces/default/pods?dryRun=All", pod)
        except RequestError as refused:
            if refused.status != 422:
                raise
            continue  # requests above limits, say
        assert role_hash(made["spec"]) == made["metadata"]["annotations"][ROLE_HASH], made["spec"]
        compared += 1
    assert compared > 20


# ---- one hindrance at a time

CONFIG_MAP = f"/api/v1/namespaces/{kueue.NAMESPACE}/configmaps/kueue-manager-config"
OWNER = {"apiVersion": "example.com/v1", "kind": "Train", "name": "t", "uid": "0-0-0", "controller": True}
POD_SET = {"name": "main", "count": 1, "template": pod_template("1")}
STRANGE = named("Workload", "of-a-train", {"queueName": "lq", "podSets": [POD_SET]}, "v1beta2", namespace="default")
STRANGE["metadata"]["ownerReferences"] = [OWNER]
MULTI = named("AdmissionCheck", "multi", {"controllerName": MULTIKUEUE}, "v1beta2")
USER = named("ClusterQueue", "elsewhere", {"namespaceSelector": {}, "admissionChecks": ["multi"]})
POLICY = {"migration": {"mode": "RetainFirstAdmission"}}
PARALLEL = named("ClusterQueue", "parallel", {"namespaceSelector": {}, "concurrentAdmissionPolicy": POLICY}, "v1beta2")


def settings(cluster: ControlPlane, text: str) -> None:
    """Adds to Kueue's Configuration."""
    given = yaml.safe_load(cluster.api.get(CONFIG_MAP)["data"][kueue.MANAGER_CONFIG])
    data = {kueue.MANAGER_CONFIG: yaml.safe_dump({**given, **yaml.safe_load(text)})}
    cluster.api.merge(CONFIG_MAP, {"data": data})


HINDRANCES: dict[str, tuple[Callable[[ControlPlane], object], tuple[str, str]]] = {
    "a setting that Stowage lacks": (
        lambda cluster: settings(cluster, "multiKueue: {gcInterval: 1m}"),
        ("kueue-settings", f"ConfigMap {kueue.NAMESPACE}/kueue-manager-config"),
    ),
    "a Workload of another kind": (lambda cluster: apply(cluster, STRANGE), ("kueue-kinds", "kind Train.example.com")),
    "MultiKueue, which a queue names": (
        lambda cluster: apply(cluster, MULTI, USER),
        ("kueue-fields", "AdmissionCheck multi"),
    ),
}


def run(command: str, tools: Tools) -> int:
    """The exit code of a command of the report, which kubectl on the PATH runs."""
    path = f"{tools.program('kubectl').parent}:{os.environ['PATH']}"
    return subprocess.run(command, shell=True, check=False, env={**os.environ, "PATH": path}, timeout=60).returncode


@pytest.mark.parametrize(("makes", "named_"), HINDRANCES.values(), ids=HINDRANCES)
def test_a_hindrance_is_named_alone(
    cluster: ControlPlane,
    manager: ExitStack,
    control_plane_tools: Tools,
    makes: Callable[[ControlPlane], object],
    named_: tuple[str, str],
) -> None:
    before = cluster.api.get(CONFIG_MAP)["data"]
    makes(cluster)
    code, told = preflight(cluster, "--json")
    (found,) = json.loads(told)["findings"]
    assert (code, found["check"], found["object"]) == (1, *named_)
    if found["command"].startswith("#"):  # the operator decides: undone here
        cluster.api.merge(CONFIG_MAP, {"data": before})
        cluster.kubectl("delete", "workload", "of-a-train", "-n", "default", "--ignore-not-found")
    else:
        assert run(found["command"], control_plane_tools) == 0
    assert preflight(cluster)[0] == 0


def test_a_field_that_kueue_lets_nobody_change_is_removed_when_its_webhooks_are_gone(
    cluster: ControlPlane, manager: ExitStack, control_plane_tools: Tools
) -> None:
    """As the report says: the guide deletes them in its first step."""
    apply(cluster, PARALLEL)
    code, told = preflight(cluster, "--json")
    (found,) = json.loads(told)["findings"]
    when, _, command = found["command"].partition(", run ")
    assert (code, found["object"], when[0]) == (1, "ClusterQueue parallel", "#")
    assert run(command, control_plane_tools) != 0
    webhooks = f"{WEBHOOKS}/validatingwebhookconfigurations"
    kept = cluster.api.get(f"{webhooks}/kueue-validating-webhook-configuration")
    cluster.api.delete(f"{webhooks}/kueue-validating-webhook-configuration")
    eventually("the queue can be changed", lambda: run(command, control_plane_tools) == 0)
    assert preflight(cluster)[0] == 0
    cluster.api.create(webhooks, {**kept, "metadata": {"name": kept["metadata"]["name"]}})


# ---- there and back, as docs/guides/kueue.md says


@pytest.mark.asyncio(loop_scope="module")
async def test_there_and_back_with_kueue_itself(
    cluster: ControlPlane, manager: ExitStack, of_kueue: Tools, tmp_path: Path
) -> None:
    before, admitted = running(cluster, "train", 2), admissions(cluster)
    assert len(admitted) == 1
    manager.close()
    for kind in ("mutating", "validating"):
        cluster.api.delete(f"{WEBHOOKS}/{kind}webhookconfigurations/kueue-{kind}-webhook-configuration")
    cluster.kubectl("-n", kueue.NAMESPACE, "scale", "deployment", "kueue-controller-manager", "--replicas=0")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", "config/development")
    async with real(cluster, tmp_path, install=False):
        # one CPU is left: what Kueue admitted counts
        await asyncio.to_thread(apply, cluster, job("second", 1))
        await asyncio.to_thread(running, cluster, "second", 1)
        await asyncio.to_thread(apply, cluster, job("third", 1))
        await asyncio.to_thread(eventually, "a third one waits", lambda: waits(cluster, "third"))
    assert running(cluster, "train", 2) == before
    both = admissions(cluster)
    assert {uid: both[uid] for uid in admitted} == admitted
    second = running(cluster, "second", 1)
    words = ["uninstall", "--keep-crds", "--yes", "--kubeconfig", str(cluster.kubeconfig)]
    away = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert away.exit_code == 0, away.output
    with kueue.running(cluster, of_kueue):
        eventually("Kueue lets the third one wait", lambda: waits(cluster, "third"))
        assert (running(cluster, "train", 2), running(cluster, "second", 1)) == (before, second)
        assert {uid: got for uid, got in admissions(cluster).items() if uid in both} == both
        cluster.api.delete("/apis/batch/v1/namespaces/default/jobs/second?propagationPolicy=Background")
        running(cluster, "third", 1)
    assert running(cluster, "train", 2) == before
