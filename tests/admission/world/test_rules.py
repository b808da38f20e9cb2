"""Worlds go by the controller's settings: what it counts, manages and holds back, they do too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from admission.cli.main import app
from admission.engine.decision import Admit, Wait
from admission.settings import AdmissionSettings
from admission.simulation.run import simulate
from admission.world.documents import Document
from admission.world.files import from_documents
from admission.world.rules import rules_of
from admission.world.snapshot import capture_world, decode, from_snapshot
from admission.world.world import World
from api import names
from tests.admission.world.world_documents import RACK, Manifest, flat, job, manifest, queue, tree, written

VF = "net.example.com/vf"
EXCLUDED = {"resources": {"excludeResourcePrefixes": ["net.example.com/"]}}
CREDITS = {
    "resources": {
        "transformations": [{"input": "cpu", "strategy": "Replace", "outputs": {"example.com/credits": 3}}],
    }
}


def wired(*arguments: Any) -> list[Manifest]:
    """The objects, with a network function on each node, and one for each pod of a job."""
    objects = flat(arguments)
    for obj in objects:
        if obj["kind"] == "Node":
            obj["status"]["allocatable"][VF] = "1"
        if obj["kind"] == "Job":
            (container,) = obj["spec"]["template"]["spec"]["containers"]
            container["resources"]["requests"][VF] = "1"
    return objects


def credits_queue(amount: int) -> list[Manifest]:
    """A queue that counts credits alone."""
    quota = {"name": "tas", "resources": [{"name": "example.com/credits", "nominalQuota": amount}]}
    groups = [{"coveredResources": ["example.com/credits"], "flavors": [quota]}]
    return [
        manifest("ClusterQueue", "q", spec={"namespaceSelector": {}, "resourceGroups": groups}),
        manifest("LocalQueue", "q", "default", spec={"clusterQueue": "q"}),
    ]


def world(sections: dict[str, Any], *objects: Any) -> World:
    """The world of these objects under these settings."""
    rules = rules_of(AdmissionSettings.model_validate(sections))
    return from_documents([Document("made.yaml", obj) for obj in flat(objects)], rules)


def answers(scene: World) -> dict[str, str]:
    """By job, after one cycle: what it was charged, or the reason why it waits."""
    found = {}
    for decision in scene.cycle().decisions:
        name = scene.title(decision.workload).rpartition("/")[2]
        if isinstance(decision, Admit):
            usage = decision.admission.usage().items()
            found[name] = ", ".join(f"{amount} {resource}" for (_, resource), amount in usage)
        elif isinstance(decision, Wait):
            found[name] = str(decision.reason)
    return found


@pytest.mark.parametrize(
    ("sections", "queues", "message"),
    [
        pytest.param({}, wired(queue(), tree(), job("a", 4)), {"a": "NoMatchingFlavor"}, id="plain: not covered"),
        pytest.param(EXCLUDED, wired(queue(), tree(), job("a", 4)), {"a": "4000 cpu"}, id="excluded"),
        pytest.param(
            {}, [*credits_queue(12), *tree(), job("a", 4)], {"a": "NoMatchingFlavor"}, id="plain: cpu is not covered"
        ),
        pytest.param(
            CREDITS,
            [*credits_queue(12), *tree(), job("a", 4)],
            {"a": "12 example.com/credits"},
            id="cpu counts as credits",
        ),
        pytest.param(
            CREDITS, [*credits_queue(11), *tree(), job("a", 4)], {"a": "ExceedsMaxQuota"}, id="too few credits"
        ),
    ],
)
def test_quota_counts_what_the_settings_say_in_files_and_in_their_snapshot(
    sections: dict[str, Any], queues: list[Manifest], message: dict[str, str]
) -> None:
    made = world(sections, queues)
    saved = from_snapshot(decode(capture_world(made).encode()))
    assert answers(made) == answers(saved) == message


def test_an_arrival_is_counted_likewise() -> None:
    runs = simulate(world(CREDITS, tree(), credits_queue(12), job("a", 4, at="1m"), job("b", 5, at="1m"))).runs
    assert {run.title: run.admitted for run in runs.values()} == {"Job default/a": 60.0, "Job default/b": None}


def test_placement_counts_everything_all_the_same() -> None:
    """Four hosts have one of them each."""
    made = world(EXCLUDED, wired(tree(), queue(), job("a", 4), job("b", 1)))
    assert answers(made) == {"a": "4000 cpu", "b": "TopologyPlacementFailed"}


def unnamed(name: str, namespace: str = "default") -> Manifest:
    """A job that names no queue."""
    made = job(name)
    made["metadata"] |= {"namespace": namespace, "labels": {}}
    return made


def test_jobs_without_a_queue_are_held_where_the_settings_hold_them() -> None:
    plain, held = (
        world(sections, tree(), queue(), unnamed("a")) for sections in ({}, {"manage_jobs_without_queue_name": True})
    )
    assert [fault.object for fault in plain.faults] == ["Job default/a"]
    assert not held.faults
    [waiting] = held.queues.workloads()
    assert waiting.blocked == ("Misconfigured", "LocalQueue  doesn't exist")


def test_jobs_of_namespaces_that_are_not_managed_are_named() -> None:
    selector = {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["default", "kube-system", "stowage-system"],
            }
        ]
    }
    made = world({"managed_jobs_namespace_selector": selector}, tree(), queue(), job("a"))
    assert [str(fault) for fault in made.faults] == [
        "made.yaml: Job default/a: jobs of namespace default are not managed, so nothing holds it back"
    ]


def test_one_at_a_time_where_admission_waits_for_pods() -> None:
    block = {"wait_for_pods_ready": {"enabled": True, "blockAdmission": True}}
    made = world(block, tree(), queue(), job("a"), job("b"))
    assert answers(made) == {"a": "1000 cpu", "b": "WaitingForPodsReady"}
    again = world(block, tree(), queue(), job("a"), job("b"))
    assert [run.admitted for run in simulate(again).runs.values()] == [0.0, 0.0], "there pods are ready at once"


# ---- Kueue's feature gates


def gates(**fields: bool) -> dict[str, Any]:
    """A configuration file of Kueue with these gates."""
    return {"feature_gates": fields}


def annotated(obj: Manifest, **annotations: str) -> Manifest:
    """The object with these annotations of Kueue's group."""
    found = obj["metadata"].setdefault("annotations", {})
    found |= {f"{names.GROUP}/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return obj


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        pytest.param({}, {"a": "TopologyPlacementFailed"}, id="no rack has room for nine"),
        pytest.param(gates(TopologyAwareScheduling=False), {"a": "9000 cpu"}, id="quota alone counts"),
    ],
)
def test_topology_counts_unless_its_gate_is_closed(sections: dict[str, Any], message: dict[str, str]) -> None:
    assert answers(world(sections, tree(), queue(), job("a", 9, require=RACK))) == message


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        pytest.param({}, {}, id="gated"),
        pytest.param(gates(AdmissionGatedBy=False), {"a": "1000 cpu"}, id="ignored"),
    ],
)
def test_an_admission_gate_counts_unless_the_feature_is_off(sections: dict[str, Any], message: dict[str, str]) -> None:
    gated = annotated(job("a"), admission_gated_by="example.com/budget")
    assert answers(world(sections, tree(), queue(), gated)) == message


