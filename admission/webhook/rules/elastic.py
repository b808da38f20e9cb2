"""What jobs that are resized while they run may not request."""

from __future__ import annotations

from collections.abc import Sequence

from admission.webhook.rules.fields import Errors, forbidden
from admission.webhook.rules.jobs import Job, annotations_of
from admission.webhook.rules.template import Template
from api import names
from api.annotations.requests import REFINEMENTS, effective_annotations


def elastic_topology(job: Job, templates: Sequence[Template]) -> Errors:
    """Returns errors of topology requests that elastic jobs do not support: running pods stay, new pods go where they fit."""
    errors: Errors = []
    for template in templates:
        annotations = effective_annotations(template.annotations, annotations_of(job))
        at = template.metadata.child("annotations")
        for key, word in ((names.REQUIRED_TOPOLOGY, "required"), (names.PREFERRED_TOPOLOGY, "preferred")):
            if key in annotations:
                errors.append(forbidden(at.child(key), f"{word} topology is not supported with elastic jobs"))
        if (key := names.PLACEMENT_CONSTRAINTS) in annotations:
            errors.append(forbidden(at.key(key), "placement constraints are not supported with elastic jobs"))
        for each in REFINEMENTS:
            if each.key in annotations and not each.of_level:
                errors.append(forbidden(at.key(each.key), f"{each.noun} are not supported with elastic jobs"))
    return errors
