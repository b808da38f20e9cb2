"""What an operator reads of each flavor's capacity: who has it, and which gang still fits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from admission.controllers.report.capacity_gauges import CapacityGauges
from admission.engine.ledger.holds import Hold, HoldKind, Holds, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    BoundPod,
    ClusterQueue,
    DomainCount,
    Flavor,
    Node,
    ObjectRemoved,
    PlacementRequest,
    PodSet,
    PodSetAdmission,
    RemovedKind,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.pending import CapacityReservation
from admission.engine.queue.queues import PendingQueues
from tests.admission.engine.test_random_events import EventHistory
from tests.api.kube.clock import until
from tests.budgets import examples

GPU, RACK = "example.com/gpu", "rack"
FLAVOR = "capacity-of-a-test"
"""No other test has series of this name."""


def host(name: str, rack: str, gpus: int = 4) -> Node:
    return Node(name, {RACK: rack, HOSTNAME_LABEL: name}, {GPU: gpus, "cpu": 8000, "memory": 1 << 30, "pods": 110})


def admitted(key: str, pods: int, on: str) -> tuple[Workload, Admission]:
    """A workload of pods with one GPU and one cpu each, on one host."""
    requests = {GPU: 1, "cpu": 1000}
    assignment = Assignment((HOSTNAME_LABEL,), (DomainCount((on,), pods),))
    usage = {name: amount * pods for name, amount in requests.items()}
    got = PodSetAdmission("main", dict.fromkeys(requests, FLAVOR), usage, pods, assignment)
    return Workload(key, key, "ns/lq", "cq", (PodSet("main", pods, requests),)), Admission("cq", (got,))


class Sheet:
    """Two racks of two hosts, and their series."""

    def __init__(self, limit: int = 100) -> None:
        self.ledger, self.queues = Ledger(), PendingQueues()
        self.gauges = CapacityGauges(self.ledger, self.queues, limit)
        self.ledger.apply(Flavor(FLAVOR, topology="default", levels=(RACK, HOSTNAME_LABEL)))
        for name, rack in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
            self.ledger.apply(host(name, rack))

    def renew(self) -> None:
        for _ in self.gauges.renewed(FLAVOR):
            pass

    def total(self, resource: str = GPU) -> dict[str, float]:
        """The amounts of the flavor that are not 0, by state."""
        return by_state("stowage_flavor_capacity", flavor=FLAVOR, resource=resource)

    def domain(self, level: str, domain: str) -> dict[str, float]:
        return by_state("stowage_domain_capacity", flavor=FLAVOR, level=level, domain=domain, resource=GPU)

    def gang(self, level: str, pod: str = f"1 {GPU}") -> float | None:
        return REGISTRY.get_sample_value("stowage_largest_gang_pods", {"flavor": FLAVOR, "level": level, "pod": pod})


def by_state(name: str, **labels: str) -> dict[str, float]:
    found = {
        sample.labels["state"]: sample.value
        for metric in REGISTRY.collect()
        if metric.name == name
        for sample in metric.samples
        if labels.items() <= sample.labels.items()
    }
    return {state: value for state, value in found.items() if value}


def series() -> int:
    return sum(sample.labels.get("flavor") == FLAVOR for metric in REGISTRY.collect() for sample in metric.samples)


@pytest.fixture
def sheet() -> Iterator[Sheet]:
    made = Sheet()
    yield made
    made.ledger.apply(ObjectRemoved(RemovedKind.FLAVOR, FLAVOR))
    made.renew()
    assert series() == 0, "a flavor that is gone has no series"


def test_an_empty_flavor_is_free(sheet: Sheet) -> None:
    sheet.renew()
    assert sheet.total() == {"free": 16}
    assert sheet.total("cpu") == {"free": 32}, "whole cpus"
    assert sheet.domain(RACK, "a") == {"free": 8}
    assert sheet.domain(HOSTNAME_LABEL, "a/a1") == {"free": 4}
    assert (sheet.gang(RACK), sheet.gang(HOSTNAME_LABEL), sheet.gang(RACK, "whole host")) == (8, 4, 2)
    assert sheet.gang(RACK, "1 memory") is None


def test_workloads_others_and_broken_nodes_take_it(sheet: Sheet) -> None:
    sheet.ledger.charge(*admitted("ns/w", 3, "a1"))
    sheet.ledger.apply(BoundPod("kube-system/agent", "b1", {GPU: 1, "cpu": 500}))
    sheet.ledger.apply(replace(host("b2", "b"), usable=False))
    sheet.renew()
    assert sheet.total() == {"free": 8, "used": 3, "foreign": 1, "unusable": 4}
    assert sheet.domain(RACK, "b") == {"free": 3, "foreign": 1}
    assert (sheet.gang(RACK), sheet.gang(HOSTNAME_LABEL), sheet.gang(RACK, "whole host")) == (5, 4, 1)
    sheet.ledger.release("ns/w")
    sheet.renew()
    assert sheet.total() == {"free": 11, "foreign": 1, "unusable": 4}


def test_a_flavor_without_a_usable_node_says_so(sheet: Sheet) -> None:
    for name, rack in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
        sheet.ledger.apply(replace(host(name, rack), usable=False))
    sheet.renew()
    assert sheet.total() == {"unusable": 16}
    assert not sheet.gang(RACK)


def test_spare_hosts_and_what_a_preemptor_waits_for_are_held(sheet: Sheet) -> None:
    sheet.ledger.holds.put(Hold.of(HoldKind.SPARES, *admitted("ns/w", 4, "a1")))
    owner, admission = admitted("ns/preemptor", 2, "b1")
    sheet.queues.set_queue(ClusterQueue("cq"))
    sheet.queues.put(owner)
    sheet.queues.reserve_capacity(owner.key, CapacityReservation(admission, frozenset({"ns/victim"})))
    sheet.renew()
    assert sheet.total() == {"free": 10, "held": 6}
    assert sheet.domain(HOSTNAME_LABEL, "b/b1") == {"free": 2, "held": 2}
    assert (sheet.gang(RACK), sheet.gang(RACK, "whole host")) == (6, 1)
    sheet.ledger.charge(*admitted("ns/victim", 4, "b1"))  # still there: nothing is free that could be held
    sheet.renew()
    assert sheet.total() == {"free": 8, "held": 4, "used": 4}


def test_a_spare_host_may_be_given_back_while_the_figures_are_collected(sheet: Sheet) -> None:
    """It ended the controller: `make e2e` met it."""
    sheet.ledger.holds.put(Hold.of(HoldKind.SPARES, *admitted("ns/w", 4, "a1")))
    sheet.ledger.holds.put(Hold.of(HoldKind.SPARES, *admitted("ns/x", 2, "b1")))
    steps = sheet.gauges.renewed(FLAVOR)
    next(steps)
    sheet.ledger.holds.drop(hold_key(HoldKind.SPARES, "ns/w"))
    for _ in steps:
        pass
    assert sheet.total() == {"free": 14, "held": 2}


@pytest.mark.parametrize("moment", range(4))
def test_a_node_may_come_while_the_figures_are_computed(sheet: Sheet, moment: int) -> None:
    """A storm logged an error when a node came between the sums of hosts and those of racks."""
    sheet.renew()
    sheet.ledger.apply(host("a3", "a"))
    steps = sheet.gauges.renewed(FLAVOR)
    for _ in range(moment):
        next(steps)
    sheet.ledger.apply(host("c1", "c"))
    for _ in steps:
        pass
    sheet.renew()
    assert sheet.domain(RACK, "a") == {"free": 12}
    assert sheet.domain(RACK, "c") == {"free": 4}
    assert sheet.total() == {"free": 24}


def test_a_domain_that_goes_or_moves_keeps_no_series(sheet: Sheet) -> None:
    sheet.renew()
    sheet.ledger.apply(ObjectRemoved(RemovedKind.NODE, "b2"))
    sheet.ledger.apply(host("b1", "c"))
    sheet.renew()
    assert sheet.domain(RACK, "b") == {}
    assert sheet.domain(RACK, "c") == sheet.domain(HOSTNAME_LABEL, "c/b1") == {"free": 4}
    assert sheet.total() == {"free": 12}


async def test_a_replica_that_no_longer_leads_has_no_series() -> None:
    """Another one counts the same nodes, and a sum over both would be twice what there is."""
    made = Sheet()
    task = asyncio.create_task(made.gauges.run())
    await until(lambda: made.total() == {"free": 16} and made.gang(RACK) == 8)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert series() == 0


async def test_the_series_of_a_replica_that_no_longer_leads_go_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large cluster has many, and other tasks of the process run on. A storm met it."""
    monkeypatch.setattr("api.kube.turns.TURN", 0.0)
    made = Sheet()
    task = asyncio.create_task(made.gauges.run())
    await until(lambda: made.total() == {"free": 16} and made.gang(RACK) == 8)
    task.cancel()
    seen = []
    while not task.done():
        await asyncio.sleep(0)
        seen.append(series())
    assert seen[-1] == 0
    assert len(set(seen)) > 5


