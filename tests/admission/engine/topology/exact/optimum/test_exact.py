"""Profile Exact: equal to trying everything on small trees, never worse than Compatible on larger ones."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from admission.engine.decision import PlacementResult, Proof, Proven
from admission.engine.model import PlacementOptions, PlacementRequest, PodSet, Profile, TopologyRequest
from tests.admission.engine.topology.trees import FLAVOR, Path, PlacementCase, best, capacities, cases, figures, opened
from tests.budgets import examples

quick = settings(max_examples=examples(100), deadline=None)


def racks(*sizes: int, count: int, preferred: bool = True) -> PlacementCase:
    """One block of racks, each one host wide."""
    hosts: dict[Path, int] = {("b", f"r{index}", f"h{index}"): size for index, size in enumerate(sizes)}
    return PlacementCase(hosts, 1, 2, 1, count, preferred)


def places(result: PlacementResult) -> str:
    """`h0:5 h1:5`."""
    return " ".join(f"{domain.values[-1]}:{domain.count}" for domain in result.assignments["main"].domains)


@pytest.mark.parametrize(
    ("sizes", "count", "wanted", "compatible"),
    [
        pytest.param((6, 5, 5), 10, "h1:5 h2:5", "h0:6 h1:4", id="the hole of 6 stays whole"),
        pytest.param((18, 14, 14, 9), 28, "h1:14 h2:14", "h0:18 h1:10", id="an exact fit"),
        pytest.param((9, 8, 7, 6), 17, "h0:9 h1:8", "h0:9 h1:8", id="the largest are the best"),
        pytest.param((5, 5, 5, 5), 9, "h0:5 h1:4", "h0:5 h1:4", id="the first by name"),
        pytest.param((4, 6, 4), 7, "h0:4 h2:3", "h0:1 h1:6", id="fewest first, then least stranded"),
    ],
)
def test_several_racks(sizes: tuple[int, ...], count: int, wanted: str, compatible: str) -> None:
    case = racks(*sizes, count=count)
    assert places(case.ledger().placement.place([case.request(Profile.EXACT)])) == wanted
    assert places(case.ledger().placement.place([case.request(Profile.COMPATIBLE)])) == compatible


def test_of_one_domain_nothing_below_is_claimed() -> None:
    """Two racks of 5 would strand nothing, the answer takes 6 and 4: only the choice of the block is proved."""
    hosts: dict[Path, int] = {("b", f"r{index}", f"h{index}"): size for index, size in enumerate((6, 5, 5))}
    case = PlacementCase(hosts, 0, 2, 1, 10, preferred=True)
    result = case.ledger().placement.place([case.request(Profile.EXACT)])
    assert places(result) == "h0:6 h1:4"
    certificate = result.certificates["main"]
    assert (certificate.proof, certificate.claim) == (Proof.OPTIMAL, Proven.ONE_DOMAIN)
    assert (certificate.level, certificate.unproved) == case.levels[:2]
    top, next_level, _ = case.levels
    assert certificate.text == (
        f"proved: one domain of {top} holds all, and none that does holds less; of {next_level} and below nothing is proved"
    )


def check(case: PlacementCase) -> None:
    """Exact's answer is the best there is, and it says so."""
    exact = case.ledger().placement.place([case.request(Profile.EXACT)])
    compatible = case.ledger().placement.place([case.request(Profile.COMPATIBLE)])
    certificate = exact.certificates["main"]
    assert exact.fits == compatible.fits
    if not exact.fits:
        assert exact.failures == compatible.failures
        assert certificate.proof is Proof.INFEASIBLE
        return
    assert certificate.proof is Proof.OPTIMAL
    by_path = capacities(case)
    assert (
        certificate.level == case.levels[case.requested if certificate.claim is Proven.ONE_DOMAIN else case.slice_level]
    )
    below = case.levels[case.levels.index(certificate.level) + 1 :]
    assert certificate.unproved == (below[0] if below else "")
    if not case.need or max(size for path, size in by_path.items() if len(path) == case.requested + 1) >= case.need:
        assert exact.assignments == compatible.assignments
        assert certificate.claim is Proven.ONE_DOMAIN
        least = best(case) if case.need else None
        if least is not None:  # what it claims of one domain is true; below it may not be the best
            some = case.requested + 2
            assert figures(case, opened(case, exact.assignments["main"]))[:some] == least[:some]
        return
    assert certificate.claim is Proven.LEVELS
    found = figures(case, opened(case, exact.assignments["main"]))
    assert found == best(case)
    assert certificate.cost == certificate.bound == found
    assert found <= figures(case, opened(case, compatible.assignments["main"]))
    counts = {domain.values[-1]: domain.count for domain in exact.assignments["main"].domains}
    assert sum(counts.values()) == case.need * case.slice_size
    assert all(0 < counts[path[-1]] <= size for path, size in case.hosts.items() if path[-1] in counts)


