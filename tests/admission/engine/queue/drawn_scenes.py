"""Scenes of any modes at once: queues, cohorts, nodes and workloads that come, change and go, as the feed tells of them.

A cycle runs only where an event or the last cycle asks for one, or a time is due, as in the controller.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Admit, Decision, Evict, Preempt
from admission.engine.model import (
    ClusterQueue,
    Cohort,
    Event,
    Flavor,
    FlavorQuotas,
    FungibilityPolicy,
    Gang,
    Node,
    ObjectRemoved,
    PreemptionPolicy,
    QueueingStrategy,
    Quota,
    RemovedKind,
    ResourceGroup,
    SpareRule,
    StopPolicy,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.past_usage import UsageRules
from admission.engine.quota.fairness import FairSharingRules
from admission.world.world import World
from tests.admission.engine.builders import CPU, HOST, RACK, host, queue, racks, workload

QUEUES, PLAIN, PLACED = "abcd", "plain", "placed"
NODES = tuple(f"n{number}" for number in range(6))
CYCLES = 40
"""After one event the cycles must have come to rest by then."""
WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
HOUR, SOON = 3600.0, 5.0
MOST_WAITING = 7


class Scene:
    """One cluster. `leaving`: evicted workloads that have not stopped yet."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.world, self.due = World(now=1000.0), True
        self.world.sharing = FairSharingRules() if dice.random() < 0.3 else None
        self.by_usage = self.world.sharing is None and dice.random() < 0.25
        if self.by_usage:
            self.world.queues.past.rules = UsageRules(half_life=HOUR, interval=HOUR)
        self.leaving: list[str] = []
        self.serial = 0
        self.log: list[str] = []
        self.names = QUEUES[: dice.randint(1, 4)]
        self.parents: dict[str, str | None] = {"low": dice.choice((None, "top")), "top": None}
        self.flavors = dice.choice(((PLAIN,), (PLACED,), (PLAIN, PLACED)))
        for event in self._beginning():
            self._apply(event)
        self.rest()

    def _beginning(self) -> list[Event]:
        dice = self.dice
        spare = SpareRule(1, dice.choice((2, 3)), RACK) if dice.random() < 0.2 else None
        made: list[Event] = [Flavor(PLAIN), replace(racks(PLACED), spare=spare)]
        self.shared = {name: Cohort(name, parent) for name, parent in self.parents.items()}
        made += self.shared.values()
        made += [self._node(name) for name in NODES]
        self.cohorts = {name: dice.choice((None, "low", "low", "top")) for name in self.names}
        return made + [self._queue(name) for name in self.names]

    # ---- as the controller goes on

    def _apply(self, event: Event) -> None:
        self.due |= self.world.state.apply(event)

    def rest(self) -> None:
        """Runs the cycles that are asked for."""
        queues = self.world.queues
        for _ in range(CYCLES):
            at = queues.next_due()
            if not self.due and (at is None or at > self.world.now + SOON):
                return
            self.world.now = max(self.world.now, at or 0.0) if not self.due else self.world.now
            self.decided(self.cycle())
        raise AssertionError(f"the cycles go on: {self.log[-8:]}")

    def cycle(self) -> CycleReport:
        """One cycle."""
        return self.world.cycle()

    def decided(self, report: CycleReport) -> None:
        self.due = report.more
        assert not report.undecided, report.undecided
        for decision in report.decisions:
            self.log.append(f"  {brief(decision)}")
            match decision:
                case Admit(workload=key):
                    self._admitted(key)
                case Preempt(victims=victims):
                    for victim in victims:
                        self._evict(victim.workload)
                case Evict(workload=key):
                    self._evict(key)

    def _admitted(self, key: str) -> None:
        one = self.world.ledger.workload(key)
        assert one is not None
        gang = None if one.gang is None else replace(one.gang, started=True)
        self._apply(replace(one, reserved=self.world.now, admitted=self.world.now, gang=gang))
        if self.by_usage:
            self.world.queues.past.written(one, self.world.now)
        if one.replaces:
            self._apply(ObjectRemoved(RemovedKind.WORKLOAD, one.replaces))

    def _evict(self, key: str) -> None:
        one = self.world.ledger.workload(key)
        if one is None or one.evicted:
            return
        for other in list(self.world.queues.workloads()):
            if other.replaces == key:
                self._apply(ObjectRemoved(RemovedKind.WORKLOAD, other.key))
        self._apply(replace(one, evicted=True))
        self.leaving.append(key)

    @property
    def running(self) -> list[str]:
        return sorted(key for key in self.world.ledger.admissions if self._plain(key) and key not in self.leaving)

    def _plain(self, key: str) -> bool:
        one = self.world.ledger.workload(key)
        return one is not None and one.cluster_queue in self.names and key.startswith("w")

    @property
    def waiting(self) -> list[str]:
        return sorted(one.key for one in self.world.queues.workloads())

    # ---- what happens

    def step(self) -> None:
        """One event, and the cycles after it."""
        (happens,) = self.dice.choices(HAPPENS, WEIGHTS)
        self.world.now += self.dice.choice((0, 1, 1, 30))
        for key in self.running:
            one = self.world.ledger.workload(key)
            if one is not None and one.ends is not None and one.ends <= self.world.now:
                self._finish(key)  # at its time limit
        self.log.append(f"{self.world.now:.0f} {happens.__name__}")
        happens(self)
        self.rest()

    def submit(self) -> None:
        if len(self.waiting) > MOST_WAITING:
            self._finish(self.dice.choice(self.waiting))
        for one in self._drawn():
            self._apply(one)
            self.log.append(f"  + {describe(one)}")

    def _drawn(self) -> list[Workload]:
        dice = self.dice
        first = self._workload()
        if dice.random() < 0.2:
            other = self._workload()
            if dice.random() < 0.3:
                other = replace(other, not_before=self.world.now + 20)
            together = (first.key, other.key)
            pods = [replace(one.pod_sets[0], min_count=None) for one in (first, other)]
            return [
                replace(one, pod_sets=(pod_set,), gang=Gang(f"g-{first.key}", together))
                for one, pod_set in zip((first, other), pods, strict=True)
            ]
        running = [key for key in self.running if self._may_grow(key)]
        if running and dice.random() < 0.3:
            return [self._slice(dice.choice(running))]
        return [first]

    def _may_grow(self, key: str) -> bool:
        one = self.world.ledger.workload(key)
        pending = {other.replaces for other in self.world.queues.workloads()}
        return one is not None and one.gang is None and one.pod_sets[0].min_count is None and key not in pending

    def _slice(self, key: str) -> Workload:
        old = self.world.ledger.workload(key)
        assert old is not None
        (pod_set,) = old.pod_sets
        self.serial += 1
        bigger = replace(pod_set, count=pod_set.count + self.dice.randint(1, 2))
        name = f"w{self.serial:02}"
        fresh = replace(old, key=name, uid=f"uid-{name}", pod_sets=(bigger,), replaces=key, admission=None)
        return replace(fresh, admitted=None, reserved=None, evicted=False, yields=None)

    def _workload(self) -> Workload:
        dice = self.dice
        self.serial += 1
        where = (
            None,
            None,
            TopologyRequest(required=RACK),
            TopologyRequest(preferred=RACK),
            TopologyRequest(required=HOST),
        )
        name, to = f"w{self.serial:02}", dice.choice(self.names)
        made = workload(
            name,
            dice.randint(1, 4),
            dice.choice((1, 1, 1, 2)),
            to=to,
            topology=dice.choice(where) if PLACED in self.flavors else None,
            queued=self.world.now,
            priority=dice.choice((0, 0, 1, 1, 2)),
        )
        (pod_set,) = made.pod_sets
        if dice.random() < 0.15 and pod_set.count > 1:
            made = replace(made, pod_sets=(replace(pod_set, min_count=dice.randint(1, pod_set.count - 1)),))
        limit = dice.choice((None, None, 60.0, 600.0))
        user = f"ns/{to}{dice.choice('xy')}"
        return replace(made, queue=user, gated=dice.random() < 0.05, time_limit=limit)

    def leave(self) -> None:
        """An evicted workload has stopped, and waits again or is gone."""
        if not self.leaving:
            return
        key = self.leaving.pop(self.dice.randrange(len(self.leaving)))
        one = self.world.ledger.workload(key)
        if one is None:
            return
        self.log.append(f"  - {key}")
        gang = None if one.gang is None else replace(one.gang, started=False)
        later = self.world.now + 30 if self.dice.random() < 0.2 else 0.0
        back = replace(one, admission=None, admitted=None, reserved=None, evicted=False, gang=gang, yields=None)
        self._apply(replace(back, not_before=later, replaces=""))

    def finish(self) -> None:
        """A workload has ended, or is deleted while it waits."""
        keys = self.running if self.dice.random() < 0.8 else self.waiting
        if keys:
            self._finish(self.dice.choice(keys))

    def _finish(self, key: str) -> None:
        self.log.append(f"  - {key}")
        for other in list(self.world.queues.workloads()):
            if other.replaces == key:
                self._apply(ObjectRemoved(RemovedKind.WORKLOAD, other.key))
        self._apply(ObjectRemoved(RemovedKind.WORKLOAD, key))

    def cancel(self) -> None:
        """An eviction is cancelled."""
        if self.leaving:
            one = self.world.ledger.workload(self.leaving.pop())
            if one is not None:
                self._apply(replace(one, evicted=False))

    def change(self) -> None:
        """The priority of a workload changes, or it is held back, or no longer, or may evict now."""
        keys = self.waiting
        if self.running and self.dice.random() < 0.4:
            keys = self.running
        if not keys:
            return
        key = self.dice.choice(keys)
        one = self.world.workload(key)
        assert one is not None
        if one.admission is not None or self.dice.random() < 0.4:
            changed = replace(one, priority=self.dice.choice((0, 1, 2)))
        elif one.gated:
            changed = replace(one, gated=False)
        else:
            changed = replace(one, blocked=("Suspended", "held") if one.blocked is None else None)
        self.log.append(f"  {describe(changed)}")
        self._apply(changed)

    def change_node(self) -> None:
        node = self._node(self.dice.choice(NODES))
        self.log.append(f"  {node.name} usable={node.usable} {node.allocatable}")
        self._apply(node)

    def _node(self, name: str) -> Node:
        cpus = self.dice.choice((2, 4, 4))
        return replace(host(name, f"r{NODES.index(name) % 2}", cpus, PLACED), usable=self.dice.random() < 0.8)

    def edit(self) -> None:
        self._apply(self._queue(self.dice.choice(self.names)))

    def edit_cohort(self) -> None:
        name = self.dice.choice(("low", "top"))
        quotas = {(flavor, "cpu"): Quota(self.dice.randint(0, 3) * CPU) for flavor in self.flavors}
        self.shared[name] = Cohort(name, self.parents[name], quotas)
        self._apply(self.shared[name])

    def _queue(self, name: str) -> ClusterQueue:
        dice = self.dice
        within, reclaim = dice.choice(WITHIN), dice.choice(("Never", "LowerPriority", "Any"))
        borrow = dice.choice(("Never", "Never", "LowerPriority"))
        borrow = borrow if reclaim != "Never" and self.world.sharing is None else "Never"
        preemption = PreemptionPolicy(*(("Never", "Never") if dice.random() < 0.2 else (reclaim, within)), borrow)
        spec = replace(queue(name), cohort=self.cohorts[name])
        quotas = tuple(FlavorQuotas(flavor, {"cpu": self._quota()}) for flavor in self.flavors)
        backfill = dice.random() < 0.25
        return replace(
            spec,
            groups=(ResourceGroup(("cpu",), quotas),),
            strategy=dice.choice(list(QueueingStrategy)),
            stop=dice.choice((StopPolicy.NONE,) * 15 + (StopPolicy.HOLD,)),
            preemption=preemption,
            weight_milli=dice.choice((0, 500, 1000, 1000)),
            reserves_starts=backfill,
            by_usage=self.by_usage and dice.random() < 0.8,
            fungibility=FungibilityPolicy(when_can_preempt=dice.choice(("TryNextFlavor", "MayStopSearch"))),
        )

    def _quota(self) -> Quota:
        limits = [self.dice.choice((None, None, None, 0, 2 * CPU)) for _ in range(2)]
        return Quota(self.dice.choice((0, 2, 3, 4, 6, 8)) * CPU, *limits)


