"""One homogeneous gang to a proved optimum if it needs several domains; if one suffices, Compatible's answer.

optimum/objective.py defines what is best, optimum/solver.py finds it. Below the slice level each domain's pods go down
as Compatible's do. Compatible answers, and nothing is proved, if the request asks for more than the objective covers: a
leader beside the workers, preferred nodes, balanced shares. Called by place.py for Profile Exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from admission.engine.decision import Certificate, Proof, Proven
from admission.engine.topology.compatible.select import Selection
from admission.engine.topology.compatible.tree_search import Found, Outcome, Search, Solved
from admission.engine.topology.constraints import Ask
from admission.engine.topology.count import Numbers
from admission.engine.topology.optimum.objective import Problem
from admission.engine.topology.optimum.solver import solve as optimum
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree


def solve(tree: Tree, ask: Ask, numbers: Sequence[Numbers], budget: int) -> Solved:
    """Returns the best domains for the Ask, with a certificate; `budget`: search nodes that may be expanded.

    The certificate's cost and bound are the figures of optimum/objective.py. There are none if one domain holds
    everything, or if Compatible answers (then Feasible, unless it uses one domain). The certificate claims, for several
    domains: all figures, down to the level where slices are counted; for one domain: no smaller domain holds it; for
    Compatible's answer: only that there is one.
    """
    search = Search(tree, ask, numbers)
    if not _plain(ask):
        outcome = search.run()
        return Solved(outcome, _of_one(tree, ask, outcome))
    asked = numbers[ask.level].slice
    simple = ask.required or not len(asked) or int(asked.max()) >= ask.need
    if simple or int(asked.sum()) < ask.need:
        outcome = search.run()
        return Solved(outcome, _of(tree, ask.level, Proven.ONE_DOMAIN, isinstance(outcome, Found)))
    problem = _problem(tree, ask, numbers)
    best = optimum(problem, budget)
    certificate = _claiming(best.certificate, tree, ask.slice_level, Proven.LEVELS)
    if certificate.proof is Proof.FEASIBLE:
        # An unproved answer is still never worse than Compatible's.
        outcome = search.run()
        if isinstance(outcome, Found):
            cost = problem.figures(_up(tree, outcome.ids, ask.slice_level))
            if cost < certificate.cost:
                proof = Proof.OPTIMAL if cost <= certificate.bound else Proof.FEASIBLE
                return Solved(outcome, replace(certificate, proof=proof, cost=cost))
    return Solved(search.spread(_shares(tree, ask, numbers, best.slots)), certificate)


def _plain(ask: Ask) -> bool:
    """Reports whether the objective covers everything that the request asks for."""
    by_affinity = ask.by_affinity and bool(ask.wants.preferred)
    return not (ask.leaders or by_affinity or ask.balanced)


def _of_one(tree: Tree, ask: Ask, outcome: Outcome) -> Certificate | None:
    """One domain of the requested level is optimal. Compatible's answer with several domains, or none, proves nothing."""
    if not isinstance(outcome, Found):
        return None
    one = len(_up(tree, outcome.ids, ask.level)) <= 1
    return _of(tree, ask.level, Proven.DOMAINS, True) if one else Certificate(Proof.FEASIBLE)


def _of(tree: Tree, level: int, claim: Proven, found: bool) -> Certificate:
    return _claiming(Certificate(Proof.OPTIMAL if found else Proof.INFEASIBLE), tree, level, claim)


def _claiming(certificate: Certificate, tree: Tree, level: int, claim: Proven) -> Certificate:
    """Returns the certificate limited to what is claimed down to the level."""
    names = tree.shape.levels
    below = names[level + 1] if level + 1 < tree.depth else ""
    return replace(certificate, claim=claim, level=names[level], unproved=below)


def _up(tree: Tree, slots: Ints, target: int) -> Ints:
    """From lowest domains to their domains of a wider level."""
    for level in range(tree.depth - 1, target, -1):
        slots = np.unique(tree.levels[level].parent[slots])
    return slots


def _problem(tree: Tree, ask: Ask, numbers: Sequence[Numbers]) -> Problem:
    levels = tree.levels[: ask.slice_level + 1]
    return Problem(
        capacity=[some.slice for some in numbers[: ask.slice_level + 1]],
        parent=[level.parent for level in levels],
        label=[level.label for level in levels],
        asked=ask.level,
        need=ask.need,
    )


def _shares(tree: Tree, ask: Ask, numbers: Sequence[Numbers], slots: Ints) -> Selection:
    """Returns all domains full but the smallest (the last by name wins a tie), which gets the rest."""
    shares, label = numbers[ask.slice_level].slice[slots], tree.levels[ask.slice_level].label
    smallest = (shares == shares.min()).nonzero()[0]
    shares[smallest[label[slots[smallest]].argmax()]] -= int(shares.sum()) - ask.need
    return Selection(slots, shares)
