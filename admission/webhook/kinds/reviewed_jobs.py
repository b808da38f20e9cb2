"""The rules of jobs that are suspended and started as a whole, whatever their kind. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from admission.webhook.guards import kept, marks, owners, parts, reserved_queues, starts
from admission.webhook.kind_rules import KindRules
from admission.webhook.review_request import CREATE, UPDATE, Request, Wire
from admission.webhook.rules import defaults, jobs
from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api.kube.resources import Resource


class JobRules(KindRules):
    """The rules of one kind of job."""

    completes = updates = True

    def __init__(self, resource: Resource, kind: jobs.ReviewedKind, *, at_once: bool = False) -> None:
        super().__init__(resource)
        self.kind, self.at_once = kind, at_once

    def mutate(self, obj: Wire, request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        """Completes a new job; an update keeps what its creation or start wrote."""
        if request.operation == UPDATE:
            if not jobs.is_part(obj, rules):
                kept.keep(obj, request.old, self.kind, self.resource)
                defaults.gate_again(obj, request.old, request.namespace, self.kind, lookups, rules)
            return
        defaults.set_defaults(obj, request.namespace, self.kind, lookups, rules)
        if not marks.may_mark(obj, rules):
            for template in self.kind.templates(obj):
                marks.remove(template.body)

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """Returns the errors of the job, of the owner that it names, of its marks and of its queue."""
        new, old = request.new, request.old
        rules = jobs.with_profile(rules, new, request.namespace, lookups)
        if request.operation == CREATE:
            claimed = owners.claim(new, rules, pod=False)
            if not self.at_once and not jobs.queue_name(new):  # reviewed for its marks alone
                errors = [] if request.entitled else owners.of_request(request, claimed)
                return [*errors, *marks.validate_part(new, self.kind.templates(new), request.ancestors, rules)]
            errors = jobs.validate_create(new, self.kind, rules, jobs.queue_levels(new, request.namespace, lookups))
            errors += owners.of_request(request, claimed)
            errors += marks.validate_part(new, self.kind.templates(new), request.ancestors, rules)
            return errors if claimed else errors + reserved_queues.of_request(request, lookups, rules)
        again = jobs.requests_again(old, new, self.kind)
        known = jobs.queue_levels(new, request.namespace, lookups) if again else None
        errors = jobs.validate_update(old, new, self.kind, rules, known)
        if old.get("spec") != new.get("spec"):
            errors += marks.validate_part(new, self.kind.templates(new), request.ancestors, rules)
        if owners.claim(new, rules, pod=False) not in (None, owners.claim(old, rules, pod=False)):
            where = FieldPath("metadata").child("ownerReferences")
            errors.append(forbidden(where, "a job cannot become part of another job that is admitted as a whole"))
        if jobs.is_part(new, rules) or (new.get("metadata") or {}).get("deletionTimestamp"):
            return errors
        return [*errors, *reserved_queues.of_request(request, lookups, rules), *_stays_queued(request, lookups, rules)]

    def restricted(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """Returns the errors of a change that starts the job, or changes what was admitted."""
        old, new, user = request.old, request.new, request.user_info.username
        return [
            *starts.of_job(old, new, self.kind, self.resource, request.namespace, lookups, rules),
            *parts.changed_by_hand(old, new, self.kind, self.resource, request.owner, user, rules),
            *parts.marked_by_hand(old, new, self.kind, rules),
        ]

    def marked(self, obj: Wire) -> Sequence[Wire]:
        """Returns the bodies of its templates."""
        return [template.body for template in self.kind.templates(obj)]


def _stays_queued(request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
    """Returns the error of a job that drops its queue in a namespace where every job is queued, and so would evade quota.

    Elsewhere a suspended job may drop its queue, as in Kueue, and is then an ordinary job.
    """
    before, after = jobs.queue_name(request.old), jobs.queue_name(request.new)
    if not before or after or not reserved_queues.is_queued_anyway(request.namespace, lookups, rules):
        return []
    return [invalid(reserved_queues.QUEUE, after, "a job that was queued stays queued in this namespace")]
