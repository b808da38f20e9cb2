"""The table of endpoints: the kinds that the webhook reviews, their paths, and the rules for each kind.

A path is `/mutate-` or `/validate-`, then the group with dashes for dots, the version, and the kind in lower case
(`/mutate-batch-v1-job`, `/validate-kueue-x-k8s-io-v1beta2-clusterqueue`).

Pure: objects come in the request, everything else from the lookups. review.py calls this module, and so does code that
completes objects without a webhook (world/jobs.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.job_kind_errors import errors_of
from admission.integrations.registry import KINDS, GroupKind
from admission.integrations.sets.scaled import ScaledSet
from admission.integrations.sets.sets import SCALED
from admission.integrations.unmanaged import group_kind, notice
from admission.webhook.guards import kept, marked_pods, marks, owners, parts, reserved_queues, starts
from admission.webhook.kinds import (
    deployment,
    elastic,
    flavors,
    leaderworkerset,
    pod,
    queues,
    scaled,
    statefulset,
    workloads,
)
from admission.webhook.kinds.declared import kind_of
from admission.webhook.kinds.job import JOB
from admission.webhook.kinds.jobset import JOBSET
from admission.webhook.rules import defaults, gangs, jobs, placement
from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api.kube import resources
from api.kube.resources import Resource
from api.names import GROUP, IN_USE_FINALIZER
from api.process.access import Right

Wire = dict[str, Any]
CREATE, UPDATE = "CREATE", "UPDATE"


class RequestUser(msgspec.Struct, frozen=True):
    """The user that sent the request (AdmissionReview.request.userInfo)."""

    username: str = ""
    groups: tuple[str, ...] = ()


class Request(msgspec.Struct, rename="camel"):
    """The fields of AdmissionReview.request that the webhook reads."""

    uid: str
    operation: str
    name: str = ""
    namespace: str = ""
    object: Wire | None = None
    old_object: Wire | None = None
    user_info: RequestUser = RequestUser()
    dry_run: bool = False
    written: Wire | None = None
    """The new object as the user sent it, if `object` already has defaults."""
    owner: Wire | None = None
    """The owner that `owner_to_read` names, as read from the API server; None if it does not exist."""
    ancestors: tuple[Wire, ...] = ()
    """The object's controller, that one's controller, and so on, as read, if `needs_ancestors`."""
    entitled: bool = True
    """Whether the user has the right that the request needs (rights.py)."""
    trace: str = ""
    """The trace context of a new object, while traces are exported."""

    @property
    def new(self) -> Wire:
        """Returns the new object, or an empty one on deletion."""
        return self.object or {}

    @property
    def old(self) -> Wire:
        """Returns the stored object, or an empty one on creation."""
        return self.old_object or {}


Mutator = Callable[[Wire, Request, Lookups, ReviewRules], None]
Validator = Callable[[Request, Lookups, ReviewRules], Errors]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How one kind is completed (`mutate`, in place) and validated (`validate`, on creation and update).

    `at_once` validates a new object in the call that completes it, for kinds with many objects. `updates` changes objects on
    update too: it completes sets, and keeps in jobs what their creation or start wrote. `restricted` returns the errors of an
    update by a user without the `right` that it needs: to start waiting pods or jobs, to change what was admitted, or to say
    that pods which had ended have come back. `marked` returns the pod templates of a job, into which Stowage writes marks.
    """

    resource: Resource
    mutate: Mutator | None
    validate: Validator
    warn: Callable[[Wire, ReviewRules], list[str]] = lambda *_: []
    at_once: bool = False
    updates: bool = False
    restricted: Validator = lambda *_: []
    right: Right = field(default_factory=lambda: Right(resources.WORKLOADS))
    marked: Callable[[Wire], Sequence[Wire]] = lambda _: ()

    def path(self, verb: str) -> str:
        """Returns `/mutate-...` for the verb "mutate", `/validate-...` for "validate"."""
        group = (self.resource.group or "core").replace(".", "-")
        return f"/{verb}-{group}-{self.resource.version}-{self.resource.kind.lower()}"


# ---- rules for each kind


