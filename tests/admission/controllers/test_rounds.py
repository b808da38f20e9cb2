"""A change that concerns many workloads leaves other tasks their turn, and no cycle sees it half handled."""

from __future__ import annotations

import asyncio

import pytest

from admission.controllers import rounds
from admission.controllers.rounds import Rounds
from api.kube.metrics import HANDLER_ERRORS
from api.kube.resources import LIMIT_RANGES, LOCAL_QUEUES, WORKLOADS
from tests.admission.controllers.full_node import FullNode
from tests.admission.controllers.test_scheduler import deciding
from tests.builders import workload

MANY = 300


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key is a step, whatever the clock says."""
    monkeypatch.setattr(rounds, "TURN", -1.0)


class Counted:
    """Rounds over keys that are noted, and the number of turns that another task has meanwhile."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.ended = 0
        self.rounds = Rounds("workloads", self.done.append, self._end, in_steps=True)

    def _end(self) -> None:
        self.ended += 1


@pytest.mark.usefixtures("one_by_one")
async def test_others_have_a_turn_after_each_step() -> None:
    """Issue 19, 4."""
    counted, turns = Counted(), 0
    counted.rounds.add(map(str, range(MANY)))
    assert counted.done == []
    while counted.ended == 0:
        await asyncio.sleep(0)
        turns += 1
    assert counted.done == [str(n) for n in range(MANY)]
    assert turns > MANY


@pytest.mark.usefixtures("one_by_one")
async def test_keys_are_looked_for_in_steps_and_handled_once() -> None:
    """Issue 19, 4."""
    counted, turns = Counted(), 0
    objects = {str(n): n for n in range(MANY)}
    for _ in range(3):
        counted.rounds.add_where("even", objects, lambda n: n % 2 == 0)
    counted.rounds.add(["0", "1"])
    while counted.ended == 0:
        await asyncio.sleep(0)
        turns += 1
    assert sorted(counted.done) == sorted({"1", *(str(n) for n in range(0, MANY, 2))})
    assert turns > MANY


@pytest.mark.usefixtures("one_by_one")
async def test_what_comes_during_a_round_is_handled_in_the_next_and_both_are_waited_for() -> None:
    counted = Counted()
    counted.rounds.add(["a", "b"])
    await asyncio.sleep(0)
    assert counted.done == ["a"]
    counted.rounds.add(["a"])
    await counted.rounds.settled()
    assert counted.done == ["a", "b", "a"]


@pytest.mark.usefixtures("one_by_one")
async def test_changes_without_end_delay_those_that_wait_by_two_rounds() -> None:
    """A cycle runs although volumes change all the time, and never within a round."""
    done: list[str] = []

    def handle(key: str) -> None:
        done.append(key)
        endless.add(["a", "b"])

    endless = Rounds("workloads", handle, in_steps=True)
    endless.add(["a", "b"])
    await endless.settled()
    assert done == ["a", "b"] * 2
    await endless.settled()
    assert done == ["a", "b"] * 4


@pytest.mark.usefixtures("one_by_one")
async def test_a_key_that_cannot_be_handled_does_not_end_the_round() -> None:
    done: list[str] = []

    def handle(key: str) -> None:
        if key == "bad":
            raise ValueError(key)
        done.append(key)

    errors = HANDLER_ERRORS.labels("workloads")
    before = errors._value.get()
    failing = Rounds("workloads", handle, in_steps=True)
    failing.add(["bad", "good"])
    await failing.settled()
    assert done == ["good"]
    assert errors._value.get() == before + 1


def test_without_a_loop_all_is_handled_at_once() -> None:
    counted = Counted()
    counted.rounds.add(["a", "b"])
    assert counted.done == ["a", "b"]
    assert counted.ended == 1


# ---- the feed and the scheduler


def hold(cluster: FullNode, *, held: bool) -> None:
    spec = {"clusterQueue": "cq", "stopPolicy": "Hold" if held else "None"}
    cluster.add(LOCAL_QUEUES, {"metadata": {"name": "lq", "namespace": "ns"}, "spec": spec})


async def two_waiting() -> FullNode:
    """A node with room for one of two workloads, which wait because their LocalQueue is held. The more urgent came last."""
    cluster = FullNode()
    cluster.objects.feed.refresh_in_steps()
    cluster.node(True, cpus=8)
    hold(cluster, held=True)
    await cluster.objects.feed.settled()
    for name, priority in (("patient", 1), ("urgent", 9)):
        cluster.add(WORKLOADS, workload(name, count=4, spec={"priority": priority}).to_wire())
    return cluster


@pytest.mark.usefixtures("one_by_one")
async def test_no_cycle_decides_while_a_change_has_reached_some_workloads_only() -> None:
    """The patient one is converted first: a cycle after that step would give it the room. Issue 19, 4."""
    cluster = await two_waiting()
    async with deciding(cluster) as found:
        await found.next_cycle()
        assert found.admitted == []
        hold(cluster, held=False)
        await found.next_cycle()
        await asyncio.sleep(0)
        assert "urgent" in found.admitted
        assert "patient" not in found.admitted


@pytest.mark.usefixtures("one_by_one")
async def test_a_copy_of_the_process_handles_what_was_under_way() -> None:
    """A snapshot shows no change half."""
    cluster = await two_waiting()
    hold(cluster, held=False)
    for _ in range(2):
        await asyncio.sleep(0)
    queues = cluster.world.queues
    assert {one.blocked is None for one in queues.workloads()} == {True, False}
    cluster.objects.feed.finish()
    assert all(one.blocked is None for one in queues.workloads())


@pytest.mark.usefixtures("one_by_one")
async def test_a_workload_that_becomes_invalid_is_told_to_those_who_report_it() -> None:
    """Its status is written again, although the LimitRange reached it after its last reconcile."""
    cluster = FullNode()
    feed = cluster.objects.feed
    told: list[str] = []
    feed.on_validation_error(told.append)
    cluster.high()
    feed.refresh_in_steps()
    limit = {"type": "Container", "defaultRequest": {"memory": "much"}}
    cluster.add(LIMIT_RANGES, {"metadata": {"name": "limits", "namespace": "ns"}, "spec": {"limits": [limit]}})
    assert told == []
    await feed.settled()
    high = cluster.objects.view.workloads.objects["ns/high"]
    assert feed.validation_error(high) is not None
    assert "ns/high" in told
