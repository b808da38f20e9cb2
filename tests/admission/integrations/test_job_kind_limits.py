"""What the CRD refuses of a JobKind, a file refuses too: each field of each type, length, number and form.

The CRD is what users see; files have no API server that would validate them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.integrations.job_kind_errors import errors_of
from admission.integrations.paths import Location, with_value, without, written
from tests.admission.integrations.test_job_kind_errors import BACK, GOOD, POD, SCALED, Obj

CRD = Path(__file__).parents[3] / "config" / "crd" / "stowage.dev_jobkinds.yaml"
SCHEMA: Obj = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def _whole() -> Obj:
    """A JobKind in which all fields that may be set together are set."""
    made = copy.deepcopy(GOOD)
    spec = made["spec"]
    spec |= {
        "writeBack": BACK,
        "children": [{"group": "batch", "kind": "Job"}],
        "priorityClass": ["spec.priority"],
        "managedBy": "example.com/crane",
        "managedByPath": "spec.by",
        "requires": [{"path": "spec.a", "expression": "true", "message": "must be so"}],
        "frozen": ["spec.frozen"],
        "skipWhen": {"condition": "Skipped"},
        "pods": {"nameLabel": "example.com/crane", "labels": {"a": "b"}, "added": {"cpu": "1"}},
    }
    crews = spec["podSets"][0]
    crews |= {
        "namePath": "name",
        "when": "true",
        "elastic": {"minimum": "least", "maximum": "most", "parts": True},
        "defaultTemplate": {"image": "object.image", "template": POD},
        "rankOffset": {"value": 1, "when": "true"},
        "optional": True,
    }
    crews["count"][0] |= {"default": 1, "least": 1}
    crews["sidecars"][0] |= {"resources": "spec.radio"}
    roles = {
        "each": "spec.roles{}",
        "order": ["A"],
        "template": "pod",
        "count": [{"path": "n"}],
        "elastic": {"keys": ["A"]},
    }
    spec["podSets"] += [roles, {"name": "one", "template": "spec.pod"}]
    spec["status"] = {
        "active": {"expression": "true"},
        "activeParts": True,
        "ready": {"path": "status.phase", "values": ["Up"]},
        "succeeded": {"condition": "Done"},
        "message": "status.message",
    }
    return made


WHOLE = _whole()
FULL_SCALE: Obj = with_value(SCALED, ("spec", "scale", "replicas"), {"path": "spec.n", "default": 1, "least": 0})
OTHER_TYPES: dict[str, list[Any]] = {
    "string": [3, ["x"], {"a": "b"}],
    "integer": ["1", 1.5, True],
    "array": ["x", {"a": "b"}, [3.5]],
    "boolean": ["yes", 1],
    "object": [3, "x", [1]],
}


def _fields(schema: Obj, value: Any, at: Location) -> Iterator[tuple[Location, Obj, Any]]:
    yield at, schema, value
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                yield from _fields(inner, value[name], (*at, name))
    elif isinstance(value, list):
        yield from _fields(schema["items"], value[0], (*at, 0))


def _bad(schema: Obj, value: Any) -> Iterator[Any]:
    yield from OTHER_TYPES.get(schema.get("type", ""), ())
    if "maxLength" in schema:
        yield "a" * (schema["maxLength"] + 1)
    if schema.get("minLength"):
        yield ""
    if "pattern" in schema:
        yield from ("a b", "!", "a\n", "")
    if schema.get("type") == "integer":
        yield from (2**31, schema.get("minimum", -(2**31)) - 1)
    if "maxItems" in schema:
        yield value[:1] * (schema["maxItems"] + 1)
    if schema.get("minItems"):
        yield []


FIELDS = [
    pytest.param(whole, at, schema, value, id=written(at))
    for whole, mandatory in ((WHOLE, True), (FULL_SCALE, False))
    for at, schema, value in _fields(SCHEMA, whole["spec"], ("spec",))
    if mandatory or "scale" in at
]


def named(whole: Obj, at: Location, obj: Obj) -> bool:
    """Whether an error names the field, or one in it; the name must fit group and plural."""
    return any(error.field.startswith((written(at), "metadata.name")) for error in errors_of(obj))


def test_both_are_good() -> None:
    assert errors_of(WHOLE) == errors_of(FULL_SCALE) == []


@pytest.mark.parametrize(("whole", "at", "schema", "value"), FIELDS)
def test_what_the_crd_refuses_is_an_error_of_that_field(whole: Obj, at: Location, schema: Obj, value: Any) -> None:
    accepted = [bad for bad in _bad(schema, value) if not named(whole, at, with_value(whole, at, bad))]
    assert accepted == []
    lacking = [name for name in schema.get("required", ()) if name in value]
    assert [name for name in lacking if not named(whole, (*at, name), without(whole, (*at, name)))] == []


@pytest.mark.parametrize(
    "path",
    ["status.suspend", "metadata.labels", "kind", "apiVersion"],
)
def test_fields_of_the_api_server_are_not_written(path: str) -> None:
    for at in (("suspend", "path"), ("writeBack", "list"), ("podSets", 2, "template"), ("podSets", 0, "each")):
        (error,) = errors_of(with_value(WHOLE, ("spec", *at), path if at[-1] != "each" else f"{path}[].a[]"))
        assert error.field == written(("spec", *at))
        assert error.allowed.startswith("must be a field that a start can write")


@pytest.mark.parametrize(("gone", "message"), [("subGroupLabel", "subGroupLabel"), ("subGroups", "subGroups")])
def test_groups_have_both_a_label_and_a_number(gone: str, message: str) -> None:
    (error,) = errors_of(without(WHOLE, ("spec", "podSets", 0, gone)))
    assert (error.field, error.allowed) == (
        f"spec.podSets[0].{message}",
        "must be set: subGroupLabel and subGroups stand together",
    )
