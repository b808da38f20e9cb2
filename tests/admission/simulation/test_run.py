"""Made worlds on virtual time: who runs when and where, what waits and why; and that nothing of it is chance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Any

import msgspec
import pytest

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Evict, Preempt, PreemptionReason, Reject, Victim
from admission.engine.features.advance_reservations.reservation import AdvanceReservation
from admission.engine.reasons import Reason
from admission.simulation.result import SimulationResult, WorkloadRun, WorkloadState, figures
from admission.simulation.result_json import encoded
from admission.simulation.run import simulate
from admission.world.snapshot import capture_world, decode, from_snapshot
from admission.world.world import World
from api import names
from tests.admission.world.world_documents import HOST, RACK, Manifest, flat, job, manifest, node, queue, tree, world


def times(outcome: SimulationResult) -> dict[str, tuple[float, float | None, float | None]]:
    """Arrival, admission and end of each job."""
    return {run.title.rpartition("/")[2]: (run.arrived, run.admitted, run.ended) for run in outcome.runs.values()}


def run_of(outcome: SimulationResult, name: str) -> WorkloadRun:
    return next(run for run in outcome.runs.values() if run.title.endswith(f"/{name}"))


def places(run: WorkloadRun) -> dict[str, int]:
    assert run.admission is not None
    assignment = run.admission.pod_sets[0].assignment
    assert assignment is not None
    return {"/".join(domain.values): domain.count for domain in assignment.domains}


STRICT = {"queueingStrategy": "StrictFIFO"}
COHORT = {"cohortName": "c"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            [tree(1, 1), queue(), job("a", 4, runs="10s"), job("b", 4, runs="5s")],
            {"a": (0, 0, 10), "b": (0, 10, 15)},
            id="one after the other",
        ),
        pytest.param(
            [tree(1, 1), queue(), job("a", 4, runs="1h", at="0.25s"), job("b", 4, at="250ms")],
            {"a": (0.25, 0.25, 3600.25), "b": (0.25, 3600.25, 4200.25)},
            id="milliseconds count, and who says nothing runs ten minutes",
        ),
        pytest.param(
            [tree(2, 2), queue(cpu=6), job("a", 4, runs="10s"), job("b", 4, runs="10s"), job("c", 2, runs="10s")],
            {"a": (0, 0, 10), "b": (0, 10, 20), "c": (0, 0, 10)},
            id="quota holds b back, c overtakes it",
        ),
        pytest.param(
            [
                *(tree(2, 2), queue(cpu=6, **STRICT)),
                *(job("a", 4, runs="10s"), job("b", 4, runs="10s"), job("c", 2, runs="10s")),
            ],
            {"a": (0, 0, 10), "b": (0, 10, 20), "c": (0, 10, 20)},
            id="in a strict queue nobody overtakes",
        ),
        pytest.param(
            [
                *(tree(1, 2), queue("p", 4, **COHORT), queue("q", 4, **COHORT)),
                *(job("lent", 8, to="p", runs="10s"), job("own", 4, runs="10s", at="1s")),
            ],
            {"lent": (0, 0, 10), "own": (1, 10, 20)},
            id="borrowed quota comes back at the end",
        ),
        pytest.param(
            [
                *(
                    tree(2, 1),
                    queue(),
                    job("left", 3, require=RACK, runs="30s"),
                    job("right", 3, require=RACK, runs="20s"),
                ),
                job("wide", 4, require=RACK, runs="1s", at="5s"),
            ],
            {"left": (0, 0, 30), "right": (0, 0, 20), "wide": (5, 20, 21)},
            id="a rack that is free again wakes who needs it",
        ),
        pytest.param(
            [
                *(tree(1, 1), queue(), manifest("WorkloadPriorityClass", "high", value=7)),
                *(job("a", 4, runs="10s"), job("b", 4, runs="1s", at="1s")),
                job("c", 4, runs="1s", at="2s", labels={names.PRIORITY_CLASS_LABEL: "high"}),
            ],
            {"a": (0, 0, 10), "b": (1, 11, 12), "c": (2, 10, 11)},
            id="priority goes first",
        ),
        pytest.param(
            [tree(1, 1), queue(), job("a", 4, labels={names.MAX_EXEC_TIME_LABEL: "30"}), job("b", 4, runs="1s")],
            {"a": (0, 0, 30), "b": (0, 30, 31)},
            id="the time limit is how long it runs",
        ),
    ],
)
def test_when_each_workload_runs(value: list[Any], expected: dict[str, tuple[float, ...]]) -> None:
    assert times(simulate(world(*value))) == expected


def test_where_they_run() -> None:
    outcome = simulate(world(tree(2, 2), queue(), job("a", 8, require=RACK), job("b", 5, require=RACK)))
    assert places(run_of(outcome, "a")) == {"r0-h0": 4, "r0-h1": 4}
    assert places(run_of(outcome, "b")) == {"r1-h0": 4, "r1-h1": 1}


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        pytest.param([queue(cpu=2), job("big", 3)], Reason.EXCEEDS_MAX_QUOTA, "insufficient quota for cpu", id="quota"),
        pytest.param(
            [queue(), job("big", 9, require=RACK)], Reason.TOPOLOGY_PLACEMENT_FAILED, "8 out of 9 pod(s)", id="no rack"
        ),
        pytest.param([queue("other"), job("lost")], Reason.MISCONFIGURED, "LocalQueue q doesn't exist", id="no queue"),
        pytest.param(
            [queue(stopPolicy="Hold"), job("held")], Reason.SUSPENDED, "ClusterQueue q is inactive", id="stopped"
        ),
    ],
)
def test_what_never_runs_says_why(value: list[Any], reason: Reason, message: str) -> None:
    outcome = simulate(world(tree(1, 2), *value))
    (run,) = outcome.waiting()
    assert (run.state, run.admitted, run.reason) == (WorkloadState.WAITING, None, reason)
    assert message in run.message


def test_a_wish_gives_way_with_time() -> None:
    """Nothing happens around it: time alone lets it in."""
    annotated = job("a", 8, require=RACK, at="1s")
    annotated["metadata"]["annotations"][names.RELAX_TOPOLOGY_AFTER] = "5m"
    outcome = simulate(world(tree(2, 1), queue(), annotated), run_for=60)
    run = run_of(outcome, "a")
    assert (run.arrived, run.admitted, run.ended) == (1, 301, 361)
    assert run.refusals >= 1


def test_the_end_of_an_advance_reservation_lets_in_what_waits_for_its_rack() -> None:
    """The job with a time limit ends before the start; nothing else happens until the end."""
    there = world(tree(1, 1), queue(), job("a", 4, require=RACK, runs="10s"), job("b", 4, require=RACK, runs="10s"))
    for pending in list(there.queues.workloads()):
        if "job-a" in pending.key or pending.key.endswith("/a"):
            there.apply(replace(pending, time_limit=10.0))
    there.apply(AdvanceReservation("r", {RACK: "r0"}, there.now + 60, there.now + 300))
    outcome = simulate(there)
    assert times(outcome) == {"a": (0, 0, 10), "b": (0, 300, 310)}


def test_until_stops_the_clock() -> None:
    outcome = simulate(world(tree(1, 1), queue(), job("a", 4, runs="10s"), job("b", 4, at="20s")), until=15)
    assert times(outcome) == {"a": (0, 0, 10), "b": (20, None, None)}
    assert outcome.ended == 15


def test_use_of_capacity() -> None:
    """Four cpus for 10 s, nothing for 10 s, two for 20 s: 80 of 160 cpu seconds."""
    given: list[Any] = [tree(1, 1), queue(cpu=100), job("a", 4, runs="10s"), job("b", 2, at="20s", runs="20s")]
    (cpu,) = simulate(world(*given)).use
    assert (cpu.quota, cpu.nodes, cpu.highest) == (100_000, 4_000, 4_000)
    assert cpu.mean == pytest.approx(2_000)
    assert cpu.share == pytest.approx(0.5)


def test_the_fullest_moment() -> None:
    given: list[Any] = [
        tree(1, 1),
        queue(),
        job("a", 1, runs="10s"),
        job("b", 2, at="3s", runs="2s"),
        job("c", 1, at="8s"),
    ]
    assert simulate(world(*given)).peak == 3


# ---- nothing is chance


def load() -> list[Manifest]:
    """Two queues that share, jobs of several sizes that come in waves and wait."""
    jobs = [
        job(
            f"j{n:02d}",
            1 + n % 7,
            to="pq"[n % 2],
            require=RACK if n % 3 else None,
            at=f"{n // 4}s",
            runs=f"{1 + n % 5}s",
        )
        for n in range(40)
    ]
    return flat([tree(2, 2), queue("p", 6, **COHORT), queue("q", 6, **COHORT), jobs])


def told(outcome: SimulationResult) -> str:
    return encoded(outcome, list(outcome.runs.values()), [])


def test_the_same_world_has_the_same_outcome() -> None:
    assert told(simulate(world(load()))) == told(simulate(world(load())))


def test_a_snapshot_of_it_has_the_same_outcome() -> None:
    made = world(load())
    copy = from_snapshot(decode(capture_world(made).encode()))
    assert told(simulate(copy)) == told(simulate(made))


def test_a_snapshot_in_the_middle_continues_with_the_waiting_workloads() -> None:
    """Those that run already run on; nobody who waited gets in earlier or later for having been written down."""
    made = world([*tree(1, 1), *queue(), job("a", 4, runs="10s"), job("b", 2, runs="5s"), job("c", 3, runs="1s")])
    made.cycle()
    copy = from_snapshot(decode(capture_world(made).encode()))
    assert times(simulate(copy)) == times(simulate(made)) == {"a": (0, 0, 10), "b": (0, 10, 15), "c": (0, 15, 16)}


def test_nodes_in_another_order_change_nothing() -> None:
    given = load()
    assert times(simulate(world(given[::1]))) == times(simulate(world(sorted(given, key=_nodes_last))))


def _nodes_last(obj: Manifest) -> tuple[bool, str]:
    return obj["kind"] == "Node", "".join(reversed(obj["metadata"]["name"])) if obj["kind"] == "Node" else ""


def test_every_job_of_a_load_ends_and_never_more_runs_than_there_is() -> None:
    outcome = simulate(world(load()))
    assert {run.state for run in outcome.runs.values()} == {WorkloadState.FINISHED}
    moments = sorted({run.admitted for run in outcome.runs.values() if run.admitted is not None})
    for moment in moments:
        running = [run for run in outcome.runs.values() if _runs_at(run, moment)]
        assert sum(run.pods for run in running) <= 12
        by_host: dict[str, int] = {}
        for run in running:
            for host, count in places(run).items():
                by_host[host] = by_host.get(host, 0) + count
        assert all(count <= 4 for count in by_host.values())


def _runs_at(run: WorkloadRun, moment: float) -> bool:
    return run.admitted is not None and run.admitted <= moment < (inf if run.ended is None else run.ended)


def test_bound_pods_go_with_their_workload() -> None:
    """A copy of a cluster: the pods of a running workload are there, and leave with it."""
    held = {"status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "4"}}}
    template = {"metadata": {}, "spec": {"containers": [container]}}
    slices = {"domainCount": 1, "valuesPerLevel": [{"universal": "h"}], "podCounts": {"universal": 1}}
    got = {"name": "main", "flavors": {"cpu": "tas"}, "resourceUsage": {"cpu": "4"}, "count": 1}
    got["topologyAssignment"] = {"levels": [HOST], "slices": [slices]}
    running = manifest(
        "Workload",
        "w",
        "default",
        spec={"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template}]},
        status={
            "conditions": [{"type": "QuotaReserved", **held}, {"type": "Admitted", **held}],
            "admission": {"clusterQueue": "q", "podSetAssignments": [got]},
        },
    )
    annotations = {names.WORKLOAD_ANNOTATION: "w"}
    labels = {names.PODSET_LABEL: "main"}
    pod = manifest(
        "Pod",
        "w-0",
        "default",
        metadata={"annotations": annotations, "labels": labels},
        spec={**template["spec"], "nodeName": "h"},
        status={"phase": "Running"},
    )
    nodes = [obj for obj in tree(1, 0) if obj["kind"] != "Node"]
    outcome = simulate(world(nodes, node("h", "r0"), queue(), running, pod, job("next", 4, runs="1s")), run_for=20)
    assert times(outcome) == {"w": (0, 0, 20), "next": (0, 20, 21)}


# ---- decisions that the made worlds do not bring about


class Scripted(World):
    """A world whose first cycles decide as they are told."""

    def __init__(self, scene: World, reports: Iterable[CycleReport]) -> None:
        super().__init__()
        self.state, self.about, self._reports = scene.state, scene.about, list(reports)

    def cycle(self) -> CycleReport:
        return self._reports.pop(0) if self._reports and len(self.ledger.admissions) else super().cycle()


def test_a_preempted_workload_starts_again() -> None:
    made = world(tree(1, 1), queue(), job("old", 4, runs="10s"), job("new", 4, runs="5s"))
    made.cycle()
    old, new = sorted(made.about, key=lambda key: "old" not in key)
    victim = Victim(old, PreemptionReason.IN_CLUSTER_QUEUE)
    scripted = Scripted(made, [CycleReport((Preempt(new, (victim,), "makes room"),), (), False)])
    outcome = simulate(scripted)
    assert run_of(outcome, "new").preempts == (old,)
    assert run_of(outcome, "old").evictions == 1
    assert {run.state for run in outcome.runs.values()} == {WorkloadState.FINISHED}
    assert outcome.ended == 15


def test_an_eviction_without_another_to_gain() -> None:
    made = world(tree(1, 1), queue(), job("old", 4, runs="10s"))
    made.cycle()
    (key,) = made.about
    outcome = simulate(Scripted(made, [CycleReport((Evict(key, "NodeFailures", "gone"),), (), False)]))
    assert (run_of(outcome, "old").evictions, outcome.ended) == (1, 10)


def test_a_rejected_workload_leaves_the_simulation() -> None:
    made = world(tree(1, 1), queue(), job("old", 4, runs="10s"), job("odd", 4))
    made.cycle()
    key = next(key for key in made.about if "odd" in key)
    report = CycleReport((Reject(key, Reason.MISCONFIGURED, "never"),), (), False)
    run = run_of(simulate(Scripted(made, [report])), "odd")
    assert (run.state, run.message) == (WorkloadState.REJECTED, "never")


# ---- the figures


@pytest.mark.parametrize(
    ("waits", "median", "p95", "most"),
    [
        pytest.param([3.0], 3.0, 3.0, 3.0, id="one"),
        pytest.param([1.0, 2.0, 3.0, 4.0], 2.0, 4.0, 4.0, id="four"),
        pytest.param([float(n) for n in range(1, 101)], 50.0, 95.0, 100.0, id="a hundred"),
    ],
)
def test_figures(waits: list[float], median: float, p95: float, most: float) -> None:
    made = simulate(world(tree(), queue(), job("a")))
    run = run_of(made, "a")
    runs = [WorkloadRun(run.workload, "x", 1.0, 1.0 + wait) for wait in waits]
    got = figures([*runs, WorkloadRun(run.workload, "waits", 0.0)])
    assert (got.count, got.admitted) == (len(waits) + 1, len(waits))
    assert (got.median, got.p95, got.most) == (median, p95, most)


def test_progress_is_reported_after_every_instant() -> None:
    seen: list[tuple[int, int, float]] = []
    given: list[Any] = [tree(1, 1), queue(), job("a", 4, runs="10s"), job("b", 4, runs="10s"), job("c", 1, at="3s")]
    simulate(world(*given), progress=lambda *now: seen.append(now))
    assert seen == [(1, 3, 0.0), (1, 3, 3.0), (2, 3, 10.0), (3, 3, 20.0), (3, 3, 620.0)]


def test_the_json_names_where_and_why() -> None:
    made = world(tree(1, 2), queue(), job("a", 8, require=RACK, runs="1s"), job("big", 9, require=RACK))
    outcome = simulate(made)
    told_of = msgspec.json.decode(encoded(outcome, list(outcome.runs.values()), ["x: y"]))
    first, second = told_of["workloads"]
    assert first["podSets"][0]["domains"] == [{"values": ["r0-h0"], "count": 4}, {"values": ["r0-h1"], "count": 4}]
    assert (first["state"], second["state"], second["reason"]) == ("Finished", "Waiting", "TopologyPlacementFailed")
    assert told_of["faults"] == ["x: y"]
    assert told_of["summary"]["admitted"] == 1
