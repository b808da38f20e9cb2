"""`stowage doctor` on a real control plane: a healthy site has no fault; each fault is named alone, and its command fixes it.

config/default is installed by kustomize. The three processes run outside, under their ServiceAccounts; `Kubelet` does with
them what the Deployments say.
"""

from __future__ import annotations

import asyncio
import copy
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from rich.console import Console

from admission.cli.doctor import DoctorArguments, report_of
from admission.cli.local_cluster.install import CONFIG
from admission.cli.support_bundle import BundleArguments
from admission.cli.support_bundle import run as run_bundle
from admission.cli.topology import InitArguments
from admission.cli.topology import run as run_init
from admission.doctor.finding import Finding
from admission.doctor.report import Report
from admission.world.rules import WorldRules
from api.kube.resources import Resource
from api.names import GROUP, STOWAGE
from hack.controlplane.build import Tools
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.admission.levels.test_plan import CLOUDS
from tests.builders import pod_template
from tests.crds import crd_of
from tests.e2e.doctor_faults import CASES, KUEUE, Breaks, creates
from tests.e2e.doctor_site import NODES, OBJECTS, OURS, Kubelet, Obj, kueue
from tests.scenarios.site import RACK, eventually
from tests.scenarios.stage import real

in_loop = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kubelet(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kubelet]:
    """The healthy installation."""
    cluster.kubectl("apply", "--server-side", "-k", str(CONFIG / "default"))
    cluster.add_nodes(NODES)
    async with real(cluster, tmp_path_factory.mktemp("doctor"), {"STOWAGE_WEBHOOK__CERTIFICATE_PERIOD": "1"}) as stage:
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(copy.deepcopy(OBJECTS)))
        found = Kubelet(cluster, stage, {})

        async def runs() -> bool:
            pods = json.loads(cluster.kubectl("get", "pods", "-n", "default", "-o", "json"))["items"]
            return [pod["status"].get("phase") for pod in pods] == ["Running"] * 2

        await eventually("the job runs", runs)
        yield found


async def examined(cluster: ControlPlane) -> Report:
    return await report_of(DoctorArguments(kubeconfig=cluster.kubeconfig))


def named(report: Report) -> list[tuple[str, str]]:
    """The check and object of each finding."""
    assert not report.unread
    return [(check.name, each.object) for check, found in report.findings for each in found]


async def is_healthy(cluster: ControlPlane) -> bool:
    return not named(await examined(cluster))


def shell(tools: Tools, command: str) -> str:
    """Runs a command as an operator does, with kubectl and stowage on the PATH, and returns what it prints."""
    path = f"{tools.program('kubectl').parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@in_loop
async def test_nothing_is_wrong_with_a_healthy_installation(kubelet: Kubelet, control_plane_tools: Tools) -> None:
    """By way of kubectl's plugin."""
    await eventually("the replicas are available", lambda: is_healthy(kubelet.cluster))
    command = f"kubectl stowage doctor --kubeconfig {kubelet.cluster.kubeconfig}"
    said = await asyncio.to_thread(shell, control_plane_tools, command)
    assert said.startswith("nothing is wrong: ")


CRANES = Resource("example.com", "v1", "cranes", "Crane")
QUEUED = {f"{GROUP}/queue-name": "research"}
CRANE = {
    "apiVersion": CRANES.api_version,
    "kind": CRANES.kind,
    "metadata": {"name": "tower", "namespace": "default", "labels": QUEUED},
    "spec": {
        "state": "Parked",
        "teams": [{"name": "north", "crews": [{"name": "lift", "size": 1, "pod": pod_template()}], "shifts": 1}],
    },
}
NO_PODS = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
REFUSED = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "refused", "namespace": "narrow", "labels": QUEUED},
    "spec": {"template": pod_template()},
}
MOVABLE = {f"{STOWAGE}/movable": "true", f"{STOWAGE}/moves-per-day": "3"}


def reservation(name: str, label: str, **spec: Any) -> Obj:
    times = {"start": "2100-03-01T06:00:00Z", "end": "2100-03-01T10:00:00Z"}
    spec = {"nodeLabels": {RACK: label}, **times, **spec}
    return {
        "apiVersion": f"{STOWAGE}/v1alpha1",
        "kind": "AdvanceReservation",
        "metadata": {"name": name},
        "spec": spec,
    }


