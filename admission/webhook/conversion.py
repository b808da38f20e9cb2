"""One ConversionReview in, one answer out: objects of kueue.x-k8s.io in the version that the API server asks for.

The API server asks for whole lists at once. Objects are decoded one by one, and other requests get their turn between them,
so that a large list does not hold the loop. server.py calls it; the rules are those of api.conversion.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from admission.webhook.review import BadReview
from api.conversion import convert
from api.errors import InvalidObject
from api.names import GROUP

API_VERSION: Final = "apiextensions.k8s.io/v1"
_AT_ONCE: Final = 20
"""Objects converted before others get their turn: some milliseconds."""


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}):
    uid: str
    desired: str
    objects: list[msgspec.Raw] = []


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request | None = None


_decoder: Final = msgspec.json.Decoder(_Review)


async def converted(body: bytes) -> bytes:
    """The ConversionReview that answers, encoded. Raises BadReview for a body that is none."""
    try:
        review = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as bad:
        raise BadReview(f"the body is no ConversionReview: {bad}") from None
    if review.api_version != API_VERSION or review.kind != "ConversionReview" or review.request is None:
        raise BadReview(
            f"{review.api_version} {review.kind}: only a request of {API_VERSION} ConversionReview is understood"
        )
    request = review.request
    group, _, version = request.desired.partition("/")
    if group != GROUP:
        return _failed(request, f"desiredAPIVersion: {request.desired!r}: only {GROUP} is converted here")
    out: list[msgspec.Raw] = []
    for count, raw in enumerate(request.objects, 1):
        try:
            out.append(msgspec.Raw(msgspec.json.encode(convert(_object(raw), version))))
        except (InvalidObject, msgspec.MsgspecError, RecursionError) as bad:
            return _failed(request, f"objects[{count - 1}]: {bad}")
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)
    return _answer(request, {"convertedObjects": out, "result": {"status": "Success"}})


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    return msgspec.json.decode(raw, type=dict[str, Any])


def _failed(request: _Request, message: str) -> bytes:
    return _answer(request, {"convertedObjects": [], "result": {"status": "Failure", "message": message}})


def _answer(request: _Request, response: dict[str, Any]) -> bytes:
    whole = {"apiVersion": API_VERSION, "kind": "ConversionReview", "response": {"uid": request.uid, **response}}
    return msgspec.json.encode(whole)
