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
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from rich.console import Console

from admission.cli.doctor import DoctorArguments, report_of
from admission.cli.install import CONFIG
from admission.cli.support_bundle import BundleArguments
from admission.cli.support_bundle import run as run_bundle
from admission.cli.topology import InitArguments
from admission.cli.topology import run as run_init
from admission.doctor.report import Report
from admission.settings import WebhookSection
from admission.world.rules import WorldRules
from api.kube.resources import Resource
from api.names import GROUP, HOSTNAME_LABEL, STOWAGE
from hack.controlplane.build import Tools
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.nodes import node
from hack.controlplane.options import ClusterOptions
from tests.admission.levels.test_plan import CLOUDS
from tests.builders import pod_template
from tests.crds import crd_of
from tests.scenarios.site import BLOCK, RACK, eventually
from tests.scenarios.site import GROUP as POOL
from tests.scenarios.stage import Stage, point_webhooks, real

in_loop = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions()
OURS = "stowage-system"
Obj = dict[str, Any]
TAINT = {"key": "dedicated", "value": "train", "effect": "NoSchedule"}
RESTARTED = "kubectl.kubernetes.io/restartedAt"


def train(name: str, block: str, rack: str) -> Obj:
    return node(name, {POOL: "train", BLOCK: block, RACK: rack}, taints=[TAINT])


NODES = [
    *(train(f"n{number}", "b1", "r1") for number in range(3)),
    train("n3", "b1", "r2"),
    node("n4", {"node-role.kubernetes.io/control-plane": ""}),
    node("n5", {"serves": "others"}),
]


def kueue(kind: str, name: str, spec: Obj, **meta: str) -> Obj:
    return {"apiVersion": f"{GROUP}/v1beta2", "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def queue(name: str, flavor: str, cpu: str, **spec: Any) -> Obj:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": resources}]}
    return kueue("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec})


OBJECTS = [
    kueue("Topology", "racks", {"levels": [{"nodeLabel": level} for level in (BLOCK, RACK, HOSTNAME_LABEL)]}),
    kueue(
        "ResourceFlavor",
        "train",
        {
            "nodeLabels": {POOL: "train"},
            "nodeTaints": [TAINT],
            "tolerations": [{**TAINT, "operator": "Equal"}],
            "topologyName": "racks",
        },
    ),
    kueue("ResourceFlavor", "serve", {"nodeLabels": {"serves": "others"}}),
    queue("research", "train", "64", cohortName="all"),
    queue("guests", "train", "0", cohortName="all"),
    queue("services", "serve", "16"),
    kueue("LocalQueue", "research", {"clusterQueue": "research"}, namespace="default"),
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "run", "namespace": "default", "labels": {f"{GROUP}/queue-name": "research"}},
        "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": pod_template()},
    },
]
"""A site where nothing is wrong, with a job that runs."""


@dataclass
class Kubelet:
    """Starts and ends the processes as the Deployments ask, and gives new webhook configurations their address."""

    cluster: ControlPlane
    stage: Stage
    seen: dict[str, str]

    async def catch_up(self) -> None:
        """Does what has changed since."""
        found = json.loads(self.cluster.kubectl("get", "deploy", "-n", OURS, "-o", "json"))["items"]
        for deployment in found:
            name = deployment["metadata"]["name"].removeprefix("stowage-")
            child = self.stage.processes.children[name]
            runs = child.process is not None and child.process.returncode is None
            annotations = deployment["spec"]["template"]["metadata"].get("annotations") or {}
            anew = self.seen.setdefault(name, "") != annotations.get(RESTARTED, "")
            self.seen[name] = annotations.get(RESTARTED, "")
            if runs and (anew or not deployment["spec"]["replicas"]):
                await child.stop()
            if deployment["spec"]["replicas"] and (anew or not runs):
                await self.stage.processes.restart(name)
        names = WebhookSection().mutating_configuration, WebhookSection().validating_configuration
        every = self.cluster.kubectl("get", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "-o", "name")
        if all(f"/{name}" in every for name in names):
            await point_webhooks(self.stage.kube, self.stage.processes.webhook_url, *names)


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


# ---- one fault at a time

Breaks = Callable[[Kubelet], Any]


def kubectl(*words: str, stdin: str | None = None) -> Breaks:
    return lambda kubelet: kubelet.cluster.kubectl(*words, stdin=stdin)


def patch(kind: str, name: str, body: Any, *words: str) -> Breaks:
    how = "json" if isinstance(body, list) else "merge"
    return kubectl("patch", kind, name, f"--type={how}", "-p", json.dumps(body), *words)


