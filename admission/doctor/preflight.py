"""What stands in the way of a migration from Kueue: its settings, kinds and API versions. Reads only.

Each entry is a check like those of an installation, over the same view; its command names what to do instead.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from admission.doctor.checks.controllers import kueue_deployments
from admission.doctor.checks.kinds import unmanaged
from admission.doctor.finding import Check, Finding
from admission.doctor.question import Question
from admission.doctor.view import Obj, View, name_of, namespace_of, spec_of, status_of
from admission.engine.listed import listed
from admission.integrations.owners import is_managed_kind
from admission.settings import AdmissionSettings
from api.errors import InvalidObject
from api.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    WORKLOADS,
)
from api.names import GROUP, MULTIKUEUE, PROVISIONING, STOWAGE
from api.process.environment import from_map
from api.process.unsupported_keys import MANAGED_FRAMEWORKS, answer_for, is_missing
from api.text.manifests import parsed
from api.text.untrusted_text import bounded

_SETTINGS: Final = "config/manager/settings/admission.yaml"
_FILE: Final = "controller_manager_config.yaml"
_BOOLEANS: Final = frozenset(("true", "false"))
_CONVERTED: Final = frozenset(("v1beta1", "v1beta2"))
_POLICY, _STRATEGY = "concurrentAdmissionPolicy", "admissionChecksStrategy"
_MOST_PATCHED: Final = 5
"""Queues that one command changes; of more the operator gets the names."""
_OF_KUEUE_ALONE: Final = frozenset(
    (
        *("apiVersion", "kind", "namespace", "health", "metrics", "webhook", "leaderElection", "clientConnection"),
        *("controller", "internalCertManagement", "pprofBindAddress"),
    )
)
"""Settings of Kueue's own process (addresses, certificates, lease, workers), on which nothing depends after a migration."""


def _settings(view: View) -> Iterator[Finding]:
    yield from _elsewhere(view)
    for deployment in kueue_deployments(view):
        if gates := _gates(deployment):
            name = f"Deployment {namespace_of(deployment)}/{name_of(deployment)}"
            yield from _unknown(name, {"featureGates": gates})
    for config_map in view.of(CONFIG_MAPS):
        text = (config_map.get("data") or {}).get(_FILE)
        if text is None:
            continue
        name = f"ConfigMap {namespace_of(config_map)}/{name_of(config_map)}"
        try:
            (given, *_) = parsed(bounded(str(text))) or ({},)
        except (ValueError, yaml.YAMLError) as bad:
            yield Finding(name, f"is not YAML: {bad}", "# correct it")
            continue
        yield from _unknown(name, given if isinstance(given, dict) else {})


def _elsewhere(view: View) -> Iterator[Finding]:
    """Kueue in another namespace, of which neither settings nor arguments were read."""
    places = sorted({namespace_of(each) for each in kueue_deployments(view)})
    if places and view.namespace not in places:
        what = f"is in the namespace {listed(places)}, and its settings were looked for in {view.namespace}"
        yield Finding("Kueue", what, f"# stowage doctor --preflight --namespace {places[0]}")


def _gates(deployment: Obj) -> dict[str, Any]:
    """Returns the feature gates among the arguments of Kueue's containers."""
    containers = ((spec_of(deployment).get("template") or {}).get("spec") or {}).get("containers") or ()
    words = [str(word) for one in containers for word in (*(one.get("command") or ()), *(one.get("args") or ()))]
    gates: dict[str, Any] = {}
    for word, after in itertools.pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        if flag in ("--feature-gates", "-feature-gates"):
            pairs = (pair.partition("=") for pair in (value if equals else after).split(",") if pair.strip())
            gates |= {name.strip(): is_on == "true" if is_on in _BOOLEANS else is_on for name, _, is_on in pairs}
    return gates


