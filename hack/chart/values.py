"""The values of the chart: what they mean, their defaults, and the schema that helm checks them against."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from admission.settings import AdmissionSettings
from api.process.environment import Environment
from api.text.manifests import read_one
from hack.chart import kustomize
from ungater.settings import UngaterSettings

PROCESSES: Final = ("controller", "webhook", "ungater")
OF_A_POD: Final = frozenset({"config", "kubeconfig", "context", "namespace", "identity"})
"""Settings that the chart sets itself or that a pod does not need."""


class Values(BaseModel):
    """A group of values. helm rejects a name that is not declared."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, alias_generator=to_camel)


class Image(Values):
    """The image of all processes."""

    repository: str = Field(min_length=1, description="name of the image, with its registry")
    tag: str = Field(min_length=1, description="tag, or `tag@sha256:...`")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field("IfNotPresent", description="as in a container")
    pull_secrets: list[dict[str, str]] = Field([], description="references to Secrets, as in a pod")


class Process(Values):
    """One of the processes, a Deployment."""

    replicas: int = Field(ge=0, description="number of pods; with fewer than 2 the PodDisruptionBudget is left out")
    resources: dict[str, Any] = Field(description="requests and limits, as in a container")
    env: list[dict[str, Any]] = Field([], description="more environment variables, as in a container")
    pod_annotations: dict[str, str] = Field({}, description="annotations of the pods")
    node_selector: dict[str, str] = Field({}, description="as in a pod")
    tolerations: list[dict[str, Any]] = Field([], description="as in a pod")
    priority_class_name: str = Field("", description="as in a pod")


class OptionalProcess(Process):
    """A process that is off by default."""

    enabled: bool = Field(False, description="install it")


class Certificates(Values):
    """The certificates of the webhook."""

    source: Literal["SelfSigned", "CertManager"] = Field(
        "SelfSigned",
        description="the webhook makes and rotates them itself, or cert-manager (which must be installed) does",
    )


class Crds(Values):
    """The CustomResourceDefinitions."""

    install: bool = Field(True, description="install and upgrade them with the release")
    keep: bool = Field(
        True, description="`helm uninstall` leaves them, since every queue and Workload is deleted with its CRD"
    )


class PodNetworks(Values):
    """The networks of the cluster's pods, which may not reach the webhook."""

    ipv4: list[str] = Field(description="CIDRs")
    ipv6: list[str] = Field(description="CIDRs")


class Network(Values):
    """NetworkPolicies."""

    enabled: bool = Field(True, description="restrict which addresses reach the ports of the processes")
    pod_networks: PodNetworks = Field(description="networks of pods, to which the webhook's port is closed")


class Switch(Values):
    """An optional part, off by default."""

    enabled: bool = Field(False, description="install it")


class FlowControl(Values):
    """API Priority and Fairness."""

    enabled: bool = Field(True, description="give the processes a priority level of their own at the API server")


class Chart(Values):
    """All values."""

    image: Image = Field(description="the image of all processes")
    controller: Process = Field(description="the process that admits workloads")
    webhook: Process = Field(description="the process that reviews jobs and pods when they are created")
    ungater: Process = Field(description="the process that opens the gates of pods")
    dashboard: OptionalProcess = Field(description="the process that serves the page (docs/dashboard.md)")
    settings: dict[str, Any] = Field(
        description="settings of the controller, the webhook and the dashboard (docs/settings.md)"
    )
    ungater_settings: dict[str, Any] = Field(description="settings of the ungater (docs/settings.md)")
    certificates: Certificates = Field(Certificates(), description="certificates of the webhook")
    crds: Crds = Field(Crds(), description="CustomResourceDefinitions")
    network: Network = Field(description="NetworkPolicies; a network plugin must support them")
    flow_control: FlowControl = Field(FlowControl(), description="priority of requests at the API server")
    prometheus: Switch = Field(
        Switch(), description="monitors and alerts for a Prometheus operator, and a Grafana board"
    )
    visibility: Switch = Field(Switch(), description="Kueue's visibility API (docs/visibility.md)")
    retention: Switch = Field(
        Switch(),
        description="the right to delete jobs, for the setting objectRetentionPolicies.afterDeactivatedByKueue",
    )
    metrics_authentication: Switch = Field(
        Switch(), description="health and metrics only for accounts that the API server authorizes"
    )


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of values.yaml. The settings of the processes are checked as the processes check them."""
    found = Chart.model_json_schema()
    for name, settings in (("settings", AdmissionSettings), ("ungaterSettings", UngaterSettings)):
        found["$defs"] |= (inner := _settings(settings)).pop("$defs")
        found["properties"][name] = {**inner, "description": found["properties"][name]["description"]}
    # A subchart of another chart gets its `global`; pydantic has no name for it, as it is no value of this chart.
    found["properties"]["global"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_untitled(found)}


def _settings(settings: type[Environment]) -> dict[str, Any]:
    found = settings.model_json_schema()
    names = found["properties"]
    found["properties"] = {to_camel(name): value for name, value in names.items() if name not in OF_A_POD}
    return found


def _untitled(value: Any) -> Any:
    """Without the titles that pydantic derives from names."""
    if isinstance(value, dict):
        return {key: _untitled(inner) for key, inner in value.items() if key != "title" or isinstance(inner, dict)}
    return [_untitled(inner) for inner in value] if isinstance(value, list) else value


def defaults() -> Chart:
    """Returns the values with which the chart installs what config/default does."""
    (image,) = kustomize.kustomization("manager")["images"]
    return Chart(
        image=Image(repository=image.get("newName", image["name"]), tag=image["newTag"]),
        settings=_settings_file("admission"),
        ungater_settings=_settings_file("ungater"),
        network=Network(pod_networks=_pod_networks()),
        dashboard=OptionalProcess(**_deployment("dashboard", "dashboard")),
        **{name: Process(**_deployment(name, "manager")) for name in PROCESSES},
    )


def _deployment(name: str, folder: str) -> dict[str, Any]:
    (found,) = (one for one in kustomize.objects(folder) if (one.kind, one.name) == ("Deployment", f"stowage-{name}"))
    (container,) = found.obj["spec"]["template"]["spec"]["containers"]
    return {"replicas": found.obj["spec"]["replicas"], "resources": container["resources"]}


def _pod_networks() -> PodNetworks:
    (policy,) = (one for one in kustomize.objects("network") if one.name == "stowage-webhook")
    blocks = [peer["ipBlock"] for rule in policy.obj["spec"]["ingress"] for peer in rule["from"] if "ipBlock" in peer]
    ipv6, ipv4 = ([b["except"] for b in blocks if (":" in b["cidr"]) is wide] for wide in (True, False))
    return PodNetworks(ipv4=ipv4[0], ipv6=ipv6[0])


def _settings_file(name: str) -> dict[str, Any]:
    """The settings that config/manager installs for `admission` or `ungater`."""
    found: dict[str, Any] = read_one(kustomize.CONFIG / "manager" / "settings" / f"{name}.yaml")
    return found
