"""Heads are not looked at again after each admission where that changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from admission.engine.cycle.cycle import CycleReport, run_cycle
from admission.engine.cycle.heads import borrowers, head_order
from admission.engine.cycle.heads.settled_heads import SettledHeads
from admission.engine.cycle.heads.tournament import Tournament, winner
from admission.engine.cycle.nomination import Nomination
from admission.engine.decision import Preempt
from admission.engine.flavors.search import FlavorSearch
from admission.engine.model import (
    ClusterQueue,
    Cohort,
    Flavor,
    FungibilityPolicy,
    PodSet,
    PreemptionPolicy,
    Quota,
    Workload,
)
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.quota.fairness import FairSharingRules
from tests.admission.engine.builders import BEST, CPU, STRICT, Cluster, group, host, queue, racks, workload
from tests.budgets import examples

RULES = FairSharingRules()
RESOURCES, FLAVORS = ("cpu", "memory"), ("tas", "spot")


def _quota(random: Random, most: int, scale: int) -> Quota:
    limits = [None if random.random() < 0.6 else random.randint(0, most) * scale for _ in range(2)]
    return Quota(random.randint(0, most) * scale, *limits)


def _queue(random: Random, name: str, evicting: bool) -> ClusterQueue:
    quotas = {flavor: {"cpu": _quota(random, 3, CPU), "memory": _quota(random, 4, 1)} for flavor in FLAVORS}
    groups = (group({flavor: quotas[flavor] for flavor in random.choice([FLAVORS, FLAVORS[::-1], FLAVORS[:1]])}),)
    policy = PreemptionPolicy(
        random.choice(["Never", "LowerPriority", "Any"]), random.choice(["Never", "LowerPriority"])
    )
    return ClusterQueue(
        name,
        groups,
        random.choice(["left", "right", "root"]),
        random.choice([STRICT, BEST, BEST]),
        fungibility=FungibilityPolicy(
            random.choice(["MayStopSearch", "TryNextFlavor"]),
            random.choice(["MayStopSearch", "TryNextFlavor"]),
            random.choice([None, "BorrowingOverPreemption", "PreemptionOverBorrowing"]),
        ),
        preemption=policy if evicting else PreemptionPolicy(),
    )


def _workload(random: Random, number: int, queues: int) -> Workload:
    names = ("main", "side")[: random.randint(1, 2)]
    pod_sets = tuple(
        PodSet(
            name,
            count := random.randint(1, 3),
            {"cpu": random.randint(1, 2) * CPU, "memory": random.randint(0, 2)},
            min_count=1 if count > 1 and random.random() < 0.1 else None,
        )
        for name in names
    )
    to, priority = f"q{random.randrange(queues)}", random.choice([0, 0, 0, 1])
    made = workload(f"w{number:03}", to=to, queued=float(random.randrange(40)), priority=priority)
    return replace(made, pod_sets=pod_sets)


def _decided(seed: int, *, fair: bool = False) -> list[CycleReport]:
    """Some cycles of a random scene in which most borrow: a cohort tree, two flavors, ends and arrivals in between."""
    random = Random(seed)
    plain = random.random() < 0.3  # no topology on the flavors: quota alone decides
    flavors = [Flavor(name, {"pool": name}) if plain else racks(name) for name in FLAVORS]
    nodes = [
        replace(host(f"{f}-{n}", f"{f}{n % 2}", 8, f), allocatable={"cpu": 8 * CPU, "memory": 8, "pods": 110})
        for f in FLAVORS
        for n in range(4)
    ]
    cluster = Cluster(*flavors, *nodes)
    owned = {
        (flavor, name): _quota(random, 12, CPU if name == "cpu" else 1) for flavor in FLAVORS for name in RESOURCES
    }
    root = {fr: replace(q, borrowing_limit=None, lending_limit=None) for fr, q in owned.items()}
    cluster.tell(Cohort("root", None, root), Cohort("left", "root", owned), Cohort("right", "root"))
    queues, evicting = random.randint(2, 7), random.random() < 0.5
    specs = [_queue(random, f"q{n}", evicting) for n in range(queues)]
    if fair:
        weights = Random(seed)
        specs = [replace(spec, weight_milli=weights.choice([0, 500, 1000, 1000])) for spec in specs]
        if weights.random() < 0.6:  # where cohorts have no limits, the heads are filed
            unlimited = {fr: Quota(quota.nominal) for fr, quota in owned.items()}
            cluster.tell(Cohort("left", "root", unlimited))
    cluster.tell(*specs)
    number, reports = 0, list[CycleReport]()
    for now in range(6):
        for _ in range(random.randint(2, 12)):
            cluster.tell(_workload(random, number := number + 1, queues))
        preemptor, budget = Preemptor(cluster.ledger, now, RULES if fair else None), random.choice([2, 5, 100])
        reports.append(run_cycle(cluster.ledger, cluster.queues, now, budget, preemptor, fair=fair))
        leaving = {v.workload for d in reports[-1].decisions if isinstance(d, Preempt) for v in d.victims}
        for key in sorted(cluster.ledger.admissions):
            if random.random() < (0.7 if key in leaving else 0.15):
                cluster.finish(key)
    return reports


def test_the_fast_way_decides_as_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = [_decided(seed) for seed in range(examples(25))]
    monkeypatch.setattr(borrowers, "settled", lambda workload, expected: False)
    for seed, reports in enumerate(fast):
        assert reports == _decided(seed), f"seed {seed}"
    assert sum(report.admitted for reports in fast for report in reports) > 10 * len(fast)


@pytest.mark.parametrize("seed", [263, 2139], ids=["quota kept for another head", "reservation charged later"])
def test_the_fast_way_keeps_the_order_of_heads(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A head that was to be next may come after heads that are evaluated again, because quota was kept or reserved since."""
    fast = _decided(seed)
    monkeypatch.setattr(borrowers, "settled", lambda workload, expected: False)
    assert fast == _decided(seed)


