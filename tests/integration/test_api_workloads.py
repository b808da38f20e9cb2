"""The contract of both API servers about gated pods, Jobs and JobSets: what may change when (test_api_contract.py)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.contract import (
    JSON,
    MERGE,
    OURS,
    STRATEGIC,
    THEIRS,
    Obj,
    Server,
    job,
    jobset,
    pod,
    refused,
    template,
)

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
