"""The shaping solver beside trying every way to place a gang, on small trees."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decision import Proof
from admission.engine.model import LevelConstraint, ObjectRemoved, PlacementRequest, PodSet, RemovedKind, SliceLayer
from tests.admission.engine.topology.exact.shapes.shapes import (
    PACK,
    SPREAD,
    Path,
    asked,
    best,
    cluster,
    cost_of,
    families,
    place,
    proved,
    satisfies_hard_constraints,
    shares_of,
    softened,
)
from tests.admission.engine.topology.test_replace import charged
from tests.admission.engine.topology.vectors import FLAVOR, LEVELS, ONE_CPU
from tests.budgets import examples, quick

Case = tuple[dict[Path, int], str, dict[int, LevelConstraint], int, int | None]
BOUNDS = ["unconstrained"] + [
    f"{word} {level}" for word in ("required", "preferred") for level in ("block", "rack", "host")
]


@st.composite
def capacities(draw: st.DrawFn) -> dict[Path, int]:
    """Up to six hosts in up to two blocks of up to three racks."""
    racks = st.tuples(st.sampled_from(["b1", "b1", "b2"]), st.sampled_from(["r1", "r2", "r3"]))
    return {(*draw(racks), f"h{at}"): draw(st.integers(0, 5)) for at in range(draw(st.integers(1, 6)))}


@st.composite
def constraints(draw: st.DrawFn, level: str) -> LevelConstraint:
    """Any constraint that makes sense."""
    low = draw(st.none() | st.integers(1, 4))
    high = draw(st.none() | st.integers(low or 1, 6))
    return LevelConstraint(
        level,
        draw(st.sampled_from([PACK, SPREAD])),
        draw(st.none() | st.integers(1, 3)),
        low,
        high,
        draw(st.none() | st.none() | st.integers(1, 3)),
        draw(st.booleans()),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A cluster and what is asked of it; with the level of pairs, where slices of two are asked for."""
    levels = draw(st.sets(st.integers(0, 2), max_size=3))
    rules = {level: draw(constraints(LEVELS[level])) for level in sorted(levels)} or {2: LevelConstraint(LEVELS[2])}
    sliced = draw(st.none() | st.none() | st.integers(0, 2))
    bounds = [one for one in BOUNDS if sliced is None or one in ("unconstrained", "required block", "preferred block")]
    return draw(capacities()), draw(st.sampled_from(bounds)), rules, draw(st.integers(1, 8)), sliced


def _agrees(case: Case, random: Random) -> None:
    """The whole contract, on one case."""
    hosts, bound, rules, count, sliced = case
    slices = () if sliced is None else (SliceLayer(LEVELS[sliced], 2),)
    sizes = {} if sliced is None else {sliced: 2}
    pods = count if sliced is None else count // 2 * 2
    topology = asked(bound, list(rules.values()), slices)
    result = place(cluster(hosts), topology, count)
    mixed = place(cluster(hosts, names=random.sample(sorted(hosts), len(hosts))), topology, count)
    assert (mixed.assignments, mixed.certificates) == (result.assignments, result.certificates)
    if pods == 0:
        return
    wanted = best(hosts, bound, rules, pods, sizes)
    certificate = proved(result)
    if wanted is None:
        assert not result.fits
        assert certificate.proof is Proof.INFEASIBLE
        return
    _sound(case, pods, sizes, certificate.cost)
    assert certificate.proof is Proof.OPTIMAL
    assert certificate.cost == wanted
    shares = shares_of(result)
    assert cost_of(hosts, rules, shares) == wanted
    assert sum(shares.values()) == pods
    assert all(0 < share <= hosts[path] for path, share in shares.items())
    assert satisfies_hard_constraints(rules, shares, sizes)


