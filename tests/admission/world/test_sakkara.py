"""Sakkara's ConfigMaps in files: groups and trees as the controller takes them, and what is wrong with them told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from admission.engine.decision import Admit
from admission.simulation.run import simulate
from admission.world.builder import Builder
from admission.world.documents import Document
from admission.world.files import add_jobs, from_files
from admission.world.rules import WorldRules
from admission.world.snapshot import capture_world, decode, from_snapshot
from admission.world.world import World
from api import names
from tests.admission.world.world_documents import Manifest, flat, job, manifest, node, queue, tree, world, written

SAMPLES = Path(__file__).resolve().parents[3] / "config" / "samples"
NODES = [node(f"n{number}", f"r{number // 2}") for number in range(4)]
UNITS: dict[str, Any] = {"rack-0": {"n0": {}, "n1": {}}, "rack-1": {"n2": {}, "n3": {}}}


def config_map(name: str, label: str, data: dict[str, str], namespace: str = "default") -> Manifest:
    return manifest("ConfigMap", name, namespace, metadata={"labels": {label: ""}}, data=data) | {"apiVersion": "v1"}


def group(name: str = "g", size: Any = 2, called: str | None = None, **data: str) -> Manifest:
    return config_map(name, names.SAKKARA_GROUP, {"name": called or name, "size": str(size), **data})


def topology(name: str = "site", units: Any = UNITS, namespace: str = "default") -> Manifest:
    said = {"level-names": '["rack", "node"]', "tree": msgspec.json.encode(units).decode()}
    return config_map(name, names.SAKKARA_TOPOLOGY, said, namespace)


def member(name: str, of: str = "g", cpu: str = "1", **annotations: str) -> Manifest:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    own = {"labels": {names.SAKKARA_GROUP_NAME: of}, "annotations": annotations}
    return manifest("Pod", name, "default", metadata=own, spec={"containers": [container]})


def members(count: int, of: str = "g", **more: str) -> list[Manifest]:
    return [member(f"{of}-{n}", of, **more) for n in range(count)]


def group_job(name: str = "g", pods: int = 2, of: str = "g", **spec: Any) -> Manifest:
    """A Job that names no queue, with pods of a group."""
    made = job(name, pods)
    made["metadata"]["labels"] = {}
    made["spec"]["template"]["metadata"] = {"labels": {names.SAKKARA_GROUP_NAME: of}}
    made["spec"].update(spec)
    return made


def placed(scene: World) -> dict[str, dict[str, int]]:
    """Pods by node, of the workloads that the next cycle admits."""
    return {
        decision.workload: {
            domain.values[-1]: domain.count
            for got in decision.admission.pod_sets
            for domain in (got.assignment.domains if got.assignment else ())
        }
        for decision in scene.cycle().decisions
        if isinstance(decision, Admit)
    }


def faults(scene: World) -> list[str]:
    return [f"{fault.object}: {fault.message}" for fault in scene.faults]


def test_the_samples_play_as_in_a_cluster(tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", [node(f"node-{number}", "-", cpu=8) for number in range(6)])
    made = from_files([SAMPLES / "sakkara-topology.yaml", SAMPLES / "sakkara-group.yaml", nodes])
    assert not made.faults
    again = from_snapshot(decode(capture_world(made).encode()))
    [places] = placed(made).values()
    assert sorted(places.values()) == [4, 4], "two halves, each packed on one node"
    assert {name in ("node-0", "node-1", "node-2") for name in places} == {True, False}, "in racks of their own"
    assert list(placed(again).values()) == [places]


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(members(2), id="pods"),
        pytest.param([group_job()], id="a Job"),
        pytest.param([group_job(completions=8)], id="a Job that runs two pods at once"),
        pytest.param([group_job(), member("g-0")], id="a Job one of whose pods is there"),
    ],
)
def test_each_maker_of_the_pods(pods: list[Manifest]) -> None:
    if pods[-1]["kind"] == "Pod" and pods[0]["kind"] == "Job":
        by = {"apiVersion": "batch/v1", "kind": "Job", "name": "g", "controller": True}
        pods[-1]["metadata"]["ownerReferences"] = [by]
    made = world(NODES, topology(), group(), pods)
    assert not made.faults
    assert {key: sum(places.values()) for key, places in placed(made).items()} == {"default/g": 2}


def test_without_a_tree_all_nodes_count_each_for_itself() -> None:
    made = world(NODES, group(size=16), members(16))
    assert not made.faults
    assert placed(made) == {"default/g": {"n0": 4, "n1": 4, "n2": 4, "n3": 4}}


def test_a_flavor_may_name_the_tree() -> None:
    flavor = manifest("ResourceFlavor", "tas", spec={"nodeLabels": {"pool": "tas"}, "topologyName": "site"})
    topologies = job("wide", 9, require="site.sakkara.topology/rack")
    made = world(NODES, topology(), flavor, queue(), job("fits", 8, require="site.sakkara.topology/rack"), topologies)
    assert not made.faults
    [places] = placed(made).values()
    assert set(places) in ({"n0", "n1"}, {"n2", "n3"})


def test_a_group_evicts_whole_groups_of_lower_priority() -> None:
    low, high = group("low", 16), group("high", 9, priority="5")
    late = {names.SIMULATED_ARRIVAL: "10s"}
    made = world(NODES, low, high, members(16, "low"), [member(f"high-{n}", "high", **late) for n in range(9)])
    runs = simulate(made, run_for=100).runs
    assert (runs["default/high"].admitted, runs["default/low"].evictions) == (10.0, 1)


def test_the_config_map_goes_before_the_pod_group_of_its_name() -> None:
    pods = members(3)
    for pod in pods:
        pod["metadata"]["labels"] = {names.GANG_LABEL: "g"}
    pod_group = manifest("PodGroup", "g", "default", spec={"minMember": 2}) | {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1"
    }
    [made] = world(NODES, group(size=3), pod_group, pods).queues.workloads()
    assert (made.cluster_queue, made.pod_sets[0].count) == (names.SAKKARA_QUEUE, 3)


def suspended() -> Manifest:
    return group_job(suspend=True)


def job_set() -> Manifest:
    template = {"spec": group_job()["spec"]}
    return manifest("JobSet", "s", "default", spec={"replicatedJobs": [{"name": "w", "template": template}]})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param([group(size=3), *members(2)], "Pod default/g-0: 2 of 3 pods exist", id="too few pods"),
        pytest.param(
            members(2),
            "Pod default/g-0: no ConfigMap with the label sakkara.group describes group g, and there is no PodGroup of it",
            id="nobody describes it",
        ),
        pytest.param([group(size="many"), *members(2)], 'ConfigMap default/g: data.size: Invalid value: "many"', id="size"),
        pytest.param([group()], "ConfigMap default/g: no pod of its gang is there that waits", id="no pods"),
        pytest.param(
            [group(), group("h", called="g"), *members(2)],
            "ConfigMap default/h: data.name: 'g': ConfigMap g describes the group of this name",
            id="two of one name",
        ),
        pytest.param(
            [topology(namespace="other")],
            "ConfigMap other/site: metadata.namespace: 'other': trees count in namespace default",
            id="a tree elsewhere",
        ),
        pytest.param(
            [topology(units={"rack-0": {"n0": {}, "gone": {}}})],
            "ConfigMap default/site: data.tree: the cluster has no node gone; the tree holds for the nodes that there are",
            id="a node that is not there",
        ),
        pytest.param([topology(units=[])], "ConfigMap default/site: data.tree: ", id="no tree"),
        pytest.param([topology(), topology("z") | {"data": topology("site")["data"] | {"name": "site"}}],
            "ConfigMap default/z: data.name: site: another ConfigMap has a tree of this name", id="two trees of one name"),
        pytest.param(
            [config_map("other", "app", {})],
            "ConfigMap default/other: metadata.labels: ['app']: only those with sakkara.topology or sakkara.group are read",
            id="any other ConfigMap",
        ),
        pytest.param([group() | {"data": ["size"]}, *members(2)], "ConfigMap default/g: ", id="data that is none"),
        pytest.param(
            [group(), suspended()], "Job default/g: is suspended, and names no queue that would start it", id="suspended"
        ),
        pytest.param(
            [group(), job_set()],
            "JobSet default/s: names no queue, and pods of its gangs are simulated only if the files contain them",
            id="a JobSet",
        ),
        pytest.param([group(size=3), *members(2), member("g-2", cpu="2")], "Pod default/g-2: ", id="unlike pods"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_the_rest_goes_on(value: list[Manifest], message: str) -> None:
    made = world(NODES, tree(0), queue(), value, job("good"))
    assert any(fault.startswith(message) for fault in faults(made)), faults(made)
    assert [key for key in placed(made) if key.startswith("default/job-good")]


def test_another_namespace_of_trees_is_a_setting() -> None:
    builder = Builder.empty(WorldRules(trees="other"))
    made = builder.build(Document("made.yaml", obj) for obj in flat([NODES, topology(namespace="other")]))
    assert not made.faults
    assert "site" in builder.objects.view.features.topologies


def test_a_group_can_be_added_to_what_is_there() -> None:
    builder = Builder.empty(None)
    made = builder.build(Document("made.yaml", obj) for obj in flat([NODES, topology()]))
    more = [Document("more.yaml", obj) for obj in flat([group(), group_job(), topology("other")])]
    assert add_jobs(made, builder.objects, more) == ["default/g"]
    assert faults(made) == ["ConfigMap default/other: only jobs and pods can be added"]
    assert sum(placed(made)["default/g"].values()) == 2
