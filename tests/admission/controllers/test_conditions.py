"""What the steps of a Workload's life write: only what they change."""

from __future__ import annotations

import pytest

from admission.controllers import conditions
from api.merge import merge_diff
from api.workloads import Admission, WorkloadStatus

NOW = 1_000_000.0


def asked(**amounts: int) -> WorkloadStatus:
    return conditions.waiting(WorkloadStatus(), "NoRoom", "no room", {"main": amounts} if amounts else {}, NOW)


@pytest.mark.parametrize(
    ("before", "parts"),
    [
        pytest.param(WorkloadStatus(), {"conditions", "admission"}, id="new"),
        pytest.param(asked(), {"conditions", "admission"}, id="waited"),
        pytest.param(asked(cpu=1000), {"conditions", "admission", "resourceRequests"}, id="waited-and-said-for-what"),
    ],
)
def test_an_admission_writes_what_it_changes(before: WorkloadStatus, parts: set[str]) -> None:
    after = conditions.reserved(before, Admission(cluster_queue="cq"), NOW)
    patch = merge_diff(before.to_wire(), conditions.synced_admitted(after, NOW).to_wire())
    assert patch.keys() == parts
    assert patch.get("resourceRequests", []) == []
