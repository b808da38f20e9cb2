"""Answers at their least down to the asked level are found at once, and proved; levels above the parents are not forgotten."""

from __future__ import annotations

from random import Random

import pytest

from admission.engine.decision import Proof
from admission.engine.topology.exact.optimum import tight
from admission.engine.topology.exact.optimum.solver import solve
from tests.admission.engine.topology.exact.optimum.test_elimination import drawn
from tests.admission.engine.topology.exact.optimum.test_exact import check
from tests.admission.engine.topology.trees import Path, PlacementCase

FEW = 20_000


@pytest.mark.parametrize(
    ("seed", "figures"),
    [
        pytest.param(33, (2, 1, 1, 13), id="two hosts fewer than what was found with this budget"),
        pytest.param(40, (2, 1, 18, 22), id="a host fewer"),
        pytest.param(47, (5, 3, 0, 35), id="in three parents"),
        pytest.param(5, (2, 1, 7, 32), id="found, but not proved"),
    ],
)
def test_proved_within_a_small_budget(seed: int, figures: tuple[int, ...]) -> None:
    certificate = solve(drawn(seed), FEW).certificate
    assert certificate.proof is Proof.OPTIMAL
    assert certificate.cost[:4] == figures


def deep(seed: int) -> PlacementCase:
    """Regions of zones of racks of hosts, asked for by rack or by zone."""
    random = Random(seed)
    top = random.choice([1, 2, 3, 6])
    hosts: dict[Path, int] = {}
    for index in range(random.randint(4, 9)):
        above = random.choice("ab"), random.choice("cd"), random.choice("efg")
        hosts[(*above, f"h{index}")] = random.randint(0 if index else 1, top)
    return PlacementCase(
        hosts, random.choice([1, 2, 2, 2]), 3, 1, random.randint(1, sum(hosts.values())), preferred=True
    )


@pytest.mark.parametrize("many", [pytest.param(0, id="by sieve"), pytest.param(64, id="by table")])
def test_four_levels_equal_trying_every_set(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tight, "_MANY", many)
    for seed in range(100):
        check(deep(seed))


@pytest.mark.long
@pytest.mark.parametrize("many", [pytest.param(0, id="by sieve"), pytest.param(64, id="by table")])
def test_four_levels_equal_trying_every_set_at_length(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tight, "_MANY", many)
    for seed in range(5_000):
        check(deep(seed))