def _unknown(name: str, settings: dict[str, Any]) -> Iterator[Finding]:
    """Yields the settings of Kueue that Stowage does not have or interprets differently."""
    settings = {key: value for key, value in settings.items() if key not in _OF_KUEUE_ALONE}
    integrations = settings.get("integrations")
    if isinstance(integrations, dict) and isinstance(integrations.get("frameworks"), list):
        frameworks = [str(each) for each in integrations["frameworks"]]
        settings["integrations"] = {key: value for key, value in integrations.items() if key != "frameworks"}
        managed = MANAGED_FRAMEWORKS.split(", ")
        if unmanaged_ones := [each for each in frameworks if each not in managed]:
            what = f"integrations.frameworks: not managed: {listed(unmanaged_ones)}"
            yield Finding(name, what, "# declare these kinds by JobKinds: docs/job-kinds.md")
    try:
        from_map(AdmissionSettings, settings)
    except ValidationError as bad:
        for error in bad.errors():
            path = ".".join(to_camel(str(part)) if "_" in str(part) else str(part) for part in error["loc"])
            is_unknown = error["type"] == "extra_forbidden"
            what = answer_for(error["loc"]) if is_unknown else error["msg"].removeprefix("Value error, ")
            leave = is_unknown and is_missing(what)
            command = (
                f"# leave {path} out of {_SETTINGS}" if leave else f"# in {_SETTINGS} write what this says of {path}"
            )
            yield Finding(name, f"{path}: {what}", command)
    except InvalidObject as bad:
        yield Finding(name, str(bad), "# correct it")


def _versions(view: View) -> Iterator[Finding]:
    if unread := sorted(_unread(view)):
        what = f"does not serve {listed(unread)} in {WORKLOADS.version}, so that they were not read"
        yield Finding("Kueue", what, f"# upgrade Kueue to a release that serves {WORKLOADS.version}, and ask again")
    for crd in view.of(CRDS):
        if spec_of(crd).get("group") != GROUP:
            continue
        stored = set(status_of(crd).get("storedVersions") or ())
        if old := sorted(stored - _CONVERTED):
            what = f"may store objects in {listed(old)}, which Stowage does not convert"
            yield Finding(f"CustomResourceDefinition {name_of(crd)}", what, _rewrite(view, crd))


def _unread(view: View) -> Iterator[str]:
    """Yields the kinds of an older Kueue that exist, and not in the version in which the other checks read them."""
    for crd in view.of(CRDS):
        served = [version["name"] for version in spec_of(crd).get("versions") or () if version.get("served")]
        for kind in (WORKLOADS, CLUSTER_QUEUES, ADMISSION_CHECKS):
            if name_of(crd) == f"{kind.plural}.{GROUP}" and kind.version not in served:
                yield kind.plural


def _rewrite(view: View, crd: Obj) -> str:
    """Returns the commands that rewrite all objects in a version that is converted, and record that in the CRD."""
    plural = f"{spec_of(crd)['names']['plural']}.{GROUP}"
    get = view.command("get", plural, "-A", "-o", "json")
    storage = next((v["name"] for v in spec_of(crd).get("versions") or () if v.get("storage")), "v1beta1")
    body = f'{{"status":{{"storedVersions":["{storage}"]}}}}'
    status = view.command("patch", "crd", name_of(crd), "--subresource=status", "--type=merge", "-p", body)
    return f"{get} | {view.command('replace', '-f', '-')} && {status}"


def _kinds(view: View) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    for workload in view.of(WORKLOADS):
        owners = workload["metadata"].get("ownerReferences") or ()
        if owners and not any(is_managed_kind(_kind(owner)) for owner in owners):
            counts[".".join(filter(None, reversed(_kind(owners[0]))))] += 1
    for kind, number in sorted(counts.items()):
        what = f"owns {number} Workloads, and Stowage does not manage this kind"
        yield Finding(f"kind {kind}", what, "# declare it by a JobKind: docs/job-kinds.md")


def _kind(owner: Obj) -> tuple[str, str]:
    group, slash, _ = str(owner.get("apiVersion") or "").partition("/")
    return (group if slash else "", str(owner.get("kind") or ""))


def _fields(view: View) -> Iterator[Finding]:
    for queue in view.of(CLUSTER_QUEUES):
        if spec_of(queue).get(_POLICY):
            patch = _patched(view, name_of(queue), {_POLICY: None})
            command = f"# Kueue refuses every change of it: when its webhooks are deleted, run {patch}"
            yield Finding(f"ClusterQueue {name_of(queue)}", f"spec.{_POLICY} has no effect", command)
    missing = {name_of(check): controller for check in view.of(ADMISSION_CHECKS) if (controller := _missing(check))}
    for name, controller in missing.items():
        what = f"is of {controller}, which is not implemented: queues that name it stay inactive"
        yield Finding(f"AdmissionCheck {name}", what, _removal(view, name, missing))


