"""Waiting members of gangs are told why, and not too often."""

from __future__ import annotations

from dataclasses import replace

from admission.controllers.pods.gangs.gang_events import AGAIN, BURST, KEPT, PATIENCE, GangMessages
from admission.integrations.pods.gang import PodGang
from admission.integrations.pods.pod import QueuedPod
from tests.admission.controllers.pods.gang_simulation import GangSimulation

A = PodGang("a", 3)
KEY = "group:ns/a"


def waiting(count: int) -> tuple[float, list[QueuedPod]]:
    world = GangSimulation(1)
    for _ in range(count):
        world.create(A)
    return world.now, list(world.pods.values())


def told(teller: GangMessages, pods: list[QueuedPod], text: str, now: float) -> list[tuple[str, str]]:
    events, _ = teller.due(KEY, "a", pods, {pod.key: text for pod in pods}, now)
    return [(pod.metadata.name, event.message) for pod, event in events]


def test_each_waiting_member_gets_one_event_for_each_reason() -> None:
    teller, (start, pods) = GangMessages(), waiting(2)
    assert told(teller, pods, "2 of 3 pods exist", start) == [], "most gangs start sooner"
    now = start + PATIENCE
    assert told(teller, pods, "2 of 3 pods exist", now) == [
        ("a-1", "gang a waits: 2 of 3 pods exist"),
        ("a-2", "gang a waits: 2 of 3 pods exist"),
    ]
    assert told(teller, pods, "2 of 3 pods exist", now + AGAIN) == []
    assert told(teller, pods, "no quota", now + AGAIN - 1) == [], "not so soon again"
    assert len(told(teller, pods, "no quota", now + AGAIN)) == 2
    assert len(told(teller, pods, "no quota", now + AGAIN + KEPT)) == 2, "the API server forgets events"


def test_a_member_that_does_not_wait_gets_no_event() -> None:
    teller, (start, pods) = GangMessages(), waiting(2)
    running = replace(pods[0], gated=False)
    assert told(teller, [running, pods[1]], "2 of 3 pods exist", start + PATIENCE) == [
        ("a-2", "gang a waits: 2 of 3 pods exist")
    ]
    assert told(teller, pods, "", start + PATIENCE) == []


def test_a_large_gang_gets_its_events_in_batches() -> None:
    teller, (now, pods) = GangMessages(), waiting(400)
    now += PATIENCE
    found: list[str] = []
    looks = 0
    while len(found) < len(pods):
        reasons = {pod.key: "no quota" for pod in pods}
        events, again = teller.due(KEY, "a", pods, reasons, now)
        assert len(events) <= BURST
        found += [pod.metadata.name for pod, _ in events]
        now, looks = now + (again or 0.0), looks + 1
    assert len(found) == len(set(found)) == 400
    assert looks > 3
