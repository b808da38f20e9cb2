"""Assigns shares to the children of one domain: among all assignments that follow a plan, the one with the least cost.

The cost includes all levels below; ties break by name. A cost is the figures of all levels as one integer, the top level in
the highest bits, so that costs of siblings add up and compare like the figures. If each child has one or two possible shares
and all pairs differ by the same number of pods, the cheapest increases are taken (an exchange argument); otherwise dynamic
programming runs over the states (pods left, units left), child by child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from admission.engine.topology.shapes.domain_kinds import DomainKind
from admission.engine.topology.shapes.plans import SharePlan, StateBudget, plans

Costs = Mapping[DomainKind, Mapping[int, int]]


class Splitter:
    """Computes and caches the costs of kinds. `shifts` is the bit at which each level's figures begin in a cost."""

    def __init__(self, shifts: Sequence[int], budget: StateBudget) -> None:
        self._shifts = shifts
        self._budget = budget
        self._plans: dict[tuple[int, int], list[SharePlan]] = {}

    def plans(self, kind: DomainKind, share: int) -> list[SharePlan]:
        """Returns the plans for a share that the kind can take. Raises BudgetSpent."""
        share_plans = self._plans.get((kind.rank, share))
        if share_plans is None:
            share_plans = self._plans[kind.rank, share] = plans(kind, share, self._budget)
        return share_plans

    def top(self, kind: DomainKind, share: int) -> int:
        """Returns the least figures of the children's level alone, packed by its rule. Raises BudgetSpent."""
        return 0 if not kind.children else min(plan.price for plan in self.plans(kind, share))

    def cost(self, kind: DomainKind, share: int) -> int:
        """Returns the least cost of all levels below, for a share that the kind can take. Raises BudgetSpent."""
        if not kind.children:
            return kind.capacity + kind.kept - share
        known = kind.known.get(share)
        if known is None:
            order = [child for child, many in kind.children for _ in range(many)]
            known = kind.known[share] = min(self._ways(kind, order, share))[0]
        return known

    def shares(self, kind: DomainKind, order: Sequence[DomainKind], share: int) -> list[int]:
        """Returns the share of each child in this order. In a tie the first children get most pods. Raises BudgetSpent."""
        parts = min(self._ways(kind, order, share))[1]
        return [-part for part in parts]

    def _ways(self, kind: DomainKind, order: Sequence[DomainKind], share: int) -> list[tuple[int, list[int]]]:
        rule = kind.rule
        shift = self._shifts[kind.level + 1]
        ways = []
        for plan in self.plans(kind, share):
            plan = self._narrowed(kind, plan)
            costs = {
                child: {size: ((rule.price(size) << shift) + self.cost(child, size)) if size else 0 for size in sizes}
                for child, sizes in plan.options.items()
            }
            extra = rule.missing(plan.parts) << shift if plan.parts is not None else 0
            cost, shares = self._way(plan, order, costs, share)
            ways.append((cost + extra, [-part for part in shares]))
        return ways

    def _narrowed(self, kind: DomainKind, plan: SharePlan) -> SharePlan:
        """If all used children get the same share, keeps only the children whose own level has the best figures for it."""
        if plan.counts is None or len(plan.counts) > 1 or any(0 not in sizes for sizes in plan.options.values()):
            return plan
        [(size, many)] = plan.counts.items()
        tops = {child: self.top(child, size) for child in plan.options}
        last, left = 0, many
        for child, some in sorted(kind.children, key=lambda pair: tops.get(pair[0], 0)):
            if child in tops and left > 0:
                last, left = tops[child], left - some
        return replace(plan, options={child: sizes for child, sizes in plan.options.items() if tops[child] <= last})

    def _way(self, plan: SharePlan, order: Sequence[DomainKind], costs: Costs, share: int) -> tuple[int, list[int]]:
        places = _places(plan, order, share)
        choices = [costs[order[place]] for place in places]
        self._budget.spend(len(choices) + 1)
        parts = _steps(plan, choices, share)
        if parts is None:
            parts = self._walk(plan, choices, share)
        shares = [0] * len(order)
        for place, part in zip(places, parts, strict=True):
            shares[place] = part
        return sum(choice[part] for choice, part in zip(choices, parts, strict=True)), shares

    def _walk(self, plan: SharePlan, choices: Sequence[Mapping[int, int]], share: int) -> list[int]:
        """Returns the shares by dynamic programming over the states (pods left, units left) before each child."""
        counted = plan.parts is not None
        most = _suffix([max(choice) for choice in choices])
        least = _suffix([min(choice) for choice in choices])
        units = _suffix([1] * len(choices))
        layers = [{(share, plan.parts or 0)}]
        for at, choice in enumerate(choices):
            self._budget.spend(len(layers[-1]))
            layers.append(
                {
                    (rest, more)
                    for left, parts in layers[-1]
                    for size in choice
                    if least[at + 1] <= (rest := left - size) <= most[at + 1]
                    and 0 <= (more := parts - 1 if counted and size else parts) <= units[at + 1]
                }
            )
        ahead: dict[tuple[int, int], tuple[int, int]] = {(0, 0): (0, 0)}
        best = [ahead]
        for layer, choice in zip(layers[-2::-1], reversed(choices), strict=True):
            here: dict[tuple[int, int], tuple[int, int]] = {}
            for left, parts in layer:
                ways = [
                    (cost + after[0], -size)
                    for size, cost in choice.items()
                    if (after := ahead.get((left - size, parts - 1 if counted and size else parts))) is not None
                ]
                if ways:
                    here[left, parts] = min(ways)
            ahead = here
            best.append(here)
        state, sizes = (share, plan.parts or 0), []
        for layer_best in reversed(best[1:]):
            size = -layer_best[state][1]
            sizes.append(size)
            state = (state[0] - size, state[1] - 1 if counted and size else state[1])
        return sizes


