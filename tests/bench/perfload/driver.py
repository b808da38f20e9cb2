"""Posts the Workloads at the load's pace and plays their jobs: each is finished its run time after it was admitted.

One informer shows what becomes of them; its clock tells when each reached which phase, as a client of the API server sees it.
The end is appended to the conditions by a JSON patch, which holds only while the Workload is still admitted: one that was
evicted meanwhile runs anew later.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from api import names
from api.errors import ApiError, Conflict, Invalid, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import WORKLOADS
from api.meta import rfc3339
from tests.bench.perfload.objects import NAMESPACE, Arrival

_CREATES_AT_ONCE = 32
_FINISHES_AT_ONCE = 32


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""


class _Status(msgspec.Struct):
    conditions: tuple[_Condition, ...] = ()


class Seen(msgspec.Struct):
    """As much of a Workload as the mimic reads."""

    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)

    def true(self, kind: str) -> bool:
        """Whether the condition is there with status True."""
        return any(c.type == kind and c.status == "True" for c in self.status.conditions)


@dataclass(slots=True)
class Life:
    """When (seconds on the driver's clock) a Workload was posted, seen with quota, admitted and finished.

    Of one that was evicted and came back the last admission counts; `runs` while it is admitted.
    """

    arrival: Arrival
    posted: float = 0.0
    reserved: float | None = None
    admitted: float | None = None
    finished: float | None = None
    runs: bool = False
    evictions: int = 0
    timer: asyncio.TimerHandle | None = None


@dataclass
class Driver:
    """`run` returns when every Workload has been seen finished. `lives` by name; `posted` is when the last was posted."""

    kube: Kube
    lives: dict[str, Life]
    began: float = 0.0
    posted: float = 0.0
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _left: int = 0
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_FINISHES_AT_ONCE))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, arrivals: Sequence[Arrival], limit: float) -> None:
        """Raises TimeoutError after so many seconds."""
        self.lives.update((arrival.name, Life(arrival)) for arrival in arrivals)
        self._left = len(self.lives)
        informer: Informer[Seen] = Informer(self.kube, WORKLOADS, Seen, namespace=NAMESPACE)
        informer.add_handler(self._changed)
        watching = asyncio.create_task(informer.run())
        try:
            await informer.synced(30.0)
            waiting = deque(arrivals)
            self.began = time.monotonic()
            async with asyncio.timeout(limit):
                async with asyncio.TaskGroup() as group:
                    for _ in range(_CREATES_AT_ONCE):
                        group.create_task(self._create(waiting))
                self.posted = time.monotonic() - self.began
                await self._ended.wait()
        finally:
            watching.cancel()
            for task in self._tasks:
                task.cancel()

    async def _create(self, waiting: deque[Arrival]) -> None:
        while waiting:
            arrival = waiting.popleft()
            await asyncio.sleep(max(0.0, self.began + arrival.at - time.monotonic()))
            self.lives[arrival.name].posted = time.monotonic()
            await self.kube.create(WORKLOADS, arrival.body)

    def _changed(self, change: Change[Seen]) -> None:
        if change.type is ChangeType.DELETED:
            raise AssertionError(f"{change.key} was deleted")
        seen, life, now = change.object, self.lives[change.object.metadata.name], time.monotonic()
        if seen.true(names.FINISHED):
            if life.finished is None:
                life.finished = now
                self._left -= 1
                if not self._left:
                    self._ended.set()
            return
        if not life.runs and seen.true(names.QUOTA_RESERVED) and not seen.true(names.EVICTED):
            life.reserved = now
        self._admitted(seen, life, now)

    def _admitted(self, seen: Seen, life: Life, now: float) -> None:
        runs = seen.true(names.ADMITTED) and not seen.true(names.EVICTED)
        if runs and not life.runs:
            life.admitted = now
            loop = asyncio.get_running_loop()
            life.timer = loop.call_later(life.arrival.seconds, self._finish, seen.metadata.name)
        elif life.runs and not runs:
            life.evictions += 1
            if life.timer is not None:
                life.timer.cancel()
        life.runs = runs

    def _finish(self, name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._write_end(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_end(self, name: str) -> None:
        condition = {
            "type": names.FINISHED,
            "status": "True",
            "reason": "Succeeded",
            "message": "Job finished successfully",
            "lastTransitionTime": rfc3339(time.time()),
        }
        body = [
            {"op": "test", "path": "/status/admission/clusterQueue", "value": self.lives[name].arrival.queue},
            {"op": "add", "path": "/status/conditions/-", "value": condition},
        ]
        async with self._slots:
            while self.lives[name].runs:
                try:
                    await self.kube.patch(WORKLOADS, name, body, NAMESPACE, kind=PatchKind.JSON, subresource="status")
                    return
                except (Conflict, Invalid, NotFound):
                    return  # evicted meanwhile: it comes again
                except ApiError as error:
                    print(f"the end of {name} is written again: {error}", flush=True)
                    await asyncio.sleep(0.1)
