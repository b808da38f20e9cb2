"""Pods of a running workload that no node took get other places; the others keep theirs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from admission.engine.cycle.second_pass import moved_pods
from admission.engine.decision import Admit, Wait
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Admission,
    Assignment,
    BoundPod,
    ClusterQueue,
    DomainCount,
    Flavor,
    Node,
    PodSet,
    PodSetAdmission,
    TopologyRequest,
    Workload,
)
from api.names import HOSTNAME_LABEL

RACK = "rack"


def ledger_of(hosts: dict[str, tuple[str, int]]) -> Ledger:
    """Hosts by name: (rack, CPUs)."""
    ledger = Ledger()
    ledger.apply(Flavor("any", topology="t", levels=(RACK, HOSTNAME_LABEL)))
    ledger.apply(ClusterQueue("cq"))
    for name, (rack, cpus) in hosts.items():
        ledger.apply(Node(name, {RACK: rack, HOSTNAME_LABEL: name}, {"cpu": cpus, "pods": 100}))
    return ledger


def charged(ledger: Ledger, places: dict[str, int], topology: TopologyRequest | None = None) -> Workload:
    """A workload of one-CPU pods with these places."""
    domains = tuple(DomainCount((host,), count) for host, count in sorted(places.items()))
    got = PodSetAdmission("main", {"cpu": "any"}, {}, sum(places.values()), Assignment((HOSTNAME_LABEL,), domains))
    pod_set = PodSet("main", got.count, {"cpu": 1}, topology=topology or TopologyRequest(required=RACK))
    made = Workload("w", "u", "ns/lq", "cq", (pod_set,), admission=Admission("cq", (got,)), reserved=0.0)
    ledger.apply(made)
    return made


def places_of(admission: Admission) -> dict[str, int]:
    [pod_set] = admission.pod_sets
    assert pod_set.assignment is not None
    return {domain.values[-1]: domain.count for domain in pod_set.assignment.domains}


def test_one_pod_of_a_host_moves_within_the_required_rack() -> None:
    ledger = ledger_of({"a": ("r1", 4), "b": ("r1", 4), "c": ("r2", 9)})
    charged(ledger, {"a": 3})
    [moved] = moved_pods(ledger, "w", {("main", "a"): 1}, ["a"])
    assert isinstance(moved, Admit)
    assert places_of(moved.admission) == {"a": 2, "b": 1}
    assert ledger.audit() == []


def test_what_is_there_now_counts() -> None:
    ledger = ledger_of({"a": ("r1", 4), "b": ("r1", 4)})
    charged(ledger, {"a": 2})
    ledger.apply(BoundPod("other/x", "b", {"cpu": 4}))
    [waits] = moved_pods(ledger, "w", {("main", "a"): 1}, ["a"])
    assert isinstance(waits, Wait)
    admission = ledger.admission("w")
    assert admission is not None
    assert places_of(admission) == {"a": 2}, "it keeps its place"


def test_hosts_that_refused_it_before_are_avoided() -> None:
    ledger = ledger_of({"a": ("r1", 4), "b": ("r1", 4), "c": ("r1", 4)})
    charged(ledger, {"b": 1, "c": 1})
    [moved] = moved_pods(ledger, "w", {("main", "b"): 1}, ["a", "b"])
    assert isinstance(moved, Admit)
    assert places_of(moved.admission) == {"c": 2}


def test_a_plain_pod_keeps_its_place() -> None:
    ledger = ledger_of({"a": ("r1", 4), "b": ("r1", 4)})
    made = charged(ledger, {"a": 1})
    ledger.apply(replace(made, one_pod=True))
    assert moved_pods(ledger, "w", {("main", "a"): 1}, ["a"]) == []


@pytest.mark.parametrize("seed", range(150))
def test_against_every_way_to_place_them(seed: int) -> None:
    """A place is found exactly if the required rack has one beside the avoided hosts; the others stay, none is over-booked."""
    dice = Random(seed)
    hosts = {f"h{n}": (f"r{n % 2}", dice.randint(1, 3)) for n in range(6)}
    ledger = ledger_of(hosts)
    rack = dice.choice(["r0", "r1"])
    places = {h: n for h, (r, cpus) in hosts.items() if r == rack and (n := dice.randint(0, cpus))} or {"h0": 1}
    rack = hosts[min(places)][0]
    charged(ledger, places)
    taken = Counter[str]()
    for host, (_, cpus) in hosts.items():
        taken[host] = dice.randint(0, cpus - places.get(host, 0))
        if taken[host]:
            ledger.apply(BoundPod(f"other/{host}", host, {"cpu": taken[host]}))
    lost = {("main", host): dice.randint(1, count) for host, count in places.items() if dice.random() < 0.6}
    lost = lost or {("main", min(places)): 1}
    avoid = {host for _, host in lost}
    free = sum(
        cpus - taken[host] - places.get(host, 0)
        for host, (r, cpus) in hosts.items()
        if host not in avoid and (r == rack or sum(lost.values()) == sum(places.values()))
    )
    one_rack = max(
        sum(c - taken[h] - places.get(h, 0) for h, (r, c) in hosts.items() if r == each and h not in avoid)
        for each in ("r0", "r1")
    )
    fits = sum(lost.values()) <= (one_rack if sum(lost.values()) == sum(places.values()) else free)
    [decision] = moved_pods(ledger, "w", lost, avoid)
    assert isinstance(decision, Admit) is fits
    if isinstance(decision, Admit):
        now = places_of(decision.admission)
        assert sum(now.values()) == sum(places.values())
        assert all(now.get(h, 0) >= n - lost.get(("main", h), 0) for h, n in places.items())
        assert all(now.get(h, 0) == n - lost["main", h] for h, n in places.items() if h in avoid)
        assert all(now.get(h, 0) + taken[h] <= cpus for h, (_, cpus) in hosts.items())
        assert len({hosts[h][0] for h in now}) == 1
    assert ledger.audit() == []
