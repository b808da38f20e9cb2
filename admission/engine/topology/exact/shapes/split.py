"""Assigns shares to the children of one domain: among all assignments that follow a plan, the one with the least cost.

The cost includes all levels below; ties break by name. A cost is the figures of all levels as one integer, the top level in
the highest bits, so that costs of siblings add up and compare like the figures. If each child has one or two possible shares
and all pairs differ by the same number of pods, the cheapest increases are taken (an exchange argument); otherwise dynamic
programming runs over the states (pods left, units left), child by child.

Costs are remembered with their kind. A gang's states include those of each remembered cost that it reads, so that its answer
does not depend on the gangs before it, even if the budget is spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from admission.engine.topology.exact.shapes.domain_kinds import DomainKind, KindShare, KnownCost, PlanFigures
from admission.engine.topology.exact.shapes.plans import SharePlan, StateBudget, plans

Costs = Mapping[DomainKind, Mapping[int, int]]


@dataclass(slots=True)
class _Reads:
    """What a cost depends on: plans that needed states, and costs; and the states of its own level."""

    states: int = 0
    plans: list[KindShare] = field(default_factory=list)
    costs: list[KindShare] = field(default_factory=list)

    def plan(self, kind: DomainKind, share: int) -> None:
        """Notes that the plans were read."""
        if kind.plans[share].states:
            self.plans.append((kind, share))


class Splitter:
    """Finds the best shares of one gang, whose states count towards `budget`."""

    def __init__(self, budget: StateBudget) -> None:
        self._budget = budget
        self._plans: dict[KindShare, list[SharePlan]] = {}
        self._planned: set[KindShare] = set()
        self._counted: set[KindShare] = set()

    def plans(self, kind: DomainKind, share: int) -> list[SharePlan]:
        """Returns the plans for a share that the kind can take. Raises BudgetSpent."""
        both = kind, share
        share_plans = self._plans.get(both)
        if share_plans is None:
            known = kind.plans.get(share)
            if known is not None:
                self._count_plans(both, known)
                share_plans = plans(kind, share, StateBudget(known.states))
            else:
                before = self._budget.spent
                share_plans = plans(kind, share, self._budget)
                least = min([plan.price for plan in share_plans])
                kind.know_plans(share, PlanFigures(least, self._budget.spent - before))
                self._planned.add(both)
            self._plans[both] = share_plans
        return share_plans

    def top(self, kind: DomainKind, share: int) -> int:
        """Returns the least figures of the children's level alone, packed by its rule. Raises BudgetSpent."""
        if not kind.units:
            return 0
        known = kind.plans.get(share)
        if known is None:
            self.plans(kind, share)
            return kind.plans[share].price
        if known.states:
            self._count_plans((kind, share), known)
        return known.price

    def cost(self, kind: DomainKind, share: int) -> int:
        """Returns the least cost of all levels below, for a share that the kind can take. Raises BudgetSpent."""
        if not kind.units:
            return kind.capacity + kind.kept - share
        known = kind.costs.get(share)
        if known is None:
            order = [child for child, many in kind.children for _ in range(many)]
            reads = _Reads()
            cost = min([cost for cost, _ in self._ways(kind, order, share, reads)])
            known = kind.know(share, KnownCost(cost, reads.states, tuple(reads.plans), tuple(reads.costs)))
            self._counted.add((kind, share))
        else:
            self._count(kind, share, known)
        return known.cost

    def shares(self, kind: DomainKind, order: Sequence[DomainKind], share: int) -> list[int]:
        """Returns the share of each child in this order. In a tie the first children get most pods. Raises BudgetSpent."""
        ways = self._ways(kind, order, share, _Reads())
        return ways[0][1] if len(ways) == 1 else min(ways, key=lambda way: (way[0], [-part for part in way[1]]))[1]

    def _count_plans(self, both: KindShare, figures: PlanFigures) -> None:
        """Counts the states that were examined to find plans, once a gang."""
        if figures.states and both not in self._planned:
            self._planned.add(both)
            self._budget.spend(figures.states)

    def _count(self, kind: DomainKind, share: int, cost: KnownCost) -> None:
        """Counts the states that were examined to find a cost and all that it depends on, once a gang."""
        both = kind, share
        if both in self._counted:
            return
        self._counted.add(both)
        self._budget.spend(cost.states)
        for child, part in cost.plans:
            self._count_plans((child, part), child.plans[part])
        for child, part in cost.costs:
            self._count(child, part, child.costs[part])

    def _ways(
        self, kind: DomainKind, order: Sequence[DomainKind], share: int, reads: _Reads
    ) -> list[tuple[int, list[int]]]:
        """Returns the least cost of each plan and shares with that cost, by the order of the children."""
        rule, shift = kind.rule, kind.shift
        cost_of = self.cost
        share_plans = self.plans(kind, share)
        reads.plan(kind, share)
        ways = []
        for plan in share_plans:
            if not kind.lowest:
                plan = self._narrowed(kind, plan, reads)
                reads.costs += [(child, size) for child, sizes in plan.options.items() for size in sizes if size]
            prices = {
                size: rule.price(size) << shift for size in set(chain.from_iterable(plan.options.values())) if size
            }
            if kind.lowest:
                costs = {
                    child: {size: prices[size] + child.capacity + child.kept - size if size else 0 for size in sizes}
                    for child, sizes in plan.options.items()
                }
            else:
                costs = {
                    child: {size: prices[size] + cost_of(child, size) if size else 0 for size in sizes}
                    for child, sizes in plan.options.items()
                }
            extra = rule.missing(plan.parts) << shift if plan.parts is not None else 0
            before = self._budget.spent
            cost, shares = self._way(plan, order, costs, share)
            reads.states += self._budget.spent - before
            ways.append((cost + extra, shares))
        return ways

    def _narrowed(self, kind: DomainKind, plan: SharePlan, reads: _Reads) -> SharePlan:
        """If all used children get the same share, keeps only the children whose own level has the best figures for it."""
        if plan.counts is None or len(plan.counts) > 1 or any(0 not in sizes for sizes in plan.options.values()):
            return plan
        [(size, many)] = plan.counts.items()
        tops = {child: self.top(child, size) for child in plan.options}
        for child in tops:
            reads.plan(child, size)
        last, left = 0, many
        for top, some in sorted([(tops[child], some) for child, some in kind.children if child in tops]):
            if left > 0:
                last, left = top, left - some
        return plan._replace(options={child: sizes for child, sizes in plan.options.items() if tops[child] <= last})

    def _way(self, plan: SharePlan, order: Sequence[DomainKind], costs: Costs, share: int) -> tuple[int, list[int]]:
        if plan.alone:
            self._budget.spend(len(costs) + 1)
            cost = min([choice[share] for choice in costs.values()])
            first = next(at for at, child in enumerate(order) if child in costs and costs[child][share] == cost)
            return cost, [share if at == first else 0 for at in range(len(order))]
        places = _places(plan, order, share)
        self._budget.spend(len(places) + 1)
        children = [order[place] for place in places]
        parts = _steps(plan, children, costs, share)
        if parts is None:
            parts = self._walk(plan, [costs[child] for child in children], share)
        shares, cost = [0] * len(order), 0
        for place, child, part in zip(places, children, parts, strict=True):
            shares[place] = part
            cost += costs[child][part]
        return cost, shares

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
    counts = plan.counts
    if counts is not None:
        left = {child: sum([counts[size] for size in sizes if size]) for child, sizes in plan.options.items()}
    else:
        left = {child: share // min([size for size in sizes if size]) for child, sizes in plan.options.items()}
    places = []
    for place, child in enumerate(order):
        more = left.get(child, 0)
        if more > 0 or child.kept:
            left[child] = more - 1
            places.append(place)
    return places


def _steps(plan: SharePlan, children: Sequence[DomainKind], costs: Costs, share: int) -> list[int] | None:
    """Returns the shares by the exchange argument; None if it does not apply.

    Every child gets its smaller share; then the children with the cheapest increase to the larger share get that one.
    """
    options = plan.options
    gaps = {sizes[0] - sizes[-1] for sizes in options.values()} - {0}
    low = [options[child][-1] for child in children]
    mixed = plan.parts is not None and 0 in low and any(low)
    if len(gaps) > 1 or mixed or any(len(sizes) > 2 for sizes in options.values()):
        return None
    if not gaps:
        return low
    gap, rest = gaps.pop(), share - sum(low)
    increase = {
        child: costs[child][sizes[0]] - costs[child][sizes[1]] for child, sizes in options.items() if len(sizes) == 2
    }
    able = [at for at, child in enumerate(children) if child in increase]
    if rest % gap or not 0 <= rest // gap <= len(able):
        return None
    able.sort(key=lambda at: increase[children[at]])
    for at in able[: rest // gap]:
        low[at] += gap
    return low
