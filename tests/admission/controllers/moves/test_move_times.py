"""When the controller plans moves again, on a clock of the test: as soon as something opens that alone forbids them.

Two racks of one node of four CPUs. `mover` runs on one, `stays` on the other, and the gang of four pods needs a rack. Plans for
it come 0, 10, 30, 70, 150, 310 and 610 seconds after its first wait, if nothing makes one sooner.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn, cast

import msgspec
import pytest

from admission.controllers.decide.scheduler import Scheduler
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.moves.move_controller import MoveController
from admission.controllers.report.wait_reasons import WaitReporter
from admission.controllers.state import moving
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.cycle_due import CycleDue
from admission.controllers.write.outcome import Outcome
from admission.engine.model import ObjectRemoved, RemovedKind
from admission.settings import ControllerSection
from admission.world.objects import Objects
from admission.world.world import World
from api.errors import NotLeader
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, NODES, PODS, RESOURCE_FLAVORS, WORKLOADS
from api.names import HOSTNAME_LABEL, MINIMUM_RUN_TIME, MOVABLE, MOVES_PER_DAY
from tests.admission.controllers.decide.test_scheduler import RecordedRequests
from tests.builders import NOW, condition, pod, workload

RACK, DAY = "rack", 86_400
LAST, NEXT = 310, 610
"""Seconds until the last plan in these tests that fails, and the one that would follow in its own time."""


class TwoRacks:
    """The cluster, and a controller that plans. Its writes are noted by the second in `moved`, and end with the test."""

    def __init__(self, minimum: int = 0, moved: int | None = None, full: bool = False) -> None:
        """`mover` runs at least `minimum` seconds. `moved`: `stays` was moved then, and its queue may move one a day.

        `full`: each of them has two pods, and only when `leaves` has left is there room for the gang.
        """
        self.world = World(now=NOW)
        self.objects = Objects(self.world.state)
        self.version = 1
        quota = {"name": "tas", "resources": [{"name": "cpu", "nominalQuota": 100}]}
        queue = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
        terms = {} if moved is None else {MOVES_PER_DAY: "1"}
        levels = {"nodeLabels": {"pool": "tas"}, "topology": {"levels": [RACK, HOSTNAME_LABEL]}}
        self.add(NAMESPACES, {"metadata": {"name": "ns"}})
        self.add(RESOURCE_FLAVORS, {"metadata": {"name": "tas"}, "spec": levels})
        for name in ("n1", "n2"):
            self.node(name)
        self.add(CLUSTER_QUEUES, {"metadata": {"name": "cq", "annotations": terms}, "spec": queue})
        self.add(LOCAL_QUEUES, {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}})
        pods = 2 if full else 1
        self.runs("mover", "n1", {MOVABLE: "true", MINIMUM_RUN_TIME: f"{minimum}s"}, pods)
        self.runs("stays", "n2", {}, pods, moved)
        if full:
            self.runs("leaves", "n2", {})
        self.add(WORKLOADS, workload("gang", count=4, topology_request={"required": RACK}).to_wire())
        self.moved: list[int] = []
        self.over = CycleDue()
        self._loop()

    def _loop(self) -> None:
        view: Any = self.objects.view
        kube, views, recorder = cast("Kube", self), cast("Views", view), cast("EventRecorder", self)
        ledger, queues, settings = self.world.ledger, self.world.queues, ControllerSection(moves=True, moves_after=0)
        context = SchedulerContext(self.objects.feed, ledger, queues, CycleDue(), settings)
        waits = cast("WaitReporter", RecordedRequests())
        self.scheduler = Scheduler(kube, views, context, waits, recorder, self.clock)
        self.waited = CycleDue()
        self.scheduler.on_wait(lambda decision: self.waited.set())
        self.controller = MoveController(
            kube, views, context, self.scheduler, recorder, self.world.state, now=self.clock
        )

    def clock(self) -> float:
        return self.world.now

    def add(self, kind: Any, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects.add(kind, json.dumps(obj).encode())

    def node(self, name: str) -> None:
        labels = {"pool": "tas", RACK: f"rack-of-{name}", HOSTNAME_LABEL: name}
        status = {"allocatable": {"cpu": "4", "pods": "110"}, "conditions": [condition("Ready")]}
        self.add(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})

    def runs(self, name: str, node: str, terms: dict[str, str], pods: int = 1, moved: int | None = None) -> None:
        """A running workload."""
        made = workload(name, count=pods, domains=[((node,), pods)], metadata={"annotations": terms})
        if moved is not None:
            status = moving.begun(made.status, "", NOW + moved)
            made = made.model_copy(update={"status": moving.ended(status, NOW + moved)})
        self.add(WORKLOADS, made.to_wire())
        for n in range(pods):
            bound = msgspec.to_builtins(pod(f"{name}-{n}", owner=name, gated=False, phase="Running"))
            bound["spec"]["nodeName"] = node
            bound["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
            self.add(PODS, bound)

    def end(self, name: str) -> None:
        """The workload of one pod is gone."""
        for kind, key in ((RemovedKind.WORKLOAD, f"ns/{name}"), (RemovedKind.POD, f"ns/{name}-0")):
            self.world.apply(ObjectRemoved(kind, key))

    async def patch(self, _: object, name: str, *__: object, **___: object) -> NoReturn:
        """A status that is written."""
        assert name == "mover"
        self.moved.append(round(self.world.now - NOW))
        await self.over.wait()
        raise NotLeader

    def record(self, *_: object) -> None:
        """An event."""

    async def play(self, seconds: int, leaves: int | None = None) -> list[int]:
        """Looks at what waits once a second; returns when moves were written. `leaves` ends at that second."""
        cycles = asyncio.create_task(self.scheduler.run())
        await asyncio.wait_for(self.waited.wait(), 30)
        cycles.cancel()
        async with asyncio.TaskGroup() as writes:
            for second in range(seconds):
                self.world.now = NOW + second
                if second == leaves:
                    self.end("leaves")
                await self.controller.look(writes)
                await asyncio.sleep(0)
            self.over.set()
        return self.moved


async def test_moves_that_nothing_forbids_are_made_at_once() -> None:
    assert await TwoRacks().play(5) == [0]


@pytest.mark.parametrize(
    ("opens", "at"),
    [
        pytest.param(LAST + 1, LAST + 10, id="not within the shortest pause"),
        pytest.param(LAST + 10, LAST + 10, id="with the shortest pause"),
        pytest.param(500, 500, id="later"),
        pytest.param(NEXT, NEXT, id="when its time comes anyway"),
    ],
)
@pytest.mark.parametrize("by", ["run time", "budget"])
async def test_moves_are_made_when_what_alone_forbids_them_opens(by: str, opens: int, at: int) -> None:
    cluster = TwoRacks(opens) if by == "run time" else TwoRacks(moved=opens - DAY)
    assert await cluster.play(NEXT + 2) == [at]


@pytest.mark.parametrize(
    ("leaves", "at"),
    [
        pytest.param(5, 10, id="not within the shortest pause"),
        pytest.param(LAST + 20, LAST + 75, id="a quarter of the pause"),
        pytest.param(LAST + 100, LAST + 100, id="at once"),
    ],
)
async def test_moves_are_made_soon_after_capacity_has_become_free(leaves: int, at: int) -> None:
    assert await TwoRacks(full=True).play(NEXT, leaves) == [at]


async def test_a_plan_of_which_a_mover_stays_is_followed_by_another_one_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A neighbour has no time to take what others have left. Only once, whatever the mover does."""
    racks, times = TwoRacks(), list[int]()

    async def relocate(*_: object) -> str:
        times.append(round(racks.world.now - NOW))
        return Outcome.CHANGED

    monkeypatch.setattr(racks.controller._executor._writer, "relocate", relocate)
    await racks.play(9)
    assert len(times) == 2
