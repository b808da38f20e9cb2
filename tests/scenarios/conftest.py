"""Fixtures of the scenarios: one stage per module and kind, and a corner of it per test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path

import pytest
import pytest_asyncio

from hack.controlplane.fixtures import cluster, control_plane_tools
from tests.scenarios.failures import complaints
from tests.scenarios.playing import fallen, logs
from tests.scenarios.site import Site
from tests.scenarios.stage import Stage, embedded, real

__all__ = ["cluster", "control_plane_tools"]


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=["embedded", pytest.param("real", marks=pytest.mark.e2e)],
)
async def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The stage of the module; its constant ENVIRONMENT gives the processes more settings.

    Whatever a module does, no process may log an error, nor at its end, nor end by itself.
    """
    folder: Path = tmp_path_factory.mktemp(f"stage-{request.param}")
    environment = getattr(request.module, "ENVIRONMENT", {})
    if request.param == "embedded":
        async with embedded(folder, environment) as found:
            yield found
            assert not fallen(), fallen()
    else:
        async with real(request.getfixturevalue("cluster"), folder, environment) as found:
            yield found
            assert not fallen(), fallen()
    assert not complaints(folder), complaints(folder)[:3]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure is told with the processes that had fallen by then, and with the last words of all."""
    report = yield
    if report.failed:
        told = [("Processes that have fallen", fallen()), ("Last words of the processes", logs(lines=12))]
        report.sections += [(title, text) for title, text in told if text]
    return report


@pytest.fixture
def site(stage: Stage) -> Callable[[str], Site]:
    """Makes a corner of the stage by name."""
    return lambda name: Site(stage.kube, name)