class Evicting(Scene):
    """A cluster in which every queue may evict, by many priorities."""

    def _queue(self, name: str) -> ClusterQueue:
        spec, dice = super()._queue(name), self.dice
        reclaim, within = dice.choice(("Any", "LowerPriority")), dice.choice(WITHIN[1:])
        preemption = PreemptionPolicy(reclaim, within, spec.preemption.borrow_policy)
        return replace(spec, stop=StopPolicy.NONE, preemption=preemption)

    def _workload(self) -> Workload:
        return replace(super()._workload(), priority=self.dice.choice(range(5)))


HAPPENS: tuple[Callable[[Scene], None], ...]
HAPPENS, WEIGHTS = zip(
    (Scene.submit, 22),
    (Scene.finish, 6),
    (Scene.leave, 10),
    (Scene.cancel, 1),
    (Scene.change, 4),
    (Scene.change_node, 4),
    (Scene.edit, 2),
    (Scene.edit_cohort, 1),
    strict=True,
)


def brief(decision: Decision) -> str:
    """The decision in a few words, for the message of a test that fails."""
    match decision:
        case Admit():
            return f"Admit {decision.workload} {decision.admission.usage()}"
        case Preempt():
            return f"Preempt {decision.workload} victims={[victim.workload for victim in decision.victims]}"
        case _:
            return f"{type(decision).__name__} {decision.workload} {getattr(decision, 'reason', '')}"


def describe(workload: Workload) -> str:
    """The workload in a few words."""
    (pod_set,) = workload.pod_sets
    topology = pod_set.topology and (pod_set.topology.required or pod_set.topology.preferred)
    extras = {
        "min": pod_set.min_count, "at": topology, "gang": workload.gang and workload.gang.together,
        "replaces": workload.replaces, "gated": workload.gated, "limit": workload.time_limit,
        "blocked": workload.blocked, "later": workload.not_before,
    }  # fmt: skip
    size = f"{pod_set.count}x{pod_set.requests['cpu'] // CPU} in {workload.queue}>{workload.cluster_queue} p{workload.priority}"
    return f"{workload.key} {size} { ({name: value for name, value in extras.items() if value}) }"
