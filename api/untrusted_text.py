"""Text that users may write (annotations, ConfigMaps, fields that a CRD leaves open), bounded before it is parsed.

Every JSON parser goes into its input by recursion, and Python ends the parse with RecursionError, which is no ValueError:
all code that parses user input calls this module, which first measures length and depth in one pass without recursion.
Every defect of a text raises a ValueError that says what is allowed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

LONGEST: Final = 256 * 1024
"""Characters: no object has more than that in all its annotations."""
LONGEST_DATA: Final = 1024 * 1024
"""Characters of a ConfigMap's value."""
DEEPEST: Final = 32
"""Lists and objects within each other; Sakkara's trees, the deepest, have 16."""

# Possessive, and a string may lack its end: so each character is looked at once, whatever the text is.
_TEXT: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_WIRE: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

Pairs = Callable[[list[tuple[str, Any]]], Any]


def bounded(text: str, longest: int = LONGEST, deepest: int = DEEPEST) -> str:
    """The text, where a parser may have it. Raises ValueError."""
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
    """What a JSON text says. `pairs` makes an object of its entries. Raises ValueError, and nothing else."""
    value = json.loads(
        bounded(text, longest, deepest), object_pairs_hook=pairs, parse_constant=_no_constant, parse_float=_finite
    )
    if _SURROGATE.search(text):
        # Half a character can be read, and then stops the code that writes it on.
        json.dumps(value, ensure_ascii=False).encode()
    return value


def cut(data: bytes, deepest: int, instead: bytes) -> bytes:
    """JSON with `instead` in the place of each list and object that lies deeper: for what must be read all the same."""
    return b"".join(_kept(data, deepest, instead))


def _kept(data: bytes, deepest: int, instead: bytes) -> Iterator[bytes]:
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


def entries_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a duplicate key is an error."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key} stands there twice")
        found[key] = value
    return found
