"""Gangs and groups under any arrival, death and end of their members, with crashes in between.

Whatever happens: no gang runs below its minimum for longer than its timeout, no capacity is held by a gang that cannot start,
and of gangs that wait none waits for another one: each of them would not fit, or lacks pods, or is in its backoff. Who is
evicted gives its quota back, pods that wait are not ended for what became of others, a gang with its pods has a Workload.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from admission.controllers.pods.gangs.gang import BACKOFF, DEFAULT_SCHEDULE_TIMEOUT, GangTerms, stopped
from admission.integrations.pods.gang import MatchPolicy, PodGang
from api.groups import PodGroup
from api.meta import find_condition, is_true, parse_time
from api.names import ADMITTED, EVICTED, FINISHED, GANG, GANG_BOUND, GANG_MADE, QUOTA_RESERVED
from tests.admission.controllers.pods.gang_simulation import GangSimulation
from tests.budgets import quick

PAIR, CROSS = ("ns/c", "ns/d"), ("ns/e", "ns/f")
GANGS = {
    gang.name: gang
    for gang in (
        PodGang("a", 3),
        PodGang("b", 4, MatchPolicy.ONLY_WAITING),
        PodGang("c", 2, MatchPolicy.WAITING_RUNNING_SUCCEED, PAIR),
        PodGang("d", 3, groups=PAIR),
        PodGang("e", 1, MatchPolicy.ONCE_SATISFIED, CROSS),
        PodGang("f", 3, groups=CROSS),
    )
}
HIGH = ("e", "f")
CPUS = 7
gangs = st.sampled_from(sorted(GANGS))
picks = st.integers(0, 30)


class GangMachine(RuleBasedStateMachine):
    """Six gangs, four of them in two groups, on fewer cpus than any three of them need; the last group evicts others."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GangSimulation(CPUS, HIGH)
        self.below: dict[str, float] = {}
        for name, gang in GANGS.items():
            self.group(name, gang.minimum or 1)

    def group(self, name: str, minimum: int) -> None:
        meta = {"name": name, "namespace": "ns", "uid": f"group-{name}", "labels": {GANG_MADE: "true"}}
        timeout = int(DEFAULT_SCHEDULE_TIMEOUT)
        self.world.groups[name] = PodGroup.from_wire(
            {"metadata": meta, "spec": {"minMember": minimum, "scheduleTimeoutSeconds": timeout}}
        )

    def picked(self, pick: int) -> str:
        names = sorted(self.world.pods)
        return names[pick % len(names)]

    def settled(self, crash_after: int | None = None) -> None:
        self.world.settle(crash_after)

    # ---- what happens

    @rule(gang=gangs, count=st.integers(1, 4), crash=st.none() | st.integers(0, 2))
    def pods_come(self, gang: str, count: int, crash: int | None) -> None:
        for _ in range(count):
            if sum(pod.group == gang for pod in self.world.pods.values()) < 6:
                self.world.create(GANGS[gang])
        self.settled(crash)

    @precondition(lambda self: self.world.pods)
    @rule(pick=picks)
    def a_pod_is_deleted(self, pick: int) -> None:
        self.world.delete(self.picked(pick))
        self.settled()

    @rule(gang=gangs, count=st.integers(1, 4))
    def its_pods_are_exchanged(self, gang: str, count: int) -> None:
        self.world.exchange(GANGS[gang], count)
        self.settled()

    @precondition(lambda self: self.world.workloads)
    @rule(pick=picks)
    def a_workload_is_deleted(self, pick: int) -> None:
        keys = sorted(self.world.workloads)
        self.world.delete_workload(keys[pick % len(keys)])
        self.settled()

    @precondition(lambda self: any(pod.running for pod in self.world.pods.values()))
    @rule(pick=picks, phase=st.sampled_from(["Failed", "Succeeded"]), crash=st.none() | st.integers(0, 1))
    def a_pod_ends(self, pick: int, phase: str, crash: int | None) -> None:
        running = sorted(name for name, pod in self.world.pods.items() if pod.running)
        self.world.end(running[pick % len(running)], phase)
        self.settled(crash)

    @precondition(lambda self: self.world.pods)
    @rule(pick=picks)
    def the_scheduler_dislikes_one(self, pick: int) -> None:
        self.world.disliked.add(self.picked(pick))

    @rule(gang=gangs, minimum=st.integers(1, 4))
    def the_minimum_is_changed(self, gang: str, minimum: int) -> None:
        self.group(gang, minimum)
        self.settled()

    @rule(gang=gangs)
    def the_pod_group_is_deleted(self, gang: str) -> None:
        self.world.groups.pop(gang, None)
        self.settled()

    @rule()
    def the_controller_restarts(self) -> None:
        self.world.restart()
        self.settled()

    @rule(seconds=st.sampled_from([1, 11, 200, 700]))
    def time_passes(self, seconds: int) -> None:
        for _ in range(min(seconds, 12)):
            self.world.now += 1
            self.settled()
            self.short_of_pods()
        self.world.now += max(0, seconds - 12)
        if seconds > 12:
            self.below.clear()  # nobody looked meanwhile
        self.settled()

    # ---- what holds

    def _taken(self, by: tuple[str, ...] | None = None) -> int:
        """By everybody, or by these gangs and their late members."""
        if by is None:
            return sum(self.world.state.ledger.quota.usage("q").values()) // 1000
        return sum(
            pod_set.count
            for workload in self.world.workloads.values()
            if workload.metadata.annotations[GANG] in by
            and is_true(workload.status.conditions, QUOTA_RESERVED)
            and not is_true(workload.status.conditions, FINISHED)
            for pod_set in workload.spec.pod_sets
        )

    def minimum(self, gang: str) -> int:
        group = self.world.groups.get(gang)
        return (group.spec.min_member if group else None) or GANGS[gang].minimum or 1

    @invariant()
    def the_books_hold_no_more_than_there_is(self) -> None:
        assert self._taken() <= CPUS

    @invariant()
    def short_of_pods(self) -> None:
        for gang in GANGS:
            workload = self.world.workloads.get(f"ns/{gang}")
            mine = [pod for pod in self.world.pods.values() if pod.group == gang]
            alive = sum(pod.running or pod.succeeded for pod in mine)
            started = workload is not None and is_true(workload.status.conditions, ADMITTED)
            over = workload is not None and is_true(workload.status.conditions, FINISHED)
            whole = workload is not None and is_true(
                workload.status.conditions, GANG_BOUND
            )  # the limit was for its start
            timed = gang in self.world.groups and not whole  # without its PodGroup, a gang of a queue has no time limit
            idle = not any(pod.running for pod in mine)
            if not (started and timed) or over or alive >= self.minimum(gang) or idle:
                self.below.pop(gang, None)
                continue
            since = self.below.setdefault(gang, self.world.now)
            assert self.world.now - since <= DEFAULT_SCHEDULE_TIMEOUT + 1, (
                f"{gang} runs below its minimum: {self.world.story()}"
            )

    @invariant()
    def nobody_holds_what_he_cannot_use(self) -> None:
        for key, workload in self.world.workloads.items():
            states = workload.status.conditions
            if is_true(states, QUOTA_RESERVED) and not is_true(states, FINISHED):
                assert is_true(states, ADMITTED), f"{key} holds quota and does not start: {self.world.story()}"

    @invariant()
    def who_is_evicted_gives_its_quota_back(self) -> None:
        for key, workload in self.world.workloads.items():
            states = workload.status.conditions
            keeps = is_true(states, QUOTA_RESERVED) and not is_true(states, FINISHED)
            assert not (keeps and is_true(states, EVICTED)), f"{key} keeps its quota: {self.world.story()}"

    @invariant()
    def nobody_is_ended_who_only_waits(self) -> None:
        assert not self.world.wronged, self.world.story()

    @invariant()
    def who_has_its_pods_has_a_workload(self) -> None:
        for gang in GANGS:
            own = self.world.late_workloads(gang)
            stops = self.world.known.stops(f"ns/{gang}", None)
            if stopped(GangTerms(gang, None, stops=stops), self.world.now)[1]:
                continue  # its next try is still to come
            there = [pod for pod in self.world.pods.values() if pod.group == gang and pod.gated and pod.lasting]
            if sum(not own[pod.key] for pod in there) >= self.minimum(gang):
                assert f"ns/{gang}" in self.world.workloads, f"{gang} hangs: {self.world.story()}"

    @invariant()
    def nobody_waits_without_need(self) -> None:
        free = CPUS - self._taken()
        for names in (("a",), ("b",), ("c", "d"), ("e", "f")):
            found = [self.world.workloads.get(f"ns/{name}") for name in names]
            if any(w is None or not self._ready(w) for w in found):
                continue
            needed = sum(pod_set.count for w in found if w is not None for pod_set in w.spec.pod_sets)
            room = CPUS - self._taken(HIGH) if names == HIGH else free
            assert needed > room, f"{names} wait, {room} is free: {self.world.story()}"

    @invariant()
    def who_comes_late_to_a_gang_of_a_group_joins_it(self) -> None:
        waits = {key: w for key, w in self.world.workloads.items() if self._late(key) and self._ready(w)}
        room = CPUS - self._taken()
        assert not waits or room < 1, f"{sorted(waits)}: {self.world.story()}"

    def _late(self, key: str) -> bool:
        return key.partition("/")[2] not in GANGS

    def _ready(self, workload: Any) -> bool:
        states = workload.status.conditions
        lacking = find_condition(states, "WaitingForReplacementPods")
        at = parse_time(workload.status.requeue_state.requeue_at) if workload.status.requeue_state else None
        return (
            not is_true(states, QUOTA_RESERVED)
            and not is_true(states, FINISHED)
            and not (lacking is not None and lacking.status == "True")
            and not (at is not None and at > self.world.now)
            and not (is_true(states, EVICTED) and any(p.running for p in self.world.pods.values()))
        )


def _run(examples: int, steps: int) -> None:
    case: Any = GangMachine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    case().runTest()


def test_any_sequence_of_arrivals_deaths_and_ends() -> None:
    assert BACKOFF.base >= 1
    _run(quick(8), 20)


@pytest.mark.long
def test_any_long_sequence_of_arrivals_deaths_and_ends() -> None:
    _run(600, 50)
