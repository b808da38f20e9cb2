"""Topology of every declared kind, from its sample: one rack, ranks, what simulate and explain say (issue 18, 5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from admission.cli.main import app
from admission.integrations.declared import DeclaredJob
from admission.integrations.paths import value_at, with_value
from admission.integrations.registry import DECLARED
from admission.integrations.sets import SCALED as SCALED_KINDS
from admission.world.files import from_documents
from api import manifests, names
from tests.admission.world.world_documents import RACK, node, queue, tree, written
from tests.crds import SHIPPED

SAMPLES = SHIPPED.parent / "samples"
KINDS = pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.framework)
Object = dict[str, Any]
MORE = {"cpu": "100", "memory": "1Ti", "nvidia.com/gpu": "100", "google.com/tpu": "100"}


def sample(kind: DeclaredJob) -> tuple[Object, list[Object]]:
    """The first one of the kind in config/samples, with the queue and the rack of the worlds below, and what it refers to."""
    for file in sorted(SAMPLES.glob("*.yaml")):
        found = manifests.read(file)
        mine = [one for one in found if one.get("kind") == kind.resource.kind]
        if mine and names.QUEUE_NAME_LABEL in (mine[0]["metadata"].get("labels") or {}):
            job = with_value(mine[0], ("metadata", "labels", names.QUEUE_NAME_LABEL), "q")
            for annotation in (names.ELASTIC_JOB, names.UNCONSTRAINED_TOPOLOGY, names.PREFER_TOPOLOGY):
                (job["metadata"].get("annotations") or {}).pop(annotation, None)
            job = with_value(job, ("metadata", "annotations", names.REQUIRE_TOPOLOGY), RACK)
            return job, [one for one in found if one.get("kind", "").endswith("Runtime")]
    raise AssertionError(f"no sample of {kind.framework}")


def site(tmp_path: Path, kind: DeclaredJob, hosts: int) -> tuple[Path, Object]:
    job, others = sample(kind)
    racks = [*tree(2, 0), *(host(f"r{rack}-h{number}", f"r{rack}") for rack in range(2) for number in range(hosts))]
    made = queue()
    for one in made:
        if one["kind"] == "ClusterQueue":
            resources = [{"name": name, "nominalQuota": amount} for name, amount in MORE.items()]
            one["spec"]["resourceGroups"] = [
                {"coveredResources": list(MORE), "flavors": [{"name": "tas", "resources": resources}]}
            ]
    return written(tmp_path / "site.yaml", racks, made, others, job), job


def host(name: str, rack: str) -> Object:
    made = node(name, rack)
    made["status"]["allocatable"] = {**MORE, "cpu": "2", "pods": "110"}
    return made


@KINDS
def test_its_sample_is_simulated_into_one_rack(kind: DeclaredJob, tmp_path: Path) -> None:
    file, job = site(tmp_path, kind, hosts=16)
    done = CliRunner().invoke(app, ["simulate", str(file), "--json"])
    assert done.exit_code == 0, done.output
    (told,) = json.loads(done.stdout)["workloads"]
    assert told["job"] == f"{kind.resource.kind} default/{job['metadata']['name']}"
    assert told["state"] in ("Admitted", "Finished", "Running"), told
    domains = [domain for pod_set in told["podSets"] for domain in pod_set["domains"]]
    assert sum(domain["count"] for domain in domains) == told["pods"] > 0
    assert len({domain["values"][-1].partition("-")[0] for domain in domains}) == 1, told


@KINDS
def test_its_sample_that_fits_no_rack_is_explained(kind: DeclaredJob, tmp_path: Path) -> None:
    file, job = site(tmp_path, kind, hosts=0)
    saved, name = tmp_path / "saved.json", job["metadata"]["name"]
    assert CliRunner().invoke(app, ["snapshot", "-o", str(saved), str(file)]).exit_code == 0
    done = CliRunner().invoke(app, ["explain", f"default/{name}", "--snapshot", str(saved)])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert f"{kind.resource.kind} default/{name} in ClusterQueue q: CannotRun (TopologyPlacementFailed" in said


@KINDS
def test_ranks_and_levels_of_its_pod_sets_are_read(kind: DeclaredJob) -> None:
    job, others = sample(kind)
    from_documents([])  # the runtime of a TrainJob is known afterwards
    pod_sets = kind.pod_sets(job) if not others else ()
    for pod_set in pod_sets:
        asked = pod_set.topology_request
        assert asked is not None
        assert asked.required == RACK
        if kind.spec.rank_label is not None:
            assert asked.pod_index_label == kind.spec.rank_label
    assert value_at(job, ("metadata", "annotations", names.REQUIRE_TOPOLOGY)) == RACK


SCALED = manifests.read_one(SAMPLES / "scaled-kind.yaml")


def pool(replicas: object) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    meta = {
        "name": "serve",
        "namespace": "default",
        "labels": {names.QUEUE_NAME_LABEL: "q"},
        "annotations": {names.REQUIRE_TOPOLOGY: RACK},
    }
    spec = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "example.com/v1", "kind": "InferencePool", "metadata": meta, "spec": spec}


@pytest.fixture
def scaled() -> Iterator[None]:
    """The kind is declared by the file; what a process knows of it is forgotten afterwards."""
    yield
    SCALED_KINDS.withdraw(("example.com", "InferencePool"))


@pytest.mark.usefixtures("scaled")
def test_a_kind_that_is_only_scaled_is_simulated_and_explained(tmp_path: Path) -> None:
    file = written(tmp_path / "site.yaml", tree(2, 2), queue(), SCALED, pool(8))
    done = CliRunner().invoke(app, ["simulate", str(file), "--json"])
    assert done.exit_code == 0, done.output
    (told,) = json.loads(done.stdout)["workloads"]
    assert (told["job"], told["state"], told["pods"]) == ("InferencePool default/serve", "Running", 8)
    assert (
        len({domain["values"][-1].partition("-")[0] for pod_set in told["podSets"] for domain in pod_set["domains"]})
        == 1
    )
    wide = written(tmp_path / "wide.yaml", tree(2, 2), queue(), SCALED, pool(9))
    saved = tmp_path / "saved.json"
    assert CliRunner().invoke(app, ["snapshot", "-o", str(saved), str(wide)]).exit_code == 0
    said = CliRunner().invoke(app, ["explain", "default/serve", "--snapshot", str(saved)])
    assert "InferencePool default/serve in ClusterQueue q: CannotRun (TopologyPlacementFailed" in " ".join(
        said.output.split()
    )


@pytest.mark.usefixtures("scaled")
@pytest.mark.parametrize("replicas", [-1, 10**9, "3", 1.5], ids=repr)
def test_a_number_without_sense_is_named(replicas: object, tmp_path: Path) -> None:
    file = written(tmp_path / "site.yaml", tree(2, 2), queue(), SCALED, pool(replicas), pool_of_one())
    done = CliRunner().invoke(app, ["simulate", str(file)])
    assert "InferencePool default/serve: spec.replicas" in done.stderr


def pool_of_one() -> Object:
    made: Object = with_value(pool(1), ("metadata", "name"), "one")
    return made
