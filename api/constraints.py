"""The language of placement constraints: what a gang wants at each level of the tree, read from JSON and checked.

The annotation `stowage.dev/placement-constraints` (and a group's ConfigMap) holds one object, keyed by level:
`{"rack": {"type": "spread", "partitions": 2}, "node": {"min": 2, "max": 4, "hard": true}}`. A level is named by its label
key or by what follows the last `/` of it; which levels there are is known only with the flavor that placement tries, so
names are resolved there (engine/topology/tree/levelnames.py).

| word | value | meaning: the pods on a used unit of the level |
|---|---|---|
| type | pack (default), spread | as many as possible together, or as evenly as possible apart |
| partitions | whole number | that many units exactly, each with about as many pods (only with spread) |
| min, max | whole number | at least, at most so many |
| factor | whole number | a multiple of it |
| hard | true, false (default) | whether this is violated never, or as little as can be |

Nothing is raised here: every fault is a value that says where, what stood there and what is allowed, and there may be
several. Contradictions (min above max, a factor without a multiple in the range, more partitions than pods, partitions
where the pods are to be packed) name both sides. Pure; called by api/requests.py, engine/convert.py and the webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from api.schema import LABEL_KEY
from api.untrusted_text import read_json
from api.workloads import MAX_CONSTRAINTS, PlacementConstraint

TYPES: Final = ("pack", "spread")
WORDS: Final = tuple(word for word in PlacementConstraint.model_fields if word != "level")
MOST: Final = 2**31 - 1

_LEVEL: Final = re.compile(LABEL_KEY)
_LEVEL_FORM: Final = "must be the label key of a level, or what follows the last / of it"
_NUMBER_FORM: Final = f"must be a whole number from 1 to {MOST}"


@dataclass(frozen=True, slots=True)
class InvalidConstraint:
    """One thing wrong: `path` to it below the whole (level, word; empty: the whole), what stood there, what is allowed."""

    path: tuple[str, ...]
    given: Any
    allowed: str


@dataclass(frozen=True, slots=True)
class ConstraintsRead:
    """What a text comes to: constraints in its order; none of them where there are faults."""

    constraints: tuple[PlacementConstraint, ...] = ()
    faults: tuple[InvalidConstraint, ...] = ()


def read(text: str) -> ConstraintsRead:
    """The constraints that a JSON text holds, checked as far as that goes without a pod count."""
    try:
        given = read_json(text, pairs=_Pairs)
    except ValueError as bad:
        return ConstraintsRead(faults=(InvalidConstraint((), text, f"must be a JSON object by level: {bad}"),))
    if not isinstance(given, _Pairs):
        return ConstraintsRead(
            faults=(InvalidConstraint((), text, f"must be a JSON object by level, not {_kind(given)}"),)
        )
    faults = [*_twice((), given), *_count(given), *(fault for level, said in given for fault in _one(level, said))]
    if faults:
        return ConstraintsRead(faults=tuple(faults))
    constraints = tuple(PlacementConstraint(level=level, **dict(said)) for level, said in given)
    faults = contradictions(constraints)
    return ConstraintsRead(faults=tuple(faults)) if faults else ConstraintsRead(constraints)


def contradictions(
    constraints: Sequence[PlacementConstraint], pods: int | None = None, pod_set: str = "main"
) -> list[InvalidConstraint]:
    """Where the constraints contradict each other or the number of pods of that pod set (None: not known)."""
    found = [fault for constraint in constraints for fault in _contradiction(constraint, pods, pod_set)]
    return found + [fault for one, other in combinations(constraints, 2) for fault in _same_level(one, other)]


def _contradiction(given: PlacementConstraint, pods: int | None, pod_set: str) -> Iterator[InvalidConstraint]:
    at, parts, least, most, factor = given.level, given.partitions, given.min, given.max, given.factor
    if parts is not None and given.type != "spread":
        yield InvalidConstraint(
            (at, "partitions"), parts, f'contradicts type "{given.type}": only "spread" has partitions'
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


def _same_level(one: PlacementConstraint, other: PlacementConstraint) -> Iterator[InvalidConstraint]:
    """A bare name, and the label that it is the last part of."""
    label, name = sorted((one.level, other.level), key=len, reverse=True)
    if "/" not in name and label.rpartition("/")[2] == name:
        yield InvalidConstraint((other.level,), other.level, f'names the same level as "{one.level}"')


# ---- the JSON


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its entries as they stand, those of one key twice included."""


def _kind(given: Any) -> str:
    kinds = {type(None): "null", bool: "a boolean", str: "a string", list: "an array"}
    return kinds.get(type(given), "a number")


def _twice(at: tuple[str, ...], given: _Pairs) -> Iterator[InvalidConstraint]:
    seen: set[str] = set()
    for key, _ in given:
        if key in seen:
            yield InvalidConstraint((*at, key), key, "stands there twice")
        seen.add(key)


def _count(given: _Pairs) -> Iterator[InvalidConstraint]:
    if not 1 <= len(given) <= MAX_CONSTRAINTS:
        yield InvalidConstraint((), len(given), f"must have from 1 to {MAX_CONSTRAINTS} levels")


def _one(level: str, said: Any) -> Iterator[InvalidConstraint]:
    if len(level) > 316 or not _LEVEL.fullmatch(level):
        yield InvalidConstraint((level,), level, _LEVEL_FORM)
    if not isinstance(said, _Pairs):
        yield InvalidConstraint((level,), plain(said), f"must be an object of the words {', '.join(WORDS)}")
        return
    yield from _twice((level,), said)
    for word, value in said:
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
    """A decoded value for a message, objects as maps again."""
    if isinstance(value, _Pairs):
        return {key: plain(item) for key, item in value}
    return [plain(item) for item in value] if isinstance(value, list) else value


def from_wire(entries: Iterable[Mapping[str, Any]]) -> tuple[PlacementConstraint, ...]:
    """The entries of `topologyRequest.constraints` as the API server holds them. Raises pydantic.ValidationError."""
    return tuple(PlacementConstraint.from_wire(entry) for entry in entries)
