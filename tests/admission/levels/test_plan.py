"""`stowage topology init`: six clouds, the labels that nodes lack, and what is odd (20, 5 and Must be shown 3)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from admission.cli.local_cluster.install import manifests
from admission.cli.main import app
from admission.levels.level_plan import Plan, plan
from admission.levels.oddities import LabelledNode
from admission.levels.sources import SOURCES
from admission.levels.tree import lines
from api.embedded.server import EmbeddedServer
from api.kube.client import Kube
from api.kube.resources import CRDS, NODES, RESOURCE_FLAVORS, TOPOLOGIES
from api.kube.settings import ClientSettings
from api.names import HOSTNAME_LABEL

CLOUDS = Path(__file__).with_name("clouds")
HOST = (HOSTNAME_LABEL,)
AWS, NVIDIA, OLD = "topology.k8s.aws", "network.topology.nvidia.com", "network.topology.kubernetes.io"
KIND = "node.kubernetes.io/instance-type"


def init(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["topology", "init", *map(str, arguments)])


EXPECTED: dict[str, tuple[dict[str, tuple[str, ...]], dict[str, str], list[str]]] = {
    "gke": (
        {
            "default": ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock", *HOST),
            "default-2": HOST,
        },
        {"nvidia-h200-141gb": "default", "e2-standard-8": "default-2"},
        ["each node has a cloud.google.com/gce-topology-host of its own"],
    ),
    "eks": (
        {"default": ("topology.kubernetes.io/zone", *(f"{AWS}/network-node-layer-{n}" for n in (1, 2, 3)), *HOST)},
        {"p5-48xlarge": "default"},
        [
            f"node ip-10-0-9-7.ec2.internal has no {AWS}/network-node-layer-1: it gets nn-1",
            f"{AWS}/network-node-layer-3=nn-211 has one node",
        ],
    ),
    "aks": (
        {"default": ("kubernetes.azure.com/ppg", "nvidia.com/gpu.clique", *HOST), "default-2": HOST},
        {"nvidia-gb200": "default", "standard-d8s-v5": "default-2"},
        [],
    ),
    "oci": (
        {
            "default": (
                *(f"oci.oraclecloud.com/rdma.{n}_id" for n in ("hpc_island", "network_block", "local_block")),
                *HOST,
            )
        },
        {"nvidia-h100-80gb-hbm3": "default"},
        ["node 10.140.20.6 is in oci.oraclecloud.com/rdma.local_block_id=loc1 with 2 nodes of"],
    ),
    "coreweave": (
        {
            "default": (
                *(f"backend.coreweave.cloud/{n}" for n in ("fabric", "superpod", "leafgroup")),
                "ds.coreweave.com/nvlink.domain",
                *HOST,
            )
        },
        {"nvidia-gb200": "default"},
        [],
    ),
    "topograph": (
        {"default": (*(f"{NVIDIA}/tier-{n}" for n in (2, 1, 0)), *HOST)},
        {"nvidia-b200": "default"},
        [
            f"the domains of {NVIDIA}/accelerator lie across those of {NVIDIA}/tier-0: it is no level",
            f"{NVIDIA}/tier-0=leaf2 has one node",
            f"{NVIDIA}/tier-0=leaf9 has one node",
        ],
    ),
}


@pytest.mark.parametrize("cloud", sorted(file.stem for file in CLOUDS.glob("*.yaml")))
def test_cloud(cloud: str) -> None:
    topologies, flavors, odd = EXPECTED[cloud]
    done = init(CLOUDS / f"{cloud}.yaml")
    assert done.exit_code == 0
    made = list(yaml.safe_load_all(done.stdout))
    levels = {
        each["metadata"]["name"]: tuple(level["nodeLabel"] for level in each["spec"]["levels"])
        for each in made
        if each["kind"] == "Topology"
    }
    named = {one["metadata"]["name"]: one["spec"]["topologyName"] for one in made if one["kind"] == "ResourceFlavor"}
    told = [line.removeprefix("odd: ") for line in done.stderr.splitlines() if line.startswith("odd: ")]
    assert (levels, named) == (topologies, flavors)
    assert len(told) == len(odd)
    assert all(line.startswith(words) for line, words in zip(told, odd, strict=True))
    assert done.stderr.splitlines()[0] == f"labels of {next(s.name for s in SOURCES if s.name.lower() == cloud)}"


def node(name: str, kind: str = "gpu", **labels: str) -> LabelledNode:
    return LabelledNode(name, {HOSTNAME_LABEL: name, KIND: kind, **labels})


def levels(its_plan: Plan) -> tuple[str, ...]:
    (only,) = its_plan.topologies
    return only[1]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_each_source_is_found_by_its_keys(source: Any) -> None:
    """Also Topograph's older keys. Four nodes in two domains of each level."""
    some = [node(f"n{n}", **dict.fromkeys(source.keys, f"d{n // 2}")) for n in range(4)]
    made = plan(some)
    assert made.source == source.name
    assert levels(made) == (*source.keys, HOSTNAME_LABEL)
    assert made.oddities == ()


