"""No eviction is in vain, and none takes from a queue that keeps to its quota.

Drawn scenes with racks, spare hosts of workloads and flavors, borrowing, kept quota and fair shares. A preemptor starts when
its victims have left, unless a rarer event is named (test_evictions_random.py). A victim of another queue belongs to a queue
whose admitted workloads use more than its quota.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pytest

from admission.engine.decision import Preempt
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.model import (
    ClusterQueue,
    Event,
    PreemptionPolicy,
    QueueingStrategy,
    Quota,
    SpareRule,
    TopologyRequest,
    Workload,
)
from tests.admission.engine.builders import CPU, RACK, host, queue, racks
from tests.admission.engine.builders import workload as made_workload
from tests.admission.engine.cycle.test_evictions_random import (
    START,
    STEPS,
    EvictionHistory,
    RandomEvictionCase,
    begun_as,
)
from tests.budgets import quick

SHORT, LONG = range(quick(60)), range(4_000)


def scene(seed: int) -> RandomEvictionCase:
    """Two or three queues of one cohort on two racks, and workloads that ask for racks, hosts and spare hosts."""
    dice = random.Random(seed)
    fair = dice.random() < 0.3
    names = "abc"[: dice.randint(2, 3)]
    rule = SpareRule(1, 3, RACK, "") if dice.random() < 0.2 else None
    events: list[Event] = [replace(racks(), spare=rule)]
    events += [host(f"h{n}", f"r{n // 3}", dice.choice((2, 2, 3, 4))) for n in range(dice.choice((2, 3, 4, 6)))]
    queues = [_queue(dice, name, fair) for name in names]
    waves = [[_workload(dice, number, names)] for number in range(dice.randint(5, 12))]
    return RandomEvictionCase(queues, events, waves, fair, dice.choice((0, 0, 2)))


def _queue(dice: random.Random, name: str, fair: bool) -> ClusterQueue:
    reclaim = dice.choice(("Never", "LowerPriority", "Any", "Any"))
    borrow = "LowerPriority" if reclaim != "Never" and not fair and dice.random() < 0.4 else "Never"
    policy = PreemptionPolicy(reclaim, dice.choice(("Never", "LowerPriority", "LowerPriority")), borrow_policy=borrow)
    policy = replace(policy, keeps_nominal=not fair and dice.random() < 0.2)
    strategy = dice.choice((QueueingStrategy.BEST_EFFORT_FIFO, QueueingStrategy.STRICT_FIFO))
    spec = queue(name, strategy=strategy, cohort="c", tas=Quota(dice.randint(0, 8) * CPU))
    return replace(spec, preemption=policy)


def _workload(dice: random.Random, number: int, names: Collection[str]) -> Workload:
    topology = dice.choice(
        (
            TopologyRequest(unconstrained=True),
            TopologyRequest(required=RACK),
            TopologyRequest(required=RACK, spare_hosts=1),
            TopologyRequest(unconstrained=True, spare_hosts=dice.choice((1, 2))),
        )
    )
    pods, cpus = dice.randint(1, 4), dice.choice((1, 1, 2))
    priority, to = dice.choice((0, 1, 2, 3)) + number // 3, dice.choice(sorted(names))
    return made_workload(f"w{number}", pods, cpus, to=to, topology=topology, queued=START + number, priority=priority)


@dataclass
class Checked(EvictionHistory):
    """A history that also looks at the quota of the victims' queues, and at spare hosts."""

    robbed: list[str] = field(default_factory=list)

    def _decided(self, decision: object) -> None:
        if isinstance(decision, Preempt):
            self._check_quota(decision)
        super()._decided(decision)

    def _check_quota(self, decision: Preempt) -> None:
        ledger, preemptor = self.world.ledger, self.world.queues.workload(decision.workload)
        assert preemptor is not None
        gone: dict[str, int] = {}
        for victim in decision.victims:
            admission = ledger.admission(victim.workload)
            assert admission is not None
            name, used = admission.cluster_queue, admission.usage().get(("tas", "cpu"), 0)
            own = ledger.quota.usage(name).get(("tas", "cpu"), 0) - gone.get(name, 0)
            if name != preemptor.cluster_queue and own <= ledger.quota.nominal(name, ("tas", "cpu")):
                self.robbed.append(f"{victim.workload} of {name}, which is within its quota, for {decision.workload}")
            gone[name] = gone.get(name, 0) + used

    def check_spares(self) -> None:
        """Each running workload has its spare hosts: none starts without them."""
        for key in self.world.ledger.holds.askers:
            if hold_key(HoldKind.SPARES, key) not in self.world.ledger.holds:
                self.broken.append(f"{key} (no spare host)")


def faults(seeds: Collection[int]) -> list[str]:
    found = []
    for seed in seeds:
        case = scene(seed)
        life = begun_as(Checked, case)
        life.cycles(STEPS)
        life.check_spares()
        found += [f"seed {seed}: {key} was not admitted when its victims had left" for key in life.broken]
        found += [f"seed {seed}: {text}" for text in life.robbed]
        found += [f"seed {seed}: {text}" for text in life.world.ledger.audit()]
    return found


def test_no_eviction_is_in_vain() -> None:
    """In 1548 a StrictFIFO head chose other victims and was deleted, and the queues still knew it as waiting for the first."""
    assert faults((*SHORT, 1548)) == []


@pytest.mark.long
def test_no_eviction_is_in_vain_in_very_many_scenes() -> None:
    assert faults(LONG) == []
