"""The way of the README on a real control plane: install, samples, a Job that runs; what people then see with kubectl.

Besides this, test_config.py shows single rights and outages of config/default, tests/hack/test_config.py that Deployments
agree with the code.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from admission.integrations.registry import DECLARED
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.nodes import node
from hack.controlplane.options import ClusterOptions
from tests.e2e.aggregated_roles import job_kind_roles
from tests.hack.rights import ALLOWED, KUEUE, OURS, Right
from tests.scenarios.failures import complaints
from tests.scenarios.site import BLOCK, GROUP, RACK, eventually
from tests.scenarios.stage import Stage, real

in_loop = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions(jobset=True)
CONFIG = Path(__file__).resolve().parents[2] / "config"
ACCOUNTS = ("stowage-controller", "stowage-ungater", "stowage-webhook")
Obj = dict[str, Any]


# ---- the installation itself


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    """The cluster with config/default, and nodes for its pods and those of the samples."""
    cluster.kubectl("apply", "--server-side", "-k", str(CONFIG / "default"))
    labels = [{BLOCK: "b1", RACK: rack, GROUP: "tas"} for rack in ("r1", "r2", "r3")]
    cluster.add_nodes(node(f"host-{n}", labels[n]) for n in range(3))
    return cluster


def objects_of(cluster: ControlPlane, folder: str) -> list[Obj]:
    """What the API server holds of a kustomization, without what time alone changes."""
    names = cluster.kubectl("kustomize", str(CONFIG / folder))
    found: list[Obj] = json.loads(cluster.kubectl("get", "-f", "-", "-o", "json", stdin=names))["items"]
    for obj in found:
        obj.pop("status", None)
        for field in ("resourceVersion", "managedFields"):
            obj["metadata"].pop(field, None)
    return found


def test_all_objects_are_taken_and_applying_again_changes_nothing(installed: ControlPlane) -> None:
    first = objects_of(installed, "default")
    told = installed.kubectl("apply", "--server-side", "-k", str(CONFIG / "default"))
    assert len(told.splitlines()) == len(first) == len(list(rendered(installed, "default")))
    assert objects_of(installed, "default") == first


def test_the_upgrade_command_works_twice_in_a_row_where_job_kinds_have_rights(installed: ControlPlane) -> None:
    """As docs/start.md gives it, without --force-conflicts: the rights on declared kinds are written by the API server."""
    end = job_kind_roles(installed)
    try:
        for _ in range(2):
            installed.kubectl("apply", "--server-side", "-k", str(CONFIG / "default"))
        role = json.loads(installed.kubectl("get", "clusterrole", "stowage-controller-job-kinds", "-o", "json"))
        assert role["rules"], "the rights are kept"
    finally:
        end()


@in_loop
async def test_the_deployments_pods_are_taken_and_find_their_nodes(installed: ControlPlane) -> None:
    async def available() -> bool:
        deployments = json.loads(installed.kubectl("get", "deploy", "-n", OURS, "-o", "json"))["items"]
        ready = {d["metadata"]["name"]: d["status"].get("availableReplicas") for d in deployments}
        return bool(ready == dict.fromkeys(ACCOUNTS, 2))

    await eventually("two replicas of each process", available, 90)
    pods = json.loads(installed.kubectl("get", "pods", "-n", OURS, "-o", "json"))["items"]
    assert Counter(pod["spec"]["serviceAccountName"] for pod in pods) == dict.fromkeys(ACCOUNTS, 2)


# ---- rights: all that is granted is needed

UNNEEDED_BUT_GRANTED = {
    # A Workload's owner reference and the in-use finalizers: OwnerReferencesPermissionEnforcement asks for these.
    *(
        f"update {group}/{resource}/finalizers"
        for group, resource in (
            ("batch", "jobs"),
            ("jobset.x-k8s.io", "jobsets"),
            ("leaderworkerset.x-k8s.io", "leaderworkersets"),
            *((adapter.resource.group, adapter.resource.plural) for adapter in DECLARED),
        )
    ),
    "update /pods/finalizers",
    *(f"update {KUEUE}/{kind}/finalizers" for kind in ("workloads", "clusterqueues", "resourceflavors", "topologies")),
    # A writer of a status may read it.
    *(
        f"get {KUEUE}/{kind}/status"
        for kind in ("workloads", "clusterqueues", "localqueues", "cohorts", "admissionchecks")
    ),
    # Queues and checks are written as one group of kinds.
    *(
        f"{verb} {KUEUE}/{kind}"
        for verb in ("update", "patch")
        for kind in ("localqueues", "cohorts", "admissionchecks")
    ),
    # A named Secret may be watched where it may be read.
    *(f"{verb} /secrets/stowage-webhook-server-cert" for verb in ("list", "watch")),
}


def granted(cluster: ControlPlane, account: str, namespace: str) -> Iterator[tuple[str, Right]]:
    """Every right that the authorizer knows of for the account in the namespace, and how the table above writes it."""
    kubeconfig = cluster.service_account(OURS, account)
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    told = cluster.kubectl(
        f"--kubeconfig={kubeconfig}", "create", "--validate=false", "-o", "json", "-f", "-", stdin=json.dumps(review)
    )
    status = json.loads(told)["status"]
    assert not status["incomplete"]
    for rule in status["resourceRules"]:
        if rule["apiGroups"] in (["authorization.k8s.io"], ["authentication.k8s.io"]):
            continue  # everybody may ask who he is and what he may do
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or [""]:
                        said = "/".join(part for part in (f"{verb} {group}", resource, name) if part)
                        yield said, Right(account, verb, resource, group, name=name)


@pytest.mark.parametrize("namespace", ["default", OURS])
@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_process_may_do_nothing_that_it_does_not_do(installed: ControlPlane, account: str, namespace: str) -> None:
    needed = {(r.account, r.verb, r.resource, r.group, r.name) for r in ALLOWED}
    unneeded = {
        said
        for said, right in granted(installed, account, namespace)
        if (right.account, right.verb, right.resource, right.group, right.name) not in needed
    }
    assert unneeded <= UNNEEDED_BUT_GRANTED


# ---- components


def rendered(cluster: ControlPlane, folder: str | Path) -> Iterator[Obj]:
    """What kustomize makes of a folder of config/, or of one of the test's own."""
    yield from yaml.safe_load_all(
        cluster.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", str(CONFIG / folder))
    )