def test_most_nodes_decide_whose_labels_count() -> None:
    leaf, block = f"{NVIDIA}/leaf", f"{OLD}/block"
    some = [*(node(f"a{n}", **{block: f"d{n // 2}"}) for n in range(4)), node("b", **{leaf: "x", block: "d0"})]
    assert levels(plan(some)) == (block, HOSTNAME_LABEL)
    assert levels(plan(some, source="Topograph (leaf)")) == (leaf, HOSTNAME_LABEL)


def test_without_any_label_of_a_level_hosts_are_left() -> None:
    made = plan([node("a"), node("b")])
    assert levels(made) == HOST
    assert made.source == ""
    assert lines(made)[0].startswith("no labels of a known source: name those of your levels")


def test_a_node_without_a_level_is_placed_with_its_neighbours_or_alone() -> None:
    wide, low = f"{NVIDIA}/spine", f"{NVIDIA}/leaf"
    some = [node(f"n{n}", **{wide: "s", low: "l1"}) for n in range(2)]
    made = plan([*some, node("near", **{low: "l1"}), node("far", **{wide: "s"}), node("empty", **{wide: "s", low: ""})])
    assert {(label.node, label.key): label.value for label in made.labels} == {
        ("near", wide): "s",
        ("far", low): "far",
        ("empty", low): "empty",
    }
    assert f"node far has no {low}: it gets a domain of its own" in made.oddities
    assert "      far: 1 node" not in lines(made)
    assert "    far: 1 node" in lines(made)


def test_a_node_of_no_kind_is_in_no_flavor_and_told() -> None:
    made = plan([node("a"), LabelledNode("b", {HOSTNAME_LABEL: "b"})])
    assert [flavor.nodes[0].name for flavor in made.flavors] == ["a"]
    assert made.oddities[0].startswith("node b has no label that tells kinds of machines apart (")


def test_many_nodes_of_no_kind_are_one_line() -> None:
    made = plan([LabelledNode(name, {HOSTNAME_LABEL: name}) for name in "cab"])
    (told,) = made.oddities
    assert told.startswith("node a and 2 more have no label that tells kinds of machines apart (")
    assert told.endswith("): in no flavor")


def test_own_labels_are_the_levels_that_are_named() -> None:
    """A datacenter of one's own, whose labels no list knows; the host below them is added once."""
    some = [node(f"n{n}", **{"dc/row": f"r{n // 4}", "dc/rack": f"k{n // 2}"}) for n in range(8)]
    for own in (["dc/row", "dc/rack"], ["dc/row", "dc/rack", HOSTNAME_LABEL]):
        made = plan(some, own=own)
        assert levels(made) == ("dc/row", "dc/rack", HOSTNAME_LABEL)
        assert lines(made)[0] == "labels of your levels"
    assert (
        "node n0 has no dc/rack"
        in plan([node("n0", **{"dc/row": "r0"}), *some[1:]], own=["dc/row", "dc/rack"]).oddities[0]
    )


