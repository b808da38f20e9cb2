"""The first workload of a queue that past usage orders is the one that a look at all of them finds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from admission.engine.model import Admission, PodSetAdmission, Workload
from admission.engine.queue.cluster_queue import EquivalenceClass, QueueLine, order_of
from admission.engine.queue.past_usage import PastUsage, UsageRecord, UsageRules
from admission.engine.queue.positions import Order
from admission.engine.reasons import Reason
from tests.admission.engine.builders import workload
from tests.budgets import examples

NAMES = tuple(f"ns/{letter}" for letter in "abcdef")
RULES = (UsageRules(half_life=100.0), UsageRules(half_life=50.0, weights={"cpu": 3.0}))


def _plain(line: QueueLine) -> Order | None:
    firsts = [(group.line, group.first()) for group in line.classes.values() if group.refused is None]
    counts = line.within != "LowerOrNewerEqualPriority"
    positions = [
        (priority, line.past.usage(name) if counts and line.past is not None else 0.0, first)
        for (priority, name), first in firsts
        if first is not None
    ]
    return min(positions)[2] if positions else None


def _waiting(random: Random, number: int) -> Workload:
    made = workload(
        f"w{number}", random.randint(1, 3), queued=float(random.randint(0, 9)), priority=random.randint(0, 1)
    )
    return replace(made, queue=random.choice(NAMES))


class _Scene:
    """One queue, its workloads by key, and those that hold quota."""

    def __init__(self, random: Random) -> None:
        self.random, self.past = random, PastUsage(RULES[0])
        within = random.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority"))
        self.line = QueueLine(past=self.past, within=within)
        self.waiting: dict[str, tuple[Workload, EquivalenceClass]] = {}
        self.running: dict[str, Workload] = {}
        self.now = 0.0

    def step(self, number: int) -> None:
        self.now += self.random.randint(0, 20)
        name = self.random.choice(NAMES)
        match self.random.choice(
            ("join", "join", "leave", "refuse", "requeue", "start", "end", "queue", "queue", "queue")
        ):
            case "join":
                one = _waiting(self.random, number)
                self.waiting[one.key] = one, self.line.join(one)
            case "leave" if self.waiting:
                key = self.random.choice(sorted(self.waiting))
                self.line.leave(key, self.waiting.pop(key)[1])
            case "refuse" if head := self.line.head():
                one, group = self.waiting[head[-1]]
                self.line.refuse(order_of(one), group, Reason.WAITING_FOR_QUOTA)
            case "requeue":
                self.line.requeue(capacity_only=False)
            case "start" if head := self.line.head():
                one, group = self.waiting.pop(head[-1])
                self.line.leave(one.key, group)
                used = PodSetAdmission("main", {"cpu": "fa"}, {"cpu": 1000 * self.random.randint(1, 3)}, 1)
                self.past.enter(one, Admission("q", (used,)), self.now)
                self.running[one.key] = one
            case "end" if self.running:
                key = self.random.choice(sorted(self.running))
                if self.random.random() < 0.5:
                    self.past.written(self.running[key], self.now)
                else:
                    self.past.release(self.running.pop(key).key)
            case _:
                self._queue_changes(name)

    def _queue_changes(self, name: str) -> None:
        match self.random.choice(("weight", "sample", "drop", "restore", "put", "rules")):
            case "weight":
                self.past.set_weight(name, self.random.choice((0.0, 0.5, 1.0)))
            case "sample":
                self.past.sample(name, self.now)
            case "drop":
                self.past.drop(name)
            case "restore":
                self.past.restore(name, {"cpu": 1000.0 * self.random.randint(1, 5)}, self.now, again=True)
            case "put":
                self.past.put(UsageRecord(name, consumed={"cpu": 500.0 * self.random.randint(1, 5)}, updated=self.now))
            case _ if self.random.random() < 0.2:
                self.past.rules = self.random.choice(RULES)


def test_the_head_is_the_first_of_all() -> None:
    heads: set[tuple[int, Order | None]] = set()
    for seed in range(examples(100)):
        scene = _Scene(Random(seed))
        for number in range(60):
            scene.step(number)
            head = scene.line.head()
            assert head == _plain(scene.line), f"seed {seed}, step {number}"
            heads.add((seed, head))
    assert len(heads) > 5 * examples(100)


def test_a_change_of_many_local_queues_that_are_gone_is_not_missed() -> None:
    past = PastUsage(RULES[0])
    line = QueueLine(past=past)
    for name, consumed in (("ns/a", 1.0), ("ns/b", 2.0)):
        past.restore(name, {"cpu": consumed}, 0.0)
        line.join(replace(workload(name[3:]), queue=name))
    assert (line.head() or ("",))[-1] == "a"
    past.restore("ns/a", {"cpu": 3.0}, 0.0, again=True)
    for number in range(5000):
        past.set_weight(f"ns/gone{number}", 1.0)
        past.drop(f"ns/gone{number}")
    assert len(past._changes) < 2000
    assert (line.head() or ("",))[-1] == "b"
