"""Validates ClusterQueues, LocalQueues and Cohorts: consistent quotas, each flavor named once, checks on existing flavors.

Rules of the CRD's schema and CEL are not repeated, unless Kueue's webhook repeats them too. Objects are plain dicts. Pure;
endpoints.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.webhook.kind_rules import InUseRules, KindRules
from admission.webhook.review_request import CREATE, Request
from admission.webhook.rules.fields import Errors, FieldPath, duplicate, forbidden, invalid, not_supported, unchanged
from admission.webhook.rules.formats import label_name, label_selector, not_negative, subdomain
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.placement_annotations import booleans, features_of_queue, profile
from admission.webhook.rules.review_rules import ReviewRules
from api.errors import InvalidQuantity
from api.names import BACKFILL, BACKFILL_LEARNED
from api.text.quantity import parse

Wire = Mapping[str, Any]

_SPEC: Final = FieldPath("spec")
_GROUPS: Final = _SPEC.child("resourceGroups")
MAX_FLAVORS: Final = 256
MAX_RESOURCES: Final = 256
MAX_COMBINATIONS: Final = 512
MAX_CONCURRENT_FLAVORS: Final = 16
_NEXT: Final = "TryNextFlavor"
_PREFERRED: Final = "TryPreferredFlavors"


def _spec(obj: Wire) -> Wire:
    return obj.get("spec") or {}


def _flavor_names(spec: Wire) -> list[str]:
    groups = spec.get("resourceGroups") or ()
    return [flavor.get("name", "") for group in groups for flavor in group.get("flavors") or ()]


# ---- ClusterQueue


def validate_cluster_queue(queue: Wire, rules: ReviewRules) -> Errors:
    """Returns the errors of a new ClusterQueue."""
    return [*_cluster_queue(queue, rules), *_on_flavors(_spec(queue), None)]


def validate_cluster_queue_update(old: Wire, new: Wire, rules: ReviewRules) -> Errors:
    """Returns the errors of an update. Missing flavors that the old object named too pass, unless a feature gate says no."""
    if (new.get("metadata") or {}).get("deletionTimestamp"):
        return []
    before = None if rules.gates.reject_updates_to_cq_with_invalid_on_flavors else _spec(old)
    errors = [*_cluster_queue(new, rules), *_on_flavors(_spec(new), before)]
    field = "concurrentAdmissionPolicy"
    if rules.gates.concurrent_admission:
        errors += unchanged(_SPEC.child(field), _spec(new).get(field), _spec(old).get(field))
    return errors


def _cluster_queue(queue: Wire, rules: ReviewRules) -> Errors:
    spec = _spec(queue)
    cohort = spec.get("cohortName") or ""
    errors = subdomain(_SPEC.child("cohortName"), cohort) if cohort else []
    orphan = "" if cohort else "must be nil when cohort is empty"
    errors += _resource_groups(spec, orphan, lending_within_nominal=True)
    errors += label_selector(_SPEC.child("namespaceSelector"), spec.get("namespaceSelector"))
    errors += [*_preemption(spec), *_fungibility(spec), *_fair_sharing(spec)]
    meta, annotations = FieldPath("metadata"), (queue.get("metadata") or {}).get("annotations") or {}
    errors += profile(meta, annotations)
    errors += booleans(meta, annotations, (BACKFILL, BACKFILL_LEARNED))
    errors += features_of_queue(meta, annotations)
    return [*errors, *_concurrent(spec)] if rules.gates.concurrent_admission else errors


def _preemption(spec: Wire) -> Errors:
    preemption = spec.get("preemption") or {}
    borrowing = preemption.get("borrowWithinCohort") or {}
    if preemption.get("reclaimWithinCohort", "Never") != "Never" or borrowing.get("policy", "Never") == "Never":
        return []
    rule = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
    return [invalid(_SPEC.child("preemption"), dict(preemption), rule)]


def _fungibility(spec: Wire) -> Errors:
    fungibility = spec.get("flavorFungibility") or {}
    preference = fungibility.get("preference")
    if not preference or fungibility.get("whenCanBorrow") == fungibility.get("whenCanPreempt") == _NEXT:
        return []
    rule = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be {_NEXT}'
    return [invalid(_SPEC.child("flavorFungibility", "preference"), preference, rule)]


def _fair_sharing(spec: Wire) -> Errors:
    at, weight = _SPEC.child("fairSharing", "weight"), (spec.get("fairSharing") or {}).get("weight")
    if weight is None:
        return []
    if errors := not_negative(at, weight):
        return errors
    tiny = 0 < parse(weight) <= parse("1e-9")
    return [invalid(at, str(weight), "When not 0, weight must be > 10e-9")] if tiny else []


def _concurrent(spec: Wire) -> Errors:
    policy = spec.get("concurrentAdmissionPolicy")
    if policy is None:
        return []
    errors: Errors = []
    if spec.get("queueingStrategy") == "StrictFIFO":
        rule = "StrictFIFO queueing strategy cannot be used when ConcurrentAdmissionPolicy is defined"
        errors.append(invalid(_SPEC.child("queueingStrategy"), "StrictFIFO", rule))
    groups = spec.get("resourceGroups") or ()
    if len(groups) != 1:
        rule = "must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is defined"
        return [*errors, invalid(_GROUPS, len(groups), rule)]
    return [*errors, *_concurrent_flavors(policy, _flavor_names(spec))]


def _concurrent_flavors(policy: Wire, flavors: Sequence[str]) -> Errors:
    errors: Errors = []
    if len(flavors) > MAX_CONCURRENT_FLAVORS:
        rule = (
            f"cannot have more than {MAX_CONCURRENT_FLAVORS} resource flavors in the ResourceGroup "
            "when ConcurrentAdmissionPolicy is defined"
        )
        errors.append(invalid(_GROUPS.item(0).child("flavors"), len(flavors), rule))
    migration = policy.get("migration") or {}
    constraints, mode = migration.get("constraints") or {}, migration.get("mode") or _PREFERRED
    if constraints and mode != _PREFERRED:
        at = _SPEC.child("concurrentAdmissionPolicy", "migration", "constraints")
        errors.append(forbidden(at, f'may only be set when migration.mode is "{_PREFERRED}" (got "{mode}")'))
    last = constraints.get("lastAcceptableFlavorName")
    if last and last not in flavors:
        at = _SPEC.child("concurrentAdmissionPolicy", "migration", "constraints", "lastAcceptableFlavorName")
        known = " ".join(flavors)
        errors.append(invalid(at, last, f"must be one of the flavors defined in the ClusterQueue: [{known}]"))
    return errors


def _on_flavors(spec: Wire, before: Wire | None) -> Errors:
    """Returns errors of checks on missing flavors. With `before`, those it had already pass if the flavors did not change."""
    checks, known = _checks(spec), _flavor_names(spec)
    passed = _checks(before) if before is not None and set(_flavor_names(before)) == set(known) else []
    tolerated = {(check.get("name"), flavor) for check in passed for flavor in check.get("onFlavors") or ()}
    at, errors = _SPEC.child("admissionChecksStrategy", "admissionChecks"), Errors()
    for i, check in enumerate(checks):
        for j, flavor in enumerate(check.get("onFlavors") or ()):
            if flavor not in known and (check.get("name"), flavor) not in tolerated:
                errors.append(not_supported(at.item(i).child("onFlavors").item(j), flavor, known))
    return errors


def _checks(spec: Wire) -> Sequence[Wire]:
    return (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()


# ---- resource groups, of ClusterQueues and Cohorts


def _resource_groups(spec: Wire, orphan: str, *, lending_within_nominal: bool) -> Errors:
    """Returns the errors of resource groups. A non-empty `orphan` is the error for limits set without a cohort."""
    groups = spec.get("resourceGroups") or ()
    errors = _totals(groups)
    seen_resources: set[str] = set()
    seen_flavors: set[str] = set()
    for i, group in enumerate(groups):
        at = _GROUPS.item(i)
        errors += _covered_errors(at.child("coveredResources"), group.get("coveredResources") or (), seen_resources)
        for j, flavor in enumerate(group.get("flavors") or ()):
            path = at.child("flavors").item(j)
            errors += _duplicate_errors(path.child("name"), flavor.get("name", ""), seen_flavors)
            errors += _quotas(path.child("resources"), flavor, group, orphan, lending_within_nominal)
    return errors


def _totals(groups: Sequence[Wire]) -> Errors:
    flavors = sum(len(group.get("flavors") or ()) for group in groups)
    resources = sum(len(group.get("coveredResources") or ()) for group in groups)
    errors: Errors = []
    if flavors > MAX_FLAVORS:
        rule = f"total number of flavors across all resourceGroups must be ≤ {MAX_FLAVORS}, got {flavors}"
        errors.append(invalid(_GROUPS, flavors, rule))
    if resources > MAX_RESOURCES:
        rule = f"total number of covered resources across all resourceGroups must be ≤ {MAX_RESOURCES}, got {resources}"
        errors.append(invalid(_GROUPS, resources, rule))
    for i, group in enumerate(groups):
        combinations = len(group.get("flavors") or ()) * len(group.get("coveredResources") or ())
        if combinations > MAX_COMBINATIONS:
            limit = f"must be ≤ {MAX_COMBINATIONS}, got {combinations}"
            rule = f"number of flavor-resource combinations in a resourceGroup {limit}"
            errors.append(invalid(_GROUPS.item(i), combinations, rule))
    return errors


def _covered_errors(at: FieldPath, resources: Sequence[str], seen: set[str]) -> Errors:
    errors: Errors = []
    for i, resource in enumerate(resources):
        errors += [*label_name(at.item(i), resource), *_duplicate_errors(at.item(i), resource, seen)]
    return errors


def _duplicate_errors(at: FieldPath, name: str, seen: set[str]) -> Errors:
    if name in seen:
        return [duplicate(at, name)]
    seen.add(name)
    return []


def _quotas(at: FieldPath, flavor: Wire, group: Wire, orphan: str, lending_within_nominal: bool) -> Errors:
    covered, errors = group.get("coveredResources") or (), Errors()
    for k, quota in enumerate(flavor.get("resources") or ()):
        path = at.item(k)
        if k >= len(covered) or quota.get("name") != covered[k]:
            errors.append(invalid(path.child("name"), quota.get("name"), "must match the name in coveredResources"))
        errors += not_negative(path.child("nominalQuota"), quota.get("nominalQuota"))
        errors += _limit(path.child("borrowingLimit"), quota.get("borrowingLimit"), orphan)
        errors += _limit(path.child("lendingLimit"), quota.get("lendingLimit"), orphan)
        if lending_within_nominal:
            errors += _lending(path.child("lendingLimit"), quota)
    return errors


def _limit(at: FieldPath, amount: str | int | None, orphan: str) -> Errors:
    if amount is None:
        return []
    errors = not_negative(at, amount)
    return [*errors, invalid(at, str(amount), orphan)] if orphan else errors


def _lending(at: FieldPath, quota: Wire) -> Errors:
    lent, nominal = quota.get("lendingLimit"), quota.get("nominalQuota", 0)
    if lent is None:
        return []
    try:
        within = parse(lent) <= parse(nominal)
    except InvalidQuantity:
        return []
    return [] if within else [invalid(at, str(lent), "must be less than or equal to the nominalQuota")]


# ---- Cohort


def validate_cohort(cohort: Wire) -> Errors:
    """Returns the errors of a Cohort, new or changed."""
    if (cohort.get("metadata") or {}).get("deletionTimestamp"):
        return []
    spec = _spec(cohort)
    parent = spec.get("parentName") or ""
    errors = subdomain(_SPEC.child("parentName"), parent) if parent else []
    orphan = "" if parent else "must be nil when parent is empty"
    return [*errors, *_resource_groups(spec, orphan, lending_within_nominal=False), *_fair_sharing(spec)]


# ---- LocalQueue


def validate_local_queue(queue: Wire) -> Errors:
    """Returns the errors of a new LocalQueue."""
    spec = _spec(queue)
    return [*subdomain(_SPEC.child("clusterQueue"), spec.get("clusterQueue") or ""), *_fair_sharing(spec)]


def validate_local_queue_update(old: Wire, new: Wire) -> Errors:
    """Returns the errors of an update: the ClusterQueue is immutable."""
    if (new.get("metadata") or {}).get("deletionTimestamp"):
        return []
    at = _SPEC.child("clusterQueue")
    return [
        *validate_local_queue(new),
        *unchanged(at, _spec(new).get("clusterQueue"), _spec(old).get("clusterQueue")),
    ]


class ClusterQueueRules(InUseRules):
    """The rules of ClusterQueues."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate_cluster_queue and validate_cluster_queue_update."""
        if request.operation == CREATE:
            return validate_cluster_queue(request.new, rules)
        return validate_cluster_queue_update(request.old, request.new, rules)


class LocalQueueRules(KindRules):
    """The rules of LocalQueues."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate_local_queue and validate_local_queue_update."""
        if request.operation == CREATE:
            return validate_local_queue(request.new)
        return validate_local_queue_update(request.old, request.new)


class CohortRules(KindRules):
    """The rules of Cohorts."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate_cohort."""
        return validate_cohort(request.new)
