"""Pods, Jobs and ConfigMaps of Sakkara groups at the webhook: held, sent to the stock scheduler, equal among themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admission.integrations.pods.gang import PodGang, from_text
from admission.webhook.kinds import pod
from admission.webhook.kinds.job import JOB
from admission.webhook.rules import gangs
from admission.webhook.rules.defaults import set_defaults
from admission.webhook.rules.gang_pods import GangPod, read_member
from admission.webhook.rules.jobs import validate_create
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api import names
from api.queues import LocalQueue

NAMED = {names.SAKKARA_GROUP_NAME: "g"}
GPU = "nvidia.com/gpu"


def a_pod(cpus: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": spec.pop("image", "a"), "ports": spec.pop("ports", [])}
    container["resources"] = {"requests": {"cpu": cpus, GPU: "1"}}
    spec = {"schedulerName": "sakkara-scheduler", "containers": [container], **spec}
    return {"metadata": {"name": "p", "namespace": "ns", "labels": {**NAMED, **(labels or {})}}, "spec": spec}


def completed(obj: dict[str, Any], lookups: Lookups | None = None) -> dict[str, Any]:
    pod.set_defaults(obj, "ns", lookups or Lookups(), ReviewRules())
    return obj


def member(obj: dict[str, Any]) -> GangPod:
    named = {**obj["metadata"], "name": "first"}
    return read_member(json.dumps({**obj, "metadata": named}).encode())


def test_a_member_is_held_and_goes_to_the_stock_scheduler_by_the_queue_of_groups() -> None:
    made = completed(a_pod())
    assert from_text(made["metadata"]["annotations"][names.GANG_TERMS]) == PodGang("g", sakkara=True)
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["metadata"]["labels"][names.QUEUE_NAME_LABEL] == names.SAKKARA_QUEUE
    assert {"name": names.ADMISSION_GATE} in made["spec"]["schedulingGates"]


@pytest.mark.parametrize(
    ("lookups", "labels", "queue"),
    [
        pytest.param(Lookups(), {names.QUEUE_NAME_LABEL: "mine"}, "mine", id="its-own"),
        pytest.param(
            Lookups(elastic_quotas=lambda _: [("scheduling.x-k8s.io", "q")]), {}, names.ELASTIC_QUOTA, id="elastic"
        ),
    ],
)
def test_a_queue_goes_before_it(lookups: Lookups, labels: dict[str, str], queue: str) -> None:
    assert completed(a_pod(labels=labels), lookups)["metadata"]["labels"][names.QUEUE_NAME_LABEL] == queue


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(a_pod(image="b"), id="image"),
        pytest.param(a_pod(ports=[{"containerPort": 22}]), id="ports"),
        pytest.param(
            a_pod(
                containers=[
                    {"name": "main", "resources": {"requests": {"cpu": "500m", GPU: "1"}}},
                    {"name": "side", "resources": {"requests": {"cpu": "500m"}}},
                ]
            ),
            id="shared-over-containers",
        ),
    ],
)
def test_members_may_differ_in_what_placement_does_not_ask(obj: dict[str, Any]) -> None:
    first, obj = completed(a_pod()), completed(obj)
    lookups = Lookups(gang_pods=lambda _: [member(first)])
    assert gangs.validate_create(obj, "ns", lookups) == []
    role = names.ROLE_HASH
    assert obj["metadata"]["annotations"][role] == first["metadata"]["annotations"][role]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        pytest.param(
            a_pod("2"),
            'spec.containers: Invalid value: "cpu 2, nvidia.com/gpu 1": '
            "must ask for the same resources as pod first of gang g: cpu 1, nvidia.com/gpu 1",
            id="resources",
        ),
        pytest.param(
            a_pod(nodeSelector={"rack": "a"}),
            "spec: Invalid value: must have the node selector, affinity, tolerations and priority of pod first of gang g",
            id="demands",
        ),
    ],
)
def test_one_that_differs_is_refused_with_the_name_of_another(obj: dict[str, Any], message: str) -> None:
    lookups = Lookups(gang_pods=lambda _: [member(completed(a_pod()))])
    assert [error.message for error in gangs.validate_create(completed(obj), "ns", lookups)] == [message]


# ---- Jobs


def a_job(labels: dict[str, str] | None = None) -> dict[str, Any]:
    template = {"metadata": {"labels": dict(NAMED)}, "spec": a_pod()["spec"]}
    return {"metadata": {"name": "j", "labels": labels or {}}, "spec": {"parallelism": 1, "template": template}}


def test_a_job_of_no_queue_is_left_to_its_pods_also_where_others_get_one() -> None:
    job = a_job()
    queue = LocalQueue.from_wire({"metadata": {"name": "default", "namespace": "ns"}})
    set_defaults(job, "ns", JOB, Lookups(local_queues={"ns/default": queue}), ReviewRules())
    assert job == a_job()


def test_a_job_that_names_a_queue_itself_is_refused() -> None:
    job = a_job({names.QUEUE_NAME_LABEL: "q"})
    del job["spec"]["template"]["spec"]["schedulerName"]
    (error,) = validate_create(job, JOB, ReviewRules())
    assert error.message == (
        "spec.template.metadata.labels[sakkara.group.name]: Forbidden: "
        "a group is admitted by its pods: the queue's name belongs on their template, not on the job"
    )


@pytest.mark.parametrize(
    ("named", "own", "left"),
    [
        pytest.param(NAMED, None, "", id="of-a-Sakkara-group"),
        pytest.param({names.GANG_NAME: "g", names.GANG_MINIMUM: "1"}, None, "", id="of-a-gang"),
        pytest.param({"app": "a"}, None, "q", id="of-no-gang"),
        pytest.param({names.GANG_NAME: "g", names.GANG_MINIMUM: "1"}, {names.QUEUE_NAME_LABEL: "q"}, "q", id="its-own"),
    ],
)
def test_the_queue_of_a_gang_in_the_template_is_not_the_jobs_though_the_api_server_copies_labels(
    named: dict[str, str], own: dict[str, str] | None, left: str
) -> None:
    """The API server gives a Job without labels those of its template."""
    labels = {**named, names.QUEUE_NAME_LABEL: "q"}
    job = a_job(dict(labels if own is None else own))
    job["spec"]["template"]["metadata"]["labels"] = labels
    set_defaults(job, "ns", JOB, Lookups(), ReviewRules())
    assert job["metadata"]["labels"][names.QUEUE_NAME_LABEL] == left
    assert job["spec"].get("suspend", False) is bool(left), "who is queued as a whole is suspended"
    assert validate_create(job, JOB, ReviewRules()) == []


# ---- ConfigMaps


def a_map(label: str = names.SAKKARA_GROUP, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": "g", "labels": {label: ""}}, "data": data}


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        pytest.param(None, a_map(size="2"), False, id="good"),
        pytest.param(None, a_map(size="x"), True, id="bad"),
        pytest.param(None, a_map("somebody.else", size="x"), False, id="not-ours"),
        pytest.param(a_map(size="2"), a_map(size="0"), True, id="made-bad"),
        pytest.param(a_map(size="x"), a_map(size="x", status="Failed"), False, id="result-into-a-bad-one"),
        pytest.param(a_map("somebody.else", size="x"), a_map(size="x"), True, id="becomes-ours"),
    ],
)
def test_what_a_user_gives_is_judged_and_what_is_handed_back_is_not(
    old: dict[str, Any] | None, new: dict[str, Any], refused: bool
) -> None:
    assert bool(gangs.validate_sakkara_group(new, old)) is refused