def test_an_admission_does_not_make_every_borrower_search_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []
    assign = FlavorSearch.assign

    def counted(self: FlavorSearch, workload: Workload) -> Any:
        searches.append(workload.key)
        return assign(self, workload)

    monkeypatch.setattr(FlavorSearch, "assign", counted)
    cluster = Cluster(Flavor("tas", {}), Cohort("all", None, {("tas", "cpu"): Quota(1000 * CPU)}))
    cluster.tell(*(queue(f"q{n}", cohort="all", tas=0) for n in range(50)))
    cluster.tell(*(workload(f"w{n:03}", to=f"q{n % 50}", queued=float(n)) for n in range(200)))
    report = cluster.cycle(budget=40)
    assert report.admitted == 40
    # each head once when it comes, and once when it has its turn
    assert len(searches) <= 50 + 2 * 40


class _Plain(Tournament):
    """Tournaments of which each computes everything anew."""

    def winner(self, left: Mapping[str, Nomination]) -> Nomination:
        return winner(left, self._ledger)


def test_the_fast_way_decides_as_the_plain_one_with_fair_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, outdated = list[int](), list[int]()
    look = SettledHeads.outdated

    def counted(self: SettledHeads) -> list[str]:
        names = look(self)
        kept.append(len(self._since))
        outdated.append(len(names))
        return names

    monkeypatch.setattr(SettledHeads, "outdated", counted)
    fast = [_decided(seed, fair=True) for seed in range(examples(25))]
    assert sum(kept) > len(fast), "heads keep their flavors"
    assert sum(outdated) > len(fast) / 5, "heads lose their flavors"
    monkeypatch.setattr(head_order, "independent", lambda workload, ledger: False)
    monkeypatch.setattr(head_order, "Tournament", _Plain)
    for seed, reports in enumerate(fast):
        assert reports == _decided(seed, fair=True), f"seed {seed}"
    assert sum(report.admitted for reports in fast for report in reports) > 10 * len(fast)


def test_an_admission_with_fair_sharing_makes_only_its_own_queue_search_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []
    assign = FlavorSearch.assign

    def counted(self: FlavorSearch, workload: Workload) -> Any:
        searches.append(workload.key)
        return assign(self, workload)

    monkeypatch.setattr(FlavorSearch, "assign", counted)
    cluster = Cluster(Flavor("tas", {}), Cohort("all", None, {("tas", "cpu"): Quota(1000 * CPU)}))
    cluster.tell(*(queue(f"q{n}", cohort="all", tas=0) for n in range(50)))
    cluster.tell(*(workload(f"w{n:03}", to=f"q{n % 50}", queued=float(n)) for n in range(200)))
    report = cluster.cycle(budget=40, fair=True)
    assert report.admitted == 40
    assert len(searches) <= 50 + 40
