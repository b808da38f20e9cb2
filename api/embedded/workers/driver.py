"""Drives all workers of a store until nothing is due, by a test's clock or in real time.

    workers = Workers(store)
    workers.settle()                 # processes all that is due at store.clock()
    await workers.run()              # the same on each change of the store and as time passes, until cancelled

Called by the demo, tests and `stowage simulate`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from api.embedded.kinds import Ref
from api.embedded.selectors import EVERYTHING
from api.embedded.store import ObjectStorage
from api.embedded.table import StoreEvent
from api.embedded.watch import Watcher
from api.embedded.workers.base import Worker
from api.embedded.workers.jobs import JobWorker
from api.embedded.workers.jobsets import JobSetWorker
from api.embedded.workers.kubelet import Kubelet
from api.embedded.workers.scheduler import PodScheduler
from api.embedded.workers.volumes import EphemeralClaims, VolumeBinder

ALL: tuple[type[Worker], ...] = (JobSetWorker, JobWorker, VolumeBinder, EphemeralClaims, PodScheduler, Kubelet)
_ROUNDS = 10_000
_IDLE = 3600.0


class Workers:
    """The workers of a store. `kinds` may leave some out, for example for pods without a scheduler."""

    def __init__(self, store: ObjectStorage, kinds: Sequence[type[Worker]] = ALL) -> None:
        self.store = store
        self._workers = [kind(store) for kind in kinds]

    def step(self) -> bool:
        """Runs one round over all workers. Returns False if none had work."""
        return sum(worker.step() for worker in self._workers) > 0  # any() would stop at the first

    def settle(self) -> None:
        """Runs rounds until nothing is due. Raises RuntimeError if workers keep each other busy."""
        for _ in range(_ROUNDS):
            if not self.step():
                return
        raise RuntimeError(f"the workers are not at rest after {_ROUNDS} rounds: two of them undo each other's writes")

    def next_due(self) -> float | None:
        """Returns the next due time in epoch seconds, or None if only a change can make something due."""
        return min((due for worker in self._workers if (due := worker.next_due()) is not None), default=None)

    async def run(self) -> None:
        """Runs in real time until cancelled; the store's clock must be real time too."""
        wake = asyncio.Event()
        watches = [_WakeUp(self.store, place, wake) for worker in self._workers for place in worker.kinds]
        try:
            while True:
                wake.clear()
                if self.step():
                    await asyncio.sleep(0)  # let other tasks run between rounds
                else:
                    await self._rest(wake)
        finally:
            for watch in watches:
                watch.close()

    async def _rest(self, wake: asyncio.Event) -> None:
        due = self.next_due()
        pause = _IDLE if due is None else max(0.0, due - self.store.clock())
        try:
            await asyncio.wait_for(wake.wait(), pause)
        except TimeoutError:
            return

    def close(self) -> None:
        """Stops following the store."""
        for worker in self._workers:
            worker.close()


class _WakeUp(Watcher):
    """Sets an asyncio.Event on every change of one kind, without storing changes."""

    def __init__(self, store: ObjectStorage, kind: Ref, wake: asyncio.Event) -> None:
        super().__init__(store.table(kind), None, EVERYTHING)
        self._wake = wake

    def push(self, event: StoreEvent) -> None:
        self._wake.set()
