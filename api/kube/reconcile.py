"""A keyed queue and its workers, the core of every controller.

A key is in the queue once, however often it is added. One worker at a time holds a key; a key added meanwhile is queued again
afterwards. A key added with a delay is queued when due; of several additions the earliest counts, because a reconcile reads the
whole state and schedules its next run itself. Urgent keys precede others, so that finishing started work never waits for a
thousand new keys.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable

from api.errors import Conflict, StowageError
from api.kube import metrics
from api.kube.backoff import Backoff
from api.kube.clock import SYSTEM, Clock, Timer

log = logging.getLogger(__name__)

Reconcile = Callable[[str], Awaitable[float | None]]
"""Reconciles one key. Returns the seconds until it runs again, or None; if it raises, it is retried after a backoff."""


class Queue:
    """The queue of keys; see the module for its rules. Not thread-safe: for tasks of one loop."""

    def __init__(self, name: str, clock: Clock = SYSTEM) -> None:
        self.name = name
        self._clock = clock
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._urgent: OrderedDict[str, None] = OrderedDict()
        self._hurried: set[str] = set()  # held keys that were added again as urgent
        self._since: dict[str, float] = {}  # due time of keys that wait, or that are held and were added again
        self._held: set[str] = set()
        self._plans: dict[str, tuple[float, Timer]] = {}
        self._idle: deque[asyncio.Future[None]] = deque()  # workers that wait for a key
        self._depth, self._waited = metrics.QUEUE_DEPTH.labels(name), metrics.QUEUE_SECONDS.labels(name)

    def __len__(self) -> int:
        """Returns the number of keys that wait for a worker now."""
        return len(self._ready) + len(self._urgent)

    @property
    def planned(self) -> int:
        """Number of keys that are scheduled for later."""
        return len(self._plans)

    @property
    def idle(self) -> bool:
        """Reports whether no key waits or is held; scheduled keys do not count."""
        return not self._since and not self._held

    def add(self, key: str, *, urgent: bool = False) -> None:
        """Queues the key now and drops its schedule. An urgent key precedes others, even if it waits already."""
        self.drop_plan(key)
        if urgent and key in self._held:
            self._hurried.add(key)
        elif urgent and key in self._ready:
            del self._ready[key]
            self._urgent[key] = None
        if key in self._since:
            return
        self._since[key] = self._clock.now()
        if key not in self._held:
            self._push(key, urgent=urgent)

    def add_after(self, key: str, seconds: float) -> None:
        """Queues the key after `seconds`, unless it waits or is scheduled earlier. 0 or less queues it now."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.now() + seconds
        plan = self._plans.get(key)
        if key in self._since or (plan is not None and plan[0] <= due):
            return
        if plan is not None:
            plan[1].cancel()
        self._plans[key] = (due, self._clock.call_later(seconds, lambda: self.add(key)))

    def drop_plan(self, key: str) -> None:
        """Forgets when the key is scheduled; it still waits if it is due."""
        plan = self._plans.pop(key, None)
        if plan is not None:
            plan[1].cancel()

    async def take(self) -> str:
        """Waits for a key and returns it, urgent and longest-waiting first; the caller holds it until `done`."""
        while not len(self):
            await self._push_seen()
        key, _ = (self._urgent or self._ready).popitem(last=False)
        self._held.add(key)
        self._waited.observe(max(0.0, self._clock.now() - self._since.pop(key)))
        self._depth.set(len(self))
        return key

    async def _push_seen(self) -> None:
        """Waits until a key is pushed for this worker: each key wakes one of those that wait."""
        pushed = asyncio.get_running_loop().create_future()
        self._idle.append(pushed)
        try:
            await pushed
        except asyncio.CancelledError:
            if pushed in self._idle:
                self._idle.remove(pushed)
            elif len(self):
                self._wake()  # it was woken for a key that another worker must take
            raise

    def _wake(self) -> None:
        while self._idle:
            worker = self._idle.popleft()
            if not worker.done():
                worker.set_result(None)
                return

    def done(self, key: str) -> None:
        """Releases a key, and queues it again if it was added meanwhile."""
        self._held.discard(key)
        urgent = key in self._hurried
        self._hurried.discard(key)
        if key in self._since:
            self._push(key, urgent=urgent)

    def recall(self) -> None:
        """Queues all scheduled keys now, so that no timer is left and no key is lost."""
        for key in list(self._plans):
            self.add(key)

    def _push(self, key: str, *, urgent: bool) -> None:
        (self._urgent if urgent else self._ready)[key] = None
        self._wake()
        self._depth.set(len(self))


class Reconciler:
    """A queue with `workers` tasks that call `reconcile` for its keys; failed keys are retried with a backoff."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = 4,
        base_delay: float = 0.05,
        max_delay: float = 60.0,
        clock: Clock = SYSTEM,
    ) -> None:
        self.name = name
        self.queue = Queue(name, clock)
        self._reconcile, self._workers = reconcile, workers
        self._backoff = Backoff(base_delay, max_delay)
        self._failures: dict[str, int] = {}
        self._took = metrics.RECONCILE_SECONDS.labels(name)

    def add(self, key: str, *, urgent: bool = False) -> None:
        """Queues the key now, urgent ones first, and drops its schedule."""
        self.queue.add(key, urgent=urgent)

    def add_after(self, key: str, seconds: float) -> None:
        """Queues the key after `seconds`; the earliest of several schedules counts."""
        self.queue.add_after(key, seconds)

    async def run(self) -> None:
        """Runs the workers until cancelled. Keys that were queued, scheduled or held wait for the next run."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            self.queue.recall()

    async def _work(self) -> None:
        task = asyncio.current_task()
        # A cancellation is raised only once; if code below swallows it, the worker still ends.
        while task is None or not task.cancelling():
            key = await self.queue.take()
            try:
                await self._one(key)
            finally:
                self.queue.done(key)
            # A reconcile that fails at once never awaits, and neither does `take` while keys wait: without this, a long queue
            # of such keys would block the loop, including the renewal of the Lease.
            await asyncio.sleep(0)

    async def _one(self, key: str) -> None:
        started = time.perf_counter()
        try:
            again = await self._reconcile(key)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self.queue.add(key)  # interrupted: the next run reconciles it again
                raise
            self._failed(key, RuntimeError("the reconcile cancelled itself"))
        except Exception as error:  # noqa: BLE001 - outermost handler: one bad key must not stop the others
            self._failed(key, error)
        else:
            self._failures.pop(key, None)
            if again is not None:
                self.queue.add_after(key, again)
        finally:
            self._took.observe(time.perf_counter() - started)

    def _failed(self, key: str, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures)
        metrics.RECONCILE_ERRORS.labels(self.name, type(error).__name__).inc()
        facts = {"queue": self.name, "key": key, "error": str(error), "failures": failures, "retry_in": round(delay, 3)}
        if isinstance(error, Conflict):
            log.info("another client wrote first", extra=facts)
        elif isinstance(error, StowageError):
            log.warning("reconcile failed", extra=facts)
        else:
            log.error("reconcile failed", extra=facts, exc_info=error)
        self.queue.add_after(key, delay)
