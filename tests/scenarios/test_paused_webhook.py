"""The webhook stands still (SIGSTOP): the only replica, and one of two behind a Service."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from admission.cli.local_cluster.ports import free_port
from admission.cli.local_cluster.processes import ChildProcess
from admission.settings import WebhookSection
from api.errors import ApiError, NotFound
from api.kube.client import PatchKind
from api.kube.resources import JOBS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from api.names import REQUIRE_TOPOLOGY
from tests.scenarios.failures import SHORT_LEASE, paused
from tests.scenarios.replicas import Replicas
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage, point_webhooks

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]
ENVIRONMENT = SHORT_LEASE
MakeSite = Callable[[str], Site]
PATIENCE = 2
"""Seconds that the API server waits for a webhook."""


@contextlib.asynccontextmanager
async def impatient(stage: Stage) -> AsyncIterator[None]:
    """The API server waits shortly, so that the test does."""
    before = {}
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for found in (await stage.kube.list(resource)).items:
            name = found["metadata"]["name"]
            before[resource, name] = found["webhooks"]
            hooks = [{**hook, "timeoutSeconds": PATIENCE} for hook in found["webhooks"]]
            await stage.kube.patch(resource, name, {"webhooks": hooks}, kind=PatchKind.MERGE)
    yield
    for (resource, name), hooks in before.items():
        now = await stage.kube.get(resource, name)
        bundles = [hook["clientConfig"] for hook in now["webhooks"]]
        body = [{**hook, "clientConfig": client} for hook, client in zip(hooks, bundles, strict=True)]
        await stage.kube.patch(resource, name, {"webhooks": body}, kind=PatchKind.MERGE)


async def test_while_the_only_webhook_stands_still_no_job_slips_in_and_what_was_accepted_goes_on(
    stage: Stage, site: MakeSite
) -> None:
    here = site("paused-hook")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("first", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.submit(here.job("second", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("first", 4)
    async with impatient(stage):
        with paused(stage.processes.children["webhook"]):
            with pytest.raises(ApiError, match=r'failed calling webhook "mjob\.stowage\.dev"'):
                await here.submit(here.job("third", 4, {REQUIRE_TOPOLOGY: RACK}))
            with pytest.raises(NotFound):
                await here.get_job("third")
            await here.submit(here.job("unmanaged", 1, gpus=0, queue=None))
            await here.finish("first")
            await here.running("second", 4)
            await here.remove(JOBS, "first")

        async def accepted() -> bool:
            with contextlib.suppress(ApiError):
                await here.submit(here.job("third", 4, {REQUIRE_TOPOLOGY: RACK}))
                return True
            return False

        await eventually("it answers again", accepted)
    await here.finish("second")
    await here.running("third", 4)


async def test_one_of_two_replicas_stands_still(stage: Stage, site: MakeSite) -> None:
    """A few jobs may be refused, until the Service knows; then all are accepted, judged by the other one."""
    here = site("paused-replica")
    await here.open({"b1": {"r1": 4}})
    first, port = stage.processes.children["webhook"], free_port()
    url = f"https://127.0.0.1:{port}"
    own = {**first.environment, "STOWAGE_WEBHOOK__PORT": str(port), "STOWAGE_WEBHOOK__URL": url}
    log = first.log.with_name("second-webhook.log")
    second = replace(first, environment=own, log=log, health_port=free_port(), process=None)
    settings = WebhookSection()
    configurations = (settings.mutating_configuration, settings.validating_configuration)
    service = Replicas([(first, stage.processes.webhook_port), (second, port)])
    await second.start()
    try:
        await second.ready(120)
        async with service.serving():
            await point_webhooks(stage.kube, service.url, *configurations)
            try:
                async with impatient(stage):
                    await _post_with_one_paused(here, second)
            finally:
                await point_webhooks(stage.kube, stage.processes.webhook_url, *configurations)
    finally:
        await second.stop()
    for number in range(16):
        await here.running(f"job-{number}", 1)


async def _post_with_one_paused(here: Site, second: ChildProcess) -> None:
    refused = 0
    with paused(second):
        for number in range(16):

            async def accepted(name: str = f"job-{number}") -> bool:
                nonlocal refused
                try:
                    await here.submit(here.job(name, 1, {REQUIRE_TOPOLOGY: RACK}))
                except ApiError as why:
                    if "failed calling webhook" not in str(why):
                        raise
                    refused += 1
                    return False
                return True

            await eventually(f"job {number} accepted", accepted)
            assert (await here.get_job(f"job-{number}"))["metadata"]["labels"]
    assert refused < 8
