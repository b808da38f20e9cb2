"""Fixtures of the scenarios: a stage per module, or for several (shared_stages.py), and a corner of it per test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Generator

import pytest
import pytest_asyncio

from hack.controlplane.build import Tools
from hack.controlplane.fixtures import control_plane_tools, started
from tests.scenarios.failures import complaints
from tests.scenarios.shared_stages import OpenStage, StageKey
from tests.scenarios.site import Site
from tests.scenarios.stage import Stage, embedded, real
from tests.scenarios.stage_processes import fallen, logs

__all__ = ["control_plane_tools"]

_NEXT = pytest.StashKey[pytest.Item | None]()
"""The test that runs after the present one."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """The end of a module has to know whether the next one goes on with its stage."""
    item.config.stash[_NEXT] = nextitem
    return (yield)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that share a stage run one after the other, and each of them in one worker."""
    places: dict[StageKey | pytest.Item, int] = {}
    for place, item in enumerate(items):
        key = StageKey.of_test(item)
        if key is not None and not key.module:
            item.add_marker(pytest.mark.xdist_group(key.group(item.path.stem)))
        places[item] = place if key is None or key.module else places.setdefault(key, place)
    items.sort(key=places.__getitem__)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def open_stage() -> AsyncIterator[OpenStage]:
    """The stage that is open between modules."""
    found = OpenStage()
    yield found
    await found.close()


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="session",
    params=["embedded", pytest.param("real", marks=pytest.mark.e2e)],
)
async def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, open_stage: OpenStage
) -> AsyncIterator[Stage]:
    """The stage of the module; its constant ENVIRONMENT gives the processes more settings.

    Whatever a module does, no process may log an error, nor at its end, nor end by itself.
    """
    key = StageKey.of_module(request.module, request.param)
    settings = dict(key.settings)
    tools: Tools | None = request.getfixturevalue("control_plane_tools") if key.control_plane else None

    @contextlib.asynccontextmanager
    async def opens() -> AsyncIterator[Stage]:
        folder = tmp_path_factory.mktemp(f"stage-{request.param}")
        with contextlib.ExitStack() as exits:
            if key.control_plane is None:
                opening = embedded(folder, settings)
            else:
                cluster = exits.enter_context(started(request, key.name, key.control_plane, tools))
                opening = real(cluster, folder, settings)
            async with opening as opened:
                yield opened
                assert not fallen(), fallen()
        assert not complaints(folder), complaints(folder)[:3]

    failed_before = request.session.testsfailed
    found = await open_stage.enter(key, opens)
    yield found
    as_found = request.session.testsfailed == failed_before and not fallen() and not complaints(found.processes.folder)
    if not as_found or StageKey.of_test(request.config.stash[_NEXT]) != key:
        await open_stage.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure is told with the processes that had fallen by then, and with the last words of all."""
    report = yield
    if report.failed:
        told = [("Processes that have fallen", fallen()), ("Last words of the processes", logs(lines=12))]
        report.sections += [(title, text) for title, text in told if text]
    return report


@pytest.fixture
def site(request: pytest.FixtureRequest, stage: Stage, open_stage: OpenStage) -> Callable[[str], Site]:
    """Makes a corner of the stage by name."""

    def make(name: str) -> Site:
        open_stage.claim(name, request.module.__name__)
        return Site(stage.kube, name)

    return make
