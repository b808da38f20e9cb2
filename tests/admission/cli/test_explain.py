"""`stowage explain`: what it finds by which name, its tables, its JSON, and its errors."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from admission.cli import explain as command
from admission.cli.main import app
from admission.engine.model import PlacementOptions
from admission.world.rules import WorldRules
from admission.world.snapshot import capture_world
from admission.world.workload_facts import about
from admission.world.world import WorkloadFacts, World
from tests.admission.engine.builders import Cluster, queue
from tests.admission.engine.explain import situations
from tests.admission.engine.explain.situations import W
from tests.builders import condition
from tests.builders import workload as made


def snapshot(cluster: Cluster, folder: Path, **titles: str) -> Path:
    """The cluster as a file. `titles`: more names by workload's name in `ns`."""
    world = World(PlacementOptions())
    for event in cluster.ledger.inputs():
        world.apply(event)
    for workload in cluster.queues.workloads():
        world.apply(workload)
    world.about = {f"ns/{name}": WorkloadFacts(title) for name, title in titles.items()}
    path = folder / "snapshot.json"
    path.write_bytes(capture_world(world).encode())
    return path


def run(name: str, path: Path, *, as_json: bool = False) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    out, err = (Console(file=io.StringIO(), width=160) for _ in range(2))
    code = command.run(command.ExplainArguments(name, as_json=as_json, snapshot=path), WorldRules(), out, err)
    return code, out.file.getvalue(), err.file.getvalue()  # type: ignore[attr-defined]  # they are StringIOs


def test_the_tables_say_what_is_in_the_way_and_what_would_help(tmp_path: Path) -> None:
    code, out, err = run(W, snapshot(situations.full_racks(), tmp_path, w="Job ns/train"))
    assert (code, err) == (0, "")
    assert "Job ns/train in ClusterQueue q: Waits (TopologyPlacementFailed, InsufficientResource" in out
    rack = next(line for line in out.splitlines() if "rack (asked)" in line)
    assert "b0/r00" in rack
    assert "2 of 5 pods" in rack
    assert "cpu: 2 free, 3 short, taken by ns/a (6)" in rack
    assert "1. ns/s0 finished" in out


def test_json_has_stable_keys_and_the_same_words(tmp_path: Path) -> None:
    code, out, _ = run(W, snapshot(situations.quota_and_capacity(), tmp_path), as_json=True)
    found = json.loads(out)
    assert code == 0
    top = "title workload clusterQueue verdict reason message flavors remedies ahead complete codes headline"
    top += " starts behind victims taken proofs cause forecast usage"
    assert sorted(found) == sorted(top.split())
    assert found["codes"][0] == found["reason"] == "WaitingForQuota"
    [flavor] = found["flavors"]
    assert sorted(flavor) == ["code", "flavor", "message", "podSets", "quota", "topology"]
    assert flavor["quota"][0]["short"] == "2"
    level = "level domain fits wanted unit everywhere asked shortages torn exclusions fragmented leader"
    assert sorted(flavor["podSets"][0]["levels"][0]) == sorted(level.split())
    both = next(remedy for remedy in found["remedies"] if len(remedy["changes"]) == 2)
    assert [change["kind"] for change in both["changes"]] == ["RaiseQuota", "RelaxTopology"]
    assert both["changes"][0]["by"] == "2"
    assert both["text"].startswith("ClusterQueue q had 2 more cpu")


def test_the_forecast_of_the_controller_is_shown_both_ways(tmp_path: Path) -> None:
    told = "expected to start between 2026-01-01T10:00:00Z and 2026-01-01T10:40:00Z, with 90% confidence"
    states = [condition("stowage.dev/ExpectedStart", "True", "Forecast", told)]
    waiting, started = (
        about(made("w", conditions=given)) for given in (states, [*states, condition("QuotaReserved", "True", "x", "")])
    )
    assert started.forecast == ""
    path = tmp_path / "snapshot.json"
    world = World(PlacementOptions())
    cluster = situations.full_racks()
    for event in (*cluster.ledger.inputs(), *cluster.queues.workloads()):
        world.apply(event)
    world.about = {W: waiting}
    path.write_bytes(capture_world(world).encode())
    assert told in run(W, path)[1]
    assert json.loads(run(W, path, as_json=True)[1])["forecast"] == told


