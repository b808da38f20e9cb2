"""A change that concerns many workloads leaves other tasks their turn, and no cycle sees it half handled."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from admission.controllers.state.active_conditions import Activity
from admission.controllers.watch import rounds
from admission.controllers.watch.cluster_view import ClusterView
from admission.controllers.watch.rounds import Rounds
from admission.engine import model
from admission.engine.convert import convert_nodes
from api.kube.metrics import HANDLER_ERRORS
from api.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NODES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from api.names import HOSTNAME_LABEL, SAKKARA_TOPOLOGY
from api.pod.pods import Node
from api.queues import ClusterQueue
from api.sakkara import TOPOLOGY_NAMESPACE, label_of_level
from tests.admission.controllers.decide.test_scheduler import deciding
from tests.admission.controllers.full_node import FullNode
from tests.builders import condition, workload

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
async def test_changes_without_end_delay_those_that_wait_by_three_rounds() -> None:
    """A cycle runs although volumes change all the time, and never within a round."""
    done: list[str] = []

    def handle(key: str) -> None:
        done.append(key)
        endless.add(["a", "b"])

    endless = Rounds("workloads", handle, in_steps=True)
    endless.add(["a", "b"])
    await endless.settled()
    assert done == ["a", "b"] * 3
    await endless.settled()
    assert done == ["a", "b"] * 6


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


@pytest.mark.parametrize("fails", ["search", "end"])
@pytest.mark.usefixtures("one_by_one")
async def test_an_error_outside_of_a_key_does_not_hold_decisions_for_ever(fails: str) -> None:
    """After it, `settled` never returned, so no cycle decided any more."""
    done: list[str] = []

    def search() -> Iterator[str | None]:
        yield "found"
        raise ValueError(fails)

    def end() -> None:
        raise ValueError(fails)

    made = Rounds("workloads", done.append, end if fails == "end" else lambda: None, in_steps=True)
    made.add(["known"])
    made.add_found("all", search if fails == "search" else lambda: iter(["found"]))
    await asyncio.wait_for(made.settled(), 10)
    assert sorted(done) == ["found", "known"]
    made.add(["later"])
    await asyncio.wait_for(made.settled(), 10)
    assert "later" in done


def test_without_a_loop_all_is_handled_at_once() -> None:
    counted = Counted()
    counted.rounds.add(["a", "b"])
    assert counted.done == ["a", "b"]
    assert counted.ended == 1


@pytest.mark.usefixtures("one_by_one")
async def test_objects_that_come_and_go_between_two_steps_are_no_error() -> None:
    counted = Counted()
    objects = {"a": 1, "b": 2, "c": 3}
    counted.rounds.add_where("all", objects, lambda _: True)
    await asyncio.sleep(0)
    del objects["b"]
    objects["d"] = 4
    await counted.rounds.settled()
    assert counted.done == ["a", "c"]


@pytest.mark.usefixtures("one_by_one")
async def test_a_copy_of_the_process_handles_keys_that_a_key_adds() -> None:
    """A ClusterQueue adds its Workloads, also while the copy handles what was under way."""
    done: list[str] = []

    def handle(key: str) -> None:
        done.append(key)
        if "/" not in key:
            growing.add([f"{key}/{n}" for n in range(2)])

    growing = Rounds("workloads", handle, in_steps=True)
    growing.add(["a", "b"])
    await asyncio.sleep(0)
    assert done == ["a"]
    await asyncio.to_thread(growing.finish)
    assert done == ["a", "b", "a/0", "a/1", "b/0", "b/1"]


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
    """The patient one is converted first: a cycle after that step would give it the room."""
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
async def test_a_change_of_a_cohort_evaluates_one_queue_a_step_and_then_all_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, steps = FullNode(), [0]
    for n in range(MANY):
        cluster.add(CLUSTER_QUEUES, {"metadata": {"name": f"cq-{n}"}, "spec": {"namespaceSelector": {}}})
    evaluated: Counter[int] = Counter()
    activity = ClusterView.activity

    def noted(view: ClusterView, queue: ClusterQueue) -> Activity:
        evaluated[steps[0]] += 1
        return activity(view, queue)

    monkeypatch.setattr(ClusterView, "activity", noted)
    cluster.objects.feed.refresh_in_steps()
    cluster.add(COHORTS, {"metadata": {"name": "all"}, "spec": {}})
    settled = asyncio.create_task(cluster.objects.feed.settled())
    while not settled.done():
        await asyncio.sleep(0)
        steps[0] += 1
    assert evaluated.total() == MANY + 1
    assert max(evaluated.values()) == 1


@pytest.mark.usefixtures("one_by_one")
async def test_no_cycle_decides_while_a_new_flavor_has_reached_some_queues_only() -> None:
    """The queue of the patient one is active again before the other: a cycle after that step would give it the room."""
    cluster = FullNode()
    cluster.objects.feed.refresh_in_steps()
    cluster.node(True, cpus=8)
    for name, priority in (("patient", 1), ("urgent", 9)):
        flavors = {"cpu": "tas", "licence": "licences"}
        groups = [
            {"coveredResources": [of], "flavors": [{"name": flavor, "resources": [{"name": of, "nominalQuota": 100}]}]}
            for of, flavor in flavors.items()
        ]
        spec = {"namespaceSelector": {}, "resourceGroups": groups}
        cluster.add(CLUSTER_QUEUES, {"metadata": {"name": f"of-{name}"}, "spec": spec})
        local = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterQueue": f"of-{name}"}}
        cluster.add(LOCAL_QUEUES, local)
        made = workload(name, count=4, spec={"priority": priority, "queueName": name})
        cluster.add(WORKLOADS, made.to_wire())
    await cluster.objects.feed.settled()
    async with deciding(cluster) as found:
        await found.next_cycle()
        assert found.admitted == []
        licensed = {"nodeLabels": {"pool": "licensed"}, "topology": {"levels": [HOSTNAME_LABEL]}}
        cluster.add(RESOURCE_FLAVORS, {"metadata": {"name": "licences"}, "spec": licensed})
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


@pytest.mark.usefixtures("one_by_one")
async def test_a_tree_that_moves_many_nodes_takes_a_step_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree may have 15,000 nodes. When it is settled, a gang has its place by the new racks."""
    cluster, steps = FullNode(), [0]
    spec = {"nodeLabels": {"pool": "trees"}, "topologyName": "tree"}
    cluster.add(RESOURCE_FLAVORS, {"metadata": {"name": "tree"}, "spec": spec})
    names = [f"host-{n}" for n in range(MANY)]
    for name in names:
        cluster.add(NODES, {
            "metadata": {"name": name, "labels": {"pool": "trees", HOSTNAME_LABEL: name}},
            "status": {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [condition("Ready")]},
        })  # fmt: skip
    cluster.objects.feed.refresh_in_steps()
    moved: Counter[int] = Counter()
    convert = convert_nodes.node

    def noted(node: Node) -> model.Node:
        moved[steps[0]] += 1
        return convert(node)

    monkeypatch.setattr(convert_nodes, "node", noted)
    for of_rack in (10, 20):
        moved.clear()
        racks: dict[str, dict[str, dict[str, str]]] = {}
        for n, name in enumerate(names):
            racks.setdefault(f"r{n // of_rack}", {})[name] = {}
        data = {"level-names": '["rack", "node"]', "tree": json.dumps(racks)}
        labels = {SAKKARA_TOPOLOGY: "true"}
        metadata = {"name": "tree", "namespace": TOPOLOGY_NAMESPACE, "labels": labels}
        cluster.add(CONFIG_MAPS, {"metadata": metadata, "data": data})
        settled = asyncio.create_task(cluster.objects.feed.settled())
        while not settled.done():
            await asyncio.sleep(0)
            steps[0] += 1
        assert max(moved.values()) == 1
        rack = label_of_level("tree", "rack")
        seen = [cluster.world.ledger.capacity.domain_of(name, (rack,)) for name in names]
        assert seen == [(f"r{n // of_rack}",) for n in range(MANY)]
