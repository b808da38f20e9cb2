"""What of a PodGroup wakes whom."""

from __future__ import annotations

from typing import Any, cast

import pytest

from admission.controllers.pods.gangs.podgroups import PodGroupController, PodGroups
from admission.controllers.pods.pod_indexes import BY_GROUP, group_keys
from api.kube.client import Kube
from api.kube.informers.store import Store
from api.kube.resources import POD_GROUPS
from api.names import GANG_MADE

GROUP: dict[str, Any] = {
    "metadata": {"name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
    "spec": {"minMember": 2},
}


class ObservedPodGroups(Store[Any]):
    """An informer that has listed."""

    has_synced = True

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the informer's own signature
        """At once."""


@pytest.mark.parametrize(
    ("change", "says_else"),
    [
        ({"spec": {"minMember": 3}}, True),
        ({"metadata": {**GROUP["metadata"], "annotations": {"a": "b"}}}, True),
        ({"metadata": {**GROUP["metadata"], "labels": {"a": "b"}}}, True),
        ({"metadata": {**GROUP["metadata"], "managedFields": [{"manager": "somebody"}]}}, False),
        ({"status": {"phase": "Running"}}, False),
    ],
    ids=["minimum", "annotations", "labels", "bookkeeping", "status"],
)
def test_gangs_are_looked_at_for_what_holds_and_not_for_a_status(change: dict[str, Any], says_else: bool) -> None:
    informer = ObservedPodGroups("podgroups")
    groups = PodGroups({POD_GROUPS: informer})
    told: list[str] = []
    with_status: list[str] = []
    groups.add_handler(told.append)
    groups.add_handler(with_status.append, status=True)
    informer.upsert(GROUP)
    assert told == with_status == ["ns/g"]
    merged = {**GROUP, **change}
    informer.upsert({**merged, "metadata": {**merged["metadata"], "resourceVersion": "2"}})
    assert told[1:] == (["ns/g"] if says_else else [])
    assert with_status[1:] == ["ns/g"]
    informer.delete(informer.objects["ns/g"])
    assert told[-1:] == ["ns/g"]
    assert len(told) == (3 if says_else else 2)
    assert not groups.has("ns/g")


async def test_a_podgroup_that_another_deletes_leaves_nothing_behind() -> None:
    """It has no pods left, and goes with its namespace before the controller deletes it."""
    informer, pods, workloads = (ObservedPodGroups(name) for name in ("podgroups", "pods", "workloads"))
    pods.add_index(BY_GROUP, group_keys)
    controller = PodGroupController(
        cast("Kube", None), pods, PodGroups({POD_GROUPS: informer}), workloads, wall=lambda: 100.0
    )
    informer.upsert({**GROUP, "metadata": {**GROUP["metadata"], "labels": {GANG_MADE: "true"}}})
    assert await controller.reconcile("ns/g") is not None
    informer.delete(informer.objects["ns/g"])
    assert await controller.reconcile("ns/g") is None
    assert controller._single == {}