def _suffix(numbers: Sequence[int]) -> list[int]:
    sums = [0]
    for number in reversed(numbers):
        sums.append(sums[-1] + number)
    sums.reverse()
    return sums


def _places(plan: SharePlan, order: Sequence[DomainKind], share: int) -> list[int]:
    """Returns the positions of the children to consider: of equivalent children, as many as there are shares, first by name."""
    capacity = {child: _most(plan, sizes, share) for child, sizes in plan.options.items()}
    places = []
    for place, child in enumerate(order):
        left = capacity.get(child, 0)
        if left > 0 or child.kept:
            capacity[child] = left - 1
            places.append(place)
    return places


def _most(plan: SharePlan, sizes: tuple[int, ...], share: int) -> int:
    if plan.counts is not None:
        return sum(plan.counts[size] for size in sizes if size)
    return share // min(size for size in sizes if size)


def _steps(plan: SharePlan, choices: Sequence[Mapping[int, int]], share: int) -> list[int] | None:
    """Returns the shares by the exchange argument; None if it does not apply.

    Every child gets its smaller share; then the children with the cheapest increase to the larger share get that one.
    """
    low = [min(choice) for choice in choices]
    high = [max(choice) for choice in choices]
    gaps = {top - bottom for bottom, top in zip(low, high, strict=True)} - {0}
    mixed = plan.parts is not None and 0 in low and any(low)
    if len(gaps) > 1 or mixed or any(len(choice) > 2 for choice in choices):
        return None
    if not gaps:
        return low
    gap, rest = gaps.pop(), share - sum(low)
    able = [at for at in range(len(choices)) if high[at] != low[at]]
    if rest % gap or not 0 <= rest // gap <= len(able):
        return None
    able.sort(key=lambda at: (choices[at][high[at]] - choices[at][low[at]], at))
    for at in able[: rest // gap]:
        low[at] = high[at]
    return low
