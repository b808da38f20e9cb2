"""Validates Stowage's own annotations: placement constraints, refinements, placement profile, those of features; booleans.

Constraints and refinements may be set on a job (for each of its pod sets) or on a pod template, which takes precedence.
api/annotations/constraints.py and api/annotations/requests.py parse them; this module checks combinations: a placement group
is placed as a whole, so constraints of one of its pod sets are refused; a refinement needs a required level or a topology
request. Placement checks that the levels exist; otherwise the workload waits, with the existing levels in its reason. Pure;
jobs.py and queues.py call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from admission.webhook.rules.fields import Errors, FieldError, FieldPath, forbidden, invalid, not_supported
from admission.webhook.rules.template import Annotations, Template
from api import names
from api.annotations import constraints, of_features
from api.annotations.constraints import InvalidConstraint
from api.annotations.requests import REFINEMENTS, Refinement, asks_for_topology, effective_annotations
from api.errors import InvalidObject

_CONSTRAINTS: Final = names.PLACEMENT_CONSTRAINTS
_YES_OR_NO: Final = ("false", "true")
_NOT_REQUIRED: Final = (
    f"may not be set when neither '{names.REQUIRE_TOPOLOGY}' nor '{names.REQUIRED_TOPOLOGY}' is specified"
)
_NO_TOPOLOGY: Final = (
    f"may not be set without a topology request; add '{names.REQUIRE_TOPOLOGY}', '{names.PREFER_TOPOLOGY}' or "
    f"'{names.UNCONSTRAINED_TOPOLOGY}'"
)


def refinements(metadata: FieldPath, annotations: Annotations) -> Errors:
    """Returns the errors of the values on one object (a job or a template), ignoring other annotations."""
    at = metadata.child("annotations")
    errors: Errors = []
    if (text := annotations.get(_CONSTRAINTS)) is not None:
        errors += [fault_error(at.key(_CONSTRAINTS), fault) for fault in constraints.read(text).faults]
    for each in REFINEMENTS:
        if (text := annotations.get(each.key)) is not None:
            try:
                each.parse(text)
            except ValueError as bad:
                errors.append(invalid(at.key(each.key), text, str(bad)))
    return errors


def fault_error(at: FieldPath, fault: InvalidConstraint) -> FieldError:
    """Returns an invalid constraint as a field error."""
    for part in fault.path[:1]:
        at = at.key(part)
    return invalid(at.child(*fault.path[1:]) if fault.path[1:] else at, fault.given, fault.allowed)


def combinations(metadata: FieldPath, job: Annotations, templates: Sequence[Template]) -> Errors:
    """Returns the errors of valid values that conflict with the pod set's size, its group or another request."""
    errors: Errors = []
    for template in templates:
        errors += _sizes(metadata, job, template)
        errors += _not_with_group(metadata, job, template)
        errors += refining_nothing(template.metadata, template.annotations, job)
    for each in reversed(REFINEMENTS):
        if each.key in job and not any(_applies(each, template.annotations, job) for template in templates):
            errors.append(_without_request(metadata, each))
    return errors


def refining_nothing(metadata: FieldPath, annotations: Annotations, job: Annotations) -> Errors:
    """Returns an error for each refinement among a template's annotations that applies to nothing."""
    own = (each for each in REFINEMENTS if each.key in annotations)
    return [_without_request(metadata, each) for each in own if not _applies(each, annotations, job)]


def _applies(refinement: Refinement, annotations: Annotations, job: Annotations) -> bool:
    if refinement.of_level:
        return names.REQUIRED_TOPOLOGY in effective_annotations(annotations, job)
    return asks_for_topology(annotations, job)


def _without_request(metadata: FieldPath, refinement: Refinement) -> FieldError:
    return forbidden(_key(metadata, refinement.key), _NOT_REQUIRED if refinement.of_level else _NO_TOPOLOGY)


def _key(metadata: FieldPath, key: str) -> FieldPath:
    return metadata.child("annotations").key(key)


def _constraints_field(metadata: FieldPath, job: Annotations, template: Template) -> tuple[FieldPath, str] | None:
    """Returns the field and text of the constraints that apply to the template, or None."""
    for where, given in ((template.metadata, template.annotations), (metadata, job)):
        if (text := given.get(_CONSTRAINTS)) is not None:
            return _key(where, _CONSTRAINTS), text
    return None


def _sizes(metadata: FieldPath, job: Annotations, template: Template) -> Errors:
    held = _constraints_field(metadata, job, template)
    if held is None:
        return []
    at, text = held
    faults = constraints.contradictions(constraints.read(text).constraints, template.count, template.pod_set)
    return [fault_error(at, fault) for fault in faults]


def _not_with_group(metadata: FieldPath, job: Annotations, template: Template) -> Errors:
    held = _constraints_field(metadata, job, template)
    if held is None or names.PODSET_GROUP_NAME not in template.annotations:
        return []
    return [forbidden(held[0], f"may not be set when '{names.PODSET_GROUP_NAME}' is specified")]


def profile(metadata: FieldPath, annotations: Mapping[str, str]) -> Errors:
    """Returns an error if the placement profile is unknown."""
    text = annotations.get(names.PLACEMENT_PROFILE)
    if text is None or text in names.PROFILES:
        return []
    return [not_supported(_key(metadata, names.PLACEMENT_PROFILE), text, names.PROFILES)]


def features_of_job(metadata: FieldPath, annotations: Mapping[str, str]) -> Errors:
    """Returns the errors of a job's annotations that features declare."""
    return [_fault(metadata, fault) for fault in of_features.faults_of_job(annotations)]


def features_of_queue(metadata: FieldPath, annotations: Mapping[str, str]) -> Errors:
    """Returns the errors of a ClusterQueue's annotations that features declare."""
    return [_fault(metadata, fault) for fault in of_features.faults_of_cluster_queue(annotations)]


def _fault(metadata: FieldPath, fault: InvalidObject) -> FieldError:
    key = fault.field.partition("[")[2].removesuffix("]")
    return invalid(_key(metadata, key), fault.given, fault.allowed)


def booleans(metadata: FieldPath, annotations: Mapping[str, str], keys: Sequence[str]) -> Errors:
    """Returns an error for each of these annotations whose value is not a boolean."""
    texts = {key: annotations.get(key, "false") for key in keys}
    return [
        not_supported(_key(metadata, key), text, _YES_OR_NO) for key, text in texts.items() if text not in _YES_OR_NO
    ]
