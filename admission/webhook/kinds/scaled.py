"""Reviews kinds that a JobKind declares by a scale subresource (integrations/sets/scaled.py). Pure; endpoints.py calls it.

If the JobKind gives the path of the pod template, the webhook marks the template as for other sets, so that all pods are
created with the gate. Otherwise pods name the queue themselves, and the webhook marks each pod that such an object controls.
The requests of the template's pods are immutable while the object has pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from admission.integrations.elastic import asks_for_elastic
from admission.integrations.paths import fields, value_at, with_value
from admission.integrations.sets.scaled import MAIN, ScaledSet
from admission.integrations.sets.sets import SCALED
from admission.webhook.guards import reserved_queues
from admission.webhook.kind_rules import KindRules
from admission.webhook.kinds import sets
from admission.webhook.review_request import Request
from admission.webhook.rules import schedulers
from admission.webhook.rules.elastic import elastic_topology
from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid
from admission.webhook.rules.jobs import Job, ReviewedKind, annotations_of, queue_name
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import GroupKind, ReviewRules
from admission.webhook.rules.template import Template
from api import names
from api.errors import InvalidObject

_ELASTIC: Final = FieldPath("metadata").child("annotations").key(names.ELASTIC_JOB)


def templates(adapter: ScaledSet, obj: Job) -> list[Template]:
    """Returns the pod template. With zero or unreadable replicas its count is unlimited: any slice size is valid for it."""
    body = value_at(obj, adapter.template_at) if adapter.template_at else None
    if not isinstance(body, dict):
        return []
    try:
        replicas = adapter.replicas(obj)
    except InvalidObject:
        replicas = 0
    return [Template(FieldPath(adapter.scale.template or ""), MAIN, replicas or sets.MOST, body)]


@lru_cache(maxsize=256)
def kind_of(adapter: ScaledSet) -> ReviewedKind:
    """Returns how the webhook reviews an object of the kind like a job."""
    return ReviewedKind("", lambda obj: templates(adapter, obj), lambda *_: [], lambda *_: [])


def set_defaults(
    adapter: ScaledSet, obj: sets.Set, old: Mapping[str, Any], namespace: str, lookups: Lookups, rules: ReviewRules
) -> None:
    """Completes an object in place on creation or update; leaves one without a queue name unchanged."""
    body = value_at(obj, adapter.template_at) if adapter.template_at else None
    if not isinstance(body, dict) or not sets.is_managed(obj, namespace, lookups, rules):
        return
    name = (obj.get("metadata") or {}).get("name")
    rank = adapter.spec.rank_label
    marks = {
        names.POD_SUSPENDING_PARENT: adapter.framework,
        names.POD_GROUP_FAST_ADMISSION: "true",
        names.POD_GROUP_SERVING: "true",
        **({names.POD_GROUP_INDEX_SOURCE: rank} if rank else {}),
        **({names.SET_NAME: name} if name else {}),
    }
    before = value_at(old, adapter.template_at)
    sets.mark(body, before if isinstance(before, dict) else {}, obj, marks, namespace)
    obj.update(with_value(obj, adapter.template_at, body))
    schedulers.take_over_templates(templates(adapter, obj), rules)


def validate(
    adapter: ScaledSet,
    old: Mapping[str, Any] | None,
    new: sets.Set,
    namespace: str,
    lookups: Lookups,
    rules: ReviewRules,
) -> Errors:
    """Returns the errors of a new or updated object."""
    kind = kind_of(adapter)
    errors = sets.validate(old, new, kind, namespace, lookups, rules)
    if not queue_name(new):
        return errors
    errors += _readable(adapter, new)
    gates = rules.gates
    if asks_for_elastic(new) and gates.topology_aware_scheduling and gates.elastic_jobs_via_workload_slices:
        errors += elastic_topology(new, templates(adapter, new) or [_template_of_object(new)])
    if old is None or _is_empty(adapter, old):
        return errors
    if asks_for_elastic(dict(old)) is not asks_for_elastic(new):
        errors.append(forbidden(_ELASTIC, "may not change while the object has pods; scale it to 0 first"))
    return [*errors, *sets.same_shapes(templates(adapter, dict(old)), templates(adapter, new))]


def _readable(adapter: ScaledSet, obj: Mapping[str, Any]) -> Errors:
    """Returns the error of an unreadable field of the spec. The status, with the selector, is not the user's."""
    try:
        adapter.replicas(obj)
        adapter.least(obj)
        if adapter.template_at:
            adapter.template(obj)
    except InvalidObject as bad:
        return [invalid(FieldPath(bad.field), bad.given, bad.allowed)]
    return []


def _template_of_object(obj: Job) -> Template:
    """Returns a substitute for an unknown template, with the annotations of the object itself."""
    return Template(FieldPath("metadata"), MAIN, sets.MOST, {"metadata": {"annotations": dict(annotations_of(obj))}})


def _is_empty(adapter: ScaledSet, obj: Mapping[str, Any]) -> bool:
    value = value_at(obj, fields(adapter.scale.replicas.path))
    return bool(value == 0)


# ---- pods


def adopt(pod: dict[str, Any], controllers: list[GroupKind]) -> None:
    """Marks a new pod with such an object as controller in place; removes these marks from other pods."""
    meta = pod.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    own = next((scaled_kind for scaled_kind in map(SCALED.get, controllers) if scaled_kind is not None), None)
    if own is None:
        known = SCALED.of_framework(annotations.get(names.POD_SUSPENDING_PARENT, ""))
        if names.SET_NAME in annotations and (known is None or not known.template_at):
            for key in (names.SET_NAME, *((names.POD_SUSPENDING_PARENT,) if known else ())):
                annotations.pop(key, None)
        return
    owner = next(one for one in meta.get("ownerReferences") or () if one.get("controller"))
    values = {names.POD_SUSPENDING_PARENT: own.framework, names.SET_NAME: str(owner.get("name") or "")}
    if own.spec.rank_label is not None:
        values[names.POD_GROUP_INDEX_SOURCE] = own.spec.rank_label
    meta["annotations"] = {**annotations, **values}


class ScaledRules(KindRules):
    """The rules of a kind that a JobKind declares by its scale."""

    completes = updates = True

    def __init__(self, adapter: ScaledSet) -> None:
        super().__init__(adapter.resource)
        self._adapter = adapter

    def mutate(self, obj: dict[str, Any], request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        """See set_defaults."""
        set_defaults(self._adapter, obj, request.old, request.namespace, lookups, rules)

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate; an object that is being deleted is left alone."""
        old, new = request.old_object, request.new
        if (new.get("metadata") or {}).get("deletionTimestamp"):
            return []
        errors = validate(self._adapter, old, new, request.namespace, lookups, rules)
        return errors + reserved_queues.of_request(request, lookups, rules)
