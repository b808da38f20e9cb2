"""Settings of the installed processes: valid, and consistent with each other, with rights and with objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from admission.doctor.checks.processes import deployment
from admission.doctor.finding import Check, Finding
from admission.doctor.question import Question
from admission.doctor.view import CONTROLLER, WEBHOOK, View, listed, name_of, spec_of
from admission.settings import AdmissionSettings
from api.errors import InvalidObject
from api.kube.environment import BAD_SETTINGS, faults, from_map
from api.kube.resources import CONFIG_MAPS, DEPLOYMENTS, RESOURCE_FLAVORS, TOPOLOGIES
from api.manifests import parsed
from api.untrusted_text import bounded

_FILE: Final = "admission.yaml"
_PREFIX: Final = "STOWAGE_"
_OWN: Final = frozenset(("STOWAGE_CONFIG", "STOWAGE_NAMESPACE"))


def installed_settings(view: View, process: str = CONTROLLER) -> AdmissionSettings | None:
    """Returns the settings of an installed process; None if there is no Deployment. Raises BAD_SETTINGS."""
    pod = ((spec_of(deployment(view, process)).get("template") or {}).get("spec")) or {}
    if not pod:
        return None
    try:
        (given, *_) = parsed(bounded(_text(view, pod))) or ({},)
    except (ValueError, yaml.YAMLError) as bad:
        raise InvalidObject(_FILE, "", f"must be YAML: {bad}", "settings") from None
    if not isinstance(given, dict):
        raise InvalidObject(_FILE, str(given)[:80], "must be a YAML map", "settings")
    return from_map(AdmissionSettings, given, _variables(pod))


def issues_certificates(view: View) -> bool:
    """Reports whether the webhook keeps its certificates itself; unknown settings count as the default."""
    try:
        settings = installed_settings(view, WEBHOOK)
    except BAD_SETTINGS:
        return True
    return settings is None or settings.webhook.certificates == "SelfSigned"


def _text(view: View, pod: Mapping[str, Any]) -> str:
    """Returns the file from the ConfigMap that the pod mounts; empty if there is none."""
    for volume in pod.get("volumes") or ():
        name = (volume.get("configMap") or {}).get("name")
        found = view.named(CONFIG_MAPS, str(name), view.namespace) if name else None
        if found is not None and _FILE in (found.get("data") or {}):
            return str(found["data"][_FILE])
    return ""


def _variables(pod: Mapping[str, Any]) -> dict[str, str]:
    """Returns the variables with settings, which take precedence over the file."""
    every = [variable for container in pod.get("containers") or () for variable in container.get("env") or ()]
    return {
        one["name"]: str(one["value"])
        for one in every
        if one["name"].startswith(_PREFIX) and one["name"] not in _OWN and "value" in one
    }


def _found(view: View) -> Iterator[Finding]:
    try:
        settings = installed_settings(view)
    except BAD_SETTINGS as bad:
        file = str(view.expected.folder / "default")
        command = view.command("apply", "--server-side", "--force-conflicts", "-k", file)
        yield Finding("settings", " ".join(faults(bad).split()), command)
        return
    if settings is not None:
        yield from _lease(view, settings)
        yield from _rights(view, settings)
        yield from _objects(view, settings)


def _lease(view: View, settings: AdmissionSettings) -> Iterator[Finding]:
    try:
        settings.leader_settings("controller")
    except ValueError as bad:
        usual = {"LEASE__DURATION": "15", "LEASE__RENEW_DEADLINE": "10", "LEASE__RETRY_PERIOD": "2"}
        yield Finding("settings lease", " ".join(str(bad).split()), _set(view, usual))


def _rights(view: View, settings: AdmissionSettings) -> Iterator[Finding]:
    """Settings that need a component with further rights."""
    refused, expected = set(view.refused), view.expected
    retention = settings.object_retention_policies.workloads.after_deactivated_by_kueue
    needs = (
        ("objectRetentionPolicies.workloads.afterDeactivatedByKueue", retention is not None, expected.retention),
        ("healthAuthentication", settings.health_authentication, expected.metrics),
    )
    for name, is_set, rights in needs:
        if is_set and (missing := [right for right in rights if right in refused]):
            what = f"is set, and ServiceAccount {missing[0].account} may not {listed([str(r) for r in missing], 3)}"
            command = view.command("apply", "--server-side", "-f", missing[0].file)
            yield Finding(f"settings {name}", what, command)


def _objects(view: View, settings: AdmissionSettings) -> Iterator[Finding]:
    """Settings under which objects have no effect."""
    flavors = [name_of(each) for each in view.of(RESOURCE_FLAVORS) if view.levels(each)]
    if flavors and not settings.feature_gates.topology_aware_scheduling:
        what = f"is false, so the topologies of ResourceFlavors have no effect: {listed(flavors)}"
        command = _set(view, {"FEATURE_GATES": json.dumps({"TopologyAwareScheduling": True})})
        yield Finding("settings featureGates.TopologyAwareScheduling", what, command)


def _set(view: View, variables: Mapping[str, str]) -> str:
    """Returns the command that sets variables, which take precedence over the file; the pods restart."""
    both = [f"deployment/{name}" for name in (WEBHOOK, CONTROLLER)]
    given = [f"{_PREFIX}{name}={value}" for name, value in variables.items()]
    return view.command("-n", view.namespace, "set", "env", *both, *given)


CHECKS: Final = (
    Check(
        "settings-contradict",
        (DEPLOYMENTS, CONFIG_MAPS, RESOURCE_FLAVORS, TOPOLOGIES, Question.RIGHTS),
        "A setting is invalid, contradicts another one, needs rights that are not installed, or deprives topologies of their "
        "effect.",
        "The process stops with an error, or does other than its objects say.",
        "installs the rights, sets the variable that takes precedence over the file, or applies the shipped settings",
        _found,
    ),
)
