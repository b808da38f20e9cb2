"""Bounds text that users write (annotations, ConfigMaps, fields that a CRD leaves open) before it is parsed.

JSON parsers recurse into their input, and Python then raises RecursionError, which is not a ValueError. All code that parses
user input calls this module, which first measures length and depth in one pass without recursion. Every error is a ValueError
that says what is allowed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

LONGEST: Final = 256 * 1024
"""Most characters; all annotations of an object together have no more."""
LONGEST_DATA: Final = 1024 * 1024
"""Most characters of a ConfigMap's value."""
DEEPEST: Final = 32
"""Deepest nesting of lists and objects; topology trees, the deepest input, have 16 levels."""

# Possessive, and the closing quote is optional, so that each character is visited once whatever the text is.
_TEXT: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_WIRE: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

Pairs = Callable[[list[tuple[str, Any]]], Any]


def bounded(text: str, longest: int = LONGEST, deepest: int = DEEPEST) -> str:
    """Returns the text if it is within the limits. Raises ValueError otherwise."""
    if len(text) > longest:
        raise ValueError(f"must have at most {longest} characters, not {len(text)}")
    if text.count("[") + text.count("{") > deepest:
        depth = 0
        for token in _TEXT.finditer(text):
            first = text[token.start()]
            if first in "[{":
                depth += 1
                if depth > deepest:
                    raise ValueError(f"must have at most {deepest} lists and objects within each other")
            elif first in "]}":
                depth -= 1
    return text


def read_json(text: str, *, longest: int = LONGEST, deepest: int = DEEPEST, pairs: Pairs | None = None) -> Any:
    """Parses JSON. `pairs` converts an object's entries. Raises ValueError and nothing else."""
    value = json.loads(
        bounded(text, longest, deepest), object_pairs_hook=pairs, parse_constant=_no_constant, parse_float=_finite
    )
    if _SURROGATE.search(text):
        # A lone surrogate parses, but fails later when it is encoded.
        json.dumps(value, ensure_ascii=False).encode()
    return value


def cut(data: bytes, deepest: int, instead: bytes) -> bytes:
    """Returns JSON with `instead` in place of each more deeply nested list and object, for input that must be read anyway."""
    return b"".join(_shallow_parts(data, deepest, instead))


def _shallow_parts(data: bytes, deepest: int, instead: bytes) -> Iterator[bytes]:
    depth = begin = 0
    for token in _WIRE.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            depth += 1
            if depth == deepest + 1:
                yield data[begin : token.start()]
        elif first in b"]}":
            depth -= 1
            if depth == deepest:
                yield instead
                begin = token.end()
    if depth <= deepest:
        yield data[begin:]


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


def unique_entries(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the entries as a dict. Raises ValueError for a duplicate key."""
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            raise ValueError(f"{key} appears twice")
        entries[key] = value
    return entries
