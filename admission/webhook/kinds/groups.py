"""PodGroups of gangs, and ConfigMaps that describe Sakkara's groups; JobKinds. Pure."""

from __future__ import annotations

from admission.integrations.job_kind_errors import errors_of
from admission.webhook.kind_rules import KindRules
from admission.webhook.review_request import Request
from admission.webhook.rules import gangs, placement
from admission.webhook.rules.fields import Errors, FieldPath, invalid
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules


class PodGroupRules(KindRules):
    """The rules of PodGroups of either dialect."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """Returns the errors of the gang's terms and of its topology request."""
        return [*gangs.validate_pod_group(request.new, request.namespace), *placement.errors_of(request.new, rules)]


class ConfigMapRules(KindRules):
    """The rules of ConfigMaps that describe a group."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See gangs.validate_sakkara_group."""
        return gangs.validate_sakkara_group(request.new, request.old_object, rules.highest_group_priority)


class JobKindRules(KindRules):
    """The rules of JobKinds."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """Returns what is wrong with the declaration."""
        return [invalid(FieldPath(bad.field), bad.given, bad.allowed) for bad in errors_of(request.new)]
