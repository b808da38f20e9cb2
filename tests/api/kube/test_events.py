"""Events are short, counted up, and in nobody's way."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from api.kube.events import NORMAL, WARNING, EventRecorder, ObjectRef, ref_to
from api.kube.resources import NODES, WORKLOADS
from tests.api.kube.clock import ManualClock, until
from tests.api.kube.server import Script, answer, scripted, status

REF = ObjectRef("v1", "Pod", "p", "team", "u-1", "5")


@pytest.fixture
def script() -> Script:
    return Script()


def sent(script: Script) -> list[tuple[str, str, dict[str, Any]]]:
    return [(r.method, r.path, json.loads(body)) for r, body in zip(script.requests, script.bodies, strict=True)]


async def test_an_event_is_written(script: Script, tmp_path: Path) -> None:
    script.then(answer({}))
    async with scripted(script, tmp_path) as kube:
        recorder = EventRecorder(kube, "stowage", now=lambda: 1_767_225_600.0)
        recorder.record(REF, NORMAL, "Admitted", "in rack r1")
        await recorder.flush()
    [(method, path, body)] = sent(script)
    assert (method, path) == ("POST", "/api/v1/namespaces/team/events")
    assert body.pop("metadata") == {"name": f"p.{1_767_225_600_000_000:x}", "namespace": "team"}
    involved = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": "team",
        "uid": "u-1",
        "resourceVersion": "5",
    }
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": involved,
        "type": "Normal",
        "reason": "Admitted",
        "message": "in rack r1",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "stowage"},
        "reportingComponent": "stowage",
    }


async def test_the_same_sentence_counts_up_one_event(script: Script, tmp_path: Path) -> None:
    script.then(*[answer({})] * 3)
    async with scripted(script, tmp_path) as kube:
        recorder = EventRecorder(kube, "stowage")
        for _ in range(3):
            recorder.record(REF, WARNING, "Pending", "no room")
        await recorder.flush()
        for version in ("6", "7"):
            recorder.record(ObjectRef("v1", "Pod", "p", "team", "u-1", version), WARNING, "Pending", "no room")
        await recorder.flush()
        recorder.record(REF, WARNING, "Pending", "still no room")
        await recorder.flush()
    first, second, third = sent(script)
    assert (first[0], first[2]["count"]) == ("POST", 3)
    assert second[:2] == ("PATCH", f"{first[1]}/{first[2]['metadata']['name']}")
    assert second[2]["count"] == 5
    assert (third[0], third[2]["count"]) == ("POST", 1)


async def test_a_forgotten_event_is_made_again(script: Script, tmp_path: Path) -> None:
    script.then(answer({}), status(404, "NotFound"), answer({}), answer({}))
    async with scripted(script, tmp_path) as kube:
        clock = ManualClock()
        recorder = EventRecorder(kube, "stowage", clock=clock)
        for _ in range(2):
            recorder.record(REF, NORMAL, "Pending", "no room")
            await recorder.flush()
        await clock.advance(601)  # we forget as well
        recorder.record(REF, NORMAL, "Pending", "no room")
        await recorder.flush()
    assert [method for method, _, _ in sent(script)] == ["POST", "PATCH", "POST", "POST"]


async def test_long_messages_are_cut(script: Script, tmp_path: Path) -> None:
    script.then(answer({}), answer({}))
    async with scripted(script, tmp_path) as kube:
        recorder = EventRecorder(kube, "stowage")
        recorder.record(REF, NORMAL, "Long", "x" * 1024)
        recorder.record(REF, NORMAL, "Longer", "x" * 1025)
        await recorder.flush()
    assert [body["message"] for _, _, body in sent(script)] == ["x" * 1024, "x" * 1021 + "..."]


async def test_what_does_not_fit_is_counted_and_callers_do_not_wait(script: Script, tmp_path: Path) -> None:
    before = dropped("full")
    script.then(*[answer({})] * 2)
    async with scripted(script, tmp_path) as kube:
        recorder = EventRecorder(kube, "stowage", limit=2)
        for number in range(5):
            recorder.record(REF, NORMAL, "Many", f"number {number}")
        recorder.record(REF, NORMAL, "Many", "number 0")  # known: counts up, needs no room
        assert recorder.waiting == 2
        await recorder.flush()
    assert dropped("full") == before + 3
    assert [body["count"] for _, _, body in sent(script)] == [2, 1]


async def test_late_events_of_an_object_that_is_gone_make_way_for_those_of_others(
    script: Script, tmp_path: Path
) -> None:
    before, now = dropped("gone"), 1_000.0
    script.then(*[answer({})] * 3)
    async with scripted(script, tmp_path) as kube:
        recorder = EventRecorder(kube, "stowage", now=lambda: now)
        other = ObjectRef("v1", "Pod", "q", "team", "u-2", "5")
        for ref in (REF, other):
            recorder.record(ref, NORMAL, "Early", "waits for its turn")
        now += 61
        recorder.record(REF, NORMAL, "Ended", "tells why it went")
        recorder.object_gone("u-1")
        recorder.object_gone("u-3")
        await recorder.flush()
        assert recorder.waiting == 0
        recorder.record(REF, NORMAL, "Late", "recorded after the deletion")
        now += 61
        await recorder.flush()
    told = [(body["involvedObject"]["name"], body["reason"]) for _, _, body in sent(script)]
    assert told == [("q", "Early"), ("p", "Ended"), ("p", "Late")]
    assert dropped("gone") == before + 1


async def test_a_refusal_loses_one_event_only(script: Script, tmp_path: Path) -> None:
    before = dropped("Forbidden")
    script.then(status(403, "Forbidden", "namespace is terminating"), answer({}))
    async with scripted(script, tmp_path) as kube:
        recorder = EventRecorder(kube, "stowage")
        task = asyncio.create_task(recorder.run())
        recorder.record(REF, NORMAL, "One", "lost")
        recorder.record(REF, NORMAL, "Two", "kept")
        await until(lambda: len(script.requests) == 2 and recorder.waiting == 0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert dropped("Forbidden") == before + 1


async def test_cluster_scoped_objects_have_their_events_in_default(script: Script, tmp_path: Path) -> None:
    script.then(answer({}))
    async with scripted(script, tmp_path) as kube:
        recorder = EventRecorder(kube, "stowage")
        recorder.record(ref_to(NODES, {"metadata": {"name": "n1", "uid": "u"}}), NORMAL, "Seen", "a node")
        await recorder.flush()
    [(_, path, body)] = sent(script)
    assert path == "/api/v1/namespaces/default/events"
    assert body["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}


def test_references_name_the_kind_even_where_the_object_does_not() -> None:
    obj = {"metadata": {"name": "w", "namespace": "team", "uid": "u", "resourceVersion": "3"}}
    assert ref_to(WORKLOADS, obj) == ObjectRef("kueue.x-k8s.io/v1beta2", "Workload", "w", "team", "u", "3")


def dropped(why: str) -> float:
    labels = {"component": "stowage", "why": why}
    return REGISTRY.get_sample_value("stowage_events_dropped_total", labels) or 0.0
