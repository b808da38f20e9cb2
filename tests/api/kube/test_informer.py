"""The local copy under what networks and servers do to a list and a watch."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry, Histogram

from api.kube.informers.informer import Informer
from api.kube.informers.store import Change
from api.kube.informers.watch_lag import OwnWrites
from api.kube.resources import EVENTS, NODES, PODS, Resource
from api.kube.settings import InformerSettings
from api.pod.pods import Pod
from tests.api.kube.clock import ManualClock, until
from tests.api.kube.server import Script, Step, answer, cut, event, listing, scripted, silent, status, watching

QUICK: dict[str, Any] = {"backoff_base": 0.001, "backoff_max": 0.01}


def pod(name: str, version: int, *, uid: str = "", node: Any = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "team", "uid": uid or f"uid-{name}", "resourceVersion": str(version)},
        "spec": {"nodeName": node},
    }


def bookmark(version: int, **annotations: str) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


class InformerRun:
    """A running informer, with the changes it showed as `TYPE key@version`."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self.informer = informer
        self.changes: list[str] = []
        informer.add_handler(self.see)

    def see(self, change: Change[Pod]) -> None:
        self.changes.append(f"{change.type} {change.key}@{change.object.metadata.resource_version}")

    @property
    def copy(self) -> dict[str, str]:
        return {key: obj.metadata.resource_version for key, obj in self.informer.objects.items()}


@asynccontextmanager
async def running(
    script: Script, folder: Path, resource: Resource = PODS, **settings: Any
) -> AsyncIterator[InformerRun]:
    async with scripted(script, folder, attempts=1) as kube:
        run = InformerRun(Informer(kube, resource, Pod, settings=InformerSettings(**{**QUICK, **settings})))
        task = asyncio.create_task(run.informer.run())
        try:
            yield run
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def script() -> Script:
    return Script()


def watched_from(script: Script) -> list[str | None]:
    """The resourceVersions at which watches were started."""
    return [r.query.get("resourceVersion") for r in script.requests if "watch" in r.query]


async def test_lists_then_follows(script: Script, tmp_path: Path) -> None:
    script.then(
        listing(pod("a", 5), pod("b", 6), version="10"),
        watching(
            event("ADDED", pod("c", 11)), event("MODIFIED", pod("a", 12, node="n1")), event("DELETED", pod("b", 13))
        ),
    )
    async with running(script, tmp_path) as run:
        await run.informer.synced(60)
        await until(lambda: len(run.changes) == 5)
        assert run.changes == [
            "ADDED team/a@5",
            "ADDED team/b@6",
            "ADDED team/c@11",
            "MODIFIED team/a@12",
            "DELETED team/b@13",
        ]
        assert run.copy == {"team/a": "12", "team/c": "11"}
    assert watched_from(script) == ["10"]
    assert script.requests[1].query["allowWatchBookmarks"] == "true"
    assert 300 <= int(script.requests[1].query["timeoutSeconds"]) <= 600


async def test_what_a_write_was_answered_is_not_read_again(script: Script, tmp_path: Path) -> None:
    before = REGISTRY.get_sample_value("stowage_informer_undecodable_total", {"resource": "pods"})
    unreadable = pod("a", 9, node=["nowhere"])
    script.then(
        listing(pod("a", 5), version="5"),
        watching(
            event("MODIFIED", pod("a", 6)),
            event("MODIFIED", pod("a", 8, node=["nowhere"])),
            event("MODIFIED", unreadable),
            event("ADDED", pod("b", 10)),
        ),
    )
    async with running(script, tmp_path) as run:
        answered = msgspec.json.decode(json.dumps(pod("a", 9)).encode(), type=Pod)

        def write(change: Change[Pod]) -> None:
            if change.object.metadata.resource_version == "6":
                run.informer.observe(answered)

        run.informer.add_handler(write)
        await until(lambda: "team/b" in run.copy)
        assert run.changes == ["ADDED team/a@5", "MODIFIED team/a@6", "MODIFIED team/a@9", "ADDED team/b@10"]
    undecodable = REGISTRY.get_sample_value("stowage_informer_undecodable_total", {"resource": "pods"})
    assert undecodable == before


