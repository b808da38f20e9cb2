"""What decides about quota at the webhook: elastic quotas, schedulers, identity, reserved queues, and that who was queued
stays queued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from admission.settings import AdmissionSettings
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules, webhook_rules
from api import names
from api.queues import LocalQueue
from tests.admission.webhook.kinds.test_pod import GATES, a_deployment, a_pod, made
from tests.admission.webhook.objects import job, jobset
from tests.admission.webhook.server.test_review import answer, body

Obj = dict[str, Any]
QUEUE = names.QUEUE_NAME_LABEL
POD, JOB, JOBSET = "core-v1-pod", "batch-v1-job", "jobset-x-k8s-io-v1alpha2-jobset"
DEPLOYMENT, STATEFUL_SET = "apps-v1-deployment", "apps-v1-statefulset"
WORKER_SET = "leaderworkerset-x-k8s-io-v1-leaderworkerset"
GANG = {names.GANG_NAME: "g", names.GANG_MINIMUM: "2"}


def local(name: str, **labels: str) -> dict[str, LocalQueue]:
    meta = {"name": name, "namespace": "ns", "labels": {key.replace("__", "/"): value for key, value in labels.items()}}
    return {f"ns/{name}": LocalQueue.from_wire({"metadata": meta, "spec": {"clusterQueue": "cq"}})}


FREE = Lookups()
QUOTA = Lookups(elastic_quotas=lambda _: [("scheduling.x-k8s.io", "quota")])
DEFAULT = Lookups(local_queues=local("default"))
OPTED_IN = Lookups(namespace_labels=lambda _: {names.MANAGED_NAMESPACE: "true"})
ALL_WAIT = ReviewRules(manage_jobs_without_queue_name=True)


def errors(
    path: str, obj: Obj, lookups: Lookups = FREE, old: Obj | None = None, rules: ReviewRules | None = None
) -> str:
    """What the webhook says of it, empty where it lets it in; new pods and Jobs are completed first."""
    verb = "mutate" if path in (POD, JOB) and old is None else "validate"
    response = answer(f"/{verb}-{path}", body(obj, "UPDATE" if old else "CREATE", old), lookups, rules)
    return "" if response["allowed"] else str(response["status"]["message"])


# ---- elastic quotas


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod({}), id="bare"),
        pytest.param(a_pod({}, owner="apps/v1/ReplicaSet"), id="of-a-Deployment"),
        pytest.param(a_pod({}, owner="apps/v1/StatefulSet"), id="of-a-StatefulSet"),
        pytest.param(a_pod({}, owner="apps/v1/DaemonSet"), id="of-a-DaemonSet"),
        pytest.param(a_pod({}, schedulerName="capacityscheduler"), id="of-the-capacity-scheduler"),
        pytest.param(a_pod(GANG), id="of-a-gang"),
        pytest.param(a_pod({names.SAKKARA_GROUP_NAME: "g"}, schedulerName="sakkara"), id="of-a-Sakkara-group"),
    ],
)
@pytest.mark.parametrize(
    ("lookups", "queue"),
    [pytest.param(QUOTA, "elastic-quota", id="quota"), pytest.param(DEFAULT, "default", id="default")],
)
def test_every_pod_without_a_queue_goes_by_its_namespaces_own(pod: Obj, lookups: Lookups, queue: str) -> None:
    found = made(f"/mutate-{POD}", pod, lookups)
    assert found["metadata"]["labels"][QUEUE] == queue
    assert found["spec"]["schedulingGates"] == GATES
    assert found["spec"].get("schedulerName", "default-scheduler") == "default-scheduler"


@pytest.mark.parametrize("bound", [{}, {"nodeName": "n"}], ids=["new", "bound"])
def test_a_pod_of_the_capacity_scheduler_stays_as_it_is_where_the_namespace_opted_out(bound: Obj) -> None:
    known = replace(DEFAULT, namespace_labels=lambda _: {names.MANAGED_NAMESPACE: "false"})
    pod = a_pod({}, schedulerName="capacityscheduler", **bound)
    assert made(f"/mutate-{POD}", pod, known) == pod
    assert errors(POD, pod, known) == ""


def test_a_deployments_pod_of_an_elastic_quota_ends_as_soon_as_it_is_deleted() -> None:
    """Its ReplicaSet makes another one: nobody need keep it."""
    found = made(f"/mutate-{POD}", a_pod({}, owner="apps/v1/ReplicaSet"), QUOTA)
    assert "finalizers" not in found["metadata"]


def test_a_pod_that_is_bound_already_does_not_get_past_a_quota() -> None:
    assert errors(POD, a_pod({}, nodeName="n"), QUOTA).startswith("spec.nodeName: Forbidden")
    assert errors(POD, a_pod({}, nodeName="n"), FREE) == ""


# ---- schedulers


def with_scheduler(kind: str, name: str) -> Obj:
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": name}
    labels = {QUEUE: "team"}
    if kind == POD:
        return a_pod(schedulerName=name)
    if kind == JOB:
        return job(template={}) | {"spec": {"parallelism": 1, "template": {"metadata": {}, "spec": spec}}}
    if kind == JOBSET:
        found = jobset({}, w=(1, 1, {}))
        found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] = spec
        return found
    if kind == WORKER_SET:
        given = {"size": 2, "leaderTemplate": {"spec": dict(spec)}, "workerTemplate": {"spec": spec}}
        return {"metadata": {"name": "s", "labels": labels}, "spec": {"leaderWorkerTemplate": given}}
    return {"metadata": {"name": "s", "labels": labels}, "spec": {"template": {"metadata": {}, "spec": spec}}}


KINDS = {
    POD: "spec",
    JOB: "spec.template.spec",
    JOBSET: "spec.replicatedJobs[0].template.spec.template.spec",
    DEPLOYMENT: "spec.template.spec",
    STATEFUL_SET: "spec.template.spec",
    WORKER_SET: "spec.leaderWorkerTemplate.leaderTemplate.spec",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["capacityscheduler", "sakkara", "ours"])
def test_schedulers_of_the_documents_and_of_the_setting_are_taken_over(kind: str, name: str) -> None:
    rules = ReviewRules(taken_over_schedulers=ReviewRules().taken_over_schedulers | {"ours"})
    response = answer(f"/mutate-{kind}", body(with_scheduler(kind, name)), None, rules)
    assert response["allowed"], response
    found = made(f"/mutate-{kind}", with_scheduler(kind, name)) if name != "ours" else None
    assert found is None or (name not in str(found) and "default-scheduler" in str(found))


@pytest.mark.parametrize(("kind", "at"), KINDS.items(), ids=KINDS)
def test_any_other_scheduler_is_refused_with_the_field(kind: str, at: str) -> None:
    text = errors(kind, with_scheduler(kind, "volcano"))
    assert f'{at}.schedulerName: Unsupported value: "volcano": supported values: "capacityscheduler", "default' in text
    assert (
        errors(kind, with_scheduler(kind, "volcano"), rules=ReviewRules(kept_schedulers=frozenset({"volcano"}))) == ""
    )


def test_what_names_no_queue_may_name_any_scheduler() -> None:
    assert errors(POD, a_pod({}, schedulerName="volcano")) == ""
    assert "schedulerName" in errors(POD, a_pod({}, schedulerName="volcano"), QUOTA)
    assert "schedulerName" in errors(POD, a_pod(GANG, schedulerName="volcano"))


@pytest.mark.parametrize("queued", [True, False], ids=["was-queued", "names-its-queue-now"])
def test_a_job_that_was_queued_may_change_whatever_scheduler_it_has(queued: bool) -> None:
    old, new = with_scheduler(JOB, "volcano"), with_scheduler(JOB, "volcano")
    new["spec"]["suspend"] = old["spec"]["suspend"] = True
    if not queued:
        old["metadata"]["labels"] = {}
    assert ("schedulerName" in errors(JOB, new, old=old)) is not queued


def test_settings_name_schedulers() -> None:
    rules = webhook_rules(AdmissionSettings(schedulers={"takenOver": ["a"], "kept": ["sakkara"]}))
    assert rules.taken_over_schedulers >= {"a", "capacityscheduler"}
    assert rules.kept_schedulers == frozenset({"sakkara"})
    assert "sakkara" not in rules.taken_over_schedulers
    with pytest.raises(ValueError, match="exclude each other"):
        AdmissionSettings(schedulers={"takenOver": ["a"], "kept": ["a"]})


# ---- reserved queues


@pytest.mark.parametrize("queue", ["gangs", "sakkara"])
@pytest.mark.parametrize(
    ("lookups", "rules"),
    [
        pytest.param(FREE, ReviewRules(), id="free"),
        pytest.param(QUOTA, ReviewRules(), id="quota"),
        pytest.param(DEFAULT, ReviewRules(), id="default"),
        pytest.param(OPTED_IN, ReviewRules(), id="managed"),
        pytest.param(FREE, ALL_WAIT, id="all-wait"),
    ],
)
def test_queues_of_gangs_are_reserved(queue: str, lookups: Lookups, rules: ReviewRules) -> None:
    named = {QUEUE: queue}
    said = f'metadata.labels[{QUEUE}]: Forbidden: "{queue}" is reserved for gangs that name no queue'
    for kind, obj in (
        (POD, a_pod(named)),
        (JOB, job(labels=named)),
        (JOBSET, jobset({}, w=(1, 1, {})) | {"metadata": {"name": "s", "labels": named}}),
        (DEPLOYMENT, a_deployment(queue)),
        (STATEFUL_SET, a_deployment(queue)),
    ):
        assert said in errors(kind, obj, lookups, rules=rules), kind
    free = lookups is FREE and not rules.manage_jobs_without_queue_name
    assert (said not in errors(POD, a_pod(named | GANG), lookups, rules=rules)) is free
    assert errors(POD, a_pod(GANG), lookups, rules=rules) == ""
    old = a_pod({QUEUE: "team", names.MANAGED_LABEL: "true"}, schedulingGates=GATES)
    new = a_pod(named | {names.MANAGED_LABEL: "true"}, schedulingGates=GATES)
    assert said in errors(POD, new, lookups, old, rules)
    assert said in errors(JOB, job(labels=named, suspend=True), lookups, job(suspend=True), rules)


def test_a_users_queue_of_that_name_is_a_queue() -> None:
    mine, ours = (
        Lookups(local_queues=local("gangs", **more)) for more in ({}, {"stowage.dev__made-from-labels": "true"})
    )
    assert errors(JOB, job(labels={QUEUE: "gangs"}), mine) == ""
    assert "reserved" in errors(JOB, job(labels={QUEUE: "gangs"}), ours)


def test_where_all_have_to_name_a_queue_a_gang_that_names_none_waits() -> None:
    response = answer(f"/mutate-{POD}", body(a_pod(GANG)), FREE, ALL_WAIT)
    assert response["allowed"]
    assert made(f"/mutate-{POD}", a_pod(GANG))["metadata"]["labels"][QUEUE] == "gangs"


# ---- identity

LABELS: Mapping[str, str] = {QUEUE: "team", names.MANAGED_LABEL: "true", names.GANG_MEMBER: "true"}
SAID: Mapping[str, str] = {names.ROLE_HASH: "11111111", names.GANG: "g", names.GANG_TERMS: "{}"}


@pytest.mark.parametrize("gates", [GATES, []], ids=["gated", "runs"])
@pytest.mark.parametrize("changed", ["2", None], ids=["changed", "removed"])
@pytest.mark.parametrize("key", [names.ROLE_HASH, names.GANG, names.GANG_TERMS, names.GANG_MEMBER, names.MANAGED_LABEL])
def test_who_a_pod_is_never_changes(key: str, changed: str | None, gates: list[Obj]) -> None:
    labels, said = dict(LABELS), dict(SAID)
    old = a_pod(dict(LABELS), dict(SAID), schedulingGates=gates)
    table = labels if key in labels else said
    if changed is None:
        del table[key]
    else:
        table[key] = changed
    text = errors(POD, a_pod(labels, said, schedulingGates=gates), old=old)
    assert f"[{key}]: Invalid value" in text
    assert "field is immutable" in text


@pytest.mark.parametrize(
    "key",
    [names.POD_SUSPENDING_PARENT, names.PREBUILT_WORKLOAD, names.WORKLOAD_ANNOTATION, names.GANG, names.GANG_TERMS],
    ids=lambda key: key,
)
def test_nothing_is_added_to_a_pods_identity(key: str) -> None:
    said = {names.ROLE_HASH: "11111111"}
    old, new = (a_pod(dict(LABELS), {**said, **more}, schedulingGates=GATES) for more in ({}, {key: "other"}))
    assert f"[{key}]: Invalid value" in errors(POD, new, old=old)


# ---- who was queued stays queued


@pytest.mark.parametrize(
    ("lookups", "rules", "stays"),
    [
        pytest.param(FREE, ReviewRules(), False, id="free-as-in-Kueue"),
        pytest.param(QUOTA, ReviewRules(), True, id="quota"),
        pytest.param(DEFAULT, ReviewRules(), True, id="default"),
        pytest.param(OPTED_IN, ReviewRules(), True, id="managed"),
        pytest.param(FREE, ALL_WAIT, True, id="all-wait"),
    ],
)
@pytest.mark.parametrize("kind", [JOB, JOBSET])
def test_a_job_that_was_queued_stays_queued(kind: str, lookups: Lookups, rules: ReviewRules, stays: bool) -> None:
    old: Obj = job(suspend=True) if kind == JOB else jobset({}, w=(1, 1, {}))
    old["spec"]["suspend"] = True
    new: Obj = {**old, "metadata": {**old["metadata"], "labels": {}}}
    assert bool(errors(kind, new, lookups, old, rules)) is stays
    started = {**new, "spec": {**new["spec"], "suspend": False}}
    assert f"metadata.labels[{QUEUE}]" in errors(kind, started, lookups, old, rules)


@pytest.mark.parametrize("lookups", [FREE, QUOTA], ids=["free", "quota"])
def test_a_held_pod_stays_queued_because_nothing_else_opens_it(lookups: Lookups) -> None:
    old = a_pod({QUEUE: "team", names.MANAGED_LABEL: "true"}, schedulingGates=GATES)
    for gates in (GATES, []):
        new = a_pod({names.MANAGED_LABEL: "true"}, schedulingGates=gates)
        assert f"metadata.labels[{QUEUE}]" in errors(POD, new, lookups, old)
