"""What the steps of a Workload's life write: only what they change."""

from __future__ import annotations

import pytest

from admission.controllers.state import conditions
from admission.controllers.state.condition_table import OF_ONE_ADMISSION
from api.assignment import encode
from api.merge import merge_diff
from api.meta import find_condition
from api.names import ADMITTED, PLACEMENT, QUOTA_RESERVED
from api.workloads import Admission, PodSetAssignment, WorkloadStatus
from tests.builders import condition

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


def test_the_placement_is_written_in_plain_words_while_it_holds() -> None:
    """The compact assignment is for programs."""
    places = [(("b1", f"r{number}"), 2) for number in range(10)]
    assignment = encode(("block", "rack"), places)
    pod_sets = (PodSetAssignment(name="main", topology_assignment=assignment), PodSetAssignment(name="driver"))
    admission = Admission(cluster_queue="cq", pod_set_assignments=pod_sets)
    status = conditions.placed(conditions.reserved(WorkloadStatus(), admission, NOW), NOW)
    found = find_condition(status.conditions, PLACEMENT)
    assert found is not None
    assert found.message.startswith("main: 2 in b1/r0, 2 in b1/r1, ")
    assert found.message.endswith(", 2 in b1/r7, and 2 more domains")
    for after in (conditions.released(status, NOW), conditions.on_hold(status, NOW)):
        assert find_condition(after.conditions, PLACEMENT) is None
    elsewhere = conditions.placed(conditions.reserved(status, Admission(cluster_queue="cq"), NOW), NOW)
    assert find_condition(elsewhere.conditions, PLACEMENT) is None, "no topology: nothing to tell"


def test_nothing_of_an_admission_outlasts_it() -> None:
    """However the quota is taken: by an eviction, by a stopped queue, by a job that asks for no pods, or by a client."""
    lasting = [condition(kind) for kind in (*OF_ONE_ADMISSION, QUOTA_RESERVED, ADMITTED)]
    status = WorkloadStatus.from_wire({"conditions": lasting})
    for after in (
        conditions.released(status, NOW),
        conditions.unreserved(status, "Suspended", "stopped", NOW),
        conditions.on_hold(status, NOW),
        conditions.without_reservation(status, NOW),
    ):
        assert {each.type for each in after.conditions} & set(OF_ONE_ADMISSION) == set()
