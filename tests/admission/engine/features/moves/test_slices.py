"""Plans for gangs of slices, each within one rack, in a domain of several racks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decision import Proof
from admission.engine.features.moves.movers import movers_of
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan, NoPlanReason
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import NO_TERMS, SliceLayer, TopologyRequest, Workload
from tests.admission.engine.builders import RACK
from tests.admission.engine.features.moves.brute import cheapest
from tests.admission.engine.features.moves.clusters import NOW, Running, cluster, gang, hosts_of, own
from tests.admission.engine.features.moves.drawn import PER_HOST, DrawnCluster, carry_out, overfull
from tests.budgets import examples


def in_slices(of: int, pods: int, each: int) -> Workload:
    return gang(pods, each, TopologyRequest(unconstrained=True, slices=(SliceLayer(RACK, of),)))


@settings(max_examples=examples(120))
@given(st.integers(0, 10**6))
def test_no_set_is_cheaper_than_a_proved_plan_or_its_bound(seed: int) -> None:
    drawn, draw = DrawnCluster(seed), Random(seed + 2)
    of, each = draw.choice(((2, 4), (2, 3), (3, 2), (4, 2), (2, 2)))
    drawn.pods, drawn.each = of * draw.choice((1, 2, 2)), each
    waiting = in_slices(of, drawn.pods, drawn.each)
    ledger = drawn.ledger()
    costs = {key: mover.cost for key, mover in movers_of(ledger, NOW, {}).by_key.items()}
    best = cheapest(drawn.runs, costs, drawn.rack_of, PER_HOST, drawn.pods, drawn.each, of)
    found = plan(ledger, waiting, NOW, PlanOptions(budget=draw.choice((60, 4000))))
    if isinstance(found, MovePlan):
        assert best is not None
        assert found.certificate.bound <= best <= found.certificate.cost
        assert found.certificate.proof is not Proof.OPTIMAL or best == found.certificate.cost
        carry_out(ledger, found, waiting, partial(_fits, ledger))
    elif found.reason is NoPlanReason.FITS:
        assert best == (0, 0)
    else:
        assert best is None or found.reason in (NoPlanReason.NO_OTHER_PLACE, NoPlanReason.BUDGET)
    assert ledger.audit() == []


def _fits(ledger: Ledger) -> None:
    assert overfull(ledger) == []


def crowded(racks_of: int, count: int) -> Ledger:
    """Racks of hosts, each with a mover of one of its four cpus. Those in the racks of the first names lose least."""
    runs = {
        f"ns/w{index:02}": Running({f"h{index}": 1}, cpus=1, ran=700 + 100 * (index // racks_of))
        for index in range(racks_of * count)
    }
    return cluster(runs, own(10_000), racks_of=racks_of, count=count)


def test_whole_racks_are_made_free_among_many_movers() -> None:
    """Sets of movers in all racks, of which each has much room, are not gone through."""
    found = plan(crowded(6, 12), in_slices(6, 12, 4), NOW)
    assert isinstance(found, MovePlan)
    assert {host for move in found.moves for host in hosts_of(move.before)} == {f"h{index}" for index in range(12)}
    assert found.cost == 6 * 700 + 6 * 800
    assert found.certificate.proof is Proof.OPTIMAL


def test_where_no_two_racks_can_be_made_free_nothing_is_searched() -> None:
    ledger = crowded(2, 3)
    for key in ("ns/w00", "ns/w02"):
        workload = ledger.workload(key)
        assert workload is not None
        ledger.apply(replace(workload, restart=NO_TERMS))
    found = plan(ledger, in_slices(2, 4, 4), NOW)
    assert not isinstance(found, MovePlan)
    assert (found.reason, found.expanded) == (NoPlanReason.NO_OTHER_PLACE, 0)