@pytest.mark.parametrize("make", situations.SITUATIONS, ids=lambda make: make.__name__)
def test_every_situation_can_be_shown_both_ways(make: object, tmp_path: Path) -> None:
    path = snapshot(make(), tmp_path)  # type: ignore[operator]  # each makes a Cluster
    code, out, _ = run(W, path)
    assert code == 0
    found = json.loads(run(W, path, as_json=True)[1])
    assert all(remedy["text"] in " ".join(out.split()) for remedy in found["remedies"])


def test_a_workload_is_found_by_the_name_of_its_job(tmp_path: Path) -> None:
    path = snapshot(situations.full_racks(), tmp_path, w="Job ns/train", a="Job ns/twice", s0="JobSet ns/twice")
    assert run("ns/train", path)[0] == 0
    assert "ns/a is admitted" not in run("ns/train", path)[1]
    code, _, err = run("ns/twice", path)
    assert code == 2
    assert "'ns/twice' is the name of several: Job ns/twice, JobSet ns/twice; give one of ns/a, ns/s0" in err


def test_of_a_job_that_was_made_again_the_living_one_is_explained_and_the_other_named(tmp_path: Path) -> None:
    """The Workload of the first one stays until the garbage collector comes for it."""
    cluster = situations.full_racks()
    world = World(PlacementOptions())
    for event in (*cluster.ledger.inputs(), *cluster.queues.workloads()):
        world.apply(event)

    def told(**about: WorkloadFacts) -> tuple[int, str, str]:
        world.about = {f"ns/{name}": one for name, one in about.items()}
        (tmp_path / "saved.json").write_bytes(capture_world(world).encode())
        return run("ns/train", tmp_path / "saved.json")

    job = "Job ns/train"
    going = told(w=WorkloadFacts(job, created=10.0), a=WorkloadFacts(job, created=90.0, going=True))
    younger = told(w=WorkloadFacts(job, created=90.0), a=WorkloadFacts(job, created=10.0))
    for code, out, err in (going, younger):
        assert code == 0
        assert "Job ns/train in ClusterQueue q: Waits" in out
        assert err == "there is also Workload ns/a, of an earlier one of that name\n"


def test_an_admitted_one_and_one_whose_turn_comes_have_nothing_to_explain(tmp_path: Path) -> None:
    path = snapshot(situations.full_racks(), tmp_path)
    assert "is admitted" in run("ns/a", path)[1]
    fits = situations.waiting(situations.blocks(), *situations.tree(), queue(tas=100), pods=2)
    assert "fits and is admitted when its turn comes" in run(W, snapshot(fits, tmp_path))[1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("ns/nobody", "'ns/nobody' is not known: no Workload and no job with a queue name", id="unknown"),
        pytest.param("train", "'train' is no workload: allowed is NAMESPACE/NAME", id="no namespace"),
        pytest.param("job/ns/train", "'job/ns/train' is no workload: allowed is NAMESPACE/NAME", id="too many parts"),
    ],
)
def test_what_cannot_be_found_is_named(name: str, text: str, tmp_path: Path) -> None:
    code, out, err = run(name, snapshot(situations.full_racks(), tmp_path))
    assert (code, out) == (2, "")
    assert text in err


def test_a_name_without_namespace_is_refused_before_a_cluster_is_asked(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["explain", "train", "--kubeconfig", str(tmp_path / "none")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("cannot explain: 'train' is no workload: allowed is NAMESPACE/NAME")


def test_the_command_line(tmp_path: Path) -> None:
    path = snapshot(situations.full_racks(), tmp_path)
    result = CliRunner().invoke(app, ["explain", W, "--snapshot", str(path), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verdict"] == "Waits"
    missing = CliRunner().invoke(app, ["explain", W, "--snapshot", str(tmp_path / "none")])
    assert missing.exit_code == 2
