"""Pending workloads: order, sleep and wake, equals refused at once, backoff, blocking."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.model import (
    Admission,
    ClusterQueue,
    FlavorQuotas,
    PodSet,
    QueueingStrategy,
    Quota,
    ResourceGroup,
    Workload,
)
from admission.engine.queue.cluster_queue import order_of, shape_of
from admission.engine.queue.lines import BYPASSED
from admission.engine.queue.queues import PendingQueues
from admission.engine.reasons import Reason
from tests.budgets import examples

STRICT, BEST = QueueingStrategy.STRICT_FIFO, QueueingStrategy.BEST_EFFORT_FIFO


def workload(key: str, *, queued: float = 0, priority: int = 0, cpu: int = 1, queue: str = "q") -> Workload:
    pod_sets = (PodSet("main", 1, {"cpu": cpu}),)
    return Workload(key, f"uid-{key}", f"ns/{queue}", queue, pod_sets, priority=priority, queued=queued)


def pending(strategy: QueueingStrategy, *workloads: Workload) -> PendingQueues:
    queues = PendingQueues()
    group = ResourceGroup(("cpu",), (FlavorQuotas("f", {"cpu": Quota(10)}),))
    queues.set_queue(ClusterQueue("q", (group,), strategy=strategy))
    for each in workloads:
        queues.put(each)
    return queues


def keys(workloads: list[Workload]) -> list[str]:
    return [each.key for each in workloads]


def head(queues: PendingQueues) -> str | None:
    found = queues.head("q")
    return found.key if found else None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(workload("b", priority=2, queued=9), workload("a", queued=1), id="priority before age"),
        pytest.param(workload("b", queued=1), workload("a", queued=2), id="age before uid"),
        pytest.param(workload("a", queued=1), workload("b", queued=1), id="uid last"),
    ],
)
def test_the_order_of_a_queue(first: Workload, second: Workload) -> None:
    queues = pending(BEST, second, first)
    assert keys(queues.active("q")) == [first.key, second.key]
    assert head(queues) == first.key


def test_best_effort_continues_behind_a_refused_head_and_requeues_it_on_request() -> None:
    queues = pending(BEST, workload("big", queued=1, cpu=9), workload("small", queued=2))
    assert queues.refuse("big", Reason.WAITING_FOR_QUOTA) is False
    assert head(queues) == "small"
    assert keys(queues.inadmissible("q")) == ["big"]
    queues.lines.requeue(["q"])
    assert head(queues) == "big"


def test_strict_fifo_stays_with_its_refused_head() -> None:
    queues = pending(STRICT, workload("big", queued=1, cpu=9), workload("small", queued=2))
    assert queues.refuse("big", Reason.WAITING_FOR_QUOTA) is True
    assert head(queues) is None
    assert keys(queues.active("q")) == ["big", "small"], "it waits at the head of the heap, not among the inadmissible"
    queues.lines.requeue(["q"])
    assert head(queues) == "big"


@pytest.mark.parametrize("change", ["head leaves", "head shrinks", "head comes back", "earlier one comes"])
def test_a_blocked_queue_goes_on_when_its_head_changes(change: str) -> None:
    queues = pending(STRICT, workload("big", queued=1, cpu=9), workload("small", queued=2))
    queues.refuse("big", Reason.WAITING_FOR_QUOTA)
    if change == "head leaves":
        queues.remove("big")
        assert head(queues) == "small"
    elif change == "head shrinks":
        queues.put(workload("big", queued=1, cpu=2))
        assert head(queues) == "big"
    elif change == "head comes back":
        queues.remove("big")
        queues.put(workload("big", queued=1, cpu=9))
        assert head(queues) == "big"
    else:
        queues.put(workload("urgent", queued=3, priority=5))
        assert head(queues) == "urgent"
        queues.remove("urgent")
        assert head(queues) is None, "the parked head is still the one that was refused"


def test_equals_are_refused_at_once_and_each_hears_why_once() -> None:
    queues = pending(BEST, *(workload(name, queued=at) for at, name in enumerate("abc")))
    queues.refuse("a", Reason.EXCEEDS_MAX_QUOTA)
    assert head(queues) is None
    told = queues.take_notices()
    assert [(n.workload.key, n.reason, n.message) for n in told] == [
        ("b", Reason.EXCEEDS_MAX_QUOTA, BYPASSED),
        ("c", Reason.EXCEEDS_MAX_QUOTA, BYPASSED),
    ]
    queues.lines.requeue(["q"])
    queues.refuse("a", Reason.EXCEEDS_MAX_QUOTA)
    assert queues.take_notices() == []


def test_an_equal_that_comes_later_joins_the_sleepers() -> None:
    queues = pending(BEST, workload("a"))
    queues.refuse("a", Reason.WAITING_FOR_QUOTA)
    queues.put(workload("b", queued=1))
    queues.put(workload("c", queued=2, priority=1))
    assert head(queues) == "c", "another priority is another class"
    assert [n.workload.key for n in queues.take_notices()] == ["b"]
    queues.lines.requeue(["q"])
    queues.remove("c")
    assert [head(queues), keys(queues.active("q"))] == ["a", ["a", "b"]]


def test_our_own_status_writes_do_not_requeue_a_workload() -> None:
    queues = pending(BEST, workload("a"))
    queues.refuse("a", Reason.WAITING_FOR_QUOTA)
    queues.put(replace(workload("a"), evicted=True))
    assert head(queues) is None
    queues.put(workload("a", cpu=2))
    assert head(queues) == "a", "a change of what it asks for does"


def test_backoff_ends_by_the_clock_that_comes_in() -> None:
    queues = pending(BEST, replace(workload("a"), not_before=50.0))
    queues.due(49.9)
    assert [head(queues), queues.next_due(), keys(queues.inadmissible("q"))] == [None, 50.0, ["a"]]
    queues.lines.requeue(["q"])
    assert head(queues) is None, "waking does not shorten a backoff"
    queues.due(50.0)
    assert [head(queues), queues.next_due()] == ["a", None]


def test_a_backoff_without_end_asks_for_no_timer() -> None:
    queues = pending(BEST, replace(workload("a"), not_before=float("inf")))
    assert [head(queues), queues.next_due(), keys(queues.inadmissible("q"))] == [None, None, ["a"]]
    queues.put(workload("a"))
    assert head(queues) == "a"


@pytest.mark.parametrize("strategy", [BEST, STRICT])
@pytest.mark.parametrize(
    ("reason", "helped"),
    [
        (Reason.WAITING_FOR_QUOTA, True),
        (Reason.TOPOLOGY_PLACEMENT_FAILED, True),
        (Reason.EXCEEDS_MAX_QUOTA, False),
        (Reason.NO_MATCHING_FLAVOR, False),
    ],
)
def test_capacity_requeues_only_workloads_that_it_can_help(
    strategy: QueueingStrategy, reason: Reason, helped: bool
) -> None:
    queues = pending(strategy, workload("a"))
    queues.refuse("a", reason)
    queues.lines.requeue(["q"], capacity_only=True)
    assert head(queues) == ("a" if helped else None)
    queues.lines.requeue(["q"])
    assert head(queues) == "a"


def test_a_blocked_workload_gets_a_reason_and_blocks_no_other() -> None:
    reason = ("Misconfigured", "workload namespace doesn't match ClusterQueue selector")
    queues = pending(STRICT, replace(workload("a"), blocked=reason), workload("b", queued=1))
    assert head(queues) == "b"
    [notice] = queues.take_notices()
    assert (notice.workload.key, notice.reason, notice.message) == ("a", Reason.MISCONFIGURED, reason[1])
    queues.put(workload("a"))
    assert head(queues) == "a"


def test_an_admitted_workload_is_not_pending() -> None:
    queues = pending(BEST, workload("a"), workload("b", queued=1))
    queues.put(replace(workload("a"), admission=Admission("q", ())))
    assert [head(queues), "a" in queues, queues.count("q")] == ["b", False, 1]


def test_queues_that_freed_capacity_of_a_flavor_could_help() -> None:
    queues = pending(BEST)
    other = ResourceGroup(("cpu",), (FlavorQuotas("g", {"cpu": Quota(1)}),))
    queues.set_queue(ClusterQueue("r", (other,)))
    assert queues.lines.queues_of(["f"]) == {"q"}
    assert queues.lines.queues_of(["f", "g", "unknown"]) == {"q", "r"}
    queues.set_queue(ClusterQueue("q", (other,)))
    assert queues.lines.queues_of(["f"]) == set()


# ---- against a model that sorts everything anew

shapes = st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 3), st.integers(0, 1), st.integers(1, 2))
moves = st.one_of(
    st.tuples(st.just("put"), shapes),
    st.tuples(st.just("remove"), st.sampled_from("abcdefgh")),
    st.tuples(st.just("refuse"), st.none()),
    st.tuples(st.just("wake"), st.none()),
)


class Plain:
    """The same rules over a plain dictionary."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.all: dict[str, Workload] = {}
        self.refused: set[object] = set()

    def mark(self, each: Workload) -> object:
        return order_of(each) if self.strict else shape_of(each)

    def head(self) -> str | None:
        line = sorted(self.all.values(), key=order_of)
        awake = [each for each in line if self.mark(each) not in self.refused]
        if self.strict:
            return line[0].key if line and line[0] in awake else None
        return awake[0].key if awake else None

    def refuse(self, each: Workload) -> None:
        """A strict line remembers one refusal only, its head's."""
        self.refused = {self.mark(each)} if self.strict else self.refused | {self.mark(each)}

    def remove(self, key: str) -> None:
        gone = self.all.pop(key, None)
        if gone is not None and (self.strict or all(self.mark(e) != self.mark(gone) for e in self.all.values())):
            self.refused.discard(self.mark(gone))

    def put(self, each: Workload) -> None:
        if each != self.all.get(each.key):
            self.remove(each.key)
            self.all[each.key] = each


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from([STRICT, BEST]), st.lists(moves, max_size=40))
def test_any_history_gives_the_head_that_sorting_gives(
    strategy: QueueingStrategy, history: list[tuple[str, object]]
) -> None:
    queues, plain = pending(strategy), Plain(strategy is STRICT)
    for move in history:
        match move:
            case ("put", (str(key), int(queued), int(priority), int(cpu))):
                queues.put(workload(key, queued=queued, priority=priority, cpu=cpu))
                plain.put(workload(key, queued=queued, priority=priority, cpu=cpu))
            case ("remove", str(key)):
                queues.remove(key)
                plain.remove(key)
            case ("refuse", _) if (found := queues.head("q")) is not None:
                queues.refuse(found.key, Reason.WAITING_FOR_QUOTA)
                plain.refuse(found)
            case ("wake", _):
                queues.lines.requeue(["q"])
                plain.refused.clear()
        assert head(queues) == plain.head()
        assert [each.key for each in queues.heads()] == ([plain.head()] if plain.head() else [])
        assert sorted(keys(queues.active("q") + queues.inadmissible("q"))) == sorted(plain.all)
        assert queues.count("q") == len(plain.all)


def test_heads_come_by_the_name_of_their_queue() -> None:
    """A set's order depends on the process: the same queues would be decided on in another order after a restart."""
    queues, names = PendingQueues(), [f"q{n:02d}" for n in range(40)]
    for name in reversed(names):
        group = ResourceGroup(("cpu",), (FlavorQuotas("f", {"cpu": Quota(10)}),))
        queues.set_queue(ClusterQueue(name, (group,)))
        queues.put(workload(f"w-{name}", queue=name))
    assert [each.cluster_queue for each in queues.heads()] == names
