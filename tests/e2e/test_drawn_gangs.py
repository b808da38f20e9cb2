"""What is let through binds: gangs and clusters drawn by a seed; `python -m tests.bench binds` draws two thousand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.binds.driver import Driver, Outcome
from tests.scenarios.stage import Stage, real

CONTROL_PLANE = ClusterOptions()
SEEDS = (1, 2, 3)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with real(cluster, tmp_path_factory.mktemp("drawn")) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drawn(stage: Stage) -> AsyncIterator[Mapping[int, asyncio.Task[Outcome]]]:
    """The clusters of all seeds play beside each other: each waits most of its time."""
    tasks = {seed: asyncio.create_task(Driver(stage, seed).run(20)) for seed in SEEDS}
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_is_let_through_binds(drawn: Mapping[int, asyncio.Task[Outcome]], seed: int) -> None:
    """Each of 20 gangs is bound whole, with no pod refused after its gate; or it waits and says why, and the stock scheduler
    would not have bound it, or its reason names a documented limit.
    """
    found = await drawn[seed]
    assert found.unschedulable == []
    assert found.silent == []
    assert [each for each in found.refused if each.limit is None] == []
    assert found.bound >= 4
