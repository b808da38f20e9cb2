"""The CRDs are what the types say, structurally sound, and bounded; samples and objects of every kind fit them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from typer.testing import CliRunner

from api.conversion import V1BETA1
from api.names import CONVERT_PATH, COSCHEDULING_SIGS
from api.text.manifests import read
from hack.crds import __main__ as crds
from hack.crds.kinds import KINDS, CrdKind
from hack.crds.manifest import manifest
from tests.hack import refused, taken
from tests.hack.objects import Obj

SAMPLES = Path(__file__).resolve().parents[2] / "config" / "samples"


@functools.cache
def schemas() -> dict[str, Obj]:
    """Those of the present versions, by kind."""
    return {kind.name: _schema(kind, kind.version) for kind in KINDS}


@functools.cache
def older() -> dict[str, Obj]:
    """Those of v1beta1, by kind and version."""
    served = (kind for kind in KINDS if any(each["name"] == V1BETA1 for each in _versions(kind)))
    return {f"{kind.name} {V1BETA1}": _schema(kind, V1BETA1) for kind in served}


@functools.cache
def _versions(kind: CrdKind) -> list[Obj]:
    found: list[Obj] = manifest(kind)["spec"]["versions"]
    return found


def _schema(kind: CrdKind, version: str) -> Obj:
    (schema,) = (each["schema"]["openAPIV3Schema"] for each in _versions(kind) if each["name"] == version)
    return cast("Obj", schema)


def nodes(schema: Obj, path: str = "") -> Iterator[tuple[str, Obj]]:
    """Every schema inside, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from nodes(schema[word], f"{path}[]")


def every_node() -> Iterator[tuple[str, Obj]]:
    for name, schema in (schemas() | older()).items():
        yield from nodes(schema, name)


def cel_messages() -> set[str]:
    """Of the rules that only the real API server evaluates (tests/e2e/test_crds.py)."""
    return {rule["message"] for _, node in every_node() for rule in node.get("x-kubernetes-validations", ())}


def fits(obj: Obj) -> None:
    """As jsonschema sees it: everything but CEL, list keys, formats and int-or-string."""
    jsonschema.validate(obj, schemas()[obj["kind"]], cls=jsonschema.Draft7Validator)


def test_files_are_what_the_types_say() -> None:
    assert crds.drift() == []


def test_check_names_the_file_that_drifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in crds.wanted().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "kueue.x-k8s.io_workloads.yaml").write_text("changed by hand")
    (tmp_path / "kueue.x-k8s.io_cohorts.yaml").unlink()
    (tmp_path / "stray.yaml").write_text("")
    monkeypatch.setattr(crds, "FOLDER", tmp_path)
    run = CliRunner().invoke
    result = run(crds.app, ["--check"])
    assert result.exit_code == 1
    said = [line.split(" (")[0] for line in result.output.splitlines()]
    assert said == [
        "config/crd/kueue.x-k8s.io_cohorts.yaml: missing",
        "config/crd/kueue.x-k8s.io_workloads.yaml: differs",
        "config/crd/stray.yaml: no type asks for it",
    ]
    assert run(crds.app, []).exit_code == 0
    assert crds.drift() == ["stray.yaml: no type asks for it"], "a stray file is nobody's to delete"


def test_schemas_are_structural() -> None:
    for path, node in every_node():
        assert not {"$ref", "$defs", "title", "oneOf", "allOf"} & node.keys(), path
        typed = {"type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"} & node.keys()
        assert typed, f"{path} has no type"
        if node.get("type") == "object" and "properties" not in node and not path.endswith(".metadata"):
            assert "additionalProperties" in node or node.get("x-kubernetes-preserve-unknown-fields"), path
        if "anyOf" in node:
            assert node.get("x-kubernetes-int-or-string"), path


def test_every_field_is_described() -> None:
    """`kubectl explain` says something of each field."""
    objects_own = ("apiVersion", "kind", "metadata")
    silent = [
        f"{path}.{name}"
        for path, node in every_node()
        for name, child in node.get("properties", {}).items()
        if not child.get("description") and not ("." not in path and name in objects_own)
    ]
    assert not silent


def test_null_is_no_value_of_any_field() -> None:
    assert not [path for path, node in every_node() if node.get("type") == "null" or node.get("nullable")]


def test_lists_declare_their_ownership_and_are_bounded() -> None:
    free = ("matchExpressions", "values")  # of a label selector, bounded by the API server's request size alone
    for path, node in every_node():
        if node.get("type") != "array" or path.split(".")[-1].rstrip("[]") in free:
            continue
        assert node["x-kubernetes-list-type"] in ("map", "set", "atomic"), path
        assert "maxItems" in node, f"{path}: CEL needs a bound"
        for key in node.get("x-kubernetes-list-map-keys", ()):
            item = node["items"]
            assert key in item.get("required", ()) or "default" in item["properties"][key], f"{path} by {key}"


