"""Learned run times over restarts, and a ConfigMap that somebody edited."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admission.controllers.forecasts import run_time_keeper
from admission.controllers.forecasts.run_time_keeper import RunTimeKeeper
from admission.engine.features.forecast.calibration import Calibration, Calibrations, StartForecast
from admission.engine.features.forecast.run_time_records import record_of
from admission.engine.features.forecast.run_times import KINDS, RunKind, run_kind
from admission.metrics import forecasts as metrics
from api.kube.client import Kube, PatchKind
from api.kube.resources import CONFIG_MAPS
from tests.admission.controllers.installed_server import installed

OURS = "stowage-system"
NOW = float(int(time.time()))
TRAIN = run_kind("ns/q", "Job", "job-train-1")


SOUND = {"queue": "ns/q", "owner": "Job", "name": "job-train", "least": 1, "most": 60, "counts": {"5": 3}}


class _Events:
    """What was recorded: reasons and messages."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def record(self, ref: Any, event_type: str, reason: str, message: str) -> None:
        """Takes an event."""
        self.told.append((reason, message))


@dataclass
class _Place:
    kube: Kube
    events: _Events

    def keeper(self) -> RunTimeKeeper:
        """As a process makes it when it starts."""
        recorder: Any = self.events
        return RunTimeKeeper(self.kube, recorder, OURS, 300.0, lambda: NOW)

    async def text(self) -> str:
        """What is stored."""
        found = await self.kube.get(CONFIG_MAPS, "stowage-run-times", OURS)
        return str(found.get("data", {}).get("run-times", ""))

    async def edit(self, text: str) -> None:
        """Stores something else."""
        body = {"data": {"run-times": text}}
        await self.kube.patch(CONFIG_MAPS, "stowage-run-times", body, OURS, kind=PatchKind.MERGE)


@contextlib.asynccontextmanager
async def place(folder: Path, *, exists: bool = True) -> AsyncIterator[_Place]:
    """The API server, with the ConfigMap of the manifests if it `exists`."""
    async with installed(folder) as kube:
        if not exists:
            await kube.delete(CONFIG_MAPS, "stowage-run-times", OURS)
        yield _Place(kube, _Events())


def runs(keeper: RunTimeKeeper, kind: RunKind = TRAIN) -> int:
    """How many runs of the kind are known."""
    return dict(keeper.times.kinds())[kind].total if kind in dict(keeper.times.kinds()) else 0


def learn(keeper: RunTimeKeeper, *ended: float, kind: RunKind = TRAIN) -> None:
    for at in ended:
        keeper.learn(kind, at - 60.0, at)


