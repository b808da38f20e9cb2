"""Rights of other users, as the API server tells them (SubjectAccessReview)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from api.fake.server import FakeServer, FakeSettings
from api.kube.access import Identities, Permissions, Right, Subject
from api.kube.client import Kube
from api.kube.resources import WORKLOADS
from api.kube.settings import ClientSettings


@pytest.mark.asyncio
async def test_each_right_is_asked_for_once(tmp_path: Path) -> None:
    """Answers are kept for a minute: what an operator creates in a burst costs one question."""
    asked: list[str] = []

    async def count(request: web.Request) -> None:
        asked.append(request.path)

    settings = FakeSettings(tenants=frozenset({"tenant"}), intercept=count)
    async with FakeServer(settings) as server:
        path = server.kubeconfig(tmp_path / "config")
        async with await Kube.connect(ClientSettings(kubeconfig=path)) as kube:
            permissions = Permissions(kube)
            for _ in range(3):
                assert not await permissions.may(Subject("tenant"), Right(WORKLOADS), "ns")
                assert await permissions.may(Subject("operator"), Right(WORKLOADS), "ns")
    assert len(asked) == 2


class Reviewing:
    """Stands in for a Kube whose API server accepts the tokens that begin with `good`. Counts its reviews by token."""

    def __init__(self) -> None:
        self.reviews: Counter[str] = Counter()

    def tuned(self, **_: Any) -> Reviewing:
        return self

    async def create(self, _: Any, review: dict[str, Any]) -> dict[str, Any]:
        token = review["spec"]["token"]
        self.reviews[token] += 1
        return {"status": {"authenticated": token.startswith("good"), "user": {"username": token}}}


@pytest.mark.asyncio
async def test_made_up_tokens_do_not_push_out_those_that_are_accepted() -> None:
    kube = Reviewing()
    identities = Identities(cast("Kube", kube))
    for number in range(3000):
        assert await identities.of("good") == Subject("good")
        assert await identities.of(f"made-up-{number}") is None
    assert await identities.of("made-up-2999") is None
    assert kube.reviews["good"] == 1
    assert kube.reviews["made-up-2999"] == 1
