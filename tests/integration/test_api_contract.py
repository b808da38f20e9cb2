"""One contract, two servers: what the embedded API server and the real one must both do.

The real one (marker e2e) needs the programs of hack/controlplane and is skipped where they were not built. Every test
works in a namespace of its own.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest

from tests.integration.contract import (
    APPLY,
    GROUP,
    JSON,
    MERGE,
    OURS,
    STRATEGIC,
    THEIRS,
    Answer,
    Obj,
    Server,
    config_map,
    job,
    jobset,
    pod,
    real_kubeconfig,
    refused,
    server,
    template,
    widget,
    widgets,
)

__all__ = ["real_kubeconfig", "server", "widgets"]  # fixtures


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


# ---- gated pods


UNGATE = [
    pytest.param(
        {"spec": {"nodeSelector": {"rack": "r1"}, "schedulingGates": [{"name": OURS, "$patch": "delete"}]}},
        STRATEGIC,
        [THEIRS],
        id="strategic-keeps-strangers",
    ),
    pytest.param(
        {"spec": {"nodeSelector": {"rack": "r1"}, "schedulingGates": [{"name": THEIRS}]}},
        MERGE,
        [THEIRS],
        id="merge-names-what-stays",
    ),
    pytest.param(
        [
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": OURS},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
            {"op": "add", "path": "/spec/nodeSelector", "value": {"rack": "r1"}},
        ],
        JSON,
        [THEIRS],
        id="json-tests-first",
    ),
    pytest.param(
        {"spec": {"nodeSelector": {"rack": "r1"}, "schedulingGates": None}}, MERGE, [], id="merge-null-drops-all"
    ),
]


@pytest.mark.parametrize(("body", "content", "left"), UNGATE)
async def test_one_patch_selects_nodes_and_opens_the_gate(
    server: Server, body: Any, content: str, left: list[str]
) -> None:
    made = await server.post("pods", pod("x", OURS, THEIRS))
    gated = made.body["status"]["conditions"][0]
    assert (gated["type"], gated["status"], gated["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    answer = await server.patch("pods/x", body, content)
    assert answer.status == 200, answer.body
    assert [gate["name"] for gate in answer.body["spec"].get("schedulingGates", [])] == left
    assert answer.body["spec"]["nodeSelector"] == {"rack": "r1"}


async def test_a_json_patch_whose_test_fails_changes_nothing(server: Server) -> None:
    await server.post("pods", pod("x", THEIRS, OURS))
    body = [{"op": "test", "path": "/spec/schedulingGates/0/name", "value": OURS}]
    refused(await server.patch("pods/x", body, JSON), 422, "Invalid", "rejected our request")


def _affinity(*nodes: str) -> Obj:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}
        }
    }


GATED_CHANGES = [
    pytest.param({"nodeSelector": {"b": "2"}}, None, id="selector-grows"),
    pytest.param(
        {"nodeSelector": {"a": "2"}}, "only additions to spec.nodeSelector are allowed", id="selector-changes"
    ),
    pytest.param(
        {"nodeSelector": {"a": None}}, "only additions to spec.nodeSelector are allowed", id="selector-shrinks"
    ),
    pytest.param({"affinity": _affinity("n1", "n2")}, None, id="affinity-narrows"),
    pytest.param({"affinity": _affinity("n2")}, "only additions are allowed", id="affinity-changes"),
    pytest.param({"affinity": None}, "no additions/deletions to non-empty NodeSelectorTerms", id="affinity-goes"),
    pytest.param({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, None, id="toleration-added"),
    pytest.param({"schedulingGates": [{"name": "a/new"}]}, "only deletion is allowed, but found new", id="gate-added"),
    pytest.param({"schedulerName": "other"}, "pod updates may not change fields other than", id="scheduler"),
]


@pytest.mark.parametrize(("change", "refusal"), GATED_CHANGES)
async def test_what_may_change_while_gated(server: Server, change: Obj, refusal: str | None) -> None:
    await server.post("pods", pod("x", OURS, nodeSelector={"a": "1"}, affinity=_affinity("n1")))
    answer = await server.patch("pods/x", {"spec": change})
    if refusal is None:
        assert answer.status == 200, answer.body
    else:
        refused(answer, 422, "Invalid", refusal)


async def test_an_open_pod_is_fixed(server: Server) -> None:
    await server.post("pods", pod("x", OURS))
    assert (await server.patch("pods/x", {"spec": {"schedulingGates": None}})).status == 200
    for change in ({"nodeSelector": {"a": "1"}}, {"affinity": _affinity("n1")}):
        answer = await server.patch("pods/x", {"spec": change})
        refused(answer, 422, "Invalid", "spec: Forbidden: pod updates may not change fields other than")


async def test_binding(server: Server) -> None:
    await server.post("pods", pod("x", OURS))
    body = {"metadata": {"name": "x"}, "target": {"kind": "Node", "name": "n1"}}
    refused(await server.post("pods/x/binding", body), 409, "Conflict", "pod x has non-empty .spec.schedulingGates")
    await server.patch("pods/x", {"spec": {"schedulingGates": None}})
    assert (await server.post("pods/x/binding", body)).status == 201
    bound = await server.get("pods/x")
    assert bound.body["spec"]["nodeName"] == "n1"
    assert bound.body["status"]["conditions"][0]["status"] == "True"
    refused(await server.post("pods/x/binding", body), 409, "Conflict", 'pod x is already assigned to node "n1"')


async def test_a_bound_pod_ends_gracefully_a_waiting_one_at_once(server: Server) -> None:
    await server.post("pods", pod("waiting"))
    assert (await server.delete("pods/waiting")).status == 200
    assert (await server.get("pods/waiting")).status == 404
    await server.post("pods", pod("bound", nodeName="n1", tolerations=[{"operator": "Exists"}]))
    ending = await server.delete("pods/bound")
    assert ending.body["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await server.get("pods/bound")).status == 200
    await server.delete("pods/bound?gracePeriodSeconds=0")
    assert (await server.get("pods/bound")).status == 404


# ---- Jobs and JobSets


NODE_AFFINITY = _affinity("n1")
TEMPLATE_CHANGES = [
    # change of the template, allowed while suspended
    pytest.param(template(nodeSelector={"a": "1"}), True, id="node-selector"),
    pytest.param({"spec": {"template": {"metadata": {"labels": {"a": "1"}}}}}, True, id="labels"),
    pytest.param({"spec": {"template": {"metadata": {"annotations": {"a": "1"}}}}}, True, id="annotations"),
    pytest.param(template(tolerations=[{"key": "a", "operator": "Exists"}]), True, id="tolerations"),
    pytest.param(template(schedulingGates=[{"name": OURS}]), True, id="gates"),
    pytest.param(template(affinity=NODE_AFFINITY), True, id="node-affinity"),
    pytest.param(
        template(containers=[{"name": "main", "resources": {"requests": {"cpu": "2"}}}]), True, id="resources"
    ),
    pytest.param(template(containers=[{"name": "main", "image": "example.dev/main:2"}]), False, id="image"),
    pytest.param(template(schedulerName="other"), False, id="scheduler"),
    pytest.param(template(priorityClassName="system-node-critical"), False, id="priority-class"),
]


@pytest.mark.parametrize(("change", "allowed"), TEMPLATE_CHANGES)
async def test_template_of_a_suspended_job(server: Server, change: Obj, allowed: bool) -> None:
    await server.post("jobs", job("x"))
    answer = await server.patch("jobs/x", change, STRATEGIC)
    if allowed:
        assert answer.status == 200, answer.body
    else:
        refused(answer, 422, "Invalid", "spec.template.spec: Invalid value", "field is immutable")


@pytest.mark.parametrize(("change", "allowed"), TEMPLATE_CHANGES)
async def test_template_in_the_update_that_starts_a_job(server: Server, change: Obj, allowed: bool) -> None:
    await server.post("jobs", job("x"))
    answer = await server.patch("jobs/x", {"spec": {**change["spec"], "suspend": False}}, STRATEGIC)
    assert answer.status == (200 if allowed else 422), answer.body


@pytest.mark.parametrize(("change", "_allowed"), TEMPLATE_CHANGES)
async def test_template_of_a_running_job(server: Server, change: Obj, _allowed: bool) -> None:
    await server.post("jobs", job("x", suspend=False))
    for extra in ({}, {"suspend": True}):
        answer = await server.patch("jobs/x", {"spec": {**change["spec"], **extra}}, STRATEGIC)
        refused(answer, 422, "Invalid", "spec.template: Invalid value", "field is immutable")


JOB_FIELDS = [
    pytest.param({"parallelism": 3}, None, id="parallelism"),
    pytest.param({"backoffLimit": 3}, None, id="backoff"),
    pytest.param({"completions": 3}, "can only be modified in tandem with spec.parallelism", id="completions"),
    pytest.param({"completions": 3, "parallelism": 3}, None, id="elastic"),
    pytest.param({"completionMode": "NonIndexed"}, "spec.completionMode: Invalid value", id="mode"),
    pytest.param(
        {"managedBy": "a.dev/b"}, 'spec.managedBy: Invalid value: "a.dev/b": field is immutable', id="managed"
    ),
]


@pytest.mark.parametrize(("change", "refusal"), JOB_FIELDS)
async def test_fields_of_a_suspended_job(server: Server, change: Obj, refusal: str | None) -> None:
    await server.post("jobs", job("x", completionMode="Indexed", completions=2, parallelism=2))
    answer = await server.patch("jobs/x", {"spec": change})
    if refusal is None:
        assert answer.status == 200, answer.body
    else:
        refused(answer, 422, "Invalid", refusal)


async def test_a_new_job_is_completed(server: Server) -> None:
    made = (await server.post("jobs", job("x"))).body
    spec, uid = made["spec"], made["metadata"]["uid"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["podReplacementPolicy"]) == ("NonIndexed", "TerminatingOrFailed")
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    names = {"batch.kubernetes.io/job-name": "x", "job-name": "x"}
    expected = {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid, **names}
    assert spec["template"]["metadata"]["labels"] == made["metadata"]["labels"] == expected
    assert spec["template"]["spec"]["schedulerName"] == "default-scheduler"
    refused(await server.post("jobs", {"metadata": {"name": "y"}}), 422, "Invalid", "spec.template.spec.containers")


def _with_child(body: Obj, **pod_spec: Any) -> Obj:
    child = json.loads(json.dumps(body["spec"]["replicatedJobs"][0]))
    child["template"]["spec"]["template"]["spec"].update(pod_spec)
    return {"spec": {"replicatedJobs": [child]}}


JOBSET_CHANGES = [
    pytest.param({"nodeSelector": {"a": "1"}}, True, id="node-selector"),
    pytest.param({"tolerations": [{"key": "a", "operator": "Exists"}]}, True, id="tolerations"),
    pytest.param({"schedulingGates": [{"name": OURS}]}, True, id="gates"),
    pytest.param({"affinity": NODE_AFFINITY}, False, id="affinity"),
    pytest.param({"containers": [{"name": "main", "image": "example.dev/main:2"}]}, False, id="image"),
]


@pytest.mark.parametrize(("change", "allowed"), JOBSET_CHANGES)
async def test_template_of_a_suspended_jobset(server: Server, change: Obj, allowed: bool) -> None:
    made = await server.post("jobsets", jobset("x"))
    assert made.status == 201, made.body
    answer = await server.patch("jobsets/x", _with_child(made.body, **change))
    if allowed:
        assert answer.status == 200, answer.body
    else:
        refused(answer, 422, "Invalid", "spec.replicatedJobs: Invalid value", "field is immutable")


async def test_template_of_a_running_jobset(server: Server) -> None:
    made = await server.post("jobsets", jobset("x"))
    start = _with_child(made.body, nodeSelector={"a": "1"})
    running = await server.patch("jobsets/x", {"spec": {**start["spec"], "suspend": False}})
    assert running.status == 200, running.body
    change = _with_child(running.body, nodeSelector={"a": "2"})
    refused(await server.patch("jobsets/x", change), 422, "Invalid", "spec.replicatedJobs", "field is immutable")
    stop = await server.patch("jobsets/x", {"spec": {**change["spec"], "suspend": True}})
    assert stop.status == 200, stop.body


# ---- selectors and pages


async def _labelled(server: Server) -> None:
    for name, labels in (("a", {"tier": "web", "x": "1"}), ("b", {"tier": "db"}), ("c", {"x": "2"})):
        await server.post("pods", {**pod(name), "metadata": {"name": name, "labels": labels}})


SELECTORS = [
    pytest.param("labelSelector=tier=web", ["a"], id="equal"),
    pytest.param("labelSelector=tier!=web", ["b", "c"], id="unequal"),
    pytest.param("labelSelector=tier in (web,db)", ["a", "b"], id="in"),
    pytest.param("labelSelector=tier notin (web)", ["b", "c"], id="notin"),
    pytest.param("labelSelector=tier", ["a", "b"], id="exists"),
    pytest.param("labelSelector=!tier", ["c"], id="absent"),
    pytest.param("labelSelector=tier,x=1", ["a"], id="both"),
    pytest.param("fieldSelector=metadata.name=b", ["b"], id="name"),
    pytest.param("fieldSelector=metadata.name!=b", ["a", "c"], id="not-name"),
    pytest.param("fieldSelector=spec.nodeName=", ["a", "b", "c"], id="no-node"),
    pytest.param("fieldSelector=status.phase=Running", [], id="phase"),
]


@pytest.mark.parametrize(("query", "names"), SELECTORS)
async def test_selectors(server: Server, query: str, names: list[str]) -> None:
    await _labelled(server)
    answer = await server.get(f"pods?{query.replace(' ', '%20')}")
    assert answer.body["kind"] == "PodList"
    assert [item["metadata"]["name"] for item in answer.body["items"]] == names
    assert all("kind" not in item for item in answer.body["items"])


async def test_a_field_that_nobody_selects_by(server: Server) -> None:
    refused(await server.get("pods?fieldSelector=spec.color=red"), 400, "BadRequest", "field label not supported")


async def test_pages_show_one_moment(server: Server) -> None:
    for number in range(5):
        await server.post("pods", pod(f"p{number}"))
    first = await server.get("pods?limit=2")
    assert first.body["metadata"]["remainingItemCount"] == 3
    await server.delete("pods/p3")
    await server.post("pods", pod("p2a"))
    seen, token = [item["metadata"]["name"] for item in first.body["items"]], first.body["metadata"]["continue"]
    while token:
        page = await server.get(f"pods?limit=2&continue={token}")
        assert page.version == first.version
        seen += [item["metadata"]["name"] for item in page.body["items"]]
        token = page.body["metadata"].get("continue")
    assert seen == ["p0", "p1", "p2", "p3", "p4"]


# ---- watches


async def test_a_watch_from_a_version_shows_what_follows(server: Server) -> None:
    made = await server.post("pods", pod("x", OURS))
    version = (await server.get("pods")).version
    await server.patch("pods/x", {"metadata": {"labels": {"a": "1"}}})
    async with server.watch(f"pods?watch=1&resourceVersion={version}") as event:
        changed = await event()
        assert (changed["type"], changed["object"]["metadata"]["labels"]) == ("MODIFIED", {"a": "1"})
        await server.post("pods", pod("y"))
        assert (await event())["type"] == "ADDED"
        await server.delete("pods/x")
        ending, gone = await event(), await event()
        assert (ending["type"], ending["object"]["metadata"]["deletionGracePeriodSeconds"]) == ("MODIFIED", 0)
        assert (gone["type"], gone["object"]["metadata"]["name"]) == ("DELETED", "x")
        assert int(gone["object"]["metadata"]["resourceVersion"]) > int(made.version)
        assert gone["object"]["kind"] == "Pod"


async def test_a_filtered_watch_sees_objects_come_and_go(server: Server) -> None:
    version = (await server.get("pods")).version
    await server.post("pods", pod("x", OURS))
    async with server.watch(f"pods?watch=1&labelSelector=on&resourceVersion={version}") as event:
        for change, expected in (({"on": "1"}, "ADDED"), ({"on": "2"}, "MODIFIED"), ({"on": None}, "DELETED")):
            await server.patch("pods/x", {"metadata": {"labels": change}})
            assert (await event())["type"] == expected


async def test_a_watch_list_ends_its_first_part_with_a_bookmark(server: Server) -> None:
    await server.post("pods", pod("x"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with server.watch(f"pods?{query}") as event:
        assert (await event())["type"] == "ADDED"
        mark = await event()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await server.post("pods", pod("y"))
        assert (await event())["object"]["metadata"]["name"] == "y"


async def test_a_watch_from_too_long_ago_ends_with_410(server: Server) -> None:
    """Version 1 is before any history that a server keeps of pods, once one of them has been forgotten."""
    async with server.session.get(server.path("pods?watch=1&resourceVersion=1&timeoutSeconds=1")) as response:
        lines = [json.loads(line) async for line in response.content]
    for line in lines:
        assert line["type"] in ("ADDED", "MODIFIED", "DELETED", "ERROR")
        if line["type"] == "ERROR":
            assert (line["object"]["code"], line["object"]["reason"]) == (410, "Expired")


async def test_a_watch_ends_in_time(server: Server) -> None:
    async with server.session.get(server.path("pods?watch=1&timeoutSeconds=1")) as response:
        assert await asyncio.wait_for(response.read(), 60) == b""


# ---- deletion, finalizers, owners


async def test_finalizers_hold_an_object(widgets: Server) -> None:
    held = widget("x")
    held["metadata"]["finalizers"] = ["stowage.dev/hold"]
    await widgets.post("widgets", held)
    ending = await widgets.delete("widgets/x")
    assert ending.body["metadata"]["deletionTimestamp"]
    assert ending.body["metadata"]["generation"] == 2
    more = await widgets.patch("widgets/x", {"metadata": {"finalizers": ["stowage.dev/hold", "stowage.dev/new"]}})
    refused(more, 422, "Invalid", "metadata.finalizers: Forbidden: no new finalizers can be added")
    assert (await widgets.patch("widgets/x", {"metadata": {"finalizers": None}})).status == 200
    assert (await widgets.get("widgets/x")).status == 404


async def test_preconditions_of_a_deletion(server: Server) -> None:
    await server.post("configmaps", config_map("x"))
    wrong = await server.delete("configmaps/x", {"preconditions": {"uid": "another"}})
    refused(wrong, 409, "Conflict", "the UID in the precondition (another) does not match the UID in record")
    done = await server.delete("configmaps/x")
    assert (done.body["kind"], done.body["status"]) == ("Status", "Success")
    assert done.body["details"]["name"] == "x"


async def _family(server: Server) -> None:
    owner = await server.post("configmaps", config_map("owner"))
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.body["metadata"]["uid"]}
    await server.post("configmaps", config_map("child", ownerReferences=[{**ref, "blockOwnerDeletion": True}]))


@pytest.mark.parametrize(
    ("policy", "child"),
    [("Background", False), ("Foreground", False), ("Orphan", True)],
    ids=["background", "foreground", "orphan"],
)
async def test_dependents_follow_their_owner(server: Server, policy: str, child: bool) -> None:
    await _family(server)
    await server.delete("configmaps/owner", {"propagationPolicy": policy})

    async def settled() -> bool:
        left = await server.get("configmaps/child")
        owner = await server.get("configmaps/owner")
        if not child:
            return left.status == owner.status == 404
        return owner.status == 404 and "ownerReferences" not in left.body["metadata"]

    await server.eventually("the collector is done", settled)


async def test_a_job_leaves_its_pods_unless_told(server: Server) -> None:
    answer = await server.post("jobs", job("x"))
    ref = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": answer.body["metadata"]["uid"]}
    await server.post("configmaps", config_map("child", ownerReferences=[ref]))
    ending = await server.delete("jobs/x")
    assert ending.body["metadata"]["finalizers"] == ["orphan"]

    async def orphaned() -> bool:
        return "ownerReferences" not in (await server.get("configmaps/child")).body["metadata"]

    await server.eventually("the child is an orphan", orphaned)


async def test_a_collection_is_deleted_by_selector(server: Server) -> None:
    await _labelled(server)
    assert (await server.delete("pods?labelSelector=x")).status == 200
    assert [item["metadata"]["name"] for item in (await server.get("pods")).body["items"]] == ["b"]


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
