"""Joint placement of several groups of one workload that compete for the nodes of one flavor (Profile Exact).

If groups are placed one after the other, a later group can fail although another choice for the earlier groups would
have left enough capacity. So that greedy placement is only the first attempt. The objective, most important first:

1. Place all pods of all groups.
2. Minimize the number of domains at the requested level, summed over the groups (1 for each required level). This is
   the only figure of the certificate, the same for all pod sets of the flavor: `cost` is the number of this answer,
   `bound` is a lower bound of every answer.
3. Not proved: place the largest group first, each in the tightest domain that leaves capacity for the others, so that
   large domains stay whole; inside its domains each group gets its own best answer; ties break by name.

The first attempt is Optimal if every group opens as few domains as it would on an empty tree, or if all groups
together open as few as their pods need. Otherwise other orders are tried, and then domain_search.py with fixed numbers
of domains. While no answer is known, the numbers are one for each group that one domain can hold and any number for the
others, and then any number for every group without a required level. Once an answer is known, every smaller total is
tried from the lower bound up (with a fraction of the budget if groups need several domains). A total is refuted only by
a search that gave up no branch. If every level is required, there is nothing to sum and the first search decides.

The pods inside the chosen domains are placed group by group with the steps of place_group.py (`ResolvedRequest.within`). If
these steps fail, as when pod shapes must share hosts in one particular way, the packing that the search found is used.
Requests with placement constraints, and trees that count nodes below a wider lowest level (an assignment does not name
nodes), rely on the steps alone, so a failure is no proof there. Groups that keep an older slice's assignment are placed
first and are not part of the search.

If there is no answer, the result has the failures of the first attempt, in Kueue's words. A certificate (Infeasible)
states that this is proved; otherwise the message says that the budget ended, and there is no certificate. Called by
place.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from admission.engine.decision import Certificate, NoPlacement, PlacementResult, Proof, Proven
from admission.engine.model import Assignment, DomainCount, PlacementOptions, Profile
from admission.engine.topology.assignments.assignment_parts import path_of
from admission.engine.topology.constraints import Group, ResolvedLayer, ResolvedRequest
from admission.engine.topology.exact.joint import colocated
from admission.engine.topology.exact.joint.capacity_view import EVERYWHERE, DomainRef
from admission.engine.topology.exact.joint.domain_search import ANY, DomainSearch
from admission.engine.topology.exact.joint.packing import NodeBudget, NoPacking
from admission.engine.topology.exact.joint.problem import Chosen, GroupItem, JointProblem, Member
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values

Found = Mapping[str, Assignment]

_SETS_SHARE = 50
"""Divisor of the budget for improving an answer if a group needs several domains: the sets of domains are too many to
search all of them."""


class JointSteps(colocated.PlacementSteps, Protocol):
    """The functions of place_group.py that this module calls."""

    options: PlacementOptions

    def tree(self, group: Group) -> Tree | NoPlacement:
        """Returns the tree of the group's flavor."""


def concerns(groups: Sequence[Group], profile: Profile) -> bool:
    """Reports whether the groups need a joint solution: all have Profile Exact, and there are several pod sets to combine."""
    several = len(groups) > 1 or bool(groups[0].others)
    return several and all((group.workers.profile or profile) is Profile.EXACT for group in groups)


def solve(steps: JointSteps, groups: Sequence[Group], greedy: PlacementResult, simulate_empty: bool) -> PlacementResult:
    """Returns the best placement found for all groups of one flavor, never worse than `greedy`.

    `greedy` is the result of placing the groups one after the other.
    """
    tree = steps.tree(groups[0])
    if isinstance(tree, NoPlacement):
        return greedy
    stay = [group for group in groups if any(member.previous is not None for member in group.members)]
    move = [(group, members) for group in groups if group not in stay and (members := _members(steps, tree, group))]
    if len(stay) + len(move) < len(groups) or not move:
        return greedy
    if greedy.fits and (stay or any(member.resolved.shaped for _, members in move for member in members)):
        return greedy
    cost = sum(_opened(tree, group, members, greedy.assignments) for group, members in move) if greedy.fits else None
    if cost == len(groups):
        return _answer(groups, greedy.assignments, Certificate(Proof.OPTIMAL, (cost,), (cost,)))
    with steps.journal.trial():
        kept = _placed(steps, [(group, None) for group in stay], simulate_empty)
        if kept is None:
            return greedy
        return _JointSearch(steps, tree, move, greedy, kept, simulate_empty).solve(cost)


