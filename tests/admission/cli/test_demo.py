"""The demo's command, its story's arithmetic and what its table says; the story itself is played in tests/integration."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from admission.cli.demo import demo
from admission.cli.demo.display import Display, story_of
from admission.cli.demo.observe import JobState, JobView, _state
from admission.cli.demo.story import FOLLOWS, GPUS_PER_HOST, HOSTS_PER_RACK, LEAVES, StoryJob, manifest, nodes, story
from admission.cli.local_cluster.processes import ChildProcess, ProcessFailed, StowageProcesses
from admission.cli.main import app
from api.kube.resources import JOBS, JOBSETS
from api.names import REQUIRE_TOPOLOGY
from api.workloads import Workload

RACK_SIZE = HOSTS_PER_RACK * GPUS_PER_HOST


def test_the_numbers_force_the_wait_however_pods_are_placed() -> None:
    asks = {ask.name: ask for ask in story()}
    last = asks.pop(FOLLOWS)
    free = len(list(nodes())) * GPUS_PER_HOST - sum(ask.pods for ask in asks.values())
    assert 0 <= free < last.pods == RACK_SIZE
    assert asks[LEAVES].pods == RACK_SIZE
    assert REQUIRE_TOPOLOGY in asks[LEAVES].topology


def test_the_story_has_every_kind_of_job() -> None:
    asks = story()
    assert {manifest(ask)[0] for ask in asks} == {JOBS, JOBSETS}
    assert {ask.topology_text for ask in asks} == {"require rack", "prefer rack"}
    assert any(len(ask.pod_sets) == 2 for ask in asks)


@pytest.mark.parametrize(
    ("conditions", "running", "state"),
    [
        pytest.param([], 0, JobState.QUEUED, id="no word yet"),
        pytest.param([("QuotaReserved", "False", "WaitingForQuota")], 0, JobState.WAITING, id="waits"),
        pytest.param([("QuotaReserved", "True", "QuotaReserved")], 0, JobState.QUEUED, id="reserved only"),
        pytest.param([("Admitted", "True", "Admitted")], 15, JobState.ADMITTED, id="pods come"),
        pytest.param([("Admitted", "True", "Admitted")], 16, JobState.RUNNING, id="all run"),
        pytest.param(
            [("Finished", "True", "Succeeded"), ("Admitted", "True", "Admitted")], 0, JobState.FINISHED, id="done"
        ),
        pytest.param([("Finished", "True", "Failed")], 0, JobState.FAILED, id="failed"),
    ],
)
def test_states(conditions: list[tuple[str, str, str]], running: int, state: JobState) -> None:
    said = [
        {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind, status, reason in conditions
    ]
    workload = Workload.from_wire({"metadata": {"name": "w"}, "spec": {"podSets": []}, "status": {"conditions": said}})
    assert _state(story()[0], workload, running)[0] is state


def views() -> dict[str, JobView]:
    first, *_, last = story()
    return {
        first.name: JobView(first, JobState.RUNNING, running=16, hosts={"b1-r1-h1": 4}, racks={"main": {"a/r": 16}}),
        last.name: JobView(last, JobState.WAITING, reason="TopologyPlacementFailed", message="no room"),
    }


def test_on_a_terminal_a_table_lives() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=160)
    with Display(console) as display:
        display.show(views())
    display.finish(views())
    for words in ("require rack", "TopologyPlacementFailed: no room", "16 in a/r", "steady x4", "4 free"):
        assert words in out.getvalue()


def test_where_pod_sets_are_and_why_a_job_waits() -> None:
    agents = next(ask for ask in story() if ask.is_jobset)
    racks = {"driver": {"b/r1": 1}, "workers": {"b/r2": 3, "b/r1": 5}}
    view = JobView(agents, JobState.RUNNING, racks=racks)
    assert story_of(view) == "driver: 1 in b/r1; workers: 5 in b/r1, 3 in b/r2"
    assert not view.keeps_requirement
    assert story_of(views()[FOLLOWS]) == "TopologyPlacementFailed: no room"


@pytest.mark.parametrize("failure", [demo.StoryFailed("late runs"), ProcessFailed("webhook ended")])
def test_a_story_that_does_not_come_true_is_an_error(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    async def play(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(demo, "play", play)
    answer = CliRunner().invoke(app, ["demo"])
    assert answer.exit_code == 1
    assert str(failure) in answer.output


def test_a_terminated_demo_cleans_up_as_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    async def play(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            ended.append("the cluster")

    monkeypatch.setattr(demo, "play", play)
    answer = CliRunner().invoke(app, ["demo"])
    assert (answer.exit_code, ended) == (130, ["the cluster"])
    assert answer.stderr == "interrupted\n"


async def test_the_deadline_says_what_was_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Stuck(demo.StoryPlayer):
        async def play(self, jobs: Sequence[StoryJob]) -> demo.StoryResult:
            self.awaited = "late runs"
            never: asyncio.Future[demo.StoryResult] = asyncio.get_running_loop().create_future()
            return await never

    @contextlib.asynccontextmanager
    async def nowhere(_: Path) -> AsyncIterator[SimpleNamespace]:
        log = tmp_path / "controller.log"
        log.write_text("it said nothing\n")
        processes = StowageProcesses({}, tmp_path)
        processes.children["controller"] = ChildProcess("controller", {}, log, 0)
        yield SimpleNamespace(kube=None, processes=processes)

    monkeypatch.setattr(demo, "StoryPlayer", Stuck)
    monkeypatch.setattr(demo, "embedded", nowhere)
    with pytest.raises(demo.StoryFailed, match=r"(?s)not within 0 s: late runs.*controller.*it said nothing"):
        await demo.play(Console(file=io.StringIO()), deadline=0.01)