def test_flavors_that_overlap_are_told() -> None:
    made = plan([node("a", **{"nvidia.com/gpu.product": "H100"}), node("b")])
    assert any("ResourceFlavor gpu selects 1 nodes of h100 too, such as a" in text for text in made.oddities)


def test_flavor_names_are_names_and_differ() -> None:
    made = plan([node("a", kind="GPU.8"), node("b", kind="gpu_8"), node("c", kind="x" * 63)])
    assert sorted(flavor.name for flavor in made.flavors) == ["gpu-8", "gpu-8-2", "x" * 63]


def test_the_tree_is_bounded() -> None:
    some = [node(f"n{n}", **{f"{NVIDIA}/leaf": f"l{n // 2}"}) for n in range(1000)]
    assert len(lines(plan(some))) < 100


class Counted(dict[str, str]):
    """Labels that count how often they are read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.reads += 1
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        Counted.reads += 1
        return super().__getitem__(key)


MANY = 1500
HOSTILE: dict[str, Callable[[int], dict[str, str]]] = {
    "each node is a kind of machine": lambda n: {KIND: f"kind-{n}"},
    "kinds whose names become the same": lambda n: {KIND: "x" * 63 if n % 2 else f"k{n}"},
    "no node has the upper level": lambda n: (
        {f"{NVIDIA}/leaf": f"l{n // 2}"} | ({f"{NVIDIA}/spine": "s"} if not n else {})
    ),
    "one rack is in all blocks": lambda n: {f"{NVIDIA}/spine": f"s{n}", f"{NVIDIA}/leaf": "all"},
    "each rack is in two blocks": lambda n: {f"{NVIDIA}/spine": f"s{n % 2}", f"{NVIDIA}/leaf": f"l{n // 2}"},
    "levels that are each other's parents": lambda n: {
        f"{NVIDIA}/spine": f"d{n % 7}",
        f"{NVIDIA}/leaf": f"d{(n + 1) % 7}",
    },
    "two labels select flavors": lambda n: {"nvidia.com/gpu.product": f"p{n % 50}"} if n % 2 else {},
}


@pytest.mark.parametrize("labels", HOSTILE.values(), ids=HOSTILE)
def test_labels_that_make_no_sense_are_read_a_few_times_a_node(labels: Callable[[int], dict[str, str]]) -> None:
    """The work grows with the nodes, not with their square."""
    Counted.reads = 0
    some = [LabelledNode(f"n{n}", Counted({HOSTNAME_LABEL: f"n{n}", KIND: "gpu", **labels(n)})) for n in range(MANY)]
    made = plan(some)
    text = lines(made)
    assert Counted.reads < 300 * MANY
    assert len(text) <= 2 + len(made.flavors) * 70
    assert len({flavor.name for flavor in made.flavors}) == len(made.flavors)


def test_a_label_that_makes_a_flavor_of_each_node_is_told() -> None:
    made = plan([node(f"n{n}", f"kind-{n}") for n in range(65)])
    assert made.oddities == ("65 ResourceFlavors, where a group of a ClusterQueue takes 64: --flavor-by names a label",)


def test_a_domain_of_its_own_has_a_value_that_labels_take() -> None:
    """Names of nodes have up to 253 characters, values of labels 63."""
    low = f"{NVIDIA}/leaf"
    long = [f"{'very-' * 20}long-{n}.example.com" for n in range(2)]
    made = plan([*(node(f"n{n}", **{low: "l1"}) for n in range(2)), *(node(name) for name in long)])
    values = {label.node: label.value for label in made.labels}
    assert values.keys() == {*long}
    assert len(set(values.values())) == 2
    assert all(re.fullmatch("[a-z0-9][a-z0-9.-]{,61}[a-z0-9]", value) for value in values.values())
    assert all(f"node {name} has no {low}: it gets a domain of its own" in made.oddities for name in long)


# ---- the command


def written(folder: Path, *nodes: dict[str, Any]) -> Path:
    path = folder / "nodes.yaml"
    path.write_text(yaml.safe_dump_all([{"apiVersion": "v1", "kind": "Node", **each} for each in nodes]))
    return path


def test_control_planes_are_left_out_and_alone_make_no_topology(tmp_path: Path) -> None:
    labels = {KIND: "m5", "node-role.kubernetes.io/control-plane": ""}
    done = init(written(tmp_path, {"metadata": {"name": "cp", "labels": labels}}))
    assert (done.exit_code, done.stdout) == (1, "")


def test_a_missing_file_ends_with_2(tmp_path: Path) -> None:
    done = init(tmp_path / "none.yaml")
    assert done.exit_code == 2
    assert done.stderr.startswith("no topology: ")


GKE = CLOUDS / "gke.yaml"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param(("--source", "azure"), "--source: 'azure': must be one of AKS, CoreWeave,", id="no such source"),
        pytest.param(("--source", "AKS"), "--source: 'AKS': no node has a label of it", id="source of another cloud"),
        pytest.param(
            ("--level", "cloud.google.com/gce-topology-block", "--level", "example.com/row"),
            "--level: 'example.com/row': must be a label of at least one node",
            id="level of no node",
        ),
        pytest.param(("--name", "Row_1"), "--name: 'Row_1': must be a DNS subdomain", id="name"),
        pytest.param(("--name", "x" * 241), "must be a DNS subdomain of at most 240 characters", id="long name"),
    ],
)
def test_a_wrong_option_is_named_and_prints_no_manifest(options: tuple[str, ...], error: str) -> None:
    done = init(GKE, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("no topology: ")
    assert error in done.stderr


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([], "there are none"),
        ([{"metadata": {"name": "cp", "labels": {"node-role.kubernetes.io/control-plane": ""}}}], "all 1 are of the"),
    ],
    ids=["none", "control plane"],
)
def test_without_nodes_to_plan_for_the_reason_is_printed(nodes: list[dict[str, Any]], why: str, tmp_path: Path) -> None:
    done = init(written(tmp_path, *nodes))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"no nodes to plan for: {why}")


def test_values_of_labels_reach_neither_terminal_nor_manifest_as_more_than_text(tmp_path: Path) -> None:
    evil = "x\x1b[2J\n---\nkind: Secret"
    first = {"metadata": {"name": "a", "labels": {KIND: "gpu", f"{NVIDIA}/leaf": evil}}}
    second = {"metadata": {"name": "b\nkind: Secret", "labels": {KIND: "gpu"}}}
    done = init(written(tmp_path, first, second))
    assert "\x1b" not in done.stderr + done.stdout
    assert {each["kind"] for each in yaml.safe_load_all(done.stdout)} == {"Topology", "ResourceFlavor"}


async def test_apply_writes_objects_and_labels_and_may_be_repeated(tmp_path: Path) -> None:
    async with EmbeddedServer() as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
            for crd in (one for one in manifests() if one["kind"] == CRDS.kind):
                await kube.create(CRDS, {**crd, "spec": {**crd["spec"], "conversion": {"strategy": "None"}}})
            for each in yaml.safe_load((CLOUDS / "eks.yaml").read_text())["items"]:
                await kube.create(NODES, each)
            for _ in range(2):
                done = await asyncio.to_thread(init, "--apply", "--name", "racks", "--kubeconfig", kubeconfig)
                assert done.exit_code == 0, done.output
            topology = await kube.get(TOPOLOGIES, "racks")
            flavor = await kube.get(RESOURCE_FLAVORS, "p5-48xlarge")
            placed = await kube.get(NODES, "ip-10-0-9-7.ec2.internal")
    assert len(topology["spec"]["levels"]) == 5
    assert flavor["spec"] == {"nodeLabels": {KIND: "p5.48xlarge"}, "topologyName": "racks"}
    assert placed["metadata"]["labels"][f"{AWS}/network-node-layer-1"] == "nn-1"
