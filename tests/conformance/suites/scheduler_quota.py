"""scheduler_quota: one round without topology: admissions, conditions, who is left where, events, counters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.runner import Case
from tests.conformance.suites.cycles import CycleCase, shown_admission, shown_workload

OUTSIDE = {
    "workload-slice": "a replaced slice counts until it is Finished; ours counts the later one alone",
    "concurrent admission": "out of scope: concurrent admission",
}


def run(case: Case) -> None:
    """All that Kueue asserts, and the words of its events."""
    for part, reason in OUTSIDE.items():
        if part in case["name"]:
            pytest.skip(reason)
    world, want = CycleCase(case), case["want"]
    report = world.round()
    assert shown(world) == {object_key(w): shown_workload(w) for w in want["wantWorkloads"]}
    wanted = {key: shown_admission(admission) for key, admission in (want["wantAssignments"] or {}).items()}
    assert world.assignments() == wanted
    left, asleep = world.left()
    assert left == sets(want["wantLeft"])
    assert asleep == sets(want["wantInadmissibleLeft"])
    if want["wantEvents"] is not None:
        assert told(world.events, want) == told(want["wantEvents"], want)
    assert_words(world, case)
    for queue, count in (want["wantSkippedPreemptions"] or {}).items():
        assert report.skipped.get(queue, 0) == count
    for queue, outcomes in (want["wantPreemptionTargetRecomputations"] or {}).items():
        assert dict(report.recomputed[queue]) == outcomes
    assert world.ledger.audit() == []


def object_key(obj: dict[str, Any]) -> str:
    """namespace/name"""
    meta = obj["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def shown(world: CycleCase) -> dict[str, Any]:
    """All Workloads after the round."""
    return {key: shown_workload(workload.to_wire()) for key, workload in world.workloads.items()}


def told(events: list[dict[str, Any]], want: dict[str, Any]) -> list[tuple[str, ...]]:
    """The events, with their messages where those count."""
    kept = ("key", "eventType", "reason") if want["eventMessageIgnored"] else ("key", "eventType", "reason", "message")
    return [tuple(_text(event.get(part)) for part in kept) for event in events]


def assert_words(world: CycleCase, case: Case) -> None:
    """Every event of Kueue, in Kueue's words; also where its own test looks at neither."""
    whole = {"eventMessageIgnored": False}
    assert sorted(told(world.events, whole)) == sorted(told(case["observed"].get("events") or [], whole))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value.get('namespace', value.get('Namespace', ''))}/{value.get('name', value.get('Name', ''))}"
    return str(value or "")


def sets(value: dict[str, list[str]] | None) -> dict[str, set[str]]:
    """Keys by queue, in no order."""
    return {queue: set(keys) for queue, keys in (value or {}).items()}
