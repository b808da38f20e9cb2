"""Places one gang under placement constraints (pack, spread, partition, range, factor) at any levels: sakkara.md.

Called by place_group.py for requests with constraints, under every profile. Levels without a constraint pack.

Feasibility: all pods are placed and all hard constraints hold. A `required` level confines the pods to one domain of the
level; a `preferred` level to one domain if a domain can hold them, otherwise to one of the next wider level, and so on up
to the whole tree. Inside, the pods of each domain are divided into shares of its children (units); a constraint of the
children's level applies to the shares of each parent. A hard pack permits one unit per parent. A hard partition requires
exactly the given number of units, with shares that differ by at most one. A hard spread requires such shares on as many
units as possible. A hard range and a hard factor hold for each used unit; with a hard factor, shares differ by at most one
factor. A constraint without a type packs, so next to a hard range or factor packing remains a preference. Slices are a hard
factor of their level.

A soft range or factor does not give way to the packing of levels that have no constraint: of the levels with one, the first
below the domain that holds all pods keeps its range and factor exactly, or if that is impossible, no unit exceeds its maximum
by more than necessary.

Objective: figures compared lexicographically, level by level from the top, each summed over the parents of its level:

1. range and factor: the pods of units outside the range, and the pods beyond a multiple of the factor;
2. pack: the number of used units; partition: the number of units that are missing or too many;
3. pack: the pairs of pods on different units (fewest if most pods are together); spread and partition: the pairs of pods on
   the same unit (fewest if the pods are spread most evenly over most units).

After these figures come the stranded slots, the free slots in the lowest domains that are used. Ties break by name: the
first children get most pods. Pairs are counted because the difference between largest and smallest share would rank 8 pods
on one node, or 4 and 4, above 3, 3 and 2. The number of pairs ranks these as expected, decreases whenever two shares are
evened out, and is additive over units, which dynamic programming needs.

Pods that stay in place (when a node is replaced or a job grows) count like new ones: a domain with such pods is used and
has at least these pods.

Algorithm: F_d(n), the least figures below domain d with n pods in it, is the min-plus convolution of the functions of its
children. Equivalent domains form one kind and share their answers (shapes/domain_kinds.py). Below each level only shares
that occur in a best placement of that level are considered (shapes/plans.py), so usually few F_d(n) are computed. `budget`
limits the number of states (child, pods left); 256 cells of a table count as one state. When the budget is spent, shares
are chosen greedily under the hard constraints (shapes/fallback.py), and the certificate says Feasible with a lower bound of
the figures of the top levels; no bound is known for the other figures.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from admission.engine.decision import Certificate, Proof, Proven
from admission.engine.model import LevelConstraint, LevelRule
from admission.engine.topology.compatible.tree_search import Found, NoDomains, NoFit, Solved
from admission.engine.topology.constraints import ResolvedLayer, ResolvedRequest
from admission.engine.topology.count import Numbers
from admission.engine.topology.exact.budget import BudgetSpent
from admission.engine.topology.exact.shapes.arrangements import Arrangements
from admission.engine.topology.exact.shapes.domain_kinds import ROOT, DomainKind, DomainKinds, KindMemory
from admission.engine.topology.exact.shapes.fallback import greedy_shares
from admission.engine.topology.exact.shapes.plans import StateBudget
from admission.engine.topology.exact.shapes.split import Splitter
from admission.engine.topology.tree.tree import Tree

SMALL = 2048
"""The largest number of pods for which a failure message computes how many would have fitted."""
REMEMBERED: Final = KindMemory()
"""Arrangements and kinds of all trees, with the costs that gangs before this one had to compute."""


def solve(tree: Tree, resolved: ResolvedRequest, numbers: Sequence[Numbers], budget: int) -> Solved:
    """Returns the placement with the least figures, with its certificate. `budget` is the number of states to examine.

    The figures of the certificate are three per level from the top, as listed above, then the stranded slots.
    """
    total = (resolved.count + sum(resolved.kept.values())) // resolved.slice_size * resolved.slice_size
    rules = _rules_of(tuple(resolved.shaped.items()), resolved.layers, tree.depth, total)
    problem = _problem(tree, resolved, rules)
    if problem:
        return _never(NoFit(max(resolved.level, 0), 0, resolved.need, problem))
    if not len(tree.levels[resolved.level]):
        return _never(NoDomains(resolved.level))
    if total == 0:
        none = np.zeros(0, dtype=np.int64)
        return Solved(Found(none, none, none), Certificate(Proof.OPTIMAL))
    kept = {tree.levels[-1].slots[path]: pods for path, pods in resolved.kept.items()}
    arrangements = Arrangements(REMEMBERED.arrangements(), tree, numbers[-1].pod, kept)
    kinds = _kinds(arrangements, rules)
    for level in _bounds(resolved):
        places = _able(kinds, rules, level, total)
        if places:
            for bounded in _bounded(resolved, arrangements, rules, level):
                bounded_kinds = _kinds(arrangements, bounded)
                if inside := _able(bounded_kinds, bounded, level, total):
                    return _Shaper(tree, resolved, bounded, bounded_kinds, budget).place(level, inside)
            return _Shaper(tree, resolved, rules, kinds, budget).place(level, places)
    return _never(_no_fit(tree, resolved, numbers, arrangements, rules))


def _kinds(arrangements: Arrangements, rules: Sequence[LevelRule]) -> DomainKinds:
    return DomainKinds(REMEMBERED.book(rules, arrangements.most), arrangements)


def _never(outcome: NoFit | NoDomains) -> Solved:
    return Solved(outcome, Certificate(Proof.INFEASIBLE))


@lru_cache(maxsize=256)
def _rules_of(
    shaped: Sequence[tuple[int, LevelConstraint]], layers: Sequence[ResolvedLayer], depth: int, total: int
) -> tuple[LevelRule, ...]:
    """Returns the rule of each level, widest first.

    A slice stays in one domain, so shares at the level of a slice layer are multiples of its size.
    """
    sizes, constraints = {layer.level: layer.size for layer in layers}, dict(shaped)
    return tuple(
        LevelRule(**asdict(constraints.get(level, LevelConstraint(""))), total=total, slices=sizes.get(level, 1))
        for level in range(depth)
    )


def _bounded(
    resolved: ResolvedRequest, arrangements: Arrangements, rules: Sequence[LevelRule], bound: int
) -> Iterator[tuple[LevelRule, ...]]:
    """Yields the rules under which the first constraint below the level `bound` is kept exactly, then those under which it
    is exceeded least; none if no level without a constraint is between, or it has neither range nor factor, or it is hard.
    """
    first = min((level for level in resolved.shaped if level > bound), default=ROOT)
    if first <= bound + 1 or rules[first].hard or not rules[first].bounded:
        return

    def with_rule(**change: Any) -> tuple[LevelRule, ...]:
        return tuple(replace(rule, **change) if level == first else rule for level, rule in enumerate(rules))

    def fits(limit: int) -> bool:
        some = with_rule(limit=limit)
        return bool(_able(_kinds(arrangements, some), some, bound, rules[0].total))

    yield with_rule(exact=True)
    low, total = rules[first].maximum, rules[0].total
    if low is not None and low < total:
        yield with_rule(limit=bisect_left(range(total), True, lo=low, key=fits))


def _problem(tree: Tree, resolved: ResolvedRequest, rules: Sequence[LevelRule]) -> str:
    """Returns why no placement can satisfy the constraints, whatever the capacity; empty if one may."""
    if resolved.leaders:
        return "placement constraints cannot be combined with a leader in the same group"
    some = [tree.shape.levels[level] for level, rule in enumerate(rules) if rule.contradictory]
    return f"the placement constraint at level {some[0]} contradicts itself" if some else ""


def _bounds(resolved: ResolvedRequest) -> Iterator[int]:
    """Yields the levels of which one domain may hold all pods, in the order to try; ROOT stands for the whole tree."""
    if not resolved.unconstrained:
        yield from (resolved.level,) if resolved.required else range(resolved.level, ROOT, -1)
    if not resolved.required:
        yield ROOT


def _able(kinds: DomainKinds, rules: Sequence[LevelRule], level: int, total: int) -> dict[int, DomainKind]:
    """Returns the domains of the level that can hold all pods under the hard constraints, by slot; the root is slot 0."""
    if not all(rule.alone() for rule in rules[: level + 1]):
        return {}
    fits: dict[DomainKind, bool] = {}
    able = {}
    for slot, kind in kinds.of(level):
        if kind not in fits:
            fits[kind] = kind.kept == kinds.root.kept and kind.fits(total)
        if fits[kind]:
            able[slot] = kind
    return able


@dataclass(frozen=True)
class _Shaper:
    """Finds the best placement inside domains that are known to be able to hold all pods."""

    tree: Tree
    resolved: ResolvedRequest
    rules: Sequence[LevelRule]
    kinds: DomainKinds
    budget: int

    def place(self, level: int, places: Mapping[int, DomainKind]) -> Solved:
        """Returns the best placement inside one of the domains `places` (by slot of the level)."""
        budget = StateBudget(self.budget)
        splitter = Splitter(budget)
        bound = self._above(level)
        total = self.rules[0].total
        tightest = sorted(places, key=lambda slot: (places[slot].capacity, self._label(level, slot)))
        try:
            tops = {kind: splitter.top(kind, total) for kind in dict.fromkeys(places.values())}
            least = min(tops.values())
            if level + 1 < len(self.rules):
                bound += self.kinds.rules[level + 1].unpacked(least, total)
            best = [kind for kind, top in tops.items() if top == least]
            costs = {kind: splitter.cost(kind, total) if len(best) > 1 else 0 for kind in best}
            slot = min((slot for slot in tightest if places[slot] in costs), key=lambda slot: costs[places[slot]])
            pods = self._distribute(level, slot, splitter)
        except BudgetSpent:
            pods = self._distribute(level, tightest[0], None)
            proof = Proof.FEASIBLE
        else:
            proof = Proof.OPTIMAL
        cost = self._figures(pods)
        lowest = self.tree.shape.levels[-1]
        certificate = Certificate(
            proof, cost, bound if proof is Proof.FEASIBLE else cost, budget.spent, Proven.CONSTRAINTS, lowest
        )
        return Solved(self._found(pods), certificate)

    def _label(self, level: int, slot: int) -> int:
        return int(self.tree.levels[level].label[slot]) if level > ROOT else 0

    def _distribute(self, level: int, slot: int, splitter: Splitter | None) -> dict[int, int]:
        """Returns the pods by slot of the lowest level. Without a splitter the fallback chooses the shares."""
        pods = {slot: self.rules[0].total}
        while level + 1 < len(self.rules):
            below: dict[int, int] = {}
            for parent, kind in self.kinds.among(level, pods).items():
                below.update(self._below(level, parent, kind, pods[parent], splitter))
            level, pods = level + 1, below
        return pods

    def _below(
        self, level: int, parent: int, kind: DomainKind, share: int, splitter: Splitter | None
    ) -> dict[int, int]:
        domains = self.tree.levels[level + 1]
        slots = domains.ids().tolist() if level == ROOT else self.tree.levels[level].children[parent]
        some = self.kinds.among(level + 1, slots)
        order = domains.in_order(some)
        children = [some[slot] for slot in order]
        if splitter is None:
            shares = greedy_shares(kind, children, share, self.rules[0].total)
        else:
            shares = splitter.shares(kind, children, share)
        return {slot: part for slot, part in zip(order, shares, strict=True) if part}

    def _found(self, pods: Mapping[int, int]) -> Found:
        kinds = self.kinds.among(len(self.rules) - 1, pods)
        added = {slot: share - kinds[slot].kept for slot, share in pods.items()}
        ids = np.array(self.tree.levels[-1].in_order(slot for slot, share in added.items() if share), dtype=np.int64)
        counts = np.array([added[slot] for slot in ids.tolist()], dtype=np.int64)
        return Found(ids, counts, np.zeros_like(ids))

    # ---- figures

    def _above(self, level: int) -> tuple[int, ...]:
        """Returns the figures of the levels down to the one whose domain holds all pods: one unit with all pods each."""
        return tuple(figure for rule in self.rules[: level + 1] for figure in rule.figures([[rule.total]]))

    def _figures(self, pods: Mapping[int, int]) -> tuple[int, ...]:
        """Returns all figures of a placement, computed from its pods by lowest-level slot."""
        lowest = self.kinds.among(len(self.rules) - 1, pods).values()
        stranded = sum(kind.capacity + kind.kept for kind in lowest) - self.rules[0].total
        figures: list[int] = [stranded]
        for level in range(len(self.rules) - 1, -1, -1):
            parents = self.tree.levels[level].parent
            families: dict[int, list[int]] = {}
            above: dict[int, int] = {}
            for slot, share in pods.items():
                parent = int(parents[slot]) if level else 0
                families.setdefault(parent, []).append(share)
                above[parent] = above.get(parent, 0) + share
            figures[:0] = self.rules[level].figures(families.values())
            pods = above
        return tuple(figures)


# ---- why not


def _no_fit(
    tree: Tree,
    resolved: ResolvedRequest,
    numbers: Sequence[Numbers],
    arrangements: Arrangements,
    rules: Sequence[LevelRule],
) -> NoFit:
    """Returns the failure: the capacity is too small, or a hard constraint prevents a placement."""
    at = resolved.level if resolved.required else 0
    offers = numbers[at].slice
    capacity = int(offers.max() if resolved.required else offers.sum())
    if capacity < resolved.need or not any(rule.hard for rule in rules):
        return NoFit(at, min(capacity, resolved.need), resolved.need)
    most = 0
    if rules[0].total <= SMALL:
        kinds = _kinds(arrangements, rules)
        most = _most(kinds, at if resolved.required else ROOT, rules[0].total) - kinds.root.kept
    fit = min(max(0, most // resolved.slice_size), resolved.need - 1)
    return NoFit(at, fit, resolved.need, _reason(tree, resolved, arrangements, rules))


def _most(kinds: DomainKinds, level: int, total: int) -> int:
    """Returns the largest number of pods, up to `total`, that one domain of the level can hold under the hard constraints."""
    return max((kind.takes(total).bit_length() - 1 for kind in {kind for _, kind in kinds.of(level)}), default=0)


def _reason(tree: Tree, resolved: ResolvedRequest, arrangements: Arrangements, rules: Sequence[LevelRule]) -> str:
    """Returns the text that names each hard constraint without which the pods would fit; all of them if there is none."""
    hard = [level for level, rule in enumerate(rules) if rule.hard]
    guilty = [level for level in hard if _fits_without(resolved, arrangements, rules, level)] or hard
    text = [f"{rules[level].text()} at level {tree.shape.levels[level]}" for level in guilty]
    return f"no placement meets the hard placement constraint {' and '.join(text)}"


def _fits_without(
    resolved: ResolvedRequest, arrangements: Arrangements, rules: Sequence[LevelRule], level: int
) -> bool:
    total = rules[0].total
    relaxed = [replace(rule, hard=rule.hard and at != level) for at, rule in enumerate(rules)]
    kinds = _kinds(arrangements, relaxed)
    return any(_able(kinds, relaxed, bound, total) for bound in _bounds(resolved))
