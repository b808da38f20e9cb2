"""Reads the annotation `stowage.dev/spare-hosts` of a ResourceFlavor: `1 of 16 hosts of each LEVEL`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from api.names import HOSTNAME_LABEL

MAX_OF: Final = 10_000
FORM: Final = (
    "must be `N of M hosts of each LEVEL`, where N is from 1 to M - 1, M at most 10000, and LEVEL a level's node label"
)
# A label key has at most 253 + 1 + 63 characters.
_RULE: Final = re.compile(r"([1-9][0-9]{0,3}) of ([1-9][0-9]{0,4}) hosts of each ([A-Za-z0-9._/-]{1,317})")


class SpareHostsOfFlavor(NamedTuple):
    """`hosts` of each `of` hosts of every domain of `level` are kept free."""

    hosts: int
    of: int
    level: str


def parse_spare_hosts_of_flavor(text: str) -> SpareHostsOfFlavor:
    """Parses the annotation. Raises ValueError with what is allowed."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(FORM)
    rule = SpareHostsOfFlavor(int(match[1]), int(match[2]), match[3])
    if not rule.hosts < rule.of <= MAX_OF:
        raise ValueError(FORM)
    return rule


def level_above_host(levels: Sequence[str]) -> str:
    """Returns the text of what LEVEL may be in a topology of these levels."""
    return f"LEVEL must be above {HOSTNAME_LABEL}, which must be the lowest level; the levels are {', '.join(levels)}"
