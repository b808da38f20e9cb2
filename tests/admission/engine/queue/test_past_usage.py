"""Past usage of LocalQueues: samples, penalties and weights against figures computed by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.queue.past_usage import LARGEST, MOST_GONE, PastUsage, UsageRules
from tests.admission.engine.builders import CPU
from tests.admission.engine.queue.used import HOUR, RULES, admission, few, of

# ---- samples


def test_a_sample_after_one_half_life_counts_half_of_what_was_and_half_of_what_is_held() -> None:
    past = PastUsage(RULES)
    past.hold(of("ns/a"), admission(8))
    past.sample("ns/a", 0.0)
    assert past.usage("ns/a") == 0.0, "the first sample begins the history"
    past.sample("ns/a", HOUR)
    assert past.usage("ns/a") == 4.0
    past.sample("ns/a", 2 * HOUR)
    assert past.usage("ns/a") == 6.0
    past.release("ns/w")
    past.sample("ns/a", 4 * HOUR)
    assert past.usage("ns/a") == 1.5, "two half-lives later a quarter is left"


def test_two_samples_give_what_one_over_the_same_time_gives() -> None:
    once, twice = PastUsage(RULES), PastUsage(RULES)
    for past in (once, twice):
        past.hold(of("ns/a"), admission(8))
        past.sample("ns/a", 0.0)
    once.sample("ns/a", HOUR)
    twice.sample("ns/a", HOUR / 3)
    twice.sample("ns/a", HOUR)
    assert twice.usage("ns/a") == pytest.approx(once.usage("ns/a"))


def test_what_is_held_beside_quota_counts_as_usage() -> None:
    past = PastUsage(RULES)
    past.hold(of("ns/a"), admission(2))
    past.sample("ns/a", 0.0)
    past.sample("ns/a", HOUR, {"cpu": 6 * CPU})
    assert past.usage("ns/a") == 4.0
    past.sample("ns/a", 2 * HOUR)
    assert past.usage("ns/a") == 6.0, "it counts until another sample says otherwise"


def test_a_clock_that_goes_back_changes_nothing() -> None:
    past = PastUsage(RULES)
    past.hold(of("ns/a"), admission(8))
    past.sample("ns/a", HOUR)
    past.sample("ns/a", 0.0)
    past.sample("ns/a", 2 * HOUR)
    assert past.usage("ns/a") == 4.0


def test_a_half_life_of_zero_forgets_at_once() -> None:
    past = PastUsage(UsageRules(half_life=0.0))
    past.enter(of("ns/a"), admission(8), 0.0)
    past.sample("ns/a", HOUR)
    assert past.usage("ns/a") == 0.0


# ---- penalties


def test_an_admission_costs_a_penalty_at_once_which_stays_when_it_is_written() -> None:
    past = PastUsage(RULES)
    past.enter(of("ns/a"), admission(8), 0.0)
    assert past.usage("ns/a") == 4.0, "a = 1/2 of 8 CPUs"
    past.written(of("ns/a"), 0.0)
    assert past.usage("ns/a") == 4.0
    past.written(of("ns/a"), 0.0)
    assert past.usage("ns/a") == 4.0, "it is settled once"
    past.sample("ns/a", HOUR)
    assert past.usage("ns/a") == 6.0, "(4 + 8) / 2"


def test_a_penalty_is_returned_if_the_admission_is_undone() -> None:
    past = PastUsage(RULES)
    past.enter(of("ns/a"), admission(8), 0.0)
    past.release("ns/w")
    assert past.usage("ns/a") == 0.0


def test_a_penalty_that_was_settled_stays_when_the_workload_leaves() -> None:
    past = PastUsage(RULES)
    past.enter(of("ns/a"), admission(8), 0.0)
    past.written(of("ns/a"), 0.0)
    past.release("ns/w")
    assert past.usage("ns/a") == 4.0


def test_a_workload_that_the_watch_shows_again_pays_once_and_is_counted_once() -> None:
    past = PastUsage(RULES)
    past.enter(of("ns/a"), admission(8), 0.0)
    for _ in range(3):
        past.hold(of("ns/a"), admission(8))
    assert past.usage("ns/a") == 4.0
    past.hold(of("ns/a"), admission(4))
    assert past.usage("ns/a") == 4.0, "fewer pods change what is held, not the penalty"
    past.written(of("ns/a"), 0.0)
    past.sample("ns/a", HOUR)
    assert past.usage("ns/a") == 4.0, "(4 + 4) / 2"


def test_an_elastic_job_that_grows_pays_for_what_it_gains() -> None:
    past = PastUsage(RULES)
    past.enter(of("ns/a", "ns/old"), admission(6), 0.0)
    past.written(of("ns/a", "ns/old"), 0.0)
    past.enter(replace(of("ns/a", "ns/new"), replaces="ns/old"), admission(8), 0.0)
    assert past.usage("ns/a") == 4.0, "(6 + 2) / 2"


# ---- weights


@pytest.mark.parametrize(
    ("weight", "resources", "usage"),
    [
        pytest.param(1.0, {}, 6.0, id="by-default-all-count-once"),
        pytest.param(2.0, {}, 3.0, id="twice-the-weight-half-the-usage"),
        pytest.param(0.5, {}, 12.0, id="half-the-weight"),
        pytest.param(1.0, {"cpu": 0.0, "gpu": 100.0}, 200.0, id="gpus-alone"),
        pytest.param(0.0, {}, inf, id="weight-zero-is-infinite-usage"),
        pytest.param(0.0, {"cpu": 0.0, "gpu": 0.0}, inf, id="weight-zero-of-no-usage"),
        pytest.param(-1.0, {}, inf, id="negative-weight"),
    ],
)
def test_usage_is_weighted_by_resource_and_local_queue(
    weight: float, resources: dict[str, float], usage: float
) -> None:
    past = PastUsage(replace(RULES, weights=resources))
    past.hold(of("ns/a"), admission(8, gpus=4))
    past.sample("ns/a", 0.0)
    past.sample("ns/a", HOUR)
    past.set_weight("ns/a", weight)
    assert past.usage("ns/a") == usage


# ---- what is stored


def test_nonsense_is_left_out_of_a_restored_history() -> None:
    past = PastUsage(RULES)
    past.restore("ns/a", {"cpu": 2000.0, "gpu": -5.0, "memory": nan, "disk": inf, "more": 1e300}, 0.0)
    assert past.record("ns/a").consumed == {"cpu": 2000.0, "more": LARGEST}


def test_what_is_known_counts_instead_of_what_is_stored() -> None:
    past = PastUsage(RULES)
    past.restore("ns/a", {"cpu": 2000.0}, 0.0)
    past.restore("ns/a", {"cpu": 0.0}, 0.0)
    assert past.usage("ns/a") == 2.0
    past.restore("ns/a", {"cpu": 7000.0}, 0.0, again=True)
    assert past.usage("ns/a") == 7.0, "another replica leads"


def test_a_local_queue_that_is_created_again_continues_its_history() -> None:
    past = PastUsage(RULES)
    past.restore("ns/a", {"cpu": 2000.0}, 0.0)
    past.set_weight("ns/a", 2.0)
    past.drop("ns/a")
    past.set_weight("ns/a", 2.0)
    assert past.usage("ns/a") == 1.0


def test_deleted_local_queues_are_forgotten_in_the_end() -> None:
    past = PastUsage(RULES)
    past.restore("ns/a", {"cpu": 2000.0}, 0.0)
    past.drop("ns/a")
    assert past.gone() == ["ns/a"]
    past.sample("ns/a", 1000 * HOUR)
    assert not past.gone()
    for n in range(2 * MOST_GONE):
        past.restore(f"ns/{n}", {"cpu": 1.0}, 0.0)
        past.drop(f"ns/{n}")
    assert len(past.gone()) <= MOST_GONE


def test_nothing_is_kept_without_rules() -> None:
    past = PastUsage()
    past.enter(of("ns/a"), admission(8), 0.0)
    past.set_weight("ns/a", 0.0)
    past.restore("ns/a", {"cpu": 1.0}, 0.0)
    past.sample("ns/a", 1.0)
    assert not past
    assert list(past.records()) == []
    assert past.usage("ns/a") == 0.0


@few
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["enter", "written", "release", "sample", "hold"]), st.integers(0, 3), st.integers(1, 9)
        ),
        max_size=30,
    )
)
def test_sums_follow_from_the_workloads_that_hold_quota(steps: list[tuple[str, int, int]]) -> None:
    past, holds = PastUsage(RULES), dict[str, int]()
    for at, (step, which, cpus) in enumerate(steps):
        one = of(f"ns/{which % 2}", f"ns/w{which}", cpus)
        match step:
            case "enter":
                past.enter(one, admission(cpus), float(at))
                holds[one.key] = cpus
            case "hold":
                past.hold(one, admission(cpus))
                holds[one.key] = cpus
            case "release":
                past.release(one.key)
                holds.pop(one.key, None)
            case "written":
                past.written(one, float(at))
            case _:
                past.sample(one.queue, float(at))
    fresh = PastUsage(RULES)
    for key, cpus in holds.items():
        fresh.hold(of(f"ns/{int(key[-1]) % 2}", key, cpus), admission(cpus))
    for local in ("ns/0", "ns/1"):
        for made in (past, fresh):
            made.restore(local, {}, float(len(steps)), again=True)
            made.sample(local, 1e9)
        later = past.record(local)
        assert later.consumed == pytest.approx(fresh.record(local).consumed)
