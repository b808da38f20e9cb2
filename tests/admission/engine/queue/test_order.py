"""The order in which workloads are considered is total and stable, and does not depend on who was known first."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.cycle.heads.head_order import ClassicalOrder, Head
from admission.engine.cycle.nomination import Nomination
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Cohort, Gang, QueueingStrategy, Quota, Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.queues import PendingQueues
from tests.admission.engine.builders import CPU, queue, workload
from tests.admission.engine.cycle.round import classical, fair
from tests.budgets import examples

# Few values each, so that most of them are equal in most of what counts; a UID may be missing.
drawn_workloads = st.lists(
    st.builds(
        lambda priority, queued, uid: (priority, queued, uid),
        st.integers(0, 1),
        st.integers(0, 1),
        st.sampled_from(["", "u", "v"]),
    ),
    min_size=2,
    max_size=8,
).map(
    lambda value: [
        replace(workload(f"w{n}", priority=priority, queued=float(queued)), uid=uid)
        for n, (priority, queued, uid) in enumerate(value)
    ]
)

few = settings(max_examples=examples(10))


@few
@given(drawn_workloads, st.randoms())
def test_no_two_are_equal_and_the_order_is_that_of_any_other_arrival(drawn: list[Workload], random: Random) -> None:
    line = sorted(drawn, key=order_of)
    assert all(order_of(a) < order_of(b) for a, b in pairwise(line))
    mixed = list(drawn)
    random.shuffle(mixed)
    queues = PendingQueues()
    queues.set_queue(queue("q", strategy=QueueingStrategy.BEST_EFFORT_FIFO, any=1))
    for each in mixed:
        queues.put(each)
    assert [each.key for each in queues.active("q")] == [each.key for each in line]


@few
@given(drawn_workloads, st.data())
def test_those_that_stay_keep_their_order(drawn: list[Workload], data: st.DataObject) -> None:
    queues = PendingQueues()
    queues.set_queue(queue("q", any=1))
    for each in drawn:
        queues.put(each)
    line = [each.key for each in queues.active("q")]
    gone = data.draw(st.sets(st.sampled_from(line)))
    for key in sorted(gone):
        queues.remove(key)
    queues.lines.requeue(["q"])
    assert [each.key for each in queues.active("q")] == [key for key in line if key not in gone]


@few
@given(drawn_workloads, st.integers(0, 7))
def test_what_belongs_to_one_gang_stands_together(drawn: list[Workload], which: int) -> None:
    first = drawn[which % len(drawn)]
    late = replace(workload("late", priority=first.priority, queued=first.queued), gang=Gang(first.uid))
    line = sorted([*drawn, late], key=order_of)
    between = {
        each.uid for each in line[min(line.index(first), line.index(late)) : max(line.index(first), line.index(late))]
    }
    assert between <= {first.uid, late.uid}


# ---- between queues


def ledger() -> Ledger:
    made = Ledger()
    made.apply(Cohort("all", None, {("any", "cpu"): Quota(20 * CPU)}))
    made.apply(Cohort("some", "all"))
    for n in range(8):
        made.apply(
            replace(queue(f"q{n}", cohort="some" if n % 2 else "all", any=n % 3), weight_milli=1000 * (1 + n % 2))
        )
    return made


def nominated(drawn: list[Workload]) -> list[Nomination]:
    found = []
    for n, each in enumerate(drawn):
        usage = {("any", "cpu"): CPU * (1 + n % 3)}
        found.append(Nomination(replace(each, cluster_queue=f"q{n}"), FlavorAssignment((), usage)))
    return found


@few
@given(drawn_workloads, st.randoms())
def test_the_order_does_not_depend_on_the_order_of_arrival_of_events(drawn: list[Workload], random: Random) -> None:
    book, heads = ledger(), nominated(drawn)
    mixed = list(heads)
    random.shuffle(mixed)
    for by in (classical, lambda expected: fair(expected, book)):
        line = [each.workload.key for each in by(heads)]
        assert [each.workload.key for each in by(mixed)] == line
        assert sorted(line) == sorted(each.workload.key for each in heads)


@few
@given(drawn_workloads, st.randoms())
def test_heads_are_looked_at_in_that_order(drawn: list[Workload], random: Random) -> None:
    heads = [Head.of(replace(each, cluster_queue=f"q{n}")) for n, each in enumerate(drawn)]
    mixed = list(heads)
    random.shuffle(mixed)
    turns = ClassicalOrder(ledger())
    for head in mixed:
        turns.enter(head)
    line = []
    while (found := turns.next()) is not None:
        line.append(found)
        turns.leave(found)
    assert line == sorted(heads, key=lambda head: head.order)
