"""Forecasts of gangs that need a domain, against the simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.features.forecast.run_times import RunTimes
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import NoPlan, NoPlanReason
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.model import (
    Admission,
    Assignment,
    DomainCount,
    Event,
    LevelConstraint,
    PodSet,
    PodSetAdmission,
    QueueingStrategy,
    RestartTerms,
    SliceLayer,
    TopologyRequest,
    Workload,
)
from admission.simulation.run import simulate
from admission.world.world import WorkloadFacts, World
from tests.admission.engine.builders import BEST, CPU, HOST, RACK, STRICT, host, queue, racks, workload
from tests.admission.engine.features.forecast.test_starts import NOW, estimates, intervals, told, world
from tests.budgets import quick

IN_RACK = TopologyRequest(required=RACK)
TIMES = estimates({"run-a": 100.0, "run-b": 200.0, "run-c": 50.0, "gang": 10.0, "other": 30.0})


def cluster(*jobs: Workload, hosts: int = 2, each: int = 4, count: int = 2) -> list[Event]:
    """Racks of hosts with so many CPUs each, and a queue with twice the quota."""
    nodes = [host(f"r{rack}h{number}", f"r{rack}", each) for rack in range(count) for number in range(hosts)]
    return [racks(), *nodes, queue(tas=2 * count * hosts * each), *jobs]


def on(key: str, cpus: int, *hosts: str) -> Workload:
    """A workload that runs since now, with one pod of so many CPUs on each of the hosts."""
    made = workload(key, len(hosts), cpus, topology=TopologyRequest(unconstrained=True))
    places = Assignment((HOST,), tuple(DomainCount((name,), 1) for name in hosts))
    got = PodSetAdmission("main", {"cpu": "tas"}, {"cpu": cpus * CPU * len(hosts)}, len(hosts), places)
    return replace(made, admission=Admission("q", (got,)), admitted=NOW, reserved=NOW)


def gang(pods: int, cpus: int, topology: TopologyRequest = IN_RACK, key: str = "gang") -> Workload:
    return workload(key, pods, cpus, topology=topology)


def starts(scene: World, run_times: RunTimes = TIMES) -> dict[str, tuple[float | None, float | None]]:
    return intervals(scene, run_times)


FULL = (on("run-a", 4, "r0h0", "r0h1"), on("run-b", 4, "r1h0", "r1h1"))
SCATTERED = (on("run-a", 4, "r0h0", "r1h0"), on("run-b", 4, "r0h1"), on("run-c", 4, "r1h1"))


@pytest.mark.parametrize(
    ("running", "waiting", "start"),
    [
        pytest.param((), gang(2, 4), 0, id="an empty rack"),
        pytest.param(FULL, gang(2, 4), 100, id="the first rack that is empty"),
        pytest.param(FULL, gang(1, 4, TopologyRequest(required=HOST)), 100, id="the first host that is empty"),
        pytest.param(SCATTERED, gang(2, 4), 100, id="a rack is whole only when the last of its hosts is"),
        pytest.param(SCATTERED, gang(2, 2), 50, id="two pods on one host"),
        pytest.param(SCATTERED, gang(1, 4), 50, id="one host"),
        pytest.param(SCATTERED, gang(2, 4, TopologyRequest(preferred=RACK)), 100, id="a preferred rack is no need"),
        pytest.param(FULL, gang(4, 4, TopologyRequest(unconstrained=True)), 200, id="any four hosts"),
        pytest.param((on("run-a", 1, "r0h0"),), gang(4, 2), 0, id="the other rack"),
        pytest.param(
            (on("run-a", 1, "r0h0"), on("run-b", 1, "r1h1")), gang(4, 2), 100, id="a part of a host is missing"
        ),
        pytest.param(
            SCATTERED,
            gang(4, 2, TopologyRequest(unconstrained=True, slices=(SliceLayer(RACK, 4),))),
            100,
            id="a slice needs a rack",
        ),
    ],
)
def test_a_gang_waits_for_its_domain_although_quota_is_free(
    running: tuple[Workload, ...], waiting: Workload, start: float
) -> None:
    assert starts(world([*running, waiting], *cluster()))["gang"] == (start, start)


def test_those_that_start_before_take_the_room() -> None:
    first = replace(gang(2, 4, key="other"), priority=1)
    made = world([*FULL, first, gang(2, 4)], *cluster())
    assert starts(made) == {"other": (100, 100), "gang": (130, 130)}


def test_a_leader_and_its_workers_are_in_one_domain() -> None:
    together = TopologyRequest(required=RACK, group="both")
    pod_sets = (
        PodSet("leader", 1, {"cpu": 4 * CPU}, topology=together),
        PodSet("workers", 2, {"cpu": 2 * CPU}, topology=together),
    )
    made = world([*SCATTERED, replace(gang(1, 1), pod_sets=pod_sets)], *cluster())
    assert starts(made)["gang"] == (100, 100)


def test_the_second_flavor_is_used_when_the_first_has_no_room() -> None:
    made = world([*FULL, gang(2, 4)], *cluster(), racks("more"), host("m0", "m", 8, "more"), queue(tas=99, more=99))
    assert starts(made)["gang"] == (0, 0)


def test_behind_a_workload_of_which_nothing_is_known_there_is_no_start() -> None:
    made = world([on("unknown", 4, "r0h0"), gang(2, 4)], *cluster(count=1))
    assert starts(made, RunTimes()) == {}


def test_where_more_rules_decide_about_the_place_no_latest_start_is_told() -> None:
    shaped = TopologyRequest(required=RACK, constraints=(LevelConstraint(HOST, maximum=1),))
    assert starts(world([*FULL, gang(2, 4, shaped)], *cluster()))["gang"] == (100, None)


def test_a_held_place_is_for_its_owner_alone() -> None:
    made = world([gang(2, 4), gang(2, 4, key="other")], *cluster(count=1))
    owner = made.queues.workload("other")
    assert owner is not None
    places = Assignment((HOST,), (DomainCount(("r0h0",), 1), DomainCount(("r0h1",), 1)))
    admission = Admission("q", (PodSetAdmission("main", {"cpu": "tas"}, {"cpu": 8 * CPU}, 2, places),))
    made.ledger.holds.put(Hold.of(HoldKind.PLACE, owner, admission))
    assert starts(made) == {"other": (0, 0), "gang": (30, 30)}


@pytest.mark.parametrize(("lasts", "why"), [(1010.0, NoPlanReason.TOO_EXPENSIVE), (90_000.0, None)])
def test_nothing_is_moved_for_a_gang_that_loses_less_by_waiting_until_its_forecast_start(
    lasts: float, why: NoPlanReason | None
) -> None:
    movers = [
        replace(on(key, 1, where), admitted=NOW - 1000, restart=RestartTerms(movable=True))
        for key, where in (("run-a", "r0h0"), ("run-b", "r1h0"))
    ]
    made = world([*movers, gang(2, 4)], *cluster())
    one = told(made, estimates({"run-a": lasts, "run-b": lasts}))["gang"]
    assert one.latest is not None
    assert one.latest == pytest.approx(NOW + lasts - 1000)
    waiting = made.queues.workload("gang")
    assert waiting is not None
    found = plan(made.ledger, waiting, NOW, PlanOptions(wait=one.latest - NOW))
    assert (found.reason if isinstance(found, NoPlan) else None) is why


KINDS = {
    "rack": IN_RACK,
    "host": TopologyRequest(required=HOST),
}
JOBS = st.lists(
    st.tuples(
        st.integers(1, 5), st.integers(1, 4), st.sampled_from(sorted(KINDS)), st.integers(1, 300), st.integers(0, 2)
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@settings(max_examples=quick(40), deadline=None)
@given(
    drawn=JOBS,
    count=st.integers(1, 4),
    hosts=st.integers(1, 4),
    each=st.sampled_from([1, 2, 4]),
    quota=st.integers(1, 70),
)
def test_with_known_run_times_gangs_start_when_the_simulation_starts_them(
    strategy: QueueingStrategy,
    drawn: list[tuple[int, int, str, int, int]],
    count: int,
    hosts: int,
    each: int,
    quota: int,
) -> None:
    names = ["".join("abcdefghij"[int(digit)] for digit in str(n)) for n in range(len(drawn))]
    jobs = [
        workload(name, pods, min(cpus, each), queued=float(n), priority=priority, topology=KINDS[kind])
        for n, (name, (pods, cpus, kind, _, priority)) in enumerate(zip(names, drawn, strict=True))
    ]
    seconds = {name: float(lasts) for name, (_, _, _, lasts, _) in zip(names, drawn, strict=True)}
    made = world(jobs, *cluster(hosts=hosts, each=each, count=count), queue(strategy=strategy, tas=quota))
    found = told(made, estimates(seconds))
    assert found == told(made, estimates(seconds))
    made.about.update({name: WorkloadFacts(name, lasts) for name, lasts in seconds.items()})
    outcome = simulate(made)
    for key, run in outcome.runs.items():
        assert (key in found) == (run.admitted is not None)
        if run.admitted is not None:
            assert (found[key].earliest, found[key].latest) == (found[key].earliest,) * 2
            assert found[key].earliest - NOW == pytest.approx(run.admitted, abs=0.01)