def _missing(check: Obj) -> str:
    """Returns the controller of a check that Stowage does not implement, else an empty string."""
    controller = str(spec_of(check).get("controllerName") or "")
    return controller if controller in (MULTIKUEUE, PROVISIONING) else ""


def _removal(view: View, check: str, missing: Collection[str]) -> str:
    """Returns the commands that delete a check: Kueue keeps one until no queue names it.

    A queue loses all that are `missing` at once, so that the command for another one does not bring this one back.
    """
    delete = view.command("delete", "admissioncheck", check)
    users = [queue for queue in view.of(CLUSTER_QUEUES) if any(one["name"] == check for one in _checks(queue))]
    if len(users) > _MOST_PATCHED:
        names = listed([name_of(queue) for queue in users])
        return f"# take it out of spec.admissionChecksStrategy of the ClusterQueues {names}, then run {delete}"
    return " && ".join([*(_without(view, queue, missing) for queue in users), delete])


def _without(view: View, queue: Obj, missing: Collection[str]) -> str:
    left = [one for one in _checks(queue) if one["name"] not in missing]
    return _patched(view, name_of(queue), {_STRATEGY: {"admissionChecks": left} if left else None})


def _checks(queue: Obj) -> list[Obj]:
    return (spec_of(queue).get(_STRATEGY) or {}).get("admissionChecks") or []


def _patched(view: View, queue: str, spec: Obj) -> str:
    body = json.dumps({"spec": spec}, separators=(",", ":"))
    return view.command("patch", "clusterqueue", queue, "--type=merge", "-p", body)


def _running(view: View) -> Iterator[Finding]:
    """Kueue must be there to migrate from; Stowage must not."""
    if any(spec_of(crd).get("group") == STOWAGE for crd in view.of(CRDS)):
        yield Finding("Stowage", "is installed already", "# stowage doctor, without --preflight, checks it")
    elif not kueue_deployments(view) and not any(spec_of(crd).get("group") == GROUP for crd in view.of(CRDS)):
        yield Finding("Kueue", "is not installed: there is nothing to migrate", "# install Stowage: README.md")


CHECKS: Final = (
    Check(
        "kueue-installed",
        (CRDS, DEPLOYMENTS),
        "There is no Kueue, or Stowage is installed already.",
        "A migration begins with a cluster that Kueue manages.",
        "names what to do instead",
        _running,
    ),
    Check(
        "kueue-settings",
        (CONFIG_MAPS, DEPLOYMENTS),
        "Kueue's Configuration, or the feature gates among its arguments, have settings that Stowage does not have, or with "
        "another name.",
        "A process of Stowage stops at an unknown key.",
        "names the setting to leave out, or to write otherwise",
        _settings,
    ),
    Check(
        "kueue-versions",
        (CRDS,),
        "Objects may be stored in an API version before v1beta1, or Kueue is too old to serve v1beta2.",
        "Stowage converts v1beta1 and v1beta2 only; and this report reads v1beta2.",
        "rewrites the objects and removes the version from the CRD's status; run it while Kueue runs",
        _versions,
    ),
    Check(
        "kueue-kinds",
        (WORKLOADS,),
        "Workloads belong to kinds that Stowage does not manage.",
        "They wait with the reason OwnerNotManaged.",
        "names the page about JobKinds",
        _kinds,
    ),
    Check(
        "kueue-fields",
        (CLUSTER_QUEUES, ADMISSION_CHECKS),
        "Queues use features that Stowage does not implement.",
        "The field has no effect, or the queue is inactive.",
        "takes the check out of its queues, whose workloads then start without it, and deletes it; says when the field can be "
        "removed",
        _fields,
    ),
    Check(
        "kueue-unmanaged-objects",
        (Question.UNMANAGED,),
        "Objects of kinds that neither manages name a queue.",
        "They run outside every quota.",
        "removes the name of the queue",
        unmanaged,
    ),
)