async def test_an_informer_measures_its_own_writes(script: Script, tmp_path: Path) -> None:
    """The answer of a write comes before the event; an event that comes first is no lag."""
    script.then(
        listing(pod("a", 5), pod("b", 5), version="5"),
        watching(event("MODIFIED", pod("a", 6)), event("MODIFIED", pod("a", 9)), event("MODIFIED", pod("b", 10))),
    )
    began = time.time()
    async with running(script, tmp_path) as run:
        registry = CollectorRegistry()
        run.informer._writes = OwnWrites(Histogram("lag", "of a test", registry=registry), ManualClock())
        answered = msgspec.json.decode(json.dumps(pod("a", 9)).encode(), type=Pod)

        def write(change: Change[Pod]) -> None:
            if change.object.metadata.resource_version == "6":
                run.informer.observe(answered)

        run.informer.add_handler(write)
        await until(lambda: run.copy.get("team/b") == "10")
        assert registry.get_sample_value("lag_count") == 1
        labels = {"resource": "pods", "selection": ""}
        heard = REGISTRY.get_sample_value("stowage_informer_last_event_timestamp_seconds", labels) or 0.0
    assert began - 1 <= heard <= time.time() + 1


async def test_pages_are_one_list(script: Script, tmp_path: Path) -> None:
    script.then(listing(pod("a", 5), token="t1"), listing(pod("b", 6), token="t2"), listing(pod("c", 7)))
    async with running(script, tmp_path, page_size=1) as run:
        await run.informer.synced(60)
        assert run.copy == {"team/a": "5", "team/b": "6", "team/c": "7"}
    assert [r.query.get("continue") for r in script.requests[:3]] == [None, "t1", "t2"]


async def test_a_list_that_expires_between_pages_starts_over(script: Script, tmp_path: Path) -> None:
    """With larger pages, and in one page only if they expire too: its body is read in one step."""
    script.then(
        listing(pod("a", 5), pod("gone", 5), token="t1"),
        status(410, "Expired"),
        listing(pod("a", 6), pod("gone", 6), token="t2"),
        status(410, "Expired"),
        listing(pod("a", 8), pod("b", 6), version="20"),
    )
    async with running(script, tmp_path, page_size=2) as run:
        await run.informer.synced(60)
        assert run.changes == ["ADDED team/a@8", "ADDED team/b@6"]
    assert [request.query.get("limit") for request in script.requests[:5]] == ["2", "2", "20", "20", None]


@pytest.mark.parametrize("then", ["end", "cut"])
async def test_resumes_where_the_watch_was_lost(script: Script, tmp_path: Path, then: str) -> None:
    script.then(
        listing(pod("a", 5), version="10"),
        watching(event("MODIFIED", pod("a", 11)), then=then),
        watching(bookmark(40), then=then),
        watching(event("MODIFIED", pod("a", 41))),
    )
    async with running(script, tmp_path) as run:
        await until(lambda: run.copy == {"team/a": "41"})
    assert watched_from(script) == ["10", "11", "40"]


@pytest.mark.parametrize(
    "gone",
    [
        status(410, "Expired", "too old resource version: 10 (99)"),
        watching(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})),
    ],
    ids=["answer", "event"],
)
async def test_after_410_the_difference_is_shown(script: Script, tmp_path: Path, gone: Step) -> None:
    script.then(
        listing(pod("same", 5), pod("changed", 6), pod("deleted", 7), pod("replaced", 8, uid="first"), version="10"),
        gone,
        listing(pod("same", 5), pod("changed", 50), pod("replaced", 51, uid="second"), pod("new", 52), version="60"),
    )
    async with running(script, tmp_path) as run:
        await until(lambda: "ADDED team/new@52" in run.changes)
        await until(lambda: len(watched_from(script)) == 2)
        assert run.changes[4:] == [
            "DELETED team/deleted@7",
            "MODIFIED team/changed@50",
            "DELETED team/replaced@8",
            "ADDED team/replaced@51",
            "ADDED team/new@52",
        ]
    assert watched_from(script) == ["10", "60"]


