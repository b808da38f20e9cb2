"""The Workload of a pod or a group: which labels it takes over."""

from __future__ import annotations

import msgspec
import pytest

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.workload import composed as of_job
from admission.controllers.options import job_options
from admission.controllers.pods.compose import composed
from admission.controllers.report.wait_reasons import of_rollout
from admission.integrations.job import BatchJob
from admission.integrations.pods.pod import QueuedPodReader
from admission.integrations.pods.podgroup import PodUnit, UnlikePods
from admission.settings import AdmissionSettings
from api import names
from tests.admission.integrations.pods import wire

KEYS = ("team", "cost-center")
COPYING = JobContext(options=JobOptions(label_keys_to_copy=KEYS))


def unit_of(*pods: dict[str, object]) -> PodUnit:
    reader = QueuedPodReader(KEYS)
    return PodUnit.of(reader(msgspec.json.encode(pod)) for pod in pods)


def member(name: str, **labels: str) -> dict[str, object]:
    return wire(name, group="g", total=2, labels=labels)


def test_a_pods_labels_of_the_setting_go_to_its_workload() -> None:
    unit = unit_of(wire("p", labels={"team": "a", "other": "x"}))
    assert composed(unit, unit.pods, COPYING).metadata.labels == {"team": "a", names.JOB_UID_LABEL: "uid-p"}
    assert composed(unit, unit.pods, JobContext()).metadata.labels == {names.JOB_UID_LABEL: "uid-p"}


@pytest.mark.parametrize(("parent", "told"), [("deployment", True), ("statefulset", False), (None, False)])
def test_a_pod_of_a_deployment_that_waits_for_quota_is_told_how_a_rollout_goes_on(
    parent: str | None, told: bool
) -> None:
    unit = unit_of(wire("p", annotations={names.POD_SUSPENDING_PARENT: parent} if parent else {}))
    workload = composed(unit, unit.pods, JobContext())
    assert ("with maxSurge 0" in of_rollout(workload, "WaitingForQuota")) is told
    assert of_rollout(workload, "Misconfigured") == ""


def test_a_groups_workload_has_the_labels_of_all_its_pods() -> None:
    unit = unit_of(member("p", team="a"), member("q", **{"team": "a", "cost-center": "7"}))
    assert composed(unit, unit.pods, COPYING).metadata.labels == {"team": "a", "cost-center": "7"}


def test_pods_of_a_group_with_different_labels_are_reported() -> None:
    unit = unit_of(member("p", team="a"), member("q", team="b"))
    with pytest.raises(UnlikePods, match=r"metadata.labels\[team\]: 'a, and b in pod q'"):
        composed(unit, unit.pods, COPYING)


def test_a_jobs_labels_of_the_setting_go_to_its_workload() -> None:
    job = {
        "metadata": {"name": "j", "namespace": "ns", "uid": "u", "labels": {"team": "a", "other": "x"}},
        "spec": {"parallelism": 1, "template": {"spec": {"containers": [{"name": "c"}]}}},
    }
    made = of_job(job, BatchJob(), COPYING)
    assert made.metadata.labels == {"team": "a", names.JOB_UID_LABEL: "u"}


def test_the_setting_has_the_fields_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWAGE_INTEGRATIONS__LABEL_KEYS_TO_COPY", '["team"]')
    assert job_options(AdmissionSettings(), {}).label_keys_to_copy == ("team",)
