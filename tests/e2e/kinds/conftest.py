"""The kinds of job with their real operators, on one cluster with Stowage. Marked `kinds` (make e2e-kinds)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from hack.controlplane.cluster import ControlPlane
from tests.dealing import is_below
from tests.e2e.kinds.dashboard import Dashboard, serving
from tests.e2e.kinds.spark_drivers import SparkDrivers
from tests.scenarios.failures import SHORT_LEASE, complaints
from tests.scenarios.set_controllers import running
from tests.scenarios.stage import Stage, real

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_below(item.path, (HERE,)):
            item.add_marker(pytest.mark.kinds)


@dataclass(frozen=True)
class KindStage:
    """Stowage on the cluster of the module, and what plays the heads of Ray clusters."""

    stage: Stage
    dashboard: Dashboard


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage_in(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KindStage]:
    """No process of ours may log an error."""
    folder = tmp_path_factory.mktemp("kinds")
    async with (
        real(cluster, folder, SHORT_LEASE) as found,
        serving(cluster.site.operators["kuberay"].webhook) as dashboard,
        running(SparkDrivers(found.kube)),
    ):
        yield KindStage(found, dashboard)
    assert not complaints(folder), complaints(folder)[:3]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Stowage on the cluster of the module, without stand-ins. No process of ours may log an error."""
    folder = tmp_path_factory.mktemp("kinds")
    async with real(cluster, folder, SHORT_LEASE) as found:
        yield found
    assert not complaints(folder), complaints(folder)[:3]
