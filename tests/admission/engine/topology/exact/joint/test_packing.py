"""Pods of several shapes on shared hosts, against trying everything."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.topology.exact.joint.limits import LimitRow, PackingItem
from admission.engine.topology.exact.joint.packing import NodeBudget, NoPacking, pack
from tests.admission.engine.topology.brute import BruteGang, BruteRequest, fewest, racks_hold
from tests.budgets import examples

needs = st.sampled_from([(1, 0), (2, 0), (3, 0), (1, 1), (0, 2), (2, 1)])


@st.composite
def packings(draw: st.DrawFn) -> tuple[list[LimitRow], list[PackingItem]]:
    """Up to 5 hosts in up to 2 racks, up to 3 shapes, some in slices of 2 by host or by rack, or of both."""
    racks = sorted(draw(st.lists(st.integers(0, 1), min_size=1, max_size=5)))
    items = [
        PackingItem(draw(needs), 2 * draw(st.integers(1, 3)), draw(st.sampled_from([(), (), ((0, 2),), ((1, 2),)])))
        for _ in range(draw(st.integers(1, 3)))
    ]
    rows = [
        LimitRow((draw(st.integers(0, 6)), draw(st.integers(0, 3))), (rack, host), (True,) * len(items))
        for host, rack in enumerate(racks)
    ]
    return rows, items


@settings(max_examples=examples(100), deadline=None)
@given(packings())
def test_found_exactly_when_there_is_one(given_: tuple[list[LimitRow], list[PackingItem]]) -> None:
    rows, items = given_
    paths = [tuple(map(str, row.path)) for row in rows]
    gangs = [BruteGang(0, False, (BruteRequest(i.count, i.vector, i.layers[0] if i.layers else None),)) for i in items]
    counts = pack(rows, items, NodeBudget(100_000))
    possible = fewest(paths, tuple((row.free[0], row.free[1]) for row in rows), gangs) is not None
    if isinstance(counts, NoPacking):
        assert counts is NoPacking.PROVED
        assert not possible
        return
    assert possible
    for m, item in enumerate(items):
        assert sum(pattern[m] for pattern in counts) == item.count
        for level, size in item.layers:
            for domain in {path[: level + 1] for path in paths}:
                inside = [p[m] for p, path in zip(counts, paths, strict=True) if path[: level + 1] == domain]
                assert sum(inside) % size == 0
    for row, pattern in zip(rows, counts, strict=True):
        for resource, free in enumerate(row.free):
            assert sum(n * item.vector[resource] for n, item in zip(pattern, items, strict=True)) <= free


def test_layers_of_slices_inside_each_other() -> None:
    """4 to a rack, 2 to a host: of the first rack's hosts with 3 slots only 2 each count."""
    rows = [
        LimitRow((slots,), (rack, host), (True,)) for host, (rack, slots) in enumerate([(0, 3), (0, 3), (1, 3), (1, 5)])
    ]
    counts = pack(rows, [PackingItem((1,), 8, ((0, 4), (1, 2)))], NodeBudget(1000))
    assert not isinstance(counts, NoPacking)
    assert sum(pods for (pods,) in counts) == 8
    assert all(pods % 2 == 0 for (pods,) in counts)
    assert counts[0][0] + counts[1][0] == 4


def test_a_budget_that_ends_proves_nothing() -> None:
    rows = [LimitRow((3,), (0, host), (True, True)) for host in range(6)]
    items = [PackingItem((2,), 5), PackingItem((1,), 8)]
    assert pack(rows, items, NodeBudget(0)) is NoPacking.UNKNOWN


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(3, 9), min_size=2, max_size=4), st.lists(st.integers(1, 6), min_size=3, max_size=6))
def test_the_yardstick_agrees_with_itself(capacities: list[int], demands: list[int]) -> None:
    """The two ways of trying everything, since the other tests lean on them."""
    gangs = [BruteGang(0, True, (BruteRequest(demand, (1,)),)) for demand in demands]
    paths = [(f"r{rack}",) for rack in range(len(capacities))]
    assert racks_hold(capacities, demands) == (fewest(paths, tuple((c,) for c in capacities), gangs) is not None)
