"""Spare hosts of a flavor: idle hosts of each rack that only pods of failed hosts get."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from admission.engine.cycle.cycle import CycleReport
from admission.engine.cycle.held_capacity import unowned_usage
from admission.engine.cycle.second_pass import second_pass
from admission.engine.decide import decide
from admission.engine.decision import Admit
from admission.engine.features.spare_hosts.of_flavors import states
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Event, ObjectRemoved, RemovedKind, SpareRule, TopologyRequest, Workload
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.admission.engine.builders import CPU, RACK, admitted, domains, host, queue, racks, waits, workload

IN_RACK = TopologyRequest(required=RACK)


class Scheduler:
    """Ledger and queues as the controller has them: an event requeues only the workloads that it could help."""

    def __init__(self, *events: Event) -> None:
        self.ledger, self.queues = Ledger(), PendingQueues()
        self._state = SchedulerState(self.ledger, self.queues)
        self.tell(*events)

    def tell(self, *events: Event) -> None:
        for event in events:
            self._state.apply(event)

    def cycle(self) -> CycleReport:
        return decide(self.ledger, self.queues, 0.0, 100)

    def finish(self, key: str) -> None:
        self.tell(ObjectRemoved(RemovedKind.WORKLOAD, key))


def cluster(
    *waiting: Workload, rule: SpareRule, hosts: tuple[int, ...] = (4, 4), spares: int | None = None
) -> Scheduler:
    """Racks r0, r1, ... of so many hosts of 4 CPUs; `spares` is the quota of the queue for spare hosts."""
    nodes = [host(f"r{r}h{h}", f"r{r}", 4) for r, count in enumerate(hosts) for h in range(count)]
    named = [] if spares is None else [queue("spares", tas=spares)]
    return Scheduler(replace(racks(), spare=rule), queue(tas=100), *named, *nodes, *waiting)


def rule(hosts: int = 1, of: int = 4, queue: str = "") -> SpareRule:
    return SpareRule(hosts, of, RACK, queue)


def held(ledger: Ledger) -> set[str]:
    return states(ledger)["tas"].hosts()


@pytest.mark.parametrize(
    ("spare_rule", "hosts", "racks_with"),
    [
        pytest.param(rule(1, 4), (4, 4), {"r0": 1, "r1": 1}, id="one of each rack"),
        pytest.param(rule(1, 4), (3, 4), {"r1": 1}, id="a rack that is smaller has none"),
        pytest.param(rule(1, 2), (4, 5), {"r0": 2, "r1": 2}, id="one of each two"),
        pytest.param(rule(3, 4), (4, 0), {"r0": 3}, id="three of four"),
        pytest.param(rule(1, 9), (4, 4), {}, id="none has so many"),
    ],
)
def test_each_full_number_of_hosts_of_a_domain_gives_spares(
    spare_rule: SpareRule, hosts: tuple[int, ...], racks_with: dict[str, int]
) -> None:
    here = cluster(rule=spare_rule, hosts=hosts)
    here.cycle()
    names = sorted(held(here.ledger))
    assert {rack: sum(name.startswith(rack) for name in names) for rack in racks_with} == racks_with
    assert len(names) == sum(racks_with.values())
    assert here.ledger.audit() == []


def test_no_workload_starts_on_spare_hosts_and_the_wait_names_them() -> None:
    here = cluster(
        workload("fits", 3, 4, topology=IN_RACK), workload("whole", 4, 4, topology=IN_RACK), rule=rule(), hosts=(4,)
    )
    report = here.cycle()
    assert admitted(report) == ["fits"]
    assert "whole" in waits(report)
    here.finish("fits")
    assert admitted(here.cycle()) == []


def test_a_failed_host_is_replaced_by_the_spare_host_of_its_rack() -> None:
    gang = workload("gang", 3, 4, topology=IN_RACK)
    here = cluster(gang, rule=rule(), hosts=(4, 4))
    report = here.cycle()
    before = domains(report, "gang")
    [rack] = {name[:2] for name in before}
    [spare] = {name for name in held(here.ledger) if name.startswith(rack)}
    (decision,) = report.decisions
    assert isinstance(decision, Admit)
    here.ledger.apply(replace(gang, admission=decision.admission, reserved=0.0))
    lost = min(before)
    here.tell(ObjectRemoved(RemovedKind.NODE, lost))
    (moved,) = second_pass(here.ledger, "gang", [lost], fail_fast=False)
    assert isinstance(moved, Admit)
    assignment = moved.admission.pod_sets[0].assignment
    assert assignment is not None
    assert {domain.values[-1] for domain in assignment.domains} == before.keys() - {lost} | {spare}
    here.cycle()
    assert not [name for name in held(here.ledger) if name.startswith(rack)], "three hosts are left of four"
    here.tell(host(lost, rack, 4))
    here.cycle()
    assert lost in held(here.ledger), "the host that came back is the next spare host"
    assert here.ledger.audit() == []


@pytest.mark.parametrize(("quota", "spares"), [(0, 0), (4, 1), (7, 1), (8, 2), (100, 2)])
def test_a_queue_counts_them_as_far_as_its_quota_goes(quota: int, spares: int) -> None:
    here = cluster(rule=rule(queue="spares"), spares=quota)
    here.cycle()
    assert len(held(here.ledger)) == spares
    assert unowned_usage(here.ledger, "spares").get(("tas", "cpu"), 0) == spares * 4 * CPU
    assert here.ledger.quota.usage("spares").get(("tas", "cpu"), 0) == spares * 4 * CPU
    assert here.ledger.audit() == []


def test_in_a_full_rack_the_next_idle_host_becomes_spare() -> None:
    here = cluster(
        workload("a", 2, 4, topology=IN_RACK), workload("b", 2, 4, topology=IN_RACK), rule=rule(1, 5), hosts=(4,)
    )
    assert admitted(here.cycle()) == ["a", "b"]
    here.tell(replace(racks(), spare=rule()))
    here.cycle()
    assert held(here.ledger) == set()
    here.finish("a")
    here.tell(workload("c", 2, 4, topology=IN_RACK))
    assert admitted(here.cycle()) == []
    assert len(held(here.ledger)) == 1


def test_a_host_that_changes_its_rack_takes_the_need_for_a_spare_host_with_it() -> None:
    """Four hosts make a spare host: first those of r1, then those of r0. The number of hosts stays the same."""
    here = cluster(rule=rule(1, 4), hosts=(3, 4))
    here.cycle()
    assert held(here.ledger) == {"r1h0"}
    here.tell(host("r1h3", "r0", 4))
    here.cycle()
    assert held(here.ledger) == {"r0h0"}
    here.tell(workload("all", 3, 4, topology=IN_RACK))
    assert admitted(here.cycle()) == ["all"]
    assert here.ledger.audit() == []


@pytest.mark.parametrize("change", [None, rule(1, 8)], ids=["no rule any more", "another rule"])
def test_hosts_that_the_rule_no_longer_asks_for_are_given_to_waiting_workloads(change: SpareRule | None) -> None:
    here = cluster(workload("whole", 4, 4, topology=IN_RACK), rule=rule(), hosts=(4,))
    assert admitted(here.cycle()) == []
    here.tell(replace(racks(), spare=change))
    assert admitted(here.cycle()) == ["whole"]


def test_a_rack_that_became_too_small_gives_its_spare_host_to_a_waiting_workload() -> None:
    here = cluster(
        workload("two", 2, 4, topology=IN_RACK), workload("one", 1, 4, topology=IN_RACK), rule=rule(1, 4), hosts=(4,)
    )
    assert sorted(admitted(here.cycle())) == ["one", "two"]
    [spare] = held(here.ledger)
    here.tell(workload("late", 1, 4, topology=IN_RACK))
    assert admitted(here.cycle()) == []
    here.finish("one")
    idle = next(
        name for name in ("r0h0", "r0h1", "r0h2", "r0h3") if name != spare and not used(here, ("two",)) & {name}
    )
    here.tell(ObjectRemoved(RemovedKind.NODE, idle))
    assert admitted(here.cycle()) == ["late"]


def used(here: Scheduler, keys: Iterable[str]) -> set[str]:
    """The hosts of these workloads."""
    admissions = [admission for key in keys if (admission := here.ledger.admission(key)) is not None]
    placed = [got.assignment for admission in admissions for got in admission.pod_sets if got.assignment is not None]
    return {domain.values[-1] for assignment in placed for domain in assignment.domains}


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_spare_hosts_run_nothing_and_are_as_many_as_idle_hosts_allow(seed: int) -> None:
    dice = random.Random(seed)
    here = cluster(rule=rule(1, dice.randint(2, 4)), hosts=(4, 5, 3))
    nodes = {f"r{r}h{h}": f"r{r}" for r, count in enumerate((4, 5, 3)) for h in range(count)}
    down: set[str] = set()
    running: dict[str, Workload] = {}
    for step in range(40):
        match dice.randrange(4):
            case 0:
                here.tell(workload(f"w{step}", dice.randint(1, 3), dice.randint(1, 4), topology=IN_RACK))
            case 1 if running:
                gone = dice.choice(sorted(running))
                del running[gone]
                here.finish(gone)
            case 2 if len(down) < 4:
                name = dice.choice(sorted(nodes.keys() - down))
                down.add(name)
                here.tell(ObjectRemoved(RemovedKind.NODE, name))
            case _ if down:
                name = down.pop()
                here.tell(host(name, nodes[name], 4))
        for key in admitted(here.cycle()):
            running[key] = here.ledger.workload(key) or running[key]
        spares = held(here.ledger)
        busy = used(here, running)
        assert not spares & busy
        assert not spares & down
        state = states(here.ledger)["tas"]
        for rack in ("r0", "r1", "r2"):
            alive = {name for name, its in nodes.items() if its == rack} - down
            idle, asked = alive - busy, len(alive) // state.rule.of
            assert len({name for name in spares if name.startswith(rack)}) == min(asked, len(idle))
        assert here.ledger.audit() == []