def test_only_pod_templates_are_left_open() -> None:
    opened = [path for path, node in every_node() if node.get("x-kubernetes-preserve-unknown-fields")]
    assert opened == [
        "Workload.spec.podSets[].template",
        # true and false, or words
        "JobKind.spec.suspend.suspended",
        "JobKind.spec.suspend.running",
        "JobKind.spec.podSets[].defaultTemplate.template",
        # what Kueue no longer writes in v1beta1
        "ClusterQueue v1beta1.status.pendingWorkloadsStatus",
        "LocalQueue v1beta1.status.flavors[]",
        "Workload v1beta1.spec.podSets[].template",
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name}.{kind.group}")
def test_kind_is_named_as_its_users_know_it(kind: Any) -> None:
    spec = manifest(kind)["spec"]
    short = {
        "Topology": ["topo"],
        "ResourceFlavor": ["flavor", "flavors", "rf"],
        "ClusterQueue": ["cq"],
        "LocalQueue": ["queue", "queues", "lq"],
        "Cohort": ["co"],
        "Workload": ["kwl", "kueueworkload", "kueueworkloads"],
        "WorkloadPriorityClass": ["wpc"],
        "AdmissionCheck": ["ac"],
        "AdvanceReservation": ["ar"],
        "JobKind": ["jk"],
        "ElasticQuota": ["eq", "eqs"],
        "PodGroup": ["pg", "pgs"],
    }
    # kubectl takes the group that comes first by name, so a short name that both have would hide one of them.
    older = {"ElasticQuota": ["seq"], "PodGroup": ["spg"]}
    assert spec["names"]["shortNames"] == (older if kind.group == COSCHEDULING_SIGS else short)[kind.name]
    sigs = "sigs" if kind.group == COSCHEDULING_SIGS else ""
    assert spec["names"]["singular"] == f"{sigs}{kind.name.lower()}"
    assert spec["scope"] == (
        "Namespaced" if kind.name in ("LocalQueue", "Workload", "ElasticQuota", "PodGroup") else "Cluster"
    )
    versions = [(each["name"], each["served"], each["storage"]) for each in spec["versions"]]
    if kind.name in ("ElasticQuota", "PodGroup", "JobKind", "AdvanceReservation"):
        assert versions == [("v1alpha1", True, True)]
    else:
        assert versions == [("v1beta1", True, False), ("v1beta2", True, True)]
        assert spec["conversion"]["webhook"]["clientConfig"]["service"]["path"] == CONVERT_PATH


def test_elastic_quotas_are_the_same_in_both_groups_and_the_protected_one_says_that_it_is_not_approved() -> None:
    both = {kind.group: manifest(kind) for kind in KINDS if kind.name == "ElasticQuota"}
    assert both.keys() == {"scheduling.x-k8s.io", "scheduling.sigs.k8s.io"}
    one, other = (each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] for each in both.values())
    assert one == other
    approvals = {group: each["metadata"].get("annotations") for group, each in both.items()}
    assert approvals["scheduling.x-k8s.io"] is None
    assert approvals["scheduling.sigs.k8s.io"]["api-approved.kubernetes.io"].startswith("unapproved")


@pytest.mark.parametrize("obj", taken.VALID)
def test_valid_objects_fit(obj: Obj) -> None:
    fits(obj)


@pytest.mark.parametrize(("obj", "message"), refused.REFUSED)
def test_refused_objects_break_a_rule_or_do_not_fit(obj: Obj, message: str) -> None:
    if message in cel_messages() or message == "Duplicate value":
        return
    with pytest.raises(jsonschema.ValidationError):
        fits(obj)


@pytest.mark.parametrize(("obj", "message"), [case.values[::2] for case in refused.UPDATES])
def test_every_message_about_a_change_is_that_of_a_rule(obj: Obj, message: str) -> None:
    assert not message or message in cel_messages(), obj["kind"]


def sample_documents() -> Iterator[Any]:
    for file in sorted(SAMPLES.glob("*.yaml")):
        for document in read(file):
            if document["apiVersion"].startswith(("kueue.x-k8s.io/", "scheduling.x-k8s.io/")):
                yield pytest.param(document, id=f"{file.name} {document['kind']}")


@pytest.mark.parametrize("document", list(sample_documents()))
def test_samples_fit_and_have_no_unknown_field(document: Obj) -> None:
    fits(document)
    assert _unknown(document, schemas()[document["kind"]]) == []


def _unknown(value: Any, schema: Obj, path: str = "") -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in _unknown(item, schema["items"], f"{path}[]")]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    known = schema["properties"]
    found = [f"{path}.{name}" for name in value if name not in known]
    return found + [n for name in value if name in known for n in _unknown(value[name], known[name], f"{path}.{name}")]
