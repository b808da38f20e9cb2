"""Past usage between the status of a LocalQueue and the engine: what is read, what is refused, whose figures count."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.past_usage import UsageReader, UsageSampler, stored_usage, usage_status
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.past_usage import PastUsage, UsageRecord, UsageRules
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from api.kube.client import Kube
from api.kube.informers.store import Store
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from api.names import API_VERSION
from api.queues import LocalQueue
from api.text.quantity import to_precise_text
from tests.admission.controllers.installed_server import installed
from tests.admission.engine.builders import queue, workload
from tests.scenarios.site import eventually

NOW = 1_000_000.0
RULES = UsageRules(half_life=3600.0, interval=1.0)


def local(status: Mapping[str, Any] | None = None, weight: Any = None, name: str = "lq") -> LocalQueue:
    spec = {"clusterQueue": "q", **({} if weight is None else {"fairSharing": {"weight": weight}})}
    sharing = {} if status is None else {"fairSharing": {"admissionFairSharingStatus": status}}
    return LocalQueue.from_wire({"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": sharing})


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, None, id="nothing-stored"),
        pytest.param({}, ({}, NOW), id="empty"),
        pytest.param(
            {"consumedResources": {"cpu": "1500m", "gpu": "2"}, "lastUpdate": "1970-01-01T01:00:00Z"},
            ({"cpu": 1500.0, "gpu": 2.0}, 3600.0),
            id="kueues-form",
        ),
        pytest.param({"consumedResources": {"gpu": "-1", "cpu": 1}}, ({"cpu": 1000.0}, NOW), id="negative"),
        pytest.param({"consumedResources": {"gpu": "many", "cpu": 1}}, ({"cpu": 1000.0}, NOW), id="no-quantity"),
        pytest.param({"consumedResources": {"gpu": "1e99"}}, ({"gpu": 2.0**62}, NOW), id="beyond-all-bounds"),
        pytest.param({"consumedResources": {"gpu": {"a": 1}}}, ({}, NOW), id="an-object"),
        pytest.param({"consumedResources": [1]}, ({}, NOW), id="a-list"),
        pytest.param({"lastUpdate": "2999-01-01T00:00:00Z"}, ({}, NOW), id="in-the-future"),
        pytest.param({"lastUpdate": "yesterday"}, ({}, NOW), id="no-time"),
        pytest.param({"lastUpdate": 7}, ({}, NOW), id="a-number-for-a-time"),
        pytest.param(
            {"consumedResources": {f"r{n:03d}": "1" for n in range(500)}},
            ({f"r{n:03d}": 1.0 for n in range(64)}, NOW),
            id="hundreds-of-resources",
        ),
    ],
)
def test_what_a_status_stores_is_read_with_care(
    status: Mapping[str, Any] | None, expected: tuple[dict[str, float], float] | None
) -> None:
    assert stored_usage(local(status), NOW) == expected


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        pytest.param("cpu", 1500.0, "1500m", id="milli-cpu"),
        pytest.param("cpu", 31999.1234, "31999123u", id="micro-cpu"),
        pytest.param("gpu", 8.0, "8", id="whole"),
        pytest.param("gpu", 1e-7, "100n", id="tiny"),
        pytest.param("gpu", 0.0, "0", id="nothing"),
        pytest.param("memory", 68719476736.0, "68719476736", id="bytes"),
        pytest.param("memory", 2.0**62, str(2**62), id="largest"),
    ],
)
def test_amounts_are_written_so_that_they_are_read_again(resource: str, amount: float, text: str) -> None:
    assert to_precise_text(resource, amount) == text
    stored = {"consumedResources": {resource: text}}
    read = stored_usage(local(stored), NOW)
    assert read is not None
    assert read[0].get(resource, 0.0) == pytest.approx(amount, rel=1e-6)


def test_a_record_survives_its_status() -> None:
    record = UsageRecord("ns/lq", consumed={"cpu": 1234.0, "gpu": 0.5}, updated=NOW - 60)
    status = usage_status(record)
    assert status["weightedShare"] == 0
    assert stored_usage(local(status["admissionFairSharingStatus"]), NOW) == (record.consumed, NOW - 60)


# ---- whose figures count


def reading(
    tell_unread: Callable[[LocalQueue, str], None] = lambda queue, text: None,
) -> tuple[Store[LocalQueue], SchedulerState, UsageReader, list[None]]:
    store, state, cycles = (
        Store[LocalQueue]("localqueues"),
        SchedulerState(Ledger(), PendingQueues(PastUsage(RULES))),
        list[None](),
    )
    reader = UsageReader(store, state, lambda: cycles.append(None), lambda: NOW, tell_unread=tell_unread)
    return store, state, reader, cycles


def test_a_standby_follows_the_status_and_a_leader_does_not() -> None:
    store, state, reader, _ = reading()
    past = state.queues.past
    store.upsert(local({"consumedResources": {"gpu": "3"}}))
    assert past.usage("ns/lq") == 3.0
    store.upsert(local({"consumedResources": {"gpu": "5"}}))
    assert past.usage("ns/lq") == 5.0, "another replica leads"
    reader.leads = True
    store.upsert(local({"consumedResources": {"gpu": "0"}}))
    assert past.usage("ns/lq") == 5.0, "a weight that others wrote into the status does not count"


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        pytest.param({"consumedResources": {"gpu": "1"}, "lastUpdate": "1970-01-01T01:00:00Z"}, "", id="sound"),
        pytest.param({"lastUpdate": "yesterday"}, "lastUpdate: 'yesterday': allowed: a time", id="no-time"),
        pytest.param(
            {"consumedResources": {"gpu": "many"}}, "consumedResources.gpu: 'many': allowed", id="no-quantity"
        ),
        pytest.param({"consumedResources": [1]}, "consumedResources: [1]: allowed", id="a-list"),
        pytest.param({"consumedResources": {f"r{n:03d}": "-1" for n in range(500)}}, "; and 62 more", id="hundreds"),
        pytest.param({"consumedResources": {"k" * 9000: "x" * 9000}}, "allowed: an amount", id="huge"),
    ],
)
def test_what_cannot_be_read_is_told_once(stored: Mapping[str, Any], text: str) -> None:
    told = list[str]()
    store, *_ = reading(lambda queue, what: told.append(what))
    for weight in ("1", "2"):
        store.upsert(local(stored, weight))
    assert len(told) == bool(text)
    assert all(text in each and len(each) < 1000 for each in told)


@pytest.mark.parametrize(
    ("weight", "usage"),
    [
        pytest.param(None, 6.0, id="none"),
        pytest.param("2", 3.0, id="two"),
        pytest.param("500m", 12.0, id="half"),
        pytest.param(0, float("inf"), id="zero"),
        pytest.param("-1", float("inf"), id="negative-counts-as-zero"),
        pytest.param("heavy", 6.0, id="text-counts-as-none"),
    ],
)
def test_the_weight_of_a_local_queue(weight: Any, usage: float) -> None:
    store, state, _, _ = reading()
    store.upsert(local({"consumedResources": {"gpu": "6"}}, weight))
    assert state.queues.past.usage("ns/lq") == usage


def test_a_weight_that_puts_another_workload_first_requests_a_cycle() -> None:
    store, state, _, cycles = reading()
    state.apply(replace(queue("q", any=1), by_usage=True))
    for name, at in (("a", 1.0), ("b", 2.0)):
        store.upsert(local({"consumedResources": {"gpu": "6"}}, name=name))
        state.apply(replace(workload(f"ns/{name}-0", queued=at), queue=f"ns/{name}"))
    cycles.clear()
    store.upsert(local({"consumedResources": {"gpu": "6"}}, "2", name="b"))
    assert cycles
    head = state.queues.head("q")
    assert head is not None
    assert head.key == "ns/b-0"


async def test_samples_are_taken_while_leading_only(tmp_path: Path) -> None:
    async with installed(tmp_path) as kube, contextlib.AsyncExitStack() as stack:
        await _queues(kube)
        views, sampled = Views(kube), list[str]()
        state = SchedulerState(Ledger(), PendingQueues(PastUsage(RULES)))
        reader = UsageReader(views.local_queues, state, lambda: None)
        for informer in views.all():
            stack.callback(asyncio.create_task(informer.run()).cancel)
        await views.synced(60)
        state.apply(replace(queue("on", any=1), by_usage=True))
        state.apply(queue("off", any=1))
        sampler = UsageSampler(views, state, reader, sampled.append, lambda: None)
        leading = asyncio.create_task(sampler.run())
        await eventually("two samples", lambda: _twice(sampled))
        assert set(sampled) == {"ns/on"}, "nothing is done for a queue without the mode"
        assert reader.leads
        leading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leading
        assert not reader.leads


async def _twice(sampled: list[str]) -> bool:
    return len(sampled) >= 2


async def _queues(kube: Kube) -> None:
    for name in ("on", "off"):
        meta = {"name": name}
        await kube.create(
            CLUSTER_QUEUES, {"apiVersion": API_VERSION, "kind": "ClusterQueue", "metadata": meta, "spec": {}}
        )
        spec = {"clusterQueue": name}
        made = {"apiVersion": API_VERSION, "kind": "LocalQueue", "metadata": {**meta, "namespace": "ns"}, "spec": spec}
        await kube.create(LOCAL_QUEUES, made)
