"""Sakkara groups on plain objects: who says how many, what the Workload is then, and what becomes of pods too many."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admission.controllers.jobs.context import JobContext
from admission.controllers.pods.actions import DeletePod, PodGroupPlan, StopPod
from admission.controllers.pods.gang_plan import plan_gang
from admission.controllers.pods.gangs.gang import GangTerms, terms_of
from admission.controllers.pods.gangs.sakkara_terms import as_described
from admission.controllers.state.actions import CreateWorkload, PatchWorkload
from admission.integrations.pods.gang import PodGang
from admission.integrations.pods.pod import PodMeta, QueuedPod
from admission.integrations.pods.podgroup import PodUnit
from api import names
from api.groups import PodGroup
from api.meta import Condition
from api.sakkara import DescribedGroup, read_group
from api.topology_request import PlacementConstraint
from api.workloads import Workload

NOW = 1_000_000.0
SPREAD = '{"rack": {"type": "spread", "partitions": 2}}'


def member(number: int, gang: PodGang | None = None, *, cpu: str = "1", queue: str = names.SAKKARA_QUEUE) -> QueuedPod:
    gang = gang or PodGang("g", sakkara=True)
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    return QueuedPod(
        PodMeta(f"p-{number}", "ns", f"uid-{number}", "1"),
        created=NOW + number,
        labels={names.QUEUE_NAME_LABEL: queue, names.MANAGED_LABEL: "true"},
        annotations={names.GANG: gang.name, names.GANG_TERMS: gang.to_text()},
        held=True,
        gated=True,
        phase="Pending",
        role=f"role-{cpu}",
        spec=json.dumps(spec).encode(),
    )


def described(**data: str) -> DescribedGroup:
    return DescribedGroup("its-map", "map-uid", read_group("its-map", {"name": "g", "size": "2", **data}))


def pod_group(minimum: int, **labels: str) -> PodGroup:
    meta = {"name": "g", "namespace": "ns", "uid": "group-uid", "labels": labels}
    return PodGroup.from_wire({"metadata": meta, "spec": {"minMember": minimum}})


def terms(
    pods: list[QueuedPod], described_group: DescribedGroup | None = None, group: PodGroup | None = None
) -> GangTerms:
    return as_described(terms_of(pods, group), pods, described_group, group)


def planned(
    pods: list[QueuedPod], described_group: DescribedGroup | None, own: Workload | None = None, **more: Any
) -> PodGroupPlan:
    holds = terms(pods, described_group, **more)
    return plan_gang(PodUnit.of(pods), holds, [own] if own else [], {}, JobContext(), NOW + 100)


def made(plan: PodGroupPlan) -> Workload:
    (workload,) = [action.workload for action in plan.actions if isinstance(action, CreateWorkload)]
    return workload


# ---- who says how many


def test_the_config_map_wins_over_a_pod_group() -> None:
    pods = [member(0)]
    found = terms(pods, described(size="3"), pod_group(5))
    assert (found.minimum, found.uid, found.annotations()[names.SAKKARA_GROUP_ANNOTATION]) == (3, "map-uid", "its-map")


def test_it_wins_over_the_pod_group_that_the_pods_name_as_such() -> None:
    pods = [member(0, PodGang("g"), queue=names.GANG_QUEUE)]
    assert terms(pods, None, pod_group(5)).exact is None, "without one they are a gang like any other"
    assert terms(pods, described(size="3"), pod_group(5)).minimum == 3


def test_gangs_that_say_their_minimum_themselves_are_no_business_of_a_config_map() -> None:
    assert terms([member(0, PodGang("g", 4))], described(size="3")).minimum == 4


def test_a_pod_group_stands_in_for_a_config_map_and_packs() -> None:
    found = terms([member(0)], None, pod_group(5))
    assert found.minimum == 5
    assert found.exact is not None
    assert found.exact.group.constraints == (PlacementConstraint(level="node", type="pack"),)
    assert names.SAKKARA_GROUP_ANNOTATION not in found.annotations()


@pytest.mark.parametrize(
    ("described_group", "group", "text"),
    [
        pytest.param(
            None,
            None,
            "no ConfigMap with the label sakkara.group describes group g, and there is no PodGroup of it",
            id="nobody",
        ),
        pytest.param(
            None,
            pod_group(2, **{names.GANG_MADE: "true"}),
            "no ConfigMap with the label sakkara.group describes group g, and there is no PodGroup of it",
            id="made-by-us",
        ),
        pytest.param(
            described(size="two"),
            pod_group(2),
            "ConfigMap its-map: data.size: 'two': must be a whole number from 1 to 2147483647",
            id="malformed",
        ),
        pytest.param(described(size="3"), None, "2 of 3 pods exist", id="too-few"),
    ],
)
def test_pods_wait_and_the_reason_is_reported(
    described_group: DescribedGroup | None, group: PodGroup | None, text: str
) -> None:
    plan = planned([member(0), member(1)], described_group, group=group)
    assert plan.actions == ()
    assert [(event.reason, event.message) for event in plan.events] == [(names.ReplacementReason.GANG_WAITING, text)]


# ---- the Workload


def test_it_is_of_exactly_the_size_with_the_groups_constraints_and_priority() -> None:
    said = described(priority="7", constraints=SPREAD)
    workload = made(planned([member(n) for n in range(4)], said))
    (pod_set,) = workload.spec.pod_sets
    assert (pod_set.count, workload.spec.priority, workload.spec.priority_class_ref) == (2, 7, None)
    assert pod_set.topology_request is not None
    assert pod_set.topology_request.constraints == (PlacementConstraint(level="rack", type="spread", partitions=2),)
    assert workload.spec.queue_name == names.SAKKARA_QUEUE
    assert workload.metadata.annotations[names.SAKKARA_GROUP_ANNOTATION] == "its-map"


def test_pods_of_a_pod_group_go_by_the_queue_of_groups_when_a_config_map_describes_them() -> None:
    pods = [member(n, PodGang("g"), queue=names.GANG_QUEUE) for n in range(2)]
    assert made(planned(pods, described())).spec.queue_name == names.SAKKARA_QUEUE
    named = [member(n, queue="mine") for n in range(2)]
    assert made(planned(named, described())).spec.queue_name == "mine"


def test_pods_beyond_the_size_wait_and_are_reported() -> None:
    plan = planned([member(n) for n in range(5)], described())
    assert not [action for action in plan.actions if isinstance(action, DeletePod | StopPod)]
    assert (names.ReplacementReason.GANG_WAITING, "the group has its 2 pods; 3 more wait: p-2, p-3, p-4") in [
        (event.reason, event.message) for event in plan.events
    ]


def test_a_workload_that_waits_follows_its_config_map() -> None:
    pods = [member(n) for n in range(4)]
    own = made(planned(pods, described()))

    def patched(described_group: DescribedGroup) -> dict[str, Any]:
        actions = planned(pods, described_group, own).actions
        (patch,) = [action.patch for action in actions if isinstance(action, PatchWorkload)]
        return patch

    assert patched(described(size="3"))["spec"]["podSets"][0]["count"] == 3
    asked = patched(described(constraints=SPREAD))["spec"]["podSets"][0]["topologyRequest"]
    assert [(each["level"], each["partitions"]) for each in asked["constraints"]] == [("rack", 2)]
    assert patched(described(priority="9"))["spec"]["priority"] == 9
    assert planned(pods, described(), own).actions == () or not [
        action for action in planned(pods, described(), own).actions if isinstance(action, PatchWorkload)
    ]


def test_one_that_asks_for_something_else_holds_the_group_up_and_is_named_beside_another() -> None:
    plan = planned([member(0), member(1, cpu="2")], described())
    assert plan.actions == ()
    assert [(event.type, event.reason, event.message) for event in plan.events] == [
        ("Warning", "PodGroupInconsistent", "g: spec.containers: 'cpu 2 in pod p-1': the same as in pod p-0, cpu 1")
    ]


def test_while_it_runs_its_priority_is_followed_and_no_pod_joins() -> None:
    own = made(planned([member(0), member(1)], described()))
    reserved = Condition(type=names.QUOTA_RESERVED, status="True")
    admitted = Condition(type=names.ADMITTED, status="True")
    status = own.status.model_copy(update={"conditions": (reserved, admitted)})
    running = own.model_copy(update={"status": status})
    follow = planned([member(0), member(1)], described(priority="9"), running).actions
    assert [action.patch for action in follow if isinstance(action, PatchWorkload)] == [{"spec": {"priority": 9}}]
    plan = planned([member(n) for n in range(3)], described(), running)
    assert not [action for action in plan.actions if isinstance(action, CreateWorkload | DeletePod)]
    assert any("1 more wait: p-2" in event.message for event in plan.events)


def test_a_config_map_without_a_priority_leaves_it_to_the_class_of_the_pods() -> None:
    """A ResourceQuota can guard a PriorityClass, and no number in a ConfigMap."""
    pods = [member(0), member(1)]
    by_class, by_map = (terms(pods, said).exact for said in (described(), described(priority="7")))
    assert by_class is not None
    assert by_map is not None
    assert (by_class.by_priority, by_map.by_priority) == (False, True)
