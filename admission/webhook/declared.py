"""A declared kind of job (integrations/declared.py) as the webhook sees it: a template for each of its roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admission.integrations.declared import DeclaredJob, value_at
from admission.webhook.annotations import groups
from admission.webhook.fields import Errors, Path, invalid
from admission.webhook.jobs import Job, Kind, annotations_of
from admission.webhook.rules import Rules
from admission.webhook.template import Template
from api.errors import InvalidObject
from api.names import EXACT


def kind_of(adapter: DeclaredJob) -> Kind:
    """What the webhook asks of a kind of job, from its declaration."""
    declaration = adapter.declaration
    at = Path("").child(*declaration.replicas)

    def templates(job: Job) -> list[Template]:
        """Those that can be read: of the others `create` says what is wrong."""
        parts = value_at(job, declaration.replicas)
        if not isinstance(parts, Mapping):
            return []
        found = ((role, parts.get(role)) for role in declaration.roles)
        return [one for role, part in found if (one := _template(role, part)) is not None]

    def _template(role: str, part: object) -> Template | None:
        if not isinstance(part, Mapping) or not isinstance(body := part.get("template"), dict):
            return None
        try:
            count = adapter.pods_of(role, part)
        except InvalidObject:
            return None
        return Template(at.child(role, "template"), role.lower(), count, body)

    def create(job: Job, given: Sequence[Template], rules: Rules) -> Errors:
        try:
            for role, part in adapter.parts(job).items():
                adapter.pods_of(role, part)
        except InvalidObject as bad:
            return [invalid(Path(bad.field), bad.given, bad.allowed)]
        return groups(given, annotations_of(job), exact=rules.profile == EXACT) if rules.topology_aware else []

    return Kind(declaration.controller, templates, create, lambda old, new: [], declaration.suspend)