@in_loop
async def test_objects_of_all_features_are_no_fault(kubelet: Kubelet, control_plane_tools: Tools) -> None:
    """Reservations, moves, a kind that is declared, refused pods, and a Kueue that is stopped; they stay for the faults."""
    cluster = kubelet.cluster
    creates(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **crd_of(CRANES)},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "narrow"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}},
    )(kubelet)
    cluster.kubectl("wait", "--for=condition=Established", "crd/cranes.example.com")
    sample = CONFIG / "samples" / "job-kind.yaml"
    rights = await asyncio.to_thread(shell, control_plane_tools, f"stowage jobkind rbac {sample}")
    cluster.kubectl("apply", "-f", "-", stdin=rights)
    cluster.kubectl("apply", "-f", str(sample))
    cluster.kubectl("wait", "--for=condition=Active", "jobkind/cranes.example.com", "--timeout=60s")
    stopped = {
        **KUEUE,
        "metadata": {**KUEUE["metadata"], "namespace": "kueue-system"},
        "spec": {**KUEUE["spec"], "replicas": 0},
    }
    creates(
        CRANE,
        stopped,
        reservation("maintenance", "r2"),
        reservation("run", "r2", clusterQueue="research", namespaces=["default"]),
        {**NO_PODS, "metadata": {"name": "none", "namespace": "narrow"}},
        kueue("LocalQueue", "research", {"clusterQueue": "research"}, namespace="narrow"),
        REFUSED,
    )(kubelet)
    cluster.kubectl("annotate", "clusterqueue", "research", *(f"{key}={value}" for key, value in MOVABLE.items()))
    cluster.kubectl("annotate", "topology", "racks", f"{STOWAGE}/defragment=rack: largest gang < 1 hosts")

    async def told() -> bool:
        return "PodsNotCreated" in cluster.kubectl("get", "events,workloads", "-n", "narrow", "-o", "json")

    async def waits_or_runs() -> bool:
        return "crane" in cluster.kubectl("get", "workloads", "-n", "default", "-o", "name").lower()

    await eventually("the pods that are refused are told", told)
    await eventually("the crane has a Workload", waits_or_runs)
    await eventually("nothing is wrong", lambda: is_healthy(cluster))
    for each in ("crane/tower", "jobkind/cranes.example.com"):  # a fault below is that its CRD is gone, and it with it
        cluster.kubectl("delete", each, "-n", "default", "--timeout=60s")
    await eventually("nothing is wrong without them", lambda: is_healthy(cluster))


@in_loop
async def test_what_topology_init_prints_is_accepted(kubelet: Kubelet) -> None:
    """For the nodes of six clouds (tests/admission/levels)."""
    printed = []
    for file in sorted(CLOUDS.glob("*.yaml")):
        out, err = (Console(file=io.StringIO()) for _ in range(2))
        assert await asyncio.to_thread(run_init, InitArguments([file], name=file.stem), out, err) == 0
        printed.append(out.file.getvalue())  # type: ignore[attr-defined]  # a StringIO
    assert len(printed) == 6
    words = ("apply", "--server-side", "--dry-run=server", "-f", "-")
    told = await asyncio.to_thread(kubelet.cluster.kubectl, *words, stdin="---\n".join(printed))
    assert told.count("topology.kueue.x-k8s.io/") == 8
    assert told.count("resourceflavor.kueue.x-k8s.io/") == 8


@in_loop
async def test_a_support_bundle_has_all_but_what_no_kubelet_serves(kubelet: Kubelet, tmp_path: Path) -> None:
    """kwok's pods have neither logs nor metrics here."""
    err = Console(file=io.StringIO())
    asked = BundleArguments(tmp_path / "bundle.tgz", kubeconfig=kubelet.cluster.kubeconfig)
    assert await asyncio.to_thread(run_bundle, asked, WorldRules(), err) == 1
    with tarfile.open(asked.output) as tar:
        names = {name.removeprefix("stowage-support/") for name in tar.getnames()}
    wanted = ("README.txt", "version.json", "doctor.json", "snapshot.json", "objects/workloads.kueue.x-k8s.io.json")
    assert {*wanted, "objects/pods.core.json", "objects/events.core.json"} <= names
    told = err.file.getvalue().splitlines()[:-1]  # type: ignore[attr-defined]  # a StringIO
    assert {line.partition("/")[0] for line in told} == {"logs", "metrics"}


