"""One contract, two servers: what the embedded API server and the real one must both do.

The real one (marker e2e) needs the programs of hack/controlplane and is skipped where they were not built. Every test
works in a namespace of its own. Here how objects are made and changed; in `test_api_workloads` pods, Jobs and JobSets, in
`test_api_reading` lists and watches, in `test_api_deletion` how objects go.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.integration.contract import (
    APPLY,
    GROUP,
    STRATEGIC,
    Answer,
    Obj,
    Server,
    config_map,
    job,
    pod,
    refused,
    widget,
)

# ---- names, versions, conflicts


async def test_create_fills_in_what_the_server_owns(server: Server) -> None:
    body = {"metadata": {"generateName": "made-", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}}
    first = await server.post("configmaps", body)
    second = await server.post("configmaps", body)
    assert first.status == second.status == 201
    assert first.name != second.name
    assert first.name.startswith("made-")
    assert len(first.name) == len("made-") + 5
    assert uuid.UUID(first.body["metadata"]["uid"])
    assert not first.body["metadata"]["creationTimestamp"].startswith("2001")
    assert int(second.version) > int(first.version)


REFUSED_CREATES = [
    pytest.param({"metadata": {}}, 422, "Invalid", "name or generateName is required", id="no-name"),
    pytest.param({"metadata": {"name": "No_Good"}}, 422, "Invalid", "RFC 1123", id="bad-name"),
    pytest.param(
        {"metadata": {"name": "x", "namespace": "elsewhere"}}, 400, "BadRequest", "does not match", id="namespace"
    ),
]


@pytest.mark.parametrize(("body", "status", "reason", "words"), REFUSED_CREATES)
async def test_refused_creates(server: Server, body: Obj, status: int, reason: str, words: str) -> None:
    refused(await server.post("configmaps", body), status, reason, words)


async def test_create_twice_and_in_no_namespace(server: Server) -> None:
    assert (await server.post("jobs", job("one"))).status == 201
    again = await server.post("jobs", job("one"))
    refused(again, 409, "AlreadyExists", 'jobs.batch "one" already exists')
    assert again.body["details"] == {"name": "one", "group": "batch", "kind": "jobs"}
    lost = await server.post("/api/v1/namespaces/there-is-none/pods", pod("one"))
    refused(lost, 404, "NotFound", 'namespaces "there-is-none" not found')


async def test_missing_objects(server: Server) -> None:
    for method in ("GET", "DELETE"):
        answer = await server.call(method, "jobs/none")
        refused(answer, 404, "NotFound", 'jobs.batch "none" not found')
        assert answer.body["details"] == {"name": "none", "group": "batch", "kind": "jobs"}


async def test_a_stale_version_conflicts_in_put_and_patch(server: Server) -> None:
    made = await server.post("configmaps", config_map("x"))
    newer = await server.put("configmaps/x", {**config_map("x", resourceVersion=made.version), "data": {"a": "1"}})
    assert newer.status == 200
    stale = {**config_map("x", resourceVersion=made.version), "data": {"a": "2"}}
    for answer in (await server.put("configmaps/x", stale), await server.patch("configmaps/x", stale)):
        words = (
            'Operation cannot be fulfilled on configmaps "x": the object has been modified; please apply your changes'
        )
        refused(answer, 409, "Conflict", words)
        assert answer.body["details"] == {"name": "x", "kind": "configmaps"}
    assert (await server.put("configmaps/x", {**config_map("x"), "data": {"a": "3"}})).status == 200


async def test_a_write_that_changes_nothing_keeps_the_version(server: Server) -> None:
    made = await server.post("configmaps", {**config_map("x"), "data": {"a": "1"}})
    same = await server.patch("configmaps/x", {"data": {"a": "1"}})
    assert (same.status, same.version) == (200, made.version)


async def test_dry_run_stores_nothing(server: Server) -> None:
    assert (await server.post("configmaps?dryRun=All", config_map("x"))).status == 201
    assert (await server.get("configmaps/x")).status == 404
    made = await server.post("configmaps", config_map("x"))
    changed = await server.patch("configmaps/x?dryRun=All", {"data": {"a": "1"}})
    assert changed.body["data"] == {"a": "1"}
    assert (await server.delete("configmaps/x?dryRun=All")).status == 200
    assert (await server.get("configmaps/x")).version == made.version


# ---- custom resources


async def test_schema_defaults_and_prunes(widgets: Server) -> None:
    made = await widgets.post("widgets", widget("x", unknown=1, free={"any": {"thing": 1}}))
    assert made.status == 201
    assert made.body["spec"] == {"size": 1, "mode": "Fast", "free": {"any": {"thing": 1}}}
    strict = await widgets.post("widgets?fieldValidation=Strict", widget("y", unknown=1))
    refused(strict, 400, "BadRequest", 'unknown field "spec.unknown"')


BROKEN_WIDGETS = [
    pytest.param({"size": 0}, "spec.size", "should be greater than or equal to 1", id="minimum"),
    pytest.param({"size": 10}, "spec.size", "should be less than or equal to 9", id="maximum"),
    pytest.param({"size": "1"}, "spec.size", 'must be of type integer: "string"', id="type"),
    pytest.param({"size": None}, "spec.size", "Required value", id="required"),
    pytest.param({"mode": "No"}, "spec.mode", 'Unsupported value: "No": supported values: "Fast", "Slow"', id="enum"),
    pytest.param({"label": "A"}, "spec.label", "should match '^[a-z]+$'", id="pattern"),
    pytest.param({"label": "abcdef"}, "spec.label", "Too long: may not be more than 5 bytes", id="length"),
    pytest.param({"parts": [{"name": n} for n in "abc"]}, "spec.parts", "Too many: 3: must have at most 2", id="items"),
    pytest.param({"parts": [{"name": "a"}] * 2}, "spec.parts[1]", 'Duplicate value: {"name":"a"}', id="keys"),
    pytest.param({"parts": [{"count": 1}]}, "spec.parts[0].name", "Required value", id="item-required"),
]


@pytest.mark.parametrize(("spec", "field", "words"), BROKEN_WIDGETS)
async def test_schema_refuses(widgets: Server, spec: Obj, field: str, words: str) -> None:
    answer = await widgets.post("widgets", widget("x", **spec))
    refused(answer, 422, "Invalid", f'Widget.{GROUP} "x" is invalid', words)
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]


async def test_status_and_spec_do_not_mix(widgets: Server) -> None:
    made = await widgets.post("widgets", {**widget("x"), "status": {"ready": True}})
    assert "status" not in made.body
    assert made.body["metadata"]["generation"] == 1
    spec = await widgets.patch("widgets/x", {"spec": {"size": 2}, "status": {"ready": True}})
    assert "status" not in spec.body
    assert spec.body["metadata"]["generation"] == 2
    body = {"spec": {"size": 3}, "metadata": {"labels": {"a": "b"}}, "status": {"ready": True}}
    status = await widgets.patch("widgets/x/status", body)
    assert status.body["status"] == {"ready": True}
    assert status.body["spec"]["size"] == 2
    assert "labels" not in status.body["metadata"]
    assert status.body["metadata"]["generation"] == 2
    wrong = {"status": {"conditions": [{"type": "A", "status": "Maybe"}]}}
    refused(await widgets.patch("widgets/x/status", wrong), 422, "Invalid", "status.conditions[0].status")


async def test_custom_resources_want_a_version_in_put_and_no_strategic_patch(widgets: Server) -> None:
    await widgets.post("widgets", widget("x"))
    answer = await widgets.put("widgets/x", widget("x", size=2))
    refused(answer, 422, "Invalid", "metadata.resourceVersion", "must be specified for an update")
    refused(await widgets.patch("widgets/x", {"spec": {"size": 2}}, STRATEGIC), 415, "UnsupportedMediaType")


# ---- server-side apply


async def _apply(server: Server, manager: str, force: bool = False, **spec: Any) -> Answer:
    body = widget("x")
    body["spec"] = spec
    query = f"fieldManager={manager}" + ("&force=true" if force else "")
    return await server.patch(f"widgets/x?{query}", body, APPLY)


async def test_apply_creates_then_owns_its_fields(widgets: Server) -> None:
    assert (await _apply(widgets, "one", size=3, parts=[{"name": "a", "count": 1}])).status == 201
    added = await _apply(widgets, "two", label="red", parts=[{"name": "b", "count": 2}])
    assert added.status == 200, added.body
    assert added.body["spec"]["parts"] == [{"name": "a", "count": 1}, {"name": "b", "count": 2}]
    clash = await _apply(widgets, "two", size=4, label="red")
    refused(clash, 409, "Conflict", 'Apply failed with 1 conflict: conflict with "one": .spec.size')
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.size"}
    assert clash.body["details"]["causes"] == [cause]
    forced = await _apply(widgets, "two", force=True, size=4)
    assert forced.body["spec"] == {"size": 4, "mode": "Fast", "parts": [{"name": "a", "count": 1}]}


async def test_apply_clashes_with_fields_written_otherwise(widgets: Server) -> None:
    await _apply(widgets, "one", size=3)
    await widgets.patch("widgets/x?fieldManager=hand", {"spec": {"size": 5}})
    clash = await _apply(widgets, "one", size=3)
    refused(clash, 409, "Conflict", f'conflict with "hand" using {GROUP}/v1: .spec.size')
    assert (await _apply(widgets, "one", size=5)).status == 200


async def test_apply_of_a_status_has_its_own_owner(widgets: Server) -> None:
    await _apply(widgets, "one", size=3)
    body = widget("x")
    del body["spec"]
    conditions = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]
    path = "widgets/x/status?fieldManager=one"
    first = await widgets.patch(path, {**body, "status": {"conditions": conditions}}, APPLY)
    assert first.body["status"]["conditions"] == conditions
    second = await widgets.patch(path, {**body, "status": {"conditions": conditions[1:]}}, APPLY)
    assert second.body["status"]["conditions"] == conditions[1:]
    assert second.body["spec"]["size"] == 3


async def test_apply_needs_a_manager(widgets: Server) -> None:
    refused(await widgets.patch("widgets/x", widget("x"), APPLY), 422, "Invalid", "fieldManager: Required value")
