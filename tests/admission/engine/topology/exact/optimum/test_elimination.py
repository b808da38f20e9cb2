"""The fewest domains below: equal to the table's answer, and to trying every set."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from admission.engine.topology.exact.optimum import solver, tight
from admission.engine.topology.exact.optimum.elimination import Elimination
from admission.engine.topology.exact.optimum.objective import Problem
from admission.engine.topology.tree.level import Ints
from tests.admission.engine.topology.exact.optimum.test_exact import check
from tests.admission.engine.topology.trees import PlacementCase, cases
from tests.budgets import quick

NEVER = 1 << 30


def drawn(seed: int) -> Problem:
    """Blocks of racks of hosts, asked for by rack, and a gang that some racks hold."""
    random = Random(seed)
    blocks, racks, hosts = random.choice([6, 20, 40]), random.choice([2, 4, 8]), random.choice([4, 8, 16])
    sizes = random.choice([[0, 48, 72], [0, 4, 6], [24, 48, 96], [0, 3, 4, 5, 6, 7, 8]])
    number = blocks * racks
    host = np.array(random.choices(sizes, [random.random() for _ in sizes], k=number * hosts))
    rack = host.reshape(number, hosts).sum(axis=1)
    block = rack.reshape(blocks, racks).sum(axis=1)
    parent = [np.zeros(blocks, dtype=np.int64), np.arange(number) // racks, np.arange(number * hosts) // hosts]
    most = int(rack.max())
    need = random.randint(most + 1, min(int(rack.sum()), most * random.choice([2, 4, 8])))
    return Problem([block, rack, host], parent, [np.arange(len(some)) for some in (block, rack, host)], 1, need)


@pytest.mark.parametrize("seed", range(40))
def test_the_answer_is_the_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    requested = drawn(seed)
    monkeypatch.setattr(tight, "_MANY", 0)
    by_elimination = solver.solve(requested, 200_000)
    monkeypatch.setattr(tight, "_MANY", NEVER)
    by_table = solver.solve(requested, 200_000)
    assert sorted(by_elimination.slots.tolist()) == sorted(by_table.slots.tolist())
    assert by_elimination.certificate.cost == by_table.certificate.cost
    assert by_elimination.certificate.proof == by_table.certificate.proof


def test_it_answers_often_enough_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[object] = []
    run = Elimination.run

    def counted(self: Elimination) -> Ints | None:
        found = run(self)
        answers.append(found)
        return found

    monkeypatch.setattr(Elimination, "run", counted)
    monkeypatch.setattr(tight, "_MANY", 0)
    for seed in range(40):
        solver.solve(drawn(seed), 200_000)
    assert sum(found is not None for found in answers) >= 5


def _check(case: PlacementCase) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tight, "_MANY", 0)
        check(case)


@settings(max_examples=quick(40), deadline=None)
@given(cases())
def test_equal_to_trying_every_set(case: PlacementCase) -> None:
    _check(case)


@pytest.mark.long
@settings(max_examples=5_000, deadline=None)
@given(cases())
def test_equal_to_trying_every_set_at_length(case: PlacementCase) -> None:
    _check(case)
