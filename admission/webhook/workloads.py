"""Workloads: what may be written into their spec and status, and what may not change once quota is reserved.

Many rules of the spec stand in the CRD already (CEL); here are those that compare fields over lists, or old with new,
beyond what the schema says. Workloads are plain dicts here. An update is never blamed for what was wrong before and
would keep the object from being repaired or removed (a reservation without an admission, a reclaimable count that the
pod set has shrunk below). Pure; review.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.webhook import gates
from admission.webhook.fields import (
    IMMUTABLE,
    Errors,
    Path,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    unchanged,
)
from admission.webhook.formats import annotation_keys, labels, tolerations
from admission.webhook.jobs import annotations_of
from admission.webhook.pods import template_resources
from admission.webhook.rules import Rules
from api import names
from api.errors import InvalidQuantity
from api.quantity import parse, to_int

Wire = Mapping[str, Any]

_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_PODSETS: Final = _SPEC.child("podSets")
_BOOST: Final = Path("metadata").child("annotations").key(names.PRIORITY_BOOST)
_SLICE_LEVEL, _SLICE_SIZE = "podSetSliceRequiredTopology", "podSetSliceSize"
_LAYERS: Final = "podsetSliceRequiredTopologyConstraints"


def set_defaults(workload: dict[str, Any], rules: Rules) -> None:
    """Change a new workload in place: a lone pod set is `main`; no minCount where partial admission is off."""
    pod_sets = (workload.get("spec") or {}).get("podSets") or []
    if len(pod_sets) == 1 and not pod_sets[0].get("name"):
        pod_sets[0]["name"] = "main"
    if not rules.partial_admission:
        for pod_set in pod_sets:
            pod_set.pop("minCount", None)


def validate_create(workload: Wire, rules: Rules) -> Errors:
    """The errors of a new workload."""
    return [*_common(workload, rules), *_admission(workload), *_reclaimable(workload, {})]


def validate_update(old: Wire, new: Wire, rules: Rules) -> Errors:
    """The errors of a change of spec, metadata or status; one that is being deleted may change freely."""
    if (new.get("metadata") or {}).get("deletionTimestamp"):
        return []
    errors = _common(new, rules)
    if not _lost_admission(old):
        errors += _admission(new)
    errors += _reclaimable(new, _counts(old, "reclaimablePods"))
    if has_quota(old) and has_quota(new):
        errors += _frozen_pod_sets(old, new, rules)
        errors += _shrinking(old, new, rules)
    errors += _same_admission(old, new)
    errors += _same_updates(old, new)
    if rules.admission_gated_by:
        errors += gates.validate_update(old.get("metadata") or {}, new.get("metadata") or {})
    return errors


def warnings(workload: Wire) -> list[str]:
    """What is accepted although it makes no sense."""
    return [
        f"{_PODSETS.item(i).child('topologyRequest', 'subGroupCount')}: should be greater than or equal to 0, got {count}"
        for i, pod_set in enumerate(_pod_sets(workload))
        if (count := (pod_set.get("topologyRequest") or {}).get("subGroupCount") or 0) < 0
    ]


def has_quota(workload: Wire) -> bool:
    """Whether the condition QuotaReserved is true."""
    return any(
        c.get("type") == names.QUOTA_RESERVED and c.get("status") == "True" for c in _list(workload, "conditions")
    )


def _pod_sets(workload: Wire) -> list[dict[str, Any]]:
    return (workload.get("spec") or {}).get("podSets") or []


def _list(workload: Wire, field: str) -> list[dict[str, Any]]:
    return (workload.get("status") or {}).get(field) or []


def _counts(workload: Wire, field: str) -> dict[str, int]:
    return {entry.get("name", ""): entry.get("count", 0) for entry in _list(workload, field)}


def _sizes(workload: Wire) -> dict[str, int]:
    return {pod_set.get("name", ""): pod_set.get("count", 0) for pod_set in _pod_sets(workload)}


def _is_elastic(workload: Wire, rules: Rules) -> bool:
    return rules.elastic_jobs and annotations_of(workload).get(names.ELASTIC_JOB) == "true"


# ---- spec


def _common(workload: Wire, rules: Rules) -> Errors:
    errors: Errors = []
    for i, pod_set in enumerate(_pod_sets(workload)):
        errors += _pod_set(_PODSETS.item(i), pod_set, rules)
    errors += _min_counts(workload, rules)
    if rules.admission_gated_by:
        errors += gates.validate(workload.get("metadata") or {})
    if rules.priority_boost:
        errors += _boost(workload)
    return [*errors, *_check_updates(workload)]


def _pod_set(at: Path, pod_set: Wire, rules: Rules) -> Errors:
    template = pod_set.get("template") or {}
    errors: Errors = []
    if rules.pod_set_metadata:
        metadata, where = template.get("metadata") or {}, at.child("template", "metadata")
        errors += labels(where.child("labels"), metadata.get("labels"))
        errors += annotation_keys(where.child("annotations"), metadata.get("annotations"))
    errors += template_resources(at.child("template", "spec"), template.get("spec") or {}, rules.non_negative_resources)
    if rules.slice_sizes and pod_set.get("topologyRequest"):
        errors += _slices(at.child("topologyRequest"), pod_set["topologyRequest"])
    return errors


def _slices(at: Path, request: Wire) -> Errors:
    size, errors = request.get(_SLICE_SIZE), _layer_sizes(at.child(_LAYERS), request)
    if request.get(_SLICE_LEVEL) is not None:
        if size is None:
            errors.append(required(at.child(_SLICE_SIZE), f"must be set when {_SLICE_LEVEL} is specified"))
        elif size <= 0:
            errors.append(invalid(at.child(_SLICE_SIZE), size, "must be greater than 0"))
    elif size is not None:
        errors.append(forbidden(at.child(_SLICE_SIZE), f"may not be set when {_SLICE_LEVEL} is not specified"))
    return errors


def _layer_sizes(at: Path, request: Wire) -> Errors:
    sizes = [layer.get("size", 0) for layer in request.get(_LAYERS) or ()]
    return [
        invalid(at.item(i).child("size"), size, "must be greater than 0") for i, size in enumerate(sizes) if size <= 0
    ]


def _min_counts(workload: Wire, rules: Rules) -> Errors:
    partial = sum(pod_set.get("minCount") is not None for pod_set in _pod_sets(workload))
    errors = [invalid(_PODSETS, partial, "at most one podSet can use minCount")] if partial > 1 else []
    if partial and _is_elastic(workload, rules):
        errors.append(invalid(_PODSETS, partial, "partial admission and elastic job cannot be used together"))
    return errors


def _boost(workload: Wire) -> Errors:
    text = annotations_of(workload).get(names.PRIORITY_BOOST)
    if text is None:
        return []
    rule = "must be a valid signed integer"
    if not text:
        return [invalid(_BOOST, text, f'{rule}; use "0" explicitly, empty string is not allowed')]
    try:
        good = int(text) in range(-(2**31), 2**31) and text.strip() == text and "_" not in text
    except ValueError:
        good = False
    return [] if good else [invalid(_BOOST, text, rule)]


# ---- status


def _check_updates(workload: Wire) -> Errors:
    """The errors of what admission checks would add to the pod sets."""
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


def _lost_admission(workload: Wire) -> bool:
    return has_quota(workload) and not (workload.get("status") or {}).get("admission")


def _admission(workload: Wire) -> Errors:
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


def _whole_shares(at: Path, assignment: Wire) -> Errors:
    """Usage is for all pods of the set, so each pod's share must be whole (milli-units where the amount has a fraction)."""
    count = assignment.get("count") or 0
    if count <= 0:
        return []
    usage = (assignment.get("resourceUsage") or {}).items()
    return [invalid(at.key(r), u, f"is not a multiple of {count}") for r, u in usage if not _divides(r, u, count)]


