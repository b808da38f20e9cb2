"""A group of pods as one thing: its pod sets, its end, who is too many, what is wrong with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import TooFewPods, UnlikePods, sort_out
from api import names
from tests.admission.integrations.pods import read, unit, wire

INDEX = {names.POD_GROUP_INDEX_LABEL: "0"}


def test_a_pod_on_its_own_is_one_pod_of_pod_set_main() -> None:
    (pod_set,) = unit(wire("p", annotations={names.REQUIRED_TOPOLOGY: "rack"})).pod_sets()
    assert (pod_set.name, pod_set.count) == ("main", 1)
    assert pod_set.topology_request is not None
    assert pod_set.topology_request.required == "rack"
    assert pod_set.topology_request.pod_index_label == names.POD_GROUP_INDEX_LABEL


def test_each_role_of_a_group_is_a_pod_set() -> None:
    pods = [wire(f"w{i}", group="g", total=3) for i in range(2)] + [wire("ps", group="g", total=3, cpu="4")]
    found = unit(*pods).pod_sets()
    assert [p.name for p in found] == sorted(p.name for p in found)
    assert sorted(p.count for p in found) == [1, 2]


def test_with_fast_admission_one_pod_speaks_for_all() -> None:
    fast = {names.POD_GROUP_FAST_ADMISSION: "true"}
    (pod_set,) = unit(wire("p", group="g", total=5, annotations=fast)).pod_sets()
    assert pod_set.count == 5


def test_a_group_is_not_made_of_too_few() -> None:
    with pytest.raises(TooFewPods, match="'g' group has fewer runnable pods than expected"):
        unit(wire("p", group="g", total=2), wire("r", group="g", total=2, deleted=True)).pod_sets()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        pytest.param(wire("b", group="g", total=3), "total-count", id="another total count"),
        pytest.param(
            wire("b", group="g", total=2, labels={names.QUEUE_NAME_LABEL: "r"}), "queue-name", id="another queue"
        ),
        pytest.param(wire("b", group="g", total=2, labels={names.POD_GROUP_INDEX_LABEL: "-1"}), "-1", id="a bad index"),
    ],
)
def test_pods_that_contradict_each_other_are_no_group(other: dict[str, Any], message: str) -> None:
    with pytest.raises(UnlikePods, match=message):
        unit(wire("a", group="g", total=2), other).pod_sets()


@pytest.mark.parametrize("text", ["", "two", "0", "-1", "1.5", "9" * 40])
def test_a_total_count_that_is_none(text: str) -> None:
    with pytest.raises(UnlikePods, match="total-count"):
        unit(wire("a", group="g", total=text)).pod_sets()


def _ended(phases: tuple[str, ...], annotations: dict[str, str], total: int = 2) -> str | None:
    pods = [
        wire(f"p{i}", group="g", total=total, gated=phase == "", phase=phase or "Pending", annotations=annotations)
        for i, phase in enumerate(phases)
    ]
    end = unit(*pods).finished()
    return end.message if end else None


UNRETRIABLE = {names.RETRIABLE_IN_GROUP: "false"}
SERVING = {names.POD_GROUP_SERVING: "true"}


@pytest.mark.parametrize(
    ("phases", "text", "message"),
    [
        pytest.param(("Succeeded", "Succeeded"), {}, "Pods succeeded: 2/2.", id="all succeeded"),
        pytest.param(("Succeeded", "Running"), {}, None, id="one runs"),
        pytest.param(("Succeeded", "Failed"), {}, None, id="one failed and may be replaced"),
        pytest.param(("Succeeded", "Failed", "Succeeded"), {}, "Pods succeeded: 2/2.", id="one was replaced"),
        pytest.param(("Succeeded", "Failed"), UNRETRIABLE, "Pods succeeded: 1/2.", id="none may be replaced"),
        pytest.param(("Running", "Failed"), UNRETRIABLE, None, id="none may be replaced, one runs"),
        pytest.param(("Succeeded", "Succeeded"), SERVING, None, id="serving never ends"),
    ],
)
def test_when_a_group_has_ended(phases: tuple[str, ...], text: dict[str, str], message: str | None) -> None:
    assert _ended(phases, text) == message


@pytest.mark.parametrize(("phase", "success"), [("Succeeded", True), ("Failed", False)])
def test_a_pod_on_its_own_ends_as_it_says(phase: str, success: bool) -> None:
    pod = wire("p", gated=False, phase=phase)
    pod["status"]["message"] = "done"
    end = unit(pod).finished()
    assert end is not None
    assert (end.message, end.success) == ("done", success)


def test_pods_that_succeeded_give_their_quota_back_by_role_unless_the_group_serves() -> None:
    pods = [wire(f"p{i}", group="g", total=3, gated=False, phase="Succeeded") for i in range(2)]
    (done,) = unit(*pods).reclaimable()
    assert done.count == 2
    pods[0]["metadata"]["annotations"] |= SERVING
    assert unit(*pods).reclaimable() == ()


STATES = st.sampled_from(
    [
        {},
        {"gated": False, "phase": "Running", "node": "n"},
        {"gated": False, "phase": "Succeeded"},
        {"gated": False, "phase": "Failed"},
        {"deleted": True},
        {"deleted": True, "gated": False, "phase": "Running", "node": "n"},
        {"deleted": True, "gated": False, "phase": "Succeeded", "node": "n"},
    ]
)


@given(
    st.lists(st.tuples(STATES, st.integers(0, 59), st.sampled_from("12")), max_size=12),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_never_too_many_and_none_twice(value: list[tuple[dict[str, Any], int, str]], ones: int, twos: int) -> None:
    roles = {cpu: read(wire("p", cpu=cpu)).role for cpu in "12"}
    pods = [
        read(wire(f"p{i}", group="g", total=9, cpu=cpu, created=at, **state))
        for i, (state, at, cpu) in enumerate(value)
    ]
    counts = {roles["1"]: ones, roles["2"]: twos}
    found = sort_out(pods, counts)
    placed = [pod.metadata.name for part in (found.kept, found.excess, found.replaced, found.strange) for pod in part]
    assert len(placed) == len(set(placed))
    waiting = [pod for pod in pods if pod.metadata.name not in placed]
    assert all(pod.gated and not pod.deleted for pod in waiting)
    for role in counts:  # each waits for a pod that is terminating
        leaving = sum(pod.role == role and pod.running and pod.deleted for pod in found.kept)
        assert sum(pod.role == role for pod in waiting) <= leaving
    active = Counter(pod.role for pod in found.kept if pod.counts)
    assert all(active[role] <= most for role, most in counts.items())
    for role in counts:
        kept = [pod for pod in found.kept if pod.role == role]
        if any(pod.role == role for pod in found.replaced):
            assert len(kept) >= counts[role]  # a failed pod is only let go when its place is taken
        spare = [pod for pod in found.excess if pod.role == role]
        assert not any(not s.gated and k.gated for s in spare for k in kept if k.counts)  # those that run stay


def test_a_pod_that_replaces_one_at_once_waits_until_that_one_has_ended() -> None:
    running: dict[str, Any] = {"gated": False, "phase": "Running", "node": "n"}
    lost, other = wire("p0", group="g", total=2, deleted=True, **running), wire("p1", group="g", total=2, **running)
    again, more = (wire(f"p{i}", group="g", total=2, created=i) for i in (50, 51))
    members = sort_out([read(pod) for pod in (lost, other, again, more)], {read(other).role: 2})
    assert [pod.metadata.name for pod in members.kept] == ["p0", "p1"]
    assert [pod.metadata.name for pod in members.excess] == ["p51"]
    lost["status"]["phase"] = "Succeeded"
    members = sort_out([read(pod) for pod in (lost, other, again)], {read(other).role: 2})
    assert [pod.metadata.name for pod in members.excess] == ["p50"], "a pod that has succeeded keeps its place"
    lost["status"]["phase"] = "Failed"
    members = sort_out([read(pod) for pod in (lost, other, again)], {read(other).role: 2})
    assert [pod.metadata.name for pod in members.kept] == ["p1", "p50"]
    assert (members.excess, [pod.metadata.name for pod in members.replaced]) == ((), ["p0"])


def of_set(ordinal: int, created: int, start: int = 0, **state: Any) -> QueuedPod:
    marks = {names.POD_GROUP_INDEX_SOURCE: names.STATEFULSET_POD_INDEX, names.POD_INDEX_OFFSET: str(start)}
    pod = wire(f"s-{ordinal}", group="g", total=2, created=created, annotations=marks, **state)
    pod["metadata"]["labels"][names.STATEFULSET_POD_INDEX] = str(ordinal)
    return read(pod)


@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("state", [{}, {"gated": False, "phase": "Running", "node": "n"}], ids=["waits", "runs"])
def test_what_a_stateful_set_does_not_want_any_more_is_surplus_before_what_it_wants(
    start: int, state: dict[str, Any]
) -> None:
    """Scaled to three and back to two, its third pod is the oldest, and it makes the second one again."""
    pods = [
        of_set(start + 2, 10, start, **state),
        of_set(start, 20, start, gated=False, phase="Running", node="n"),
        of_set(start + 1, 30, start),
    ]
    found = sort_out(pods, {pods[0].role: 2})
    assert [pod.metadata.name for pod in found.excess] == [f"s-{start + 2}"]


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 5000])
def test_an_ordinal_that_cannot_be_read_is_none(text: str) -> None:
    pod = wire("s-0", group="g", annotations={names.POD_GROUP_INDEX_SOURCE: names.STATEFULSET_POD_INDEX})
    pod["metadata"]["labels"][names.STATEFULSET_POD_INDEX] = text
    assert read(pod).ordinal is None
