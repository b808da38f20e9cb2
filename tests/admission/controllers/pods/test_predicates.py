"""Which changes of a pod are looked at, and which are steps on its way that one look serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admission.controllers.pods.predicates import is_creation, is_irrelevant, is_pod_progress
from admission.integrations.pods.pod import PodMeta, QueuedPod
from api.kube.informers.store import Change, ChangeType
from api.names import ADMITTED, QUOTA_RESERVED
from api.workloads import Workload

GATED = QueuedPod(PodMeta("p", "ns", "u", "1"), held=True, gated=True, phase="Pending", spec=b"{}")
OPEN = replace(GATED, metadata=PodMeta("p", "ns", "u", "2"), gated=False, spec=None)


def changed(old: QueuedPod, **fields: Any) -> Change[QueuedPod]:
    return Change(ChangeType.MODIFIED, old.key, replace(old, metadata=PodMeta("p", "ns", "u", "3"), **fields), old)


@pytest.mark.parametrize(
    ("old", "fields", "step"),
    [
        (GATED, {"gated": False, "spec": None}, True),
        (GATED, {"gated": False, "labels": {"a": "b"}}, True),
        (GATED, {"labels": {"a": "b"}}, False),
        (GATED, {"deleted": True}, False),
        (GATED, {"gated": False, "deleted": True}, False),
        (OPEN, {"bound": True}, True),
        (OPEN, {"bound": True, "phase": "Running", "ready": True}, True),
        (replace(OPEN, ready=True), {"ready": False, "last_active": 5.0}, True),
        (OPEN, {"labels": {"a": "b"}}, False),
        (OPEN, {"phase": "Succeeded"}, False),
        (OPEN, {"phase": "Failed"}, False),
        (OPEN, {"deleted": True}, False),
        (replace(OPEN, deleted=True), {"forced": True}, False),
        (OPEN, {"held": False}, False),
    ],
    ids=[
        "its gate opens",
        "its gate opens and it is labelled",
        "labelled before",
        "deleted before",
        "opened and deleted",
        "bound",
        "bound and ready at once",
        "ready no more",
        "labelled later",
        "succeeds",
        "fails",
        "deleted",
        "out of grace",
        "let go",
    ],
)
def test_steps_are_what_a_started_pod_does_by_itself(old: QueuedPod, fields: dict[str, Any], step: bool) -> None:
    change = changed(old, **fields)
    assert is_pod_progress(change, ours=True) is step
    assert not is_irrelevant(change)


def test_a_gate_that_another_client_opens_is_no_step() -> None:
    assert not is_pod_progress(changed(GATED, gated=False, spec=None), ours=False)
    assert is_pod_progress(changed(OPEN, bound=True), ours=False)


def test_a_write_that_changes_nothing_of_interest_is_nothing() -> None:
    assert is_irrelevant(changed(OPEN))
    assert is_irrelevant(changed(GATED, spec=b'{"nodeName":"n"}'))


@pytest.mark.parametrize(
    "change",
    [
        Change(ChangeType.ADDED, "ns/p", OPEN, None),
        Change(ChangeType.DELETED, "ns/p", OPEN, OPEN),
        Change(ChangeType.MODIFIED, "ns/p", replace(OPEN, metadata=PodMeta("p", "ns", "other", "3")), OPEN),
    ],
    ids=["new", "gone", "another of the name"],
)
def test_who_comes_and_goes_is_looked_at_soon(change: Change[QueuedPod]) -> None:
    assert not is_irrelevant(change)
    assert not is_pod_progress(change, ours=True)


def workload(*kinds: str) -> Workload:
    conditions = [{"type": kind, "status": "True"} for kind in kinds]
    return Workload.from_wire({"metadata": {"name": "w"}, "spec": {}, "status": {"conditions": conditions}})


def test_a_workload_is_fresh_until_anything_is_said_of_it() -> None:
    assert is_creation(Change(ChangeType.ADDED, "ns/w", workload(), None))
    assert not is_creation(Change(ChangeType.ADDED, "ns/w", workload(QUOTA_RESERVED, ADMITTED), None))
    assert not is_creation(Change(ChangeType.MODIFIED, "ns/w", workload(), workload()))
