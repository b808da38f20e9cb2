"""One gang under placement constraints (pack, spread, partition, range, factor) at any levels: sakkara.md.

Called by place.py for requests with constraints, whatever the profile. Levels without a constraint pack.

What a placement must satisfy: all pods are placed; hard constraints hold. `required` confines it to one domain of that
level; `preferred` to one domain if any can hold it, otherwise the search climbs; otherwise the whole tree is open.
Inside, the pods of each domain are shared out over its children; a constraint of the children's level applies to the
shares of each parent. A hard pack means one unit per parent; hard partitions mean exactly so many units with shares
that differ by one at most; a hard spread means such shares on as many units as possible; hard range and factor hold on
each used unit. With a hard factor, shares differ by one factor at most. A constraint without a type packs, so beside a
hard range or factor packing remains a preference. Slices are a hard factor of their level.

What is best: figures compared level by level from the top, each summed over the parents of its level: 1. range, factor:
pods of units outside the range, and pods beyond the multiple; 2. pack: used units; partition: how many units there are
too few or too many; 3. pack: pairs of pods on different units (fewest: as many as possible together); spread,
partition: pairs of pods that share a unit (fewest: as evenly as possible over as many units as possible).

Then least stranded: slots left in the lowest domains that were opened. Then by name: the first children get most. Why
pairs: for a spread the plain difference of largest and smallest share would rank 8 pods on one node, or 4 and 4, above
3, 3 and 2. Pairs rank these as people do, decrease whenever two shares are evened out, and add up over units, so that
dynamic programming works.

Pods that stay (a node is replaced, a job grows) count in all this: a domain that has some is used, with at least these.

Algorithm: F_d(n), the least figures below domain d with n pods in it, is a min-plus convolution of its children's.
Equivalent domains are one kind and share answers (shapes/domain_kinds.py). Only shares that some placement best at its
level has are considered below (shapes/plans.py), so mostly few F_d(n) are computed. `budget` limits the states (child,
pods left); 256 cells of a table count as one. When it is spent, shares are chosen from left to right while hard
constraints hold (shapes/fallback.py), and the certificate says Feasible with a lower bound of the top level's figures;
figures that are not in the bound are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from admission.engine.decision import Certificate, Proof, Proven
from admission.engine.topology.budget import BudgetSpent
from admission.engine.topology.compatible.tree_search import Found, NoDomains, NoFit, Solved
from admission.engine.topology.constraints import Ask
from admission.engine.topology.count import Numbers
from admission.engine.topology.shapes.domain_kinds import DomainKind, DomainKinds
from admission.engine.topology.shapes.fallback import rough
from admission.engine.topology.shapes.level_rule import LevelRule, rules_of
from admission.engine.topology.shapes.plans import StateBudget
from admission.engine.topology.shapes.split import Splitter
from admission.engine.topology.tree.tree import Tree

ROOT = -1
SMALL = 2048
"""Up to this many pods a message may compute how many would have fitted."""


def solve(tree: Tree, ask: Ask, numbers: Sequence[Numbers], budget: int) -> Solved:
    """Returns the domains that violate the Ask's constraints least, with a certificate; `budget`: states to examine.

    The certificate's figures: three per level from the top as listed above, then the stranded slots.
    """
    total = (ask.count + sum(ask.kept.values())) // ask.slice_size * ask.slice_size
    rules = rules_of(ask.shaped, ask.layers, tree.depth, total)
    problem = _problem(tree, ask, rules)
    if problem:
        return _never(NoFit(max(ask.level, 0), 0, ask.need, problem))
    if not len(tree.levels[ask.level]):
        return _never(NoDomains(ask.level))
    if total == 0:
        none = np.zeros(0, dtype=np.int64)
        return Solved(Found(none, none, none), Certificate(Proof.OPTIMAL))
    kinds = _kinds(tree, ask, numbers, rules)
    for level in _bounds(ask):
        places = _able(kinds, rules, level, total)
        if places:
            return _Shaper(tree, ask, rules, kinds, budget).place(level, places)
    return _never(_no_fit(tree, ask, numbers, kinds, rules))


def _kinds(tree: Tree, ask: Ask, numbers: Sequence[Numbers], rules: Sequence[LevelRule]) -> DomainKinds:
    kept = {tree.levels[-1].slots[path]: pods for path, pods in ask.kept.items()}
    return DomainKinds(tree, numbers[-1].pod, rules, rules[0].total, kept)


def _never(outcome: NoFit | NoDomains) -> Solved:
    return Solved(outcome, Certificate(Proof.INFEASIBLE))


def _problem(tree: Tree, ask: Ask, rules: Sequence[LevelRule]) -> str:
    """Returns why the constraints cannot be satisfied at all; empty if they can."""
    if ask.leaders:
        return "placement constraints cannot be combined with a leader in the same group"
    some = [tree.shape.levels[level] for level, rule in enumerate(rules) if rule.contradictory]
    return f"the placement constraint at level {some[0]} contradicts itself" if some else ""


def _bounds(ask: Ask) -> Iterator[int]:
    """Yields the levels of which one domain may confine the pods, in the order to try."""
    if not ask.unconstrained:
        yield from (ask.level,) if ask.required else range(ask.level, ROOT, -1)
    if not ask.required:
        yield ROOT


def _able(kinds: DomainKinds, rules: Sequence[LevelRule], level: int, total: int) -> dict[int, DomainKind]:
    """Returns the domains of the level that can hold everything, by slot; the root is slot 0."""
    if not all(rule.alone() for rule in rules[: level + 1]):
        return {}
    some = kinds.levels[level] if level > ROOT else {0: kinds.root}
    fits = {kind: kind.kept == kinds.root.kept and kind.fits(total) for kind in dict.fromkeys(some.values())}
    return {slot: kind for slot, kind in some.items() if fits[kind]}


@dataclass(frozen=True)
class _Shaper:
    """One solution among kinds that are known to be able."""

    tree: Tree
    ask: Ask
    rules: Sequence[LevelRule]
    kinds: DomainKinds
    budget: int

    def place(self, level: int, places: Mapping[int, DomainKind]) -> Solved:
        """Returns the best placement inside one of these domains."""
        budget = StateBudget(self.budget)
        splitter = Splitter(self._shifts(), budget)
        bound = self._above(level)
        total = self.rules[0].total
        tightest = sorted(places, key=lambda slot: (places[slot].capacity, self._label(level, slot)))
        try:
            tops = {kind: splitter.top(kind, total) for kind in dict.fromkeys(places.values())}
            least = min(tops.values())
            if level + 1 < len(self.rules):
                bound += self.rules[level + 1].unpacked(least)
            costs = {kind: splitter.cost(kind, total) for kind, top in tops.items() if top == least}
            slot = min((slot for slot in tightest if places[slot] in costs), key=lambda slot: costs[places[slot]])
            pods = self._hand_out(level, slot, splitter)
        except BudgetSpent:
            pods = self._hand_out(level, tightest[0], None)
            proof = Proof.FEASIBLE
        else:
            proof = Proof.OPTIMAL
        cost = self._figures(pods)
        lowest = self.tree.shape.levels[-1]
        certificate = Certificate(
            proof, cost, bound if proof is Proof.FEASIBLE else cost, budget.spent, Proven.CONSTRAINTS, lowest
        )
        return Solved(self._found({slot: share - self._kept(slot) for slot, share in pods.items()}), certificate)

    def _label(self, level: int, slot: int) -> int:
        return int(self.tree.levels[level].label[slot]) if level > ROOT else 0

    def _shifts(self) -> list[int]:
        """Returns where each level's figures begin in a cost: above those of all levels below, and the stranded
        slots."""
        shift = 1 + (2 * self.kinds.most * self.rules[0].total).bit_length()
        shifts = []
        for rule in reversed(self.rules):
            shifts.append(shift)
            shift += rule.width
        return shifts[::-1]

    def _hand_out(self, level: int, slot: int, splitter: Splitter | None) -> dict[int, int]:
        """Pods by slot of the lowest level."""
        pods = {slot: self.rules[0].total}
        while level + 1 < len(self.rules):
            below: dict[int, int] = {}
            for parent, share in pods.items():
                below.update(self._below(level, parent, share, splitter))
            level, pods = level + 1, below
        return pods

    def _below(self, level: int, parent: int, share: int, splitter: Splitter | None) -> dict[int, int]:
        some = self.kinds.levels[level + 1]
        domains = self.tree.levels[level + 1]
        slots = domains.ids().tolist() if level == ROOT else self.tree.levels[level].children[parent]
        order = domains.in_order(slot for slot in slots if slot in some)
        kind = self.kinds.levels[level][parent] if level > ROOT else self.kinds.root
        kids = [some[slot] for slot in order]
        shares = rough(kind, kids, share) if splitter is None else splitter.shares(kind, kids, share)
        return {slot: part for slot, part in zip(order, shares, strict=True) if part}

    def _found(self, pods: Mapping[int, int]) -> Found:
        some = [slot for slot, share in pods.items() if share]
        ids = np.array(self.tree.levels[-1].in_order(some), dtype=np.int64)
        counts = np.array([pods[slot] for slot in ids.tolist()], dtype=np.int64)
        return Found(ids, counts, np.zeros_like(ids))

    def _kept(self, slot: int) -> int:
        return self.kinds.levels[-1][slot].kept

    # ---- figures

    def _above(self, level: int) -> tuple[int, ...]:
        """Returns the cost of the levels down to the confining one: one unit with all pods."""
        return tuple(figure for rule in self.rules[: level + 1] for figure in rule.figures([[rule.total]]))

    def _figures(self, pods: Mapping[int, int]) -> tuple[int, ...]:
        """Returns the cost of a placement, computed from the placement itself."""
        leaves = self.kinds.levels[-1]
        stranded = sum(leaves[slot].capacity + leaves[slot].kept for slot in pods) - self.rules[0].total
        found: list[int] = [stranded]
        for level in range(len(self.rules) - 1, -1, -1):
            parents = self.tree.levels[level].parent
            families: dict[int, list[int]] = {}
            above: dict[int, int] = {}
            for slot, share in pods.items():
                parent = int(parents[slot]) if level else 0
                families.setdefault(parent, []).append(share)
                above[parent] = above.get(parent, 0) + share
            found[:0] = self.rules[level].figures(families.values())
            pods = above
        return tuple(found)


# ---- why not


def _no_fit(tree: Tree, ask: Ask, numbers: Sequence[Numbers], kinds: DomainKinds, rules: Sequence[LevelRule]) -> NoFit:
    """For lack of capacity, or because of a hard constraint."""
    at = ask.level if ask.required else 0
    offers = numbers[at].slice
    capacity = int(offers.max() if ask.required else offers.sum())
    if capacity < ask.need or not any(rule.hard for rule in rules):
        return NoFit(at, min(capacity, ask.need), ask.need)
    most = _most(kinds, at if ask.required else ROOT) - kinds.root.kept if rules[0].total <= SMALL else 0
    fit = min(max(0, most // ask.slice_size), ask.need - 1)
    return NoFit(at, fit, ask.need, _reason(tree, ask, numbers, rules))


def _most(kinds: DomainKinds, level: int) -> int:
    """Returns the most pods that one of the domains can take."""
    some = set(kinds.levels[level].values()) if level > ROOT else {kinds.root}
    return max((kind.takes.bit_length() - 1 for kind in some), default=0)


def _reason(tree: Tree, ask: Ask, numbers: Sequence[Numbers], rules: Sequence[LevelRule]) -> str:
    """Returns the hard constraints each of which, made soft, would let the pods fit; all of them if no single one does."""
    hard = [level for level, rule in enumerate(rules) if rule.hard]
    guilty = [level for level in hard if _fits_without(tree, ask, numbers, rules, level)] or hard
    text = [f"{rules[level].text()} at level {tree.shape.levels[level]}" for level in guilty]
    return f"no placement meets the hard placement constraint {' and '.join(text)}"


def _fits_without(tree: Tree, ask: Ask, numbers: Sequence[Numbers], rules: Sequence[LevelRule], level: int) -> bool:
    total = rules[0].total
    relaxed = [replace(rule, hard=rule.hard and at != level) for at, rule in enumerate(rules)]
    kinds = _kinds(tree, ask, numbers, relaxed)
    return any(_able(kinds, relaxed, bound, total) for bound in _bounds(ask))
