"""Backfill with reservation: when the head is to start, who may start before it, and who may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Wait
from admission.engine.model import ClusterQueue, Flavor, PodSet, QueueingStrategy, TopologyRequest, Workload
from tests.admission.engine.builders import (
    BEST,
    CPU,
    RACK,
    STRICT,
    Cluster,
    admitted,
    host,
    queue,
    racks,
    waits,
    workload,
)

RACKED = TopologyRequest(required=RACK)


def timed(
    key: str,
    cpus: int,
    limit: float | None,
    *,
    queued: float = 0.0,
    priority: int = 0,
    to: str = "q",
    racked: bool = False,
) -> Workload:
    """Pods of one CPU that run for so many seconds at most."""
    topology = RACKED if racked else None
    made = workload(key, cpus, to=to, queued=queued, priority=priority, topology=topology)
    return replace(made, time_limit=limit)


def filling(
    strategy: QueueingStrategy = STRICT, name: str = "q", cohort: str | None = None, **flavors: int
) -> ClusterQueue:
    return replace(queue(name, strategy=strategy, cohort=cohort, **flavors), reserves_starts=True)


def flat(*running: Workload, strategy: QueueingStrategy = STRICT, quota: int = 10) -> Cluster:
    """Quota alone counts: these run from 0 on."""
    cluster = Cluster(Flavor("any"), filling(strategy, any=quota), *running)
    assert sorted(admitted(cluster.cycle())) == sorted(one.key for one in running)
    return cluster


def told(report: CycleReport, key: str) -> str:
    [wait] = [d for d in report.decisions if isinstance(d, Wait) and d.workload == key]
    return wait.message.rpartition("; ")[2]


def at(seconds: int) -> str:
    return f"expected to start at 1970-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z or before"


BIG = timed("big", 8, None, queued=10)


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@pytest.mark.parametrize(
    ("running", "behind", "passes"),
    [
        pytest.param([("a", 6, 60.0)], ("w", 4, 50.0), True, id="ends in time"),
        pytest.param([("a", 6, 60.0)], ("w", 4, 51.0), False, id="ends a second late"),
        pytest.param([("a", 6, 60.0)], ("w", 2, None), True, id="never ends, and leaves what the head needs"),
        pytest.param([("a", 6, 60.0)], ("w", 3, None), False, id="never ends, and takes one of what it needs"),
        pytest.param([("a", 6, 60.0), ("b", 2, None)], ("w", 1, None), False, id="what never ends is not waited for"),
        pytest.param([("a", 3, 60.0), ("b", 3, 90.0)], ("w", 4, 80.0), True, id="the head waits for the second end"),
        pytest.param([("a", 3, 60.0), ("b", 3, 90.0)], ("w", 4, 81.0), False, id="late for the second end"),
    ],
)  # fmt: skip
def test_workloads_that_may_overtake(
    running: list[tuple[str, int, float | None]],
    behind: tuple[str, int, float | None],
    passes: bool,
    strategy: QueueingStrategy,
) -> None:
    cluster = flat(*(timed(*one) for one in running), strategy=strategy)
    cluster.tell(BIG, timed(*behind, queued=11))
    report = cluster.cycle(now=10)
    start = 90 if len(running) == 2 and running[1][2] else 60
    assert told(report, "big") == at(start)
    assert admitted(report) == (["w"] if passes else [])
    if not passes:
        assert told(report, "w") == f"would delay big, which comes before it and is {at(start)}"


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@pytest.mark.parametrize(("limit", "passes"), [(75.0, True), (76.0, False)])
def test_the_time_that_pods_have_to_end_counts(limit: float, passes: bool, strategy: QueueingStrategy) -> None:
    """The head starts once the pods before it have ended, and one behind it may start whose pods have ended by then."""
    cluster = flat(replace(timed("a", 6, 60.0), termination=30.0), strategy=strategy)
    cluster.tell(BIG, replace(timed("w", 4, limit, queued=11), termination=5.0))
    report = cluster.cycle(now=10)
    assert told(report, "big") == at(90)
    assert admitted(report) == (["w"] if passes else [])


@pytest.mark.parametrize(
    ("strategy", "passes"), [pytest.param(STRICT, [], id="strict"), pytest.param(BEST, ["w"], id="best effort")]
)
@pytest.mark.parametrize(
    "big",
    [
        pytest.param(BIG, id="nobody knows when"),
        pytest.param(replace(BIG, pod_sets=(PodSet("main", 99, {"cpu": CPU}),)), id="it never fits"),
    ],
)
def test_without_a_moment_the_queue_is_as_it_was(big: Workload, strategy: QueueingStrategy, passes: list[str]) -> None:
    cluster = flat(timed("a", 6, None), strategy=strategy)
    cluster.tell(big, timed("w", 1, 1, queued=11))
    report = cluster.cycle(now=10)
    assert admitted(report) == passes
    assert "expected" not in next(d.message for d in report.decisions if isinstance(d, Wait))


@pytest.mark.parametrize("apart", [pytest.param(False, id="in one cycle"), pytest.param(True, id="in later cycles")])
def test_while_the_start_of_the_first_is_unknown_no_start_is_reserved_for_the_second(apart: bool) -> None:
    """The first may start first, and take what the second was told to get."""
    cluster = flat(timed("a", 6, None), timed("b", 4, 60.0), strategy=BEST)
    cluster.tell(BIG)
    if apart:
        cluster.cycle(now=10)
    cluster.tell(timed("second", 3, 100.0, queued=11), timed("third", 4, 100.0, queued=12))
    report = cluster.cycle(now=11)
    assert {"second", "third"} <= set(waits(report))
    assert not any("expected" in message for message in waits(report).values())
    cluster.queues.remove("big")
    report = cluster.cycle(now=12)
    assert told(report, "second") == at(60)
    assert "expected" not in waits(report)["third"]


def test_a_higher_priority_workload_with_unknown_start_ends_the_reserved_start_of_another() -> None:
    cluster = flat(timed("a", 6, None), timed("b", 4, 60.0), strategy=BEST)
    cluster.tell(timed("second", 4, None, queued=11))
    assert told(cluster.cycle(now=11), "second") == at(60)
    cluster.tell(replace(BIG, priority=1))
    reports = [cluster.cycle(now=12), cluster.cycle(now=13)]
    answers = [waits(report)["second"] for report in reports if "second" in waits(report)]
    assert answers
    assert "expected" not in answers[-1]
    assert cluster.queues.starts.of("q") is None


def test_a_first_workload_that_never_fits_keeps_no_reserved_start_from_the_second() -> None:
    """It takes nothing from those behind it."""
    cluster = flat(timed("a", 6, None), timed("b", 4, 60.0), strategy=BEST)
    never = replace(BIG, pod_sets=(PodSet("main", 99, {"cpu": CPU}),))
    cluster.tell(never, timed("second", 3, 100.0, queued=11))
    assert told(cluster.cycle(now=11), "second") == at(60)


def test_a_queue_that_does_not_ask_for_it_is_as_it_was() -> None:
    cluster = flat(timed("a", 6, 60.0))
    cluster.tell(queue(strategy=STRICT, any=10), BIG, timed("w", 1, 1, queued=11))
    assert admitted(cluster.cycle(now=10)) == []
    cluster.tell(filling(any=10))
    assert admitted(cluster.cycle(now=10)) == ["w"]
    cluster.tell(queue(strategy=STRICT, any=10), timed("v", 1, 1, queued=12))
    assert admitted(cluster.cycle(now=11)) == []


def test_the_head_starts_at_its_expected_time() -> None:
    cluster = flat(timed("a", 6, 60.0))
    cluster.tell(BIG, timed("w", 4, 50.0, queued=11))
    assert admitted(cluster.cycle(now=10)) == ["w"]
    cluster.finish("a")
    cluster.finish("w")
    assert admitted(cluster.cycle(now=60)) == ["big"]


def test_an_end_before_its_time_brings_the_head_forward() -> None:
    cluster = flat(timed("a", 3, 90.0), timed("b", 3, 200.0))
    cluster.tell(BIG)
    assert told(cluster.cycle(now=10), "big") == at(200)
    cluster.finish("b")
    assert told(cluster.cycle(now=20), "big") == at(200), "a moment stands for a while"
    cluster.queues.lines.requeue(("q",))
    assert told(cluster.cycle(now=80), "big") == at(90)
    cluster.finish("a")
    assert admitted(cluster.cycle(now=81)) == ["big"]


def test_overdue_workloads_are_expected_to_end_at_any_moment() -> None:
    cluster = flat(timed("a", 6, 60.0))
    cluster.tell(BIG)
    cluster.cycle(now=10)
    assert cluster.queues.next_due() == 60
    cluster.tell(timed("w", 1, 1, queued=11), timed("v", 3, 1, queued=12))
    report = cluster.cycle(now=70)
    assert told(report, "big") == at(70)
    assert admitted(report) == ["w"], "what the head needs is not given away for a second"


def test_when_the_head_leaves_the_next_one_is_the_head() -> None:
    cluster = flat(timed("a", 6, 60.0), strategy=BEST)
    cluster.tell(BIG, timed("next", 7, None, queued=11), timed("w", 4, 60.0, queued=12))
    report = cluster.cycle(now=10)
    assert "expected" not in told(report, "next")
    assert told(report, "w").startswith("would delay big")
    cluster.queues.remove("big")
    report = cluster.cycle(now=11)
    assert told(report, "next") == at(60)
    assert told(report, "w").startswith("would delay next")


def test_a_more_important_one_becomes_the_head() -> None:
    cluster = flat(timed("a", 6, 60.0), strategy=BEST)
    cluster.tell(BIG)
    cluster.cycle(now=10)
    cluster.tell(timed("urgent", 9, None, queued=12, priority=5), timed("w", 2, None, queued=13))
    report = cluster.cycle(now=12)
    assert told(report, "urgent") == at(60)
    assert told(report, "w").startswith("would delay urgent")


def test_how_long_they_run_sets_workloads_of_a_kind_apart() -> None:
    cluster = flat(timed("a", 6, 60.0))
    cluster.tell(BIG, timed("long", 4, 600.0, queued=11), timed("short", 4, 30.0, queued=12))
    assert admitted(cluster.cycle(now=10)) == ["short"]


def test_other_queues_that_share_its_quota_respect_it_unless_they_come_first() -> None:
    cluster = Cluster(
        Flavor("any"),
        filling(BEST, "mine", "c", any=5),
        queue("theirs", cohort="c", any=5),
        timed("a", 6, 60.0, to="theirs"),
    )
    assert admitted(cluster.cycle()) == ["a"]
    cluster.tell(timed("big", 5, None, to="mine", queued=10))
    assert told(cluster.cycle(now=10), "big") == at(60)
    cluster.tell(
        timed("late", 3, None, to="theirs", queued=11), timed("urgent", 4, None, to="theirs", queued=12, priority=1)
    )
    report = cluster.cycle(now=12)
    assert admitted(report) == ["urgent"], "it comes before the head"
    assert "late" not in admitted(report)


def test_a_queue_of_another_flavor_is_not_concerned() -> None:
    cluster = flat(timed("a", 6, 60.0))
    cluster.tell(Flavor("other"), queue("o", other=4), BIG, timed("w", 4, None, to="o", queued=11))
    assert admitted(cluster.cycle(now=10)) == ["w"]


@pytest.mark.parametrize("cohort", [pytest.param(None, id="alone"), pytest.param("c", id="cohort")])
def test_what_starts_in_a_cycle_ends_for_the_heads_after_it(cohort: str | None) -> None:
    cluster = Cluster(Flavor("any"), filling(name="p", cohort=cohort, any=4), filling(name="q", cohort=cohort, any=6))
    cluster.tell(timed("a", 4, 60.0, to="p"))
    assert admitted(cluster.cycle()) == ["a"]
    cluster.tell(
        timed("first", 4, 600.0, to="p", queued=10), timed("w", 6, 80.0, queued=11), timed("next", 6, 1.0, queued=12)
    )
    report = cluster.cycle(now=12)
    assert admitted(report) == ["w"]
    assert told(report, "first") == at(60)
    assert told(report, "next") == at(92)


# ---- nodes


def hall(*running: Workload, quota: int = 99) -> Cluster:
    """Two racks of two hosts of four CPUs each."""
    hosts = [host(f"{rack}{n}", rack, 4) for rack in "xy" for n in range(2)]
    cluster = Cluster(racks(), *hosts, filling(tas=quota), *running)
    assert sorted(admitted(cluster.cycle())) == sorted(one.key for one in running)
    return cluster


def test_a_gang_gets_its_rack_and_the_other_one_is_filled() -> None:
    cluster = hall(timed("a", 8, 60.0, racked=True), timed("b", 6, None, racked=True, queued=1))
    cluster.tell(
        timed("gang", 8, None, racked=True, queued=10),
        timed("two", 2, None, racked=True, queued=11),
        timed("more", 1, None, racked=True, queued=12),
    )
    report = cluster.cycle(now=10)
    assert told(report, "gang") == at(60)
    assert admitted(report) == ["two"], "the rest of the other rack; nothing more is free"


def test_a_rack_that_is_empty_but_for_one_host_waits_for_the_gang() -> None:
    cluster = hall(timed("a", 1, 60.0, racked=True), timed("b", 8, None, racked=True, queued=1))
    cluster.tell(
        timed("gang", 8, None, racked=True, queued=10),
        timed("never", 1, None, racked=True, queued=11),
        timed("long", 1, 51, racked=True, queued=12),
        timed("short", 7, 50, racked=True, queued=13),
    )
    report = cluster.cycle(now=10)
    assert told(report, "gang") == at(60)
    assert admitted(report) == ["short"]
    assert cluster.ledger.audit() == []


def test_looking_ahead_leaves_the_ledger_unchanged() -> None:
    cluster = hall(*(timed(f"r{n}", 2, 60.0 + n, queued=n, racked=True) for n in range(8)))
    before = list(cluster.ledger.inputs())
    cluster.tell(*(timed(f"w{n}", 8, 500.0, queued=20 + n, racked=True) for n in range(3)))
    report = cluster.cycle(now=20)
    assert admitted(report) == []
    assert told(report, "w0") == at(63), "three of the four in one rack do not do"
    assert list(cluster.ledger.inputs()) == before
    assert cluster.ledger.audit() == []
