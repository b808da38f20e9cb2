"""Certificates of seconds, end to end: the webhook process makes, rotates and reloads them while Jobs are posted without a
pause, and none is refused. Embedded server only: its connections are made anew for each new bundle, as the real one's are.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from admission.cli.local_cluster.embedded import NAMESPACE
from admission.settings import WebhookSection
from api.kube.resources import JOBS, MUTATING_WEBHOOKS, SECRETS
from tests.scenarios.failures import complaints
from tests.scenarios.site import Site, eventually
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

LIFETIME = 12.0
ENVIRONMENT = {
    "STOWAGE_WEBHOOK__CERTIFICATE_DAYS": str(LIFETIME / 86400),
    "STOWAGE_WEBHOOK__CERTIFICATE_SETTLE": "1",
    "STOWAGE_WEBHOOK__CERTIFICATE_PERIOD": "0.2",
}


async def _served(here: Site) -> str:
    """The serving certificate, as the Secret holds it."""
    secret = await here.kube.get(SECRETS, WebhookSection().secret, NAMESPACE)
    return str(secret["data"]["tls.crt"])


def _authorities(configuration: Mapping[str, Any]) -> int:
    """How many CAs the API server trusts for us."""
    bundle = configuration["webhooks"][0]["clientConfig"].get("caBundle", "")
    return base64.b64decode(bundle).count(b"BEGIN CERTIFICATE")


async def test_rotation_refuses_no_job(stage: Stage, site: Callable[[str], Site]) -> None:
    if stage.server is None:
        pytest.skip("a real API server's trust in a webhook lags by its own caches: seconds are too short for it")
    here = site("rotation")
    await here.open({"b1": {"r1": 1}})
    process = stage.processes.children["webhook"].process
    posted, over = 0, asyncio.Event()
    written = stage.server.store.watch(MUTATING_WEBHOOKS)
    name = WebhookSection().mutating_configuration

    async def authorities() -> int:
        return _authorities(await here.kube.get(MUTATING_WEBHOOKS, name))

    # On a busy machine the rotation has begun before the test.
    trusted = {await authorities()}

    async def post() -> None:
        nonlocal posted
        while not over.is_set():
            job = here.job(f"job-{posted}", 1)
            await here.kube.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **job}, dry_run=True)
            posted += 1
            await asyncio.sleep(0.02)

    async def rotated(since: str) -> bool:
        return await _served(here) != since

    async def retired() -> bool:
        return await authorities() == 1

    async with asyncio.TaskGroup() as group:
        group.create_task(post())
        served = await _served(here)
        await eventually("another certificate", lambda: rotated(served))
        await eventually("the old CA is trusted no more", retired)
        over.set()
    assert posted
    trusted |= {_authorities(event.record.obj) for event in written.drain()}
    written.close()
    assert max(trusted) == 2, "the old and the new CA are trusted together for a while"
    assert process is not None
    assert process.returncode is None
    assert not complaints(stage.processes.folder)