async def test_a_silent_watch_is_given_up(script: Script, tmp_path: Path) -> None:
    script.then(
        listing(pod("a", 5), version="10"),
        watching(bookmark(15)),
        silent,
        watching(event("MODIFIED", pod("a", 20))),
    )
    async with running(script, tmp_path, silence=0.5) as run:
        await until(lambda: run.copy == {"team/a": "20"})
    assert watched_from(script)[:3] == ["10", "15", "15"]


def heard_at(plural: str) -> float:
    """When the informer heard of its resource last."""
    name = "stowage_informer_last_event_timestamp_seconds"
    return REGISTRY.get_sample_value(name, {"resource": plural, "selection": ""}) or 0.0


@pytest.mark.parametrize(
    ("resource", "least", "most"),
    [pytest.param(PODS, 300, 600, id="with bookmarks"), pytest.param(EVENTS, 60, 120, id="without")],
)
async def test_a_watch_is_heard_of_before_it_seems_dead(
    script: Script, tmp_path: Path, resource: Resource, least: int, most: int
) -> None:
    """Of events an API server sends no bookmarks: such a watch failed each 150 s where nothing happened."""
    script.then(listing(version="10"), watching(then="end"), watching(then="end"))
    async with running(script, tmp_path, resource) as run:
        await run.informer.synced(10)
        listed = heard_at(resource.plural)
        await until(lambda: len(watched_from(script)) == 3)
        assert (heard_at(resource.plural) > listed) == (resource is EVENTS)
    lasts = [int(request.query["timeoutSeconds"]) for request in script.requests[1:]]
    assert all(least <= each <= most for each in lasts), lasts


async def test_repeated_and_stale_events_change_nothing(script: Script, tmp_path: Path) -> None:
    script.then(
        listing(pod("a", 5), version="10"),
        watching(
            event("ADDED", pod("a", 5)),
            event("MODIFIED", pod("a", 11)),
            event("MODIFIED", pod("a", 11)),
            event("ADDED", pod("a", 5)),
            event("DELETED", pod("a", 9, uid="an earlier one")),
            event("DELETED", pod("never", 12)),
            event("ADDED", pod("b", 13)),
        ),
    )
    async with running(script, tmp_path) as run:
        await until(lambda: "team/b" in run.copy)
        assert run.changes == ["ADDED team/a@5", "MODIFIED team/a@11", "ADDED team/b@13"]


@pytest.mark.parametrize("faults", [1, 7], ids=["a hiccup", "an outage"])
@pytest.mark.parametrize("fault", [status(500, "InternalError"), status(429, "Busy"), cut], ids=["500", "429", "cut"])
async def test_comes_back_after_faults(script: Script, tmp_path: Path, fault: Step, faults: int) -> None:
    script.then(
        *[fault] * faults, listing(pod("a", 5), version="10"), *[fault] * 3, watching(event("ADDED", pod("b", 11)))
    )
    async with running(script, tmp_path, relist_after=20) as run:
        await until(lambda: run.copy == {"team/a": "5", "team/b": "11"})
    assert watched_from(script) == ["10"] * 4


async def test_a_version_that_never_works_is_given_up(script: Script, tmp_path: Path) -> None:
    script.then(
        listing(pod("a", 5), version="10"), *[status(500, "InternalError")] * 3, listing(pod("a", 30), version="40")
    )
    async with running(script, tmp_path, relist_after=3) as run:
        await until(lambda: run.copy == {"team/a": "30"})


