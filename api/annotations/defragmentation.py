"""Reads the annotations of a Topology about moves: a policy, a budget, and a request to move once.

    stowage.dev/defragment: "rack: largest gang < 16 hosts, idle > 20%, at 22:00-06:00"
    stowage.dev/defragment-now: "4f2a workload team-a/gang"    or    "4f2a domain rack"

Only who may change Topologies can write them. Texts of another form are errors, which name what is allowed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from api import names
from api.annotations.moves import MAX_PER_DAY
from api.errors import InvalidObject

LONGEST: Final = 512
"""The most characters that are read."""
_LEVEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9./_-]{0,251}[A-Za-z0-9])?"
_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_POLICY: Final = re.compile(
    rf"(?P<level>{_LEVEL}): largest gang < (?P<hosts>[1-9][0-9]{{0,5}}) hosts"
    rf"(?:, idle > (?P<idle>[1-9]?[0-9])%)?(?:, at (?P<begins>{_TIME})-(?P<ends>{_TIME}))?",
    re.ASCII,
)
_NAME: Final = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_REQUEST: Final = re.compile(
    rf"(?P<id>[a-z0-9]{{4,32}}) (?:domain (?P<level>{_LEVEL})|workload (?P<workload>{_NAME}/{_NAME}))", re.ASCII
)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,5}", re.ASCII)
POLICY_FORM: Final = (
    'must be of the form "rack: largest gang < 16 hosts, idle > 20%, at 22:00-06:00"; the last two may be missing'
)
REQUEST_FORM: Final = (
    'must be of the form "ID domain LEVEL" or "ID workload NAMESPACE/NAME", the ID of 4 to 32 characters a-z and 0-9'
)


class DefragmentPolicy(NamedTuple):
    """Makes a domain of `level` free while no domain of it has `hosts` hosts without workloads.

    Only while more than `idle` percent of all hosts have no workloads, and in the `hours`, minutes of the day in UTC from the
    first to before the second; None for always. `per_day` bounds the moves of 24 hours, None for any number.
    """

    level: str
    hosts: int
    idle: int = 0
    hours: tuple[int, int] | None = None
    per_day: int | None = None

    def due(self, at: float) -> bool:
        """Reports whether the time (epoch seconds) is within the hours."""
        if self.hours is None:
            return True
        minute, (begins, ends) = int(at // 60) % 1440, self.hours
        return begins <= minute < ends if begins < ends else minute >= begins or minute < ends


class MoveRequest(NamedTuple):
    """A request to move once, for a waiting workload (`namespace/name`) or, if that is empty, for a free domain of a level."""

    id: str
    level: str = ""
    workload: str = ""


def policy_of(annotations: Mapping[str, str]) -> DefragmentPolicy | None:
    """Returns the policy of a Topology, None without one. Raises InvalidObject."""
    text = annotations.get(names.DEFRAGMENT)
    if text is None:
        return None
    match = _POLICY.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise InvalidObject(_field(names.DEFRAGMENT), text[:LONGEST], POLICY_FORM)
    begins, ends = match["begins"], match["ends"]
    if begins is not None and begins == ends:
        raise InvalidObject(_field(names.DEFRAGMENT), text, "the hours must begin and end at different times")
    hours = None if begins is None else (_minutes(begins), _minutes(ends))
    return DefragmentPolicy(match["level"], int(match["hosts"]), int(match["idle"] or 0), hours, _per_day(annotations))


def request_of(annotations: Mapping[str, str]) -> MoveRequest | None:
    """Returns the request, None without one. Raises InvalidObject."""
    text = annotations.get(names.DEFRAGMENT_NOW)
    if text is None:
        return None
    match = _REQUEST.fullmatch(text) if len(text) <= LONGEST * 2 else None
    if match is None:
        raise InvalidObject(_field(names.DEFRAGMENT_NOW), text[:LONGEST], REQUEST_FORM)
    return MoveRequest(match["id"], match["level"] or "", match["workload"] or "")


def _per_day(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(names.MOVES_PER_DAY)
    if text is None:
        return None
    if _NUMBER.fullmatch(text) is None or int(text) > MAX_PER_DAY:
        raise InvalidObject(
            _field(names.MOVES_PER_DAY), text[:LONGEST], f"must be a whole number from 0 to {MAX_PER_DAY}"
        )
    return int(text)


def _minutes(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"
