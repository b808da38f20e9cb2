"""Rights of other users, as the API server tells them (SubjectAccessReview)."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube
from api.kube.resources import WORKLOADS
from api.kube.settings import ClientSettings
from api.process.access import Permissions, Right
from api.process.identities import Identities, Subject


@pytest.mark.asyncio
async def test_each_right_is_asked_for_once(tmp_path: Path) -> None:
    """Answers are kept for a minute: what an operator creates in a burst costs one question."""
    asked: list[str] = []

    async def count(request: web.Request) -> None:
        asked.append(request.path)

    settings = EmbeddedSettings(tenants=frozenset({"tenant"}), intercept=count)
    async with EmbeddedServer(settings) as server:
        path = server.kubeconfig(tmp_path / "config")
        async with await Kube.connect(ClientSettings(kubeconfig=path)) as kube:
            permissions = Permissions(kube)
            for _ in range(3):
                assert not await permissions.may(Subject("tenant"), Right(WORKLOADS), "ns")
                assert await permissions.may(Subject("operator"), Right(WORKLOADS), "ns")
    assert len(asked) == 2


@pytest.mark.asyncio
async def test_the_embedded_server_says_whose_a_token_is(tmp_path: Path) -> None:
    async with EmbeddedServer(EmbeddedSettings(tokens={"secret": "tenant"})) as server:
        path = server.kubeconfig(tmp_path / "config")
        async with await Kube.connect(ClientSettings(kubeconfig=path)) as kube:
            identities = Identities(kube)
            assert await identities.of("secret") == Subject("tenant", ("system:authenticated",))
            assert await identities.of("made-up") is None
