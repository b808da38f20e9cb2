"""Requests as a caller sees them: answers, errors, repetitions, limits."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY

from api.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    InvalidObject,
    NotFound,
    NotLeader,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from api.kube.client import Kube, PatchKind
from api.kube.resources import JOBS, LEASES, NODES, PODS, WORKLOADS
from api.kube.settings import ClientSettings
from api.pod.pods import Pod
from api.workloads import Workload
from tests.api.kube.clock import settle, until
from tests.api.kube.server import Script, Step, answer, config, cut, listing, scripted, silent, status

JOB = {"metadata": {"name": "train", "namespace": "team"}}
VERSIONED = {"metadata": {"name": "train", "namespace": "team", "resourceVersion": "7"}}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_refusals_are_not_repeated(
    script: Script, tmp_path: Path, code: int, reason: str, kind: type[ApiError]
) -> None:
    script.then(status(code, reason, "the server's own words"))
    async with scripted(script, tmp_path) as kube:
        with pytest.raises(kind, match="the server's own words"):
            await kube.create(JOBS, JOB)
    assert len(script.requests) == 1


async def reading(kube: Kube) -> object:
    return await kube.get(JOBS, "train", "team")


async def creating(kube: Kube) -> object:
    return await kube.create(JOBS, JOB)


async def replacing(kube: Kube) -> object:
    return await kube.replace(JOBS, JOB)


async def replacing_a_version(kube: Kube) -> object:
    return await kube.replace(JOBS, VERSIONED)


async def merging(kube: Kube) -> object:
    return await kube.patch(JOBS, "train", {"spec": {"suspend": False}}, "team", kind=PatchKind.MERGE)


async def merging_a_version(kube: Kube) -> object:
    return await kube.patch(JOBS, "train", VERSIONED, "team", kind=PatchKind.MERGE)


async def merging_marked(kube: Kube) -> object:
    return await kube.patch(JOBS, "train", {}, "team", kind=PatchKind.STRATEGIC, repeatable=True)


async def json_with_test(kube: Kube) -> object:
    steps = [{"op": "test", "path": "/metadata/resourceVersion", "value": "7"}]
    return await kube.patch(JOBS, "train", steps, "team", kind=PatchKind.JSON)


async def applying(kube: Kube) -> object:
    return await kube.patch(JOBS, "train", JOB, "team", kind=PatchKind.APPLY)


async def deleting(kube: Kube) -> None:
    await kube.delete(JOBS, "train", "team")


async def deleting_one(kube: Kube) -> None:
    await kube.delete(JOBS, "train", "team", uid="u-1")


ALWAYS = [reading, replacing_a_version, merging_a_version, merging_marked, json_with_test, applying, deleting_one]
ONLY_UNSENT = [creating, replacing, merging, deleting]


@pytest.mark.parametrize(
    "fault", [status(500, "InternalError"), status(504, "Timeout"), cut], ids=["500", "504", "cut"]
)
@pytest.mark.parametrize("request_of", ALWAYS, ids=lambda fn: fn.__name__)
async def test_safe_requests_survive_faults(script: Script, tmp_path: Path, request_of: Any, fault: Step) -> None:
    script.then(fault, fault, answer({}))
    async with scripted(script, tmp_path) as kube:
        await request_of(kube)
    assert len(script.requests) == 3


@pytest.mark.parametrize("fault", [status(500, "InternalError"), cut], ids=["500", "cut"])
@pytest.mark.parametrize("request_of", ONLY_UNSENT, ids=lambda fn: fn.__name__)
async def test_unsafe_requests_are_sent_once(script: Script, tmp_path: Path, request_of: Any, fault: Step) -> None:
    script.then(fault, answer({}))
    async with scripted(script, tmp_path) as kube:
        with pytest.raises((ServerError, Unreachable)):
            await request_of(kube)
    assert len(script.requests) == 1


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("request_of", [*ALWAYS, *ONLY_UNSENT], ids=lambda fn: fn.__name__)
async def test_every_request_honours_retry_after(script: Script, tmp_path: Path, request_of: Any, code: int) -> None:
    script.then(status(code, "Busy", headers={"Retry-After": "0"}), answer({}))
    async with scripted(script, tmp_path) as kube:
        await request_of(kube)
    assert len(script.requests) == 2


async def test_waits_as_long_as_asked(script: Script, tmp_path: Path) -> None:
    script.then(status(429, "TooManyRequests", headers={"Retry-After": "1"}), answer({}))
    async with scripted(script, tmp_path) as kube:
        started = asyncio.get_running_loop().time()
        await kube.create(JOBS, JOB)
        assert asyncio.get_running_loop().time() - started >= 1.0


async def test_a_pause_too_long_goes_to_the_caller(script: Script, tmp_path: Path) -> None:
    script.then(status(429, "TooManyRequests", retryAfterSeconds=600))
    async with scripted(script, tmp_path) as kube:
        with pytest.raises(TooManyRequests) as caught:
            await kube.get(JOBS, "train", "team")
    assert caught.value.retry_after == 600


async def test_gives_up_after_the_attempts(script: Script, tmp_path: Path) -> None:
    script.then(*[status(500, "InternalError")] * 9)
    async with scripted(script, tmp_path, attempts=4) as kube:
        with pytest.raises(ServerError):
            await kube.get(JOBS, "train", "team")
    assert len(script.requests) == 4


async def test_a_slow_answer_is_unreachable(script: Script, tmp_path: Path) -> None:
    script.then(silent)
    async with scripted(script, tmp_path, timeout=0.05, attempts=1) as kube:
        with pytest.raises(
            Unreachable, match=r"get /apis/batch/v1/namespaces/team/jobs/train: no answer within 0\.05 s"
        ):
            await kube.get(JOBS, "train", "team")


@pytest.mark.parametrize("first", ["timeout", "cancellation"])
async def test_a_cancellation_at_the_moment_of_the_timeout_is_not_lost(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    script.then(silent)
    loop, late = asyncio.get_running_loop(), 1000.0
    async with scripted(script, tmp_path, timeout=late / 2, attempts=1) as kube:
        asked = asyncio.create_task(kube.get(JOBS, "train", "team"))
        await until(lambda: bool(script.requests))
        loop.call_later(late / 4 if first == "cancellation" else late * 3 / 4, asked.cancel)
        # as if the loop had been busy past both moments: their timers fire in one turn
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + late)
        await asyncio.wait({asked})
        assert asked.cancelled()


async def test_a_refused_connection_is_repeated_even_for_create(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    settings = ClientSettings(kubeconfig=kubeconfig, attempts=3, backoff_base=0.001)
    before = _counted("stowage_api_retries_total", verb="create", resource="jobs")
    with socket.socket() as deaf:  # has the port, and does not listen
        deaf.bind(("127.0.0.1", 0))
        kubeconfig.write_text(json.dumps(config(f"http://127.0.0.1:{deaf.getsockname()[1]}", {})))
        async with await Kube.connect(settings) as kube:
            with pytest.raises(Unreachable, match="NotSent"):
                await kube.create(JOBS, JOB)
    assert _counted("stowage_api_retries_total", verb="create", resource="jobs") == before + 2


async def test_a_new_token_is_read_after_401(script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.kube.connection._REFRESH_INTERVAL", -1.0)
    async with scripted(script, tmp_path) as kube:
        path = tmp_path / "kubeconfig"
        path.write_text(path.read_text().replace("first", "second"))
        script.then(status(401, "Unauthorized"), answer({}), status(401, "Unauthorized"))
        await kube.get(JOBS, "train", "team")
        with pytest.raises(Unauthorized):  # nothing newer to be had: not asked again
            await kube.get(JOBS, "train", "team")
    assert [r.headers["Authorization"] for r in script.requests] == ["Bearer first", "Bearer second", "Bearer second"]


async def test_writes_are_fenced_and_reads_are_not(script: Script, tmp_path: Path) -> None:
    def fence() -> None:
        raise NotLeader("the Lease is lost")

    script.then(answer({}), answer({}))
    async with scripted(script, tmp_path) as kube:
        fenced = kube.fenced(fence)
        await fenced.get(JOBS, "train", "team")
        for write in (creating, replacing_a_version, merging_a_version, deleting_one):
            with pytest.raises(NotLeader):
                await write(fenced)
        await creating(kube)
    assert [r.method for r in script.requests] == ["GET", "POST"]


def open_for(times: int) -> Callable[[], None]:
    """A fence that lets so many questions pass and then refuses."""
    questions = itertools.count(1)

    def fence() -> None:
        if next(questions) > times:
            raise NotLeader("lost meanwhile")

    return fence


async def test_the_fence_is_asked_again_before_a_repetition(script: Script, tmp_path: Path) -> None:
    script.then(status(429, "Busy"), answer({}))
    async with scripted(script, tmp_path) as kube:
        with pytest.raises(NotLeader):  # asked twice for each attempt: before connecting and before the first byte
            await creating(kube.fenced(open_for(2)))
    assert len(script.requests) == 1


@pytest.mark.parametrize("connected", [False, True], ids=["new connection", "open connection"])
@pytest.mark.parametrize("write", [creating, replacing_a_version, merging_a_version, deleting_one])
async def test_nothing_leaves_when_the_lease_ran_out_while_connecting(
    script: Script, tmp_path: Path, write: Callable[[Kube], Awaitable[object]], connected: bool
) -> None:
    """A process paused between the fence and its first byte wrote after another one had taken over (found by a crash test)."""
    script.then(*[answer({})] * 2)
    arrived = 1 if connected else 0
    async with scripted(script, tmp_path) as kube:
        if connected:
            await reading(kube)
        with pytest.raises(NotLeader, match="lost meanwhile"):
            await write(kube.fenced(open_for(1)))
        await settle()
        assert len(script.requests) == arrived, "not even its headers left"
        await write(kube.fenced(open_for(2)))
    assert len(script.requests) == arrived + 1


@pytest.mark.parametrize("kind", list(PatchKind))
async def test_patches_carry_their_content_type(script: Script, tmp_path: Path, kind: PatchKind) -> None:
    script.then(answer({}))
    async with scripted(script, tmp_path) as kube:
        await kube.patch(JOBS, "train", JOB, "team", kind=kind, subresource="status", field_manager="me", force=True)
    request = script.requests[0]
    assert request.headers["Content-Type"] == kind.value
    assert request.path_qs == "/apis/batch/v1/namespaces/team/jobs/train/status?fieldManager=me&force=true"


async def test_deletes_carry_their_options(script: Script, tmp_path: Path) -> None:
    script.then(answer({}))
    async with scripted(script, tmp_path) as kube:
        await kube.delete(NODES, "n1", propagation="Foreground", uid="u-1", grace_seconds=0)
    options = {"propagationPolicy": "Foreground", "preconditions": {"uid": "u-1"}, "gracePeriodSeconds": 0}
    assert json.loads(script.bodies[0]) == {"kind": "DeleteOptions", "apiVersion": "v1", **options}


async def test_decodes_into_structs_models_and_dicts(script: Script, tmp_path: Path) -> None:
    pod = {"metadata": {"name": "p", "namespace": "team", "resourceVersion": "3"}, "spec": {"nodeName": "n1"}}
    script.then(answer(pod), answer(pod | {"spec": {}}), answer(pod))
    async with scripted(script, tmp_path) as kube:
        assert (await kube.get(PODS, "p", "team", decode=Pod)).spec.node_name == "n1"
        assert (await kube.get(WORKLOADS, "p", "team", decode=Workload)).metadata.resource_version == "3"
        assert await kube.get(PODS, "p", "team") == pod


async def test_lists_are_pages_and_name_their_rest(script: Script, tmp_path: Path) -> None:
    script.then(listing(JOB, token="next"), answer({"metadata": {"resourceVersion": "100"}, "items": None}))
    async with scripted(script, tmp_path) as kube:
        page = await kube.list(JOBS, "team", label_selector="a=b,c", field_selector="x=y", limit=1)
        rest = await kube.list(JOBS, "team", limit=1, continue_=page.continue_)
    assert (page.items, page.resource_version, rest.items, rest.continue_) == (
        [JOB | {"apiVersion": "batch/v1", "kind": "Job"}],
        "100",
        [],
        "",
    )
    assert dict(script.requests[0].query) == {"labelSelector": "a=b,c", "fieldSelector": "x=y", "limit": "1"}
    assert dict(script.requests[1].query) == {"limit": "1", "continue": "next"}


async def test_an_undecodable_object_names_itself_and_the_field(script: Script, tmp_path: Path) -> None:
    script.then(answer({"metadata": {"name": "p", "namespace": "team"}, "spec": {"nodeName": 5}}))
    async with scripted(script, tmp_path) as kube:
        with pytest.raises(InvalidObject, match=r"Pod team/p: spec\.nodeName: 5: Expected `str`, got `int`"):
            await kube.get(PODS, "p", "team", decode=Pod)


async def test_requests_under_way_are_limited(script: Script, tmp_path: Path) -> None:
    running, most = 0, 0

    async def slow(_: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await until(lambda: most >= 3)
        await settle()
        running -= 1
        return await answer({})(_)

    script.then(*[slow] * 12)
    async with scripted(script, tmp_path, concurrency=3) as kube:
        await asyncio.gather(*(reading(kube) for _ in range(12)))
    assert most == 3


async def test_requests_are_counted(script: Script, tmp_path: Path) -> None:
    labels = {"verb": "update", "resource": "leases/status", "code": "200"}
    before = _counted("stowage_api_requests_total", **labels)
    script.then(answer({}))
    async with scripted(script, tmp_path) as kube:
        await kube.replace(LEASES, msgspec.json.encode(VERSIONED), subresource="status")
    assert _counted("stowage_api_requests_total", **labels) == before + 1


@pytest.mark.parametrize(("compress", "encoding"), [(False, "identity"), (True, "gzip")], ids=["identity", "gzip"])
async def test_compression_is_a_choice(script: Script, tmp_path: Path, compress: bool, encoding: str) -> None:
    script.then(answer({}))
    async with scripted(script, tmp_path, compress=compress) as kube:
        await kube.get_path("/version")
    assert script.requests[0].headers["Accept-Encoding"] == encoding


async def test_a_namespace_is_not_guessed(script: Script, tmp_path: Path) -> None:
    async with scripted(script, tmp_path) as kube:
        with pytest.raises(ValueError, match=r"create Job train: metadata\.namespace is missing"):
            await kube.create(JOBS, {"metadata": {"name": "train"}})
        with pytest.raises(ValueError, match="jobs 'train': the namespace is missing"):
            await kube.get(JOBS, "train")


def _counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0
