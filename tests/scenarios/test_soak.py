"""Nothing is left in our processes of jobs and queues that have come and gone: no task, descriptor or metric series."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest
import pytest_asyncio

from api.kube import owned_series
from tests.scenarios.churn import Churn, Kept, series
from tests.scenarios.failures import complaints
from tests.scenarios.loop_lag import loops_stay_free
from tests.scenarios.site import eventually
from tests.scenarios.stage import Stage, embedded

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

_JOBS = 600
_SPARE = 8
"""Descriptors and tasks more than before that are no leak: connections are kept open, and workers differ in what they do."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A stage that nothing else uses."""
    async with embedded(tmp_path_factory.mktemp("soak")) as opened:
        yield opened


async def test_what_comes_and_goes_leaves_nothing(stage: Stage) -> None:
    assert stage.server is not None
    children = stage.processes.children
    churn = Churn(stage.kube, stage.server.store, "soak", jobs_of_a_queue=20)
    await churn.run(_JOBS // 4)
    before = {name: await Kept.of(child) for name, child in children.items()}
    async with loops_stay_free(children):
        await churn.run(_JOBS)
    controller = children["controller"]

    async def forgotten() -> bool:
        return not _of_queues(await series(controller))

    await eventually("the controller has no series of the deleted queues", forgotten, seconds=5 * owned_series.PERIOD)
    for name, child in children.items():
        after = await Kept.of(child)
        assert after.tasks <= before[name].tasks + _SPARE, (name, before[name], after)
        assert after.descriptors <= before[name].descriptors + _SPARE, (name, before[name], after)
    assert complaints(stage.processes.folder) == []


def _of_queues(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if '"soak-' in line]
