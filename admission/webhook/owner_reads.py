"""Which owners of an object are read from the API server before it is reviewed. Pure; handlers.py reads them."""

from __future__ import annotations

from admission.integrations.registry import KINDS
from admission.webhook.endpoints import NOTICE_UNMANAGED, PATHS, endpoint_of
from admission.webhook.guards import marks, owners
from admission.webhook.review_request import CREATE, UPDATE, Request
from admission.webhook.rules import jobs
from admission.webhook.rules.review_rules import ReviewRules
from api.kube import resources


def owner_to_read(path: str, request: Request, rules: ReviewRules) -> owners.ControllerRef | None:
    """Returns the owner that must be read from the API server before a new object is reviewed, or None."""
    if path not in PATHS or request.operation != CREATE:
        return None
    resource = endpoint_of(path, request).resource
    if resource != resources.PODS and KINDS.get((resource.group, resource.kind)) is None:
        return None  # only pods and jobs can be part of an owner that is admitted as a whole
    claim = owners.claim(request.new, rules, pod=resource == resources.PODS)
    if claim is None and resource == resources.PODS:
        return owners.set_of(request.new)
    return claim if owners.is_to_be_read(claim, request.user_info.username) else None


def owner_of_part(path: str, request: Request, rules: ReviewRules) -> owners.ControllerRef | None:
    """Returns the owner of a part that a user without the right changes, or None: it decides what the part may be."""
    if request.operation != UPDATE or path == NOTICE_UNMANAGED or path not in PATHS:
        return None
    resource = endpoint_of(path, request).resource
    managed = KINDS.get((resource.group, resource.kind)) is not None
    return owners.claim(request.old, rules, pod=False) if managed else None


def needs_ancestors(path: str, request: Request, rules: ReviewRules) -> bool:
    """Reports whether the owners of a new pod, or of a part that is new or changes, decide whether it may carry its marks."""
    if request.operation not in (CREATE, UPDATE) or path == NOTICE_UNMANAGED or path not in PATHS:
        return False
    if request.operation == UPDATE and request.new.get("spec") == request.old.get("spec"):
        return False
    endpoint = endpoint_of(path, request)
    if endpoint.resource == resources.PODS:
        return request.operation == CREATE and marks.owners_decide(request.new, request.user_info.username, rules)
    return any(marks.is_claimed(body) for body in endpoint.marked(request.new)) and jobs.is_part(request.new, rules)
