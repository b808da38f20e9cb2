"""Reviews JobSets: a template for each replicated job, and placement groups among them.

Each replicated job becomes a pod set. The webhook refuses a JobSet with more of them than a Workload can hold, because it
could never start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from admission.integrations.job import pods_of
from admission.webhook.rules.annotations import groups
from admission.webhook.rules.fields import Errors, FieldPath, too_many
from admission.webhook.rules.jobs import Job, ReviewedKind, annotations_of
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api.workloads import MAX_POD_SETS

_REPLICATED: Final = FieldPath("spec").child("replicatedJobs")


def templates(jobset: Job) -> list[Template]:
    """Returns the pod templates, one for each replicated job that has one."""
    replicated = (jobset.get("spec") or {}).get("replicatedJobs") or ()
    return [one for i, part in enumerate(replicated) if (one := _template(_REPLICATED.item(i), part)) is not None]


def _template(at: FieldPath, part: dict[str, Any]) -> Template | None:
    spec = (part.get("template") or {}).get("spec") or {}
    replicas = part.get("replicas")
    count = (1 if replicas is None else int(replicas)) * pods_of(spec)
    path = at.child("template", "spec", "template")
    return Template(path, str(part.get("name", "")).lower(), count, spec["template"]) if spec.get("template") else None


def _create(jobset: Job, templates: Sequence[Template], rules: ReviewRules) -> Errors:
    errors = (
        groups(templates, annotations_of(jobset), exact=rules.exact) if rules.gates.topology_aware_scheduling else []
    )
    return errors if len(templates) <= MAX_POD_SETS else [*errors, too_many(_REPLICATED, len(templates), MAX_POD_SETS)]


def _update(old: Job, new: Job) -> Errors:
    return []


JOBSET: Final = ReviewedKind("jobset.sigs.k8s.io/jobset-controller", templates, _create, _update)
