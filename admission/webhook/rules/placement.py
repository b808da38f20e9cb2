"""Validates topology requests of single pods and PodGroups. Pure; pod.py and groups.py call it.

Jobs are validated with all of their templates (jobs.py). Here the number of pods and the other members of a group are
unknown; the controller checks these when it creates the group's Workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.webhook.rules import annotations as topology
from admission.webhook.rules import placement_annotations
from admission.webhook.rules.fields import Errors, FieldPath, forbidden
from admission.webhook.rules.jobs import annotations_of
from admission.webhook.rules.review_rules import ReviewRules
from api import names

_METADATA: Final = FieldPath("metadata")
_ANNOTATIONS: Final = _METADATA.child("annotations")


def errors_of(obj: Mapping[str, Any], rules: ReviewRules, *, shared: bool = False) -> Errors:
    """Returns the errors of the object's annotations. With `shared`, another object of its gang may complete the request."""
    if not rules.gates.topology_aware_scheduling:
        return []
    given = annotations_of(dict(obj))
    errors = [*topology.first_forms(_METADATA, given, None), *placement_annotations.refinements(_METADATA, given)]
    errors += placement_annotations.profile(_METADATA, given)
    multi_layer, exact = rules.placement.multi_layer, rules.exact
    errors += topology.template_annotations(_METADATA, given, multi_layer=multi_layer, exact=exact)
    return errors + _combinations(given, shared)


def _combinations(annotations: Mapping[str, str], shared: bool) -> Errors:
    errors: Errors = []
    if names.PLACEMENT_CONSTRAINTS in annotations and names.PODSET_GROUP_NAME in annotations:
        rule = f"may not be set when '{names.PODSET_GROUP_NAME}' is specified"
        errors.append(forbidden(_ANNOTATIONS.key(names.PLACEMENT_CONSTRAINTS), rule))
    return errors if shared else [*errors, *placement_annotations.refining_nothing(_METADATA, annotations, {})]
