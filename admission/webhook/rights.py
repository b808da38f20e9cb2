"""The rights that a request needs beyond those that the API server checks. Pure; handlers.py asks whether its user has one.

An object that names an owner is created by the owner's controller, which may update the owner's status. A user who starts
waiting pods or jobs, or changes what was admitted, must be allowed to update Workloads (starts.py, marked_pods.py, parts.py),
or be the controller of the object's owner; one who lowers a Workload's reclaimable pods, the status of ClusterQueues, as the
controller is. Owners of kinds that JobKinds declare need no right at creation: such a kind may have no status of its own.
"""

from __future__ import annotations

from typing import Final

from admission.integrations.registry import KINDS
from admission.webhook.endpoints import PATHS, endpoint_of
from admission.webhook.guards.owners import ControllerRef, claim
from admission.webhook.review_request import UPDATE, Request
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api.kube.resources import PODS, WORKLOADS
from api.process.access import Right

STARTS: Final = Right(WORKLOADS)


def sufficient_rights(
    path: str, request: Request, claimed: ControllerRef | None, lookups: Lookups, rules: ReviewRules
) -> tuple[Right, ...]:
    """Returns the rights of which the request needs one; none if it needs no right. `claimed` is the owner that it names."""
    if path not in PATHS:
        return ()
    if request.operation != UPDATE:
        return _right_of_controller(claimed)
    endpoint = endpoint_of(path, request)
    if not endpoint.restricted(request, lookups, rules):
        return ()
    owner = claim(request.old, rules, pod=endpoint.resource == PODS) if endpoint.right == STARTS else None
    return (endpoint.right, *_right_of_controller(owner))


def _right_of_controller(claimed: ControllerRef | None) -> tuple[Right, ...]:
    adapter = KINDS.get(claimed.kind) if claimed is not None and KINDS.is_built_in(claimed.kind) else None
    return (Right(adapter.resource, "status"),) if adapter is not None else ()
