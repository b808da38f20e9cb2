"""A declared kind of job (integrations/declared.py) as the webhook sees it: a template for each of its pod sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from admission.integrations.declared import DeclaredJob, DeclaredPodSet
from admission.integrations.paths import Location, value_at
from admission.webhook.annotations import groups
from admission.webhook.fields import Errors, FieldPath, invalid
from admission.webhook.jobs import Job, ReviewedKind, annotations_of
from admission.webhook.rules import ReviewRules
from admission.webhook.template import Template
from api.errors import InvalidObject
from api.names import EXACT


def kind_of(adapter: DeclaredJob) -> ReviewedKind:
    """What the webhook asks of a kind of job, from its declaration."""

    def templates(job: Job) -> list[Template]:
        """Those that can be read: of the others `create` says what is wrong."""
        try:
            entries = adapter.entries(job)
        except InvalidObject:
            return []
        return [template for entry in entries for template in _templates(job, entry)]

    def _templates(job: Job, entry: DeclaredPodSet) -> Iterator[Template]:
        body = value_at(job, entry.template_at)
        try:
            count = adapter.pods_of(job, entry)
        except InvalidObject:
            return
        if isinstance(body, dict):
            yield Template(_path(entry.template_at), entry.name, count, body)

    def create(job: Job, given: Sequence[Template], rules: ReviewRules) -> Errors:
        for depth in range(1, len(adapter.suspend)):
            if (found := value_at(job, adapter.suspend[:depth])) is not None and not isinstance(found, Mapping):
                return [invalid(_path(adapter.suspend[:depth]), found, "must be an object")]
        try:
            for entry in adapter.entries(job):
                adapter.template(job, entry)
                adapter.pods_of(job, entry)
        except InvalidObject as bad:
            return [invalid(FieldPath(bad.field), bad.given, bad.allowed)]
        return groups(given, annotations_of(job), exact=rules.profile == EXACT) if rules.topology_aware else []

    suspend = adapter.spec.suspend
    return ReviewedKind(
        adapter.spec.managed_by or "",
        templates,
        create,
        lambda old, new: [],
        suspend=adapter.suspend,
        suspended=suspend.suspended,
    )


def _path(at: Location) -> FieldPath:
    path = FieldPath("")
    for step in at:
        path = path.item(step) if isinstance(step, int) else path.child(step)
    return path
