"""The real API server takes our CRDs and refuses what the types refuse, in the exact words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hack.controlplane.api import eventually
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.errors import RequestError
from hack.controlplane.options import ClusterOptions
from hack.crds.kinds import KINDS
from tests.hack import objects, refused, taken
from tests.hack.objects import Edit, Obj

CONTROL_PLANE = ClusterOptions(kwok=False, scheduler=False, controller_manager=False)
PROJECT = Path(__file__).resolve().parents[2]
PLURALS = {kind.name: kind.plural for kind in KINDS}


@pytest.fixture(scope="module")
def crds(cluster: ControlPlane) -> ControlPlane:
    """The cluster with the CRDs applied by kubectl and served."""
    cluster.kubectl("apply", "--server-side", "-k", str(PROJECT / "config" / "crd"))
    eventually("the CRDs are served", lambda: not _unserved(cluster))
    return cluster


def _unserved(cluster: ControlPlane) -> list[str]:
    crds = cluster.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    states = {crd["metadata"]["name"]: _conditions(crd) for crd in crds}
    return [
        name for kind in KINDS if states.get(name := f"{kind.plural}.{kind.group}", {}).get("Established") != "True"
    ]


def _conditions(crd: Obj) -> dict[str, str]:
    return {c["type"]: c["status"] for c in crd.get("status", {}).get("conditions") or ()}


def path_of(obj: Obj, *, name: bool = False, status: bool = False) -> str:
    """The object's path; without `name` that of its collection."""
    namespace = obj["metadata"].get("namespace")
    parts = ["/apis", obj["apiVersion"], *(["namespaces", namespace] if namespace else []), PLURALS[obj["kind"]]]
    parts += [obj["metadata"]["name"]] if name or status else []
    return "/".join(parts + (["status"] if status else []))


def create(cluster: ControlPlane, obj: Obj) -> Obj:
    """Create it, and put the status where it has one."""
    made = cluster.api.create(path_of(obj), obj)
    if "status" not in obj:
        return made
    return cluster.api.request("PUT", path_of(obj, status=True), {**made, "status": obj["status"]})


def refusal(error: RequestError) -> str:
    """The message of the Status that the server answered with."""
    message: str = json.loads(error.body)["message"]
    return message


def test_schemas_are_structural(crds: ControlPlane) -> None:
    found = crds.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    assert len(found) == len(KINDS)
    for crd in found:
        conditions = _conditions(crd)
        assert conditions.get("NonStructuralSchema", "False") == "False", crd["status"]
        assert conditions["NamesAccepted"] == "True", crd["status"]


@pytest.mark.parametrize("obj", taken.VALID)
def test_takes(crds: ControlPlane, obj: Obj) -> None:
    made = create(crds, obj)
    crds.api.delete(path_of(obj, name=True))
    assert objects.contains(made, obj), "nothing that was given may be pruned or changed"


@pytest.mark.parametrize(("obj", "message"), refused.REFUSED)
def test_refuses(crds: ControlPlane, obj: Obj, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        create(crds, obj)
    if "status" in obj:
        crds.api.delete(path_of(obj, name=True))
    assert message in refusal(caught.value)


@pytest.mark.parametrize(("obj", "edit", "message"), refused.UPDATES)
def test_updates(crds: ControlPlane, obj: Obj, edit: Edit, message: str) -> None:
    made = create(crds, obj)
    changed = edit(made)
    try:
        if not message:
            crds.api.request("PUT", path_of(obj, name=True), changed)
            return
        with pytest.raises(RequestError) as caught:
            crds.api.request("PUT", path_of(obj, name=True), changed)
        assert message in refusal(caught.value)
    finally:
        crds.api.delete(path_of(obj, name=True))


def test_defaults_are_filled_in(crds: ControlPlane) -> None:
    made = create(crds, objects.cluster_queue("defaults"))
    crds.api.delete(path_of(made, name=True))
    assert made["spec"]["queueingStrategy"] == "BestEffortFIFO"
    assert made["spec"]["stopPolicy"] == "None"
    assert made["spec"]["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
    assert made["spec"]["preemption"] == {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}


def test_template_keeps_labels_and_annotations_only_of_its_metadata(crds: ControlPlane) -> None:
    obj = objects.workload("pruned")
    obj["spec"]["podSets"][0]["template"]["metadata"] = {"labels": {"a": "b"}, "name": "x", "creationTimestamp": None}
    made = create(crds, obj)
    crds.api.delete(path_of(obj, name=True))
    assert made["spec"]["podSets"][0]["template"]["metadata"] == {"labels": {"a": "b"}}


def test_kubectl_knows_short_names_columns_and_the_selectable_field(crds: ControlPlane) -> None:
    obj = objects.reserved_workload("shown")
    create(crds, obj)
    for kind in KINDS:
        for short in kind.short_names:
            crds.kubectl("get", short, "--all-namespaces" if kind.namespaced else "--ignore-not-found")
    table = crds.kubectl("get", "kwl", "-n", "default", "--field-selector", "status.admission.clusterQueue=cq")
    crds.api.delete(path_of(obj, name=True))
    header, row = table.splitlines()
    assert header.split() == ["NAME", "QUEUE", "RESERVED", "IN", "ADMITTED", "FINISHED", "REASON", "AGE"]
    assert row.split()[:3] == ["shown", "queue", "cq"]


def test_explain_has_words_for_a_field(crds: ControlPlane) -> None:
    assert "label keys" in crds.kubectl("explain", "topologies.spec.levels").lower()
