"""The Helm chart on a real API server: it installs what config/ does, helm checks its values, and a release
comes, changes and goes while jobs run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from api.kube.resources import CLUSTER_QUEUES
from hack.chart.__main__ import FOLDER
from hack.chart.kustomize import CONFIG, components
from hack.chart.templates import WHEN
from hack.controlplane.build import ensure
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.helm import RECIPE
from hack.controlplane.options import ClusterOptions
from tests.e2e.aggregated_roles import job_kind_roles
from tests.scenarios.site import RACK, Site
from tests.scenarios.stage import Stage, real

in_loop = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions()
NAMESPACE = "stowage-system"
BASES = ("namespace", "crd", "rbac", "webhook", "manager")
VALUES = {
    "selfsigned": "certificates.source=SelfSigned",
    "certmanager": "certificates.source=CertManager",
    "prometheus": "prometheus.enabled=true",
    "dashboard": "dashboard.enabled=true",
    "visibility": "visibility.enabled=true",
    "retention": "retention.enabled=true",
    "metricsauth": "metricsAuthentication.enabled=true",
}
"""The value of the chart that stands for a component of config/."""
Obj = dict[str, Any]
Helm = Callable[..., str]


class HelmError(Exception):
    """helm failed; the text is what it printed."""


@pytest.fixture(scope="module")
def helm(cluster: ControlPlane) -> Helm:
    """Runs helm and returns its output."""
    program = str(ensure(recipe=RECIPE).program("helm"))
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}

    def run(*args: str) -> str:
        done = subprocess.run([program, *args], capture_output=True, text=True, timeout=120, env=environment)
        if done.returncode:
            raise HelmError(done.stdout + done.stderr)
        return done.stdout

    return run


# ---- the same objects


def templated(helm: Helm, *values: str, namespace: str = NAMESPACE) -> str:
    chosen = [word for value in values for word in ("--set", value)]
    return helm("template", "any", str(FOLDER), "-n", namespace, "--kube-version", "1.36.0", *chosen)


def composed(cluster: ControlPlane, folder: Path, *chosen: str) -> str:
    """What kustomize makes of config/default with these components."""
    away = Path(os.path.relpath(CONFIG, folder.resolve()))
    body = {
        "resources": [str(away / name) for name in (*BASES, "network", "flowcontrol")],
        "components": [str(away / name) for name in chosen],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return cluster.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder))


def installed(text: str) -> dict[tuple[str, str], Obj]:
    """Objects by kind and name, without what the two tools write in forms of their own."""
    text = re.sub(r"\bstowage-config-[a-z0-9]{10}\b", "stowage-config", text)
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in yaml.safe_load_all(text) if obj}
    # `helm install --create-namespace` makes it.
    found.pop(("Namespace", NAMESPACE), None)
    for obj in found.values():
        for metadata in (obj["metadata"], obj.get("spec", {}).get("template", {}).get("metadata", {})):
            for key in ("helm.sh/resource-policy", "checksum/settings"):
                metadata.get("annotations", {}).pop(key, None)
            if metadata.get("annotations") == {}:
                del metadata["annotations"]
        # kustomize puts what a patch adds first.
        pod = obj.get("spec", {}).get("template", {}).get("spec", {})
        for lists in (pod, *pod.get("containers", ())):
            for key in ("env", "volumes", "volumeMounts", "ports"):
                lists.get(key, []).sort(key=lambda item: item["name"])
        for hook in obj.get("webhooks", ()):
            for condition in hook.get("matchConditions", ()):
                condition["expression"] = " ".join(condition["expression"].split())
    settings = found["ConfigMap", "stowage-config"]["data"]
    settings.update({file: yaml.safe_load(content) for file, content in settings.items()})
    return found


CHOICES = {
    "default": ("selfsigned",),
    **{name: ("selfsigned", name) for name in VALUES if name not in ("selfsigned", "certmanager", "metricsauth")},
    "certmanager": ("certmanager",),
    "all": ("selfsigned", "prometheus", "visibility", "retention"),
}


@pytest.mark.parametrize("chosen", CHOICES.values(), ids=CHOICES)
def test_the_chart_and_kustomize_make_the_same_objects(
    cluster: ControlPlane, helm: Helm, tmp_path: Path, chosen: tuple[str, ...]
) -> None:
    ours = installed(templated(helm, *(VALUES[name] for name in chosen)))
    theirs = installed(composed(cluster, tmp_path, *chosen))
    assert ours.keys() == theirs.keys()
    for key, obj in theirs.items():
        assert ours[key] == obj, key


def test_metrics_authentication_also_turns_the_setting_on(helm: Helm) -> None:
    made = installed(templated(helm, VALUES["metricsauth"]))
    assert ("ClusterRole", "stowage-metrics-reader") in made
    for process in ("controller", "webhook", "ungater"):
        (container,) = made["Deployment", f"stowage-{process}"]["spec"]["template"]["spec"]["containers"]
        assert {"name": "STOWAGE_HEALTH_AUTHENTICATION", "value": "true"} in container["env"]


def test_each_component_has_a_value() -> None:
    assert set(components()) == VALUES.keys() <= WHEN.keys()


def test_a_release_in_another_namespace_names_no_other(helm: Helm) -> None:
    text = templated(helm, *(VALUES[name] for name in ("prometheus", "visibility")), namespace="scheduling")
    board = re.compile(r"  board\.json: \|\n(?:    .*\n)+")
    assert NAMESPACE not in board.sub("", text)


def test_values_of_pods_arrive(helm: Helm) -> None:
    chosen = (
        "image.repository=registry.example/stowage", "image.pullSecrets[0].name=pull", "webhook.nodeSelector.pool=system",
        "webhook.tolerations[0].operator=Exists", "webhook.priorityClassName=system-cluster-critical",
        "webhook.podAnnotations.team=infra", "webhook.env[0].name=TZ", "webhook.env[0].value=UTC", "webhook.replicas=1",
    )  # fmt: skip
    made = installed(templated(helm, *chosen))
    template = made["Deployment", "stowage-webhook"]["spec"]["template"]
    pod = template["spec"]
    assert template["metadata"]["annotations"] == {"team": "infra"}
    assert pod["containers"][0]["image"].startswith("registry.example/stowage:")
    assert {"name": "TZ", "value": "UTC"} in pod["containers"][0]["env"]
    assert (pod["imagePullSecrets"], pod["nodeSelector"]) == ([{"name": "pull"}], {"pool": "system"})
    assert (pod["tolerations"], pod["priorityClassName"]) == ([{"operator": "Exists"}], "system-cluster-critical")
    # One pod could never be drained under a budget that wants one.
    assert ("PodDisruptionBudget", "stowage-webhook") not in made


WRONG = {
    "an unknown value": ("controler.replicas=3", "controler"),
    "a text for a number": ("webhook.replicas=many", "/webhook/replicas"),
    "an unknown source": ("certificates.source=None", "/certificates/source"),
    "an unknown setting": ("settings.placement.countin=Nodes", "/settings/placement"),
    "a setting out of bounds": ("settings.placement.exactBudget=0", "/settings/placement/exactBudget"),
    "a setting of the ungater": ("ungaterSettings.ungater.batchPeriod=-1", "/ungaterSettings/ungater/batchPeriod"),
}


@pytest.mark.parametrize(("value", "named"), WRONG.values(), ids=WRONG)
def test_helm_names_a_wrong_value(helm: Helm, value: str, named: str) -> None:
    with pytest.raises(HelmError, match=re.escape(named)):
        templated(helm, value)


def test_helm_lints_without_a_warning(helm: Helm) -> None:
    assert "0 chart(s) failed" in (told := helm("lint", "--strict", str(FOLDER)))
    assert "[WARNING]" not in told


# ---- a release


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(cluster: ControlPlane, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A release, and the three processes under the accounts that it made."""
    helm("install", "stowage", str(FOLDER), "-n", NAMESPACE, "--create-namespace")
    async with real(cluster, tmp_path_factory.mktemp("chart"), install=False) as found:
        yield found


