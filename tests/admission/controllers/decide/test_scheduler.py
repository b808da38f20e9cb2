"""What the loop tells of decisions that are out of the ordinary."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn, cast

from admission.controllers.decide.scheduler import SET_ASIDE, Scheduler
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.report.wait_reasons import WaitReason, WaitReporter
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.cycle_due import CycleDue
from admission.engine.queue.evictions import TIMES
from admission.metrics import controller as metrics
from admission.settings import ControllerSection
from api.kube.client import Kube
from api.kube.events import EventRecorder
from tests.admission.controllers.full_node import FullNode


class RecordedRequests:
    """Stands for the one who writes why workloads wait."""

    def __init__(self) -> None:
        self.reasons: dict[str, WaitReason] = {}
        self.some = CycleDue()

    def waits(self, key: str, wait: WaitReason) -> None:
        self.reasons[key] = wait
        self.some.set()

    def forget(self, key: str) -> None:
        self.reasons.pop(key, None)


class DecidingCluster:
    """A scheduler over the cluster that decides and writes nothing."""

    def __init__(self, cluster: FullNode) -> None:
        self.requests, self._decided = RecordedRequests(), CycleDue()
        self.admitted: list[str] = []
        world = cluster.world
        view: Any = cluster.objects.view
        context = SchedulerContext(cluster.objects.feed, world.ledger, world.queues, CycleDue(), ControllerSection())
        self.due = context.cycle_due
        waits, recorder = cast("WaitReporter", self.requests), cast("EventRecorder", None)
        kube, views = cast("Kube", self), cast("Views", view)
        self.scheduler = Scheduler(kube, views, context, waits, recorder, lambda: world.now)
        self.scheduler.after_cycle(self._decided.set)

    async def patch(self, _: object, name: str, *__: object, **___: object) -> NoReturn:
        """An admission that is never written."""
        self.admitted.append(name)
        await CycleDue().wait()
        raise AssertionError

    async def next_cycle(self) -> None:
        self._decided.clear()
        self.due.set()
        await self._decided.wait()


@asynccontextmanager
async def deciding(cluster: FullNode) -> AsyncIterator[DecidingCluster]:
    """Runs a scheduler meanwhile."""
    found = DecidingCluster(cluster)
    task = asyncio.create_task(found.scheduler.run())
    try:
        yield found
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def told(cluster: FullNode) -> dict[str, WaitReason]:
    """What workloads are told by the first cycle that tells any."""
    async with deciding(cluster) as found:
        await asyncio.wait_for(found.requests.some.wait(), 30)
    return found.requests.reasons


async def test_repeated_preemptions_are_counted() -> None:
    cluster = FullNode()
    cluster.high()
    for _ in range(TIMES):
        cluster.world.queues.evictions.evict("ns/high", ["ns/low"], cluster.world.now)
        cluster.world.queues.evictions.pending("ns/low")
    counter = metrics.REPEATED_PREEMPTIONS.labels("cq")
    before = counter._value.get()
    assert (await told(cluster))["ns/high"].reason == "RepeatedPreemption"
    assert counter._value.get() == before + 1


async def test_a_workload_on_which_the_cycle_fails_is_set_aside_and_says_so() -> None:
    cluster = FullNode()
    cluster.high()
    queues = cluster.world.queues
    waiting = queues.workload("ns/high")
    assert waiting is not None
    object.__setattr__(waiting.pod_sets[0], "requests", {"cpu": None})
    before = metrics.UNDECIDED._value.get()
    wait = (await told(cluster))["ns/high"]
    assert wait.reason == "Misconfigured"
    assert wait.message.startswith(f"Stowage failed to decide on this workload, and tries again in {SET_ASIDE:.0f} s: ")
    assert metrics.UNDECIDED._value.get() == before + 1
    assert queues.next_due() == cluster.world.now + SET_ASIDE
