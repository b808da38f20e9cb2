"""Which Workload may take the place of which: only slices of one job in one queue."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.watch.slices import waits_for
from api.names import EVICTED, FINISHED, QUOTA_RESERVED, REPLACEMENT_FOR
from api.workloads import Workload


def workload(name: str, uid: str = "job", queue: str = "q", namespace: str = "ns", **conditions: str) -> Workload:
    """A Workload of the job with that uid, with these conditions."""
    owner: dict[str, Any] = {
        "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True,
    }  # fmt: skip
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "ownerReferences": [owner] if uid else []}
    if name == "new":
        meta["annotations"] = {REPLACEMENT_FOR: "ns/old"}
    shown = [{"type": kind, "status": status, "reason": "R"} for kind, status in conditions.items()]
    return Workload.from_wire({"metadata": meta, "spec": {"queueName": queue}, "status": {"conditions": shown}})


RUNS = {QUOTA_RESERVED: "True"}


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        pytest.param(workload("new"), workload("old", **RUNS), None, id="of-the-same-job"),
        pytest.param(workload("new"), None, None, id="gone"),
        pytest.param(workload("new"), workload("old", "other", **RUNS, **{FINISHED: "True"}), None, id="over"),
        pytest.param(workload("new", "thief"), workload("old", **RUNS), "of the same job", id="of-another-job"),
        pytest.param(workload("new", ""), workload("old", "", **RUNS), "of the same job", id="neither-has-a-job"),
        pytest.param(workload("new", namespace="mine"), workload("old", **RUNS), "of the same job", id="namespace"),
        pytest.param(workload("new", queue="p"), workload("old", **RUNS), "of the same LocalQueue", id="queue"),
        pytest.param(workload("new"), workload("old"), "has no quota", id="without-quota"),
        pytest.param(workload("new"), workload("old", **RUNS, **{EVICTED: "True"}), "on its way out", id="evicted"),
    ],
)
def test_what_may_replace_what(new: Workload, old: Workload | None, text: str | None) -> None:
    """None where the new one may be considered; else the condition names what is wrong."""
    said = waits_for(new, old)
    assert said == text if text is None else text in (said or "")
