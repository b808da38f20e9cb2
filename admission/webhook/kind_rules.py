"""What the webhook does with the objects of one kind: the one form in which each kind gives its rules.

Objects come in the request, everything else from the lookups; nothing here or in `kinds` asks the API server.
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.webhook.review_request import Request, Wire
from admission.webhook.rules.fields import Errors
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api.kube import resources
from api.kube.resources import Resource
from api.names import IN_USE_FINALIZER
from api.process.access import Right


class KindRules:
    """The rules of one kind. A kind overrides what concerns it: here every object is valid, and none is changed."""

    completes: bool = False
    """Whether `mutate` changes anything; without it, the kind has no path of the mutating webhook."""
    at_once: bool = False
    """Whether a new object is validated in the call that completes it, for kinds with many objects."""
    updates: bool = False
    """Whether objects are changed on update too: sets are completed, and jobs keep what their creation or start wrote."""
    right: Right = Right(resources.WORKLOADS)
    """The right that a user needs for what `restricted` refuses."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    def mutate(self, obj: Wire, request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        """Completes the object in place."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """Returns the errors of a creation or an update."""
        return []

    def restricted(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """Returns the errors of an update by a user without `right`: to start waiting pods or jobs, to change what was
        admitted, or to say that pods which had ended have come back.
        """
        return []

    def warn(self, obj: Wire, rules: ReviewRules) -> list[str]:
        """Returns the warnings about the object."""
        return []

    def marked(self, obj: Wire) -> Sequence[Wire]:
        """Returns the pod templates of a job, into which Stowage writes marks."""
        return ()

    def path(self, verb: str) -> str:
        """Returns `/mutate-...` for the verb "mutate", `/validate-...` for "validate"."""
        group = (self.resource.group or "core").replace(".", "-")
        return f"/{verb}-{group}-{self.resource.version}-{self.resource.kind.lower()}"


class InUseRules(KindRules):
    """The rules of a kind whose objects get the finalizer that Kueue gives to queues and flavors."""

    completes = True

    def mutate(self, obj: Wire, request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        """Adds the finalizer."""
        finalizers = (obj.get("metadata") or {}).get("finalizers") or []
        if IN_USE_FINALIZER not in finalizers:
            obj.setdefault("metadata", {})["finalizers"] = [*finalizers, IN_USE_FINALIZER]
