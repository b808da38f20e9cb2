"""The adapter of job kinds that data describes (api/job_kinds.py): suspend field, pod templates and status tests.

Webhook endpoints, informers, managed owners, RBAC and webhook configurations of the built-in kinds follow from the adapter
registry.

Jobs are untrusted: an unreadable field raises InvalidObject with its path, its value and what is allowed. Work is bounded: a
job has at most `MAX_POD_SETS` pod sets, and status tests obey the limits of api/cel/cel.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from admission.integrations.base import Job, JobResult, Patch, condition, infos_by_name, patch_between
from admission.integrations.declared import writeback
from admission.integrations.declared.entries import DeclaredPodSet, PodCount, count_of, entries_of, number_of
from admission.integrations.declared.entries import name_of as _name
from admission.integrations.declared.expressions import JobExpressions, holds, suspends
from admission.integrations.declared.functions import FUNCTIONS
from admission.integrations.declared.functions.base import PodSetFunction
from admission.integrations.declared.parts import PARTS
from admission.integrations.declared.template_shape import check_pod_spec, checked_template
from admission.integrations.elastic import asks_for_elastic
from admission.integrations.ownership import DEFAULTED, NOTHING_ADDED, excess
from admission.integrations.paths import fields, value_at, with_value, without, written
from admission.integrations.podset import PodSetInfo, applied, kept_template, restored
from admission.integrations.ranks import RankedPods, offsets
from api.annotations.requests import topology_request
from api.cel.cel import CelError, compile_cel
from api.cel.cel_budget import EvaluationBudget
from api.errors import InvalidObject
from api.job_kinds import DefaultTemplate, JobKindSpec, Sidecar, Test
from api.kube.resources import Resource
from api.text.quantity import parse_list
from api.workloads import MAX_POD_SETS, PodSet

_IMAGE_STEPS: Final = 500
"""Most steps for the image of a default template, which is read again for each pod set."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")