def test_domains_beyond_the_limit_count_in_their_parents(sheet: Sheet) -> None:
    sheet.renew()
    few = Sheet(limit=2)
    sheet.ledger.apply(ObjectRemoved(RemovedKind.FLAVOR, FLAVOR))
    sheet.renew()
    few.renew()
    assert few.domain(RACK, "a") == {"free": 8}
    assert few.domain(HOSTNAME_LABEL, "a/a1") == {}
    assert few.gang(HOSTNAME_LABEL) == 4, "the largest gang is known all the same"
    labels = {"flavor": FLAVOR, "level": HOSTNAME_LABEL}
    assert REGISTRY.get_sample_value("stowage_domains_without_series", labels) == 4
    few.ledger.apply(ObjectRemoved(RemovedKind.FLAVOR, FLAVOR))
    few.renew()


def test_at_most_eight_resources_have_series(sheet: Sheet) -> None:
    """cpu and devices first: a node may offer any number of resources."""
    more = {f"example.com/device-{n}": 1 for n in range(20)} | {f"hugepages-{n}Mi": 1 for n in range(20)}
    node = host("a1", "a")
    sheet.ledger.apply(replace(node, allocatable={**node.allocatable, **more}))
    sheet.renew()
    names = {
        sample.labels["resource"]
        for metric in REGISTRY.collect()
        if metric.name == "stowage_flavor_capacity"
        for sample in metric.samples
        if sample.labels["flavor"] == FLAVOR
    }
    assert len(names) == 8
    assert {"cpu", "example.com/device-0"} <= names
    assert not any(name.startswith("hugepages") for name in names)


