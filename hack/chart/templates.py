"""The templates of the chart: the objects of config/, with the fields that the values replace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hack.chart import kustomize
from hack.chart.document import BLOCK, LINE, TEXT, VALUE, rendered
from hack.chart.kustomize import Declared, Object

NAMESPACE: Final = "stowage-system"
"""The namespace in config/; in the chart it is that of the release."""
WHEN: Final = {
    "selfsigned": 'eq .Values.certificates.source "SelfSigned"',
    "certmanager": 'eq .Values.certificates.source "CertManager"',
    "prometheus": ".Values.prometheus.enabled",
    "dashboard": ".Values.dashboard.enabled",
    "visibility": ".Values.visibility.enabled",
    "retention": ".Values.retention.enabled",
    "metricsauth": ".Values.metricsAuthentication.enabled",
    "network": ".Values.network.enabled",
    "flowcontrol": ".Values.flowControl.enabled",
    "crd": ".Values.crds.install",
}
"""Under which condition a folder of config/ is installed; always, if it has none."""
LEFT_OUT: Final = frozenset({"namespace"})
"""`helm install --create-namespace` makes the namespace before the release has objects."""
SETTINGS: Final = {"admission.yaml": "settings", "ungater.yaml": "ungaterSettings"}


def templates() -> dict[str, str]:
    """Returns the text of each file below the chart's templates/, and of files/, by path."""
    folders = [*(folder for folder in kustomize.bases() if folder not in LEFT_OUT), *kustomize.components()]
    found = {f"templates/{path}": text for folder in folders for path, text in _of_folder(folder)}
    found["templates/manager/settings.yaml"] = _released(rendered(_settings()))
    for folder, made, file in kustomize.generated():
        found[f"files/{file.name}"] = file.read_text()
        text = rendered(
            _map(made["name"], made["options"]["labels"], {file.name: f'{TEXT}.Files.Get "files/{file.name}"'})
        )
        found[f"templates/{folder}/{made['name']}.yaml"] = _conditional(_of_component(folder), _released(text))
    return found


def _of_folder(folder: str) -> Iterator[tuple[str, str]]:
    for declared in kustomize.objects(folder):
        text = _conditional(_condition(declared), _released(rendered(_templated(declared))))
        yield f"{folder}/{declared.kind.lower()}-{declared.name}.yaml", text


def _condition(declared: Declared) -> str | None:
    if declared.kind == "PodDisruptionBudget":
        process = declared.name.removeprefix("stowage-")
        return f"gt (int .Values.{process}.replicas) 1"
    return _of_component(declared.folder) if declared.folder in kustomize.components() else WHEN.get(declared.folder)


def _of_component(folder: str) -> str:
    if folder not in WHEN:
        raise ValueError(
            f"config/{folder} is a component: declare its value in hack/chart/values.py, and name it in WHEN"
        )
    return WHEN[folder]


def _conditional(condition: str | None, text: str) -> str:
    return text if condition is None else f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _released(text: str) -> str:
    return text.replace(NAMESPACE, "{{ .Release.Namespace }}")


def _templated(declared: Declared) -> Object:
    obj = declared.obj
    for folder in kustomize.components():
        obj = _either(obj, kustomize.patched(folder, declared), declared.obj, folder)
    if declared.kind == "Deployment":
        _process(obj, declared.name.removeprefix("stowage-"))
    if declared.kind == "CustomResourceDefinition":
        obj = _kept(obj)
    if declared.kind == "NetworkPolicy":
        _networks(obj)
    return obj


