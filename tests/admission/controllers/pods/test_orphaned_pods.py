"""A set deleted without its pods, and one of its name that comes after it: whose the Workload is, and under which name."""

from __future__ import annotations

import pytest

from admission.controllers.pods.pod_indexes import keys_of
from admission.controllers.pods.pod_plan import plan_gone
from admission.controllers.pods.sets.orphaned_pods import ORPHANING
from admission.controllers.pods.sets.setactions import NOTHING, SetPlan
from admission.controllers.pods.sets.setplan import plan_set
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PatchWorkload, SetStatus
from admission.controllers.watch.caches import is_orphan
from admission.integrations.pods.pod import QueuedPod
from api import names
from api.meta import find_condition
from api.workloads import Workload
from tests.admission.controllers.pods.test_setplan import AROUND, NOW, STS, Obj, a_set, admitted, going, only
from tests.admission.integrations.pods import read, wire


def left_behind() -> Workload:
    """Admitted; its set is gone."""
    workload = admitted(only(a_set(2)))
    return workload.model_copy(update={"metadata": workload.metadata.model_copy(update={"owner_references": ()})})


def the_next() -> Obj:
    """A set of the same name."""
    found = a_set(2)
    found["metadata"]["uid"] = "next-uid"
    return found


def a_pod(ordinal: int, group: str) -> QueuedPod:
    """Of the set; it runs, or without a group is gated."""
    marks = {names.POD_SUSPENDING_PARENT: STS.framework, **({names.POD_GROUP_NAME: group} if group else {})}
    pod = wire(f"s-{ordinal}", annotations=marks, gated=not group, phase="Running" if group else "Pending", node=group)
    pod["metadata"]["ownerReferences"] = [{"name": "s", "controller": True}]
    return read(pod)


def planned(obj: Obj, workloads: list[Workload], pods: list[QueuedPod], behind: list[Workload]) -> SetPlan:
    return plan_set(STS, obj, workloads, pods, AROUND, NOW, behind=behind)


def taken_over(workload: Workload) -> Workload:
    new = only(the_next()).metadata
    update = {"owner_references": new.owner_references, "labels": new.labels}
    return workload.model_copy(update={"metadata": workload.metadata.model_copy(update=update)})


def test_while_its_set_leaves_it_nothing_is_done() -> None:
    obj = a_set(2)
    obj["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [ORPHANING]}
    assert planned(obj, [admitted(only(a_set(2)))], [a_pod(0, "")], []) == NOTHING


def test_it_is_its_pods_and_ends_with_them() -> None:
    workload = left_behind()
    assert not is_orphan(workload)
    assert keys_of(workload) == [f"group:{workload.key}"]
    end, free = plan_gone([workload], NOW).actions
    assert isinstance(end, SetStatus)
    finished = find_condition(end.status.conditions, names.FINISHED)
    assert finished is not None
    assert finished.reason == names.FinishedReason.OWNER_NOT_FOUND
    assert isinstance(free, PatchWorkload)


def test_the_next_set_becomes_its_owner() -> None:
    workload = left_behind()
    (action,) = planned(the_next(), [], [a_pod(0, workload.metadata.name)], [workload]).actions
    assert isinstance(action, PatchWorkload)
    (owner,) = action.patch["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "next-uid"}


def test_an_adopted_workload_keeps_its_name_and_a_new_pod_gets_it() -> None:
    workload = taken_over(left_behind())
    running, fresh = a_pod(0, workload.metadata.name), a_pod(1, "")
    made = planned(the_next(), [workload], [running, fresh], [])
    assert made.workloads() == []
    (join,) = made.joins()
    assert join.patch["metadata"]["annotations"][names.POD_GROUP_NAME] == workload.metadata.name


def test_what_was_made_before_the_pods_were_seen_goes() -> None:
    workload, early = taken_over(left_behind()), only(the_next())
    made = planned(the_next(), [early, workload], [a_pod(0, workload.metadata.name)], [])
    assert [type(action) for action in made.actions] == [PatchWorkload, DeleteWorkload]
    assert {action.workload.key for action in made.workloads()} == {early.key}


@pytest.mark.parametrize(
    "ended", [pytest.param(True, id="it goes"), pytest.param(False, id="a pod has joined the new one")]
)
def test_where_it_is_too_late_the_set_has_a_workload_of_its_own(ended: bool) -> None:
    workload, own = left_behind(), only(the_next())
    if ended:
        workload = going(workload)
    pods = [a_pod(0, workload.metadata.name), *([] if ended else [a_pod(1, own.metadata.name)])]
    made = planned(the_next(), [], pods, [workload])
    assert [type(action) for action in made.workloads()] == [CreateWorkload]
