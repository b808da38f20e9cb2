"""The exclusive placement of JobSet and LeaderWorkerSet is rejected where a topology assigns the pods."""

from __future__ import annotations

from typing import Any

import pytest

from admission.integrations.paths import with_value
from admission.webhook.kinds import leaderworkerset
from admission.webhook.kinds.jobset import JOBSET
from admission.webhook.rules import jobs
from admission.webhook.rules.annotations import QueueLevels
from admission.webhook.rules.review_rules import ReviewRules
from api import names

Obj = dict[str, Any]
RACKS, FLAT = QueueLevels("q", ("rack",)), QueueLevels("q", ())


def jobset() -> Obj:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    child = {"metadata": {"annotations": {}}, "spec": {"parallelism": 3, "template": template}}
    meta = {"name": "s", "labels": {names.QUEUE_NAME_LABEL: "q"}}
    return {"metadata": meta, "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": child}]}}


def lws() -> Obj:
    worker = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    meta = {"name": "s", "labels": {names.QUEUE_NAME_LABEL: "q"}}
    return {"metadata": meta, "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 3, "workerTemplate": worker}}}


CHILD = ("spec", "replicatedJobs", 0, "template")


@pytest.mark.parametrize("levels", [RACKS, FLAT, None], ids=["racks", "no topology", "unknown queue"])
@pytest.mark.parametrize("requested", [False, True], ids=["", "topology requested"])
@pytest.mark.parametrize(
    ("kind", "value", "place", "key"),
    [
        (JOBSET, jobset(), ("metadata", "annotations"), names.JOBSET_EXCLUSIVE_TOPOLOGY),
        (JOBSET, jobset(), ("metadata", "annotations"), names.JOBSET_NODE_SELECTOR),
        (JOBSET, jobset(), (*CHILD, "metadata", "annotations"), names.JOBSET_EXCLUSIVE_TOPOLOGY),
        (
            JOBSET,
            jobset(),
            (*CHILD, "spec", "template", "metadata", "annotations"),
            names.JOBSET_EXCLUSIVE_TOPOLOGY,
        ),
        (leaderworkerset.KIND, lws(), ("metadata", "annotations"), names.LWS_EXCLUSIVE_TOPOLOGY),
        (leaderworkerset.KIND, lws(), ("metadata", "annotations"), names.LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY),
    ],
    ids=["jobset", "node selector", "child", "template", "lws", "lws subgroups"],
)
def test_exclusive_topology_is_rejected_where_a_topology_assigns_the_pods(
    kind: jobs.ReviewedKind,
    value: Obj,
    place: tuple[str | int, ...],
    key: str,
    requested: bool,
    levels: QueueLevels | None,
) -> None:
    marked = with_value(value, (*place, key), "rack")
    if requested:
        marked = with_value(marked, ("metadata", "annotations", names.REQUIRE_TOPOLOGY), "rack")
    errors = [str(error) for error in jobs.validate_create(marked, kind, ReviewRules(), levels)]
    told = [error for error in errors if f"[{key}]" in error]
    assert bool(errors) is (levels is RACKS or requested)
    assert bool(told) is (levels is RACKS or (requested and levels is None))
    assert all(names.SLICE_REQUIRED_TOPOLOGY in error for error in told)
    plain = with_value(value, ("metadata", "annotations"), {})
    assert jobs.validate_create(plain, kind, ReviewRules(), levels) == []