@pytest.fixture
def variant(tmp_path: Path) -> Path:
    """An operator's own kustomization in place of config/default; the components are the test's."""
    return tmp_path


def compose(cluster: ControlPlane, folder: Path, *components: str) -> dict[tuple[str, str], Obj]:
    """config/default with other components, by kind and name."""
    away = Path(os.path.relpath(CONFIG, folder.resolve()))  # kustomize takes relative paths only
    body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(away / name) for name in ("namespace", "crd", "rbac", "webhook", "manager")],
        "components": [str(away / name) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in rendered(cluster, folder)}


def test_with_certmanager(installed: ControlPlane, variant: Path) -> None:
    made = compose(installed, variant, "certmanager")
    assert ("Certificate", "stowage-webhook") in made
    assert ("Secret", "stowage-webhook-server-cert") not in made
    assert ("ClusterRole", "stowage-webhook-ca") not in made, "the rights of self-made certificates are not needed then"
    for verb in ("Mutating", "Validating"):
        hooks = made[f"{verb}WebhookConfiguration", f"stowage-{verb.lower()}-webhook-configuration"]
        assert hooks["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "stowage-system/stowage-webhook"}
    pod = made["Deployment", "stowage-webhook"]["spec"]["template"]["spec"]
    assert {"config", "tmp", "certificates"} == {volume["name"] for volume in pod["volumes"]}


def test_with_prometheus(installed: ControlPlane, variant: Path) -> None:
    made = compose(installed, variant, "selfsigned", "prometheus")
    service = made["Service", "stowage-metrics"]
    monitor = made["ServiceMonitor", "stowage"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    assert port["name"] == monitor["spec"]["endpoints"][0]["port"]
    for name in ACCOUNTS:
        template = made["Deployment", name]["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert port["targetPort"] in {p["name"] for p in template["spec"]["containers"][0]["ports"]}
    assert made["PrometheusRule", "stowage"]["spec"]["groups"]
    board = made["ConfigMap", "stowage-board"]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(board["data"]["board.json"])["title"] == "Stowage"


def test_with_visibility(installed: ControlPlane, variant: Path) -> None:
    """The Service leads to the port that the controller serves once the component is there."""
    made = compose(installed, variant, "selfsigned", "visibility")
    template = made["Deployment", "stowage-controller"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    service = made["Service", "stowage-visibility"]["spec"]
    assert service["selector"].items() <= template["metadata"]["labels"].items()
    assert {"name": service["ports"][0]["targetPort"], "containerPort": 8082} in container["ports"]
    assert {"name": "STOWAGE_VISIBILITY_SERVER__ENABLED", "value": "true"} in container["env"]
    for version in ("v1beta1", "v1beta2"):
        spec = made["APIService", f"{version}.visibility.kueue.x-k8s.io"]["spec"]
        assert spec["service"] == {"name": "stowage-visibility", "namespace": OURS}
        assert "insecureSkipTLSVerify" not in spec


def test_with_dashboard(installed: ControlPlane, variant: Path) -> None:
    """The Deployment has the image and the settings of the other processes, and the Service leads to its port."""
    made = compose(installed, variant, "selfsigned", "dashboard")
    pods = {name: made["Deployment", f"stowage-{name}"]["spec"]["template"] for name in ("controller", "dashboard")}
    (container,) = pods["dashboard"]["spec"]["containers"]
    (other,) = pods["controller"]["spec"]["containers"]
    assert container["image"] == other["image"]
    volumes = [[each for each in pod["spec"]["volumes"] if each["name"] == "config"] for pod in pods.values()]
    assert volumes[0] == volumes[1]
    service = made["Service", "stowage-dashboard"]["spec"]
    assert service["selector"].items() <= pods["dashboard"]["metadata"]["labels"].items()
    assert service["ports"][0]["targetPort"] in {port["name"] for port in container["ports"]}
    rules = made["ClusterRole", "stowage-dashboard"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}


# ---- the samples, with the processes running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(installed: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Applied over config/default, config/development gives the webhooks the address of a process outside."""
    async with real(installed, tmp_path_factory.mktemp("install")) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def samples(installed: ControlPlane, stage: Stage) -> ControlPlane:
    """The cluster with the samples applied, both jobs running."""
    assert stage.processes.pids
    installed.kubectl("apply", "-k", str(CONFIG / "samples"))
    installed.kubectl("apply", "-f", str(CONFIG / "samples" / "jobset-prefer.yaml"))

    async def running() -> bool:
        pods = json.loads(installed.kubectl("get", "pods", "-n", "default", "-o", "json"))["items"]
        return [pod["status"].get("phase") for pod in pods] == ["Running"] * 19

    await eventually("the pods of both samples run", running, 90)
    return installed


@in_loop
async def test_the_sample_job_runs_in_one_rack(samples: ControlPlane) -> None:
    chosen = "--selector=batch.kubernetes.io/job-name=require-rack"
    pods = json.loads(samples.kubectl("get", "pods", "-n", "default", chosen, "-o", "json"))["items"]
    nodes = {n["metadata"]["name"]: n for n in json.loads(samples.kubectl("get", "nodes", "-o", "json"))["items"]}
    assert len({nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][RACK] for pod in pods}) == 1


@in_loop
async def test_the_samples_applied_again_are_unchanged(samples: ControlPlane) -> None:
    told = samples.kubectl("apply", "-k", str(CONFIG / "samples"))
    assert {line.split()[-1] for line in told.splitlines()} == {"unchanged"}


TABLES = {
    "workloads": (["NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "REASON", "AGE"], "job-require-rack"),
    "kwl": (["NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "REASON", "AGE"], "jobset-prefer-block"),
    "clusterqueues": (["NAME", "COHORT", "PENDING WORKLOADS", "AGE"], "tas-cluster-queue"),
    "cq": (["NAME", "COHORT", "PENDING WORKLOADS", "AGE"], "tas-cluster-queue"),
    "localqueues": (["NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE"], "tas-user-queue"),
    "lq": (["NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE"], "tas-user-queue"),
    "queue": (["NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE"], "tas-user-queue"),
    "resourceflavors": (["NAME", "TOPOLOGY", "LEVELS", "AGE"], "tas-flavor-by-host"),
    "rf": (["NAME", "TOPOLOGY", "LEVELS", "AGE"], "tas-flavor"),
    "flavors": (["NAME", "TOPOLOGY", "LEVELS", "AGE"], "tas-flavor"),
    "topologies": (["NAME", "AGE"], "default"),
    "topo": (["NAME", "AGE"], "default"),
}


@pytest.mark.parametrize("word", TABLES)
@in_loop
async def test_kubectl_shows(samples: ControlPlane, word: str) -> None:
    columns, name = TABLES[word]
    header, *rows = samples.kubectl("get", word, "-n", "default").splitlines()
    assert [column.strip() for column in header.split("   ") if column.strip()] == columns
    assert any(row.startswith(name) for row in rows)


@in_loop
async def test_a_workload_tells_where_its_quota_is(samples: ControlPlane) -> None:
    (row,) = (r for r in samples.kubectl("get", "kwl", "-n", "default").splitlines() if r.startswith("job-"))
    assert row.split()[1:4] == ["tas-user-queue", "tas-cluster-queue", "True"]


@in_loop
async def test_describe_tells_the_story(samples: ControlPlane) -> None:
    (name,) = (
        r.split()[0] for r in samples.kubectl("get", "kwl", "-n", "default").splitlines() if r.startswith("job-")
    )

    async def told() -> bool:
        story = samples.kubectl("describe", "kwl", name, "-n", "default")
        return "Quota reserved in ClusterQueue tas-cluster-queue" in story and "Admitted by ClusterQueue" in story

    await eventually("the events of the admission", told)


@in_loop
async def test_no_process_logged_an_error(stage: Stage, samples: ControlPlane) -> None:
    assert samples.options.jobset
    assert not complaints(stage.processes.folder)
