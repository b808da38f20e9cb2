"""Leader election by a Lease: at most one process may write at a time, and one that cannot prove its Lease stops in time.

Timing, all on the local monotonic clock (timestamps in the Lease are informational):

    t0                            a renewal is sent, and succeeds later
    t0 + renew_deadline  (10 s)   the fence closes and the work is cancelled, unless a later renewal has succeeded
    t0 + lease_duration  (15 s)   the earliest time at which another process may take the Lease

Other processes count lease_duration from when they saw the renewal, which cannot be before t0. So there are lease_duration -
renew_deadline seconds between the last possible write of this leader and the first of the next, for writes in flight. The fence
only compares times, so it works even if the loop was blocked and no timer could fire.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from api.errors import AlreadyExists, ApiError, Conflict, NotFound, NotLeader
from api.kube import metrics
from api.kube.backoff import jittered
from api.kube.client import Kube
from api.kube.clock import SYSTEM, Clock, Timer
from api.kube.resources import LEASES
from api.kube.settings import LeaderSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last distinct state of the Lease, and when it was first seen (monotonic)."""

    spec: dict[str, Any]
    version: str
    at: float

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")

    def left(self, now: float) -> float:
        """Returns the seconds until the holder must assume that it lost the Lease; 0 or less if it must already."""
        return self.at + float(self.spec.get("leaseDurationSeconds") or 0) - now if self.holder else 0.0