def _sound(case: Case, pods: int, sizes: dict[int, int], cost: tuple[int, ...]) -> None:
    """With the budget spent at once: whole, lawful, no better than the optimum, and the bound no worse than it."""
    hosts, bound, rules, count, sliced = case
    slices = () if sliced is None else (SliceLayer(LEVELS[sliced], 2),)
    greedy_shares = place(cluster(hosts, budget=1), asked(bound, list(rules.values()), slices), count)
    shares = shares_of(greedy_shares)
    assert sum(shares.values()) == pods
    assert all(0 < share <= hosts[path] for path, share in shares.items())
    assert satisfies_hard_constraints(rules, shares, sizes)
    assert proved(greedy_shares).cost == cost_of(hosts, rules, shares) >= cost
    assert proved(greedy_shares).bound <= cost
    if bound.startswith("required"):
        at = LEVELS.index(next(level for level in LEVELS if bound.split()[1] in level or level.endswith("hostname")))
        assert len(families(shares, at)) == 1


@settings(max_examples=quick(80), deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_equals_trying_everything(case: Case, random: Random) -> None:
    _agrees(case, random)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_equals_trying_everything_long(case: Case, random: Random) -> None:
    _agrees(case, random)


def _replaces(case: Case, data: st.DataObject) -> None:
    """A node fails: with what stays, the lost pods come as near to the constraints as any way to place them."""
    hosts, bound, rules, count, sliced = case
    slices = () if sliced is None else (SliceLayer(LEVELS[sliced], 2),)
    topology = asked(bound, list(rules.values()), slices)
    before = place(cluster(hosts), topology, count)
    if not before.fits or not before.assignments["main"].domains:
        return
    shares = shares_of(before)
    failed = data.draw(st.sampled_from(sorted(shares)))
    request = PlacementRequest(PodSet("main", count, ONE_CPU, topology=topology), FLAVOR, count)
    placed = replace(request, previous=before.assignments["main"])
    budget = data.draw(st.sampled_from([1, 20_000]))
    book = charged(cluster(hosts, budget=budget), placed)
    book.apply(ObjectRemoved(RemovedKind.NODE, "-".join(failed)))
    after = book.placement.replace([placed], "-".join(failed))
    kept = {path: share for path, share in shares.items() if path != failed}
    rooms_left = {path: capacity for path, capacity in hosts.items() if path != failed}
    sizes = {} if sliced is None else {sliced: 2}
    wanted = best(rooms_left, bound, rules, sum(shares.values()), sizes, kept)
    assert after.fits == (wanted is not None)
    if wanted is not None:
        now = shares_of(after)
        assert all(now.get(path, 0) >= share for path, share in kept.items())
        assert satisfies_hard_constraints(rules, now, sizes)
        assert sum(now.values()) == sum(shares.values())
        assert all(share <= rooms_left[path] for path, share in now.items())
        assert cost_of(hosts, rules, now) == wanted if budget > 1 else cost_of(hosts, rules, now) >= wanted


@settings(max_examples=examples(60), deadline=None)
@given(cases(), st.data())
def test_replaced_pods_fit_in_with_those_that_stay(case: Case, data: st.DataObject) -> None:
    _replaces(case, data)


@pytest.mark.long
@settings(max_examples=5_000, deadline=None)
@given(cases(), st.data())
def test_replaced_pods_fit_in_with_those_that_stay_long(case: Case, data: st.DataObject) -> None:
    _replaces(case, data)


@settings(max_examples=examples(60), deadline=None)
@given(cases(), st.data())
def test_a_relaxed_constraint_never_makes_a_feasible_case_infeasible(case: Case, data: st.DataObject) -> None:
    hosts, bound, rules, count, _ = case
    book = cluster(hosts)
    if not place(book, asked(bound, list(rules.values())), count).fits:
        return
    level = data.draw(st.sampled_from(sorted(rules)))
    softer = [softened(rule) if at == level else rule for at, rule in rules.items()]
    fewer = [rule for at, rule in rules.items() if at != level]
    assert place(book, asked(bound, softer), count).fits
    assert place(book, asked(bound, fewer), count).fits
