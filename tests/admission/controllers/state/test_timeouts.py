"""What time does to admitted workloads: pods that do not get ready, backoff, the longest time to run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.controllers.state.conditions import released
from admission.controllers.state.lifecycle import LifecycleRules, LifecycleStep, not_before, step
from admission.controllers.state.timeouts import JITTER, PodsReadyRules, RequeueBackoff
from api.meta import find_condition, is_true, parse_time
from api.names import ADMITTED, DEACTIVATION_TARGET, EVICTED, REQUEUED
from api.workloads import Workload
from tests.admission.controllers.state.test_lifecycle import context
from tests.builders import NOW, condition, workload

RULES = LifecycleRules(
    pods_ready=PodsReadyRules(timeout=300, recovery_timeout=60, backoff=RequeueBackoff(60, 600, limit=2))
)
WAITS, FAILED = condition("PodsReady", "False", "WaitForStart"), condition("PodsReady", "False", "WaitForRecovery")
READY = condition("PodsReady", "True", "Started")


def admitted(*conditions: dict[str, Any], **status: Any) -> Workload:
    """Admitted at NOW."""
    return workload(admitted=True, conditions=conditions, status=status)


def after(wl: Workload, seconds: float, rules: LifecycleRules = RULES) -> LifecycleStep:
    return step(wl, context(), NOW + seconds, rules)


@pytest.mark.parametrize(
    ("conditions", "deadline"),
    [
        pytest.param([], 300, id="nothing-said-yet"),
        pytest.param([WAITS], 300, id="waits-for-start"),
        pytest.param([FAILED], 60, id="waits-for-recovery"),
        pytest.param([READY], None, id="ready"),
    ],
)
def test_pods_have_so_long_to_get_ready(conditions: list[dict[str, Any]], deadline: float | None) -> None:
    wl = admitted(*conditions)
    assert after(wl, 10).again_in == (deadline - 10 if deadline else None)
    assert after(wl, 10).eviction is None
    late = after(wl, (deadline or 10_000) + 1)
    assert (late.eviction is not None) == (deadline is not None)


def test_recovery_has_as_long_as_the_start_unless_said_otherwise() -> None:
    assert after(admitted(FAILED), 10, LifecycleRules(PodsReadyRules(300))).again_in == 290


def test_no_workload_waits_for_pods_unless_configured() -> None:
    assert after(admitted(WAITS), 1_000_000, LifecycleRules()).status == admitted(WAITS).status


@pytest.mark.parametrize(("kind", "cause"), [(WAITS, "WaitForStart"), (FAILED, "WaitForRecovery")])
def test_too_late_is_evicted_and_stays_away_for_a_while(kind: dict[str, Any], cause: str) -> None:
    late = after(admitted(kind), 300)
    found = find_condition(late.status.conditions, EVICTED)
    assert found is not None
    assert (found.status, found.reason) == ("True", "PodsReadyTimeout")
    assert found.message == "Exceeded the PodsReady timeout ns/wl"
    assert late.status.scheduling_stats is not None
    [count] = late.status.scheduling_stats.evictions
    assert (count.reason, count.underlying_cause, count.count) == ("PodsReadyTimeout", cause, 1)
    state = late.status.requeue_state
    assert state is not None
    assert state.count == 1
    assert 360 <= (parse_time(state.requeue_at) or 0) - NOW <= 361
    assert late.status.admission is not None, "the job's pods still run"


def test_the_way_back_after_the_backoff() -> None:
    evicted = after(admitted(WAITS), 300).status
    wl = workload().model_copy(update={"status": released(evicted, NOW + 301)})
    early = after(wl, 310)
    assert early.again_in is not None
    assert 50 <= early.again_in <= 51
    assert 360 <= not_before(wl, context()) - NOW <= 361
    back = after(wl, 361).status
    found = find_condition(back.conditions, REQUEUED)
    assert found is not None
    assert (found.status, found.reason) == ("True", "BackoffFinished")
    assert back.requeue_state is not None
    assert (back.requeue_state.count, back.requeue_state.requeue_at) == (1, None)
    assert not_before(wl.model_copy(update={"status": back}), context()) == 0.0


def test_who_has_come_back_often_enough_is_deactivated() -> None:
    wl = admitted(WAITS, requeueState={"count": 2})
    late = after(wl, 300)
    assert late.deactivate
    assert late.eviction is None
    target = find_condition(late.status.conditions, DEACTIVATION_TARGET)
    assert target is not None
    assert (target.reason, target.message) == (
        "RequeuingLimitExceeded",
        "exceeding the maximum number of re-queuing retries",
    )
    off = late.status.model_copy()
    inactive = workload(spec={"active": False}).model_copy(update={"status": off})
    gone = after(inactive, 301)
    assert gone.eviction is not None
    assert gone.eviction.event == "EvictedDueToDeactivatedDueToRequeuingLimitExceeded"
    assert gone.eviction.message == (
        "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    )
    assert gone.status.requeue_state is None
    assert find_condition(gone.status.conditions, DEACTIVATION_TARGET) is None


@given(st.integers(1, 10_000), st.integers(1, 10**6), st.integers(1, 10**6), st.text(max_size=40))
def test_backoff_doubles_up_to_the_longest_with_a_bounded_and_repeatable_jitter(
    times: int, base: int, longest: int, uid: str
) -> None:
    backoff = RequeueBackoff(base, longest)
    plain = min(base * 2 ** (times - 1), longest)
    assert plain <= backoff.wait(times, uid) <= plain * (1 + JITTER)
    assert backoff.wait(times, uid) == backoff.wait(times, uid)


def test_two_workloads_evicted_at_once_come_back_one_after_the_other() -> None:
    assert len({RequeueBackoff(10**6, 10**6).wait(1, f"uid-{n}") for n in range(100)}) > 90


@pytest.mark.parametrize(
    ("limit", "past", "left"),
    [
        pytest.param(None, None, None, id="no-limit"),
        pytest.param(100, None, 100, id="first-admission"),
        pytest.param(100, 70, 30, id="admitted-before"),
        pytest.param(100, 170, 0, id="used-up-before"),
    ],
)
def test_the_longest_time_to_run_counts_all_admissions(limit: int | None, past: int | None, left: float | None) -> None:
    wl = workload(
        admitted=True,
        spec={"maximumExecutionTimeSeconds": limit} if limit else {},
        status={"accumulatedPastExecutionTimeSeconds": past} if past else {},
    )
    if left:
        assert after(wl, left - 1).again_in == 1
        assert not after(wl, left - 1).deactivate
    over = after(wl, left or 0)
    assert over.deactivate == (left is not None)
    if left is not None:
        assert [(o.reason, o.type) for o in over.events] == [("MaximumExecutionTimeExceeded", "Warning")]
        target = find_condition(over.status.conditions, DEACTIVATION_TARGET)
        assert target is not None
        assert target.message == "exceeding the maximum execution time"


def test_time_that_was_used_up_is_forgotten_when_a_user_takes_the_workload_back_into_service() -> None:
    reasons = condition(EVICTED, "True", "DeactivatedDueToMaximumExecutionTimeExceeded")
    held = condition(REQUEUED, "False", "DeactivatedDueToMaximumExecutionTimeExceeded")
    wl = workload(conditions=[reasons, held], status={"accumulatedPastExecutionTimeSeconds": 100})
    back = after(wl, 1).status
    found = find_condition(back.conditions, REQUEUED)
    assert found is not None
    assert (found.status, found.reason) == ("True", "Reactivated")
    assert back.accumulated_past_execution_time_seconds is None
    assert not is_true(back.conditions, ADMITTED)
