"""Pods of gangs at the webhook: one form is written down, and pods of one gang have the same terms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admission.integrations.pods.gang import PodGang, from_text
from admission.webhook.kinds import pod
from admission.webhook.rules import gangs
from admission.webhook.rules.gang_pods import gang_keys, read_member
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api import names

NAMED = {names.GANG_NAME: "g", names.GANG_MINIMUM: "2"}


def a_pod(labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    metadata = {"name": "p", "labels": dict(NAMED if labels is None else labels), **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}], **more}}


def completed(obj: dict[str, Any], lookups: Lookups | None = None) -> dict[str, Any]:
    pod.set_defaults(obj, "ns", lookups or Lookups(), ReviewRules())
    return obj


def test_a_gang_of_no_queue_is_held_and_gets_the_one_that_counts_nothing() -> None:
    made = completed(a_pod())
    assert from_text(made["metadata"]["annotations"][names.GANG_TERMS]) == PodGang("g", 2)
    assert made["metadata"]["labels"][names.QUEUE_NAME_LABEL] == names.GANG_QUEUE
    assert {"name": names.ADMISSION_GATE} in made["spec"]["schedulingGates"]
    assert names.MANAGED_FINALIZER in made["metadata"]["finalizers"]


def test_the_namespaces_elastic_quota_is_the_queue_of_a_gang_that_names_none() -> None:
    made = completed(a_pod(), Lookups(elastic_quotas=lambda _: [("scheduling.x-k8s.io", "q")]))
    assert made["metadata"]["labels"][names.QUEUE_NAME_LABEL] == names.ELASTIC_QUOTA


def test_a_gang_keeps_the_queue_that_it_names() -> None:
    made = completed(a_pod({**NAMED, names.QUEUE_NAME_LABEL: "mine"}))
    assert made["metadata"]["labels"][names.QUEUE_NAME_LABEL] == "mine"


def test_a_pod_of_an_unqueued_job_is_in_its_gang() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    assert "schedulingGates" in completed(a_pod(metadata={"ownerReferences": [owner]}))["spec"]
    queued = a_pod({**NAMED, names.PODSET_LABEL: "main"}, metadata={"ownerReferences": [owner]})
    assert "schedulingGates" not in completed(queued)["spec"], "the job is admitted as a whole"


def test_what_a_user_writes_in_the_place_of_the_one_form_goes() -> None:
    forged = {names.GANG: "x", names.GANG_TERMS: PodGang("x", 1).to_text()}
    made = completed(a_pod({names.QUEUE_NAME_LABEL: "q"}, metadata={"annotations": dict(forged)}))
    assert not forged.keys() & made["metadata"]["annotations"].keys()


def stored(**more: Any) -> Lookups:
    """The gang has a pod already."""
    made = completed(a_pod(**more))

    member = read_member(
        json.dumps({**made, "metadata": {**made["metadata"], "name": "first", "namespace": "ns"}}).encode()
    )
    assert list(gang_keys(member)) == ["ns/g"]
    return Lookups(gang_pods=lambda key: [member] if key == "ns/g" else [])


@pytest.mark.parametrize(
    ("obj", "value", "text"),
    [
        pytest.param(
            a_pod({**NAMED, names.GANG_MINIMUM: "3"}), {}, f"metadata.labels[{names.GANG_MINIMUM}]", id="minimum"
        ),
        pytest.param(a_pod(priority=5), {"priority": 4}, "spec.priority", id="priority"),
        pytest.param(a_pod(priorityClassName="high"), {"priorityClassName": "low"}, "priorityClassName", id="class"),
        pytest.param(a_pod({**NAMED, names.SIGS_MATCH_POLICY: "only-waiting"}), {}, "policy", id="policy"),
    ],
)
def test_a_pod_that_contradicts_its_gang_is_refused_with_the_name_of_another(
    obj: dict[str, Any], value: dict[str, Any], text: str
) -> None:
    (error,) = gangs.validate_create(obj, "ns", stored(**value))
    assert text in error.field
    assert "must be as in pod first of gang g" in error.message


def test_a_pod_that_names_no_other_gangs_is_told_in_the_words_of_a_manifest_which_ones_its_gang_names() -> None:
    """The groups are an annotation in every dialect."""
    others = {"annotations": {names.SIGS_GANG_GROUPS: '["ns/g","ns/h"]'}}
    (error,) = gangs.validate_create(a_pod(), "ns", stored(metadata=others))
    assert error.message == (
        f'metadata.annotations[{names.SIGS_GANG_GROUPS}]: Invalid value: "not set": '
        'must be as in pod first of gang g: ["ns/g","ns/h"]'
    )


def test_pods_that_agree_and_gangs_of_other_names_are_let_in() -> None:
    assert gangs.validate_create(a_pod(), "ns", stored()) == []
    assert (
        gangs.validate_create(a_pod({**NAMED, names.GANG_NAME: "other", names.GANG_MINIMUM: "9"}), "ns", stored()) == []
    )


def test_an_ended_pod_constrains_no_other() -> None:
    made = {**completed(a_pod()), "status": {"phase": "Failed"}}

    member = read_member(json.dumps(made).encode())
    lookups = Lookups(gang_pods=lambda _: [member])
    assert gangs.validate_create(a_pod({**NAMED, names.GANG_MINIMUM: "3"}), "ns", lookups) == []


def test_what_was_written_down_stays() -> None:
    old, new = completed(a_pod()), completed(a_pod())
    new["metadata"]["annotations"][names.GANG_TERMS] = PodGang("g", 1).to_text()
    (error,) = pod.validate_update(old, new, ReviewRules())
    assert error.field == f"metadata.annotations[{names.GANG_TERMS}]"
    assert pod.validate_update(old, completed(a_pod()), ReviewRules()) == []


@pytest.mark.parametrize(
    ("part", "message", "changed", "value"),
    [
        pytest.param("labels", {}, {names.GANG_MINIMUM: "3"}, "3", id="minimum"),
        pytest.param("labels", {}, {names.GANG_NAME: "other"}, "other", id="name"),
        pytest.param("labels", {}, {names.GANG_NAME: None}, "", id="no name"),
        pytest.param("labels", {}, {names.GANG_MINIMUM: None}, "", id="no minimum"),
        pytest.param("labels", {}, {names.SIGS_MATCH_POLICY: "only-waiting"}, "only-waiting", id="policy"),
        pytest.param("labels", {names.GANG_LABEL: "g"}, {names.GANG_LABEL: None}, "", id="PodGroup"),
        pytest.param("labels", {names.SIGS_GANG: "g"}, {names.SIGS_GANG: None}, "", id="PodGroup of sigs"),
        pytest.param("labels", {names.SIGS_GANG_NAME: "g"}, {names.SIGS_GANG_NAME: "h"}, "h", id="older label"),
        pytest.param("labels", {names.SAKKARA_GROUP_NAME: "g"}, {names.SAKKARA_GROUP_NAME: None}, "", id="Sakkara"),
        pytest.param(
            "annotations", {names.KOORDINATOR_NAME: "g"}, {names.KOORDINATOR_NAME: None}, "", id="Koordinator"
        ),
    ],
)
def test_a_pod_that_changes_its_gang_gets_an_error_with_its_own_field(
    part: str, message: dict[str, str], changed: dict[str, str | None], value: str
) -> None:
    """In each dialect, also where a name is removed; no annotation of ours is named."""
    pod_of_gang = (
        a_pod() if not message else {**a_pod(), "metadata": {**a_pod()["metadata"], "labels": {}, part: message}}
    )
    old = completed(pod_of_gang)
    merged = {key: text for key, text in {**old["metadata"][part], **changed}.items() if text is not None}
    new = {**old, "metadata": {**old["metadata"], part: merged}}
    (error,) = pod.validate_update(old, new, ReviewRules())
    (key,) = changed
    assert (error.field, error.bad_value) == (f"metadata.{part}[{key}]", value)
    assert error.detail == "field is immutable"


@pytest.mark.parametrize(
    ("metadata", "field", "text"),
    [
        pytest.param(
            {"annotations": {names.SIGS_GANG_GROUPS: "a,b"}}, names.SIGS_GANG_GROUPS, "JSON list", id="groups"
        ),
        pytest.param(
            {"labels": {names.SIGS_MATCH_POLICY: "never"}}, names.SIGS_MATCH_POLICY, "once-satisfied", id="policy"
        ),
    ],
)
def test_a_malformed_pod_group_is_refused(metadata: dict[str, Any], field: str, text: str) -> None:
    (error,) = gangs.validate_pod_group({"metadata": {"name": "g", **metadata}}, "ns")
    assert field in error.field
    assert text in error.message


def test_a_pod_group_may_say_groups_and_policy() -> None:
    said = {names.SIGS_GANG_GROUPS: '["ns/g","other/h"]', names.SIGS_MATCH_POLICY: "only-waiting"}
    assert gangs.validate_pod_group({"metadata": {"name": "g", "annotations": said}}, "ns") == []
