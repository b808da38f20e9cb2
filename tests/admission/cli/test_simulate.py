"""`stowage simulate` and `stowage snapshot` as a user calls them: what is printed, which code they end with."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from admission.cli import simulate
from admission.cli.main import app
from admission.world.rules import WorldRules
from admission.world.snapshot import capture_world
from api import names
from tests.admission.world.world_documents import RACK, job, manifest, node, queue, tree, world, written

SAMPLES = Path(__file__).resolve().parents[3] / "config" / "samples"


def stowage(*arguments: object) -> Result:
    """Runs the command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two racks of two hosts; `a` fills a rack, `b` the other, `c` waits for one of them, `huge` never fits."""
    return written(
        tmp_path / "site.yaml",
        tree(2, 2),
        queue(),
        job("a", 8, require=RACK, runs="1m"),
        job("b", 8, require=RACK, runs="90s"),
        job("c", 8, require=RACK, at="10s", runs="30s"),
        job("huge", 9, require=RACK),
    )


def test_tables_for_people(site: Path) -> None:
    done = stowage("simulate", site)
    assert done.exit_code == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "Job default/a 8 0s 0s 1m00s 4 in r0/r0-h0, 4 in r0/r0-h1" in lines
    assert "Job default/c 8 10s 1m00s 1m30s 4 in r0/r0-h0, 4 in r0/r0-h1" in lines
    assert any(line.startswith("Job default/huge 9 0s - - TopologyPlacementFailed:") for line in lines)
    assert any(re.match(r"q 0 4 3 16\.667s 0s 50s 50s", line) for line in lines)
    assert any(line.startswith("3 of 4 admitted within 1m30s of virtual time") for line in lines)


def test_json_for_programs_on_standard_output_alone(site: Path) -> None:
    site.write_text(f"{site.read_text()}---\nkind: Odd\napiVersion: v1\nmetadata: {{name: x}}\n")
    done = stowage("simulate", site, "--json")
    told = json.loads(done.stdout)
    assert told["summary"]["admitted"] == 3
    assert {one["job"]: one["state"] for one in told["workloads"]} == {
        "Job default/a": "Finished",
        "Job default/b": "Finished",
        "Job default/huge": "Waiting",
        "Job default/c": "Finished",
    }
    assert told["faults"] == [f"{site}: Odd x: not read: a kind that has no part in admission"]
    assert stowage("simulate", site, "--json").stdout == done.stdout


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """A movable job in each of two racks, and a job that waits for a whole one."""
    terms = {names.MOVABLE: "true", names.MINIMUM_RUN_TIME: "0s"}
    first, second = (job(name, 2, require=RACK, runs="10m") for name in "ab")
    for made in (first, second):
        made["metadata"]["annotations"].update(terms)
    fill, gang = job("fill", 6, require=RACK, runs="30s"), job("gang", 8, require=RACK, runs="1m", at="60s")
    return written(tmp_path / "apart.yaml", tree(2, 2), queue(), first, fill, second, gang)


def test_moves_beside_the_same_load_without(apart: Path) -> None:
    done = stowage("simulate", apart, "--moves", "--checkpoint-every", "1m")
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    table = lines[lines.index("without with moves") :]
    assert "workloads that require a domain: admitted 4 of 4 4 of 4" in table
    assert "longest 9m00s 30s" in table
    assert "moves, evictions 0, 0 1, 0" in table
    told = json.loads(stowage("simulate", apart, "--moves", "--checkpoint-every", "1m", "--json").stdout)
    assert [told["comparison"][arm]["moves"] for arm in ("withoutMoves", "withMoves")] == [0, 1]
    assert told["comparison"]["withMoves"]["lostDeviceSeconds"] == told["summary"]["lostDeviceSeconds"] == 60.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--moves", "--replay"), "--moves excludes"),
        (("--moves", "--with", "x.yaml"), "--moves excludes"),
        (("--checkpoint-every", "0s"), "must be more than 0"),
        (("--checkpoint-every", "often"), "often"),
    ],
)
def test_options_of_moves_that_make_no_sense(apart: Path, arguments: tuple[str, ...], message: str) -> None:
    done = stowage("simulate", apart, *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_what_is_not_taken_is_named_on_standard_error(site: Path, tmp_path: Path) -> None:
    written(tmp_path / "more.yaml", job("bad", require="floor"), manifest("Cohort", "c", spec={"parentName": 3}))
    done = stowage("simulate", tmp_path)
    assert done.exit_code == 0
    assert f"{tmp_path / 'more.yaml'}: Job default/bad: metadata.annotations" in done.stderr
    assert f"{tmp_path / 'more.yaml'}: Cohort c: spec.parentName: 3: Input should be a valid string" in done.stderr
    assert "3 of 4 admitted" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "name files, a snapshot", id="nothing"),
        pytest.param(["{folder}/none.yaml"], "none.yaml: No such file or directory", id="no file"),
        pytest.param(["{folder}/bad.yaml"], "bad.yaml: neither YAML nor JSON", id="no yaml"),
        pytest.param(["{folder}/nodes.yaml"], "there is no job and no Workload", id="no job"),
        pytest.param(["{folder}/old.json"], "format: 'stowage.dev/snapshot/v0'", id="no snapshot of ours"),
        pytest.param(
            ["{folder}/site.yaml", "--with", "{folder}/nodes.yaml"], "--with: no job to try", id="no job to try"
        ),
        pytest.param(["{folder}/site.yaml", "--picture", "x.gif"], "must end in .svg or .png", id="no picture"),
        pytest.param(["--with", "{folder}/site.yaml", "--kubeconfig", "{folder}/none"], "no cluster", id="no cluster"),
    ],
)
def test_where_nothing_can_be_played(site: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    written(tmp_path / "nodes.yaml", node("n", "r0"))
    (tmp_path / "bad.yaml").write_text("a: [")
    old = '{"format": "stowage.dev/snapshot/v0", "at": 0, "budget": 1, "options": {}}'
    (tmp_path / "old.json").write_text(old)
    done = stowage("simulate", *(argument.format(folder=tmp_path) for argument in arguments))
    assert done.exit_code == 2
    assert message in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("option", ["--run-for", "--until", "--picture-at"])
def test_a_duration_that_is_none(site: Path, option: str) -> None:
    done = stowage("simulate", site, option, "soon")
    assert done.exit_code == 2
    assert "must be a duration such as" in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(["--until", "30s"], "2 of 4 admitted within 30s", id="until"),
        pytest.param(["--run-for", "20"], "3 of 4 admitted within 1m30s", id="a number is seconds"),
    ],
)
def test_options_of_time(site: Path, arguments: list[str], line: str) -> None:
    assert line in stowage("simulate", site, *arguments).stdout


def test_would_this_run(site: Path, tmp_path: Path) -> None:
    """One instant of the world of the files, with a job more; nobody else is told of."""
    small = written(tmp_path / "small.yaml", job("small", 1, at="1h"), job("wide", 8, require=RACK))
    (tmp_path / "more").mkdir()
    nodes = written(tmp_path / "more" / "nodes.yaml", node("r2-h0", "r2"))
    done = stowage("simulate", site, nodes, "--with", small)
    assert done.exit_code == 0
    first, second = done.stdout.splitlines()
    assert first == "Job default/small would run now: 1 in r2/r2-h0"
    assert second.startswith("Job default/wide would wait: TopologyPlacementFailed: ")


# ---- snapshots


def test_a_snapshot_plays_as_the_files_do(site: Path, tmp_path: Path) -> None:
    saved = tmp_path / "snapshot.json"
    done = stowage("snapshot", "-o", saved, site)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "0 admitted, 3 waiting" in done.stderr
    assert stowage("simulate", "--snapshot", saved, "--json").stdout == stowage("simulate", site, "--json").stdout
    again = tmp_path / "again.json"
    stowage("snapshot", "-o", again, saved)
    assert again.read_bytes() == saved.read_bytes()


def test_a_replay_is_the_same_bit_for_bit(site: Path, tmp_path: Path) -> None:
    saved = tmp_path / "snapshot.json"
    stowage("snapshot", "-o", saved, site)
    one, other = (stowage("simulate", "--snapshot", saved, "--replay").stdout_bytes for _ in range(2))
    assert one == other
    decisions: list[dict[str, Any]] = [json.loads(line) for line in one.splitlines()]
    assert [decision["decision"] for decision in decisions] == ["Admit", "Admit", "Wait"]
    assert decisions[2]["reason"] == "TopologyPlacementFailed"


def test_a_replay_decides_again_on_requeued_workloads(tmp_path: Path) -> None:
    """A snapshot from a controller that has refused already says what it refused."""
    made = world(tree(1, 1), queue(), job("runs", 4), job("sleeps", 3))
    assert made.cycle().waiting == 1
    saved = tmp_path / "snapshot.json"
    saved.write_bytes(capture_world(made).encode())
    (decision,) = map(json.loads, stowage("simulate", "--snapshot", saved, "--replay").stdout.splitlines())
    assert (decision["decision"], decision["workload"]) == ("Wait", next(k for k in made.about if "sleeps" in k))


def test_a_snapshot_that_cannot_be_written(site: Path, tmp_path: Path) -> None:
    done = stowage("snapshot", "-o", tmp_path / "no" / "where.json", site)
    assert done.exit_code == 2
    assert "no snapshot: " in done.stderr


def test_nothing_can_stand_beside_a_snapshot(site: Path, tmp_path: Path) -> None:
    saved = tmp_path / "snapshot.json"
    stowage("snapshot", "-o", saved, site)
    done = stowage("simulate", saved, site)
    assert done.exit_code == 2
    assert "a snapshot contains the whole state" in done.stderr


# ---- long runs, pictures


def test_a_progress_bar_only_on_a_terminal(tmp_path: Path) -> None:
    jobs = [job(f"j{n}", at=f"{n}s", runs="1s") for n in range(simulate._LONG)]
    site = written(tmp_path / "many.yaml", tree(1, 1), queue(), jobs)
    seen = {}
    for terminal in (True, False):
        err = Console(file=io.StringIO(), force_terminal=terminal, width=80)
        out = Console(file=io.StringIO(), width=120)
        assert simulate.run(simulate.SimulateArguments(files=[site]), WorldRules(), out, err) == 0
        seen[terminal] = err.file.getvalue() if isinstance(err.file, io.StringIO) else ""
        assert isinstance(out.file, io.StringIO)
        assert "and 160 more (--all shows them)" in out.file.getvalue()
    assert f"{simulate._LONG}" in seen[True]
    assert seen[False] == ""


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture_of_the_fullest_moment(site: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tree.{suffix}"
    done = stowage("simulate", site, "--picture", path)
    assert done.exit_code == 0
    data = path.read_bytes()
    if suffix == "png":
        assert data.startswith(b"\x89PNG")
        return
    for name in (b"r0-h0", b"r1-h1", b">r0<", b">r1<", b">at 0s<"):
        assert name in data
    stowage("simulate", site, "--picture", path)
    assert path.read_bytes() == data
    stowage("simulate", site, "--picture", path, "--picture-at", "75s")
    assert b">at 1m15s<" in path.read_bytes()
