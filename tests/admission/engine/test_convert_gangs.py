"""What the engine reads of a gang from its Workload."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from admission.engine import model
from admission.engine.convert import convert_queues
from admission.engine.convert import convert_workloads as convert
from admission.engine.queue.cluster_queue import order_of
from api.errors import InvalidObject
from api.meta import parse_time
from api.names import GANG, GANG_GROUP, GANG_MADE, GANG_SINCE, GANG_UID, SAKKARA_GROUP_ANNOTATION
from api.queues import ClusterQueue
from api.workloads import Workload

SINCE = "2026-01-01T00:00:00Z"


def workload(*conditions: dict[str, str], **annotations: str) -> Workload:
    meta = {"name": "a", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-02T00:00:00Z"}
    spec = {"queueName": "q", "podSets": []}
    said = {key: text for key, text in annotations.items() if text}
    return Workload.from_wire(
        {"metadata": {**meta, "annotations": said}, "spec": spec, "status": {"conditions": list(conditions)}}
    )


def taken(original: Workload) -> model.Workload:
    return convert.workload(original, cluster_queue="q")


def test_a_gang_stands_where_its_first_pod_came_and_starts_with_its_group() -> None:
    found = taken(workload(**{GANG: "a", GANG_UID: "g", GANG_SINCE: SINCE, GANG_GROUP: '["ns/a","ns/b"]'}))
    assert found.gang == model.Gang("g", ("ns/a", "ns/b"))
    assert found.queued == parse_time(SINCE)


def test_regular_pods_stand_between_gangs_by_priority_then_by_time() -> None:
    """A pod's time against that of the gang's first pod; of equal times the smaller UID goes first."""

    def at(name: str, second: int, priority: int = 0, gang: str = "") -> model.Workload:
        moment = f"2026-01-01T00:00:{second:02d}Z"
        said = {GANG: gang, GANG_UID: gang, GANG_SINCE: moment} if gang else {}
        # the Workload of a gang is made when enough of its pods are there
        meta = {"name": name, "namespace": "ns", "uid": name, "annotations": said}
        meta["creationTimestamp"] = "2026-01-01T00:01:00Z" if gang else moment
        spec = {"queueName": "q", "podSets": [], "priority": priority}
        return taken(Workload.from_wire({"metadata": meta, "spec": spec}))

    line = [
        at("urgent", 9, priority=1),
        at("urgent-gang", 10, priority=1, gang="v"),
        at("early", 1),
        at("gang-of-2", 2, gang="x"),
        at("between", 3),
        at("beside-a", 4, gang="y"),
        at("beside-b", 4, gang="z"),
        at("zz-last", 5),
    ]
    orders = [order_of(each) for each in line]
    assert all(one < next_one for one, next_one in pairwise(orders))


def test_whether_it_has_started_is_read_too() -> None:
    found = taken(workload({"type": "Admitted", "status": "True"}, **{GANG: "a", GANG_UID: "g"}))
    assert found.gang == model.Gang("g", started=True)


def test_a_workload_of_no_gang_is_in_none() -> None:
    found = taken(workload())
    assert found.gang is None
    assert found.queued == parse_time("2026-01-02T00:00:00Z")


@pytest.mark.parametrize(
    ("key", "text"),
    [(GANG_GROUP, "ns/b"), (GANG_GROUP, "[1]"), (GANG_SINCE, "yesterday")],
    ids=["no list", "no texts", "no time"],
)
def test_what_cannot_be_read_is_named_with_the_workload(key: str, text: str) -> None:
    with pytest.raises(InvalidObject) as bad:
        taken(workload(**{GANG: "a", key: text}))
    assert "Workload ns/a" in str(bad.value)
    assert text in str(bad.value)


def test_the_queue_of_gangs_that_name_none_counts_only_pods() -> None:
    made = ClusterQueue.from_wire({"metadata": {"name": "gangs", "labels": {GANG_MADE: "true"}}, "spec": {}})
    assert convert_queues.cluster_queue(made).ignores_uncovered


@pytest.mark.parametrize(
    ("of_group", "of_class", "elsewhere"),
    [
        pytest.param(7, None, 0, id="no class counts as zero"),
        pytest.param(7, 3, 3, id="the class that a ResourceQuota can guard"),
        pytest.param(7, 7, None, id="as much as the class"),
        pytest.param(-5, 3, None, id="less than the class counts everywhere"),
    ],
)
def test_a_priority_of_a_config_map_counts_in_its_namespace(
    of_group: int, of_class: int | None, elsewhere: int | None
) -> None:
    pods = {} if of_class is None else {"priority": of_class}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [], **pods}}}
    said = {GANG: "a", SAKKARA_GROUP_ANNOTATION: "group"}
    body: dict[str, Any] = {
        "metadata": {"name": "a", "namespace": "ns", "annotations": said},
        "spec": {"queueName": "q", "podSets": [pod_set], "priority": of_group},
    }
    given = Workload.from_wire(body)
    found = taken(given)
    assert (found.priority, found.priority_elsewhere) == (of_group, elsewhere)
    assert convert.workload(given, cluster_queue="q", groups_outrank=True).priority_elsewhere is None
    named = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "c"}
    classed = Workload.from_wire({**body, "spec": {**body["spec"], "priorityClassRef": named}})
    assert taken(classed).priority_elsewhere is None