async def test_an_undecodable_object_is_named_and_left_out(
    script: Script, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script.then(
        listing(pod("bad", 5, node=7), pod("good", 6), version="10"),
        watching(
            event("MODIFIED", pod("good", 11, node=["x"])),
            event("ADDED", pod("later", 12)),
            event("DELETED", pod("good", 13, node=1)),
        ),
    )
    with caplog.at_level(logging.ERROR):
        async with running(script, tmp_path) as run:
            await until(lambda: run.copy == {"team/later": "12"})
            assert run.changes == ["ADDED team/good@6", "ADDED team/later@12", "DELETED team/good@6"]
    named = [record.error for record in caplog.records if hasattr(record, "error")]
    assert named[0] == "Pod team/bad: spec.nodeName: 7: Expected `str`, got `int`"
    assert len(named) == 3


async def test_a_failing_handler_does_not_stop_the_others(
    script: Script, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Change[Pod]) -> None:
        raise RuntimeError("a bug")

    script.then(listing(pod("a", 5), version="10"), watching(event("ADDED", pod("b", 11))))
    async with scripted(script, tmp_path) as kube:
        informer = Informer(kube, PODS, Pod, settings=InformerSettings(**QUICK))
        informer.add_handler(fail)
        run = InformerRun(informer)
        task = asyncio.create_task(informer.run())
        await until(lambda: run.changes == ["ADDED team/a@5", "ADDED team/b@11"])
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert "a bug" in caplog.text


async def test_large_lines_arrive_in_pieces(script: Script, tmp_path: Path) -> None:
    large = pod("large", 11, node="n1")
    large["metadata"]["annotations"] = {"x": "y" * 3_000_000}
    line = event("ADDED", large)
    pieces = [line[at : at + 70_001] for at in range(0, len(line), 70_001)]
    script.then(listing(version="10"), watching(*pieces, event("ADDED", pod("next", 12))))
    async with running(script, tmp_path) as run:
        await until(lambda: run.copy == {"team/large": "11", "team/next": "12"})


async def test_what_is_not_synced_says_why(script: Script, tmp_path: Path) -> None:
    script.then(*[status(403, "Forbidden", "pods is forbidden: no rights")] * 200)
    async with running(script, tmp_path) as run:
        await until(lambda: run.informer.last_error)
        with pytest.raises(TimeoutError, match=r"pods: not listed within 0\.02 s: 403 Forbidden: pods is forbidden"):
            await run.informer.synced(0.02)
        assert not run.informer.has_synced


async def test_the_first_list_can_be_streamed(script: Script, tmp_path: Path) -> None:
    script.then(
        watching(
            event("ADDED", pod("a", 5)),
            event("ADDED", pod("b", 6)),
            event("DELETED", pod("b", 7)),
            bookmark(10, **{"k8s.io/initial-events-end": "true"}),
            event("ADDED", pod("c", 11)),
            then="cut",
        ),
    )
    async with running(script, tmp_path, watch_list=True) as run:
        await until(lambda: run.copy == {"team/a": "5", "team/c": "11"})
        await until(lambda: len(script.requests) == 2)
        assert run.changes == ["ADDED team/a@5", "ADDED team/c@11"]
    assert script.requests[0].query["sendInitialEvents"] == "true"
    assert watched_from(script) == [None, "11"]


async def test_streaming_falls_back_where_it_is_unknown(script: Script, tmp_path: Path) -> None:
    script.then(status(422, "Invalid", "sendInitialEvents: Forbidden"), listing(pod("a", 5), version="10"))
    async with running(script, tmp_path, watch_list=True) as run:
        await run.informer.synced(60)
        assert run.copy == {"team/a": "5"}


async def test_selection_goes_with_every_request(script: Script, tmp_path: Path) -> None:
    script.then(listing(version="10"))
    async with scripted(script, tmp_path) as kube:
        informer = Informer(kube, PODS, Pod, namespace="team", label_selector="a=b", field_selector="x=y")
        task = asyncio.create_task(informer.run())
        await until(lambda: len(script.requests) == 2)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    for request in script.requests:
        assert request.path == "/api/v1/namespaces/team/pods"
        assert (request.query["labelSelector"], request.query["fieldSelector"]) == ("a=b", "x=y")


async def test_plain_dicts_carry_their_kind_and_no_managed_fields(script: Script, tmp_path: Path) -> None:
    managed = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    nodes = [{"metadata": {"name": f"n{i}", "resourceVersion": "5", "managedFields": managed}} for i in range(2)]
    later = {"metadata": {"name": "n1", "resourceVersion": "11", "managedFields": managed}}
    script.then(
        answer({"metadata": {"resourceVersion": "10"}, "items": nodes}), watching(event("MODIFIED", later)), silent
    )
    async with scripted(script, tmp_path) as kube:
        informer: Informer[dict[str, Any]] = Informer(kube, NODES, dict)
        task = asyncio.create_task(informer.run())
        await until(lambda: "n1" in informer.objects and informer.objects["n1"]["metadata"]["resourceVersion"] == "11")
        assert informer.objects["n0"] == {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n0", "resourceVersion": "5"},
        }
        assert informer.objects["n1"]["metadata"].keys() == {"name", "resourceVersion"}
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_plain_dicts_carry_their_kind_and_are_indexed(script: Script, tmp_path: Path) -> None:
    nodes = [{"metadata": {"name": f"n{i}", "resourceVersion": "5", "labels": {"rack": f"r{i % 2}"}}} for i in range(4)]
    moved = json.loads(json.dumps(nodes[0])) | {"metadata": {"name": "n0", "resourceVersion": "11", "labels": {}}}
    script.then(
        answer({"metadata": {"resourceVersion": "10"}, "items": nodes}),
        watching(
            event("MODIFIED", moved), event("DELETED", nodes[1] | {"metadata": {"name": "n1", "resourceVersion": "12"}})
        ),
    )
    async with scripted(script, tmp_path) as kube:
        informer: Informer[dict[str, Any]] = Informer(kube, NODES, dict)
        informer.add_index("rack", lambda node: node["metadata"].get("labels", {}).values())
        task = asyncio.create_task(informer.run())
        await until(lambda: "n1" not in informer.objects and informer.has_synced)
        assert informer.objects["n2"]["kind"] == "Node"
        assert [node["metadata"]["name"] for node in informer.by_index("rack", "r0")] == ["n2"]
        assert [node["metadata"]["name"] for node in informer.by_index("rack", "r1")] == ["n3"]
        assert informer.by_index("rack", "r7") == []
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_late_handlers_see_what_is_there(script: Script, tmp_path: Path) -> None:
    script.then(listing(pod("a", 5), version="10"))
    async with running(script, tmp_path) as run:
        await run.informer.synced(60)
        late = InformerRun(run.informer)
        assert late.changes == ["ADDED team/a@5"]


def _nested(line: bytes) -> bytes:
    """With thousands of lists in the place of the word."""
    return line.replace(b'"DEEP"', b"[" * 6000 + b"]" * 6000)


async def test_an_object_nested_too_deep_is_named_and_left_out(
    script: Script, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Parsers go in by recursion, and end the process that called them."""
    deep = pod("deep", 5) | {"extra": "DEEP"}

    async def listed(_: web.Request) -> web.StreamResponse:
        body = {"metadata": {"resourceVersion": "10"}, "items": [deep, pod("good", 6)]}
        return web.Response(body=_nested(json.dumps(body).encode()), content_type="application/json")

    line = _nested(event("ADDED", pod("deeper", 11) | {"extra": "DEEP"}))
    script.then(listed, watching(line, event("ADDED", pod("later", 12))))
    with caplog.at_level(logging.ERROR):
        async with running(script, tmp_path) as run:
            await until(lambda: run.copy == {"team/good": "6", "team/later": "12"})
    named = [record.error for record in caplog.records if hasattr(record, "error")]
    assert [error.partition(":")[0] for error in named] == ["team/deep", "team/deeper"]
    assert "lists and objects within each other" in named[0]


async def test_an_object_that_an_index_rejects_does_not_stop_the_others(script: Script, tmp_path: Path) -> None:
    def values(wire: Pod) -> list[str]:
        if wire.metadata.name == "bad":
            raise RecursionError
        return ["pods"]

    script.then(listing(pod("bad", 5), pod("good", 6), version="10"), watching(event("ADDED", pod("later", 12))))
    async with running(script, tmp_path) as run:
        run.informer.add_index("all", values)
        await until(lambda: "team/later" in run.copy)
        assert [each.metadata.name for each in run.informer.by_index("all", "pods")] == ["good", "later"]
        assert "team/bad" in run.copy
