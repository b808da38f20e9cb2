"""What happens to the slices of a set whose number of pods changes while it runs."""

from __future__ import annotations

import pytest

from admission.controllers.pods.sets.set_slices import resized
from admission.controllers.state.actions import DeleteWorkload, PatchWorkload
from api.workloads import Workload
from tests.builders import condition


def a_slice(name: str, count: int, quota: int | None = None) -> Workload:
    """A slice that requests so many pods, and has quota for `quota` of them if that is given."""
    status = {}
    if quota is not None:
        given = [{"name": "main", "count": quota, "flavors": {}}]
        states = [condition("QuotaReserved"), condition("Admitted")]
        status = {"admission": {"clusterQueue": "cq", "podSetAssignments": given}, "conditions": states}
    spec = {"podSets": [{"name": "main", "count": count, "template": {}}]}
    return Workload.from_wire({"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("following", "wanted", "expected"),
    [
        pytest.param(None, 8, [], id="as-admitted"),
        pytest.param(None, 3, [("patch", "now", 3)], id="shrinks"),
        pytest.param(12, 12, [], id="still-waits"),
        pytest.param(12, 10, [("patch", "next", 10)], id="asks-for-fewer"),
        pytest.param(12, 8, [("delete", "next", 0)], id="lacks-nothing-any-more"),
        pytest.param(12, 3, [("delete", "next", 0), ("patch", "now", 3)], id="shrinks-while-a-slice-waits"),
    ],
)
def test_the_waiting_slice_goes_before_the_other_one_gives_back(
    following: int | None, wanted: int, expected: list[tuple[str, str, int]]
) -> None:
    """Else the slice that still waits would start on what the other one gives back."""
    waits = None if following is None else a_slice("next", following)
    made = resized(a_slice("now", 8, quota=8), waits, {"main": wanted})
    done = []
    for action in made.actions if made is not None else ():
        if isinstance(action, PatchWorkload) and "spec" in action.patch:
            done.append(("patch", action.workload.metadata.name, action.patch["spec"]["podSets"][0]["count"]))
        elif isinstance(action, DeleteWorkload):
            done.append(("delete", action.workload.metadata.name, 0))
    assert done == expected