def label(name: str, *words: str) -> Breaks:
    return kubectl("label", "--overwrite", "node", name, *words)


async def crash(kubelet: Kubelet) -> None:
    await kubelet.stage.processes.crash("webhook")


async def stop(kubelet: Kubelet) -> None:
    kubelet.cluster.kubectl("scale", "-n", OURS, "deployment/stowage-webhook", "--replicas=0")
    await kubelet.catch_up()

    async def gone() -> bool:
        said = kubelet.cluster.kubectl("get", "-n", OURS, "deployment/stowage-webhook", "-o", "json")
        return not json.loads(said)["status"].get("availableReplicas")

    await eventually("the webhook's pods are gone", gone)


STRANGER = {"name": "stranger", "namespace": "default"}
FOREIGN_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": STRANGER,
    "spec": {**pod_template()["spec"], "nodeName": "n0", "tolerations": [{"operator": "Exists"}]},
}
OWNER = {"apiVersion": "example.com/v1", "kind": "Gone", "name": "gone", "uid": "0-0-0", "controller": True}
LEFTOVER = kueue(
    "Workload", "left", {"queueName": "research", "podSets": [{"name": "main", "count": 1, "template": pod_template()}]}
)
LEFTOVER["metadata"] |= {"namespace": "default", "ownerReferences": [OWNER]}
TRAIN_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "trains.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Train", "plural": "trains", "singular": "train", "listKind": "TrainList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
TRAIN = {
    "apiVersion": "example.com/v1",
    "kind": "Train",
    "metadata": {"name": "t", "namespace": "default", "labels": {f"{GROUP}/queue-name": "research"}},
}
KUEUE: Obj = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kueue-controller-manager", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "kueue"}},
        "template": {
            "metadata": {"labels": {"app": "kueue"}},
            "spec": {"containers": [{"name": "manager", "image": "kueue"}]},
        },
    },
}


def creates(*objects: Obj) -> Breaks:
    return kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(copy.deepcopy(list(objects))))


async def declares(kubelet: Kubelet) -> None:
    creates(TRAIN_CRD)(kubelet)
    kubelet.cluster.kubectl("wait", "--for=condition=Established", "crd/trains.example.com")
    creates(TRAIN)(kubelet)


async def unset_ca(kubelet: Kubelet) -> None:
    """Of a CRD that no dry run needs; the webhook looks after its CA once an hour, until it is started anew."""
    child = kubelet.stage.processes.children["webhook"]
    before = child.environment
    child.environment = {**before, "STOWAGE_WEBHOOK__CERTIFICATE_PERIOD": "3600"}
    await child.stop()
    await kubelet.stage.processes.restart("webhook")
    child.environment = before
    conversion = {"webhook": {"clientConfig": {"caBundle": None}}}
    patch("crd", f"workloadpriorityclasses.{GROUP}", {"spec": {"conversion": conversion}})(kubelet)


def config(addition: str) -> Breaks:
    """Adds to the settings of controller and webhook."""

    def change(kubelet: Kubelet) -> None:
        names = kubelet.cluster.kubectl("get", "cm", "-n", OURS, "-o", "name").split()
        name = next(each for each in names if "stowage-config" in each)
        text = json.loads(kubelet.cluster.kubectl("get", "-n", OURS, name, "-o", "json"))["data"]["admission.yaml"]
        body = json.dumps({"data": {"admission.yaml": f"{text}\n{addition}\n"}})
        kubelet.cluster.kubectl("patch", "-n", OURS, name, "--type=merge", "-p", body)

    return change


