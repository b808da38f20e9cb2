"""Each field of a JobKind malformed is an error that names the field, what was given and what is allowed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.job_kind_errors import errors_of, read
from admission.integrations.paths import with_value
from admission.integrations.registry import FOLDER
from api.errors import InvalidObject
from api.job_kinds import JobKind

Obj = dict[str, Any]
FILES = sorted(FOLDER.glob("*.yaml"))
GOOD: Obj = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "JobKind",
    "metadata": {"name": "cranes.example.com"},
    "spec": {
        "group": "example.com",
        "version": "v1",
        "plural": "cranes",
        "kind": "Crane",
        "suspend": {"path": "spec.state", "suspended": "Parked", "running": "Working"},
        "podSets": [
            {
                "each": "spec.teams[].crews[]",
                "template": "pod",
                "count": [{"path": "size"}, {"path": "^.shifts"}, {"path": "$.spec.sites", "least": 1}],
                "subGroupLabel": "example.com/shift",
                "subGroups": {"path": "^.shifts"},
                "sidecars": [{"name": "radio", "when": "has(object.spec.radio)", "requests": {"cpu": "100m"}}],
            }
        ],
        "status": {"active": {"expression": "object.status.running > 0"}},
        "rankLabel": "example.com/index",
    },
}


def changed(path: str, value: Any) -> Obj:
    steps = tuple(int(step) if step.isdigit() else step for step in path.split("."))
    found: Obj = with_value(copy.deepcopy(GOOD), steps, value)
    return found


def test_a_good_one_has_no_errors() -> None:
    assert errors_of(GOOD) == []


@pytest.mark.parametrize(
    ("path", "value", "field", "message"),
    [
        ("metadata.name", "crane", "metadata.name", "must be cranes.example.com"),
        ("spec.group", "Example", "spec.group", "must be an API group"),
        ("spec.version", "v 1", "spec.version", "must be an API version"),
        ("spec.plural", "Cranes", "spec.plural", "must be a plural name"),
        ("spec.kind", "crane", "spec.kind", "must be a kind"),
        ("spec.suspend.path", "", "spec.suspend.path", "must be field names"),
        ("spec.suspend.path", "$.spec.state", "spec.suspend.path", "must be field names"),
        ("spec.suspend.running", "Parked", "spec.suspend.running", "must differ"),
        ("spec.suspend.pause", 1, "spec.suspend.pause", "is not known here; known are path, running, suspended"),
        ("spec.podSets", [], "spec.podSets", "must have 1 to 8 entries"),
        ("spec.podSets.0.each", "spec..teams", "spec.podSets[0].each", "must be field names"),
        ("spec.podSets.0.each", "spec.teams[0]", "spec.podSets[0].each", "must be field names"),
        ("spec.podSets.0.name", "x", "spec.podSets[0].name", "must be left out"),
        ("spec.podSets.0.order", ["a"], "spec.podSets[0].order", "is for maps"),
        ("spec.podSets.0.template", "", "spec.podSets[0].template", "must be field names"),
        ("spec.podSets.0.count.0.path", "a b", "spec.podSets[0].count[0].path", "must be field names"),
        ("spec.podSets.0.count.0.default", -1, "spec.podSets[0].count[0].default", "must be from 0"),
        ("spec.podSets.0.count.2.least", 2**40, "spec.podSets[0].count[2].least", "must be from 0"),
        ("spec.podSets.0.subGroupLabel", "a/b/c", "spec.podSets[0].subGroupLabel", "must be the key of a label"),
        ("spec.podSets.0.sidecars.0.when", "object.", "spec.podSets[0].sidecars[0].when", "must be CEL"),
        ("spec.podSets.0.sidecars.0.requests", {"cpu": "x"}, "spec.podSets[0].sidecars[0].requests.cpu", "a quantity"),
        ("spec.status.active", {}, "spec.status.active", "must have exactly one of"),
        ("spec.status.active.condition", "Ready", "spec.status.active", "must have exactly one of"),
        ("spec.status.ready", {"path": "status.phase"}, "spec.status.ready.values", "must be set together with path"),
        ("spec.status.active.expression", "[" * 1000, "spec.status.active.expression", "must be CEL"),
        ("spec.status.active.expression", "x" * 2001, "spec.status.active.expression", "at most 2000 characters"),
        ("spec.status.message", "status[0]", "spec.status.message", "must be field names"),
        ("spec.priorityClass", ["spec.a", "/b"], "spec.priorityClass[1]", "must be field names"),
        ("spec.rankLabel", "", "spec.rankLabel", "must be the key of a label"),
        ("spec.children", [{"kind": ""}], "spec.children[0].kind", "must be a kind"),
        ("spec.colour", "red", "spec.colour", "is not known here"),
    ],
)  # fmt: skip
def test_each_malformed_field_is_named(path: str, value: Any, field: str, message: str) -> None:
    found = errors_of(changed(path, value))
    assert found[0].field == field
    assert message in found[0].allowed
    assert {error.field for error in found} <= {field, "metadata.name"}


BACK = {"list": "spec.patches", "entry": {"by": "stowage"}, "items": "pods", "template": "pod"}
POD = {"spec": {"containers": [{"name": "c"}]}}


@pytest.mark.parametrize(
    ("path", "value", "field", "text", "message"),
    [
        ("spec.writeBack", {"list": "a b"}, "spec.writeBack.list", "a b", "must be field names"),
        ("spec.writeBack", {**BACK, "list": "^.patches"}, "spec.writeBack.list", "^.patches", "must begin at the object"),
        ("spec.writeBack", {**BACK, "items": None}, "spec.writeBack.items", None, "must be set: the entry has an item"),
        ("spec.writeBack", {**BACK, "template": "/x"}, "spec.writeBack.template", "/x", "must be field names"),
        ("spec.writeBack", {"list": "spec.p", "items": "x"}, "spec.writeBack.items", "x", "must be set together with entry"),
        ("spec.writeBack", {**BACK, "entry": {}}, "spec.writeBack.entry", {}, "must have a field by which"),
        ("spec.writeBack", {**BACK, "by": 1}, "spec.writeBack.by", 1, "is not known here; known are entry, items, list"),
        ("spec.podSets.0", {"function": "Pods"}, "spec.podSets[0].function", "Pods", "must be one of RuntimePods"),
        ("spec.podSets.0.function", "SparkPods", "spec.podSets[0].each", "spec.teams[].crews[]", "must be left out"),
        ("spec.podSets.0.when", "object.(", "spec.podSets[0].when", "object.(", "must be CEL"),
        ("spec.podSets.0.defaultTemplate", {"template": {}}, "spec.podSets[0].defaultTemplate.template", {}, "a container"),
        ("spec.podSets.0.defaultTemplate", {"image": "a b", "template": POD},
         "spec.podSets[0].defaultTemplate.image", "a b", "must be CEL"),
        ("spec.podSets.0.elastic", {"minimum": "a b"}, "spec.podSets[0].elastic.minimum", "a b", "must be field names"),
        ("spec.podSets.0.elastic", {"maximum": ""}, "spec.podSets[0].elastic.maximum", "", "must be field names"),
        ("spec.podSets.0.elastic", {"keys": ["a"]}, "spec.podSets[0].elastic.keys", ["a"], "is for maps"),
        ("spec.podSets.0.elastic", {"least": 1}, "spec.podSets[0].elastic.least", 1, "known are keys, maximum, minimum"),
        ("spec.podSets.0", {"template": "pod", "elastic": {}}, "spec.podSets[0].elastic", None, "together with count"),
        ("spec.podSets.0.rankOffset", {"value": -1}, "spec.podSets[0].rankOffset.value", -1, "must be from 0"),
        ("spec.podSets.0.rankOffset", {"value": 1, "when": "1 +"}, "spec.podSets[0].rankOffset.when", "1 +", "must be CEL"),
        ("spec.podSets.0.sidecars.0.name", "No", "spec.podSets[0].sidecars[0].name", "No", "must be a DNS label"),
        ("spec.podSets.0.sidecars.0.resources", "a[0]", "spec.podSets[0].sidecars[0].resources", "a[0]", "field names"),
        ("spec.status.onHold", {}, "spec.status.onHold", [], "must have exactly one of"),
        ("spec.status.onHold", {"expression": "?"}, "spec.status.onHold.expression", "?", "must be CEL"),
        ("spec.status.succeeded", {"path": "a b", "values": ["x"]}, "spec.status.succeeded.path", "a b", "field names"),
        ("spec.status.failed", {"condition": "A", "values": ["x"]}, "spec.status.failed.values", ["x"], "together with path"),
        ("spec.skipWhen", {"path": "spec.a", "condition": "B"}, "spec.skipWhen", ["condition", "path"], "exactly one of"),
        ("spec.skipWhen", {"expression": "object."}, "spec.skipWhen.expression", "object.", "must be CEL"),
        ("spec.requires", [{"path": "", "expression": "true"}], "spec.requires[0].path", "", "must be field names"),
        ("spec.requires", [{"path": "spec.a", "expression": "("}], "spec.requires[0].expression", "(", "must be CEL"),
        ("spec.frozen", ["spec.a", "$.spec.b"], "spec.frozen[1]", "$.spec.b", "must be field names"),
        ("spec.managedByPath", "spec.by[0]", "spec.managedByPath", "spec.by[0]", "must be field names"),
        ("spec.pods", {"nameLabel": "a/b/c"}, "spec.pods.nameLabel", "a/b/c", "must be the key of a label"),
        ("spec.pods", {"labels": {"": "x"}}, "spec.pods.labels", "", "must be the key of a label"),
        ("spec.pods", {"added": {"cpu": "lots"}}, "spec.pods.added.cpu", "lots", "must be a quantity"),
    ],
)  # fmt: skip
def test_an_error_names_the_object_the_field_what_stands_there_and_what_may(
    path: str, value: Any, field: str, text: Any, message: str
) -> None:
    with pytest.raises(InvalidObject) as found:
        read(changed(path, value))
    error = found.value
    assert (error.obj, error.field, error.given) == ("JobKind cranes.example.com", field, text)
    assert message in error.allowed
    assert str(error).startswith(f"JobKind cranes.example.com: {field}: ")


SCALED: Obj = {
    **GOOD,
    "spec": {
        **{key: GOOD["spec"][key] for key in ("group", "version", "plural", "kind")},
        "scale": {"selector": "status.selector", "template": "spec.template", "minimum": "spec.least"},
    },
}


def test_a_scaled_one_has_no_errors() -> None:
    assert errors_of(SCALED) == []


@pytest.mark.parametrize(
    ("path", "value", "field", "message"),
    [
        ("spec.suspend", {"path": "spec.state"}, "spec.suspend", "must be left out together with spec.scale"),
        ("spec.podSets", [{"template": "spec.t"}], "spec.podSets", "must be left out together with spec.scale"),
        ("spec.status", {"active": {"condition": "Up"}}, "spec.status", "must be left out together with spec.scale"),
        ("spec.frozen", ["spec.x"], "spec.frozen", "must be left out together with spec.scale"),
        ("spec.scale.replicas", {"path": "$.spec.n"}, "spec.scale.replicas.path", "must be field names"),
        ("spec.scale.replicas", {"path": "spec.n", "least": -1}, "spec.scale.replicas.least", "must be from 0"),
        ("spec.scale.selector", "a b", "spec.scale.selector", "must be field names"),
        ("spec.scale.template", "^.t", "spec.scale.template", "must be field names"),
        ("spec.scale.minimum", "x" * 300, "spec.scale.minimum", "must be field names"),
        ("spec.scale.size", 1, "spec.scale.size", "is not known here; known are minimum, replicas, selector, template"),
    ],
)
def test_each_error_of_a_scaled_one_names_its_field(path: str, value: Any, field: str, message: str) -> None:
    found = errors_of(with_value(copy.deepcopy(SCALED), tuple(path.split(".")), value))
    assert [(error.field, message in error.allowed) for error in found] == [(field, True)]


@pytest.mark.parametrize("value", ["x", 3, [1]], ids=repr)
def test_a_spec_of_another_shape_is_an_error_and_not_a_failure(value: Any) -> None:
    with pytest.raises(InvalidObject, match=r"JobKind cranes\.example\.com: spec"):
        read({**GOOD, "spec": value})


def test_a_built_in_kind_cannot_be_declared_again() -> None:
    made = yaml.safe_load((FOLDER / "pytorchjob.yaml").read_text())
    assert [error.field for error in errors_of(made)] == ["spec.kind"]


@pytest.mark.parametrize(
    ("group", "plural", "kind"),
    [
        ("", "pods", "Pod"),
        ("", "secrets", "Secret"),
        ("", "nodes", "Node"),
        ("kueue.x-k8s.io", "workloads", "Workload"),
        ("stowage.dev", "jobkinds", "JobKind"),
        ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole"),
        ("coordination.k8s.io", "leases", "Lease"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    ],
)
def test_objects_of_the_cluster_itself_are_no_jobs(group: str, plural: str, kind: str) -> None:
    """Stowage has rights on some of them, and would write to them as to jobs."""
    spec = {**GOOD["spec"], "group": group, "plural": plural, "kind": kind}
    found = errors_of({**GOOD, "metadata": {"name": f"{plural}.{group}"}, "spec": spec})
    assert "spec.group" in {error.field for error in found}


@pytest.mark.parametrize("name", ["a.b/c", "x" * 64, "", "é", "a_b", "-a"])
def test_a_key_that_cannot_name_a_pod_set_is_named(name: str) -> None:
    spec = {**GOOD["spec"], "podSets": [{"each": "spec.roles{}", "template": "pod"}]}
    with pytest.raises(InvalidObject, match=r"must be the name of a pod set") as error:
        DeclaredJob(read({**GOOD, "spec": spec}).spec).pod_sets({"spec": {"roles": {name: {"pod": {"spec": {}}}}}})
    assert error.value.given == name


@pytest.mark.parametrize("value", ["x" * 1_000_000, [{"name": "n"}] * 10_000, {str(n): n for n in range(10_000)}])
def test_an_error_about_a_large_value_is_short(value: Any) -> None:
    assert len(str(InvalidObject("spec.a", value, "must be small"))) < 600


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_built_in_declarations_are_good_and_short(file: Path) -> None:
    """At most 40 lines each."""
    obj = yaml.safe_load(file.read_text())
    made = JobKind.from_wire(obj)
    assert [str(error) for error in errors_of(obj) if "built in" not in error.allowed] == []
    assert len(file.read_text().splitlines()) <= 40
    assert made.metadata.name == f"{made.spec.plural}.{made.spec.group}"


def crane(**changes: Any) -> Obj:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    crews = [{"name": "lift", "size": 2, "pod": template}, {"name": "load", "pod": template}]
    spec = {"state": "Parked", "sites": 2, "teams": [{"name": "north", "shifts": 3, "crews": crews}], **changes}
    return {"metadata": {"name": "c"}, "spec": spec}


def test_pod_sets_of_lists_in_lists_are_named_by_both_and_counted_as_a_product() -> None:
    found = DeclaredJob(read(GOOD).spec).pod_sets(crane(radio=True))
    assert {one.name: one.count for one in found} == {"north-lift": 12, "north-load": 6}
    assert [c["name"] for c in found[0].template["spec"]["containers"]] == ["c", "radio"]
    request = found[0].topology_request
    assert request is not None
    assert (request.sub_group_index_label, request.sub_group_count) == ("example.com/shift", 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"teams": "x"}, "spec.teams: 'x': must be a list", id="no list"),
        pytest.param({"teams": None}, "spec.teams: None: must have at least one entry", id="nothing"),
        pytest.param({"teams": [3]}, r"spec.teams\[0\].name: None: must be the name of a pod set", id="a number"),
        pytest.param(
            {"teams": [{"name": "a", "crews": [{"name": "b"}]}]}, r"crews\[0\].pod: None: must be a pod", id="pod"
        ),
        pytest.param({"sites": 2**31}, r"\$.spec.sites: 2147483648: must be a whole number", id="too large"),
        pytest.param({"sites": 2**30}, "must have at most 2147483647 pods", id="a product that is too large"),
        pytest.param(
            {"teams": [{"name": "a", "crews": [{"name": "b", "pod": {}}] * 2}]},
            "the only pod set of that name",
            id="twice",
        ),
        pytest.param(
            {"teams": [{"name": "a", "crews": [{"name": f"b{n}", "pod": {}} for n in range(5000)]}]},
            "at most [0-9]+ pod sets",
            id="many",
        ),
    ],
)
def test_an_object_that_cannot_be_read_is_an_error_with_its_path(changes: Obj, message: str) -> None:
    with pytest.raises(InvalidObject, match=message):
        DeclaredJob(read(GOOD).spec).pod_sets(crane(**changes))


@pytest.mark.parametrize("status", [{}, {"running": "many"}, {"running": True}, None], ids=repr)
def test_a_test_that_cannot_be_answered_does_not_hold(status: Any) -> None:
    assert DeclaredJob(read(GOOD).spec).is_active({**crane(), "status": status}) is False


@pytest.mark.parametrize(
    "path",
    ["writeBack", "skipWhen", "requires", "frozen", "managedByPath", "children", "pods", "status.onHold"]
    + [f"podSets.0.{name}" for name in ("elastic", "defaultTemplate", "rankOffset", "function", "sidecars", "when")],
)
def test_a_field_of_another_type_is_named(path: str) -> None:
    with pytest.raises(InvalidObject) as found:
        read(changed(f"spec.{path}", 3))
    assert found.value.obj == "JobKind cranes.example.com"
    assert found.value.field == f"spec.{path}".replace("podSets.0", "podSets[0]")
    assert (found.value.given, found.value.allowed.startswith("must be a ")) == (3, True)


@pytest.mark.parametrize(
    ("pod", "where"),
    [
        ({"metadata": 3}, "metadata"),
        ({"metadata": {"labels": 3}}, "metadata.labels"),
        ({"metadata": {"labels": {"a": 3}}}, "metadata.labels.a"),
        ({"metadata": {"annotations": ["a"]}}, "metadata.annotations"),
        ({"spec": 3}, "spec"),
        ({"spec": {"nodeSelector": "a"}}, "spec.nodeSelector"),
        ({"spec": {"tolerations": 3}}, "spec.tolerations"),
        ({"spec": {"schedulingGates": ["a"]}}, "spec.schedulingGates"),
        ({"spec": {"containers": 3}}, "spec.containers"),
        ({"spec": {"containers": [{"resources": {"requests": ["a"]}}]}}, "spec.containers[0].resources.requests"),
        ({"spec": {"priorityClassName": {}}}, "spec.priorityClassName"),
    ],
    ids=str,
)
def test_a_template_that_is_none_is_an_error_with_its_field(pod: Obj, where: str) -> None:
    """CRDs may keep anything there. Each other error would be a failure of the controller that its user does not see."""
    job = crane(teams=[{"name": "north", "shifts": 1, "crews": [{"name": "lift", "pod": pod}]}])
    kind = DeclaredJob(read(GOOD).spec)
    with pytest.raises(InvalidObject) as error:
        kind.pod_sets(job)
    assert error.value.field == f"spec.teams[0].crews[0].pod.{where}"
    running = with_value(job, ("spec", "state"), "Working")
    assert "has pods that can be read" in kind.pod_fault({"spec": {}}, running)
