"""Reviews declared kinds of jobs (integrations/declared/declared.py): derives a ReviewedKind from the declaration."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.declared.entries import DeclaredPodSet
from admission.integrations.declared.expressions import JobExpressions
from admission.integrations.declared.referenced import MissingReference
from admission.integrations.declared.template_shape import check_pod_spec, checked_template
from admission.integrations.elastic import asks_for_elastic
from admission.integrations.paths import Location, fields, value_at
from admission.webhook.rules.annotations import groups
from admission.webhook.rules.elastic import elastic_topology
from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid
from admission.webhook.rules.jobs import Job, ReviewedKind, annotations_of
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api.errors import InvalidObject
from api.names import EXACT


def kind_of(adapter: DeclaredJob) -> ReviewedKind:
    """Returns how the webhook reviews jobs of a declared kind."""

    def templates(job: Job) -> list[Template]:
        """Returns the templates that can be read; `create` returns the errors of the others."""
        try:
            entries = adapter.entries(job)
        except InvalidObject:
            return []
        return [template for entry in entries for template in _templates(job, entry)]

    def _templates(job: Job, entry: DeclaredPodSet) -> Iterator[Template]:
        try:
            count, body = adapter.pods_of(job, entry), value_at(job, entry.template_at)
            if not writes_templates or entry.rule.function is not None or body is None:
                body = copy.deepcopy(dict(adapter.template(job, entry)))  # a copy: the job has no such field
            checked_template(body, entry.template_at, "")
        except InvalidObject:
            return
        if isinstance(body, dict):
            yield Template(_path(entry.template_at), entry.name, count, body)

    def create(job: Job, templates: Sequence[Template], rules: ReviewRules) -> Errors:
        for depth in range(1, len(adapter.suspend)):
            if (parent := value_at(job, adapter.suspend[:depth])) is not None and not isinstance(parent, Mapping):
                return [invalid(_path(adapter.suspend[:depth]), parent, "must be an object")]
        expressions = JobExpressions(job)
        try:
            for one in adapter.spec.requires:
                if not expressions.holds(one.expression):
                    return [invalid(FieldPath(one.path), value_at(job, fields(one.path)), one.message)]
            for entry in adapter.entries(job, expressions):
                check_pod_spec(adapter.template(job, entry), entry.template_at, "")
                adapter.pods_of(job, entry)
        except MissingReference:
            return []  # this process does not cache the reference; the controller reports it on the object
        except InvalidObject as bad:
            return [invalid(FieldPath(bad.field), bad.given, bad.allowed)]
        if not rules.gates.topology_aware_scheduling:
            return []
        elastic = rules.gates.elastic_jobs_via_workload_slices and adapter.resizable and asks_for_elastic(job)
        errors = groups(templates, annotations_of(job), exact=rules.profile == EXACT)
        return [*errors, *elastic_topology(job, templates)] if elastic else errors

    def update(old: Job, new: Job) -> Errors:
        if adapter.is_suspended(old) or adapter.is_suspended(new):
            return []
        paths = [fields(path) for path in adapter.spec.frozen]
        return [
            forbidden(_path(at), "may not change while the job runs")
            for at in paths
            if value_at(old, at) != value_at(new, at)
        ]

    suspend, writes_templates = adapter.spec.suspend, adapter.spec.write_back is None
    return ReviewedKind(
        adapter.spec.managed_by or "",
        templates,
        create,
        update,
        suspend=adapter.suspend,
        suspended=suspend.suspended,
        managed_by=fields(adapter.spec.managed_by_path),
        is_skipped=adapter.is_skipped,
    )


def _path(at: Location) -> FieldPath:
    path = FieldPath("")
    for step in at:
        path = path.item(step) if isinstance(step, int) else path.child(step)
    return path
