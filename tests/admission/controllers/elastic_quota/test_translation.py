"""Elastic quotas as queues, which of several holds, and what is told about them."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.elastic_quota import translation
from admission.controllers.elastic_quota.quotas import Quotas
from admission.engine.convert import convert_queues
from admission.engine.model import PreemptionPolicy, Quota
from admission.engine.quota.tree import queue_quotas
from api.elastic_quotas import ElasticQuota
from api.errors import InvalidObject
from api.kube.resources import ELASTIC_QUOTAS, SIGS_ELASTIC_QUOTAS
from api.pod.pods import Meta, Node, NodeStatus
from api.queues import QueueStatus

GPU = "nvidia.com/gpu"
FLAVOR = "elastic-quota"


def quota(
    name: str = "quota", namespace: str = "team", created: str = "2026-01-01T00:00:00Z", **spec: Any
) -> ElasticQuota:
    meta = {"name": name, "namespace": namespace, "creationTimestamp": created}
    return ElasticQuota.from_wire({"metadata": meta, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "resources", "want"),
    [
        pytest.param(
            {"min": {GPU: 4}, "max": {GPU: 6}}, (GPU,), {GPU: Quota(4, 2), "pods": Quota(10**9)}, id="min and max"
        ),
        pytest.param({"min": {"cpu": "1500m"}}, ("cpu",), {"cpu": Quota(1500), "pods": Quota(10**9)}, id="no max"),
        pytest.param(
            {"max": {"memory": "1Gi"}},
            ("memory",),
            {"memory": Quota(0, 2**30), "pods": Quota(10**9)},
            id="no min",
        ),
        pytest.param(
            {"min": {"cpu": 1}, "max": {"cpu": 1}},
            ("cpu", GPU, "pods"),
            {"cpu": Quota(1000, 0), GPU: Quota(0), "pods": Quota(0)},
            id="others name more",
        ),
    ],
)
def test_nominal_is_min_and_the_borrowing_limit_what_max_is_above_it(
    spec: dict[str, Any], resources: tuple[str, ...], want: dict[str, Quota]
) -> None:
    made = convert_queues.cluster_queue(translation.cluster_queue("team", translation.bounds(quota(**spec)), resources))
    assert queue_quotas(made) == {(FLAVOR, resource): each for resource, each in want.items()}
    assert (made.name, made.cohort) == ("elastic-quota.team", "elastic-quota")
    assert made.preemption == PreemptionPolicy("Any", "LowerPriority", keeps_nominal=True)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"min": {"cpu": "x"}}, "spec.min[cpu]", id="no quantity"),
        pytest.param({"max": {GPU: -1}}, f"spec.max[{GPU}]", id="negative"),
        pytest.param({"min": {"cpu": 2}, "max": {"cpu": "1999m"}}, "spec.min[cpu]", id="min above max"),
    ],
)
def test_what_the_webhook_would_have_refused_is_not_translated(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        translation.bounds(quota(**spec))
    assert caught.value.field == field


def test_the_queue_of_a_deleted_quota_has_no_limits_and_goes_on_counting() -> None:
    queue = convert_queues.cluster_queue(translation.released_queue("team", ["cpu", "memory", GPU]))
    assert queue.cohort is None
    wanted = {"cpu": 10**12, "memory": 10**18, GPU: 10**18, "pods": 10**9}
    assert queue_quotas(queue) == {(FLAVOR, name): Quota(amount) for name, amount in wanted.items()}


def known(*quotas: ElasticQuota, sigs: tuple[ElasticQuota, ...] = ()) -> Quotas:
    book = Quotas()
    for resource, each in (*((ELASTIC_QUOTAS, q) for q in quotas), *((SIGS_ELASTIC_QUOTAS, q) for q in sigs)):
        book.put(f"{resource.group}/{each.key}", resource, each)
    return book


def test_the_oldest_of_a_namespace_holds_and_the_next_one_when_it_goes() -> None:
    late, early = quota("a", created="2026-01-02T00:00:00Z"), quota("b", created="2026-01-01T00:00:00Z", max={"cpu": 1})
    book = known(late, sigs=(early,))
    assert [(e.quota.metadata.name, e.resource) for e in book.of("team")] == [
        ("b", SIGS_ELASTIC_QUOTAS),
        ("a", ELASTIC_QUOTAS),
    ]
    assert book.shared() == ("cpu",)
    book.drop("scheduling.sigs.k8s.io/team/b")
    assert [e.quota.metadata.name for e in book.of("team")] == ["a"]
    assert book.shared() == ()
    book.drop("scheduling.x-k8s.io/team/a")
    assert (book.of("team"), book.namespaces()) == ([], ())


def test_resources_are_those_that_any_names_that_holds() -> None:
    book = known(
        quota(namespace="a", min={GPU: 1}),
        quota(namespace="b", max={"cpu": 1}),
        quota("late", namespace="b", created="2026-01-02T00:00:00Z", max={"memory": 1}),
        quota(namespace="c", min={"pods": -1}),
    )
    assert book.shared() == ("cpu", GPU)
    assert "spec.min[pods]" in book.of("c")[0].fault


def test_used_tells_what_is_named_and_what_else_counts_and_is_held() -> None:
    flavors = [
        {
            "name": FLAVOR,
            "resources": [
                {"name": GPU, "total": "3"},
                {"name": "memory", "total": "1Gi"},
                {"name": "pods", "total": 3},
            ],
        }
    ]
    status = QueueStatus.from_wire({"flavorsReservation": flavors})
    bounds = translation.bounds(quota(min={GPU: 1, "cpu": 1}))
    assert translation.used(bounds, status) == {"cpu": "0", "memory": "1Gi", GPU: "3"}


def node(amount: object, **labels: str) -> Node:
    return Node(metadata=Meta(labels=labels), status=NodeStatus(allocatable={"cpu": amount}))  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("least", "want"),
    [
        pytest.param(["1500m", 1], "", id="exactly what there is"),
        pytest.param(
            ["1500m", "1001m"], "the sum of min of all elastic quotas is 2501m cpu, the cluster has 2500m", id="more"
        ),
    ],
)
def test_more_is_promised_than_there_is(least: list[object], want: str) -> None:
    nodes = [node("2", os="linux"), node("500m", os="linux"), node("64", os="other"), node("much", os="linux")]
    there = translation.capacity(nodes, {"os": "linux"}, ("cpu",))
    every = [translation.bounds(quota(min={"cpu": each})) for each in least]
    assert translation.overcommitment(every, there) == want
