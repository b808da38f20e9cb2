"""One AdmissionReview in, one answer out.

Pure: the objects come in the request, everything else from the look-ups; what each kind asks stands in endpoints.py. Answers
take well under a millisecond for objects of usual size. server.py calls it and speaks HTTP. A request that is no
AdmissionReview raises BadReview; an object whose fields have the wrong types (custom resources are mutated before their schema
is checked) is denied.
"""

from __future__ import annotations

import base64
import copy
import re
from typing import Any, Final

import msgspec

from admission.webhook.endpoints import CREATE, UPDATE, Endpoint, Request, Wire, endpoint_of, is_mutating
from admission.webhook.fields import Errors, aggregate
from admission.webhook.lookups import Lookups
from admission.webhook.patch import json_patch
from admission.webhook.rules import ReviewRules
from api.errors import InvalidQuantity, StowageError


class BadReview(StowageError):
    """The body is no AdmissionReview that can be answered; the text says why."""


class _AdmissionReview(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: Request | None = None


_UID: Final = re.compile(rb'"request":\{"uid":"([0-9A-Za-z-]{1,64})"')
_UID_WITHIN: Final = 1024
"""Bytes in which the API server has written the uid of a review."""
UNREADABLE: Final = (
    TypeError,
    AttributeError,
    ValueError,
    LookupError,
    ArithmeticError,
    RecursionError,
    InvalidQuantity,
)
"""What the rules raise for an object whose fields have other types than its kind says."""
_decoder: Final = msgspec.json.Decoder(_AdmissionReview)
API_VERSION: Final = "admission.k8s.io/v1"


def count_values(body: bytes | bytearray) -> int:
    """About how many values a body or a part of it has, without decoding it."""
    return sum(map(body.count, (b",", b"[", b"{")))


def decode(body: bytes | bytearray) -> Request:
    """The request of an AdmissionReview. Raises BadReview."""
    try:
        review = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as bad:
        raise BadReview(f"the body is no AdmissionReview: {bad}") from None
    if review.api_version != API_VERSION or review.kind != "AdmissionReview":
        raise BadReview(f"{review.api_version} {review.kind}: only {API_VERSION} AdmissionReview is understood")
    if review.request is None:
        raise BadReview("the AdmissionReview has no request")
    return review.request


def busy(body: bytes | bytearray) -> Wire | None:
    """The answer to a review that is not decoded because too many wait: a denial with status 429 and a time to try again.

    Without it the user would wait for the API server's timeout and get an internal error. None: the uid is not found.
    """
    found = _UID.search(body[:_UID_WITHIN])
    if found is None:
        return None
    status = {
        "code": 429,
        "reason": "TooManyRequests",
        "message": "the webhook of Stowage has too many large objects to check; try again",
        "details": {"retryAfterSeconds": 1},
    }
    return _reply(found.group(1).decode(), allowed=False, status=status)


def review(path: str, request: Request, lookups: Lookups, rules: ReviewRules) -> Wire:
    """The whole AdmissionReview that answers. Raises KeyError for a path that is none of ours."""
    decide = _mutated if is_mutating(path) else _validated
    endpoint = endpoint_of(path, request)
    if request.operation not in (CREATE, UPDATE):
        return _answer(request, allowed=True)
    try:
        return decide(endpoint, request, lookups, rules)
    except UNREADABLE as bad:
        text = f'{endpoint.resource.kind} "{request.name}" cannot be read: {type(bad).__name__}: {bad}'
        return _answer(request, allowed=False, status={"code": 400, "reason": "BadRequest", "message": text})


def _mutated(endpoint: Endpoint, request: Request, lookups: Lookups, rules: ReviewRules) -> Wire:
    if endpoint.mutate is None or not (request.operation == CREATE or endpoint.updates):
        return _answer(request, allowed=True)
    changed = copy.deepcopy(request.new)
    endpoint.mutate(changed, request, lookups, rules)
    if endpoint.at_once and (errors := endpoint.validate(_with_object(request, changed), lookups, rules)):
        return _answer(request, allowed=False, status=_refusal(endpoint, request, errors))
    warned = _warned(endpoint, changed, rules) if endpoint.at_once else {}
    patch = json_patch(request.new, changed)
    if not patch:
        return _answer(request, allowed=True, **warned)
    encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
    return _answer(request, allowed=True, patchType="JSONPatch", patch=encoded, **warned)


def _with_object(request: Request, changed: Wire) -> Request:
    return msgspec.structs.replace(request, object=changed, written=request.object)


def _validated(endpoint: Endpoint, request: Request, lookups: Lookups, rules: ReviewRules) -> Wire:
    errors = endpoint.validate(request, lookups, rules)
    if errors:
        return _answer(request, allowed=False, status=_refusal(endpoint, request, errors))
    return _answer(request, allowed=True, **_warned(endpoint, request.new, rules))


def _warned(endpoint: Endpoint, obj: Wire, rules: ReviewRules) -> Wire:
    warnings = endpoint.warn(obj, rules)
    return {"warnings": warnings} if warnings else {}


def _refusal(endpoint: Endpoint, request: Request, errors: Errors) -> Wire:
    """403 Forbidden, as Kueue's webhooks answer; what the fields are is in the causes."""
    kind = endpoint.resource.kind
    causes = [error.cause() for error in errors]
    details = {"name": request.name, "group": endpoint.resource.group, "kind": kind, "causes": causes}
    return {"code": 403, "reason": "Forbidden", "message": aggregate(errors), "details": details}


def _answer(request: Request, *, allowed: bool, **more: Any) -> Wire:
    return _reply(request.uid, allowed=allowed, **more)


def _reply(uid: str, *, allowed: bool, **more: Any) -> Wire:
    response = {"uid": uid, "allowed": allowed, **more}
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
