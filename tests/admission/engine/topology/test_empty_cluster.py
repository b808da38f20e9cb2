"""What empty nodes would hold, asked again and again: the answer is always that of the nodes as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from admission.engine.decision import PlacementResult
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Admission,
    Assignment,
    BoundPod,
    DomainCount,
    Event,
    ObjectRemoved,
    PlacementRequest,
    PodSet,
    PodSetAdmission,
    RemovedKind,
    TopologyRequest,
)
from tests.admission.engine.builders import CPU, HOST, RACK, host, racks, workload

PODS = PodSet("main", 4, {"cpu": CPU}, topology=TopologyRequest(required=RACK))
START: tuple[Event, ...] = (racks(), host("h1", "r1", 2), host("h2", "r1", 2), host("h3", "r2", 3))


def requested(ledger: Ledger, pod_set: PodSet = PODS) -> PlacementResult:
    return ledger.placement.place([PlacementRequest(pod_set, "tas", pod_set.count)], simulate_empty=True)


def holds(ledger: Ledger) -> bool:
    return requested(ledger).fits


def told(*events: Event) -> Ledger:
    ledger = Ledger()
    for event in events:
        ledger.apply(event)
    return ledger


CHANGES: dict[str, tuple[Event, ...]] = {
    "a node is gone": (ObjectRemoved(RemovedKind.NODE, "h2"),),
    "a node is smaller": (host("h2", "r1", 1),),
    "a foreign pod has come": (BoundPod("other/pod", "h2", {"cpu": CPU}),),
    "another node has come": (host("h0", "r0", 4),),
    "the flavor wants other nodes": (replace(racks(), node_labels={"pool": "else"}),),
    "the flavor is gone": (ObjectRemoved(RemovedKind.FLAVOR, "tas"),),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_answer_follows_the_nodes(change: tuple[Event, ...]) -> None:
    ledger = told(*START)
    before = requested(ledger)
    for event in change:
        ledger.apply(event)
    assert requested(ledger) == requested(told(*START, *change)) != before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_trial_takes_back_is_taken_back_in_the_answer(change: tuple[Event, ...]) -> None:
    ledger = told(*START)
    before = requested(ledger)
    with ledger.trial():
        for event in change:
            ledger.apply(event)
        assert requested(ledger) != before
    assert requested(ledger) == before


def test_admitted_workloads_do_not_count() -> None:
    ledger = told(*START)
    assert holds(ledger)
    places = Assignment((HOST,), (DomainCount(("h1",), 2),))
    got = PodSetAdmission("main", {"cpu": "tas"}, {"cpu": 2 * CPU}, 2, places)
    ledger.apply(replace(workload("w", pods=2), admission=Admission("q", (got,))))
    assert holds(ledger)
    ledger.apply(ObjectRemoved(RemovedKind.WORKLOAD, "w"))
    assert holds(ledger)


OTHERS: dict[str, Callable[[PodSet], PodSet]] = {
    "more pods": lambda pods: replace(pods, count=5),
    "larger pods": lambda pods: replace(pods, requests={"cpu": 2 * CPU}),
    "another level": lambda pods: replace(pods, topology=TopologyRequest(required=HOST)),
    "a node selector": lambda pods: replace(pods, node_selector={HOST: "h1"}),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_each_question_has_its_own_answer(change: Callable[[PodSet], PodSet]) -> None:
    ledger = told(*START)
    assert holds(ledger)
    assert not requested(ledger, change(PODS)).fits


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_empty_nodes_refuse_is_known_until_nodes_change(change: tuple[Event, ...]) -> None:
    ledger = told(*START)
    larger = [PlacementRequest(replace(PODS, count=5), "tas", 5)]
    assert ledger.placement.refusal(larger) is None
    assert ledger.placement.place(larger, simulate_empty=True) == ledger.placement.refusal(larger)
    for event in change:
        ledger.apply(event)
    assert ledger.placement.refusal(larger) is None
    smaller = [PlacementRequest(replace(PODS, count=2), "tas", 2)]
    if ledger.placement.place(smaller, simulate_empty=True).fits:
        assert ledger.placement.refusal(smaller) is None
