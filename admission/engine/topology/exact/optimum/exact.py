"""Places one homogeneous gang with Profile Exact: if it needs several domains, with a proved optimum.

objective.py defines the objective, solver.py solves it. If one domain holds the gang, the answer is that of Profile
Compatible. Below the slice level the pods of each domain are placed as by Compatible. Requests beyond the objective (with a
leader, preferred node affinity or balanced placement) get the answer of Compatible, with no proof unless the gang is in one
domain. Called by place_group.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from admission.engine.decision import Certificate, Proof, Proven
from admission.engine.topology.compatible.select import Selection
from admission.engine.topology.compatible.tree_search import Found, Outcome, Search, Solved
from admission.engine.topology.constraints import ResolvedRequest
from admission.engine.topology.count import Numbers
from admission.engine.topology.exact.optimum.objective import Problem
from admission.engine.topology.exact.optimum.solver import solve as optimum
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree


def solve(tree: Tree, resolved: ResolvedRequest, numbers: Sequence[Numbers], budget: int) -> Solved:
    """Returns the best domains for the resolved request, with a certificate. `budget` is the number of search nodes to expand.

    The certificate's cost and bound are the figures of objective.py. They are empty if one domain holds the gang, or if
    Compatible answers (the proof is then Feasible, unless the gang is in one domain). For several domains the certificate
    covers all figures down to the slice level; for one domain it states that no smaller domain holds the gang; for
    Compatible's answer it states only that the placement exists.
    """
    search = Search(tree, resolved, numbers)
    if not _plain(resolved):
        outcome = search.run()
        return Solved(outcome, _of_one(tree, resolved, outcome))
    capacities = numbers[resolved.level].slice
    simple = resolved.required or not len(capacities) or int(capacities.max()) >= resolved.need
    if simple or int(capacities.sum()) < resolved.need:
        outcome = search.run()
        return Solved(outcome, _of(tree, resolved.level, Proven.ONE_DOMAIN, isinstance(outcome, Found)))
    problem = _problem(tree, resolved, numbers)
    best = optimum(problem, budget)
    certificate = _claiming(best.certificate, tree, resolved.slice_level, Proven.LEVELS)
    if certificate.proof is Proof.FEASIBLE:
        # An unproved answer is still never worse than Compatible's.
        outcome = search.run()
        if isinstance(outcome, Found):
            cost = problem.figures(_up(tree, outcome.ids, resolved.slice_level))
            if cost < certificate.cost:
                proof = Proof.OPTIMAL if cost <= certificate.bound else Proof.FEASIBLE
                return Solved(outcome, replace(certificate, proof=proof, cost=cost))
    return Solved(search.spread(_shares(tree, resolved, numbers, best.slots)), certificate)


def _plain(resolved: ResolvedRequest) -> bool:
    """Reports whether the objective covers the request: no leader, preferred node affinity or balanced placement."""
    by_affinity = resolved.by_affinity and bool(resolved.wants.preferred)
    return not (resolved.leaders or by_affinity or resolved.balanced)


def _of_one(tree: Tree, resolved: ResolvedRequest, outcome: Outcome) -> Certificate | None:
    """Returns the certificate for Compatible's answer: Optimal for one domain of the requested level, else Feasible or None."""
    if not isinstance(outcome, Found):
        return None
    one = len(_up(tree, outcome.ids, resolved.level)) <= 1
    return _of(tree, resolved.level, Proven.DOMAINS, True) if one else Certificate(Proof.FEASIBLE)


def _of(tree: Tree, level: int, claim: Proven, fits: bool) -> Certificate:
    return _claiming(Certificate(Proof.OPTIMAL if fits else Proof.INFEASIBLE), tree, level, claim)


def _claiming(certificate: Certificate, tree: Tree, level: int, claim: Proven) -> Certificate:
    """Returns the certificate with its claim, which covers the levels down to `level`."""
    names = tree.shape.levels
    below = names[level + 1] if level + 1 < tree.depth else ""
    return replace(certificate, claim=claim, level=names[level], unproved=below)


def _up(tree: Tree, slots: Ints, target: int) -> Ints:
    """Returns the domains of the `target` level that contain these lowest domains."""
    for level in range(tree.depth - 1, target, -1):
        slots = np.unique(tree.levels[level].parent[slots])
    return slots


def _problem(tree: Tree, resolved: ResolvedRequest, numbers: Sequence[Numbers]) -> Problem:
    levels = tree.levels[: resolved.slice_level + 1]
    return Problem(
        capacity=[some.slice for some in numbers[: resolved.slice_level + 1]],
        parent=[level.parent for level in levels],
        label=[level.label for level in levels],
        requested=resolved.level,
        need=resolved.need,
    )


def _shares(tree: Tree, resolved: ResolvedRequest, numbers: Sequence[Numbers], slots: Ints) -> Selection:
    """Returns the slices of each domain: all domains are filled except the smallest (in a tie the last by name)."""
    shares, label = numbers[resolved.slice_level].slice[slots], tree.levels[resolved.slice_level].label
    smallest = (shares == shares.min()).nonzero()[0]
    shares[smallest[label[slots[smallest]].argmax()]] -= int(shares.sum()) - resolved.need
    return Selection(slots, shares)
