"""`stowage defrag --plan`: what it prints, of which input, and its errors."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from admission.cli.defrag import command
from admission.cli.main import app
from admission.engine.model import NO_TERMS, ClusterQueue, Workload
from admission.world.rules import WorldRules
from admission.world.snapshot import capture_world
from admission.world.world import World
from tests.admission.engine.features.moves.clusters import NOW, Running, cluster, gang, own

SAMPLES = Path(__file__).resolve().parents[3] / "config" / "samples"
SITE = tuple(SAMPLES / f"{name}.yaml" for name in ("flavor-levels", "queue", "simulation/nodes", "moves/fragmented"))
WIDE = SAMPLES / "simulation" / "wide.yaml"


def run(*files: Path, jobs: tuple[Path, ...] = (), domain: str = "", as_json: bool = False) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    out, err = (Console(file=io.StringIO(), width=160) for _ in range(2))
    arguments = command.DefragArguments(files, jobs, domain, as_json)
    code = command.run(arguments, WorldRules(), out, err)
    return code, out.file.getvalue(), err.file.getvalue()  # type: ignore[attr-defined]  # they are StringIOs


def snapshot(folder: Path, /, limit: float | None = None, queue: ClusterQueue | None = None, **runs: Running) -> Path:
    """Two racks on which these run for `limit` seconds, while a gang waits for a whole one, as a file."""
    world = World(now=NOW)
    for event in cluster({f"ns/{name}": one for name, one in runs.items()}, queue or own()).inputs():
        world.apply(replace(event, time_limit=limit) if isinstance(event, Workload) else event)
    world.apply(gang())
    path = folder / "snapshot.json"
    path.write_bytes(capture_world(world).encode())
    return path


def test_a_snapshot_is_planned_for_like_the_cluster(tmp_path: Path) -> None:
    path = snapshot(tmp_path, a=Running({"h0": 1}), b=Running({"h2": 1}, ran=700))
    code, out, err = run(path, as_json=True)
    (found,) = json.loads(out)
    assert (code, err, found["target"]) == (0, "", "ns/gang")
    (move,) = found["plan"]["moves"]
    assert (move["workload"], move["cost"]) == ("ns/b", 700)
    assert found["plan"]["certificate"]["proof"] == "Optimal"
    (room,) = found["rooms"]
    assert ["rack", "whole host", 1, 2] in room["gangs"]


@pytest.mark.parametrize(
    ("backfill", "left", "text"),
    [
        pytest.param(True, 300, "would lose 700 device-seconds of work, the gang's wait only 600", id="soon"),
        pytest.param(True, 400, "1 move(s), then it would start", id="later"),
        pytest.param(False, 300, "1 move(s), then it would start", id="not reserved"),
    ],
)
def test_nothing_moves_for_a_gang_whose_reserved_start_is_near(
    tmp_path: Path, backfill: bool, left: int, text: str
) -> None:
    runs = {"a": Running({"h0": 1}, ran=0, moves=NO_TERMS), "b": Running({"h2": 1}, ran=700)}
    path = snapshot(tmp_path, 700.0 + left, replace(own(), reserves_starts=backfill), **runs)
    code, out, _ = run(path)
    assert (code, text in out) == (0, True), out


def test_who_stays_is_counted_by_the_reason(tmp_path: Path) -> None:
    path = snapshot(
        tmp_path,
        a=Running({"h0": 1}, moves=NO_TERMS),
        b=Running({"h2": 1}, moves=NO_TERMS),
        c=Running({"h3": 1}, ran=10),
    )
    code, out, _ = run(path)
    assert code == 0
    assert out.splitlines() == [
        "ns/gang: no moves: no workload may be moved",
        "  2 workload(s) stay: not declared movable",
        "  1 workload(s) stay: within its minimum run time",
    ]


@pytest.mark.parametrize("domain", ["rack", "cloud-provider.com/topology-rack"])
def test_a_level_is_named_in_full_or_by_its_last_word(domain: str) -> None:
    code, out, _ = run(*SITE, domain=domain)
    assert code == 0
    assert "domain b0/r1 would be free" in out


def test_an_unknown_level_is_answered_with_the_levels_that_exist() -> None:
    for jobs in ((), (WIDE,)):
        code, out, err = run(*SITE, jobs=jobs, domain="row")
        assert (code, out) == (2, "")
        assert "cannot plan: no flavor has the level 'row'; levels are cloud-provider.com/topology-block" in err


def test_a_job_that_no_rack_can_hold_gets_no_plan() -> None:
    code, out, _ = run(*SITE, jobs=(WIDE,))
    assert code == 0
    assert out.startswith("Job default/wide: no moves: ")
    assert "only 16 out of 20" in out


def test_a_job_for_a_queue_that_does_not_exist_gets_the_queue_named(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(WIDE.read_text().replace("tas-user-queue", "nowhere"))
    assert run(*SITE, jobs=(job,))[1].startswith("Job default/wide: no moves: LocalQueue nowhere doesn't exist")


def test_for_and_domain_together_require_the_level(tmp_path: Path) -> None:
    """The job prefers a rack and fits now; that it required one would take a move."""
    job = tmp_path / "job.yaml"
    job.write_text(WIDE.read_text().replace("require-topology", "prefer-topology").replace(": 20", ": 16"))
    assert "no moves: it fits without moves" in run(*SITE, jobs=(job,))[1]
    assert "1 move(s), then it would start" in run(*SITE, jobs=(job,), domain="rack")[1]


@pytest.mark.parametrize(
    ("latest", "text"),
    [
        pytest.param("2026-11-26T10:00:30Z", "lose 900 device-seconds of work, the gang's wait only 480", id="soon"),
        pytest.param("2026-11-26T10:01:00Z", "1 move(s), then it would start", id="later"),
        pytest.param("2026-99-26T10:00:30Z", "1 move(s), then it would start", id="no time, written by others"),
    ],
)
def test_nothing_moves_for_a_gang_that_is_expected_to_start_sooner(tmp_path: Path, latest: str, text: str) -> None:
    """Never for a workload that could wait less than the moves cost."""
    message = f"expected to start between 2026-11-26T10:00:00Z and {latest}, with 90% confidence"
    told = f'- {{type: stowage.dev/ExpectedStart, status: "True", reason: Forecast, message: "{message}"}}'
    site = tmp_path / "site.yaml"
    site.write_text(f"{SITE[-1].read_text()}    {told}\n")
    assert text in run(*SITE[:-1], site)[1]


@pytest.mark.parametrize(
    ("files", "jobs", "text"),
    [
        pytest.param(SITE[:3], (), "no workload waits", id="nothing waits"),
        pytest.param(SITE, (SITE[0],), "--for: no job to plan for", id="no job in the file"),
        pytest.param((Path("absent.yaml"),), (), "absent.yaml", id="no such file"),
    ],
)
def test_input_that_cannot_be_planned_for_ends_with_2(
    files: tuple[Path, ...], jobs: tuple[Path, ...], text: str
) -> None:
    code, out, err = run(*files, jobs=jobs)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("cannot plan: ")
    assert text in err


def test_a_snapshot_takes_no_further_job(tmp_path: Path) -> None:
    code, _, err = run(snapshot(tmp_path), jobs=(WIDE,))
    assert code == 2
    assert "--for: a snapshot holds no LocalQueues" in err


@pytest.mark.parametrize(
    "more", [["--plan"], ["--for", str(WIDE)], ["--snapshot", "s.json"], [str(SITE[0])]], ids=lambda more: more[0][:10]
)
def test_moves_are_made_in_a_live_cluster_alone(more: list[str]) -> None:
    done = CliRunner().invoke(app, ["defrag", "--apply", *more])
    assert done.exit_code == 2
    assert "--apply excludes --plan" in done.output


def test_to_plan_is_the_default() -> None:
    assert CliRunner().invoke(app, ["defrag", *map(str, SITE)]).exit_code == 0
