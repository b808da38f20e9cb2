"""Evictions that the cycle decided: each is written once, onto what was seen, and otherwise decided anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from admission.controllers.decide.pending_evictions import PendingEvictions
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.evictions import Eviction, evicted
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.cycle_due import CycleDue
from admission.controllers.write.evictor import Evictor
from admission.engine.decision import Evict, Preempt
from admission.settings import ControllerSection
from api.errors import Conflict, Forbidden, Unreachable
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.resources import WORKLOADS
from api.meta import find_condition
from api.names import EVICTED as EVICTED_CONDITION
from api.names import GANG, GANG_GROUP, PREEMPTED, EvictedReason
from api.workloads import Workload
from tests.admission.controllers.full_node import EVICTED, FullNode
from tests.builders import NOW, condition, workload


class EvictionServer:
    """Stands for the API server and for who tells: `answer` is what the next write meets."""

    def __init__(self, cluster: FullNode) -> None:
        self.cluster = cluster
        self.answer: Callable[[], None] = lambda: None
        self.written: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.again: list[str] = []

    async def evict(self, workload: Workload, eviction: Eviction, by: Writer) -> Workload:
        self.answer()
        self.written.append(eviction.message)
        after = workload.model_copy(update={"status": evicted(workload.status, eviction, NOW)})
        self.cluster.add(WORKLOADS, after.to_wire())
        return after

    async def get(self, _: Any, name: str, namespace: str, **__: Any) -> Workload:
        return self.cluster.objects.view.workloads.objects[f"{namespace}/{name}"]

    def record(self, about: Any, _: str, reason: str, message: str) -> None:
        self.told.append((about.name, reason))


def removals(cluster: FullNode, server: EvictionServer) -> PendingEvictions:
    view: Any = cluster.objects.view
    view.workloads.observe = lambda _: None
    world = cluster.world
    context = SchedulerContext(cluster.objects.feed, world.ledger, world.queues, CycleDue(), ControllerSection())
    evictor, recorder = cast("Evictor", server), cast("EventRecorder", server)
    return PendingEvictions(
        cast("Kube", server), cast("Views", view), context, evictor, recorder, {}, server.again.append
    )


async def carried_out(cluster: FullNode, server: EvictionServer) -> None:
    """One cycle, and the evictions that it decides."""
    [decision] = cluster.world.cycle().decisions
    assert isinstance(decision, Preempt)
    async with asyncio.TaskGroup() as tasks:
        removals(cluster, server).preempt(decision, tasks)
        [victim] = decision.victims
        booked = cluster.world.ledger.workload(victim.workload)
        assert booked is not None
        assert booked.evicted, "on its way out from the decision on"


@pytest.fixture
def cluster() -> FullNode:
    made = FullNode()
    made.high()
    return made


async def test_a_victim_is_evicted_once_with_the_field_s_words(cluster: FullNode) -> None:
    server = EvictionServer(cluster)
    await carried_out(cluster, server)
    low = cluster.objects.view.workloads.objects["ns/low"]
    why = find_condition(low.status.conditions, PREEMPTED)
    assert why is not None
    assert why.reason == "InClusterQueue"
    assert why.message == (
        "Preempted to accommodate a workload (UID: uid-high, JobUID: UNKNOWN) due to prioritization in the ClusterQueue; "
        "preemptor path: /cq; preemptee path: /cq"
    )
    assert server.told == [("high", "PreemptedWorkload")]
    assert cluster.decisions() == [], "nothing is left to decide until it has left"


async def test_who_is_evicted_already_is_not_evicted_again(cluster: FullNode) -> None:
    """As after a crash: the world shows what was written before it."""
    cluster.low(EVICTED)
    server = EvictionServer(cluster)
    await carried_out(cluster, server)
    assert server.written == []


async def test_after_a_write_by_another_client_the_decision_is_made_again(cluster: FullNode) -> None:
    server = EvictionServer(cluster)

    def refuse() -> None:
        raise Conflict(409, "Conflict", "somebody was faster")

    server.answer = refuse
    await carried_out(cluster, server)
    assert server.written == []
    low = cluster.world.ledger.workload("ns/low")
    assert low is not None
    assert not low.evicted, "nobody has evicted it"
    server.answer = lambda: None
    await carried_out(cluster, server)
    assert len(server.written) == 1


async def test_a_workload_that_lost_its_node_and_cannot_be_evicted_says_so_and_is_tried_again(
    cluster: FullNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kueue does where the write of the eviction fails."""
    monkeypatch.setattr("admission.controllers.decide.pending_evictions._PAUSE", 0.0)
    server = EvictionServer(cluster)

    def refuse() -> None:
        raise Forbidden(403, "Forbidden", "not now")

    server.answer = refuse
    async with asyncio.TaskGroup() as tasks:
        removals(cluster, server).evict(Evict("ns/low", "NodeFailures", "no replacement", "no rack fits"), tasks)
    assert server.told == [("low", "SecondPassFailed")]
    assert server.again == ["ns/low"]
    low = cluster.world.ledger.workload("ns/low")
    assert low is not None
    assert not low.evicted


async def test_a_write_whose_answer_was_lost_is_not_repeated(cluster: FullNode) -> None:
    server = EvictionServer(cluster)

    def cut() -> None:
        cluster.low(EVICTED)
        raise Unreachable(0, "Unreachable", "the connection broke")

    server.answer = cut
    await carried_out(cluster, server)
    assert server.written == []
    low = cluster.objects.view.workloads.objects["ns/low"]
    assert find_condition(low.status.conditions, EVICTED_CONDITION) is not None
    assert cluster.decisions() == []


async def test_a_member_of_a_group_that_cannot_start_is_let_go_whatever_its_eviction_meets() -> None:
    """One gang of a GangGroup has quota, for the other there is no room: the quota is not kept for ever."""
    cluster = FullNode()
    group = json.dumps(["ns/a", "ns/b"])
    for name, count, states in (("a", 1, [condition("QuotaReserved")]), ("b", 200, [])):
        made = workload(
            name, count=count, admitted=name == "a", metadata={"annotations": {GANG: name, GANG_GROUP: group}}
        )
        wire = made.to_wire()
        wire["status"]["conditions"] = states
        cluster.add(WORKLOADS, wire)
    server = EvictionServer(cluster)

    def refuse() -> None:
        raise Conflict(409, "Conflict", "the gang's check was set meanwhile")

    server.answer = refuse
    await let_go(cluster, server)
    assert server.written == []
    server.answer = lambda: None
    await let_go(cluster, server)
    assert [said.partition(":")[0] for said in server.written] == ["gang ns/b of the group"]


async def let_go(cluster: FullNode, server: EvictionServer) -> None:
    """One cycle, and the eviction that it decides of a workload for whom nobody makes room."""
    [decision] = [found for found in cluster.world.cycle().decisions if isinstance(found, Evict)]
    assert (decision.workload, decision.reason) == ("ns/a", EvictedReason.GANG_GROUP_INCOMPLETE)
    async with asyncio.TaskGroup() as tasks:
        removals(cluster, server).evict(decision, tasks)
