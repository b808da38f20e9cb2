"""Which changes of a job are only its pods' progress, and which of a Workload cannot wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admission.controllers.jobs.predicates import has_ended, has_turned, is_progress, is_reclaim
from admission.integrations.job import BatchJob
from api.kube.informers.store import Change, ChangeType
from api.names import ADMITTED, EVICTED, QUOTA_RESERVED
from api.workloads import Workload
from tests.admission.integrations.samples import batch_job, merged

RUNNING = merged(
    batch_job(suspend=False), {"status": {"conditions": [], "active": 3, "startTime": "2026-01-01T00:00:00Z"}}
)
ENDED = [{"type": "Complete", "status": "True"}]


@pytest.mark.parametrize(
    ("patch", "progress"),
    [
        pytest.param({"status": {"ready": 3}}, True, id="pods are ready"),
        pytest.param({"status": {"active": 2, "succeeded": 1}}, True, id="a pod has ended"),
        pytest.param({"status": {"active": 0, "succeeded": 3}}, True, id="its last pod has ended"),
        pytest.param({"status": {"conditions": ENDED}}, False, id="the job has ended"),
        pytest.param({"spec": {"suspend": True}}, False, id="suspended"),
        pytest.param({"spec": {"parallelism": 2}}, False, id="resized"),
        pytest.param({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}}, False, id="another queue"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False, id="being deleted"),
        pytest.param({"metadata": {"uid": "u2"}}, False, id="another job of that name"),
    ],
)
def test_only_its_pods_coming_and_going_is_progress_of_a_job(patch: dict[str, Any], progress: bool) -> None:
    after = merged(json.loads(json.dumps(RUNNING)), patch)
    assert is_progress(Change(ChangeType.MODIFIED, "ns/j", after, RUNNING), BatchJob()) is progress
    assert not is_progress(Change(ChangeType.DELETED, "ns/j", after, RUNNING), BatchJob())
    assert not is_progress(Change(ChangeType.ADDED, "ns/j", after, None), BatchJob())


@pytest.mark.parametrize(
    ("kind", "old", "patch", "ended"),
    [
        pytest.param(ChangeType.MODIFIED, RUNNING, {"status": {"conditions": ENDED}}, True, id="it ended"),
        pytest.param(ChangeType.DELETED, RUNNING, {}, True, id="it is gone"),
        pytest.param(ChangeType.MODIFIED, RUNNING, {"status": {"ready": 3}}, False, id="it runs"),
        pytest.param(
            ChangeType.MODIFIED,
            merged(RUNNING, {"status": {"conditions": ENDED}}),
            {"metadata": {"labels": {"a": "b"}}, "status": {"conditions": ENDED}},
            False,
            id="it had ended before",
        ),
        pytest.param(ChangeType.ADDED, None, {"status": {"conditions": ENDED}}, False, id="listed after its end"),
    ],
)
def test_the_end_of_a_job_precedes_the_starts_of_others(
    kind: ChangeType, old: dict[str, Any] | None, patch: dict[str, Any], ended: bool
) -> None:
    after = merged(json.loads(json.dumps(RUNNING)), patch)
    assert has_ended(Change(kind, "ns/j", after, old), BatchJob()) is ended


def workload(*kinds: str) -> Workload:
    conditions = [{"type": kind, "status": "True"} for kind in kinds]
    return Workload.from_wire({"metadata": {"name": "w"}, "spec": {}, "status": {"conditions": conditions}})


@pytest.mark.parametrize(
    ("was", "now", "turned"),
    [
        ((), (QUOTA_RESERVED,), False),
        ((QUOTA_RESERVED,), (QUOTA_RESERVED, ADMITTED), True),
        ((ADMITTED,), (ADMITTED, EVICTED), True),
        ((ADMITTED,), (ADMITTED,), False),
    ],
    ids=["quota", "admitted", "evicted", "nothing"],
)
def test_what_starts_or_stops_pods_is_urgent(was: tuple[str, ...], now: tuple[str, ...], turned: bool) -> None:
    assert has_turned(Change(ChangeType.MODIFIED, "ns/w", workload(*now), workload(*was))) is turned
    assert not has_turned(Change(ChangeType.ADDED, "ns/w", workload(*now), None))


RECLAIMED = {"status": {"reclaimablePods": [{"name": "main", "count": 2}]}, "metadata": {"resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("patch", "reclaim"),
    [
        pytest.param(RECLAIMED, True, id="pods were reclaimed"),
        pytest.param({"metadata": {"resourceVersion": "7"}}, False, id="nothing"),
        pytest.param(merged(RECLAIMED, {"status": {"conditions": []}}), False, id="a condition too"),
        pytest.param(merged(RECLAIMED, {"spec": {"active": False}}), False, id="deactivated too"),
        pytest.param(merged(RECLAIMED, {"metadata": {"labels": {"a": "b"}}}), False, id="a label too"),
    ],
)
def test_only_its_reclaimable_pods_changed_in_a_workload(patch: dict[str, Any], reclaim: bool) -> None:
    was = workload(ADMITTED)
    now = Workload.from_wire(merged(was.to_wire(), patch))
    assert is_reclaim(Change(ChangeType.MODIFIED, "ns/w", now, was)) is reclaim
    assert not is_reclaim(Change(ChangeType.ADDED, "ns/w", now, None))