@pytest.mark.parametrize("seed", range(examples(6)))
def test_the_largest_gang_fits_and_a_larger_one_does_not(seed: int) -> None:
    """After any history: the placement itself is asked. The states of each domain add up to what its nodes offer."""
    history = EventHistory(seed)
    history.run(120)
    ledger, queues = history.world.ledger, PendingQueues()
    gauges = CapacityGauges(ledger, queues, 100)
    for _ in gauges.renewed("placed"):
        pass
    for level in (RACK, HOSTNAME_LABEL):
        labels = {"flavor": "placed", "level": level, "pod": "1 cpu"}
        most = int(REGISTRY.get_sample_value("stowage_largest_gang_pods", labels) or 0)
        for pods in (most, most + 1):
            pod_set = PodSet("main", pods, {"cpu": 1000}, topology=TopologyRequest(required=level))
            got = ledger.placement.place([PlacementRequest(pod_set, "placed", pods)])
            assert pods == 0 or got.fits is (pods == most), (level, pods, most)
    offered = sum(
        node.allocatable.get("cpu", 0) for node in ledger.capacity.inputs() if node.labels.get("pool") == "placed"
    )
    states = by_state("stowage_flavor_capacity", flavor="placed", resource="cpu")
    assert sum(states.values()) * 1000 == offered
    ledger.apply(ObjectRemoved(RemovedKind.FLAVOR, "placed"))
    for _ in gauges.renewed("placed"):
        pass


async def test_figures_that_fail_end_neither_the_controller_nor_those_of_the_next_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet, times = Sheet(), 0

    def held(_: Holds) -> set[str]:
        nonlocal times
        times += 1
        if times == 1:
            raise KeyError("gone")
        return set()

    monkeypatch.setattr("admission.controllers.report.capacity_gauges.PERIOD", 0.0)
    monkeypatch.setattr(Holds, "keys", property(held))
    task = asyncio.create_task(sheet.gauges.run())
    await until(lambda: sheet.total() == {"free": 16})
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert [record.getMessage() for record in caplog.records] == ["the figures of a flavor could not be computed"]
    caplog.clear()
