"""The moves of the last 24 hours by ClusterQueue, for the budgets of the queues (`stowage.dev/moves-per-day`).

The ledger counts the moves of workloads that run; this log also has those of workloads that have finished. After a restart it
begins with the statuses of all Workloads, so only Workloads that were deleted meanwhile are missing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from admission.engine.convert.convert_moves import terms_of_workload
from admission.engine.features.moves.movers import DAY, moved_today
from api.kube.turns import Turns
from api.workloads import Workload


class MoveLog:
    """Times (epoch seconds), queues and numbers of moves, oldest first: a number, since a status may claim very many."""

    def __init__(self) -> None:
        self._moves: deque[tuple[float, str, int]] = deque()

    async def read(self, workloads: Iterable[Workload], now: float) -> None:
        """Begins with what the statuses say: if the last move of a Workload is of today, all of its moves count.

        In turns of the loop, so `workloads` must not change meanwhile.
        """
        entries, turns = [], Turns()
        for workload in workloads:
            await turns.give_way()
            terms, admission = terms_of_workload(workload), workload.status.admission
            if admission is not None and terms.moved is not None and moved_today(terms.moved, now):
                entries.append((min(terms.moved, now), admission.cluster_queue, terms.times))
        self._moves = deque(sorted(entries))

    def add(self, queue: str, now: float) -> None:
        """Records a move of a workload of the queue."""
        while self._moves and not moved_today(self._moves[0][0], now):
            self._moves.popleft()
        self._moves.append((now, queue, 1))

    def left(self, limits: Mapping[str, int | None], now: float) -> dict[str, int]:
        """Returns how many moves each queue with a limit may make at `now`, which may be later than the present."""
        made = Counter[str]()
        for at, queue, count in self._moves:
            made[queue] += count if moved_today(at, now) else 0
        return {queue: max(0, limit - made[queue]) for queue, limit in limits.items() if limit is not None}

    def opens(self, queue: str, limit: int, count: int) -> float:
        """Returns when the queue may make `count` moves if it makes none before (epoch seconds), for at most `limit` a day."""
        own = sorted((at, many) for at, of, many in self._moves if of == queue)
        over = sum(many for _, many in own) + count - limit
        if count > limit:
            return 0.0
        for at, many in own:
            if 0 < over <= many:
                return at + DAY
            over -= many
        return 0.0
