"""What the list says of each workload, and which part of it a query gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.model import Workload
from admission.engine.reasons import Reason
from admission.visibility.pending import DEFAULT_LIMIT, MOST, LocalQueueName, Page, in_line, page, summary
from api import workloads as api
from api.errors import InvalidObject

Row = tuple[str, int, float, str]
"""Name, priority, time and LocalQueue of a workload; names contain a namespace."""


def engine(row: Row, queue: str = "cq", blocked: tuple[str, str] | None = None) -> Workload:
    key, priority, queued, _ = row
    return Workload(
        key=key, queue="", cluster_queue=queue, priority=priority, queued=queued, uid=key, pod_sets=(), blocked=blocked
    )


def wire(row: Row) -> api.Workload:
    namespace, _, name = row[0].partition("/")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return api.Workload.from_wire(
        {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": {"queueName": row[3], "priority": row[1]}}
    )


def listed(rows: list[Row], part: Page | None = None, only: LocalQueueName | None = None) -> list[dict[str, Any]]:
    known = {row[0]: wire(row) for row in rows}
    body = summary("v1beta2", [engine(row) for row in rows], known.get, part or Page(), only)
    found: dict[str, Any] = json.loads(body)
    assert (found["kind"], found["apiVersion"]) == ("PendingWorkloadsSummary", "visibility.kueue.x-k8s.io/v1beta2")
    items: list[dict[str, Any]] = found["items"]
    return items


ROWS: list[Row] = [
    ("a/late", 0, 9.0, "q"),
    ("b/first", 5, 8.0, "q"),
    ("a/second", 0, 1.0, "q"),
    ("a/other", 0, 5.0, "r"),
]


def test_an_item_is_kueues() -> None:
    assert listed([("a/w", 3, 1.0, "q")]) == [
        {
            "metadata": {
                "name": "w",
                "namespace": "a",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}],
            },
            "priority": 3,
            "localQueueName": "q",
            "positionInClusterQueue": 0,
            "positionInLocalQueue": 0,
        }
    ]


def test_a_local_queue_of_the_same_name_elsewhere_is_another() -> None:
    places = [(i["metadata"]["name"], i["positionInClusterQueue"], i["positionInLocalQueue"]) for i in listed(ROWS)]
    assert places == [("first", 0, 0), ("second", 1, 0), ("other", 2, 0), ("late", 3, 1)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from("xy"), st.sampled_from("qr")), max_size=9),
    st.integers(0, 10),
    st.integers(0, 10),
    st.sampled_from([None, LocalQueueName("x", "q")]),
)
def test_pages_together_are_the_whole_in_order(
    given_rows: list[tuple[int, int, str, str]], offset: int, limit: int, only: LocalQueueName | None
) -> None:
    rows: list[Row] = [(f"{ns}/w{n}", p, float(t), q) for n, (p, t, ns, q) in enumerate(given_rows)]
    whole = [item["metadata"]["name"] for item in listed(rows, Page(0, MOST), only)]
    wanted = [row for row in rows if only is None or (row[0][0], row[3]) == (only.namespace, only.name)]
    assert whole == [row[0][2:] for row in sorted(wanted, key=lambda row: (-row[1], row[2], row[0]))]
    assert [i["metadata"]["name"] for i in listed(rows, Page(offset, limit), only)] == whole[offset : offset + limit]


def test_thousands_of_workloads_are_whole() -> None:
    """They are sorted and encoded in parts."""
    rows: list[Row] = [(f"a/w{n:05}", 0, float(n * 7919 % 3001), "q") for n in range(3001)]
    found = listed(rows, Page(0, MOST))
    assert [item["positionInLocalQueue"] for item in found] == list(range(3001))
    assert [item["metadata"]["name"] for item in found] == [row[0][2:] for row in sorted(rows, key=lambda row: row[2])]


@pytest.mark.parametrize(
    ("blocked", "counts"),
    [
        pytest.param(None, True, id="active"),
        pytest.param((Reason.SUSPENDED, ""), True, id="its-queue-is-stopped"),
        pytest.param((Reason.DEACTIVATED, ""), False, id="deactivated"),
        pytest.param((Reason.OWNER_NOT_MANAGED, ""), False, id="never-managed"),
    ],
)
def test_who_never_comes_to_turn_has_no_position(blocked: tuple[str, str] | None, counts: bool) -> None:
    waiting = in_line(iter([engine(ROWS[0], blocked=blocked), engine(ROWS[1], "elsewhere")]), "cq")
    assert [each.key for each in waiting] == (["a/late"] if counts else [])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param({}, Page(0, DEFAULT_LIMIT), id="default"),
        pytest.param({"limit": "0", "offset": "0"}, Page(0, DEFAULT_LIMIT), id="zero-is-default"),
        pytest.param({"limit": "", "offset": ""}, Page(0, DEFAULT_LIMIT), id="empty-is-default"),
        pytest.param({"limit": "7", "offset": "3"}, Page(3, 7), id="given"),
        pytest.param({"limit": "-1", "offset": "-5"}, Page(0, 0), id="negative-is-none"),
        pytest.param({"limit": "999999999"}, Page(0, MOST), id="at-most"),
        pytest.param({"limit": "9223372036854775807"}, Page(0, MOST), id="the-largest-number"),
    ],
)
def test_a_query_names_a_page(query: dict[str, str], expected: Page) -> None:
    assert page(query) == expected


@pytest.mark.parametrize("text", ["ten", "1.5", "١٢", "9223372036854775808", "9" * 5000, " 1", "0x10", "-", "1_0"])
@pytest.mark.parametrize("name", ["limit", "offset"])
def test_what_is_no_number_is_named(name: str, text: str) -> None:
    with pytest.raises(InvalidObject, match=name):
        page({name: text})