async def test_what_was_learned_is_known_after_a_restart(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        before = here.keeper()
        assert await before.load()
        learn(before, NOW - 30, NOW - 20, NOW - 10)
        await before.save()
        after = here.keeper()
        assert await after.load()
        assert dict(after.times.kinds()) == dict(before.times.kinds())
        assert here.events.told == []


async def test_how_well_forecasts_held_is_known_after_a_restart(tmp_path: Path) -> None:
    """Else each new leader would tell intervals under overload as if nobody had ever started later."""
    async with place(tmp_path) as here:
        before = here.keeper()
        for late, placed in ((30.0, False), (500.0, False), (4000.0, True)):
            told = StartForecast(NOW + 5, NOW + 100, 0.9, placed, "q", NOW, NOW + 5, NOW + 100, NOW + 100)
            before.compare(NOW + late, told)
        await before.save()
        after = here.keeper()
        assert await after.load()
        assert after.calibrations == before.calibrations
        assert after.calibrations.of("q", placed=True) == before.calibrations.of("q", placed=True) != Calibration()


@pytest.mark.parametrize(
    "forecasts",
    [
        pytest.param("7", id="a number"),
        pytest.param('[{"late": [1e300]}]', id="a huge ratio"),
        pytest.param('[{"early": [-1]}]', id="a negative ratio"),
        pytest.param('[{"held": "012"}]', id="another digit"),
        pytest.param(json.dumps([{"queue": "q" * 254}]), id="a long name"),
        pytest.param(json.dumps([{"held": "1" * 201}]), id="too many starts"),
        pytest.param(json.dumps([{}] * 35), id="too many queues"),
    ],
)
async def test_a_record_of_forecasts_that_somebody_edited_is_told_and_left_out(tmp_path: Path, forecasts: str) -> None:
    async with place(tmp_path) as here:
        await here.edit(f'{{"kinds": [{json.dumps(SOUND)}], "forecasts": {forecasts}}}')
        keeper = here.keeper()
        assert await keeper.load()
        assert (runs(keeper), keeper.calibrations) == (3, Calibrations())
        [(reason, message)] = here.events.told
        assert reason == "RunTimesNotRead"
        assert message.startswith("data[run-times].forecasts: ")
        assert len(message) < 300


async def test_no_run_counts_twice_and_none_is_lost(tmp_path: Path) -> None:
    """The next process sees the finished Workloads that still exist, and those that its predecessor had not written yet."""
    async with place(tmp_path) as here:
        before = here.keeper()
        learn(before, NOW - 30, NOW - 20)
        await before.save()
        learn(before, NOW - 10)
        after = here.keeper()
        learn(after, NOW - 30, NOW - 20, NOW - 10)
        assert await after.load()
        assert runs(after) == 3


async def test_nothing_is_written_that_has_not_changed(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        keeper = here.keeper()
        await keeper.load()
        await keeper.save()
        assert await here.text() == ""
        learn(keeper, NOW)
        await keeper.save()
        await here.edit("mine")
        await keeper.save()
        assert await here.text() == "mine"
        learn(keeper, NOW)
        await keeper.save()
        assert json.loads(await here.text())["kinds"]


async def test_without_the_config_map_all_is_kept_in_memory_and_told(tmp_path: Path) -> None:
    async with place(tmp_path, exists=False) as here:
        keeper = here.keeper()
        failed = [metrics.RUN_TIME_ERRORS.labels(one)._value.get() for one in ("read", "write")]
        assert await keeper.load(), "not tried again: nobody is about to make it"
        learn(keeper, NOW)
        await keeper.save()
        assert runs(keeper) == 1
        assert [metrics.RUN_TIME_ERRORS.labels(one)._value.get() for one in ("read", "write")] == [
            failed[0] + 1,
            failed[1] + 1,
        ]


@pytest.mark.parametrize(
    ("text", "kept", "says"),
    [
        pytest.param("no JSON", 0, "data[run-times]: ", id="no JSON"),
        pytest.param("[]", 0, "data[run-times]: ", id="a list"),
        pytest.param('{"until": "soon"}', 0, "data[run-times]: ", id="a time that is none"),
        pytest.param('{"until": 1e999}', 0, "data[run-times]: ", id="an endless time"),
        pytest.param("[" * 100_000, 0, "data[run-times]: ", id="nested deeply"),
        pytest.param('{"kinds": [' + "[" * 50_000 + "]" * 50_000 + "]}", 0, "data[run-times]", id="one nested deeply"),
        pytest.param(
            json.dumps({"kinds": [SOUND, {**SOUND, "least": -1}, 7]}),
            3,
            "data[run-times].kinds[1].least: -1: must be seconds from 0 to 315360000; 1 more; left out",
            id="one kind of three is sound",
        ),
        pytest.param('{"kinds": [' + "1" * 400 + "]}", 0, "data[run-times].kinds[0]", id="a huge number"),
    ],
)
async def test_what_cannot_be_read_is_told_and_left_out(tmp_path: Path, text: str, kept: int, says: str) -> None:
    async with place(tmp_path) as here:
        await here.edit(text)
        keeper = here.keeper()
        assert await keeper.load()
        assert runs(keeper) == kept
        [(reason, message)] = here.events.told
        assert reason == "RunTimesNotRead"
        assert message.startswith(says)
        learn(keeper, NOW)
        assert runs(keeper) == kept + 1, "it goes on learning"


async def test_a_time_in_the_future_hides_no_run(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        await here.edit(json.dumps({"until": 1e300, "kinds": []}))
        keeper = here.keeper()
        learn(keeper, NOW + 1)
        await keeper.load()
        assert runs(keeper) == 1


async def test_more_kinds_than_are_kept_are_left_out_oldest_first(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        await here.edit(json.dumps({"kinds": [{**SOUND, "name": f"n{n}"} for n in range(KINDS + 3)]}))
        keeper = here.keeper()
        await keeper.load()
        assert len(keeper.times) == KINDS
        assert runs(keeper, RunKind("ns/q", "Job", "n2")) == 0
        assert here.events.told[0][1].startswith(f"data[run-times].kinds: {KINDS + 3} items: must be at most {KINDS}")


async def test_what_is_stored_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than that, the kinds that were used longest ago are left out."""
    async with place(tmp_path) as here:
        keeper = here.keeper()
        for n in range(40):
            learn(keeper, NOW, kind=run_kind(f"ns/q{n}", "Job", "job-train"))
        monkeypatch.setattr(run_time_keeper, "LARGEST", 2_000)
        await keeper.save()
        text = await here.text()
        assert len(text) < 2_200
        kinds = json.loads(text)["kinds"]
        assert kinds[-1] == record_of(*list(keeper.times.kinds())[-1])
        assert 5 < len(kinds) < 40
