"""Series of queues and cohorts go with them, and come back when they are counted again."""

from __future__ import annotations

import itertools

import pytest
from prometheus_client import Counter, Histogram, generate_latest

from api.kube.owned_series import OwnerKind, keep_only, owned

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """Of a metric that no other test has."""
    return f"stowage_test_{next(_numbers)}"


def _lines(name: str) -> list[str]:
    """The page's lines of the metric, without the moments at which its series were made."""
    lines = generate_latest().decode().splitlines()
    return [line for line in lines if line.startswith(name) and "_created{" not in line]


@pytest.mark.parametrize(
    ("labels", "kind", "values", "owner"),
    [
        pytest.param(("cluster_queue", "reason"), OwnerKind.CLUSTER_QUEUE, ("cq", "x"), "cq", id="cluster-queue"),
        pytest.param(("reason", "cluster_queue"), OwnerKind.CLUSTER_QUEUE, ("x", "cq"), "cq", id="in-any-place"),
        pytest.param(("preempting_cluster_queue",), OwnerKind.PREEMPTING_QUEUE, ("cq",), "cq", id="preempting"),
        pytest.param(
            ("name", "namespace", "reason"), OwnerKind.LOCAL_QUEUE, ("lq", "ns", "x"), "ns/lq", id="local-queue"
        ),
        pytest.param(("cohort",), OwnerKind.COHORT, ("all",), "all", id="cohort"),
        pytest.param(("name", "cluster_queue"), OwnerKind.CLUSTER_QUEUE, ("gate", "cq"), "cq", id="a-name-of-else"),
    ],
)
def test_series_go_with_their_owner(
    name: str, labels: tuple[str, ...], kind: OwnerKind, values: tuple[str, ...], owner: str
) -> None:
    counter = owned(Counter, name, "text", labels)
    counter.labels(*values).inc()
    keep_only({kind: {owner}})
    assert [line.rpartition(" ")[2] for line in _lines(name)] == ["1.0"]
    keep_only({kind: {"another"}})
    assert _lines(name) == []
    counter.labels(*values).inc()
    assert [line.rpartition(" ")[2] for line in _lines(name)] == ["1.0"], "counted from nothing again"


def test_all_series_of_the_owner_go_and_no_others(name: str) -> None:
    histogram = owned(Histogram, name, "text", ("cluster_queue", "reason"), buckets=(1,))
    for queue, reason in itertools.product(("old", "new"), ("a", "b")):
        histogram.labels(queue, reason).observe(0.5)
    keep_only({OwnerKind.CLUSTER_QUEUE: {"new"}})
    assert len(_lines(name)) == 2 * len(("le=1", "le=+Inf", "count", "sum"))
    assert not [line for line in _lines(name) if '"old"' in line]


def test_kinds_that_are_not_seen_keep_theirs(name: str) -> None:
    counter = owned(Counter, name, "text", ("cohort",))
    counter.labels("all").inc()
    keep_only({OwnerKind.CLUSTER_QUEUE: ()})
    assert len(_lines(name)) == 1
