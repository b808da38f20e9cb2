"""The kinds of job with their real operators, on one cluster with Stowage. Marked `kinds` (make e2e-kinds)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hack.controlplane.cluster import ControlPlane
from tests.scenarios.failures import SHORT_LEASE, complaints
from tests.scenarios.stage import Stage, real

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.kinds)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Stowage on the cluster of the module; no process may log an error."""
    folder = tmp_path_factory.mktemp("kinds")
    async with real(cluster, folder, SHORT_LEASE) as found:
        yield found
    assert not complaints(folder), complaints(folder)[:3]