FIRST_QUOTA = "/spec/resourceGroups/0/flavors/0"
HELD = {"spec": {"holderIdentity": "ghost", "leaseDurationSeconds": 3600}}
CASES = [
    pytest.param(
        kubectl("delete", "crd", "jobkinds.stowage.dev"),
        "crds",
        "CustomResourceDefinition jobkinds.stowage.dev",
        id="a CRD is missing",
    ),
    pytest.param(stop, "deployments", "Deployment stowage-webhook", id="a Deployment has no replicas"),
    pytest.param(crash, "webhook-answers", "webhook stowage-webhook", id="the webhook does not answer"),
    pytest.param(
        kubectl("delete", "validatingwebhookconfiguration", "stowage-validating-webhook-configuration"),
        "webhook-configurations",
        "ValidatingWebhookConfiguration stowage-validating-webhook-configuration",
        id="a webhook configuration is missing",
    ),
    pytest.param(
        kubectl("delete", "clusterrolebinding", "stowage-ungater"),
        "rights",
        "ServiceAccount stowage-ungater",
        id="rights are missing",
    ),
    pytest.param(
        patch("lease", "stowage-ungater", HELD, "-n", OURS),
        "leases",
        "Lease stowage-ungater",
        id="a lease is held by a ghost",
    ),
    pytest.param(
        config("objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: 1h}}"),
        "settings-contradict",
        "settings objectRetentionPolicies.workloads.afterDeactivatedByKueue",
        id="a setting lacks its rights",
    ),
    pytest.param(
        creates(KUEUE), "other-controllers", "Deployment default/kueue-controller-manager", id="Kueue runs too"
    ),
    pytest.param(
        patch("clusterqueue", "services", [{"op": "replace", "path": f"{FIRST_QUOTA}/name", "value": "serv"}]),
        "queues-without-flavors",
        "ClusterQueue services",
        id="a queue names no flavor",
    ),
    pytest.param(label("n5", "serves-"), "flavors-without-nodes", "ResourceFlavor serve", id="a flavor has no node"),
    pytest.param(label("n0", f"{BLOCK}-"), "nodes-without-levels", "Node n0", id="a node has no block"),
    pytest.param(label("n1", f"{BLOCK}=b2"), "nodes-contradict", "Node n1", id="a rack is in two blocks"),
    pytest.param(creates(FOREIGN_POD), "foreign-pods", "Pod default/stranger", id="a foreign pod"),
    pytest.param(
        patch(
            "clusterqueue", "guests", [{"op": "add", "path": f"{FIRST_QUOTA}/resources/0/borrowingLimit", "value": "0"}]
        ),
        "cohorts-starve",
        "ClusterQueue guests",
        id="a queue may not borrow",
    ),
    pytest.param(creates(LEFTOVER), "leftover-workloads", "Workload default/left", id="a Workload is left over"),
    pytest.param(declares, "kinds-without-declaration", "Train default/t", id="a kind is not declared"),
    pytest.param(
        label("n3", "serves=others"), "flavors-overlap", "ResourceFlavor train", id="two flavors share a node"
    ),
    pytest.param(
        patch("crd", "jobkinds.stowage.dev", [{"op": "replace", "path": "/spec/versions/0/served", "value": False}]),
        "crds",
        "CustomResourceDefinition jobkinds.stowage.dev",
        id="a version is not served",
    ),
    pytest.param(
        unset_ca,
        "webhook-certificates",
        f"CustomResourceDefinition workloadpriorityclasses.{GROUP}",
        id="a CRD has no CA",
    ),
    pytest.param(
        kubectl("delete", "clusterrole", "stowage-controller"),
        "rights",
        "ServiceAccount stowage-controller",
        id="a role is missing",
    ),
    pytest.param(
        patch("clusterqueue", "services", {"spec": {"resourceGroups": None}}),
        "queues-without-flavors",
        "ClusterQueue services",
        id="a queue has no flavor",
    ),
    pytest.param(
        creates(kueue("LocalQueue", "lost", {"clusterQueue": "none"}, namespace="default")),
        "queues-without-target",
        "LocalQueue default/lost",
        id="a LocalQueue leads nowhere",
    ),
    pytest.param(
        creates(kueue("ResourceFlavor", "late", {"nodeLabels": {"pool": "late"}, "topologyName": "late"})),
        "flavors-without-topology",
        "ResourceFlavor late",
        id="a flavor names no Topology",
    ),
    pytest.param(label("n2", f"{HOSTNAME_LABEL}=n1"), "nodes-contradict", "Node n2", id="two nodes have one hostname"),
    pytest.param(
        creates(
            kueue("Cohort", "left", {"parentName": "right"}),
            kueue("Cohort", "right", {"parentName": "left"}),
        ),
        "cohorts-cycle",
        "Cohort left",
        id="cohorts are each other's parents",
    ),
    pytest.param(
        creates(
            {
                "apiVersion": f"{STOWAGE}/v1alpha1",
                "kind": "JobKind",
                "metadata": {"name": "ghosts.example.com"},
                "spec": {
                    **yaml.safe_load((CONFIG / "samples" / "job-kind.yaml").read_text())["spec"],
                    "plural": "ghosts",
                    "kind": "Ghost",
                },
            }
        ),
        "jobkinds-inactive",
        "JobKind ghosts.example.com",
        id="a JobKind's kind is not served",
    ),
]
"""Each leaves a site where nothing is wrong, if not the same."""


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
