"""Which scheduler binds the pods that we hold, once they are admitted. Pure; the webhook's kinds call it.

What we let through must bind, and the stock scheduler binds it. The schedulers of the systems whose manifests work here are not
there any more: where a pod or a pod template names one of them, the stock scheduler is named instead. Settings add names to
these (`taken_over`), and name schedulers that run in this cluster beside the stock one (`kept`): their pods go to them.
Any other name is refused, for such a pod would hold its quota and never run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.sakkara import SCHEDULER
from admission.webhook.fields import Errors, FieldPath, not_supported
from admission.webhook.rules import ReviewRules
from admission.webhook.template import Template

FIELD: Final = "schedulerName"


def named(spec: Mapping[str, Any]) -> str:
    """The scheduler of a pod's spec; nothing means the stock one."""
    return spec.get(FIELD) or SCHEDULER


def take_over(spec: dict[str, Any], rules: ReviewRules) -> None:
    """Names the stock scheduler in place of one that is taken over."""
    if named(spec) in rules.taken_over_schedulers:
        spec[FIELD] = SCHEDULER


def validate(at: FieldPath, spec: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """The error of a scheduler that would never bind the pod; `at` is the path of the spec."""
    if named(spec) in (SCHEDULER, *rules.kept_schedulers):
        return []
    known = (SCHEDULER, *rules.kept_schedulers, *rules.taken_over_schedulers)
    return [not_supported(at.child(FIELD), named(spec), known)]


def take_over_templates(templates: Sequence[Template], rules: ReviewRules) -> None:
    """The same in each pod template."""
    for template in templates:
        if spec := template.body.get("spec"):
            take_over(spec, rules)


def validate_templates(new: Sequence[Template], old: Sequence[Template], rules: ReviewRules) -> Errors:
    """The errors of pod templates; of those that were there before (`old`) only where the scheduler has changed."""
    before = {template.path: named(template.body.get("spec") or {}) for template in old}
    errors: Errors = []
    for template in new:
        spec = template.body.get("spec") or {}
        if before.get(template.path) != named(spec):
            errors += validate(template.path.child("spec"), spec, rules)
    return errors
