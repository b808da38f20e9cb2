"""Settings of the installed processes: valid, and consistent with each other, with rights and with objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from admission.doctor.checks.processes import deployment
from admission.doctor.finding import Check, Finding
from admission.doctor.mended_settings import bare, without
from admission.doctor.question import Question
from admission.doctor.view import CONTROLLER, WEBHOOK, View, name_of, spec_of
from admission.engine.listed import listed
from admission.settings import AdmissionSettings
from api.errors import InvalidObject
from api.kube.resources import CONFIG_MAPS, DEPLOYMENTS, RESOURCE_FLAVORS, TOPOLOGIES
from api.process.environment import BAD_SETTINGS, faults, from_map
from api.text.manifests import parsed
from api.text.untrusted_text import bounded

_FILE: Final = "admission.yaml"
_PREFIX: Final = "STOWAGE_"
_BOTH: Final = tuple(f"deployment/{name}" for name in (WEBHOOK, CONTROLLER))
_OWN: Final = frozenset(("STOWAGE_CONFIG", "STOWAGE_NAMESPACE"))


def installed_settings(view: View, process: str = CONTROLLER) -> AdmissionSettings | None:
    """Returns the settings of an installed process; None if there is no Deployment. Raises BAD_SETTINGS."""
    pod = _pod(view, process)
    return _read(_text(view, pod)[1], pod) if pod else None


def _pod(view: View, process: str) -> Mapping[str, Any]:
    return ((spec_of(deployment(view, process)).get("template") or {}).get("spec")) or {}


def _read(text: str, pod: Mapping[str, Any], variables: Mapping[str, str] | None = None) -> AdmissionSettings:
    try:
        (given, *_) = parsed(bounded(text)) or ({},)
    except (ValueError, yaml.YAMLError) as bad:
        raise InvalidObject(_FILE, "", f"must be YAML: {bad}", "settings") from None
    if not isinstance(given, dict):
        raise InvalidObject(_FILE, str(given)[:80], "must be a YAML map", "settings")
    return from_map(AdmissionSettings, given, _variables(pod) if variables is None else variables)


def issues_certificates(view: View) -> bool:
    """Reports whether the webhook keeps its certificates itself; unknown settings count as the default."""
    try:
        settings = installed_settings(view, WEBHOOK)
    except BAD_SETTINGS:
        return True
    return settings is None or settings.webhook.certificates == "SelfSigned"


def _text(view: View, pod: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the name of the ConfigMap that the pod mounts, and the file in it; empty if there is none."""
    for volume in pod.get("volumes") or ():
        name = (volume.get("configMap") or {}).get("name")
        config_map = view.named(CONFIG_MAPS, str(name), view.namespace) if name else None
        if config_map is not None and _FILE in (config_map.get("data") or {}):
            return str(name), str(config_map["data"][_FILE])
    return "", ""


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
        yield Finding(_named(bad), " ".join(faults(bad).split()), _mending(view, bad))
        return
    if settings is not None:
        yield from _lease(view, settings)
        yield from _rights(view, settings)
        yield from _objects(view, settings)


def _places(bad: ValidationError | InvalidObject) -> list[tuple[str | int, ...]]:
    """Returns the paths of the invalid settings; none if the file as a whole is invalid."""
    return [each["loc"] for each in bad.errors()] if isinstance(bad, ValidationError) else []


def _named(bad: ValidationError | InvalidObject) -> str:
    """Names the settings as the file does."""
    names = [".".join(to_camel(str(part)) if "_" in str(part) else str(part) for part in loc) for loc in _places(bad)]
    return f"settings {listed(names)}".strip()


