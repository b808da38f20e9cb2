"""Larger trees than can be tried out whole: the short ways of the shaping solver lead where the tables lead."""

from __future__ import annotations

from random import Random

import pytest

from admission.engine.decision import Proof
from admission.engine.model import LevelConstraint
from admission.engine.topology.exact.shapes import plans, shaping, split
from admission.engine.topology.exact.shapes.domain_kinds import KindMemory
from tests.admission.engine.topology.exact.shapes.shapes import (
    PACK,
    SPREAD,
    Capacities,
    asked,
    cluster,
    cost_of,
    place,
    proved,
    satisfies_hard_constraints,
    shares_of,
)
from tests.admission.engine.topology.vectors import LEVELS

PLENTY = 10**9


def capacities(random: Random) -> Capacities:
    """40 hosts in 3 blocks of 4 racks, of few sizes as clusters have them."""
    sizes = random.sample(range(9), 3)
    return {(f"b{at % 3}", f"r{at // 3 % 4}", f"h{at}"): random.choice(sizes) for at in range(40)}


def rules(random: Random) -> dict[int, LevelConstraint]:
    """One constraint or more."""
    found = {}
    for level in random.sample(range(3), random.randint(1, 3)):
        low = random.choice([None, None, 2, 3])
        high = random.choice([None, None, 4, 9])
        found[level] = LevelConstraint(
            LEVELS[level],
            random.choice([PACK, SPREAD]),
            random.choice([None, None, 2, 3]),
            low,
            high,
            random.choice([None, None, None, 2, 3]),
            random.random() < 0.3,
        )
    return found


@pytest.mark.parametrize("seed", range(60))
def test_short_ways_lead_where_tables_lead(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    hosts, constraints, count = capacities(random), rules(random), random.choice([7, 12, 24, 36])
    bound = random.choice(["unconstrained", "required block", "preferred rack"])
    book, topology = cluster(hosts, budget=PLENTY), asked(bound, list(constraints.values()))
    short = place(book, topology, count)
    monkeypatch.setattr(shaping, "REMEMBERED", KindMemory())
    monkeypatch.setattr(plans, "_smooth", lambda *_: None)
    monkeypatch.setattr(plans, "AT_ONCE", 0)
    monkeypatch.setattr(split, "_steps", lambda *_: None)
    monkeypatch.setattr(split.Splitter, "_narrowed", lambda _, __, plan, ___: plan)
    whole = place(book, topology, count)
    assert short.assignments == whole.assignments
    assert short.failures == whole.failures
    if short.fits:
        shares = shares_of(short)
        assert proved(short).proof is proved(whole).proof is Proof.OPTIMAL
        assert proved(short).cost == proved(whole).cost == cost_of(hosts, constraints, shares)
        assert satisfies_hard_constraints(constraints, shares)
        assert sum(shares.values()) == count
