"""Spare hosts: held with the gang, in its domain and of its quota; used first when a node fails; given back in the end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.cycle.second_pass import moved_pods, second_pass
from admission.engine.decide import decide
from admission.engine.decision import Admit, Evict
from admission.engine.features.spare_hosts.of_workloads import held, hold_missing
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    BoundPod,
    ObjectRemoved,
    PlacementRequest,
    RemovedKind,
    SpareRule,
    TopologyRequest,
    Workload,
)
from admission.engine.topology import spares
from admission.engine.topology.place_group import GroupPlacer
from admission.engine.topology.spares import SpareHosts
from tests.admission.engine.builders import CPU, RACK, Cluster, admitted, domains, host, queue, racks, waits, workload
from tests.admission.engine.cycle.evicting_cluster import evicting, preempted, running

ONE = TopologyRequest(required=RACK, spare_hosts=1)


def cluster(*waiting: Workload, quota: int = 100, hosts: tuple[int, ...] = (3, 4)) -> Cluster:
    """Racks r0, r1, ... of so many hosts of 4 CPUs."""
    nodes = [host(f"r{r}h{h}", f"r{r}", 4) for r, count in enumerate(hosts) for h in range(count)]
    return Cluster(racks(), queue(tas=quota), *nodes, *waiting)


def gang(key: str = "gang", pods: int = 2, cpus: int = 4, topology: TopologyRequest = ONE) -> Workload:
    return workload(key, pods, cpus, topology=topology)


def rack_of(hosts: list[str]) -> set[str]:
    return {name[:2] for name in hosts}


def run(here: Cluster, *keys: str) -> None:
    """A cycle in which exactly these start."""
    report = here.cycle()
    assert admitted(report) == list(keys), waits(report)


def test_a_host_of_the_same_rack_is_held_and_no_other_workload_gets_it() -> None:
    here = cluster(gang(), hosts=(3,))
    run(here, "gang")
    assert held(here.ledger, "gang").names == ["r0h2"]
    here.tell(workload("other", 1, 1, topology=TopologyRequest(required=RACK)))
    run(here)
    here.finish("gang")
    run(here, "other")
    assert here.ledger.admissions.keys() == {"other"}, "given back with the gang"
    assert here.ledger.audit() == []


@pytest.mark.parametrize(
    ("pods", "cpus", "spare"),
    [
        pytest.param(2, 4, 1, id="a pod a host"),
        pytest.param(8, 1, 4, id="four pods a host"),
        pytest.param(3, 2, 2, id="as the fullest host"),
    ],
)
def test_a_spare_host_takes_all_pods_of_any_host(pods: int, cpus: int, spare: int) -> None:
    here = cluster(gang(pods=pods, cpus=cpus), hosts=(3,))
    run(here, "gang")
    holds = here.ledger.admission(hold_key(HoldKind.SPARES, "gang"))
    assert holds is not None
    assert holds.pod_sets[0].count == spare
    assert holds.usage() == {("tas", "cpu"): spare * cpus * CPU}


@pytest.mark.parametrize(("quota", "starts"), [(12, True), (11, False)])
def test_quota_counts_the_spare_host(quota: int, starts: bool) -> None:
    here = cluster(gang(), quota=quota)
    report = here.cycle()
    assert (admitted(report) == ["gang"]) is starts
    if not starts:
        assert waits(report) == {
            "gang": "WaitingForQuota: insufficient quota in ClusterQueue q for the pods and 1 spare host(s)"
        }
    assert here.ledger.quota.usage("q").get(("tas", "cpu"), 0) == (12 * CPU if starts else 0)


def test_the_gang_goes_where_its_spare_host_is_too() -> None:
    """The rack that fits tightest has room for the pods alone."""
    here = cluster(gang(), hosts=(2, 4))
    run(here, "gang")
    assert rack_of(held(here.ledger, "gang").names) == {"r1"}


def test_a_gang_without_capacity_for_its_spare_host_waits_with_a_reason() -> None:
    report = cluster(gang(), hosts=(2, 2)).cycle()
    text = "beside the pods of pod set main there are 0 of 1 spare host(s), each with room for 1 pod(s), in their rack"
    assert admitted(report) == []
    assert text in waits(report)["gang"]


def start(
    pods: int = 2, topology: TopologyRequest = ONE, hosts: tuple[int, ...] = (5, 5)
) -> tuple[Cluster, Counter[str]]:
    """A running gang, and its pods by host."""
    waiting = gang(pods=pods, topology=topology)
    here = cluster(waiting, hosts=hosts)
    report = here.cycle()
    (decision,) = report.decisions
    assert isinstance(decision, Admit)
    here.ledger.apply(replace(waiting, admission=decision.admission, reserved=0.0))
    return here, Counter(domains(report, "gang"))


def places(ledger: Ledger, key: str = "gang") -> set[str]:
    admission = ledger.admission(key)
    assert admission is not None
    assert admission.pod_sets[0].assignment is not None
    return {domain.values[-1] for domain in admission.pod_sets[0].assignment.domains}


def test_what_the_status_says_afterwards_keeps_the_hold() -> None:
    here, _ = start()
    assert len(held(here.ledger, "gang").names) == 1


def test_a_failed_node_is_replaced_by_the_spare_host_and_another_one_is_held() -> None:
    here, before = start()
    (spare,), dead = held(here.ledger, "gang").names, min(before)
    here.tell(ObjectRemoved(RemovedKind.NODE, dead))
    (moved,) = second_pass(here.ledger, "gang", (dead,), fail_fast=True)
    assert isinstance(moved, Admit)
    assert places(here.ledger) == {*before, spare} - {dead}
    (later,) = held(here.ledger, "gang").names
    assert rack_of([later]) == rack_of([spare])
    assert later not in {*places(here.ledger), dead}
    assert here.ledger.audit() == []


def test_in_a_full_rack_the_spare_host_is_what_is_left() -> None:
    here, before = start(hosts=(3,))
    (spare,), dead = held(here.ledger, "gang").names, min(before)
    here.tell(ObjectRemoved(RemovedKind.NODE, dead), workload("other", 1, 1))
    second_pass(here.ledger, "gang", (dead,), fail_fast=True)
    assert spare in places(here.ledger)
    assert held(here.ledger, "gang").names == []
    assert here.ledger.quota.usage("q")["tas", "cpu"] == 8 * CPU, "quota counts what is held"
    here.tell(host("r0h9", "r0", 4))
    hold_missing(here.ledger)
    assert held(here.ledger, "gang").names == ["r0h9"], "one that comes later is held"


def test_pods_that_no_node_took_go_to_the_spare_host() -> None:
    here, before = start()
    (spare,), taken = held(here.ledger, "gang").names, min(before)
    here.tell(BoundPod("elsewhere/foreign", taken, {"cpu": 4 * CPU}))
    moved_pods(here.ledger, "gang", {("main", taken): 1}, {taken})
    assert spare in places(here.ledger)
    assert taken not in places(here.ledger)


def test_a_spare_host_that_is_gone_is_held_elsewhere() -> None:
    here, _ = start()
    (spare,) = held(here.ledger, "gang").names
    here.tell(ObjectRemoved(RemovedKind.NODE, spare))
    hold_missing(here.ledger)
    (later,) = held(here.ledger, "gang").names
    assert later != spare
    assert rack_of([later]) == rack_of([spare])


def test_a_restarted_controller_holds_them_before_anything_else() -> None:
    """Which host it is need not be remembered: nothing runs there."""
    here, _ = start(hosts=(3,))
    admission = here.ledger.admission("gang")
    again = Cluster(*(event for event in here.ledger.inputs() if not isinstance(event, Workload)))
    again.tell(queue(tas=100))
    again.ledger.apply(replace(gang(), admission=admission, reserved=0.0))
    hold_missing(again.ledger)
    assert held(again.ledger, "gang").names == held(here.ledger, "gang").names
    assert [event.key for event in here.ledger.inputs() if isinstance(event, Workload)] == ["gang"], (
        "no object of its own"
    )


@pytest.mark.parametrize(
    ("spares", "victims"),
    [pytest.param(0, 1, id="none"), pytest.param(1, 2, id="one"), pytest.param(2, 0, id="too many")],
)
def test_a_preemptor_evicts_for_its_spare_host_too_and_for_nothing_in_vain(spares: int, victims: int) -> None:
    small = [workload(f"low-{n}", 1, 4, topology=TopologyRequest(required=RACK)) for n in range(2)]
    nodes = [host(f"r0h{h}", "r0", 4) for h in range(3)]
    here = running(racks(), evicting(queue(tas=100)), *nodes, first=small)
    urgent = replace(gang("urgent", 2, topology=TopologyRequest(required=RACK, spare_hosts=spares)), priority=9)
    here.tell(urgent)
    assert len(preempted(here.cycle()).get("urgent", [])) == victims


def test_a_missing_spare_host_is_searched_again_only_when_capacity_may_have_been_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, before = start(hosts=(3,))
    here.tell(ObjectRemoved(RemovedKind.NODE, min(before)))
    second_pass(here.ledger, "gang", (min(before),), fail_fast=True)
    asked = spares.present
    looks: list[int] = []

    def counted(steps: GroupPlacer, requests: Sequence[PlacementRequest]) -> SpareHosts:
        looks.append(len(requests))
        return asked(steps, requests)

    monkeypatch.setattr(spares, "present", counted)
    for _ in range(3):
        hold_missing(here.ledger)
    assert looks == []
    here.tell(host("r0h9", "r0", 4))
    hold_missing(here.ledger)
    assert looks == [1]


def test_two_spare_hosts_are_two_hosts() -> None:
    here, before = start(topology=TopologyRequest(required=RACK, spare_hosts=2), hosts=(5,))
    assert len({*held(here.ledger, "gang").names} - set(before)) == 2


def test_without_a_required_level_any_host_may_be_spare() -> None:
    here, _ = start(topology=TopologyRequest(preferred=RACK, spare_hosts=1), hosts=(2, 1))
    assert held(here.ledger, "gang").names == ["r1h0"]


small = st.lists(st.integers(0, 4), min_size=1, max_size=3)


@given(small, st.integers(1, 4), st.integers(1, 2), st.integers(1, 2), st.lists(st.integers(0, 11), max_size=4))
def test_a_gang_starts_if_and_only_if_a_rack_holds_its_pods_and_spare_hosts(
    hosts: list[int], pods: int, cpus: int, spares: int, taken: list[int]
) -> None:
    """Against all racks: with as many pods a host as fit, a rack holds pods and spare hosts or it does not."""
    nodes = [host(f"r{r}h{h}", f"r{r}", 2) for r, count in enumerate(hosts) for h in range(count)]
    used = {nodes[index % len(nodes)].name for index in taken} if nodes else set()
    foreign = [BoundPod(f"elsewhere/{name}", name, {"cpu": 2 * CPU}) for name in sorted(used)]
    topology = TopologyRequest(required=RACK, spare_hosts=spares)
    here = Cluster(racks(), queue(tas=100), *nodes, *foreign, workload("gang", pods, cpus, topology=topology))
    starts = admitted(here.cycle()) == ["gang"]
    whole = [
        _holds(count - len({n for n in used if n.startswith(f"r{r}h")}), pods, cpus, spares)
        for r, count in enumerate(hosts)
    ]
    assert starts is any(whole)
    if starts:
        names = held(here.ledger, "gang").names
        assert len(set(names)) == spares
        assert rack_of(names) == rack_of(sorted(places(here.ledger)))
        assert not {*names} & {*used, *places(here.ledger)}
    assert here.ledger.audit() == []


def _holds(free: int, pods: int, cpus: int, spares: int) -> bool:
    a_host = 2 // cpus
    return free >= -(-pods // a_host) + spares


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_spare_hosts_are_free_of_others_and_in_the_rack_of_their_gang(seed: int) -> None:
    """Gangs come and go, nodes fail and come back, pods from elsewhere take places."""
    dice, here, serial = random.Random(seed), cluster(hosts=(4, 4, 3)), 0
    nodes = {
        name: rack
        for rack, count in (("r0", 4), ("r1", 4), ("r2", 3))
        for name in (f"{rack}h{h}" for h in range(count))
    }
    alive, foreign = set(nodes), dict[str, str]()
    for _ in range(60):
        match dice.choice(("comes", "ends", "fails", "returns", "foreign", "leaves")):
            case "comes":
                serial += 1
                topology = TopologyRequest(required=RACK, spare_hosts=dice.randint(0, 2))
                here.tell(workload(f"g{serial}", dice.randint(1, 3), dice.choice((2, 4)), topology=topology))
            case "ends" if here.ledger.admissions:
                here.finish(here.ledger.holds.owner_of(dice.choice(sorted(here.ledger.admissions))))
            case "fails" if alive:
                lost = dice.choice(sorted(alive))
                alive.discard(lost)
                here.tell(ObjectRemoved(RemovedKind.NODE, lost))
                for key in sorted({here.ledger.holds.owner_of(key) for key in here.ledger.admissions}):
                    if lost in places(here.ledger, key):
                        for decision in second_pass(here.ledger, key, (lost,), fail_fast=True):
                            if isinstance(decision, Evict):
                                here.finish(key)
            case "returns" if alive != set(nodes):
                name = dice.choice(sorted(set(nodes) - alive))
                alive.add(name)
                here.tell(host(name, nodes[name], 4))
            case "foreign" if alive:
                serial += 1
                foreign[f"elsewhere/p{serial}"] = at = dice.choice(sorted(alive))
                here.tell(BoundPod(f"elsewhere/p{serial}", at, {"cpu": CPU}))
            case "leaves" if foreign:
                gone = dice.choice(sorted(foreign))
                del foreign[gone]
                here.tell(ObjectRemoved(RemovedKind.POD, gone))
        decide(here.ledger, here.queues, 0.0, 10)
        _all_hold(here.ledger, nodes)
    assert serial > 5


def _all_hold(ledger: Ledger, nodes: Mapping[str, str]) -> None:
    assert ledger.audit() == []
    taken: Counter[str] = Counter()
    for key, admission in ledger.admissions.items():
        for got in admission.pod_sets:
            assert got.assignment is not None
            for domain in got.assignment.domains:
                taken[domain.values[-1]] += domain.count * (got.usage["cpu"] // got.count)
        owner = ledger.holds.owner_of(key)
        assert key == owner or hold_key(HoldKind.SPARES, key) not in ledger.holds, "a hold asks for none itself"
        spares, own = set(held(ledger, key).names), places(ledger, owner)
        assert not spares & own
        assert len({nodes[name] for name in spares | own}) == 1
    assert all(amount <= 4 * CPU for amount in taken.values()), taken


def preemptor(spare_hosts: int = 1) -> Workload:
    """A gang of two pods that fill a host each, more important than what runs."""
    return replace(gang(topology=TopologyRequest(required=RACK, spare_hosts=spare_hosts)), priority=1, queued=1.0)


def test_nobody_is_evicted_for_a_gang_that_would_lack_a_spare_host() -> None:
    """Two of three hosts run a victim and something more important: the victim would make room for the pods alone."""
    nodes = [host(f"h{h}", "r0", 4) for h in range(3)]
    low, high = workload("low", 1, 4), workload("high", 1, 4, priority=2)
    here = running(racks(), evicting(queue(tas=100)), *nodes, first=[low, high])
    here.tell(preemptor())
    assert preempted(here.cycle()) == {}


@pytest.mark.parametrize("quota", [100, 12], ids=["nodes are full", "quota is used up"])
def test_victims_leave_for_the_spare_host_too_and_nobody_takes_it(quota: int) -> None:
    nodes = [host(f"h{h}", "r0", 4) for h in range(3)]
    first = [workload(name, 1, 4) for name in ("a", "b", "c")]
    here = running(racks(), evicting(queue(tas=quota)), *nodes, first=first)
    here.tell(preemptor())
    assert preempted(here.cycle()) == {"gang": ["a", "b", "c"]}
    here.tell(workload("small", 1, 1, queued=2.0))
    for victim in ("a", "b", "c"):
        assert admitted(here.cycle()) == [], (
            "it does not start without its spare host, and nobody takes what it waits for"
        )
        here.finish(victim)
    assert admitted(here.cycle()) == ["gang"]
    assert len(held(here.ledger, "gang").names) == 1


def test_pods_lie_on_more_hosts_where_the_quota_is_short_for_their_spare_host() -> None:
    """Four pods on one host would need a spare host for four; two on each of two need one for two."""
    nodes = [host(f"h{h}", "r0", 4) for h in range(3)]
    here = Cluster(racks(), queue(tas=6), *nodes, gang(pods=4, cpus=1))
    report = here.cycle()
    assert admitted(report) == ["gang"], waits(report)
    assert here.ledger.quota.usage("q") == {("tas", "cpu"): 6 * CPU}


def test_a_spare_host_of_the_flavor_is_not_what_victims_leave_for_others() -> None:
    """The flavor lacks its spare host; what the victims leave is the preemptor's."""
    nodes = [host(f"h{h}", "r0", 4) for h in range(2)]
    first = [workload(name, 1, 4) for name in ("a", "b")]
    here = running(racks(), evicting(queue(tas=100)), *nodes, first=first)
    here.tell(replace(racks(), spare=SpareRule(1, 2, RACK)), preemptor(spare_hosts=0))
    report = decide(here.ledger, here.queues, 0.0, 100)
    assert preempted(report) == {"gang": ["a", "b"]}
    for victim in ("a", "b"):
        here.finish(victim)
        report = decide(here.ledger, here.queues, 0.0, 100)
    assert admitted(report) == ["gang"]
