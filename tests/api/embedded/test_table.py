"""Rows, history and the view of an earlier moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.embedded.table import StoredObject, Table

Step = tuple[str, bool]
STEPS = st.lists(st.tuples(st.sampled_from(["a/x", "a/y", "b/x", "ab/x", "a-b/z", "b/a"]), st.booleans()), max_size=30)


def _record(key: str, rv: int) -> StoredObject:
    namespace, _, name = key.partition("/")
    return StoredObject(key, {"metadata": {"name": name, "namespace": namespace, "resourceVersion": str(rv)}}, rv)


def _seen(table: Table, rv: int, namespace: str | None = None, after: str = "") -> list[tuple[str, int]]:
    keys, record_at = table.at(rv, namespace, after)
    return [(key, record_at(key).rv) for key in keys]


@given(STEPS)
def test_every_moment_that_history_reaches_can_be_seen_again(steps: list[Step]) -> None:
    table, moments = Table(history=100), {0: list[tuple[str, int]]()}
    for rv, (key, keep) in enumerate(steps, start=1):
        if keep:
            table.put(_record(key, rv))
        elif key in table.records:
            table.remove(_record(key, rv))
        moments[rv] = sorted((key, record.rv) for key, record in table.records.items())
    for rv, expected in moments.items():
        assert _seen(table, rv) == expected
        for namespace in ("a", "ab", "b"):
            inside = [entry for entry in expected if entry[0].startswith(f"{namespace}/")]
            assert _seen(table, rv, namespace) == inside
            assert _seen(table, rv, namespace, "a/x") == [entry for entry in inside if entry[0] > "a/x"]


def test_a_full_history_moves_its_floor() -> None:
    table = Table(history=2)
    for rv in range(1, 5):
        table.put(_record("a/x", rv))
    assert table.floor == 2
    assert [event.record.rv for event in table.since(2)] == [3, 4]
    table.compact(4)
    assert (table.floor, table.since(4)) == (4, [])


def test_bytes_are_made_once_and_typed_on_demand() -> None:
    record = StoredObject("a/x", {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}, 1)
    assert record.body == b'{"metadata":{"name":"x"}}'
    assert record.body is record.body
    assert record.typed("Thing", "g/v2") == b'{"kind":"Thing","apiVersion":"g/v2","metadata":{"name":"x"}}'