def _either(current: Any, patched: Any, base: Any, folder: str) -> Any:
    """Adds to `current` what a component's patch adds to `base`, under the component's condition.

    Raises ValueError for a patch that changes or removes something, which no template here can express.
    """
    if patched == base:
        return current
    condition = _of_component(folder)
    if isinstance(base, Mapping) and base.keys() <= patched.keys():
        found = dict(current)
        for key, value in base.items():
            found[key] = _either(current[key], patched[key], value, folder)
        if added := {key: value for key, value in patched.items() if key not in base}:
            found |= {f"{LINE}if {condition}": None, **added, f"{LINE}end # {condition}": None}
        return found
    if isinstance(base, list) and len(base) <= len(patched):
        kept = [_either(now, then, item, folder) for now, then, item in zip(current, patched, base, strict=False)]
        if added := patched[len(base) :]:
            return [*kept, *current[len(base) :], f"{LINE}if {condition}", *added, f"{LINE}end"]
        return [*kept, *current[len(base) :]]
    raise ValueError(f"a patch of config/{folder} changes {base!r} to {patched!r}")


def _process(obj: Object, process: str) -> None:
    values = f".Values.{process}"
    obj["spec"]["replicas"] = f"{VALUE}{values}.replicas"
    template, pod = obj["spec"]["template"], obj["spec"]["template"]["spec"]
    template["metadata"]["annotations"] = {
        "checksum/settings": f'{VALUE}include (print $.Template.BasePath "/manager/settings.yaml") . | sha256sum',
        **_optional(f"{values}.podAnnotations"),
    }
    for container in pod["containers"]:
        container["image"] = f'{VALUE}printf "%s:%s" .Values.image.repository .Values.image.tag | quote'
        container["imagePullPolicy"] = f"{VALUE}.Values.image.pullPolicy"
        container["resources"] = f"{BLOCK}toYaml {values}.resources"
        authenticated = {"name": "STOWAGE_HEALTH_AUTHENTICATION", "value": "true"}
        container["env"] += [f"{LINE}if {WHEN['metricsauth']}", authenticated, f"{LINE}end", *_items(f"{values}.env")]
    for field, value in (
        ("imagePullSecrets", ".Values.image.pullSecrets"),
        ("nodeSelector", f"{values}.nodeSelector"),
        ("tolerations", f"{values}.tolerations"),
        ("priorityClassName", f"{values}.priorityClassName"),
    ):
        text = f"{VALUE}. | quote" if field == "priorityClassName" else f"{BLOCK}toYaml ."
        pod |= {f"{LINE}with {value}": None, field: text, f"{LINE}end # {field}": None}


def _optional(value: str) -> Object:
    return {f"{LINE}with {value}": None, f"{LINE}toYaml . | nindent 8": None, f"{LINE}end": None}


def _items(value: str) -> list[str]:
    return [f"{LINE}with {value}", f"{LINE}toYaml . | nindent 12", f"{LINE}end"]


def _kept(obj: Object) -> Object:
    """Adds the annotation with which `helm uninstall` leaves a CRD."""
    metadata = dict(obj["metadata"])
    keep = {f"{LINE}if .Values.crds.keep": None, "helm.sh/resource-policy": "keep", f"{LINE}end # keep": None}
    marks = [key for key in metadata if key.startswith(LINE)]
    present = metadata.pop("annotations", {})
    if present and not marks:
        return {**obj, "metadata": {**metadata, "annotations": {**present, **keep}}}
    if marks:
        # The annotations are those of cert-manager's component, under its condition.
        first, last = marks
        del metadata[first], metadata[last]
        keep |= {first: None, **present, last: None}
    either = f"or .Values.crds.keep ({WHEN['certmanager']})" if marks else ".Values.crds.keep"
    metadata |= {f"{LINE}if {either}": None, "annotations": keep, f"{LINE}end # annotations": None}
    return {**obj, "metadata": metadata}


def _networks(obj: Object) -> None:
    for rule in obj["spec"].get("ingress", ()):
        for peer in rule["from"]:
            if block := peer.get("ipBlock"):
                family = "ipv6" if ":" in block["cidr"] else "ipv4"
                block["except"] = f"{BLOCK}toYaml .Values.network.podNetworks.{family}"


def _settings() -> Object:
    data = {file: f"{TEXT}toYaml .Values.{value}" for file, value in SETTINGS.items()}
    return _map("stowage-config", {}, data)


def _map(name: str, labels: Mapping[str, str], data: Object) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE, **({"labels": dict(labels)} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
