"""A proved optimum where several domains are needed: quick answers, lower bounds, and what is left to be searched.

Called by exact.py. The objective is in objective.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admission.engine.decision import Certificate, Proof
from admission.engine.topology.level import Ints
from admission.engine.topology.optimum.bounds import Floor, floor_of
from admission.engine.topology.optimum.flat import Top, fewest
from admission.engine.topology.optimum.greedy import answers, down, kinds_of
from admission.engine.topology.optimum.labels import Labels
from admission.engine.topology.optimum.objective import Figures, Problem, Scale


@dataclass(frozen=True, slots=True)
class Best:
    """Domains of the last level, and how good they are."""

    slots: Ints
    certificate: Certificate


def solve(problem: Problem, budget: int) -> Best:
    """All domains together must hold the need, and no domain of the asked level alone."""
    kinds = kinds_of(problem.capacity[problem.asked])
    top = fewest(kinds, problem.need)
    if top is None:
        raise AssertionError("asked only where there is room")
    among = np.flatnonzero(problem.capacity[problem.asked] >= top.last - top.slack)
    floor = floor_of(problem, kinds, top, among)
    best, figures = _quick(problem, top, among, floor)
    if figures <= floor.figures:
        return Best(best, Certificate(Proof.OPTIMAL, figures, figures))
    return _searched(problem, best, figures, floor, among, budget)


def _quick(problem: Problem, top: Top, among: Ints, floor: Floor) -> tuple[Ints, Figures]:
    best: tuple[Figures, Ints] | None = None
    for chosen in answers(problem, top, among):
        slots = down(problem, chosen)
        figures = problem.figures(slots)
        if best is None or figures < best[0]:
            best = figures, slots
        if figures <= floor.figures:
            break
    if best is None:
        raise AssertionError("the largest always hold the need")
    return best[1], best[0]


def _searched(problem: Problem, best: Ints, figures: Figures, floor: Floor, among: Ints, budget: int) -> Best:
    candidates = _candidates(problem, among)
    widest = max(int(problem.capacity[problem.asked].sum()), sum(map(len, candidates)))
    scale = Scale(problem, set(problem.capacity[problem.asked][candidates[problem.asked]].tolist()), widest)
    labels = Labels(problem, scale, candidates, floor.least, scale.cost(problem, best), budget)
    found = labels.run()
    if found is not None:
        best, figures = found, problem.figures(found)
    if labels.spent:
        return Best(best, Certificate(Proof.FEASIBLE, figures, floor.figures, labels.expanded))
    return Best(best, Certificate(Proof.OPTIMAL, figures, figures, labels.expanded))


def _candidates(problem: Problem, among: Ints) -> list[Ints]:
    """Per level what lies above and below these domains of the asked level, and can hold something."""
    found = [among]
    for level in range(problem.asked, 0, -1):
        found.insert(0, np.unique(problem.parent[level][found[0]]))
    for level in range(problem.asked + 1, problem.last + 1):
        inside = np.zeros(len(problem.capacity[level - 1]), dtype=np.bool_)
        inside[found[-1]] = True
        found.append(np.flatnonzero(inside[problem.parent[level]] & (problem.capacity[level] > 0)))
    return found
