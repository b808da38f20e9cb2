"""The right that a request needs beyond those that the API server checks. Pure; handlers.py asks whether its user has it.

An object that names an owner is created by the owner's controller, which may update the owner's status. A user who starts
waiting pods or jobs must be allowed to update Workloads (starts.py); one who lowers a Workload's reclaimable pods, the status
of ClusterQueues, as the controller is. Owners of kinds that JobKinds declare need no right: such a kind may have no status of
its own.
"""

from __future__ import annotations

from typing import Final

from admission.integrations.registry import KINDS
from admission.webhook.endpoints import PATHS, UPDATE, Request, endpoint_of
from admission.webhook.lookups import Lookups
from admission.webhook.owners import ControllerRef
from admission.webhook.rules import ReviewRules
from api.kube.access import Right
from api.kube.resources import WORKLOADS

STARTS: Final = Right(WORKLOADS)


def required_right(
    path: str, request: Request, claimed: ControllerRef | None, lookups: Lookups, rules: ReviewRules
) -> Right | None:
    """Returns the right that the request needs, or None; `claimed` is the owner that it names."""
    if claimed is not None:
        return _right_of_controller(claimed)
    if path not in PATHS or request.operation != UPDATE:
        return None
    endpoint = endpoint_of(path, request)
    return endpoint.right if endpoint.restricted(request, lookups, rules) else None


def _right_of_controller(claimed: ControllerRef) -> Right | None:
    adapter = KINDS.get(claimed.kind) if KINDS.is_built_in(claimed.kind) else None
    return Right(adapter.resource, "status") if adapter is not None else None
