"""Answers one ConversionReview: converts objects of kueue.x-k8s.io to the version that the API server requests.

The API server sends whole lists at once, and any client that reaches the port may send one. A long body is scanned for objects,
which are decoded and converted one by one, so no library call takes long and at most one object is held decoded.
`ConversionLimits` bounds the rest. server.py calls `converted` in a thread; api.conversion has the rules.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.webhook.server.review import BadReview, count_values
from api.conversion import convert
from api.errors import InvalidObject
from api.names import GROUP

API_VERSION: Final = "apiextensions.k8s.io/v1"

_ENVELOPE: Final = 64 * 1024
"""Most bytes of a review without its objects."""
_PIECE: Final = 256 * 1024
"""Approximate bytes of a response that are sent at once, because encryption blocks the event loop."""
_LONGEST_MESSAGE: Final = 1000
_SHORTEST: Final = 64
"""Fewest bytes of an object in a long list: apiVersion, kind and metadata alone need as many."""
_DEEPEST: Final = 200

_OPENING: Final = b"{["
_CLOSING: Final = b"}]"
_PLACE: Final = b'"objects"'
"""Marks the place of the objects in a response, which has this value first."""
# A quote without a closing quote is a token too. It ends the scan, which would otherwise retry each later quote.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}"]', re.DOTALL)
_OPENS: Final = re.compile(rb"\s{0,100}:\s{0,100}\[\s{0,100}")
_NEXT: Final = re.compile(rb"\s{0,100}([,\]])\s{0,100}")


@dataclass(frozen=True, slots=True)
class ConversionLimits:
    """Limits of one conversion. Lengths are in bytes."""

    object: int = 3 * 1024 * 1024
    """Most bytes of one object: etcd stores at most 1.5 MiB."""
    values: int = 400_000
    """Most values in one object, counted by commas and brackets."""
    objects: int = 100_000
    answer: int = 128 * 1024 * 1024
    """Most bytes of the response."""
    seconds: float = 25.0
    """Most seconds of a conversion; the API server waits for 30."""


_BOUNDS: Final = ConversionLimits()
_CANNOT_BE_CONVERTED: Final = (
    InvalidObject,
    msgspec.MsgspecError,
    RecursionError,
    ArithmeticError,
    ValueError,
    TypeError,
)


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}):
    uid: str
    desired: str
    objects: list[msgspec.Raw] = []


class _ConversionReview(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request | None = None


_decoder: Final = msgspec.json.Decoder(_ConversionReview)


def converted(body: bytes | bytearray, bounds: ConversionLimits = _BOUNDS) -> list[bytes]:
    """Returns the encoded ConversionReview response in pieces. Raises BadReview if the body is not a ConversionReview."""
    deadline = time.monotonic() + bounds.seconds
    if (pieces := _small(body, bounds)) is not None and time.monotonic() <= deadline:
        return pieces
    start = _first_object(body)
    spans = list(_objects(body, start, bounds)) if start else []
    end = spans[-1][1] if spans else start
    if start + len(body) - end > _ENVELOPE:
        raise BadReview(f"a ConversionReview has at most {_ENVELOPE} bytes around its objects")
    request = _request(bytes(body[:start] + body[end:]))
    group, _, version = request.desired.partition("/")
    if group != GROUP:
        return _failed(request, f"desiredAPIVersion: {request.desired[:100]!r}: only {GROUP} is converted here")
    out: list[bytes] = []
    length = 0
    for index, span in enumerate(spans):
        try:
            out.append(_converted(body[slice(*span)], version, bounds))
        except _CANNOT_BE_CONVERTED as bad:
            return _failed(request, f"objects[{index}]: {_message(bad)}")
        length += len(out[-1])
        if length > bounds.answer:
            return _failed(request, f"objects[{index}]: the answer has more than {bounds.answer} bytes with it")
        if time.monotonic() > deadline:
            return _failed(request, f"objects[{index}]: it took more than {bounds.seconds:g} s until here")
    return _success(request, out)


def _small(body: bytes | bytearray, bounds: ConversionLimits) -> list[bytes] | None:
    """Returns the response to a short review, decoded as a whole, or None: its faults are found and told by the scan.

    Most reviews have one object, and the scan takes longer than the conversion.
    """
    if len(body) > min(_ENVELOPE, bounds.object) or sum(map(body.count, (b"{", b"["))) > _DEEPEST:
        return None
    try:
        request = _reviewed(_decoder.decode(body))
        if request is None or not request.objects or not request.desired.startswith(f"{GROUP}/"):
            return None
        version = request.desired.partition("/")[2]
        objects = [_converted(bytes(raw), version, bounds) for raw in request.objects]
    except _CANNOT_BE_CONVERTED:
        return None
    is_bounded = len(objects) <= bounds.objects and sum(map(len, objects)) <= bounds.answer
    return _success(request, objects) if is_bounded else None


def _success(request: _Request, objects: list[bytes]) -> list[bytes]:
    answer = _answer(request, {"convertedObjects": [msgspec.Raw(_PLACE)], "result": {"status": "Success"}})
    return list(_pieces(answer, objects))


def _first_object(body: bytes | bytearray) -> int:
    """Returns the offset of the first item of `request.objects`, or 0 if the first `_ENVELOPE` bytes do not have it."""
    depth = 0
    for token in _TOKEN.finditer(body, 0, _ENVELOPE):
        if (char := body[token.start()]) in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
        elif depth == 2 and token[0] == b'"objects"' and (opens := _OPENS.match(body, token.end())):
            return opens.end()
    return 0


def _objects(body: bytes | bytearray, start: int, bounds: ConversionLimits) -> Iterator[tuple[int, int]]:
    """Yields the start and end offset of each object. Raises BadReview for a malformed or oversized object."""
    if body[start : start + 1] == b"]":
        return
    most = min(bounds.objects, len(body) // _SHORTEST + 1000)
    for index in range(most):
        end = _object_end(body, start, bounds)
        following = _NEXT.match(body, end) if end else None
        if following is None:
            raise BadReview(
                f"request.objects[{index}] is not an object of at most {bounds.object} bytes and {_DEEPEST} levels"
            )
        yield start, end
        if following[1] == b"]":
            return
        start = following.end()
    raise BadReview(f"request.objects: at most {most} are converted at once in {len(body)} bytes")


def _object_end(body: bytes | bytearray, start: int, bounds: ConversionLimits) -> int:
    """Returns the end offset of the object that starts at `start`, or 0 if none does."""
    depth = 0
    if body[start : start + 1] != b"{":
        return 0
    for token in _TOKEN.finditer(body, start, start + bounds.object):
        char = body[token.start()]
        if char in _OPENING:
            depth += 1
            if depth > _DEEPEST:
                return 0
        elif char in _CLOSING:
            depth -= 1
            if not depth:
                return token.end()
        elif token.end() - token.start() == 1:
            return 0
    return 0


def _request(envelope: bytes) -> _Request:
    try:
        review = _decoder.decode(envelope)
    except (msgspec.MsgspecError, RecursionError) as bad:
        raise BadReview(f"the body is not a ConversionReview: {bad}") from None
    if (request := _reviewed(review)) is None:
        raise BadReview(f"only a request of {API_VERSION} ConversionReview is understood")
    if request.objects:
        raise BadReview("the body is not a ConversionReview: its request has two lists of objects")
    return request


def _reviewed(review: _ConversionReview) -> _Request | None:
    """Returns the request of a ConversionReview; None for another kind, and without a request."""
    is_review = review.api_version == API_VERSION and review.kind == "ConversionReview"
    return review.request if is_review else None


def _converted(raw: bytes | bytearray, version: str, bounds: ConversionLimits) -> bytes:
    if (values := count_values(raw)) > bounds.values:
        raise InvalidObject("object", f"{values} values", f"must have at most {bounds.values}")
    return msgspec.json.encode(convert(msgspec.json.decode(raw, type=dict[str, Any]), version))


def _message(bad: Exception) -> str:
    known = isinstance(bad, (InvalidObject, msgspec.MsgspecError))
    return (str(bad) if known else f"{type(bad).__name__}: {bad}")[:_LONGEST_MESSAGE]


def _failed(request: _Request, message: str) -> list[bytes]:
    return [_answer(request, {"convertedObjects": [], "result": {"status": "Failure", "message": message}})]


def _answer(request: _Request, response: dict[str, Any]) -> bytes:
    whole = {"apiVersion": API_VERSION, "kind": "ConversionReview", "response": {**response, "uid": request.uid}}
    return msgspec.json.encode(whole)


def _pieces(around: bytes, objects: list[bytes]) -> Iterator[bytes]:
    """Yields the response with the objects at their place."""
    before, _, after = around.partition(_PLACE)
    piece = bytearray(before)
    for index, each in enumerate(objects):
        piece += b"," if index else b""
        piece += each
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece = bytearray()
    yield bytes(piece + after)
