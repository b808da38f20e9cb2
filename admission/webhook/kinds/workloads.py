"""Validates Workloads: their spec and status, and what is immutable once quota is reserved.

The CRD's CEL rules cover many rules of the spec already. This module has the rules that compare fields across lists or
old with new; workload_status.py has those of the status. Workloads are plain dicts. Pure; endpoints.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.webhook.kind_rules import KindRules
from admission.webhook.kinds.workload_status import (
    admission_change,
    admission_errors,
    check_change,
    check_errors,
    has_quota,
    is_elastic,
    lost_admission,
    pod_sets_of,
    reclaimable_change,
    reclaimable_errors,
)
from admission.webhook.review_request import CREATE, Request
from admission.webhook.rules import gates
from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid, required, same, unchanged
from admission.webhook.rules.formats import annotation_keys, labels
from admission.webhook.rules.jobs import annotations_of
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.placement_annotations import fault_error, profile
from admission.webhook.rules.pods import template_faults, template_resources
from admission.webhook.rules.review_rules import ReviewRules
from api import names
from api.annotations import constraints
from api.annotations.requests import parse_int32
from api.kube.resources import CLUSTER_QUEUES
from api.process.access import Right

Wire = Mapping[str, Any]

_SPEC: Final = FieldPath("spec")
_PODSETS: Final = _SPEC.child("podSets")
_BOOST: Final = FieldPath("metadata").child("annotations").key(names.PRIORITY_BOOST)
_SLICE_LEVEL, _SLICE_SIZE = "podSetSliceRequiredTopology", "podSetSliceSize"
_LAYERS: Final = "podsetSliceRequiredTopologyConstraints"

_EARLY_FORM: Final = (
    "this is the early form: give each pod set what it asks for, as spec.podSets[].topologyRequest with required or preferred "
    "and the level"
)


def set_defaults(workload: dict[str, Any]) -> None:
    """Completes a new workload in place: the only pod set of a workload is named `main`."""
    pod_sets = (workload.get("spec") or {}).get("podSets") or []
    if len(pod_sets) == 1 and not pod_sets[0].get("name"):
        pod_sets[0]["name"] = "main"


def validate_create(workload: Wire, rules: ReviewRules) -> Errors:
    """Returns the errors of a new workload."""
    errors = [*_common(workload, rules), *_partial_elastic(workload, rules)]
    return [*errors, *admission_errors(workload), *reclaimable_errors(workload, {}, rules)]


def fewer_reclaimable(old: Wire, new: Wire, rules: ReviewRules) -> Errors:
    """Returns an error for each count of reclaimable pods that falls while the workload has quota."""
    if (new.get("metadata") or {}).get("deletionTimestamp") or not (has_quota(old) and has_quota(new)):
        return []
    return reclaimable_change(old, new, rules)


def validate_update(old: Wire, new: Wire, rules: ReviewRules, *, may_fall: bool = False) -> Errors:
    """Returns the errors of an update of spec, metadata or status; none while the workload is being deleted.

    With `may_fall`, counts of reclaimable pods may fall: the controller sees that pods of a job have come back.
    """
    if (new.get("metadata") or {}).get("deletionTimestamp"):
        return []
    errors = _common(new, rules)
    if not _partial_elastic(old, rules):
        errors += _partial_elastic(new, rules)
    if not lost_admission(old):
        errors += admission_errors(new)
    errors += reclaimable_errors(new, old, rules)
    if has_quota(old) and has_quota(new):
        errors += _frozen_pod_sets(old, new, rules)
    if not may_fall:
        errors += fewer_reclaimable(old, new, rules)
    errors += admission_change(old, new)
    errors += check_change(old, new)
    if rules.gates.admission_gated_by:
        errors += gates.validate_update(old.get("metadata") or {}, new.get("metadata") or {})
    return errors


def warnings(workload: Wire) -> list[str]:
    """Warns of values that are accepted although they have no meaning."""
    return [
        f"{_PODSETS.item(i).child('topologyRequest', 'subGroupCount')}: should be 0 or more, got {count}"
        for i, pod_set in enumerate(pod_sets_of(workload))
        if (count := (pod_set.get("topologyRequest") or {}).get("subGroupCount") or 0) < 0
    ]


def _common(workload: Wire, rules: ReviewRules) -> Errors:
    errors = profile(FieldPath("metadata"), annotations_of(workload))
    for i, pod_set in enumerate(pod_sets_of(workload)):
        errors += _pod_set(_PODSETS.item(i), pod_set, rules)
    errors += _min_counts(workload)
    if "topologyRequest" in (workload.get("spec") or {}):
        errors.append(forbidden(_SPEC.child("topologyRequest"), _EARLY_FORM))
    if rules.gates.admission_gated_by:
        errors += gates.validate(workload.get("metadata") or {})
    if rules.gates.priority_boost:
        errors += _boost(workload)
    return [*errors, *check_errors(workload)]


def _pod_set(at: FieldPath, pod_set: Wire, rules: ReviewRules) -> Errors:
    template = pod_set.get("template") or {}
    if errors := template_faults(at.child("template"), template):
        return errors
    metadata, where = template.get("metadata") or {}, at.child("template", "metadata")
    errors = labels(where.child("labels"), metadata.get("labels"))
    errors += annotation_keys(where.child("annotations"), metadata.get("annotations"))
    errors += template_resources(
        at.child("template", "spec"),
        template.get("spec") or {},
        rules.gates.workload_validate_resources_are_non_negative,
    )
    if request := pod_set.get("topologyRequest"):
        errors += _slices(at.child("topologyRequest"), request) if rules.gates.tas_validate_workload_slice_size else []
        errors += _shape(at.child("topologyRequest"), request, pod_set)
    return errors


def _shape(at: FieldPath, request: Wire, pod_set: Wire) -> Errors:
    """Returns the errors of constraints that contradict each other or the pod set, and of `relaxAfterSeconds` alone."""
    shaped, where = request.get("constraints") or (), at.child("constraints")
    pods, name = pod_set.get("count", 1), pod_set.get("name", "main")
    faults = constraints.contradictions(constraints.from_wire(shaped), pods, name)
    errors = [fault_error(where, fault) for fault in faults]
    if shaped and request.get("podSetGroupName") is not None:
        errors.append(forbidden(where, "may not be set when podSetGroupName is specified"))
    if request.get("relaxAfterSeconds") is not None and request.get("required") is None:
        errors.append(forbidden(at.child("relaxAfterSeconds"), "may not be set when required is not specified"))
    return errors


def _slices(at: FieldPath, request: Wire) -> Errors:
    size, errors = request.get(_SLICE_SIZE), _layer_sizes(at.child(_LAYERS), request)
    if request.get(_SLICE_LEVEL) is not None:
        if size is None:
            errors.append(required(at.child(_SLICE_SIZE), f"must be set when {_SLICE_LEVEL} is specified"))
        elif size <= 0:
            errors.append(invalid(at.child(_SLICE_SIZE), size, "must be greater than 0"))
    elif size is not None:
        errors.append(forbidden(at.child(_SLICE_SIZE), f"may not be set when {_SLICE_LEVEL} is not specified"))
    return errors


def _layer_sizes(at: FieldPath, request: Wire) -> Errors:
    sizes = [layer.get("size", 0) for layer in request.get(_LAYERS) or ()]
    return [
        invalid(at.item(i).child("size"), size, "must be greater than 0") for i, size in enumerate(sizes) if size <= 0
    ]


def _min_counts(workload: Wire) -> Errors:
    partial = sum(pod_set.get("minCount") is not None for pod_set in pod_sets_of(workload))
    return [invalid(_PODSETS, partial, "at most one podSet can use minCount")] if partial > 1 else []


def _partial_elastic(workload: Wire, rules: ReviewRules) -> Errors:
    """Returns the error of an elastic workload with a minimum count, as in Kueue.

    The controller itself is exempt from this webhook: it creates such a Workload for an elastic job with a minimum, and
    users may update that Workload.
    """
    partial = sum(pod_set.get("minCount") is not None for pod_set in pod_sets_of(workload))
    if not partial or not is_elastic(workload, rules):
        return []
    return [invalid(_PODSETS, partial, "partial admission and elastic job cannot be used together")]


def _boost(workload: Wire) -> Errors:
    text = annotations_of(workload).get(names.PRIORITY_BOOST)
    if text is None:
        return []
    rule = "must be a valid signed integer"
    if not text:
        return [invalid(_BOOST, text, f'{rule}; use "0" explicitly, empty string is not allowed')]
    return [] if parse_int32(text) is not None else [invalid(_BOOST, text, rule)]


def _frozen_pod_sets(old: Wire, new: Wire, rules: ReviewRules) -> Errors:
    """Returns the errors of changed pod sets. With the gate for elastic jobs on, counts alone may decrease."""
    before, after = pod_sets_of(old), pod_sets_of(new)
    if rules.gates.elastic_jobs_via_workload_slices and _only_shrunk(before, after):
        return []
    if len(before) != len(after):
        return unchanged(_PODSETS, after, before)
    pairs = enumerate(zip(after, before, strict=True))
    return [error for i, (new_one, old_one) in pairs for error in unchanged(_PODSETS.child(str(i)), new_one, old_one)]


def _only_shrunk(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
    if not same([{**ps, "count": 0} for ps in before], [{**ps, "count": 0} for ps in after]):
        return False
    return all(b.get("count", 0) <= a.get("count", 0) for a, b in zip(before, after, strict=True))


class WorkloadRules(KindRules):
    """The rules of Workloads."""

    completes = True
    right = Right(CLUSTER_QUEUES, "status")

    def mutate(self, obj: dict[str, Any], request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        """See set_defaults."""
        set_defaults(obj)

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate_create and validate_update."""
        if request.operation == CREATE:
            return validate_create(request.new, rules)
        return validate_update(request.old, request.new, rules, may_fall=True)

    def restricted(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See fewer_reclaimable."""
        return fewer_reclaimable(request.old, request.new, rules)

    def warn(self, obj: dict[str, Any], rules: ReviewRules) -> list[str]:
        """See warnings."""
        return warnings(obj)