@settings(quick, max_examples=examples(200))
@given(cases())
def test_equal_to_trying_every_set(case: PlacementCase) -> None:
    check(case)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None)
@given(cases())
def test_equal_to_trying_every_set_at_length(case: PlacementCase) -> None:
    check(case)


@settings(max_examples=examples(40), deadline=None)
@given(cases(most=30), st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(case: PlacementCase, random: Random) -> None:
    order = random.sample(list(case.hosts), len(case.hosts))
    request = case.request(Profile.EXACT)
    assert case.ledger(order=order).placement.place([request]) == case.ledger().placement.place([request])


@settings(max_examples=examples(20), deadline=None)
@given(cases(most=40), st.sampled_from([1, 100, 20_000]))
def test_never_worse_than_compatible_whatever_the_budget(case: PlacementCase, budget: int) -> None:
    ledger = case.ledger(PlacementOptions(exact_budget=budget))
    exact = ledger.placement.place([case.request(Profile.EXACT)])
    compatible = ledger.placement.place([case.request(Profile.COMPATIBLE)])
    assert exact.fits == compatible.fits
    assume(exact.fits and exact.certificates["main"].cost)
    certificate = exact.certificates["main"]
    ours, theirs = (figures(case, opened(case, result.assignments["main"])) for result in (exact, compatible))
    assert ours == certificate.cost
    assert certificate.bound <= ours
    assert (certificate.proof is Proof.OPTIMAL) == (certificate.bound == ours)
    assert ours <= theirs
    assert ours[0] <= theirs[0]
    stranded = case.requested + 1
    assert ours[:stranded] != theirs[:stranded] or ours[stranded] <= theirs[stranded]


@pytest.mark.parametrize(
    ("sizes", "workers", "proof"),
    [
        pytest.param((9, 9), 8, Proof.OPTIMAL, id="one rack holds both"),
        pytest.param((6, 6), 8, Proof.FEASIBLE, id="two racks, nothing is proved"),
        pytest.param((4, 4), 8, None, id="no room for the leader"),
    ],
)
def test_a_leader_is_placed_as_compatible_does(sizes: tuple[int, ...], workers: int, proof: Proof | None) -> None:
    case = racks(*sizes, count=workers)
    topology = TopologyRequest(preferred=case.levels[1], group="g")
    results = {
        profile: case.ledger().placement.place(
            [
                PlacementRequest(PodSet(name, count, {"cpu": 1}, topology=topology), FLAVOR, count, profile=profile)
                for name, count in (("workers", workers), ("leader", 1))
            ]
        )
        for profile in (Profile.EXACT, Profile.COMPATIBLE)
    }
    exact, compatible = results[Profile.EXACT], results[Profile.COMPATIBLE]
    assert exact.assignments == compatible.assignments
    assert exact.failures == compatible.failures
    certificate = exact.certificates.get("workers")
    assert (None if certificate is None else certificate.proof) is proof
    if certificate is not None and proof is Proof.OPTIMAL:
        assert (certificate.claim, certificate.level) == (Proven.DOMAINS, case.levels[1])


def test_a_flavor_without_nodes_fails_as_compatible_does() -> None:
    """Even for a gang that is smaller than a slice and so needs none."""
    case = PlacementCase({("b", "h"): 1}, 0, 0, 2, 1, preferred=True)
    ledger = case.ledger(order=[])
    exact, compatible = (
        ledger.placement.place([case.request(profile)]) for profile in (Profile.EXACT, Profile.COMPATIBLE)
    )
    assert exact.failures == compatible.failures
    assert exact.certificates["main"].proof is Proof.INFEASIBLE
