"""Backfill by learned run times: a workload that outlasts its guess leaves when the head was promised to start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Admit, Overtaking, Preempt, PreemptionReason
from admission.engine.model import ClusterQueue, Flavor, QueueingStrategy, Workload
from tests.admission.engine.builders import BEST, STRICT, Cluster, admitted, host, queue, racks, waits
from tests.admission.engine.features.backfill.test_backfill import at, timed, told


def guessed(key: str, cpus: int, guess: float | None, **more: Any) -> Workload:
    """A workload without a time limit that is expected to run so long."""
    return replace(timed(key, cpus, None, **more), guess=guess)


def by_guess(
    name: str = "q", strategy: QueueingStrategy = STRICT, cohort: str | None = None, **flavors: int
) -> ClusterQueue:
    return replace(queue(name, strategy=strategy, cohort=cohort, **flavors), reserves_starts=True, by_guess=True)


def flat(spec: ClusterQueue | None = None) -> Cluster:
    """Six of ten CPUs are taken from 0 to 60."""
    cluster = Cluster(Flavor("any"), spec or by_guess(any=10), timed("a", 6, 60.0))
    assert admitted(cluster.cycle()) == ["a"]
    return cluster


BIG = timed("big", 8, None, queued=10)


def evicted(report: CycleReport) -> dict[str, list[str]]:
    """By preemptor, the workloads that outlasted their guess."""
    found = [decision for decision in report.decisions if isinstance(decision, Preempt)]
    assert all(victim.claim is PreemptionReason.OUTLASTED for one in found for victim in one.victims)
    return {one.workload: [victim.workload for victim in one.victims] for one in found}


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@pytest.mark.parametrize(
    ("behind", "overtaking"),
    [
        pytest.param(guessed("w", 4, 50.0, queued=11), Overtaking("big", 50.0, 60.0), id="expected to end in time"),
        pytest.param(guessed("w", 2, 50.0, queued=11), None, id="leaves what the head needs: nothing is asked of it"),
        pytest.param(guessed("w", 2, None, queued=11), None, id="leaves what the head needs, and nothing is known"),
        pytest.param(
            replace(guessed("w", 4, 1.0, queued=11), time_limit=50.0), None, id="its limit counts, and is kept"
        ),
    ],
)
def test_workloads_that_overtake(strategy: QueueingStrategy, behind: Workload, overtaking: Overtaking | None) -> None:
    cluster = flat(by_guess(strategy=strategy, any=10))
    cluster.tell(BIG, behind)
    report = cluster.cycle(now=10)
    assert told(report, "big") == at(60)
    assert [one.overtaking for one in report.decisions if isinstance(one, Admit)] == [overtaking]


@pytest.mark.parametrize(
    ("spec", "behind", "says"),
    [
        pytest.param(
            {}, guessed("w", 4, 51.0, queued=11), "; jobs like it run for 51 s at most", id="a second too long"
        ),
        pytest.param({}, guessed("w", 4, None, queued=11), "; nothing is known of its run time", id="nothing is known"),
        pytest.param({"by_guess": False}, guessed("w", 4, 1.0, queued=11), "", id="its queue does not allow it"),
        pytest.param(
            {}, replace(guessed("w", 4, 1.0, queued=11), time_limit=51.0), "", id="its limit says more than its guess"
        ),
    ],
)
def test_workloads_that_do_not(spec: dict[str, Any], behind: Workload, says: str) -> None:
    cluster = flat(replace(by_guess(any=10), **spec))
    cluster.tell(BIG, behind)
    report = cluster.cycle(now=10)
    assert admitted(report) == []
    assert waits(report)["w"] == f"PendingEvaluation: would delay big, which comes before it and is {at(60)}{says}"


def test_a_workload_that_starts_after_checks_overtakes_by_no_guess() -> None:
    """Nobody knows when it starts."""
    mine = replace(queue("mine", strategy=BEST, cohort="c", any=7), reserves_starts=True)
    theirs = replace(by_guess("theirs", BEST, "c", any=3), checks=("check",))
    cluster = Cluster(Flavor("any"), mine, theirs, timed("a", 6, 60.0, to="mine"))
    assert admitted(cluster.cycle()) == ["a"]
    cluster.tell(timed("big", 7, None, to="mine", queued=10), guessed("w", 4, 1.0, to="theirs", queued=11))
    report = cluster.cycle(now=12)
    assert told(report, "big") == at(60)
    assert waits(report)["w"] == f"PendingEvaluation: would delay big, which comes before it and is {at(60)}"


def test_a_head_that_may_not_evict_is_overtaken_by_no_guess() -> None:
    cluster = flat()
    cluster.tell(replace(BIG, gated=True), guessed("w", 4, 1.0, queued=11))
    assert admitted(cluster.cycle(now=10)) == []


def overtaken(*more: Workload, spec: ClusterQueue | None = None) -> Cluster:
    """The head is to start at 60, and `w` with four CPUs has overtaken it by its guess."""
    cluster = flat(spec)
    cluster.tell(BIG, guessed("w", 4, 50.0, queued=11), *more)
    assert "w" in admitted(cluster.cycle(now=10))
    return cluster


def test_one_that_ends_in_time_is_never_evicted() -> None:
    cluster = overtaken()
    cluster.finish("w")
    cluster.finish("a")
    report = cluster.cycle(now=60)
    assert (admitted(report), evicted(report)) == (["big"], {})


def test_one_that_outlasts_its_guess_runs_on_until_the_head_is_to_start() -> None:
    cluster = overtaken()
    for now in (20, 59):
        cluster.queues.lines.requeue(("q",))
        report = cluster.cycle(now=now)
        assert evicted(report) == {}
    cluster.finish("a")
    cluster.queues.lines.requeue(("q",))
    assert evicted(cluster.cycle(now=59)) == {}, "the head's moment has not come"
    report = cluster.cycle(now=60)
    assert evicted(report) == {"big": ["w"]}
    leave(cluster, "w", now=60)
    assert admitted(cluster.cycle(now=60)) == ["big"]
    assert cluster.ledger.audit() == []


def leave(cluster: Cluster, *keys: str, now: float) -> None:
    """These are evicted, and have left at once; they wait again."""
    for key in keys:
        running = cluster.ledger.workload(key)
        assert running is not None
        cluster.finish(key)
        cluster.tell(replace(running, admission=None, admitted=None, yields=None, reserved=None))


def test_it_leaves_although_another_one_stays_beyond_its_limit_a_little() -> None:
    """Both are to leave at 60: the head starts once both have."""
    cluster = overtaken()
    assert evicted(cluster.cycle(now=60)) == {"big": ["w"]}
    leave(cluster, "w", now=60)
    assert admitted(cluster.cycle(now=61)) == []
    cluster.finish("a")
    assert admitted(cluster.cycle(now=62)) == ["big"]


def test_only_those_in_the_way_leave_the_least_important_first() -> None:
    cluster = flat(by_guess(any=12))
    small = [guessed(f"w{n}", 2, 30.0, queued=11 + n) for n in range(3)]
    cluster.tell(timed("big", 9, None, queued=10), *small)
    assert admitted(cluster.cycle(now=10)) == ["w0", "w1", "w2"]
    running = [one for one in map(cluster.ledger.workload, ("w0", "w1", "w2")) if one is not None]
    assert [one.yields for one in running] == [None, 60, 60], "the first one leaves what the head needs"
    cluster.finish("a")
    cluster.finish("w0")
    cluster.tell(replace(running[1], priority=-1))
    assert evicted(cluster.cycle(now=60)) == {"big": ["w1"]}


def test_one_that_is_in_nobodys_way_runs_on_and_leaves_for_a_later_head() -> None:
    cluster = overtaken()
    cluster.queues.remove("big")
    cluster.finish("a")
    assert evicted(cluster.cycle(now=100)) == {}
    cluster.tell(timed("next", 7, None, queued=101))
    assert evicted(cluster.cycle(now=101)) == {"next": ["w"]}


def test_a_workload_that_is_no_head_evicts_nobody() -> None:
    cluster = overtaken(spec=by_guess(strategy=BEST, any=10))
    cluster.finish("a")
    cluster.tell(timed("second", 7, None, queued=12))
    report = cluster.cycle(now=60)
    assert evicted(report) == {"big": ["w"]}


def test_a_queue_that_allows_it_respects_the_head_of_one_that_does_not() -> None:
    mine = replace(queue("mine", strategy=BEST, cohort="c", any=5), reserves_starts=True)
    cluster = Cluster(
        Flavor("any"), mine, by_guess("theirs", BEST, "c", any=5), timed("a", 6, 60.0, to="theirs"),
    )  # fmt: skip
    assert admitted(cluster.cycle()) == ["a"]
    cluster.tell(timed("big", 7, None, to="mine", queued=10), guessed("w", 4, 40.0, to="theirs", queued=11))
    report = cluster.cycle(now=12)
    assert told(report, "big") == at(60)
    assert admitted(report) == ["w"]
    cluster.finish("a")
    assert evicted(cluster.cycle(now=60)) == {"big": ["w"]}


def test_a_gang_gets_its_rack_and_a_job_elsewhere_runs_on() -> None:
    """Both overtook it by their guess; only one is in the rack that the gang gets."""
    hosts = [host(f"{rack}{n}", rack, 4) for rack in "xy" for n in range(2)]
    cluster = Cluster(racks(), *hosts, by_guess(tas=99))
    cluster.tell(timed("a", 5, 60.0, racked=True), timed("b", 5, 60.0, racked=True, queued=1))
    assert admitted(cluster.cycle()) == ["a", "b"]
    cluster.tell(timed("gang", 8, None, racked=True, queued=10))
    cluster.cycle(now=10)
    cluster.tell(*(guessed(f"w{n}", 3, 49.0, racked=True, queued=11 + n) for n in range(4)))
    started = [key for key in admitted(cluster.cycle(now=11)) if key.startswith("w")]
    yielding = [key for key in started if (one := cluster.ledger.workload(key)) is not None and one.yields is not None]
    assert yielding
    cluster.finish("a")
    cluster.finish("b")
    [gone] = evicted(cluster.cycle(now=60)).values()
    assert 0 < len(gone) < len(started)
    leave(cluster, *gone, now=60)
    assert "gang" in admitted(cluster.cycle(now=60))
    assert cluster.ledger.audit() == []