def _mutate_job(kind: jobs.ReviewedKind, resource: Resource) -> Mutator:
    def mutate(obj: Wire, request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        if request.operation == UPDATE:
            if not jobs.is_part(obj, rules):
                kept.keep(obj, request.old, kind, resource)
                defaults.gate_again(obj, request.old, request.namespace, kind, lookups, rules)
            return
        defaults.set_defaults(obj, request.namespace, kind, lookups, rules)
        if not marks.may_mark(obj, rules):
            for template in kind.templates(obj):
                marks.remove(template.body)

    return mutate


def _validate_job(kind: jobs.ReviewedKind, *, at_once: bool) -> Validator:
    def validate(request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        new, old = request.new, request.old
        rules = jobs.with_profile(rules, new, request.namespace, lookups)
        if request.operation == CREATE:
            claimed = owners.claim(new, rules, pod=False)
            if not at_once and not jobs.queue_name(new):  # reviewed for its marks alone
                errors = [] if request.entitled else _owner_errors(request, claimed)
                return [*errors, *marks.validate_part(new, kind.templates(new), request.ancestors, rules)]
            errors = jobs.validate_create(new, kind, rules, jobs.queue_levels(new, request.namespace, lookups))
            errors += _owner_errors(request, claimed)
            errors += marks.validate_part(new, kind.templates(new), request.ancestors, rules)
            return errors if claimed else errors + _queue_errors(request, lookups, rules)
        again = jobs.requests_again(old, new, kind)
        known = jobs.queue_levels(new, request.namespace, lookups) if again else None
        errors = jobs.validate_update(old, new, kind, rules, known)
        if old.get("spec") != new.get("spec"):
            errors += marks.validate_part(new, kind.templates(new), request.ancestors, rules)
        if owners.claim(new, rules, pod=False) not in (None, owners.claim(old, rules, pod=False)):
            where = FieldPath("metadata").child("ownerReferences")
            errors.append(forbidden(where, "a job cannot become part of another job that is admitted as a whole"))
        if jobs.is_part(new, rules) or (new.get("metadata") or {}).get("deletionTimestamp"):
            return errors
        return [*errors, *_queue_errors(request, lookups, rules), *_stays_queued(request, lookups, rules)]

    return validate


def _owner_errors(request: Request, claimed: owners.ControllerRef | None) -> Errors:
    user, entitled = request.user_info.username, request.entitled
    return owners.validate(request.new, claimed, request.owner, user, entitled=entitled)


def _job_changed_by_hand(kind: jobs.ReviewedKind, resource: Resource) -> Validator:
    def validate(request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        old, new, user = request.old, request.new, request.user_info.username
        return [
            *starts.of_job(old, new, kind, resource, request.namespace, lookups, rules),
            *parts.changed_by_hand(old, new, kind, resource, request.owner, user, rules),
            *parts.marked_by_hand(old, new, kind, rules),
        ]

    return validate


def _pod_changed_by_hand(request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
    return marked_pods.changed_by_hand(request.old, request.new, request.user_info.username, lookups, rules)


def _queue_errors(request: Request, lookups: Lookups, rules: ReviewRules, *, gang: bool = False) -> Errors:
    """Returns the error of a queue name that is new and reserved."""
    queue = jobs.queue_name(request.written or request.new)
    if queue == jobs.queue_name(request.old):
        return []
    return reserved_queues.validate(queue, request.namespace, lookups, rules, gang=gang)


def _stays_queued(request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
    """Returns the error of a job that drops its queue in a namespace where every job is queued, and so would evade quota.

    Elsewhere a suspended job may drop its queue, as in Kueue, and is then an ordinary job.
    """
    before, after = jobs.queue_name(request.old), jobs.queue_name(request.new)
    if not before or after or not reserved_queues.is_queued_anyway(request.namespace, lookups, rules):
        return []
    return [invalid(reserved_queues.QUEUE, after, "a job that was queued stays queued in this namespace")]


def _validate_workload(request: Request, _: Lookups, rules: ReviewRules) -> Errors:
    if request.operation == CREATE:
        return workloads.validate_create(request.new, rules)
    return workloads.validate_update(request.old, request.new, rules, may_fall=True)


def _fewer_reclaimable(request: Request, _: Lookups, rules: ReviewRules) -> Errors:
    return workloads.fewer_reclaimable(request.old, request.new, rules)


def _validate_cluster_queue(request: Request, _: Lookups, rules: ReviewRules) -> Errors:
    if request.operation == CREATE:
        return queues.validate_cluster_queue(request.new, rules)
    return queues.validate_cluster_queue_update(request.old, request.new, rules)


def _validate_elastic_quota(group: str) -> Validator:
    def validate(request: Request, lookups: Lookups, _: ReviewRules) -> Errors:
        if request.operation == CREATE:
            return elastic.validate_create(request.new, group, request.namespace, lookups)
        return elastic.validate(request.new)

    return validate


def _validate_pod_group(request: Request, _: Lookups, rules: ReviewRules) -> Errors:
    return [*gangs.validate_pod_group(request.new, request.namespace), *placement.errors_of(request.new, rules)]


def _validate_config_map(request: Request, _: Lookups, rules: ReviewRules) -> Errors:
    return gangs.validate_sakkara_group(request.new, request.old_object, rules.highest_group_priority)


def _either(create: Callable[[Wire], Errors], update: Callable[[Wire, Wire], Errors]) -> Validator:
    def validate(request: Request, _: Lookups, __: ReviewRules) -> Errors:
        return create(request.new) if request.operation == CREATE else update(request.old, request.new)

    return validate


def _completed_by(complete: Callable[[Wire, str, Lookups, ReviewRules], object]) -> Mutator:
    def mutate(obj: Wire, request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        complete(obj, request.namespace, lookups, rules)

    return mutate


def _set_completed_by(complete: Callable[[Wire, Wire, str, Lookups, ReviewRules], object]) -> Mutator:
    def mutate(obj: Wire, request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        complete(obj, request.old, request.namespace, lookups, rules)

    return mutate


def _set_judged_by(judge: Callable[[Wire | None, Wire, str, Lookups, ReviewRules], Errors]) -> Validator:
    def validate(request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        errors = judge(request.old_object, request.new, request.namespace, lookups, rules)
        return errors + _queue_errors(request, lookups, rules)

    return validate


def _mutate_workload(obj: Wire, _: Request, __: Lookups, rules: ReviewRules) -> None:
    workloads.set_defaults(obj)


def _warn_of_workload(obj: Wire, _: ReviewRules) -> list[str]:
    return workloads.warnings(obj)


def _mark_in_use(obj: Wire, _: Request, __: Lookups, ___: ReviewRules) -> None:
    finalizers = (obj.get("metadata") or {}).get("finalizers") or []
    if IN_USE_FINALIZER not in finalizers:
        obj.setdefault("metadata", {})["finalizers"] = [*finalizers, IN_USE_FINALIZER]


def _mutate_pod(obj: Wire, request: Request, lookups: Lookups, rules: ReviewRules) -> None:
    if not jobs.queue_name(obj) and marks.is_of_queued_job(request.ancestors, rules):
        marks.complete(obj)  # it was admitted with its topmost owner, and takes no queue of its own
        return
    claimed = owners.set_of(obj)
    queue = owners.queue_of_set(claimed, request.owner) if claimed else ""
    if not pod.set_defaults(obj, request.namespace, lookups, rules, queue):
        marks.complete(obj)


def _validate_pod(request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
    if request.operation == CREATE:
        errors = pod.validate_create(request.new, rules) if pod.is_gated(request.new) else []
        errors += marks.validate_new(request.new, request.ancestors, request.user_info.username, rules)
        scaled_owner = False
        if (claimed := owners.claim(request.new, rules, pod=True)) is not None:
            scaled_owner = SCALED.get(claimed.kind) is not None
            if scaled_owner or not pod.is_gated(request.new):
                errors += _owner_errors(request, claimed)
        if claimed is None or scaled_owner:
            gang = gangs.reading(request.new, request.namespace).gang is not None
            errors += _queue_errors(request, lookups, rules, gang=gang)
        return errors + gangs.validate_create(request.new, request.namespace, lookups)
    ours = pod.is_ours(request.old) or pod.is_ours(request.new)
    # review.py asks about the stored pod itself, to know what was wrong before
    if not ours or (request.new is not request.old and pod.keeps_metadata(request.old, request.new)):
        return []
    return pod.validate_update(request.old, request.new, rules) + _queue_errors(request, lookups, rules)


def _validate_deployment(request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
    return deployment.validate(request.old_object, request.new, rules) + _queue_errors(request, lookups, rules)


def _validate_job_kind(request: Request, _: Lookups, __: ReviewRules) -> Errors:
    return [invalid(FieldPath(bad.field), bad.given, bad.allowed) for bad in errors_of(request.new)]


@lru_cache(maxsize=256)
def _of_scaled(adapter: ScaledSet) -> Endpoint:
    def mutate(obj: Wire, request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        scaled.set_defaults(adapter, obj, request.old, request.namespace, lookups, rules)

    def validate(request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        old, new = request.old_object, request.new
        if (new.get("metadata") or {}).get("deletionTimestamp"):
            return []
        errors = scaled.validate(adapter, old, new, request.namespace, lookups, rules)
        return errors + _queue_errors(request, lookups, rules)

    return Endpoint(adapter.resource, mutate, validate, updates=True)


@lru_cache(maxsize=256)
def _of_declared(adapter: DeclaredJob) -> Endpoint:
    kind = kind_of(adapter)
    return _job_endpoint(adapter.resource, kind)


def _job_endpoint(resource: Resource, kind: jobs.ReviewedKind, *, at_once: bool = False) -> Endpoint:
    restricted = _job_changed_by_hand(kind, resource)

    def marked(obj: Wire) -> Sequence[Wire]:
        return [template.body for template in kind.templates(obj)]

    mutate, validate = _mutate_job(kind, resource), _validate_job(kind, at_once=at_once)
    return Endpoint(resource, mutate, validate, at_once=at_once, updates=True, restricted=restricted, marked=marked)


ENDPOINTS: Final = (
    _job_endpoint(resources.JOBS, JOB, at_once=True),
    _job_endpoint(resources.JOBSETS, JOBSET),
    Endpoint(
        resources.PODS,
        _mutate_pod,
        _validate_pod,
        pod.warnings,
        at_once=True,
        restricted=_pod_changed_by_hand,
    ),
    Endpoint(resources.DEPLOYMENTS, _set_completed_by(deployment.set_defaults), _validate_deployment, updates=True),
    *(
        Endpoint(resource, _set_completed_by(kind.set_defaults), _set_judged_by(kind.validate), updates=True)
        for resource, kind in (
            (resources.STATEFUL_SETS, statefulset),
            (resources.LEADER_WORKER_SETS, leaderworkerset),
        )
    ),
    Endpoint(
        resources.WORKLOADS,
        _mutate_workload,
        _validate_workload,
        _warn_of_workload,
        restricted=_fewer_reclaimable,
        right=Right(resources.CLUSTER_QUEUES, "status"),
    ),
    Endpoint(resources.CLUSTER_QUEUES, _mark_in_use, _validate_cluster_queue),
    Endpoint(resources.LOCAL_QUEUES, None, _either(queues.validate_local_queue, queues.validate_local_queue_update)),
    Endpoint(resources.COHORTS, None, _either(queues.validate_cohort, lambda _, new: queues.validate_cohort(new))),
    Endpoint(
        resources.RESOURCE_FLAVORS, _mark_in_use, _either(flavors.validate_flavor, flavors.validate_flavor_update)
    ),
    Endpoint(resources.TOPOLOGIES, None, _either(flavors.validate_topology, flavors.validate_topology_update)),
    *(
        Endpoint(resource, None, _validate_elastic_quota(resource.group))
        for resource in (resources.ELASTIC_QUOTAS, resources.SIGS_ELASTIC_QUOTAS)
    ),
    Endpoint(resources.CONFIG_MAPS, None, _validate_config_map),
    Endpoint(resources.JOB_KINDS, None, _validate_job_kind),
    *(Endpoint(resource, None, _validate_pod_group) for resource in (resources.POD_GROUPS, resources.SIGS_POD_GROUPS)),
)
MUTATING: Final[Mapping[str, Endpoint]] = {e.path("mutate"): e for e in ENDPOINTS if e.mutate}
VALIDATING: Final[Mapping[str, Endpoint]] = {e.path("validate"): e for e in ENDPOINTS}


MUTATE_DECLARED, VALIDATE_DECLARED = "/mutate-declared-job", "/validate-declared-job"
"""The paths for all declared kinds, built in or from a JobKind; the object's apiVersion and kind say which one."""
NOTICE_UNMANAGED: Final = "/notice-unmanaged-kind"
"""The path for objects of unmanaged kinds: all are allowed, and a queue name gets a warning."""
TRACED: Final = frozenset((*(path for path, each in MUTATING.items() if each.resource.group != GROUP), MUTATE_DECLARED))
"""The paths of objects with pods, whose creation begins a trace."""
PATHS: Final = frozenset((*MUTATING, *VALIDATING, MUTATE_DECLARED, VALIDATE_DECLARED, NOTICE_UNMANAGED))


def is_mutating(path: str) -> bool:
    """Reports whether requests at this path complete the object."""
    return path in MUTATING or path == MUTATE_DECLARED


def endpoint_of(path: str, request: Request) -> Endpoint:
    """Returns the endpoint of a path. Raises KeyError for an unknown path."""
    if path not in (MUTATE_DECLARED, VALIDATE_DECLARED, NOTICE_UNMANAGED):
        return MUTATING.get(path) or VALIDATING[path]
    kind = group_kind(request.object or request.old_object or {})
    unknown = Endpoint(Resource(kind[0], "", "", kind[1]), None, lambda *_: [])
    if path == NOTICE_UNMANAGED:
        return replace(unknown, warn=_warn_of_unmanaged)
    return declared_endpoint(kind) or unknown


def _warn_of_unmanaged(obj: Wire, _: ReviewRules) -> list[str]:
    warning = notice(obj)
    return [warning] if warning else []


def declared_endpoint(kind: GroupKind) -> Endpoint | None:
    """Returns the endpoint of a declared kind, or None for other kinds, including one whose JobKind was deleted."""
    adapter = KINDS.get(kind)
    if (by_scale := SCALED.get(kind)) is not None:
        return _of_scaled(by_scale)
    return _of_declared(adapter) if isinstance(adapter, DeclaredJob) else None