def boosted(name: str, boost: str) -> Manifest:
    """A Workload of one pod whose priority an annotation raises."""
    container = {"name": "main", "resources": {"requests": {"cpu": "4"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    made = manifest("Workload", name, "default", spec={"queueName": "q", "priority": 10, "podSets": [pods]})
    return annotated(made, priority_boost=boost)


@pytest.mark.parametrize(
    ("sections", "first"),
    [
        pytest.param({}, {"a"}, id="off: by name"),
        pytest.param(gates(PriorityBoost=True), {"b"}, id="on: the higher effective priority"),
    ],
)
def test_a_boost_adds_to_the_priority_where_its_gate_is_open(sections: dict[str, Any], first: set[str]) -> None:
    made = world(sections, tree(), queue(cpu=4), boosted("a", "-1"), boosted("b", "5"))
    assert {name for name, said in answers(made).items() if said == "4000 cpu"} == first


# ---- the commands


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of settings that the commands go by."""
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(CREDITS))
    monkeypatch.setenv("STOWAGE_CONFIG", str(path))
    return path


@pytest.mark.usefixtures("settings")
def test_the_commands_read_them(tmp_path: Path) -> None:
    site = written(tmp_path / "site.yaml", tree(), credits_queue(12), job("a", 4), job("b", 1))
    saved = tmp_path / "saved.json"
    run = CliRunner().invoke(app, ["simulate", str(site), "--json"])
    states = {one["job"]: one["podSets"] != [] for one in json.loads(run.stdout)["workloads"]}
    assert states == {"Job default/a": True, "Job default/b": True}
    assert CliRunner().invoke(app, ["snapshot", "-o", str(saved), str(site)]).exit_code == 0
    replay = CliRunner().invoke(app, ["simulate", "--snapshot", str(saved), "--replay"])
    assert [json.loads(line)["decision"] for line in replay.stdout.splitlines()] == ["Admit", "Wait"]
    told = CliRunner().invoke(app, ["explain", "default/a", "--snapshot", str(saved), "--json"])
    assert json.loads(told.stdout)["verdict"] == "Fits"
