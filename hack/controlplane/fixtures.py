"""Pytest fixtures that give each test module its own cluster, and `started` for fixtures with a longer lifetime.

tests/e2e/conftest.py imports them; other suites may too. A module declares its needs in a constant:
`CONTROL_PLANE = ClusterOptions(jobset=True)`. The cluster ends with the module's tests. If one fails, its run folder (logs,
kubeconfigs) is kept in pytest's cache folder, and the summary prints the path.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hack.controlplane import build, lws
from hack.controlplane.build import Recipe, Tools
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.operators import OPERATORS
from hack.controlplane.options import ClusterOptions


@pytest.fixture(scope="session")
def control_plane_tools() -> Tools:
    """Returns the built programs. Builds missing ones if STOWAGE_E2E is set, else skips the test."""
    tools = build.installed()
    if tools is None and not os.environ.get("STOWAGE_E2E"):
        pytest.skip("the control plane is not built: `make controlplane` builds it, `make e2e` builds it and runs this")
    return tools or build.ensure()


def built(recipe: Recipe) -> Tools:
    """Returns a build that few tests need. Builds it if STOWAGE_E2E is set, else skips the test."""
    if (tools := build.installed(recipe=recipe)) is None and not os.environ.get("STOWAGE_E2E"):
        pytest.skip(f"{recipe.name} is not built: `make e2e` builds it and runs this")
    return tools or build.ensure(recipe=recipe)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, control_plane_tools: Tools) -> Iterator[ControlPlane]:
    """A cluster for this module, with the options in its constant CONTROL_PLANE."""
    chosen: ClusterOptions = getattr(request.module, "CONTROL_PLANE", None) or ClusterOptions()
    with started(request, request.module.__name__, chosen, control_plane_tools) as control_plane:
        yield control_plane


@contextmanager
def started(
    request: pytest.FixtureRequest, name: str, chosen: ClusterOptions, tools: Tools | None
) -> Iterator[ControlPlane]:
    """Yields a cluster while the block runs. Keeps its run folder under `name` if a test fails meanwhile.

    Builds missing programs if `tools` is None.
    """
    if chosen.lws and build.installed(recipe=lws.RECIPE) is None and not os.environ.get("STOWAGE_E2E"):
        pytest.skip("the LeaderWorkerSet controller is not built: `make e2e` builds it and runs this")
    missing = [name for name in chosen.operators if build.installed(recipe=OPERATORS[name].recipe) is None]
    if missing and not os.environ.get("STOWAGE_E2E"):
        pytest.skip(f"operators that are not built: {', '.join(missing)}: `make e2e-kinds` builds them and runs this")
    with _kept_on_failure(request, name) as folder, ControlPlane(folder, chosen, tools) as control_plane:
        yield control_plane


@pytest.fixture
def new_cluster(
    request: pytest.FixtureRequest, control_plane_tools: Tools
) -> Iterator[Callable[[ClusterOptions], ControlPlane]]:
    """A function that starts clusters for a test with other options or with destructive steps; they end with the test."""
    running: list[ControlPlane] = []
    with _kept_on_failure(request, f"{request.module.__name__}.{request.node.name}") as folder:

        def start(chosen: ClusterOptions) -> ControlPlane:
            control_plane = ControlPlane(folder / str(len(running)), chosen, control_plane_tools)
            running.append(control_plane)
            control_plane.start()
            return control_plane

        try:
            yield start
        finally:
            for control_plane in reversed(running):
                control_plane.stop()


@contextmanager
def _kept_on_failure(request: pytest.FixtureRequest, name: str) -> Iterator[Path]:
    """Yields a run folder, kept in pytest's cache if a test fails or the cluster does not start while it is used."""
    failed_before = request.session.testsfailed
    folder = Path(tempfile.mkdtemp(prefix="stowage-"))
    complete = False
    try:
        yield folder
        complete = request.session.testsfailed == failed_before
    finally:
        if not complete:
            _keep(request.config, folder, name)
        shutil.rmtree(folder, ignore_errors=True)


def _keep(config: pytest.Config, folder: Path, name: str) -> None:
    cache = config.cache
    if cache is None:  # pytest's cache plugin is off
        return
    target = cache.mkdir("stowage-clusters") / name.replace("/", "_")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("etcd", "kubectl-cache"))
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"\ncluster logs of {name} kept in {target}", yellow=True)
