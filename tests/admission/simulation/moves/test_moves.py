"""Simulations with moves, and with a descheduler instead: nothing is lost or counted twice, and equal worlds end alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from admission.engine.cycle.cycle import CycleReport
from admission.simulation.attempts import Attempt
from admission.simulation.comparison import LoadFigures, figures_of_load
from admission.simulation.moves.maker import Moves
from admission.simulation.result import SimulationResult, WorkloadRun, WorkloadState
from admission.simulation.room_maker import MakerOf
from admission.simulation.run import SimulationOptions, simulate_with
from admission.world.world import World
from api import names
from tests.admission.world.world_documents import RACK, Manifest, job, manifest, queue, tree, world
from tests.bench.evict_and_hope import EvictAndHope
from tests.bench.fragmented import EACH, GPU, FragmentedLoad, fragmented, is_large

LOAD = FragmentedLoad(
    blocks=2,
    racks=5,
    hosts=4,
    filled=0.5,
    hours=3,
    small_per_hour=10,
    gangs_per_hour=2.5,
    small_hours=2,
    gang_hours=1,
    racks_of_gang=2,
)
ARMS: Mapping[str, MakerOf | None] = {"nothing": None, "moves": Moves, "evictions": EvictAndHope}


class WatchedWorld(World):
    """A world that checks after each cycle that no node has more than it can hold, and that no gang runs in part."""

    def cycle(self) -> CycleReport:
        report = super().cycle()
        used: Counter[str] = Counter()
        for key, admission in self.ledger.admissions.items():
            workload = self.ledger.workload(key)
            assert workload is not None
            (pod_set,), (got,) = workload.pod_sets, admission.pod_sets
            assert got.assignment is not None
            assert sum(domain.count for domain in got.assignment.domains) == got.count == pod_set.count
            for domain in got.assignment.domains:
                used[domain.values[-1]] += domain.count * pod_set.requests[GPU]
        assert max(used.values(), default=0) <= EACH
        return report


def once(arm: str, seed: int) -> tuple[SimulationResult, World]:
    played = fragmented(replace(LOAD, seed=seed), WatchedWorld)
    outcome = simulate_with(played, SimulationOptions(maker=ARMS[arm]))
    assert played.ledger.audit() == []
    return outcome, fragmented(replace(LOAD, seed=seed))


played = cache(once)


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("arm", ARMS)
def test_every_job_ends_and_every_device_second_is_accounted_for(arm: str, seed: int) -> None:
    outcome, given = played(arm, seed)
    assert outcome.runs.keys() == given.about.keys()
    assert {run.state for run in outcome.runs.values()} == {WorkloadState.FINISHED}
    assert not any(run.lost for run in outcome.runs.values() if is_large(run.workload))
    work = 0.0
    for key, run in outcome.runs.items():
        facts, (pod_set,) = given.about[key], run.workload.pod_sets
        before = 0.0 if facts.since is None else given.now - facts.since
        work += pod_set.count * pod_set.requests[GPU] * ((facts.run_for or 0.0) + run.lost - before)
    (gpus,) = (line for line in outcome.use if line.resource == GPU)
    assert gpus.mean * outcome.ended == pytest.approx(work, abs=1.0)


@pytest.mark.parametrize("seed", [1, 3])
def test_moves_shorten_the_wait_of_gangs_and_lose_less_than_evictions(seed: int) -> None:
    nothing, moves, evictions = (figures_of_load(played(arm, seed)[0], is_large) for arm in ARMS)
    assert (nothing.relocations, nothing.evictions, nothing.lost) == (0, 0, 0.0)
    assert moves.relocations > 0 == moves.evictions
    assert evictions.evictions > 0 == evictions.relocations
    assert moves.gangs.mean < nothing.gangs.mean
    assert 0 < moves.lost < evictions.lost


def test_equal_worlds_end_alike() -> None:
    assert once("moves", 1)[0].runs == played("moves", 1)[0].runs


# ---- small stories


def movable(obj: Manifest, every: str | None = "1m", cost: str | None = "10s", minimum: str = "0s") -> Manifest:
    given = {
        names.MOVABLE: "true",
        names.MOVE_COST: cost,
        names.MINIMUM_RUN_TIME: minimum,
        names.SIMULATED_CHECKPOINTS: every,
    }
    obj["metadata"]["annotations"].update({key: value for key, value in given.items() if value is not None})
    return obj


def story(*jobs: Manifest, per_day: str | None = None, backfill: bool = False, **spec: Any) -> World:
    """Two racks of two hosts of 4 cpu."""
    queues = queue(**spec)
    given = {names.MOVES_PER_DAY: per_day, names.BACKFILL: "true" if backfill else None}
    queues[0]["metadata"]["annotations"] = {key: value for key, value in given.items() if value is not None}
    return world(tree(2, 2), queues, *jobs)


def apart(**terms: Any) -> list[Manifest]:
    """A job of two pods in each rack, since each rack was full of it and another one, and at 60 s a gang for a whole rack."""
    return [
        movable(job("a", 2, require=RACK, runs="10m"), **terms),
        job("fill", 6, require=RACK, runs="30s"),
        movable(job("b", 2, require=RACK, runs="10m"), **terms),
        job("gang", 8, require=RACK, runs="1m", at="60s"),
    ]


def runs(played: World, after: float = 30.0) -> dict[str, WorkloadRun]:
    options = SimulationOptions(maker=lambda stage: Moves(stage, after))
    return {run.title.rpartition("/")[2]: run for run in simulate_with(played, options).runs.values()}


def test_a_mover_continues_from_its_last_checkpoint_and_the_gang_starts_at_once() -> None:
    """It saved its work at 60 s and moves at 90 s: it loses half a minute and the ten seconds of its restart."""
    found = runs(story(*apart()))
    assert (found["gang"].admitted, found["gang"].ended) == (90.0, 150.0)
    (mover,) = (run for run in (found["a"], found["b"]) if run.relocations)
    assert (mover.lost, mover.ended, mover.evictions) == (40.0, 640.0, 0)
    assert mover.lost_device_seconds == 80.0


UNMOVABLE = [job(name, 2, require=RACK, runs="10m") for name in "ab"]


@pytest.mark.parametrize(
    ("jobs", "per_day", "starts"),
    [
        pytest.param(apart(minimum="5m"), None, 300.0, id="when the minimum run time ends, between two plans"),
        pytest.param(apart(), "0", 600.0, id="at an end if the budget is zero"),
        pytest.param([UNMOVABLE[0], *apart()[1:]], None, 90.0, id="after a move if one of them may move"),
        pytest.param([UNMOVABLE[0], apart()[1], UNMOVABLE[1], apart()[3]], None, 600.0, id="at an end if none may"),
    ],
)
def test_when_the_gang_starts(jobs: list[Manifest], per_day: str | None, starts: float) -> None:
    assert runs(story(*jobs, per_day=per_day))["gang"].admitted == starts


@pytest.mark.parametrize(
    ("backfill", "starts"), [pytest.param(True, 600.0, id="reserved"), pytest.param(False, 90.0, id="unknown")]
)
def test_nothing_moves_for_a_gang_that_loses_less_until_its_reserved_start(backfill: bool, starts: float) -> None:
    """A move costs two hours of two devices, and eight devices wait for nine minutes."""
    jobs = apart(cost="2h")
    for one in jobs[:3]:
        one["metadata"]["labels"][names.MAX_EXEC_TIME_LABEL] = "600"
    assert runs(story(*jobs, backfill=backfill))["gang"].admitted == starts


def test_a_simulation_ends_though_a_gang_waits_for_ever() -> None:
    """Nothing moves: both jobs that are in the way run for ever."""
    forever = [job(name, 2, require=RACK, runs="9000h") for name in ("a", "b")]
    jobs = [forever[0], job("fill", 6, require=RACK, runs="30s"), forever[1], job("gang", 8, require=RACK, at="60s")]
    until = SimulationOptions(maker=Moves, until=9000 * 3600 - 1)
    outcome = simulate_with(story(*jobs, movable(job("idle", 1, runs="1s"))), until)
    assert [run.title for run in outcome.waiting()] == ["Job default/gang"]


def test_moves_instead_of_evictions_that_lose_more() -> None:
    """`low` would be evicted for a gang of a higher priority; it moves, since it loses no more by that."""
    high = manifest("WorkloadPriorityClass", "high", value=7)
    jobs = apart()[:3]
    gang = job("gang", 8, require=RACK, runs="1m", at="60s", labels={names.PRIORITY_CLASS_LABEL: "high"})
    found = runs(story(high, *jobs, gang, preemption={"withinClusterQueue": "LowerPriority"}))
    assert found["gang"].admitted == 60.0
    assert [found[name].evictions for name in "ab"] == [0, 0]
    assert found["a"].relocations + found["b"].relocations == 1


@pytest.mark.parametrize(
    ("attempt", "now", "saved", "lost", "following"),
    [
        pytest.param(Attempt(0, 1000, every=300), 700, 600, 100, 900, id="two checkpoints"),
        pytest.param(Attempt(0, 1000), 700, 0, 700, None, id="no checkpoint"),
        pytest.param(Attempt(100, 1000, overhead=50, every=300), 120, 0, 20, 450, id="while it restarts"),
        pytest.param(
            Attempt(100, 1000, overhead=50, every=300), 460, 300, 60, 750, id="a restart puts checkpoints off"
        ),
        pytest.param(Attempt(-500, 1000, every=300, saved_before=400), 100, 400, 200, 200, id="its own word counts"),
        pytest.param(Attempt(0, 1000, every=300), 950, 900, 50, None, id="none after its end"),
        pytest.param(Attempt(0, None, every=300), 950, 900, 50, 1200, id="without an end"),
    ],
)
def test_what_a_stop_loses(attempt: Attempt, now: int, saved: int, lost: int, following: int | None) -> None:
    assert (attempt.saved(now), attempt.lost(now), attempt.next_checkpoint(now)) == (saved, lost, following)
    again = attempt.again(now, 7)
    assert again.left == (None if attempt.left is None else attempt.left - saved)
    assert (again.begun, again.overhead) == (now, 7)


def test_figures_count_the_wait_so_far() -> None:
    """A load that leaves its gangs waiting has no shorter waits than one that starts them late."""
    outcome = simulate_with(story(job("big", 9, require=RACK), job("x", 1, runs="50s")), SimulationOptions(until=100.0))
    found: LoadFigures = figures_of_load(outcome)
    assert (found.gangs.count, found.gangs.admitted, found.gangs.most) == (1, 0, 100.0)
    assert (found.others.admitted, found.finished, found.turnaround) == (1, 1, 50.0)
