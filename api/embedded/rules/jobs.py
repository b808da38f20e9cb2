"""Rules of batch/v1 Jobs: defaults, generated selector and labels, and which fields may change when.

Template mutability of Kubernetes 1.36 with MutableSchedulingDirectivesForSuspendedJobs and
MutablePodResourcesForSuspendedJobs on: while the OLD object is suspended, has no active pods, and never started or has the
condition Suspended, node selector, labels, annotations, tolerations, gates, node affinity and container resources may change;
nothing else of the template ever. The Job controller is a worker.
"""

from __future__ import annotations

from typing import Any

from api.embedded.rules.base import ClusterLookup, StorageRules, fixed, same, truthy
from api.embedded.rules.pods import check_pod_spec
from api.embedded.rules.podspec import default_pod_spec
from api.embedded.status import Cause, Obj, immutable, invalid_value, required, unsupported

_IMMUTABLE = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")
_UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")


class JobRules(StorageRules):
    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        default_job_spec(spec)
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = labels  # the same dict: the controller's labels are added to both

    def prepare_create(self, cluster: ClusterLookup, obj: Obj) -> None:
        obj["status"] = {}
        _generate_selector(obj)
        self.default(obj)

    def check_create(self, cluster: ClusterLookup, obj: Obj) -> list[Cause]:
        return _check_spec(obj["spec"], obj["metadata"])

    def check_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> list[Cause]:
        spec, was = new["spec"], old["spec"]
        causes = [
            *_check_spec(spec, new["metadata"]),
            *_check_completions(spec, was),
            *fixed(spec, was, "spec", "selector"),
        ]
        return [*causes, *_check_template(spec, old), *fixed(spec, was, "spec", *_IMMUTABLE)]

    def orphans_by_default(self) -> bool:
        return True


def default_job_spec(spec: Obj) -> None:
    """Sets defaults of a JobSpec in place, also for a JobSet's child."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    defaults: tuple[tuple[str, Any], ...] = (
        ("parallelism", 1),
        ("backoffLimit", 2147483647 if spec.get("backoffLimitPerIndex") is not None else 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("manualSelector", False),
        ("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"),
    )
    for name, value in defaults:
        if spec.get(name) is None:
            spec[name] = value
    template = spec.setdefault("template", {})
    default_pod_spec(template.setdefault("spec", {}))


def _generate_selector(obj: Obj) -> None:
    """Generates the labels by which a Job selects its pods, unless the user sets a selector."""
    spec, uid = obj["spec"], obj["metadata"]["uid"]
    if spec.get("manualSelector"):
        return
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    if spec["template"]["metadata"]["labels"] is None:
        labels = spec["template"]["metadata"]["labels"] = {}
    for name in _UID_LABELS:
        labels[name] = uid
    for name in _NAME_LABELS:
        labels[name] = obj["metadata"]["name"]
    spec["selector"] = {"matchLabels": {_UID_LABELS[0]: uid}}


def _check_spec(spec: Obj, meta: Obj) -> list[Cause]:
    causes = [
        invalid_value(f"spec.{name}", spec[name], "must be greater than or equal to 0")
        for name in ("parallelism", "completions", "backoffLimit")
        if (spec.get(name) or 0) < 0
    ]
    if spec["completionMode"] == "Indexed" and spec.get("completions") is None:
        causes.append(required("spec.completions", "when completion mode is Indexed"))
    causes += [*_check_labels(spec, meta), *_check_selector(spec)]
    causes += check_pod_spec(spec["template"]["spec"], "spec.template.spec")
    policy, field = spec["template"]["spec"]["restartPolicy"], "spec.template.spec.restartPolicy"
    if policy == "Always":
        causes.append(required(field, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("Never", "OnFailure"):
        causes.append(unsupported(field, policy, ("OnFailure", "Never")))
    return causes


def _check_labels(spec: Obj, meta: Obj) -> list[Cause]:
    """Returns errors for generated labels that are missing on the template."""
    if spec.get("manualSelector"):
        return []
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    pairs = zip(_UID_LABELS[::-1], _NAME_LABELS[::-1], strict=True)
    wanted = [item for uid, name in pairs for item in ((uid, meta["uid"]), (name, meta["name"]))]
    return [
        _mislabelled(f"spec.template.metadata.labels[{name}]", labels.get(name), value)
        for name, value in wanted
        if labels.get(name) != value
    ]


def _mislabelled(field: str, value: object, wanted: str) -> Cause:
    why = f"must be '{wanted}'"
    return required(field, why) if value is None else invalid_value(field, value, why)


def _check_selector(spec: Obj) -> list[Cause]:
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    if wanted.items() <= labels.items():
        return []
    return [
        invalid_value("spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`")
    ]


def _check_completions(spec: Obj, was: Obj) -> list[Cause]:
    given = spec.get("completions")
    if given == was.get("completions"):
        return []
    if spec["completionMode"] != "Indexed":
        return [immutable("spec.completions", given)]
    if given is None or given == spec["parallelism"]:
        return []
    return [invalid_value("spec.completions", given, "can only be modified in tandem with spec.parallelism")]


def template_is_mutable(job: Obj) -> bool:
    """Reports whether the template may change: the stored Job is suspended, without active pods, never started or settled."""
    status = job.get("status") or {}
    quiet = status.get("startTime") is None or truthy(job, "Suspended")
    return bool(job["spec"].get("suspend")) and quiet and not status.get("active")


def _check_template(spec: Obj, old: Obj) -> list[Cause]:
    new, was = spec["template"], old["spec"]["template"]
    if same(new, was):
        return []
    if template_is_mutable(old):
        was = _with_directives(new, was)
    if not old["spec"].get("suspend"):
        return [] if same(new, was) else [immutable("spec.template", new)]
    if not template_is_mutable(old):
        return [] if same(new, was) else [immutable("spec.template", new)]
    pod, was_pod = new["spec"], _with_resources(new["spec"], was["spec"])
    return [] if same(pod, was_pod) else [immutable("spec.template.spec", pod)]


def _with_directives(new: Obj, was: Obj) -> Obj:
    """Returns the old template with the new scheduling directives, labels and annotations."""
    meta = {
        **was.get("metadata", {}),
        **{name: new.get("metadata", {}).get(name) for name in ("labels", "annotations")},
    }
    pod = {**was["spec"], **{name: new["spec"].get(name) for name in _DIRECTIVES}}
    affinity = {
        **(was["spec"].get("affinity") or {}),
        "nodeAffinity": (new["spec"].get("affinity") or {}).get("nodeAffinity"),
    }
    pod["affinity"] = affinity if any(affinity.values()) else None
    return {**was, "metadata": meta, "spec": pod}


def _with_resources(new: Obj, was: Obj) -> Obj:
    """Returns the old pod spec with the new containers' resources, if the number of containers is the same."""
    pod = dict(was)
    for name in ("containers", "initContainers"):
        ours, theirs = was.get(name) or [], new.get(name) or []
        if len(ours) == len(theirs):
            pod[name] = [{**one, "resources": other.get("resources")} for one, other in zip(ours, theirs, strict=True)]
    return pod