class LeaderElection:
    """One candidate. `kube` must not be fenced by this election; `settings.identity` must be unique per process."""

    def __init__(self, kube: Kube, settings: LeaderSettings, clock: Clock = SYSTEM) -> None:
        self.settings = settings
        self._clock = clock
        patience = (settings.renew_deadline - settings.retry_period) / 2
        self._kube = kube.tuned(attempts=1, timeout=patience, concurrency=2, qps=0.0)
        self._seen: _Seen | None = None
        self._proved: float | None = None
        self._watchdog: Timer | None = None
        self._metric = metrics.LEADER.labels(settings.name)

    @property
    def is_leader(self) -> bool:
        """Reports whether this process can prove now that it holds the Lease."""
        return self._proved is not None and self._clock.now() < self._proved + self.settings.renew_deadline

    @property
    def leader(self) -> str:
        """The last known holder of the Lease; empty if none."""
        return self._seen.holder if self._seen else ""

    def fence(self) -> None:
        """Raises NotLeader unless this process can prove that it holds the Lease; for `Kube.fenced`."""
        if not self.is_leader:
            since = "never" if self._proved is None else f"{self._clock.now() - self._proved:.1f} s ago"
            raise NotLeader(
                f"{self}: last proved {since}, allowed {self.settings.renew_deadline} s; held by {self.leader!r}"
            )

    def __str__(self) -> str:
        return f"lease {self.settings.namespace}/{self.settings.name} of {self.settings.identity}"

    async def run(self, lead: Callable[[], Awaitable[object]]) -> None:
        """Runs `lead()` while leading; cancels it on loss and becomes a candidate again; releases the Lease at the end.

        Returns when `lead` returns, and raises what it raises.
        """
        while True:
            while not await self._attempt():
                await self._clock.sleep(self._pause_until_free())
            if await self._reign(lead):
                return

    async def run_alone(self, lead: Callable[[], Awaitable[object]]) -> None:
        """Runs `lead()` without a Lease, where there is one replica; the metric says that it leads."""
        self._metric.set(1)
        try:
            await lead()
        finally:
            self._metric.set(0)

    # ---- leading

    async def _reign(self, lead: Callable[[], Awaitable[object]]) -> bool:
        """Leads until the work ends (True) or the Lease is lost (False)."""
        log.info("leading", extra={"lease": str(self)})
        self._metric.set(1)
        work = asyncio.create_task(_run_leader(lead), name="lead")
        renewing = asyncio.create_task(self._renew(work), name="renew")
        try:
            await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
            ended = self.is_leader and work.done() and not work.cancelled()
        finally:
            # Stop the work first, while still renewing, so that its last writes succeed. Limit the wait: work that does not end
            # would prevent all other processes from leading.
            await _stop(work, self.settings.renew_deadline)
            await _stop(renewing)
            await _stop(work)
            await self._resign()
        if ended:
            work.result()
        return ended

    async def _renew(self, work: asyncio.Task[None]) -> None:
        """Renews until the Lease is lost, then cancels the work, even if a renewal hangs."""
        self._arm(work)
        while self.is_leader:
            await self._clock.sleep(self._pause())
            if await self._attempt():
                self._arm(work)
        log.warning("lease lost", extra={"lease": str(self), "holder": self.leader})
        work.cancel()

    def _arm(self, work: asyncio.Task[None]) -> None:
        """Schedules the cancellation of the work for when the fence closes."""
        self._disarm()
        if self._proved is not None:
            left = self._proved + self.settings.renew_deadline - self._clock.now()
            self._watchdog = self._clock.call_later(max(0.0, left), lambda: _cancel(work))

    def _disarm(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None

    async def _resign(self) -> None:
        """Releases the Lease if still held, so that the next leader need not wait."""
        self._disarm()
        self._metric.set(0)
        held, self._proved = self.is_leader, None
        if held:
            try:
                await self._give_back()
            except ApiError as error:
                log.info("lease not given back; it will run out", extra={"lease": str(self), "error": str(error)})

    async def _give_back(self) -> None:
        if self._seen is not None and not self._seen.version:
            await self._read_lease()  # the last renewal failed: only a new read returns the version
        seen = self._seen
        if seen is not None and seen.holder == self.settings.identity:
            await self._put({**seen.spec, "holderIdentity": "", "leaseDurationSeconds": 1}, seen.version)

    # ---- the Lease

    async def _attempt(self) -> bool:
        """Takes or renews the Lease. Returns False if another process holds it, or if the attempt failed."""
        try:
            return await self._claim()
        except (Conflict, AlreadyExists):
            self._forget()
        except ApiError as error:
            self._forget()
            log.warning("lease not reached", extra={"lease": str(self), "error": str(error)})
        return False

    async def _claim(self) -> bool:
        settings, now = self.settings, self._clock.now
        if not (self.is_leader and self._seen and self._seen.version):
            await self._read_lease()
        seen = self._seen
        if seen is not None and seen.holder != settings.identity:
            self._proved = None
            if seen.left(now()) > 0:
                return False
        started = now()
        if seen is None:
            await self._create()
        else:
            await self._put(self._spec(seen), seen.version)
        self._proved = started
        return True

    async def _read_lease(self) -> None:
        try:
            lease = await self._kube.get(LEASES, self.settings.name, self.settings.namespace)
        except NotFound:
            self._seen = None
        else:
            self._see(lease)

    def _see(self, lease: dict[str, Any]) -> None:
        """Stores the Lease; the time of first sight stays while its spec is unchanged."""
        spec, version = lease.get("spec") or {}, lease["metadata"]["resourceVersion"]
        at = self._seen.at if self._seen is not None and self._seen.spec == spec else self._clock.now()
        self._seen = _Seen(spec, version, at)

    def _forget(self) -> None:
        """Marks the stored version as stale, so that the next attempt reads first."""
        if self._seen is not None:
            self._seen = _Seen(self._seen.spec, "", self._seen.at)

    def _spec(self, seen: _Seen | None) -> dict[str, Any]:
        stamp = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = seen.spec if seen else {}
        ours = seen is not None and seen.holder == self.settings.identity
        return {
            **old,
            "holderIdentity": self.settings.identity,
            "leaseDurationSeconds": math.ceil(self.settings.lease_duration),
            "renewTime": stamp,
            "acquireTime": old.get("acquireTime", stamp) if ours else stamp,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (0 if ours or seen is None else 1),
        }

    async def _create(self) -> None:
        self._see(await self._kube.create(LEASES, {**self._metadata(), "spec": self._spec(None)}))

    async def _put(self, spec: dict[str, Any], version: str) -> None:
        self._see(await self._kube.replace(LEASES, {**self._metadata(resourceVersion=version), "spec": spec}))

    def _metadata(self, **more: str) -> dict[str, Any]:
        metadata = {"name": self.settings.name, "namespace": self.settings.namespace, **more}
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}

    def _pause(self) -> float:
        return jittered(self.settings.retry_period, self.settings.jitter)

    def _pause_until_free(self) -> float:
        """Returns the pause before the next attempt, shortened to when the Lease expires: its holder may be dead."""
        pause, left = self._pause(), self._seen.left(self._clock.now()) if self._seen is not None else 0.0
        return left if 0.0 < left < pause else pause


async def _run_leader(lead: Callable[[], Awaitable[object]]) -> None:
    await lead()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _stop(task: asyncio.Task[None], patience: float | None = None) -> None:
    """Cancels a task and waits, at most `patience` seconds. The task's owner handles its exception."""
    task.cancel()
    _, running = await asyncio.wait({task}, timeout=patience)
    if running:
        log.error("does not end when it is cancelled", extra={"task": task.get_name(), "seconds": patience})
    elif not task.cancelled() and (error := task.exception()) is not None:
        log.debug("ended with an error", exc_info=error)