def _mending(view: View, bad: ValidationError | InvalidObject) -> str:
    """Returns the command that takes the invalid settings, and no other, out of the ConfigMap or the variables."""
    pod = _pod(view, CONTROLLER)
    name, text = _text(view, pod)
    variables = _variables(pod)
    in_file, set_ = [], []
    for loc in _places(bad):
        variable = next((each for each in sorted(variables) if _sets(each, loc)), None)
        if variable is None:
            in_file.append(loc)
        else:
            set_.append(variable)
    kept = {key: value for key, value in variables.items() if key not in set_}
    less = without(text, in_file) if in_file else text
    if not _places(bad) or less is None or not _is_valid(less, pod, kept):
        return _to_be_edited(view, name, variables, bad)
    commands = []
    if in_file:
        body = {"data": {_FILE: less}}
        config_map = view.named(CONFIG_MAPS, name, view.namespace) or {}
        if version := (config_map.get("metadata") or {}).get("resourceVersion"):
            body["metadata"] = {"resourceVersion": str(version)}
        words = ("patch", "configmap", name, "--type=merge", "-p", json.dumps(body))
        commands.append(view.command("-n", view.namespace, *words))
    if set_:
        commands.append(_set_env(view, [f"{each}-" for each in dict.fromkeys(set_)]))
    else:
        commands.append(_restart(view))
    return " && ".join(commands)


def _to_be_edited(view: View, name: str, variables: Mapping[str, str], bad: ValidationError | InvalidObject) -> str:
    """Returns what a person must correct: a variable with a whole section as JSON, or the file."""
    parts = [loc[:length] for loc in _places(bad) for length in range(1, len(loc) + 1)]
    if variable := next((each for each in sorted(variables) if any(_sets(each, part) for part in parts)), None):
        return f"# correct the value: {_set_env(view, [f'{variable}={variables[variable]}'])}"
    edit = view.command("-n", view.namespace, "edit", "configmap", name)
    return f"# correct {_FILE}: {edit}; then {_restart(view)}"


def _sets(variable: str, loc: Sequence[str | int]) -> bool:
    """Reports whether the variable sets exactly this setting."""
    return [bare(part) for part in variable.removeprefix(_PREFIX).split("__")] == [bare(str(part)) for part in loc]


def _is_valid(text: str, pod: Mapping[str, Any], variables: Mapping[str, str]) -> bool:
    try:
        _read(text, pod, variables)
    except BAD_SETTINGS:
        return False
    return True


def _restart(view: View) -> str:
    """Returns the command by which the processes read their settings again."""
    return view.command("-n", view.namespace, "rollout", "restart", *_BOTH)


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


def _priorities(view: View) -> Iterator[Finding]:
    """The setting that lets any tenant evict work of others; unreadable settings are another check's subject."""
    try:
        settings = installed_settings(view, CONTROLLER)
    except BAD_SETTINGS:
        return
    if settings is not None and settings.sakkara.priority_across_namespaces and settings.sakkara.highest_priority > 0:
        highest = settings.sakkara.highest_priority
        what = f"is true, so any user who may write ConfigMaps can give a group the priority {highest} against all namespaces"
        command = _set(view, {"SAKKARA__PRIORITY_ACROSS_NAMESPACES": "false"})
        yield Finding("settings sakkara.priorityAcrossNamespaces", what, command)


def _set(view: View, variables: Mapping[str, str]) -> str:
    """Returns the command that sets variables, which take precedence over the file; the pods restart."""
    return _set_env(view, [f"{_PREFIX}{name}={value}" for name, value in variables.items()])


def _set_env(view: View, variables: Sequence[str]) -> str:
    return view.command("-n", view.namespace, "set", "env", *_BOTH, *variables)


CHECKS: Final = (
    Check(
        "settings-contradict",
        (DEPLOYMENTS, CONFIG_MAPS, RESOURCE_FLAVORS, TOPOLOGIES, Question.RIGHTS),
        "A setting is invalid, contradicts another one, needs rights that are not installed, or deprives topologies of their "
        "effect.",
        "The process stops with an error, or does other than its objects say.",
        "installs the rights, sets the variable that takes precedence over the file, or takes the invalid setting out, so that "
        "its default applies, and leaves all others",
        _found,
    ),
    Check(
        "group-priorities",
        (DEPLOYMENTS, CONFIG_MAPS),
        "`sakkara.priorityAcrossNamespaces` is on, and `sakkara.highestPriority` is above 0.",
        "Any tenant can evict the groups of priority 0 of all others, where queues let priorities preempt.",
        "sets the variable that turns it off and takes precedence over the file",
        _priorities,
    ),
)
