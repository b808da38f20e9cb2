"""Topology of every declared kind, from its sample: one rack, ranks, what simulate and explain say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from admission.cli.main import app
from admission.integrations.base import JobIntegration
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.paths import with_value
from admission.integrations.registry import ADAPTERS, DECLARED
from admission.integrations.registry import KINDS as KINDS_KNOWN
from admission.integrations.sets.sets import SCALED as SCALED_KINDS
from api import names
from api.text import manifests
from tests.admission.integrations.samples import CRANE_KIND, CRANES, annotated, larger, runtime, suspended
from tests.admission.integrations.samples import sample as contract_sample
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
    return written(tmp_path / "site.yaml", racks, rich_queue(), others, job), job


def rich_queue() -> list[Object]:
    """With quota of all that samples request."""
    resources = [{"name": name, "nominalQuota": amount} for name, amount in MORE.items()]
    flavors = [{"name": "tas", "resources": resources}]
    return queue(resourceGroups=[{"coveredResources": list(MORE), "flavors": flavors}])


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


# ---- what templates ask for themselves: levels, pod-set groups, slices

ALL_KINDS = pytest.mark.parametrize("kind", [*ADAPTERS, CRANES], ids=lambda kind: kind.framework)
GROUP = {names.PODSET_GROUP_NAME: "together", names.REQUIRED_TOPOLOGY: RACK}


def job_of(kind: JobIntegration) -> Object:
    """The contract's sample of the kind, not suspended, in the queue of the worlds here."""
    job = larger(kind, contract_sample(kind))
    meta = {"name": "d", "namespace": "default", "labels": {names.QUEUE_NAME_LABEL: "q"}}
    found: Object = {**suspended(kind, job, False), "metadata": meta}
    return found


def simulated(tmp_path: Path, kind: JobIntegration, job: Object, racks: list[int]) -> dict[str, dict[str, int]]:
    """Pods by host of each pod set, on racks with so many hosts of three pods each."""
    hosts = [host(f"r{rack}-h{number}", f"r{rack}") for rack, count in enumerate(racks) for number in range(count)]
    for one in hosts:
        one["status"]["allocatable"]["pods"] = "3"
        one["metadata"]["labels"]["disk"] = "ssd"
    others = [runtime()] if kind.framework == "trainer.kubeflow.org/trainjob" else []
    others += [CRANE_KIND] if kind is CRANES else []
    levels = [one for one in tree(1, 0) if one["kind"] != "Node"]
    file = written(tmp_path / "site.yaml", levels, hosts, rich_queue(), others, job)
    done = CliRunner().invoke(app, ["simulate", str(file), "--json"])
    assert done.exit_code == 0, done.output
    (told,) = json.loads(done.stdout)["workloads"]
    assert told["state"] in ("Admitted", "Finished", "Running"), told
    return {
        each["name"]: {domain["values"][-1]: domain["count"] for domain in each["domains"]} for each in told["podSets"]
    }


@pytest.fixture
def crane() -> Iterator[DeclaredJob]:
    """The made-up kind is declared by its file; what a process knows of it is forgotten afterwards."""
    yield CRANES
    KINDS_KNOWN.withdraw(("example.com", "Crane"))


@pytest.mark.usefixtures("crane")
@ALL_KINDS
def test_a_level_that_one_template_requires_holds_for_its_pod_set(kind: JobIntegration, tmp_path: Path) -> None:
    job = job_of(kind)
    counts = {name: sum(found.values()) for name, found in simulated(tmp_path, kind, job, [9, 9]).items()}
    largest = max(counts, key=lambda name: counts[name])
    job = annotated(kind, job, {names.REQUIRED_TOPOLOGY: RACK}, {largest})
    assert counts[largest] > 3
    found = simulated(tmp_path, kind, job, [1, 9, 1, 1])[largest]
    assert {name.partition("-")[0] for name in found} == {"r1"}, "the only rack that has room for all of them"


@pytest.mark.usefixtures("crane")
@ALL_KINDS
def test_pod_sets_of_a_group_go_to_one_rack(kind: JobIntegration, tmp_path: Path) -> None:
    """A launcher, head or driver and its workers. The first alone would fit a smaller rack."""
    plain = simulated(tmp_path, kind, job_of(kind), [9])
    largest = max(plain, key=lambda name: sum(plain[name].values()))
    single = next((name for name, found in plain.items() if sum(found.values()) == 1), None)
    if single is None:
        assert len(plain) == 1, "a kind of several pod sets has a sample with a leader"
        return
    members = {single, largest}
    job = annotated(kind, job_of(kind), GROUP, members)
    found = simulated(tmp_path, kind, job, [1, 1, 9])
    assert {name.partition("-")[0] for member in members for name in found[member]} == {"r2"}
    apart = annotated(kind, job_of(kind), {names.REQUIRED_TOPOLOGY: RACK}, members)
    found = simulated(tmp_path, kind, apart, [1, 1, 9])
    assert {name.partition("-")[0] for name in found[single]} != {"r2"}, "without the group it goes elsewhere"


@pytest.mark.usefixtures("crane")
@ALL_KINDS
def test_slices_stay_whole(kind: JobIntegration, tmp_path: Path) -> None:
    """Hosts have room for three pods: without slices one of them would get three."""
    plain = simulated(tmp_path, kind, job_of(kind), [9])
    (largest, count) = max(((name, sum(found.values())) for name, found in plain.items()), key=lambda each: each[1])
    assert count % 2 == 0
    said = {names.SLICE_REQUIRED_TOPOLOGY: names.HOSTNAME_LABEL, names.SLICE_SIZE: "2", names.REQUIRED_TOPOLOGY: RACK}
    found = simulated(tmp_path, kind, annotated(kind, job_of(kind), said, {largest}), [9])[largest]
    assert set(found.values()) == {2}


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
