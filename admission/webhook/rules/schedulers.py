"""The scheduler that binds held pods after admission. Pure; the webhook's kinds call it.

The stock scheduler must be able to bind admitted pods. Pods and templates written for another supported system may name that
system's scheduler, which does not run here, so the webhook names the stock scheduler instead. Settings add such names
(`taken_over`), and name schedulers that run in addition to the stock one (`kept`), which the webhook leaves unchanged. Any
other name is refused: such a pod would hold quota and never run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.pods.sakkara import SCHEDULER
from admission.webhook.rules.fields import Errors, FieldPath, not_supported
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template

FIELD: Final = "schedulerName"


def named(spec: Mapping[str, Any]) -> str:
    """Returns the scheduler that a pod's spec names, by default the stock one."""
    return spec.get(FIELD) or SCHEDULER


def take_over(spec: dict[str, Any], rules: ReviewRules) -> None:
    """Replaces a taken-over scheduler by the stock one, in place."""
    if named(spec) in rules.taken_over_schedulers:
        spec[FIELD] = SCHEDULER


def validate(at: FieldPath, spec: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """Returns the error of a scheduler that would never bind the pod; `at` is the path of the spec."""
    if named(spec) in (SCHEDULER, *rules.kept_schedulers):
        return []
    known = (SCHEDULER, *rules.kept_schedulers, *rules.taken_over_schedulers)
    return [not_supported(at.child(FIELD), named(spec), known)]


def take_over_templates(templates: Sequence[Template], rules: ReviewRules) -> None:
    """Replaces taken-over schedulers by the stock one in each pod template, in place."""
    for template in templates:
        if spec := template.body.get("spec"):
            take_over(spec, rules)


def validate_templates(new: Sequence[Template], old: Sequence[Template], rules: ReviewRules) -> Errors:
    """Returns the errors of pod templates, except for schedulers that `old` already had."""
    before = {template.path: named(template.body.get("spec") or {}) for template in old}
    errors: Errors = []
    for template in new:
        spec = template.body.get("spec") or {}
        if before.get(template.path) != named(spec):
            errors += validate(template.path.child("spec"), spec, rules)
    return errors
