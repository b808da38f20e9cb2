"""A tournament that keeps what cannot have changed has the winner of one that computes everything anew."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from admission.engine.cycle.heads.tournament import Tournament, winner
from admission.engine.cycle.nomination import Nomination
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Cohort, Quota
from tests.admission.engine.builders import CPU, queue, workload
from tests.budgets import examples

QUEUES = tuple(f"q{number}" for number in range(8))
PARENTS = {"top": None, "left": "top", "right": "top", "low": "left"}


def _quota(random: Random) -> Quota:
    limits = [None if random.random() < 0.7 else random.randint(0, 4) * CPU for _ in range(2)]
    return Quota(random.randint(0, 4) * CPU, *limits)


def _ledger(random: Random) -> Ledger:
    ledger = Ledger()
    for name, parent in PARENTS.items():
        quotas = {("fa", "cpu"): _quota(random) if parent else Quota(30 * CPU)}
        ledger.apply(Cohort(name, parent, quotas, weight_milli=random.choice((0, 500, 1000))))
    for name in QUEUES:
        spec = queue(name, cohort=random.choice(tuple(PARENTS)), fa=_quota(random))
        ledger.apply(replace(spec, weight_milli=random.choice((0, 500, 1000))))
    return ledger


def _candidate(random: Random, name: str, number: int) -> Nomination:
    usage = {("fa", "cpu"): random.randint(0, 3) * CPU}
    one = workload(f"w{number}", to=name, queued=float(random.randint(0, 5)), priority=random.randint(0, 1))
    return Nomination(one, FlavorAssignment((), usage))


def test_the_winner_is_that_of_a_tournament_that_begins_anew() -> None:
    winners: set[tuple[int, str]] = set()
    for seed in range(examples(60)):
        random = Random(seed)
        ledger = _ledger(random)
        tournament, left = Tournament(ledger), {QUEUES[0]: _candidate(random, QUEUES[0], 0)}
        for number in range(1, 40):
            name = random.choice(QUEUES)
            match random.choice(("usage", "candidate", "candidate", "gone", "taken")):
                case "usage":
                    ledger.quota.add(name, {("fa", "cpu"): random.randint(1, 3) * CPU})
                case "candidate":
                    left[name] = _candidate(random, name, number)
                case "gone" if len(left) > 1:
                    left.pop(name, None)
                case _ if used := ledger.quota.usage(name):
                    ledger.quota.remove(name, used)
            if not left:
                left[name] = _candidate(random, name, number)
            best = tournament.winner(left)
            assert best is winner(left, ledger), f"seed {seed}, step {number}"
            winners.add((seed, best.workload.cluster_queue))
    assert len(winners) > 3 * examples(60)
