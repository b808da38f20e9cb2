"""Kinds that are not installed are looked for by one request together."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from api.errors import NotFound, StowageError
from api.kube import served
from api.kube.client import Page
from api.kube.informers import optional_informer
from api.kube.informers.optional_informer import OptionalInformer
from api.kube.resources import Resource
from api.kube.served import AGE, ServedVersions
from api.kube.settings import ClientSettings

SERVED, ABSENT = (
    Resource("here.example.com", "v1", "heres", "Here"),
    Resource("gone.example.com", "v1", "gones", "Gone"),
)
ANSWER = b'{"kind":"APIGroupList","groups":[{"name":"here.example.com","versions":[{"groupVersion":"here.example.com/v1"}]}]}'


class _Server:
    """What it answers to `/apis`, and what it was asked. A kind is listed once `installed` names it."""

    def __init__(self, answer: bytes | StowageError) -> None:
        self.answer, self.asked, self.listed = answer, 0, list[str]()
        self.installed: set[str] = set()
        self.served = ServedVersions(self.get_path)
        self.settings = ClientSettings()

    async def get_path(self, path: str) -> bytes:
        assert path == "/apis"
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, StowageError):
            raise self.answer
        return self.answer

    async def list(self, resource: Resource, **_: Any) -> Page[Any]:
        self.listed.append(resource.plural)
        if resource.plural not in self.installed:
            raise NotFound(404, "NotFound", "not there")
        return Page([], "1")


async def test_those_that_ask_together_share_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    server = _Server(ANSWER)
    versions = [resource.api_version for resource in (SERVED, ABSENT) for _ in range(20)]
    answers = await asyncio.gather(*map(server.served.may_have, versions))
    assert (answers, server.asked) == ([True] * 20 + [False] * 20, 1)
    now += AGE
    assert not await server.served.may_have(ABSENT.api_version)
    assert server.asked == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(NotFound(404, "NotFound", "no such path"), id="refused"),
        pytest.param(b"{}", id="nothing"),
        pytest.param(b'{"groups":[{"versions":[{"groupVersion":3}]}]}', id="nonsense"),
        pytest.param(b"<html>", id="no-json"),
    ],
)
async def test_without_an_answer_a_kind_may_be_served(answer: bytes | StowageError) -> None:
    assert await _Server(answer).served.may_have(ABSENT.api_version)


async def test_the_core_group_is_always_there() -> None:
    assert await _Server(ANSWER).served.may_have("v1")


async def test_a_kind_is_listed_once_its_version_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_informer, "_INTERVAL", 0.001)
    monkeypatch.setattr(served, "AGE", 0.0)
    server = _Server(b'{"groups":[]}')
    informer = OptionalInformer(server, SERVED, interval=0.001)  # type: ignore[arg-type]
    task = asyncio.create_task(informer.run())
    while server.asked < 3:  # noqa: ASYNC110  # it looks again and again
        await asyncio.sleep(0)
    assert server.listed == ["heres"], "only the first look lists it"
    server.answer = ANSWER
    server.installed.add("heres")
    while len(server.listed) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