def _divides(resource: str, amount: str | int | float, count: int) -> bool:
    try:
        return to_int(resource, amount) % count == 0 if parse(amount) else True
    except InvalidQuantity:
        return True


def _reclaimable(workload: Wire, before: Mapping[str, int]) -> Errors:
    """Entries that an update leaves as they were are not judged again."""
    sizes, errors = _sizes(workload), Errors()
    for name, count in _counts(workload, "reclaimablePods").items():
        at = _STATUS.child("reclaimablePods").key(name)
        if before.get(name) == count:
            continue
        if name not in sizes:
            errors.append(not_supported(at.child("name"), name, list(sizes)))
        elif count > sizes[name]:
            errors.append(invalid(at.child("count"), count, f"should be less or equal to {sizes[name]}"))
    return errors


# ---- what may not change


def _frozen_pod_sets(old: Wire, new: Wire, rules: Rules) -> Errors:
    """Pod sets stay as they are; only counts may go down, where elastic jobs are on."""
    before, after = _pod_sets(old), _pod_sets(new)
    if rules.elastic_jobs and _only_shrunk(before, after):
        return []
    return unchanged(_PODSETS, after, before)


def _only_shrunk(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
    if [{**ps, "count": 0} for ps in before] != [{**ps, "count": 0} for ps in after]:
        return False
    return all(b.get("count", 0) <= a.get("count", 0) for a, b in zip(before, after, strict=True))


def _shrinking(old: Wire, new: Wire, rules: Rules) -> Errors:
    """Pods that were done stay done, unless their elastic pod set was scaled down meanwhile."""
    after, errors = _counts(new, "reclaimablePods"), Errors()
    for name, count in _counts(old, "reclaimablePods").items():
        at = _STATUS.child("reclaimablePods").key(name)
        if _is_elastic(new, rules) and _scaled_down(name, old, new):
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


def _same_admission(old: Wire, new: Wire) -> Errors:
    """An admission comes and goes as a whole; within it only the topology may still be filled in."""
    before, after = (old.get("status") or {}).get("admission"), (new.get("status") or {}).get("admission")
    if not before or not after or _but_topology(before) == _but_topology(after):
        return []
    return [invalid(_STATUS.child("admission"), after, IMMUTABLE)]


def _but_topology(admission: Wire) -> dict[str, Any]:
    later = ("topologyAssignment", "delayedTopologyRequest")
    assignments = admission.get("podSetAssignments") or ()
    kept = [{key: value for key, value in one.items() if key not in later} for one in assignments]
    return {**admission, "podSetAssignments": kept}


def _same_updates(old: Wire, new: Wire) -> Errors:
    """What a check that stays Ready adds to the pod sets does not change any more."""
    before = {check.get("name", ""): check for check in _list(old, "admissionChecks") if check.get("state") == "Ready"}
    errors: Errors = []
    for i, check in enumerate(_list(new, "admissionChecks")):
        was = before.get(check.get("name", ""))
        if was is not None and check.get("state") == "Ready":
            at = _STATUS.child("admissionChecks").item(i).child("podSetUpdates")
            errors += unchanged(at, check.get("podSetUpdates") or [], was.get("podSetUpdates") or [])
    return errors