def by_url(folder: Path, url: str) -> str:
    """A copy of the chart for processes that run outside of the cluster, where no Service leads to the webhook."""
    chart = Path(shutil.copytree(FOLDER, folder / "chart"))
    for file in (*chart.glob("templates/webhook/*configuration*"), *chart.glob("templates/crd/*")):
        service = r"( +)service:\n(?:\1  .*\n)*?\1  path: (\S+)\n(?:\1  .*\n)*"
        file.write_text(re.sub(service, rf"\1url: {url}\2\n", file.read_text()))
    return str(chart)


def accounts(cluster: ControlPlane) -> list[str]:
    found = json.loads(cluster.kubectl("get", "deploy", "-n", NAMESPACE, "-o", "json"))["items"]
    return sorted(each["spec"]["template"]["spec"]["serviceAccountName"] for each in found)


def apis(cluster: ControlPlane) -> str:
    return cluster.kubectl("get", "apiservices", "-l", "app.kubernetes.io/name=stowage", "-o", "name")


@in_loop
async def test_a_release_is_upgraded_rolled_back_and_removed_while_jobs_run(
    cluster: ControlPlane, helm: Helm, stage: Stage, tmp_path: Path
) -> None:
    site = Site(stage.kube, "chart")
    await site.open({"b1": {"r1": 2, "r2": 2}})
    assert accounts(cluster) == ["stowage-controller", "stowage-ungater", "stowage-webhook"]
    await site.submit(site.job("train", 8, {"kueue.x-k8s.io/podset-required-topology": RACK}))
    before = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in await site.running("train", 8)}
    assert len({node.rsplit("-", 1)[0] for node in before.values()}) == 1

    chart = by_url(tmp_path, stage.processes.webhook_url)
    job_kind_roles(cluster)
    helm("upgrade", "stowage", chart, "-n", NAMESPACE)
    helm("upgrade", "stowage", chart, "-n", NAMESPACE, "--set", "visibility.enabled=true")
    assert "v1beta2.visibility.kueue.x-k8s.io" in apis(cluster)
    helm("rollback", "stowage", "2", "-n", NAMESPACE)
    assert not apis(cluster)
    await site.submit(site.job("later", 8, {"kueue.x-k8s.io/podset-required-topology": RACK}))
    await site.running("later", 8)

    helm("uninstall", "stowage", "-n", NAMESPACE, "--wait")
    assert not accounts(cluster)
    assert (await site.kube.get(CLUSTER_QUEUES, site.name))["spec"]["resourceGroups"], "the CRDs stay, and all queues"
    after = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in await site.running("train", 8)}
    assert after == before