@pytest.mark.parametrize(("breaks", "check", "object_"), CASES)
@in_loop
async def test_a_fault_is_named_alone_and_mended(
    kubelet: Kubelet, control_plane_tools: Tools, breaks: Breaks, check: str, object_: str
) -> None:
    cluster = kubelet.cluster
    if asyncio.iscoroutine(done := breaks(kubelet)):
        await done

    seen: list[Report] = []

    async def found() -> bool:
        seen[:] = [await examined(cluster)]
        return not seen[0].unread and named(seen[0]) == [(check, object_)]

    try:
        await eventually(f"{check}: {object_}", found, 90)
    except AssertionError as failed:
        raise AssertionError(f"{seen[0].findings}, {seen[0].unread}") from failed
    (_, (finding,)) = seen[0].findings[0]
    await asyncio.to_thread(shell, control_plane_tools, finding.command)
    await kubelet.catch_up()
    await eventually("healthy again", lambda: is_healthy(cluster))


NOWHERE = {
    "strategy": {"type": "Recreate", "rollingUpdate": None},
    "template": {"spec": {"nodeSelector": {"pool": "none"}}},
}
ANYWHERE = {"strategy": {"type": "RollingUpdate"}, "template": {"spec": {"nodeSelector": {"pool": None}}}}


@in_loop
async def test_of_pods_without_a_node_doctor_says_why_and_advises_no_restart(
    kubelet: Kubelet, control_plane_tools: Tools
) -> None:
    cluster, name = kubelet.cluster, "stowage-controller"

    def patch(spec: Obj) -> None:
        cluster.kubectl("-n", OURS, "patch", "deployment", name, "--type=merge", "-p", json.dumps({"spec": spec}))

    patch(NOWHERE)
    try:

        async def pending() -> Finding | None:
            report = await examined(cluster)
            if named(report) != [("deployments", f"Deployment {name}")]:
                return None
            (_, (finding,)) = report.findings[0]
            return finding if "is Pending: 0/6 nodes are available" in finding.what else None

        finding = await eventually("doctor says why the pods wait", pending)
        remark, _, command = finding.command.rpartition(": kubectl ")
        assert remark == "# a restart does not help: mend what the pod's events name"
        told = await asyncio.to_thread(shell, control_plane_tools, f"kubectl {command}")
        assert "FailedScheduling" in told
    finally:
        patch(ANYWHERE)
    await eventually("healthy again", lambda: is_healthy(cluster))


# ---- what is not Stowage's, and what a user may not see

BROKEN = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "policies"},
    "webhooks": [
        {
            "name": "all.policies.example.com",
            "clientConfig": {"service": {"namespace": "policies", "name": "engine"}},
            "rules": [{"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 2,
        }
    ],
}


@in_loop
async def test_a_webhook_of_others_that_is_down_is_not_taken_for_ours(kubelet: Kubelet) -> None:
    creates(BROKEN)(kubelet)
    try:

        async def found() -> Report | None:
            report = await examined(kubelet.cluster)
            return report if named(report) == [("webhook-answers", "webhook all.policies.example.com")] else None

        report = await eventually("it is named", found)
    finally:
        kubelet.cluster.kubectl("delete", "validatingwebhookconfiguration", "policies")
    assert report is not None
    (_, (finding,)) = report.findings[0]
    words = "# start the pods of Service policies/engine, or: kubectl"
    assert finding.command.startswith(words)
    assert finding.command.endswith(" delete validatingwebhookconfiguration policies")


@in_loop
@pytest.mark.parametrize("role", [None, "view", "stowage-batch-admin"])
async def test_what_a_user_may_not_read_is_said_and_nothing_is_called_healthy(
    kubelet: Kubelet, control_plane_tools: Tools, role: str | None
) -> None:
    """A check passes only if the user may list all that it reads."""
    cluster, name = kubelet.cluster, f"looks-{role}".lower()
    cluster.kubectl("create", "serviceaccount", name, "-n", "default")
    if role:
        words = (f"--clusterrole={role}", f"--serviceaccount=default:{name}")
        cluster.kubectl("create", "clusterrolebinding", name, *words)
    own = cluster.service_account("default", name)
    report = await report_of(DoctorArguments(kubeconfig=own))
    user = f"--as=system:serviceaccount:default:{name}"
    for check in report.passed:
        for each in (read for read in check.reads if isinstance(read, Resource)):
            where = ("-n", OURS) if each.plural in ("configmaps", "services", "leases") else ("-A",)
            verb = ("auth", "can-i", "list", f"{each.plural}.{each.group}".rstrip("."), *where, user)
            assert cluster.kubectl(*verb).strip() == "yes", (check.name, each)
    assert report.unread
    assert not report.findings
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "admission.cli", "doctor", f"--kubeconfig={own}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "nothing is wrong" not in done.stdout
    assert "not looked at: " in done.stdout
