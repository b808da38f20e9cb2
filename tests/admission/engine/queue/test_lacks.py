"""Nobody sleeps who could start: whoever is not woken by what came free would be refused again."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.books import Books
from admission.engine.cycle.cycle import run_cycle
from admission.engine.decision import Admit, Decision
from admission.engine.ledger import Ledger
from admission.engine.model import (
    BoundPod,
    ClusterQueue,
    Cohort,
    Event,
    Gone,
    PodSet,
    Quota,
    Removed,
    TopologyAsk,
    Workload,
)
from admission.engine.queue.queues import PendingQueues
from tests.admission.engine.making import BEST, CPU, RACK, STRICT, group, host, racks

FLAVORS, QUEUES = ("one", "two"), ("a", "b", "c")


def books() -> Books:
    made = Books(Ledger(), PendingQueues())
    for flavor in FLAVORS:
        made.apply(racks(flavor))
        for index in range(3):
            made.apply(host(f"{flavor}-{index}", f"{flavor}-r{index % 2}", 4, flavor))
    return made


def run(of: Books) -> list[Decision]:
    found: list[Decision] = []
    more = True
    while more:
        report = run_cycle(of.ledger, of.queues, 0.0, 100)
        found += report.decisions
        more = report.more
    return found


quotas = st.builds(
    Quota, st.integers(0, 16).map(lambda n: n * CPU), st.none() | st.integers(0, 4).map(lambda n: n * CPU), st.none()
)


@st.composite
def queue_specs(draw: st.DrawFn, name: str) -> ClusterQueue:
    flavors = draw(st.permutations(FLAVORS))[: draw(st.integers(1, 2))]
    resources = ("cpu", "pods") if draw(st.booleans()) else ("cpu",)
    made = group(
        {
            flavor: {r: draw(quotas) if r == "cpu" else Quota(draw(st.integers(0, 12))) for r in resources}
            for flavor in flavors
        }
    )
    cohort = draw(st.sampled_from((None, "x", "y")))
    if cohort is None:
        made = group({q.flavor: {r: Quota(of.nominal) for r, of in q.quotas.items()} for q in made.flavors})
    return ClusterQueue(name, (made,), cohort, draw(st.sampled_from((BEST, BEST, STRICT))))


asks = st.sampled_from((TopologyAsk(required=RACK), TopologyAsk(preferred=RACK), TopologyAsk(unconstrained=True)))
pod_sets = st.builds(
    lambda pods, cpus, ask, least: PodSet("x", pods, {"cpu": cpus * CPU}, min_count=least, topology=ask),
    st.integers(1, 5),
    st.integers(1, 3),
    asks,
    st.sampled_from((None, None, None, 1)),
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    parts = draw(st.lists(pod_sets, min_size=1, max_size=2))
    named = tuple(replace(part, name=f"s{index}") for index, part in enumerate(parts))
    key, to = f"w{draw(st.integers(0, 20)):02d}", draw(st.sampled_from(QUEUES))
    return Workload(key, key, f"ns/{to}", to, named, draw(st.integers(0, 1)), float(draw(st.integers(0, 3))))


events: st.SearchStrategy[Event] = st.one_of(
    workloads(),
    workloads(),
    st.integers(0, 20).map(lambda n: Gone(Removed.WORKLOAD, f"w{n:02d}")),
    st.sampled_from(QUEUES).flatmap(queue_specs),
    st.builds(
        lambda name, pair, quota: Cohort(name, None, {(pair, "cpu"): Quota(quota.nominal)}),
        st.sampled_from("xy"),
        st.sampled_from(FLAVORS),
        quotas,
    ),
    st.builds(
        lambda n, node, cpus: BoundPod(f"p{n}", node, {"cpu": cpus * CPU}),
        st.integers(0, 3),
        st.sampled_from([f"{flavor}-{index}" for flavor in FLAVORS for index in range(3)]),
        st.integers(1, 4),
    ),
    st.integers(0, 3).map(lambda n: Gone(Removed.POD, f"p{n}")),
    st.builds(lambda n, cpus: host(f"one-{n}", f"one-r{n % 2}", cpus, "one"), st.integers(0, 3), st.integers(1, 6)),
)


@given(st.tuples(*map(queue_specs, QUEUES)), st.lists(events, min_size=5, max_size=40))
@settings(deadline=None)
def test_nobody_sleeps_who_could_start(specs: tuple[ClusterQueue, ...], history: list[Event]) -> None:
    of = books()
    for event in (*specs, *history):
        of.apply(event)
        run(of)
        if isinstance(event, Workload | Gone):
            of.queues.wake(QUEUES)
            assert not [decision for decision in run(of) if isinstance(decision, Admit)]