class _JointSearch:
    """The searches for one request. They share one budget of search nodes."""

    def __init__(
        self,
        steps: JointSteps,
        tree: Tree,
        move: Sequence[tuple[Group, Sequence[Member]]],
        greedy: PlacementResult,
        kept: Found,
        simulate_empty: bool,
    ) -> None:
        self._steps = steps
        self._tree = tree
        self._move = move
        self._greedy = greedy
        self._kept = kept
        self._simulate_empty = simulate_empty
        self._budget = NodeBudget(steps.options.exact_budget)
        self._problem = JointProblem(tree, move, simulate_empty=simulate_empty)
        self._group_items = self._problem.group_items
        self._best: tuple[int, Found] | None = None

    def solve(self, cost: int | None) -> PlacementResult:
        """Returns the best placement; `cost` is the number of domains of the first attempt, or None if it failed."""
        if cost is not None:
            self._best = cost, self._greedy.assignments
        least = [group_item.least or 0 for group_item in self._group_items]
        if any(
            group_item.least is None or (group_item.bound and group_item.least > 1) for group_item in self._group_items
        ):
            return self._none(proved=not self._kept)
        if self._best is None:
            refuted = self._attempt([1 if one.bound or one.least == 1 else ANY for one in self._group_items])
            if self._best is None and not all(group_item.bound for group_item in self._group_items):
                refuted = self._attempt([1 if group_item.bound else ANY for group_item in self._group_items])
            if self._best is None:
                return self._none(proved=refuted and not self._kept)
        bound = self._improved(least)
        cost, answer_so_far = self._best
        groups = [group for group, _ in self._move]
        proof = Proof.OPTIMAL if cost <= bound else Proof.FEASIBLE
        answer = _answer(groups, answer_so_far, Certificate(proof, (cost,), (min(bound, cost),), self._budget.used))
        return replace(answer, assignments={**self._kept, **answer_so_far})

    def _improved(self, least: Sequence[int]) -> int:
        """Searches for answers with fewer domains than the best. Returns a proved lower bound of the number of domains."""
        total = bound = self._problem.fewest()
        self._reordered(bound)
        if max(least) > 1:
            self._budget.left = min(self._budget.left, self._steps.options.exact_budget // _SETS_SHARE)
        while self._best is not None and total < self._best[0] and self._budget.left > 0:
            if self._refuted(total, least) and total == bound:
                bound += 1
            total += 1
        return bound

    def _reordered(self, bound: int) -> None:
        """Places the groups one after the other again, from the largest to the smallest and in reverse."""
        order = sorted(self._group_items, key=lambda group_item: (-group_item.need, group_item.index))
        for group_items in (order, order[::-1]):
            if self._best is None or self._best[0] <= bound:
                return
            placed = _placed(
                self._steps, [(group_item.group, None) for group_item in group_items], self._simulate_empty
            )
            if placed is not None:
                self._keep(placed)

    def _keep(self, answer: Found) -> None:
        """Keeps the answer if it opens fewer domains than the best so far."""
        cost = sum(_opened(self._tree, group, members, answer) for group, members in self._move)
        if self._best is None or cost < self._best[0]:
            self._best = cost, answer

    def _refuted(self, total: int, least: Sequence[int]) -> bool:
        """Reports whether it is proved that no answer opens exactly `total` domains. A found answer is kept and ends the
        search.
        """
        refuted = True
        for numbers in self._numbers(least, total - sum(least)):
            refuted &= self._attempt(numbers)
            if self._budget.left <= 0 or (self._best is not None and self._best[0] <= total):
                return False
        return refuted

    def _numbers(self, least: Sequence[int], more: int, index: int = 0) -> Iterator[list[int]]:
        """Yields the ways to distribute `more` domains over the items from `index` on; a required level keeps one domain."""
        if index == len(least):
            if not more:
                yield []
            return
        group_item = self._group_items[index]
        most = 0 if group_item.bound else min(more, len(group_item.possible) - least[index])
        for extra in range(most + 1):
            for rest in self._numbers(least, more - extra, index + 1):
                yield [least[index] + extra, *rest]

    def _attempt(self, numbers: Sequence[int]) -> bool:
        """Searches with these numbers of domains and keeps a better answer. Reports whether it is proved that there is none."""
        if not self._budget.take():
            return False
        given = {group_item.index: number for group_item, number in zip(self._group_items, numbers, strict=True)}
        search = DomainSearch(self._problem, given, self._budget, lambda chosen: self._accept(chosen, given))
        return not search.run() and not search.open

    # ---- answers

    def _accept(self, chosen: Sequence[Chosen], numbers: Mapping[int, int]) -> bool | None:
        placed = self._by_steps(chosen, numbers)
        if placed is None:
            packed = self._by_packing(chosen)
            if isinstance(packed, NoPacking):
                return False if packed is NoPacking.PROVED else None
            if self._tree.shape.hidden_nodes or any(group_item.own_rules for group_item in self._group_items):
                return None
            placed = packed
        self._keep(placed)
        return True

    def _by_steps(self, chosen: Sequence[Chosen], numbers: Mapping[int, int]) -> Found | None:
        """Places the groups inside the chosen domains with the steps of place_group.py: in the order of the search, then of the
        request.
        """
        orders = [list(chosen), sorted(chosen, key=lambda pair: pair[0].index)]
        for order in orders[: 1 if orders[0] == orders[1] else 2]:
            placed = _placed(
                self._steps, [(p.group, self._within(p, c, numbers)) for p, c in order], self._simulate_empty
            )
            if placed is not None and all(
                numbers[group_item.index] == ANY
                or _opened(self._tree, *self._move[group_item.index], placed) <= numbers[group_item.index]
                for group_item in self._group_items
            ):
                return placed
        return None

    def _within(self, group_item: GroupItem, choice: Sequence[int], numbers: Mapping[int, int]) -> Values | None:
        view = self._problem.capacity_view
        place = EVERYWHERE if numbers[group_item.index] == ANY else view.around(group_item.level, tuple(choice))
        return None if place == EVERYWHERE else self._tree.levels[place[0]].paths[place[1]]

    def _by_packing(self, chosen: Sequence[Chosen]) -> Found | NoPacking:
        """Takes the assignments from packings, domain by domain; a domain inside another chosen domain is packed with it."""
        assignments: dict[str, Assignment] = {}
        for place, inside in self._separate(chosen).items():
            if self._problem.exceeds(place, inside):
                return NoPacking.PROVED
            packing = self._problem.packed(place, inside, self._budget)
            if isinstance(packing, NoPacking):
                return packing
            spread = self._problem.spread(inside, packing)
            for group_item, _ in inside:
                for item, member in zip(group_item.items, _leading_first(group_item.group), strict=True):
                    assignments[member] = self._assignment(spread[item])
        return assignments

    def _separate(self, chosen: Sequence[Chosen]) -> dict[DomainRef, list[Chosen]]:
        places = [self._problem.capacity_view.around(group_item.level, choice) for group_item, choice in chosen]
        by_domain: dict[DomainRef, list[Chosen]] = {}
        for one, place in zip(chosen, places, strict=True):
            widest = [around for around in self._problem.capacity_view.chain(place) if around in places][-1]
            by_domain.setdefault(widest, []).append(one)
        return by_domain

    def _assignment(self, pods: Mapping[int, int]) -> Assignment:
        tree = self._tree
        order = tree.levels[-1].in_order(pods)
        return Assignment(tree.output_levels, tuple(DomainCount(tree.values(slot), pods[slot]) for slot in order))

    def _none(self, *, proved: bool) -> PlacementResult:
        """Returns the failures of the first attempt, with a certificate if every other placement is proved to fail too."""
        greedy = self._greedy
        if proved:
            certificate = Certificate(Proof.INFEASIBLE, expanded=self._budget.used)
            return replace(greedy, certificates=dict.fromkeys(greedy.failures, certificate))
        ended = f". No other arrangement was found by looking at {self._budget.used} search nodes"
        failures = {name: replace(one, message=one.message + ended) for name, one in greedy.failures.items()}
        return PlacementResult(greedy.assignments, failures)


def _answer(groups: Sequence[Group], answer: Found, certificate: Certificate) -> PlacementResult:
    certificate = replace(certificate, claim=Proven.DOMAINS)
    return PlacementResult(answer, {}, {m.pod_set.name: certificate for group in groups for m in group.members})


def _placed(steps: JointSteps, order: Sequence[tuple[Group, Values | None]], simulate_empty: bool) -> Found | None:
    """Returns the assignments of the groups, placed one after the other; None if a group does not fit."""
    assignments: dict[str, Assignment] = {}
    with steps.journal.trial():
        for group, within in order:
            placed, _ = steps.place_group(group, simulate_empty, within)
            if isinstance(placed, NoPlacement):
                return None
            steps.assume(placed)
            assignments.update({request.pod_set.name: assignment for request, assignment in placed})
    return assignments


def _members(steps: JointSteps, tree: Tree, group: Group) -> list[Member]:
    """Returns the pod sets of the group resolved, the representative's first; empty if the request is invalid."""
    if group.others:
        requests = [steps.resolve(tree, member) for member in colocated.single(group)]
        good = [resolved for resolved in requests if not isinstance(resolved, NoPlacement)]
        return [_member(resolved) for resolved in good] if len(good) == len(requests) else []
    resolved = steps.resolve(tree, group)
    if isinstance(resolved, NoPlacement):
        return []
    members = [_member(replace(resolved, leader=None, leader_wants=None))]
    if resolved.leader is not None:
        plain = (ResolvedLayer(tree.depth - 1, 1),)
        wants = resolved.wants if resolved.leader_wants is None else resolved.leader_wants
        leader = replace(
            resolved, count=1, request=resolved.leader, wants=wants, layers=plain, inner={}, leader=None, shaped={}
        )
        members.append(_member(replace(leader, leader_wants=None)))
    return members


def _member(resolved: ResolvedRequest) -> Member:
    return Member(resolved, resolved.need * resolved.slice_size)


def _leading_first(group: Group) -> list[str]:
    """Returns the names of the group's pod sets in the order of `_members`."""
    if group.others:
        return [member.workers.pod_set.name for member in colocated.single(group)]
    return [member.pod_set.name for member in group.members]


def _opened(tree: Tree, group: Group, members: Sequence[Member], answer: Found) -> int:
    """Returns the number of domains that the group uses at its requested level (1 if the level is required)."""
    resolved = members[0].resolved
    if resolved.required:
        return 1
    values = {domain.values for member in group.members for domain in answer[member.pod_set.name].domains}
    return len(
        values if resolved.level == tree.depth - 1 else {path_of(tree, one)[: resolved.level + 1] for one in values}
    )
