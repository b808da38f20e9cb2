"""Two tenants on shared nodes, fair shares 3 : 1: what each of them uses over 500 jobs, as long as both want more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

import pytest

from admission.engine.quota.fairness import FairSharingRules
from admission.simulation.run import simulate
from admission.world.world import World
from tests.admission.world.world_documents import Manifest, job, manifest, queue, tree, world
from tests.budgets import quick

CPUS = 2 * 4 * 4
TENANTS = {"three": 3, "one": 1}
"""Their weights."""
RECLAIM = {"reclaimWithinCohort": "Any"}


def tenant(name: str, weight: int) -> list[Manifest]:
    """A queue without anything of its own: it lives on what the cohort lends."""
    sharing = {"weight": str(weight)}
    return queue(name, 0, cohortName="all", fairSharing=sharing, preemption=RECLAIM)


def jobs(name: str, count: int, random: Random, at: int) -> Iterable[Manifest]:
    """Jobs of one to three pods that run for one to three minutes; all of them are there from that second on."""
    for n in range(count):
        yield job(f"{name}-{n}", random.randint(1, 3), to=name, runs=f"{random.randint(60, 180)}s", at=f"{at}s")


@dataclass
class Use:
    """CPU seconds by tenant while both have something waiting. `now` is the last instant seen."""

    world: World
    now: float = 0.0
    before: dict[str, int] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TENANTS, 0.0))

    def __call__(self, settled: int, total: int, time: float) -> None:
        """After each instant."""
        for name, cpus in self.before.items():
            self.used[name] += cpus * (time - self.now)
        self.now, self.before = time, {}
        if all(self.world.queues.count(name) for name in TENANTS):
            usage = {name: self.world.ledger.quota.usage(name) for name in TENANTS}
            self.before = {name: usage[name].get(("tas", "cpu"), 0) // 1000 for name in TENANTS}


def shared(pods: list[Manifest]) -> World:
    quota = {"name": "tas", "resources": [{"name": "cpu", "nominalQuota": CPUS}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    cohort = manifest("Cohort", "all", spec={"resourceGroups": groups})
    made = world(tree(2, 4, 4), cohort, *(tenant(name, weight) for name, weight in TENANTS.items()), pods)
    made.sharing = FairSharingRules()
    return made


def played(each: int, three_at: int = 0, one_at: int = 0) -> Use:
    """So many jobs of the smaller tenant, three times as many of the other."""
    random = Random(7)
    made = shared([*jobs("three", 3 * each, random, three_at), *jobs("one", each, random, one_at)])
    assert not made.faults
    use = Use(made)
    outcome = simulate(made, progress=use)
    assert all(run.ended is not None for run in outcome.runs.values())
    assert sum(use.used.values()) > CPUS * 10 * each, "both waited for a good while"
    return use


def test_each_gets_its_share() -> None:
    use = played(quick(30))
    assert 2.5 <= use.used["three"] / use.used["one"] <= 3.5


@pytest.mark.long
@pytest.mark.parametrize(
    ("three_at", "one_at"), [(0, 0), (300, 0), (0, 300)], ids=["together", "the larger later", "the smaller later"]
)
def test_each_gets_its_share_within_a_tenth_over_500_jobs(three_at: int, one_at: int) -> None:
    use = played(125, three_at, one_at)
    assert 2.7 <= use.used["three"] / use.used["one"] <= 3.3
