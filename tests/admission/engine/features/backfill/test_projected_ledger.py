"""When a head is to start: the same moment as a walk over all ends gives, one workload leaving after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admission.engine.features.backfill.projected_ledger import Departures, ProjectedLedger
from admission.engine.features.backfill.start_order import future_of
from admission.engine.flavors.assign import Mode, NoPreemption
from admission.engine.flavors.search import FlavorSearch
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Admission,
    ClusterQueue,
    Counting,
    PlacementOptions,
    Profile,
    Quota,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.pending import StartReservation
from admission.engine.requests import placement_requests
from admission.engine.topology.allocation.footprint import joined
from tests.admission.engine.builders import BEST, CPU, HOST, RACK, Cluster, host, queue, racks, workload
from tests.budgets import examples

NOW = 100.0
ASKS = {
    "rack": TopologyRequest(required=RACK),
    "preferred": TopologyRequest(preferred=RACK),
    "any": TopologyRequest(unconstrained=True),
}

running = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.sampled_from(sorted(ASKS)),
        st.integers(0, 2),
        st.sampled_from([None, 10, 20, 150, 150, 300]),
    ),
    max_size=9,
)
heads = st.lists(
    st.tuples(
        st.integers(1, 10),
        st.sampled_from(sorted(ASKS)),
        st.integers(0, 2),
        st.sampled_from([None, 30, 200]),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=6,
)


def run(cluster: Cluster, running: list[tuple[int, str, int, int | None]]) -> None:
    """These are admitted at 0, as far as they fit."""
    for n, (pods, topology, to, limit) in enumerate(running):
        cluster.tell(limited(workload(f"r{n}", pods, to=f"q{to}", queued=n, topology=ASKS[topology]), limit))
    cluster.cycle(now=0)
    for n in range(len(running)):
        cluster.queues.remove(f"r{n}")


def limited(original: Workload, limit: int | None) -> Workload:
    return replace(original, time_limit=None if limit is None else float(limit))


QUOTAS = {
    "alone": (None, Quota(9 * CPU)),
    "cohort": ("c", Quota(9 * CPU)),
    "a cohort to which they lend a part": ("c", Quota(9 * CPU, lending_limit=3 * CPU)),
}


def site(quotas: str, counting: Counting, levels: tuple[str, ...]) -> Cluster:
    """Three racks of two hosts of four CPUs; three queues with backfill and these quotas."""
    cohort, quota = QUOTAS[quotas]
    cluster = Cluster()
    cluster.ledger = Ledger(PlacementOptions(profile=Profile.EXACT, counting=counting))
    queues = (replace(queue(f"q{n}", strategy=BEST, cohort=cohort, tas=quota), reserves_starts=True) for n in range(3))
    cluster.tell(
        replace(racks(), levels=levels), *(host(f"{rack}{n}", rack, 4) for rack in "xyz" for n in range(2)), *queues
    )
    return cluster


def first_end(
    ledger: Ledger, head: Workload, queue: ClusterQueue, ahead: list[tuple[Workload, StartReservation]]
) -> float | None:
    """Slow and obvious: everybody leaves in the order of the ends, one after the other, until the head fits."""
    ends = [
        (max(allocation.workload.ends, NOW), key)
        for key, allocation in ledger.allocations.by_workload.items()
        if allocation.workload.ends is not None
    ]
    with ledger.trial():
        for other, reservation in ahead:
            ledger.holds.put(Hold.of(HoldKind.START_RESERVATION, other, reservation.admission))
            if other.time_limit is not None:
                ends.append((max(reservation.start + other.time_limit, NOW), other.key))
        for end in sorted({end for end, _ in ends}):
            for key in sorted(key for at, key in ends if at == end):
                admission = ledger.admissions[key]
                ledger.simulate_removal(key)
                ledger.quota.remove(admission.cluster_queue, admission.usage())
            if fits(ledger, head, queue, end):
                return end
    return None


def fits(ledger: Ledger, head: Workload, queue: ClusterQueue, at: float) -> bool:
    found = FlavorSearch(queue, ledger.flavors, ledger.quota, NoPreemption(ledger.quota)).assign(head)
    return (
        found.mode is Mode.FIT
        and ledger.placement.place(placement_requests(head, queue, found, ledger.flavors, at)).fits
    )


@pytest.mark.parametrize(
    ("counting", "levels"),
    [
        pytest.param(Counting.NODES, (RACK, HOST), id="hosts"),
        pytest.param(Counting.NODES, (RACK,), id="nodes below racks"),
        pytest.param(Counting.DOMAINS, (RACK,), id="racks"),
    ],
)
@given(running=running, waiting=heads)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.differing_executors])
def test_each_head_gets_the_first_end_after_which_it_fits(
    counting: Counting,
    levels: tuple[str, ...],
    running: list[tuple[int, str, int, int | None]],
    waiting: list[tuple[int, str, int, int | None, int]],
) -> None:
    cluster = site("alone", counting, levels)
    run(cluster, running)
    before = list(cluster.ledger.inputs())
    for n, (pods, topology, to, limit, priority) in enumerate(waiting):
        made = workload(f"w{n}", pods, to=f"q{to}", queued=50 + n, topology=ASKS[topology], priority=priority)
        cluster.tell(limited(made, limit))
    report = cluster.cycle(now=NOW)
    assert cluster.ledger.audit() == []
    if report.admitted:
        return  # a head admitted later has moved the moments of those before it
    assert list(cluster.ledger.inputs()) == before
    held = sorted(cluster.queues.starts.all(), key=lambda each: order_of(each[0]))
    for index, (head, reservation) in enumerate(held):
        spec = cluster.ledger.quota.spec(head.cluster_queue)
        assert spec is not None
        assert reservation.start == first_end(cluster.ledger, head, spec, held[:index])


@pytest.mark.parametrize("counting", [Counting.NODES, Counting.DOMAINS])
@pytest.mark.parametrize("quotas", QUOTAS)
@given(running=running, held=st.integers(0, 3), moves=st.lists(st.integers(0, 12), min_size=1, max_size=6))
@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.differing_executors])
def test_the_projected_ledger_is_without_the_workloads_that_have_ended(
    counting: Counting,
    quotas: str,
    running: list[tuple[int, str, int, int | None]],
    held: int,
    moves: list[int],
) -> None:
    cluster = site(quotas, counting, (RACK, HOST))
    ledger = cluster.ledger
    run(cluster, running)
    kept = [key for key in sorted(ledger.admissions)[:held] if ledger.allocations.by_workload[key].workload.time_limit]
    others = [(ledger.allocations.by_workload[key].workload, ledger.admissions[key]) for key in kept]
    for key in kept:
        ledger.release(key)
    ends: dict[float, set[str]] = {}
    for key, allocation in ledger.allocations.by_workload.items():
        if allocation.workload.ends is not None:
            ends.setdefault(allocation.workload.ends, set()).add(key)
    holds = []
    for other, admission in others:
        claim = ledger.claim(other, admission)
        assert claim is not None
        end = NOW + (other.time_limit or 0.0)
        holds.append(future_of(ledger, other, admission, claim, end))
    departures = Departures(ledger, [(end, frozenset(keys)) for end, keys in sorted(ends.items())])
    taken = {"tas": joined([hold.footprint for hold in holds], "tas")[0]}
    future = ProjectedLedger(ledger, departures, holds, "q0", NOW, taken=taken)
    now, seen = state(ledger), []
    with future.opened():
        for move in moves:
            position = min(move, len(future))
            future.move_to(position)
            moment = future.time(position) if position else 0.0
            assert future.position(moment) == position or position < len(future)
            if future.position(moment) != position:
                continue  # some of one moment are over, and others are not
            over = {key for end, keys in ends.items() for key in keys if end <= moment}
            over |= {hold.key for hold in holds if hold.end is not None and hold.end <= moment}
            seen.append((over, state(ledger)))
    assert state(ledger) == now
    assert ledger.audit() == []
    for over, found in seen:
        assert found == slowly(ledger, others, over)


def slowly(ledger: Ledger, others: list[tuple[Workload, Admission]], over: set[str]) -> object:
    """What the ledger says when the others are held and all these are over, one after the other."""
    with ledger.trial():
        for other, admission in others:
            ledger.holds.put(Hold.of(HoldKind.START_RESERVATION, other, admission))
        for key in over & ledger.admissions.keys():
            admission = ledger.admissions[key]
            ledger.simulate_removal(key)
            ledger.quota.remove(admission.cluster_queue, admission.usage())
        return state(ledger)


def state(ledger: Ledger) -> object:
    """What is free, host by host, and what quota the first queue still has."""
    tree = ledger.capacity.trees["tas"]
    free = [[tree.free_at(row, column) for column in range(len(tree.columns))] for row in range(tree.rows.size)]
    return free, ledger.quota.available("q0", ("tas", "cpu"))
