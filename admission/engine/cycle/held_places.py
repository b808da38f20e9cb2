"""Places and quota that are held for waiting workloads while others leave these places (moves/).

A held place counts like an admission, for all workloads and whatever their priority, and nothing is evicted from it. At its own
turn in a cycle the workload may use it: the hold is lifted, and comes back unless the workload starts. The one that moves
workloads for it ends the hold (controllers/moves/).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from admission.engine.ledger.ledger import Ledger, place_key
from admission.engine.model import Admission, Workload

PLACE_HELD: Final = "the workloads that leave its place for others have not left yet; the place is held for it"


def hold_place(ledger: Ledger, workload: Workload, admission: Admission) -> None:
    """Holds places and quota for the waiting workload."""
    ledger.hold(replace(workload, key=place_key(workload.key), admission=None, gang=None), admission, waits=True)


def drop_place(ledger: Ledger, key: str) -> bool:
    """Ends the hold for the workload of this key; True if there was one."""
    if ledger.admission(place_key(key)) is None:
        return False
    ledger.unhold(place_key(key))
    return True


@contextmanager
def lifted(ledger: Ledger, key: str) -> Iterator[bool]:
    """Lifts the hold for the workload, unless it has an admission afterwards. Yields whether there is a hold."""
    held = ledger.workload(place_key(key))
    if held is None or held.admission is None:
        yield False
        return
    ledger.unhold(held.key)
    try:
        yield True
    finally:
        if ledger.admission(key) is None:
            ledger.hold(replace(held, admission=None), held.admission, waits=True)