class DeclaredJob:
    """The adapter of one declared kind; base.py documents the methods of JobIntegration."""

    def __init__(self, spec: JobKindSpec) -> None:
        self.spec = spec
        self.resource = Resource(spec.group, spec.version, spec.plural, spec.kind)
        self.framework = f"{spec.group}/{spec.kind.lower()}"
        self.suspend = fields(spec.suspend.path)
        self._added = parse_list(spec.pods.added) if spec.pods.added else NOTHING_ADDED

    # ---- pod sets

    def entries(self, job: Job, expressions: JobExpressions | None = None) -> list[DeclaredPodSet]:
        """Returns the declarations of the job's pod sets, in order. Raises InvalidObject."""
        pod_sets: list[DeclaredPodSet] = []
        expressions = expressions or JobExpressions(job)
        for rule in self.spec.pod_sets:
            before = len(pod_sets)
            if not expressions.holds(rule.when):
                continue
            function = FUNCTIONS.get(rule.function or "")
            for entry in entries_of(job, rule) if function is None else function.pod_sets(job, rule):
                pod_sets.append(entry)
                if len(pod_sets) > MAX_POD_SETS:
                    raise InvalidObject(
                        written(entry.at[:-1]), len(pod_sets), f"at most {MAX_POD_SETS} pod sets", _name(job)
                    )
            if len(pod_sets) == before and not rule.optional:
                at = (rule.each or "").partition("[")[0].partition("{")[0]
                fault = (
                    f"must have at least one of {', '.join(rule.order)}"
                    if rule.order
                    else "must have at least one entry"
                )
                raise InvalidObject(at, value_at(job, fields(at)), fault, _name(job))
        names = [entry.name for entry in pod_sets]
        for entry in pod_sets:
            if not _NAME.match(entry.name):
                allowed = "must be the name of a pod set: at most 63 small letters, digits and dashes"
                raise InvalidObject(written(entry.at), entry.name, allowed, _name(job))
            if names.count(entry.name) > 1:
                raise InvalidObject(written(entry.at), entry.name, "must be the only pod set of that name", _name(job))
        return pod_sets

    def template(self, job: Job, entry: DeclaredPodSet) -> Mapping[str, Any]:
        """Returns the pod set's template. Raises InvalidObject."""
        template = value_at(job, entry.template_at) if entry.template is None else entry.template
        if template is None and entry.rule.default_template is not None:
            template = _default(job, entry.rule.default_template)
        template = checked_template(template, entry.template_at, _name(job))
        if self.spec.write_back is not None:
            added = writeback.with_additions(job, entry, self.spec.write_back, template)
            template = checked_template(added, entry.template_at, _name(job))
        return template

    def pods_of(self, job: Job, entry: DeclaredPodSet) -> int:
        """Returns the pod set's number of pods. Raises InvalidObject."""
        return self._count_of(job, entry).pods

    def _count_of(self, job: Job, entry: DeclaredPodSet) -> PodCount:
        """Returns the entry's number of pods, for an elastic job that of its part if the rule says so. Raises InvalidObject."""
        own = count_of(job, entry)
        if entry.rule.elastic is None or not entry.rule.elastic.parts or not asks_for_elastic(job):
            return own
        for kind, part in PARTS.of(self.resource, job):
            if isinstance(kind, DeclaredJob) and not kind.is_suspended(part):
                for declared in kind.entries(part):
                    if declared.name == entry.name:
                        return replace(own, pods=kind.pods_of(part, declared))
        return own

    def least_counts(self, job: Job) -> Mapping[str, int]:
        """See ResizableKind."""
        least_of = {entry.name: self._count_of(job, entry).least for entry in self.entries(job)}
        return {name: least for name, least in least_of.items() if least is not None}

    @property
    def counts_parts(self) -> bool:
        """Whether parts of a job say how many pods it has, or whether it is active."""
        elastic = (rule.elastic for rule in self.spec.pod_sets)
        return self.spec.status.active_parts or any(rule is not None and rule.parts for rule in elastic)

    @property
    def resizable(self) -> bool:
        """See ResizableKind."""
        return any(rule.elastic is not None for rule in self.spec.pod_sets)

    def pod_sets(self, job: Job, *, topology: bool = True) -> tuple[PodSet, ...]:
        """See JobIntegration. In an elastic job at most one pod set gets a `min_count`, since a Workload allows only one."""
        expressions = JobExpressions(job)
        entries = self.entries(job, expressions)
        made = [self._pod_set(job, entry, expressions, topology) for entry in entries]
        if self.resizable and asks_for_elastic(job):
            fewest = (self._count_of(job, entry).least for entry in entries)
            first = next(((number, least) for number, least in enumerate(fewest) if least is not None), None)
            if first is not None:
                made[first[0]] = made[first[0]].model_copy(update={"min_count": first[1]})
        return tuple(made)

    def _pod_set(self, job: Job, entry: DeclaredPodSet, expressions: JobExpressions, topology: bool) -> PodSet:
        template = self._template_with_sidecars(job, entry, expressions)
        fields_of: dict[str, Any] = {"name": entry.name, "template": template, "count": self.pods_of(job, entry)}
        if topology:
            groups = entry.rule.sub_groups
            order: dict[str, Any] = {
                "pod_index_label": self.spec.rank_label,
                "sub_group_index_label": entry.rule.sub_group_label,
                "sub_group_count": None if groups is None else number_of(job, entry, groups),
            }
            fields_of["topology_request"] = topology_request(
                template["metadata"].get("annotations"),
                job_annotations=(job.get("metadata") or {}).get("annotations"),
                **{**order, **entry.topology},
            )
        return PodSet(**fields_of)

    def _template_with_sidecars(self, job: Job, entry: DeclaredPodSet, expressions: JobExpressions) -> dict[str, Any]:
        """Returns the template with the containers that the kind's own controller injects. Raises InvalidObject."""
        template = kept_template(self.template(job, entry))
        check_pod_spec(template, entry.template_at, _name(job))
        added = [_container(job, one) for one in entry.rule.sidecars if expressions.holds(one.when)]
        if not added:
            return template
        spec = template["spec"]
        return {**template, "spec": {**spec, "containers": [*(spec.get("containers") or ()), *added]}}

    # ---- objects that the job refers to

    @property
    def functions(self) -> tuple[PodSetFunction, ...]:
        """The functions that compute pod sets of this kind."""
        named = (FUNCTIONS.get(rule.function or "") for rule in self.spec.pod_sets)
        return tuple(function for function in named if function is not None)

    def reference(self, job: Job) -> tuple[Resource, str] | None:
        """See SelectiveJob."""
        return next((reference for each in self.functions if (reference := each.reference(job)) is not None), None)

    # ---- state

    def is_suspended(self, job: Job) -> bool:
        """See JobIntegration."""
        return suspends(value_at(job, self.suspend), self.spec.suspend.suspended)

    def is_active(self, job: Job) -> bool:
        """See JobIntegration."""
        if self.spec.status.active_parts and (parts := tuple(PARTS.of(self.resource, job))):
            running = ((kind, part) for kind, part in parts if kind.finished(part) is None)
            return any(kind.is_active(part) or not kind.is_suspended(part) for kind, part in running)
        return holds(self.spec.status.active, job, unless_too_long=True)

    def finished(self, job: Job) -> JobResult | None:
        """See JobIntegration."""
        for test, success in ((self.spec.status.succeeded, True), (self.spec.status.failed, False)):
            if test is not None and holds(test, job):
                return None if self.is_active(job) else JobResult(self._message(job, test), success)
        return None

    def _message(self, job: Job, test: Test) -> str:
        if self.spec.status.message is not None:
            return str(value_at(job, fields(self.spec.status.message)) or "")
        of_kind = condition(job, test.condition) if test.condition else None
        return str((of_kind or {}).get("message") or "")

    def pods_ready(self, job: Job) -> bool:
        """See JobIntegration."""
        return self.spec.status.ready is not None and holds(self.spec.status.ready, job)

    def is_skipped(self, job: Job) -> bool:
        """See SelectiveJob."""
        return self.spec.skip_when is not None and holds(self.spec.skip_when, job)

    def is_on_hold(self, job: Job) -> bool:
        """See SelectiveJob."""
        return self.spec.status.on_hold is not None and holds(self.spec.status.on_hold, job)

    def priority_class(self, job: Job) -> str | None:
        """See JobWithPriorityClass. The job's own priority class wins over that of the first pod set that names one."""
        for path in self.spec.priority_class:
            if named := value_at(job, fields(path)):
                return str(named)
        specs = (self.template(job, entry).get("spec") for entry in self.entries(job))
        named_by_pods = (spec.get("priorityClassName") for spec in specs if isinstance(spec, Mapping))
        return next((str(name) for name in named_by_pods if name), None)

    # ---- start and stop

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> Patch:
        """See JobIntegration."""
        expressions = JobExpressions(job)
        entries = self.entries(job, expressions)
        by_name = infos_by_name(job, infos, [entry.name for entry in entries])
        changed = with_value(job, self.suspend, self.spec.suspend.running)
        templates = [self._own_template(job, entry) for entry in entries]
        ranks = offsets(
            [
                RankedPods(entry.name, by_name[entry.name].count, template, self._first_rank(entry, expressions))
                for entry, template in zip(entries, templates, strict=True)
            ]
        )
        for entry, template in zip(entries, templates, strict=True):
            info = by_name[entry.name].merged(annotations=ranks[entry.name])
            # also checked when only the info is written back, so that a conflict is found there too
            started = applied(template, info)
            if self.spec.write_back is None:
                changed = self._written(changed, entry, started)
            else:
                around = sum(one.around_at == entry.around_at for one in entries)
                changed = writeback.with_info(changed, entry, self.spec.write_back, info, started, around)
        return patch_between(job, changed) or {}

    def _first_rank(self, entry: DeclaredPodSet, expressions: JobExpressions) -> int | None:
        """Returns the number that the kind's controller gives the first pod, or None if it gives none."""
        if entry.topology.get("pod_index_label", self.spec.rank_label) is None:
            return None
        offset = entry.rule.rank_offset
        return offset.value if offset is not None and expressions.holds(offset.when) else 0

    def _own_template(self, job: Job, entry: DeclaredPodSet) -> Mapping[str, Any]:
        """Returns the pod set's template without what an earlier start wrote into a list. Raises InvalidObject."""
        back = self.spec.write_back
        return self.template(job if back is None else writeback.without_additions(job, entry, back), entry)

    def _written(self, job: Job, entry: DeclaredPodSet, template: Mapping[str, Any]) -> Job:
        """Returns the job with that template."""
        function = FUNCTIONS.get(entry.rule.function or "")
        if function is not None:
            return function.written(job, entry, template)
        default = entry.rule.default_template
        if default is not None and {key: part for key, part in template.items() if part} == _default(job, default):
            cleared: Job = without(job, entry.template_at)
            return cleared
        changed: Job = with_value(job, entry.template_at, template)
        return changed

    def stop(self, job: Job, original: Sequence[PodSet] | None) -> Patch | None:
        """See JobIntegration. Restores templates only while no pod is active: otherwise the controller could create pods."""
        if not self.is_suspended(job):
            return patch_between(job, with_value(job, self.suspend, self.spec.suspend.suspended))
        if not original or self.is_active(job):
            return None
        before = {pod_set.name: pod_set.template for pod_set in original}
        changed: Mapping[str, Any] = job
        for entry in self.entries(job):
            if entry.name in before:
                if self.spec.write_back is not None:
                    changed = writeback.without_additions(changed, entry, self.spec.write_back)
                else:
                    changed = self._written(changed, entry, restored(self.template(job, entry), before[entry.name]))
        return patch_between(job, changed)

    # ---- pods and child objects that the kind's own controller creates

    def pod_fault(self, pod: Job, job: Job) -> str:
        """Returns why the job's controller did not create this pod, or an empty string (see ownership.py)."""
        if self.is_suspended(job):
            return "is suspended and has no pods"
        wanted = self.spec.pods.labels or {}
        label, labels = self.spec.pods.name_label, (pod.get("metadata") or {}).get("labels") or {}
        if label is not None and labels.get(label) != _name(job):
            return f"has only pods with the label {label}: {_name(job)}"
        if not wanted.items() <= labels.items():
            return f"has only pods with the labels {wanted}"
        return self._fault_of((pod,), job)

    def child_fault(self, resource: Resource, pod_sets: Sequence[PodSet], job: Job) -> str:
        """Returns why the job's controller did not create an object of that kind and pod sets, or an empty string."""
        if not any(
            one.group in ("*", resource.group) and one.kind in ("*", resource.kind) for one in self.spec.children
        ):
            kinds = ["pods", *(f"objects of kind {one.kind}" for one in self.spec.children)]
            return f"has only {' and '.join(kinds)}"
        return self.excess_of([pod_set.count for pod_set in pod_sets], [pod_set.template for pod_set in pod_sets], job)

    def excess_of(self, counts: Sequence[int], pods: Iterable[Mapping[str, Any]], job: Job) -> str:
        """Returns how parts with these numbers of pods, or these pods, exceed every pod set of the job, or an empty string."""
        try:
            most = max((self.pods_of(job, entry) for entry in self.entries(job)), default=0)
        except InvalidObject as error:
            return f"has pods that can be read: {error}"
        for count in counts:
            if count > most:
                return f"has at most {most} pods in one pod set, not {count}"
        return self._fault_of(pods, job)

    def _fault_of(self, pods: Iterable[Mapping[str, Any]], job: Job) -> str:
        """Returns how the first pod that exceeds every template exceeds the first one, else an empty string."""
        try:
            expressions = JobExpressions(job)
            templates = [
                self._template_with_sidecars(job, entry, expressions) for entry in self.entries(job, expressions)
            ]
            for pod in pods:
                faults = [excess(pod, template, DEFAULTED, self._added) for template in templates]
                if faults and "" not in faults:
                    return faults[0]
        except InvalidObject as error:
            return f"has pods that can be read: {error}"
        return ""


def _default(job: Job, rule: DefaultTemplate) -> dict[str, Any]:
    """Returns the template that the kind's own controller uses for a job without one. Raises InvalidObject."""
    template: dict[str, Any] = rule.template
    if rule.image is None:
        return template
    try:
        image = compile_cel(rule.image)({"object": job, EvaluationBudget: EvaluationBudget(_IMAGE_STEPS)})
    except CelError:
        image = None
    containers = value_at(template, ("spec", "containers"))
    if not isinstance(image, str) or not isinstance(containers, list) or not containers:
        raise InvalidObject("spec", image, f"must have the image of a default template ({rule.image})", _name(job))
    first = {**containers[0], "image": image}
    changed: dict[str, Any] = with_value(template, ("spec", "containers"), [first, *containers[1:]])
    return changed


def _container(job: Job, sidecar: Sidecar) -> dict[str, Any]:
    requests = value_at(job, fields(sidecar.resources)) if sidecar.resources else None
    resources = requests if isinstance(requests, Mapping) and requests else {"requests": sidecar.requests}
    return {"name": sidecar.name, "resources": dict(resources)}
