"""Reviews batch/v1 Jobs: one template, partial admission, and completions kept equal to parallelism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.elastic import asks_for_elastic
from admission.integrations.job import MAIN, pods_of
from admission.webhook.rules.elastic import elastic_topology
from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid
from admission.webhook.rules.jobs import Job, ReviewedKind, annotations_of, integer
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api import names
from api.annotations.requests import parse_bool

_SPEC: Final = FieldPath("spec")
_MINIMUM: Final = FieldPath("metadata").child("annotations").key(names.MIN_PARALLELISM)
_EQUAL: Final = FieldPath("metadata").child("annotations").key(names.COMPLETIONS_EQUAL_PARALLELISM)


def templates(job: Job) -> list[Template]:
    """Returns the pod template of a Job, as a list of at most one."""
    spec = job.get("spec") or {}
    body = spec.get("template")
    return [Template(_SPEC.child("template"), MAIN, pods_of(spec), body)] if body else []


def _spec(job: Mapping[str, Any]) -> Mapping[str, Any]:
    return job.get("spec") or {}


def _parallelism(job: Mapping[str, Any]) -> int:
    value = _spec(job).get("parallelism")
    return 1 if value is None else int(value)


def _create(job: Job, templates: Sequence[Template], rules: ReviewRules) -> Errors:
    elastic = rules.gates.elastic_jobs_via_workload_slices and asks_for_elastic(job)
    errors = [*_minimum(job, elastic), *_equal(job)]
    return [*errors, *elastic_topology(job, templates)] if elastic and rules.gates.topology_aware_scheduling else errors


def _minimum(job: Job, elastic: bool) -> Errors:
    text = annotations_of(job).get(names.MIN_PARALLELISM)
    if text is None:
        return []
    number, errors = integer(_MINIMUM, text)
    most = _parallelism(job) - 1
    if number is not None and not 0 < number <= most:
        errors = [invalid(_MINIMUM, number, f"should be between 0 and {most}")]
    if elastic:
        errors.append(invalid(_MINIMUM, text, "partial admission and elastic job cannot be used together"))
    return errors


def _equal(job: Job) -> Errors:
    text = annotations_of(job).get(names.COMPLETIONS_EQUAL_PARALLELISM)
    if text is None:
        return []
    wanted = parse_bool(text)
    if wanted is None:
        return [invalid(_EQUAL, text, f'strconv.ParseBool: parsing "{text}": invalid syntax')]
    return _equal_counts(job, text) if wanted else []


def _equal_counts(job: Job, text: str) -> Errors:
    spec, errors = _spec(job), []
    if spec.get("completionMode", "NonIndexed") == "NonIndexed":
        errors.append(invalid(_EQUAL, text, "should not be enabled for NonIndexed jobs"))
    completions = spec.get("completions")
    if completions is not None and completions != _parallelism(job):
        rule = f"should be equal to parallelism when {names.COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        errors.append(invalid(_SPEC.child("completions"), completions, rule))
    return errors


def _update(old: Job, new: Job) -> Errors:
    errors: Errors = []
    partial = names.MIN_PARALLELISM in annotations_of(old)
    if partial and not JOB.is_suspended(old) and _parallelism(old) != _parallelism(new):
        rule = "cannot change when partial admission is enabled and the job is not suspended"
        errors.append(forbidden(_SPEC.child("parallelism"), rule))
    key = names.COMPLETIONS_EQUAL_PARALLELISM
    if not JOB.is_suspended(old) and annotations_of(old).get(key) != annotations_of(new).get(key):
        errors.append(forbidden(_EQUAL, "field is immutable while the job is not suspended"))
    return errors


JOB: Final = ReviewedKind(
    names.JOB_CONTROLLER, templates, _create, _update, of_request=frozenset((names.MIN_PARALLELISM,))
)
