"""Validates the status of Workloads: admissions, reclaimable pods and admission checks.

An update passes with errors that the old object already had, if refusing it would prevent the object's repair or removal:
a reservation without an admission, or a reclaimable count above its shrunken pod set. Pure; workloads.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.webhook.rules.fields import (
    IMMUTABLE,
    Errors,
    FieldPath,
    invalid,
    not_found,
    not_supported,
    required,
    same,
    unchanged,
)
from admission.webhook.rules.formats import annotation_keys, labels, tolerations
from admission.webhook.rules.jobs import annotations_of
from admission.webhook.rules.review_rules import ReviewRules
from api import names
from api.errors import InvalidQuantity
from api.text.quantity import to_int

Wire = Mapping[str, Any]

_STATUS: Final = FieldPath("status")


def has_quota(workload: Wire) -> bool:
    """Reports whether the condition QuotaReserved is true."""
    return any(
        c.get("type") == names.QUOTA_RESERVED and c.get("status") == "True" for c in _list(workload, "conditions")
    )


def pod_sets_of(workload: Wire) -> list[dict[str, Any]]:
    """Returns spec.podSets, or an empty list."""
    return (workload.get("spec") or {}).get("podSets") or []


def _list(workload: Wire, field: str) -> list[dict[str, Any]]:
    return (workload.get("status") or {}).get(field) or []


def counts_of(workload: Wire, field: str) -> dict[str, int]:
    """Returns the counts by name of a status list such as `reclaimablePods`."""
    return {entry.get("name", ""): entry.get("count", 0) for entry in _list(workload, field)}


def _sizes(workload: Wire) -> dict[str, int]:
    return {pod_set.get("name", ""): pod_set.get("count", 0) for pod_set in pod_sets_of(workload)}


def is_elastic(workload: Wire, rules: ReviewRules) -> bool:
    """Reports whether the workload's pod sets may shrink while it runs."""
    return rules.gates.elastic_jobs_via_workload_slices and annotations_of(workload).get(names.ELASTIC_JOB) == "true"


# ---- new values


def check_errors(workload: Wire) -> Errors:
    """Returns the errors of pod set updates by admission checks."""
    known, errors = list(_sizes(workload)), Errors()
    for i, check in enumerate(_list(workload, "admissionChecks")):
        for j, update in enumerate(check.get("podSetUpdates") or ()):
            at = _STATUS.child("admissionChecks").item(i).child("podSetUpdates").item(j)
            if update.get("name") not in known:
                errors.append(not_supported(at.child("name"), update.get("name"), known))
            errors += labels(at.child("labels"), update.get("labels"))
            errors += annotation_keys(at.child("annotations"), update.get("annotations"))
            errors += labels(at.child("nodeSelector"), update.get("nodeSelector"))
            errors += tolerations(at.child("tolerations"), update.get("tolerations") or ())
    return errors


def lost_admission(workload: Wire) -> bool:
    """Reports whether the workload has reserved quota but no admission."""
    return has_quota(workload) and not (workload.get("status") or {}).get("admission")


def admission_errors(workload: Wire) -> Errors:
    """Returns the errors of the admission of a workload with quota."""
    if not has_quota(workload):
        return []
    at = _STATUS.child("admission")
    admission = (workload.get("status") or {}).get("admission")
    if not admission:
        return [required(at, "must be set while the QuotaReserved condition is true")]
    sizes, errors = _sizes(workload), Errors()
    for i, assignment in enumerate(admission.get("podSetAssignments") or ()):
        where, name = at.child("podSetAssignments").item(i), assignment.get("name", "main")
        if name not in sizes:
            errors.append(not_found(where.child("name"), name))
        else:
            errors += _whole_shares(where.child("resourceUsage"), assignment)
    return errors


def _whole_shares(at: FieldPath, assignment: Wire) -> Errors:
    """Checks that total usage divides evenly by the number of pods (in milli-units for cpu)."""
    count = assignment.get("count") or 0
    if count <= 0:
        return []
    usage = (assignment.get("resourceUsage") or {}).items()
    return [invalid(at.key(r), u, f"is not a multiple of {count}") for r, u in usage if not _divides(r, u, count)]


def _divides(resource: str, amount: str | int | float, count: int) -> bool:
    try:
        return to_int(resource, amount) % count == 0
    except InvalidQuantity:
        return True


def reclaimable_errors(workload: Wire, old: Wire, rules: ReviewRules) -> Errors:
    """Returns the errors of reclaimable pods. Unchanged entries pass unless a pod set that is not elastic changed size."""
    sizes, were, before = _sizes(workload), _sizes(old), counts_of(old, "reclaimablePods")
    errors, elastic = Errors(), is_elastic(workload, rules)
    for name, count in counts_of(workload, "reclaimablePods").items():
        at = _STATUS.child("reclaimablePods").key(name)
        if before.get(name) == count and (elastic or were.get(name) == sizes.get(name)):
            continue
        if name not in sizes:
            errors.append(not_supported(at.child("name"), name, list(sizes)))
        elif count > sizes[name]:
            errors.append(invalid(at.child("count"), count, f"should be less or equal to {sizes[name]}"))
    return errors


# ---- immutable values


def reclaimable_change(old: Wire, new: Wire, rules: ReviewRules) -> Errors:
    """Returns an error for each reclaimable count that decreases, unless its elastic pod set was scaled down."""
    after, errors = counts_of(new, "reclaimablePods"), Errors()
    for name, count in counts_of(old, "reclaimablePods").items():
        at = _STATUS.child("reclaimablePods").key(name)
        if is_elastic(new, rules) and _scaled_down(name, old, new):
            continue
        if name not in after:
            errors.append(required(at, "cannot be removed"))
        elif after[name] < count:
            errors.append(invalid(at.child("count"), after[name], f"cannot be less than {count}"))
    return errors


def _scaled_down(name: str, old: Wire, new: Wire) -> bool:
    admitted = (old.get("status") or {}).get("admission") or {}
    counts = {a.get("name"): a.get("count") or 0 for a in admitted.get("podSetAssignments") or ()}
    return _sizes(new).get(name, 0) < max(_sizes(old).get(name, 0), counts.get(name, 0))


def admission_change(old: Wire, new: Wire) -> Errors:
    """Returns an error if an admission changes. It may be set, removed, or completed by a topology assignment."""
    before, after = (old.get("status") or {}).get("admission"), (new.get("status") or {}).get("admission")
    if not before or not after or same(_but_topology(before), _but_topology(after)):
        return []
    return [invalid(_STATUS.child("admission"), after, IMMUTABLE)]


def _but_topology(admission: Wire) -> dict[str, Any]:
    later = ("topologyAssignment", "delayedTopologyRequest")
    assignments = admission.get("podSetAssignments") or ()
    kept = [{key: value for key, value in one.items() if key not in later} for one in assignments]
    return {**admission, "podSetAssignments": kept}


def check_change(old: Wire, new: Wire) -> Errors:
    """Returns an error if an admission check that stays Ready changes its pod set updates."""
    before = {check.get("name", ""): check for check in _list(old, "admissionChecks") if check.get("state") == "Ready"}
    errors: Errors = []
    for i, check in enumerate(_list(new, "admissionChecks")):
        was = before.get(check.get("name", ""))
        if was is not None and check.get("state") == "Ready":
            at = _STATUS.child("admissionChecks").item(i).child("podSetUpdates")
            errors += unchanged(at, check.get("podSetUpdates") or [], was.get("podSetUpdates") or [])
    return errors
