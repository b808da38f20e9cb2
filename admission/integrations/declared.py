"""Kinds of job that data describes: where they are suspended, where their pod templates stand, which conditions say what.

A kind with one map from role to `{replicas, template}` needs a `Declaration` and no code. Endpoints of the webhook, informers,
managed owners, rights and webhook configurations follow from the registry of adapters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.integrations.base import (
    Finish,
    Job,
    Patch,
    condition,
    has_condition,
    infos_by_name,
    patch_between,
)
from admission.integrations.ownership import DEFAULTED, excess
from admission.integrations.podset import PodSetInfo, applied, kept_template, restored
from api.errors import InvalidObject
from api.kube.resources import Resource
from api.requests import topology_request
from api.workloads import PodSet

FieldPath = tuple[str, ...]
Part = Mapping[str, Any]

_MOST_PODS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Declaration:
    """One kind of job whose object has a map from role to `{replicas, template}`; each role is a pod set.

    `framework`: its name in settings and messages. `roles`: all that there are, in the order of the pod sets, whose names are
    theirs in small letters. `statuses`: a map from role to the numbers of its pods, of which `active` is read. `ready`,
    `succeeded`, `failed`: types of its conditions. `rank_label`: the label of a pod with its number in its role. `name_label`:
    the label by which a pod names its job. `controller`: the value of managedBy for its own controller, which may give pods
    init containers of its own that ask for as much as `added` (cpu in milli-units, else bytes).
    """

    framework: str
    resource: Resource
    replicas: FieldPath
    roles: tuple[str, ...]
    suspend: FieldPath
    statuses: FieldPath
    ready: str
    succeeded: str
    failed: str
    priority_class: FieldPath
    rank_label: str
    name_label: str
    controller: str
    added: Mapping[str, int]


class DeclaredJob:
    """The adapter of a declared kind. See JobKind for its methods."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.framework, self.resource = declaration.framework, declaration.resource

    def parts(self, job: Job) -> dict[str, Part]:
        """What the job says of each role, in order. Raises InvalidObject for what is no role, and for a job without any."""
        at = ".".join(self.declaration.replicas)
        given = value_at(job, self.declaration.replicas)
        if not isinstance(given, Mapping) or not given:
            raise InvalidObject(at, given, f"must have at least one of {', '.join(self.declaration.roles)}", _name(job))
        for role, part in given.items():
            if role not in self.declaration.roles:
                raise InvalidObject(at, role, f"must be one of {', '.join(self.declaration.roles)}", _name(job))
            if not isinstance(part, Mapping) or not isinstance(part.get("template"), Mapping):
                raise InvalidObject(f"{at}.{role}.template", part, "must be a pod template", _name(job))
        return {role: given[role] for role in self.declaration.roles if role in given}

    def pods_of(self, role: str, part: Part) -> int:
        """How many pods the role has. Raises InvalidObject."""
        replicas = part.get("replicas")
        if replicas is None:
            return 1
        if type(replicas) is not int or not 0 <= replicas <= _MOST_PODS:
            where = ".".join((*self.declaration.replicas, role, "replicas"))
            raise InvalidObject(where, replicas, f"must be a whole number from 0 to {_MOST_PODS}")
        return replicas

    def pod_sets(self, job: Job, *, topology: bool = True) -> tuple[PodSet, ...]:
        """See JobKind."""
        asked = (job.get("metadata") or {}).get("annotations")
        return tuple(self._pod_set(role, part, asked, topology) for role, part in self.parts(job).items())

    def _pod_set(self, role: str, part: Part, asked: Mapping[str, str] | None, topology: bool) -> PodSet:
        template = kept_template(part["template"])
        fields: dict[str, Any] = {"name": role.lower(), "template": template, "count": self.pods_of(role, part)}
        if topology:
            fields["topology_request"] = topology_request(
                template["metadata"].get("annotations"),
                job_annotations=asked,
                pod_index_label=self.declaration.rank_label,
            )
        return PodSet(**fields)

    def is_suspended(self, job: Job) -> bool:
        """See JobKind."""
        return bool(value_at(job, self.declaration.suspend))

    def is_active(self, job: Job) -> bool:
        """See JobKind."""
        statuses = value_at(job, self.declaration.statuses)
        counted = statuses.values() if isinstance(statuses, Mapping) else ()
        return has_condition(job, self.declaration.ready) or any(
            isinstance(one, Mapping) and one.get("active") for one in counted
        )

    def finished(self, job: Job) -> Finish | None:
        """See JobKind."""
        for kind, success in ((self.declaration.succeeded, True), (self.declaration.failed, False)):
            if has_condition(job, kind):
                return Finish((condition(job, kind) or {}).get("message") or "", success)
        return None

    def pods_ready(self, job: Job) -> bool:
        """See JobKind."""
        return has_condition(job, self.declaration.ready)

    def priority_class(self, job: Job) -> str | None:
        """See Prioritized: the job's own, else that of the first role that names one."""
        if named := value_at(job, self.declaration.priority_class):
            return str(named)
        templates = (part["template"].get("spec") or {} for part in self.parts(job).values())
        return next((str(spec["priorityClassName"]) for spec in templates if spec.get("priorityClassName")), None)

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> Patch:
        """See JobKind."""
        parts = self.parts(job)
        by_name = infos_by_name(job, infos, [role.lower() for role in parts])
        changed = {
            role: {**part, "template": applied(part["template"], by_name[role.lower()])} for role, part in parts.items()
        }
        running = with_value(job, self.declaration.suspend, False)
        return patch_between(job, with_value(running, self.declaration.replicas, changed)) or {}

    def stop(self, job: Job, original: Sequence[PodSet] | None) -> Patch | None:
        """See JobKind. Templates go back when no pod is active: until then its controller may make pods of them."""
        if not self.is_suspended(job):
            return patch_between(job, with_value(job, self.declaration.suspend, True))
        if not original or self.is_active(job):
            return None
        before = {pod_set.name: pod_set.template for pod_set in original}
        changed = {role: _restored(part, before.get(role.lower())) for role, part in self.parts(job).items()}
        return patch_between(job, with_value(job, self.declaration.replicas, changed))

    def pod_fault(self, pod: Job, job: Job) -> str:
        """Why the pod is none that the job's controller makes, or nothing (see ownership.py)."""
        if self.is_suspended(job):
            return "is suspended and has no pods"
        labels = (pod.get("metadata") or {}).get("labels") or {}
        if labels.get(self.declaration.name_label) != _name(job):
            return f"has only pods with the label {self.declaration.name_label}: {_name(job)}"
        try:
            templates = [part["template"] for part in self.parts(job).values()]
            faults = [excess(pod, template, DEFAULTED, self.declaration.added) for template in templates]
        except InvalidObject as error:
            return f"has pods that can be read: {error}"
        return "" if "" in faults else faults[0]


def value_at(obj: Mapping[str, Any], path: FieldPath) -> Any:
    """What stands at the path, None for nothing."""
    found: Any = obj
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def with_value(obj: Mapping[str, Any], path: FieldPath, value: Any) -> dict[str, Any]:
    """A copy of the object with that value at the path; maps on the way are made where they are missing."""
    first, *rest = path
    below = obj.get(first)
    new = with_value(below if isinstance(below, Mapping) else {}, tuple(rest), value) if rest else value
    return {**obj, first: new}


def _restored(part: Part, original: Mapping[str, Any] | None) -> Part:
    return part if original is None else {**part, "template": restored(part["template"], original)}


def _name(job: Job) -> str:
    return str((job.get("metadata") or {}).get("name") or "")
