"""The language of placement constraints: parses and validates what a gang requires at each level of the topology.

The annotation `stowage.dev/placement-constraints` (and a Sakkara group's ConfigMap) holds a JSON object keyed by level:
`{"rack": {"type": "spread", "partitions": 2}, "node": {"min": 2, "max": 4, "hard": true}}`. A level is named by its label key
or the key's last part. The levels depend on the flavor, so engine/topology/tree/tree_spec.py resolves the names.

| word | value | meaning for the pods in a used domain of the level |
|---|---|---|
| type | pack (default), spread | as many as possible together, or as evenly distributed as possible |
| partitions | integer | exactly this number of domains, with about equally many pods each (only with spread) |
| min, max | integer | at least, at most this number |
| factor | integer | a multiple of this number |
| hard | true, false (default) | never violate, or violate as little as possible |

Nothing is raised: each error is a value with its path, the given value and what is allowed. Contradictions (min above max, a
factor without a multiple in the range, more partitions than pods, partitions without spread) name both sides. Pure;
api/annotations/requests.py, engine/convert/convert_workloads.py and the webhooks call it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from api.schema import LABEL_KEY
from api.text.untrusted_text import read_json
from api.topology_request import MAX_CONSTRAINTS, PlacementConstraint

TYPES: Final = ("pack", "spread")
WORDS: Final = tuple(word for word in PlacementConstraint.model_fields if word != "level")
MOST: Final = 2**31 - 1

_LEVEL: Final = re.compile(LABEL_KEY)
_LEVEL_FORM: Final = "must be the label key of a level, or what follows the last / of it"
_NUMBER_FORM: Final = f"must be a whole number from 1 to {MOST}"


@dataclass(frozen=True, slots=True)
class InvalidConstraint:
    """An error: `path` from the top (level, word; empty for the whole text), the given value, and what is allowed."""

    path: tuple[str, ...]
    given: Any
    allowed: str


@dataclass(frozen=True, slots=True)
class ConstraintsRead:
    """The parsed constraints in order, or the errors."""

    constraints: tuple[PlacementConstraint, ...] = ()
    faults: tuple[InvalidConstraint, ...] = ()


def read(text: str) -> ConstraintsRead:
    """Parses constraints from JSON and validates them as far as possible without a pod count."""
    try:
        given = read_json(text, pairs=_Pairs)
    except ValueError as bad:
        return ConstraintsRead(faults=(InvalidConstraint((), text, f"must be a JSON object by level: {bad}"),))
    if not isinstance(given, _Pairs):
        return ConstraintsRead(
            faults=(InvalidConstraint((), text, f"must be a JSON object by level, not {_kind(given)}"),)
        )
    faults = [*_twice((), given), *_count(given), *(fault for level, words in given for fault in _one(level, words))]
    if faults:
        return ConstraintsRead(faults=tuple(faults))
    constraints = tuple(PlacementConstraint(level=level, **dict(words)) for level, words in given)
    faults = contradictions(constraints)
    return ConstraintsRead(faults=tuple(faults)) if faults else ConstraintsRead(constraints)


def contradictions(
    constraints: Sequence[PlacementConstraint], pods: int | None = None, pod_set: str = "main"
) -> list[InvalidConstraint]:
    """Returns contradictions among the constraints, or to the pod set's number of pods (None if unknown)."""
    faults = [fault for constraint in constraints for fault in _contradiction(constraint, pods, pod_set)]
    return faults + [fault for one, other in combinations(constraints, 2) for fault in _same_level(one, other)]


def _contradiction(constraint: PlacementConstraint, pods: int | None, pod_set: str) -> Iterator[InvalidConstraint]:
    at, parts, least, most, factor = (
        constraint.level,
        constraint.partitions,
        constraint.min,
        constraint.max,
        constraint.factor,
    )
    if parts is not None and constraint.type != "spread":
        yield InvalidConstraint(
            (at, "partitions"), parts, f'contradicts type "{constraint.type}": only "spread" has partitions'
        )
    if parts is not None and pods is not None and parts > pods:
        yield InvalidConstraint(
            (at, "partitions"), parts, f'contradicts the size of pod set "{pod_set}": {pods} pod(s)'
        )
    if least is not None and most is not None and least > most:
        yield InvalidConstraint((at, "min"), least, f"contradicts max {most}: must not be greater")
    elif factor is not None and most is not None and most // factor * factor < (least or 1):
        rank = f"min {least} and max {most}" if least is not None else f"max {most}"
        yield InvalidConstraint((at, "factor"), factor, f"contradicts {rank}: no count in that range is a multiple")


def _same_level(first: PlacementConstraint, second: PlacementConstraint) -> Iterator[InvalidConstraint]:
    """Yields an error if one constraint names a level by its label and the other by the label's last part."""
    label, name = sorted((first.level, second.level), key=len, reverse=True)
    if "/" not in name and label.rpartition("/")[2] == name:
        yield InvalidConstraint((second.level,), second.level, f'names the same level as "{first.level}"')


# ---- the JSON


class _Pairs(list[tuple[str, Any]]):
    """The entries of a JSON object in order, including duplicate keys."""


def _kind(value: Any) -> str:
    kinds = {type(None): "null", bool: "a boolean", str: "a string", list: "an array"}
    return kinds.get(type(value), "a number")


def _twice(at: tuple[str, ...], pairs: _Pairs) -> Iterator[InvalidConstraint]:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            yield InvalidConstraint((*at, key), key, "appears twice")
        seen.add(key)


def _count(levels: _Pairs) -> Iterator[InvalidConstraint]:
    if not 1 <= len(levels) <= MAX_CONSTRAINTS:
        yield InvalidConstraint((), len(levels), f"must have from 1 to {MAX_CONSTRAINTS} levels")


def _one(level: str, words: Any) -> Iterator[InvalidConstraint]:
    if len(level) > 316 or not _LEVEL.fullmatch(level):
        yield InvalidConstraint((level,), level, _LEVEL_FORM)
    if not isinstance(words, _Pairs):
        yield InvalidConstraint((level,), plain(words), f"must be an object of the words {', '.join(WORDS)}")
        return
    yield from _twice((level,), words)
    for word, value in words:
        yield from (InvalidConstraint((level, word), plain(value), allowed) for allowed in _word(word, value))


def _word(word: str, value: Any) -> Iterator[str]:
    if word not in WORDS:
        yield f"unknown word: must be one of {', '.join(WORDS)}"
    elif word == "type":
        if value not in TYPES:
            yield f"must be one of {', '.join(TYPES)}"
    elif word == "hard":
        if not isinstance(value, bool):
            yield "must be true or false"
    elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        yield _NUMBER_FORM


def plain(value: Any) -> Any:
    """Returns a decoded value for messages, with objects as dicts."""
    if isinstance(value, _Pairs):
        return {key: plain(item) for key, item in value}
    return [plain(item) for item in value] if isinstance(value, list) else value


def from_wire(entries: Iterable[Mapping[str, Any]]) -> tuple[PlacementConstraint, ...]:
    """Parses the entries of `topologyRequest.constraints`. Raises pydantic.ValidationError."""
    return tuple(PlacementConstraint.from_wire(entry) for entry in entries)
