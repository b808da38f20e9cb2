"""Workloads read from the wire: as the plain decoding gives them, with equal specs shared and managedFields left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from admission.controllers.reading import WorkloadReader
from api.workloads import Workload


def wire(name: str = "w", **more: Any) -> dict[str, Any]:
    pod_set = {"name": "main", "count": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    meta = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "labels": {"a": "b"},
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        "selfLink": "somewhere",
    }
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Waiting", "message": "no room"}
    status = {"conditions": [condition], "added later": 1}
    spec = {"podSets": [pod_set], "queueName": "lq", "newer": True}
    return {"apiVersion": "v", "kind": "Workload", "metadata": meta, "spec": spec, "status": status, **more}


def read(reader: WorkloadReader, obj: dict[str, Any]) -> Workload:
    return reader(json.dumps(obj).encode())


def test_reads_what_the_plain_decoding_reads_but_for_managed_fields() -> None:
    found = read(WorkloadReader(), wire())
    plain = Workload.from_wire(wire()).to_wire()
    del plain["metadata"]["managedFields"]
    assert found.to_wire() == plain


def test_a_workload_without_status_has_the_empty_one() -> None:
    bare = wire()
    del bare["status"]
    assert read(WorkloadReader(), bare).status == Workload().status


def test_equal_specs_are_one_object() -> None:
    reader = WorkloadReader()
    assert read(reader, wire("a")).spec is read(reader, wire("b")).spec


def test_a_changed_spec_is_seen() -> None:
    reader, paused = WorkloadReader(), wire()
    before = read(reader, wire())
    paused["spec"] = {**paused["spec"], "active": False}
    assert before.spec.active
    assert not read(reader, paused).spec.active


@pytest.mark.parametrize(
    ("part", "bad", "place"),
    [
        ("spec", {"podSets": [{"count": "many"}]}, ("spec", "podSets", 0, "count")),
        ("status", {"conditions": [{"type": "x"}]}, ("status", "conditions", 0, "status")),
        ("metadata", {"name": ["w"]}, ("metadata", "name")),
    ],
)
def test_what_is_wrong_is_named_by_its_full_path(part: str, bad: Any, place: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        read(WorkloadReader(), {**wire(), part: bad})
    assert caught.value.errors()[0]["loc"] == place
