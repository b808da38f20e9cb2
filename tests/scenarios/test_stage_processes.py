"""A process that ends by itself is named by every wait, at once and with the end of its log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from admission.cli.local_cluster import processes
from admission.cli.local_cluster.processes import ChildProcess, ProcessFailed, StowageProcesses
from tests.scenarios.site import eventually
from tests.scenarios.stage_processes import fallen, logs, playing

BRIEF, LASTING = "brief", "lasting"


@pytest.fixture
def troupe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StowageProcesses:
    """One that says something and ends, and one that goes on until it is told to end."""
    commands = {BRIEF: ("this",), LASTING: ("http.server", "0", "--bind", "127.0.0.1")}
    monkeypatch.setattr(processes, "COMMANDS", commands)
    made = StowageProcesses({}, tmp_path)
    made.children.update({name: ChildProcess(name, {}, tmp_path / f"{name}.log", 1) for name in commands})
    return made


async def nothing() -> None:
    """Not there yet."""


async def test_who_ends_by_itself_has_fallen_and_no_wait_goes_on(troupe: StowageProcesses) -> None:
    child = troupe.children[BRIEF]
    with playing(troupe):
        assert fallen() is None
        await child.start()
        with pytest.raises(ProcessFailed, match=r"brief ended with 0\n(?s:.*)Namespaces are one honking great idea"):
            await child.ready(120)
        with pytest.raises(AssertionError, match=r"snow: not any more, brief ended with 0\n(?s:.*)honking great"):
            await eventually("snow", nothing)
        assert logs(lines=1).startswith("--- brief\nNamespaces")
    assert fallen() is None, "it plays no more"


async def test_a_stopped_process_is_not_a_failed_one(troupe: StowageProcesses) -> None:
    child = troupe.children[LASTING]
    with playing(troupe):
        await child.start()
        await child.stop()
        assert child.process is not None
        assert child.process.returncode is not None
        assert fallen() is None


async def test_who_is_started_again_has_not_fallen_meanwhile(troupe: StowageProcesses) -> None:
    child = troupe.children[LASTING]
    with playing(troupe):
        await child.start()
        await child.stop()
        starting = asyncio.create_task(child.start())
        while not starting.done():
            assert fallen() is None
            await asyncio.sleep(0)
        await child.stop()
