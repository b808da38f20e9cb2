"""Our own writes are seen before the informers show them, and never after something newer."""

from __future__ import annotations

from typing import Any

from admission.controllers.watch.caches import ExpectedWorkloads, MutationCache


def version(number: int, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": "j", "namespace": "ns", "uid": uid, "resourceVersion": str(number)}}


def test_an_answer_counts_while_the_copy_is_older() -> None:
    latest: MutationCache[dict[str, Any]] = MutationCache()
    latest.note("ns/j", version(1), version(2))
    assert latest.of("ns/j", version(1)) == version(2)
    assert latest.of("ns/j", version(2)) == version(2)


def test_answers_to_answers_count_too() -> None:
    latest: MutationCache[dict[str, Any]] = MutationCache()
    latest.note("ns/j", version(1), version(2))
    latest.note("ns/j", version(2), version(3))
    assert latest.of("ns/j", version(1)) == version(3)
    assert latest.of("ns/j", version(2)) == version(3)


def test_a_change_by_another_client_ends_it() -> None:
    latest: MutationCache[dict[str, Any]] = MutationCache()
    latest.note("ns/j", version(1), version(2))
    assert latest.of("ns/j", version(4)) == version(4)
    assert latest.of("ns/j", version(1)) == version(1)


def test_an_answer_that_comes_after_the_end_of_its_object_is_not_kept() -> None:
    latest: MutationCache[dict[str, Any]] = MutationCache()
    latest.forget("ns/j", version(2, "first"))
    latest.note("ns/j", version(1, "first"), version(2, "first"))
    assert latest.of("ns/j", version(1, "first")) == version(1, "first")
    latest.note("ns/j", version(3, "second"), version(4, "second"))
    assert latest.of("ns/j", version(3, "second")) == version(4, "second"), "another one of the same name"


def test_a_created_workload_is_expected_until_it_shows_or_patience_ends() -> None:
    now = 0.0
    expected = ExpectedWorkloads(5.0, lambda: now)
    assert expected.remaining("job") is None
    expected.expect("job", "ns/w")
    expected.seen("job", "ns/other")
    now = 2.0
    assert expected.remaining("job") == 3.0
    expected.seen("job", "ns/w")
    assert expected.remaining("job") is None
    expected.expect("job", "ns/w")
    now = 7.0
    assert expected.remaining("job") is None
