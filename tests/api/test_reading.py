"""Workloads read from the wire: as the plain decoding gives them, with equal specs shared and managedFields left out."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from api.reading import WorkloadReader
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


def finished(name: str) -> dict[str, Any]:
    made = wire(name)
    end = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "done"}
    made["status"] = {"conditions": [*made["status"]["conditions"], end]}
    return made


@pytest.mark.parametrize("state", [wire, finished], ids=["waiting", "finished"])
def test_what_workloads_share_is_not_seen_and_their_copies_are_their_own(
    state: Callable[[str], dict[str, Any]],
) -> None:
    reader = WorkloadReader()
    one, other = read(reader, state("a")), read(reader, state("b"))
    plain = Workload.from_wire(state("b")).to_wire()
    del plain["metadata"]["managedFields"]
    changed = one.status.model_copy(update={"cluster_name": "c"})
    assert changed.to_wire()["clusterName"] == "c"
    assert other.to_wire() == plain
    assert (other.metadata, other.status) == (Workload.from_wire(plain).metadata, Workload.from_wire(plain).status)


@pytest.mark.parametrize("state", [wire, finished], ids=["waiting", "finished"])
def test_workloads_take_half_the_memory_of_their_values(state: Callable[[str], dict[str, Any]]) -> None:
    def size(read_one: Callable[[bytes], object]) -> int:
        workloads = [state(f"w{number}") for number in range(500)]
        for workload in workloads:
            del workload["metadata"]["managedFields"], workload["spec"]
        texts = [json.dumps(workload).encode() for workload in workloads]
        read_one(texts[0])
        tracemalloc.start()
        try:
            kept = [read_one(text) for text in texts]
            return tracemalloc.get_traced_memory()[0] // len(kept)
        finally:
            tracemalloc.stop()

    assert size(WorkloadReader()) < 0.6 * size(Workload.model_validate_json)


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
