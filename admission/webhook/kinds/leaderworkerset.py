"""LeaderWorkerSet (leaderworkerset.x-k8s.io): each of its groups is admitted separately. Pure; endpoints.py calls it.

The number of groups follows `replicas`. The size of a group is immutable: its Workload admits a fixed number of pods, and the
set's controller would create more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.sets.leaderworkerset import (
    LEADER,
    MAIN,
    MOST_GROUPS,
    WORKER,
    LeaderWorkerSet,
    leader_template,
    size_of,
    worker_template,
)
from admission.webhook.guards import reserved_queues
from admission.webhook.kind_rules import KindRules
from admission.webhook.kinds import sets
from admission.webhook.review_request import Request
from admission.webhook.rules import schedulers
from admission.webhook.rules.annotations import groups
from admission.webhook.rules.defaults import default_queue, in_managed_namespace
from admission.webhook.rules.fields import IMMUTABLE, OMIT, Errors, FieldPath, invalid, unchanged
from admission.webhook.rules.jobs import Job, ReviewedKind, annotations_of, queue_name
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api import names

_SPEC: Final = FieldPath("spec")
_TEMPLATES: Final = _SPEC.child("leaderWorkerTemplate")
_LEADER: Final = _TEMPLATES.child("leaderTemplate")
_WORKER: Final = _TEMPLATES.child("workerTemplate")
_FIRST_WORKER: Final = "1"


def templates(obj: Job) -> list[Template]:
    """Returns the templates of one group: leader and workers, or workers alone."""
    leader, worker, size = leader_template(obj), worker_template(obj), size_of(obj)
    if leader is None:
        return [Template(_WORKER, MAIN, size, dict(worker))]
    first = Template(_LEADER, LEADER, 1, dict(leader))
    return [first, Template(_WORKER, WORKER, size - 1, dict(worker))] if size > 1 else [first]


def _create(obj: Job, templates: Sequence[Template], rules: ReviewRules) -> Errors:
    errors = groups(templates, annotations_of(obj), exact=rules.exact) if rules.gates.topology_aware_scheduling else []
    replicas = sets.replicas_of(obj)
    if replicas > MOST_GROUPS:
        errors.append(invalid(_SPEC.child("replicas"), replicas, f"must be at most {MOST_GROUPS}"))
    return errors


KIND: Final = ReviewedKind("", templates, _create, lambda *_: [])


def set_defaults(obj: sets.Set, old: Mapping[str, Any], namespace: str, lookups: Lookups, rules: ReviewRules) -> None:
    """Completes a LeaderWorkerSet in place on creation or update; leaves one without a queue unchanged.

    A new one without a queue name gets the namespace's default queue. Otherwise each of its pods would use that queue by
    itself, and half a group could start.
    """
    is_new = not (obj.get("metadata") or {}).get("uid")
    if is_new and not queue_name(obj) and in_managed_namespace(namespace, lookups, rules):
        queue = default_queue(namespace, lookups)
        if queue is not None:
            metadata = obj.setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), names.QUEUE_NAME_LABEL: queue}
    if not sets.is_managed(obj, namespace, lookups, rules):
        return
    given = obj.setdefault("spec", {}).setdefault("leaderWorkerTemplate", {})
    worker = given.setdefault("workerTemplate", {})
    marks = {names.POD_SUSPENDING_PARENT: LeaderWorkerSet.framework, names.POD_GROUP_SERVING: "true"}
    more: dict[str, str] = {}
    if given.get("leaderTemplate") is not None:
        sets.mark(given["leaderTemplate"], leader_template(old) or {}, obj, marks, namespace)
        if rules.gates.topology_aware_scheduling and names.PODSET_GROUP_NAME not in _annotations(worker):
            more = {names.POD_INDEX_OFFSET: _FIRST_WORKER}
    sets.mark(worker, worker_template(old), obj, {**marks, **more}, namespace)
    schedulers.take_over_templates(templates(obj), rules)


def _annotations(template: Mapping[str, Any]) -> Mapping[str, str]:
    return (template.get("metadata") or {}).get("annotations") or {}


def validate(
    old: Mapping[str, Any] | None, new: sets.Set, namespace: str, lookups: Lookups, rules: ReviewRules
) -> Errors:
    """Returns the errors of a new or changed LeaderWorkerSet."""
    errors = sets.validate(old, new, KIND, namespace, lookups, rules)
    if old is None or not queue_name(new):
        return errors
    errors += unchanged(_TEMPLATES.child("size"), size_of(new), size_of(old))
    if sets.is_empty(old):
        return errors
    if (leader_template(old) is None) != (leader_template(new) is None):
        return [*errors, invalid(_LEADER, OMIT, IMMUTABLE)]
    return [*errors, *sets.same_shapes(templates(dict(old)), templates(new))]


class LeaderWorkerSetRules(KindRules):
    """The rules of LeaderWorkerSets."""

    completes = updates = True

    def mutate(self, obj: dict[str, Any], request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        """See set_defaults."""
        set_defaults(obj, request.old, request.namespace, lookups, rules)

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate."""
        errors = validate(request.old_object, request.new, request.namespace, lookups, rules)
        return errors + reserved_queues.of_request(request, lookups, rules)
