"""Limits how often a workload evicts the same victim: a pair may repeat only so often within some minutes.

queue/evictions.py has the bounds; the cycle asks before each preemption.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from admission.engine.decision import Victim
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.queue.evictions import TIMES, Evictions


def may_not_evict(
    ledger: Ledger,
    evictions: Evictions,
    workload: Workload,
    victims: Sequence[Victim],
    leaving: Set[str],
    now: float,
) -> tuple[str, float] | None:
    """Returns why the workload may not evict one of the victims, and from when on it may (epoch seconds).

    Returns None if it may evict all of them, and then records the evictions of those that are not in `leaving` already.
    """
    stay = {victim.workload for victim in victims} - leaving
    stay = {key for key in stay if (admitted := ledger.workload(key)) is not None and not admitted.evicted}
    preemptor = _evicts_as(workload)
    if (pair := evictions.too_often(preemptor, stay, now)) is not None:
        minutes = evictions.pause(preemptor, pair[0]) / 60
        return f"had {pair[0]} evicted {TIMES} times within {minutes:.0f} minutes", pair[1]
    others = {key: _evicts_as(one) for key in sorted(stay) if (one := ledger.workload(key)) is not None}
    gang = workload.gang
    mine = frozenset((workload.key, *(() if gang is None else gang.together)))
    if (pair := evictions.evicted_for(mine, others, now)) is not None:
        return f"was evicted for {pair[0]}", pair[1]
    evictions.evict(preemptor, sorted(stay), now)
    return None


def _evicts_as(workload: Workload) -> str:
    """Returns the key under which evictions are recorded: the same for every member of a group."""
    gang = workload.gang
    return min(gang.together) if gang is not None and gang.together else workload.key
