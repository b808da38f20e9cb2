"""Two versions side by side during a rollout and a rollback: an earlier commit's processes and these.

Both webhooks serve behind one Service, leadership moves from version to version, jobs arrive all the while: each ends, and
nothing happens twice. `STOWAGE_EARLIER` names the earlier commit; else it is the last one that is half a day older.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from admission.cli.local_cluster.ports import free_port
from admission.cli.local_cluster.processes import ChildProcess, Start
from admission.settings import WebhookSection
from api.kube.resources import JOBS
from tests.scenarios.change_watcher import Watchman
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.launchers import OtherVersion
from tests.scenarios.replicas import Replicas
from tests.scenarios.site import Site, eventually
from tests.scenarios.stage import Stage, point_webhooks
from tests.scenarios.test_crashes import RUNNING, all_is_well, arrive, here, leads, names, seen

__all__ = ["here", "names", "seen"]

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]
ENVIRONMENT = SHORT_LEASE
ROOT = Path(__file__).resolve().parents[2]


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Starts processes of the earlier commit."""
    try:
        now = datetime.fromisoformat(_git("log", "-1", "--format=%cI").decode().strip())
        before = (now - timedelta(hours=12)).isoformat()
        commit = (
            os.environ.get("STOWAGE_EARLIER") or _git("rev-list", "-1", f"--before={before}", "HEAD").decode().strip()
        )
        archive = _git("archive", commit, "api", "admission", "ungater") if commit else b""
    except (OSError, subprocess.CalledProcessError) as missing:
        pytest.skip(f"no earlier commit: {missing}")
    if not archive:
        pytest.skip("this clone has no commit that is half a day older")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return OtherVersion(folder).start


@contextlib.asynccontextmanager
async def beside(first: ChildProcess, launch: Start, **environment: str) -> AsyncIterator[ChildProcess]:
    """A second replica, started in another way."""
    log = first.log.with_name(f"{first.name}-{free_port()}.log")
    own = {**first.environment, **environment}
    second = replace(first, environment=own, health_port=free_port(), log=log, process=None, launch=launch)
    await second.start()
    try:
        await second.ready(120)
        yield second
    finally:
        await second.stop()


@pytest.mark.parametrize("name", ["controller", "ungater"])
async def test_leadership_moves_between_versions_and_back(
    stage: Stage, here: Site, seen: Watchman, names: list[str], name: str, earlier: Start
) -> None:
    """A rollout that is rolled back: new, old, new again, while jobs arrive."""
    new = stage.processes.children[name]
    arriving = asyncio.create_task(arrive(here, names))
    await seen.sees("some are admitted", lambda s: len(s.admitted) >= 2)
    async with beside(new, earlier) as old:
        await new.stop()
        await eventually("the earlier version leads", lambda: leads(stage, old))
        await seen.sees("it admits", lambda s: len(s.admitted) >= 6)
        await stage.processes.restart(name)
        await old.stop()
        await eventually("this version leads again", lambda: leads(stage, new))
    await arriving
    await all_is_well(here, seen, names)
    await ends(here, seen)


async def test_webhooks_of_both_versions_serve(
    stage: Stage, here: Site, seen: Watchman, names: list[str], earlier: Start
) -> None:
    """Each request goes to one of them; what one has let in the other judges later."""
    new, port = stage.processes.children["webhook"], free_port()
    url = {"STOWAGE_WEBHOOK__PORT": str(port), "STOWAGE_WEBHOOK__URL": f"https://127.0.0.1:{port}"}
    settings = WebhookSection()
    configurations = (settings.mutating_configuration, settings.validating_configuration)
    async with beside(new, earlier, **url) as old:
        service = Replicas([(new, stage.processes.webhook_port), (old, port)])
        async with service.serving():
            await point_webhooks(stage.kube, service.url, *configurations)
            try:
                await arrive(here, names)
                await all_is_well(here, seen, names)
                await ends(here, seen)
            finally:
                await point_webhooks(stage.kube, stage.processes.webhook_url, *configurations)


async def ends(here: Site, seen: Watchman) -> None:
    """All jobs that run succeed; the one that waited starts, and succeeds too."""
    first = seen.admitted
    for name in first:
        await here.finish(name)
    await seen.sees("all that ran have ended", lambda s: len(s.finished) >= RUNNING)
    await seen.sees("the last one is admitted", lambda s: not set(s.admitted) <= set(first))
    (last,) = set(seen.admitted) - set(first)
    await here.running(last, 6)
    await here.finish(last)
    await eventually("every job has ended", partial(_all_complete, here))


async def _all_complete(here: Site) -> bool:
    jobs = (await here.kube.list(JOBS, here.name)).items
    states = ((c["type"], c["status"]) for job in jobs for c in job["status"].get("conditions") or [])
    return sum(state == ("Complete", "True") for state in states) == len(jobs)
