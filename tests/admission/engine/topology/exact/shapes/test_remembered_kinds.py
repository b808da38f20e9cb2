"""What is remembered of gangs before changes no answer, not even how many states are told, and does not grow for ever."""

from __future__ import annotations

from random import Random

import pytest

from admission.engine.decision import PlacementResult
from admission.engine.model import LevelConstraint, TopologyRequest
from admission.engine.topology.exact.shapes import domain_kinds, shaping
from admission.engine.topology.exact.shapes.domain_kinds import KindMemory
from tests.admission.engine.topology.exact.shapes.shapes import Capacities, asked, cluster, place
from tests.admission.engine.topology.exact.shapes.test_shaping_roads import capacities, rules
from tests.admission.engine.topology.vectors import LEVELS

Case = tuple[Capacities, int, TopologyRequest, int]


def cases(seed: int) -> list[Case]:
    """Gangs of different sizes with the same constraints or others, on clusters that change a little between two gangs."""
    random = Random(seed)
    hosts, constraints = dict(capacities(random)), rules(random)
    drawn = list[Case]()
    for _ in range(8):
        bound = random.choice(["unconstrained", "unconstrained", "required block", "preferred rack"])
        budget = random.choice([5, 60, 400, 20_000])
        drawn.append((dict(hosts), budget, asked(bound, list(constraints.values())), random.choice([5, 7, 12, 24, 36])))
        for path in random.sample(sorted(hosts), 3):
            hosts[path] = random.randrange(9)
        if random.random() < 0.3:
            constraints = rules(random)
    return drawn


def answers(drawn: list[Case]) -> list[PlacementResult]:
    """The answer to each, one after the other."""
    return [place(cluster(hosts, budget=budget), topology, count) for hosts, budget, topology, count in drawn]


@pytest.mark.parametrize("seed", range(25))
def test_the_answer_does_not_depend_on_the_gangs_before(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = cases(seed)
    alone = []
    for case in drawn:
        monkeypatch.setattr(shaping, "REMEMBERED", KindMemory())
        alone += answers([case])
    monkeypatch.setattr(shaping, "REMEMBERED", KindMemory())
    assert answers(drawn) == alone
    assert answers(drawn[::-1]) == alone[::-1]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = KindMemory()
    monkeypatch.setattr(shaping, "REMEMBERED", memory)
    monkeypatch.setattr(domain_kinds, "MOST_REMEMBERED", 300)
    drawn = [case for seed in range(20) for case in cases(seed)]
    sizes = []
    for case in drawn:
        answers([case])
        sizes.append(memory.size)
    assert max(sizes) < 2 * 300, "one gang adds fewer than it may remember"
    assert min(sizes[-20:]) < max(sizes), "it begins anew"


def test_rules_that_nobody_uses_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = KindMemory()
    monkeypatch.setattr(shaping, "REMEMBERED", memory)
    hosts = capacities(Random(0))
    for maximum in range(1, 300):
        place(cluster(hosts), asked("unconstrained", [LevelConstraint(LEVELS[1], maximum=maximum, hard=True)]), 7)
    assert memory.rules <= domain_kinds.MOST_RULES + 1
