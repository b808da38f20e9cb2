"""Answers one AdmissionReview.

Pure: objects come in the request, everything else from the lookups; endpoints.py has the rules of each kind. An answer takes
well under a millisecond for objects of usual size. server.py calls this module and speaks HTTP. A body that is not an
AdmissionReview raises BadReview. An object whose fields have the wrong types is denied: the API server calls mutating
webhooks for custom resources before it checks their schema.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec

from admission.webhook.endpoints import endpoint_of, is_mutating
from admission.webhook.kind_rules import KindRules
from admission.webhook.review_request import CREATE, UPDATE, Request, Wire
from admission.webhook.rules.fields import Errors, FieldError, aggregate
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.patch import json_patch
from api.errors import InvalidQuantity, StowageError
from api.names import QUEUE_NAME_LABEL, TRACE_CONTEXT


class BadReview(StowageError):
    """The body is not an AdmissionReview that can be answered; the message says why."""


class _AdmissionReview(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: Request | None = None


_UID: Final = re.compile(rb'"request":\{"uid":"([0-9A-Za-z-]{1,64})"')
_KIND: Final = re.compile(rb'"kind":\{[^{}]*"kind":"([0-9A-Za-z]{1,63})"')
_NAME: Final = re.compile(rb'"name":"([0-9a-z.-]{1,253})","(?:namespace|operation)":')
START: Final = 2048
"""Number of leading bytes in which the API server writes a review's uid, and the object's kind and name."""
UNREADABLE: Final = (
    TypeError,
    AttributeError,
    ValueError,
    LookupError,
    ArithmeticError,
    RecursionError,
    InvalidQuantity,
)
"""Errors that the rules raise for an object whose fields have unexpected types."""
_decoder: Final = msgspec.json.Decoder(_AdmissionReview)
API_VERSION: Final = "admission.k8s.io/v1"


def count_values(body: bytes | bytearray) -> int:
    """Returns the approximate number of values in a JSON text or part of one, without decoding it."""
    return sum(map(body.count, (b",", b"[", b"{")))


def decode(body: bytes | bytearray) -> Request:
    """Returns the request of an AdmissionReview. Raises BadReview if the body is not one."""
    try:
        review = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as bad:
        raise BadReview(f"the body is not an AdmissionReview: {bad}") from None
    if review.api_version != API_VERSION or review.kind != "AdmissionReview":
        raise BadReview(f"{review.api_version} {review.kind}: only {API_VERSION} AdmissionReview is understood")
    if review.request is None:
        raise BadReview("the AdmissionReview has no request")
    return review.request


def busy(body: bytes | bytearray) -> Wire | None:
    """Returns a denial with status 429 and a retry time for a review that is not decoded because too many wait.

    Without it the user would wait for the API server's timeout and get an internal error. Returns None if the start of the
    body has no uid.
    """
    match = _UID.search(body[:START])
    if match is None:
        return None
    status = {
        "code": 429,
        "reason": "TooManyRequests",
        "message": "the webhook of Stowage has too many large objects to check; try again",
        "details": {"retryAfterSeconds": 1},
    }
    return _reply(match.group(1).decode(), allowed=False, status=status)


def too_large(start: bytes, limit: str) -> Wire | None:
    """Returns a denial for a review that is not decoded because of its size; `start` is its beginning, `limit` the rule.

    Without it the user would get an internal error that names no object. Returns None if there is no uid.
    """
    uid, kind, name = (pattern.search(start) for pattern in (_UID, _KIND, _NAME))
    if uid is None:
        return None
    what = kind.group(1).decode() if kind else "the object"
    what += f' "{name.group(1).decode()}"' if name else ""
    message = f"{what} is too large to be checked: {limit}"
    status = {"code": 413, "reason": "RequestEntityTooLarge", "message": message}
    return _reply(uid.group(1).decode(), allowed=False, status=status)


def review(path: str, request: Request, lookups: Lookups, rules: ReviewRules) -> Wire:
    """Returns the AdmissionReview with its response. Raises KeyError for an unknown path."""
    decide = _mutated if is_mutating(path) else _validated
    endpoint = endpoint_of(path, request)
    if request.operation not in (CREATE, UPDATE):
        return _answer(request, allowed=True)
    try:
        return decide(endpoint, request, lookups, rules)
    except UNREADABLE as bad:
        text = f'{endpoint.resource.kind} "{request.name}" cannot be read: {type(bad).__name__}: {bad}'
        return _answer(request, allowed=False, status={"code": 400, "reason": "BadRequest", "message": text})


def _mutated(endpoint: KindRules, request: Request, lookups: Lookups, rules: ReviewRules) -> Wire:
    if not endpoint.completes or not (request.operation == CREATE or endpoint.updates):
        return _answer(request, allowed=True)
    # A copy of JSON by its codec: copy.deepcopy would take a fourth of the whole review.
    changed = msgspec.json.decode(msgspec.json.encode(request.new))
    endpoint.mutate(changed, request, lookups, rules)
    if request.trace and QUEUE_NAME_LABEL in (changed["metadata"].get("labels") or {}):
        # replaces what the user may have written: nobody joins the trace of another object
        changed["metadata"].setdefault("annotations", {})[TRACE_CONTEXT] = request.trace
    at_once = endpoint.at_once and request.operation == CREATE
    if at_once and (errors := endpoint.validate(_with_object(request, changed), lookups, rules)):
        return _answer(request, allowed=False, status=_refusal(endpoint, request, errors))
    warned = _warned(endpoint, changed, rules) if at_once else {}
    patch = json_patch(request.new, changed)
    if not patch:
        return _answer(request, allowed=True, **warned)
    encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
    return _answer(request, allowed=True, patchType="JSONPatch", patch=encoded, **warned)


def _with_object(request: Request, changed: Wire) -> Request:
    return msgspec.structs.replace(request, object=changed, written=request.object)


def _validated(endpoint: KindRules, request: Request, lookups: Lookups, rules: ReviewRules) -> Wire:
    errors = endpoint.validate(request, lookups, rules)
    if request.operation == UPDATE and any(_is_of_annotation(error) for error in errors):
        errors = _of_changed_annotations(errors, endpoint, request, lookups, rules)
    if not request.entitled and request.operation == UPDATE:
        errors = [*errors, *endpoint.restricted(request, lookups, rules)]
    if errors:
        return _answer(request, allowed=False, status=_refusal(endpoint, request, errors))
    return _answer(request, allowed=True, **_warned(endpoint, request.new, rules))


def _is_of_annotation(error: FieldError) -> bool:
    return ".annotations[" in error.field


def _of_changed_annotations(
    errors: Errors, endpoint: KindRules, request: Request, lookups: Lookups, rules: ReviewRules
) -> Errors:
    """Returns the errors without those of annotations that the stored object has too.

    An object may be older than the rule, or than the webhook: a user who changes something else would be refused for it.
    """
    before = msgspec.structs.replace(request, object=request.old_object)
    try:
        known = endpoint.validate(before, lookups, rules)
    except UNREADABLE:
        return errors
    return [error for error in errors if not (_is_of_annotation(error) and error in known)]


def _warned(endpoint: KindRules, obj: Wire, rules: ReviewRules) -> Wire:
    warnings = endpoint.warn(obj, rules)
    return {"warnings": warnings} if warnings else {}


def _refusal(endpoint: KindRules, request: Request, errors: Errors) -> Wire:
    """Returns a status 403 Forbidden, as Kueue's webhooks do; the causes name the fields."""
    kind = endpoint.resource.kind
    causes = [error.cause() for error in errors]
    details = {"name": request.name, "group": endpoint.resource.group, "kind": kind, "causes": causes}
    return {"code": 403, "reason": "Forbidden", "message": aggregate(errors), "details": details}


def _answer(request: Request, *, allowed: bool, **more: Any) -> Wire:
    return _reply(request.uid, allowed=allowed, **more)


def _reply(uid: str, *, allowed: bool, **more: Any) -> Wire:
    response = {"uid": uid, "allowed": allowed, **more}
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
