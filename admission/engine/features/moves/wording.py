"""The message of a mover's condition stowage.dev/Moving, which names the waiting workload that gets the place.

The controller writes it; a controller that takes over and the dashboard read it. Anybody who writes statuses can write another.
"""

from __future__ import annotations

import re
from typing import Final

NAMED: Final = 3
"""Workloads that a message about moves names, before it only counts the others."""
_BEFORE: Final = "Moved to another place so that "
_FOR_A_GANG: Final = " gets its domain"
_AFTER: Final = "; the quota stays reserved"
_NAME: Final = r"[a-z0-9][a-z0-9.-]{0,252}"
_GANG: Final = re.compile(f"{_BEFORE}({_NAME}/{_NAME}){_FOR_A_GANG}{_AFTER}")


def purpose_of(gang: str) -> str:
    """Returns the purpose of moves for the waiting workload of this key."""
    return gang + _FOR_A_GANG


def moving_message(purpose: str) -> str:
    """Returns the message of a mover's condition."""
    return f"{_BEFORE}{purpose}{_AFTER}"


def gang_of(message: str) -> str:
    """Returns the key of the workload for which a mover moves; empty if the message names none. It may quote an earlier one."""
    match = _GANG.search(message)
    return "" if match is None else match.group(1)
