"""Places one group of pod sets on the tree of its flavor: placement.md 5.4 and 5.7 (messages).

A group is one pod set, a leader with its workers, or several colocated pod sets. The request is resolved (constraints.py),
pods are counted (count.py), and one algorithm finds the domains: Kueue's (compatible/), the exact one (exact/optimum/), or
the one for placement constraints (exact/shapes/). Pods with required affinity to each other, and pods that must be spread
evenly, are placed by terms first.

Called by place.py for all groups of a workload. replace.py, level_check.py, eviction_gains.py and spares.py use single steps,
as do colocated.py and joint.py through protocols.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from admission.engine.decision import Certificate, NoPlacement, PlacementResult
from admission.engine.journal import Journal
from admission.engine.model import (
    Assignment,
    DomainCount,
    Flavor,
    PlacementOptions,
    PlacementRequest,
    Profile,
)
from admission.engine.topology import evenness, messages
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.allocation.entries import spots
from admission.engine.topology.assignments import pins
from admission.engine.topology.assignments.assignment_parts import by_path, merged, path_of
from admission.engine.topology.assignments.resize import Resize, resize
from admission.engine.topology.compatible.tree_search import Found, NoDomains, NoFit, Search, Solved
from admission.engine.topology.constraints import Group, ResolvedRequest, build, pod_amounts, wants_of
from admission.engine.topology.count import Counter, Numbers
from admission.engine.topology.exact.joint import colocated
from admission.engine.topology.exact.joint.colocated import Placed
from admission.engine.topology.exact.optimum import exact
from admission.engine.topology.exact.shapes import shaping
from admission.engine.topology.neighbours.placed import of_domain
from admission.engine.topology.neighbours.within import broken
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values

_TRIES = 64
"""The number of domains of a topology key that are tried for pods that must be in one of them."""

Proved = tuple[Placed | NoPlacement, Certificate | None]
"""A group's answer, and its certificate."""


class GroupPlacer:
    """Answers the placement request of one group on the live trees, and leaves the trees unchanged."""

    def __init__(self, capacity: Capacity, flavors: Mapping[str, Flavor], options: PlacementOptions, journal: Journal):
        self.capacity = capacity
        self._flavors = flavors
        self.options = options
        self.journal = journal

    def watch_terms(self, requests: Sequence[PlacementRequest]) -> None:
        """Starts to count pods if a request has terms (affinity, spread), so that its pod sets see each other's pods."""
        if any(self.capacity.placed.has_terms(request.facts) for request in requests):
            self.capacity.placed.watch()

    def assume(self, placed: Placed) -> None:
        """Charges these assignments, and count their pods for terms, until the open trial ends."""
        for request, assignment in placed:
            vector = self.capacity.columns.vector(pod_amounts(request.pod_set))
            wants = wants_of(request.pod_set, self._flavors.get(request.flavor))
            for domain in assignment.domains:
                place = of_domain(request.flavor, assignment.levels, domain.values)
                self.capacity.placed.shift(request.facts, place, domain.count, 0)
            for spot, count in spots(self.capacity, request.flavor, assignment, vector, wants):
                self.capacity.assume(spot, vector, count)

    def place_group(self, group: Group, simulate_empty: bool, within: Values | None = None) -> Proved:
        """Returns assignments for one group in the capacity that is free now, or the failure, with the certificate.

        `within` restricts the search to the domain of this path, unless the group keeps pods outside it.
        """
        tree = self.tree(group)
        if isinstance(tree, NoPlacement):
            return tree, None
        if group.others:
            return self._several(tree, group, simulate_empty, within), None
        resized = resize(tree, group)
        if resized is not None:
            return self._resized(tree, resized, simulate_empty), None
        resolved = self.resolve(tree, group)
        if isinstance(resolved, NoPlacement):
            return resolved, None
        placed, certificate = self.proved(
            tree, group, resolved if within is None else replace(resolved, within=within), simulate_empty
        )
        if group.leader is None or isinstance(placed, NoPlacement):
            return placed, certificate
        result = PlacementResult({request.pod_set.name: assignment for request, assignment in placed}, {})
        if (key := self.broken_term(group.members, result)) is not None:
            return NoPlacement(messages.apart(key)), None
        return placed, certificate

    def broken_term(self, members: Sequence[PlacementRequest], result: PlacementResult) -> str | None:
        """Returns the topology key of a pod term that the result violates between its own pods; None if there is none."""
        placed = self.capacity.placed
        if not any(placed.has_terms(member.facts) for member in members):
            return None
        assignments = [
            (member, result.assignments[name])
            for member in members
            if (name := member.pod_set.name) in result.assignments
        ]
        return broken(placed, self.capacity.trees[members[0].flavor], assignments)

    def uneven_term(self, members: Sequence[PlacementRequest], result: PlacementResult, *, empty: bool) -> str | None:
        """Returns the topology key of a spread constraint that pods of several pod sets violate together, or None."""
        tree = self.capacity.trees.get(members[0].flavor)
        if tree is None or not tree.by_node or not any(each.facts is not None and each.facts.even for each in members):
            return None
        flavor = self._flavors.get(members[0].flavor)
        parts = [
            evenness.Part(wants_of(each.pod_set, flavor, each.facts), _required(tree, each), assignment)
            for each in members
            if (assignment := result.assignments.get(each.pod_set.name)) is not None
        ]
        return evenness.broken_together(self.capacity.placed, tree, parts, empty=empty)

    def _several(self, tree: Tree, group: Group, simulate_empty: bool, within: Values | None) -> Placed | NoPlacement:
        """Returns assignments for a group of three or more pod sets, which only Profile Exact supports."""
        if (group.workers.profile or self.options.profile) is not Profile.EXACT:
            return NoPlacement(messages.needs_exact(len(group.members)))
        return colocated.place(self, tree, group, simulate_empty, within)

    def _resized(self, tree: Tree, resized: Resize, simulate_empty: bool) -> Placed | NoPlacement:
        """Returns the assignments that stay, merged with those of the pods that are still to be placed."""
        rest = resized.rest
        if rest is None:
            return resized.kept
        resolved = self.resolve(tree, rest)
        if isinstance(resolved, NoPlacement):
            return resolved
        _, workers = resized.kept[0]
        if resolved.required and workers.domains:
            resolved = replace(resolved, within=path_of(tree, workers.domains[0].values)[: resolved.level + 1])
        if resolved.shaped:
            resolved = replace(resolved, kept=by_path(tree, workers))
        with self.journal.trial():
            self.assume(resized.kept)
            placed = self.search(tree, rest, resolved, simulate_empty=simulate_empty)
        if isinstance(placed, NoPlacement):
            return placed
        return list(_merged(tree, [*resized.kept, *placed]))

    def tree(self, group: Group) -> Tree | NoPlacement:
        """Returns the tree of the group's flavor, or a failure if the flavor has none."""
        name = group.workers.flavor
        tree = self.capacity.trees.get(name)
        if tree is None or name not in self._flavors:
            return NoPlacement(messages.without_tree(name))
        return tree

    def resolve(self, tree: Tree, group: Group) -> ResolvedRequest | NoPlacement:
        """Returns the group's request with level names resolved, or why the request is invalid."""
        resolved = build(tree, self._flavors[group.workers.flavor], group, self.options)
        return NoPlacement(resolved) if isinstance(resolved, str) else resolved

    def search(
        self, tree: Tree, group: Group, resolved: ResolvedRequest, *, simulate_empty: bool = False
    ) -> Placed | NoPlacement:
        """Returns assignments for `resolved` in the capacity that is free now, or the failure."""
        return self.proved(tree, group, resolved, simulate_empty)[0]

    def proved(self, tree: Tree, group: Group, resolved: ResolvedRequest, simulate_empty: bool) -> Proved:
        """Returns what `search` returns, with the certificate."""
        near = self.capacity.placed.gathers(resolved.wants.facts, empty=simulate_empty) if tree.by_node else ()
        shared = group.workers.pod_set.gathered if tree.by_node else ()
        if near or shared:
            why = "required pod affinity" if near else "a volume that they share"
            keys = tuple(dict.fromkeys((*near, *shared)))
            return self._gathered(tree, group, resolved, simulate_empty, keys, why), None
        return self._even(tree, group, resolved, simulate_empty)

    def _even(self, tree: Tree, group: Group, resolved: ResolvedRequest, simulate_empty: bool) -> Proved:
        """Returns the placement of pods that may have DoNotSchedule spread constraints."""
        placed, facts = self.capacity.placed, resolved.wants.facts
        if facts is None or not facts.even or not tree.by_node:
            return self._proved(tree, group, resolved, simulate_empty)
        keys = " and ".join(dict.fromkeys(one.term.key for one in facts.even))
        if not evenness.is_plain(resolved):
            answer, certificate = self._proved(tree, group, resolved, simulate_empty)
            if isinstance(answer, NoPlacement):
                return answer, certificate
            key = evenness.broken(
                placed, tree, resolved, dict(_by_name(answer))[group.workers.pod_set.name], empty=simulate_empty
            )
            return (NoPlacement(messages.uneven(key, several=False)) if key else answer), certificate
        counter = Counter(tree, resolved, simulate_empty=simulate_empty)
        outcome, most = evenness.solve(placed, tree, resolved, counter, empty=simulate_empty)
        if outcome is not None:
            return self._on_rows(tree, group, resolved, outcome), None
        exclusions = counter.exclusions()
        skews = [one.max_skew for one in facts.even if one.min_domains > 1]
        text = messages.fits_evenly(resolved, most, keys, skews)
        return NoPlacement(text + messages.exclusion_text(exclusions), most, resolved.count, exclusions), None

    def _gathered(
        self, tree: Tree, group: Group, resolved: ResolvedRequest, simulate_empty: bool, keys: Sequence[str], why: str
    ) -> Placed | NoPlacement:
        """Returns a placement of all pods in one domain of each topology key; the tightest domains are tried first."""
        where = messages.gathered(keys, why)
        if group.leader is not None:
            return NoPlacement(messages.leader_not_gathered(resolved, where))
        counter = Counter(tree, resolved, simulate_empty=simulate_empty)
        places = counter.places(keys)
        for values, holds in places[:_TRIES]:
            if holds < resolved.count:
                break
            wants = replace(resolved.wants, selector=tuple(sorted({*resolved.wants.selector, *values})))
            placed, _ = self._even(tree, group, replace(resolved, wants=wants), simulate_empty)
            if not isinstance(placed, NoPlacement):
                return placed
        most, exclusions = max((holds for _, holds in places), default=0), counter.exclusions()
        text = messages.fits_together(resolved, min(most, resolved.count), where)
        return NoPlacement(
            text + messages.exclusion_text(exclusions), min(most, resolved.count), resolved.count, exclusions
        )

    def _proved(self, tree: Tree, group: Group, resolved: ResolvedRequest, simulate_empty: bool) -> Proved:
        counter = Counter(tree, resolved, simulate_empty=simulate_empty)
        numbers = counter.levels()
        solved = self._solve(tree, resolved, numbers)
        match outcome := solved.outcome:
            case Found() if group.leader is None and pins.names_hosts(tree):
                rows = pins.filled(tree, outcome.ids, outcome.pods, counter.holds())
                return self._on_rows(tree, group, resolved, rows), solved.certificate
            case Found() if group.leader is not None and pins.names_hosts(tree):
                return self._beside_leader(tree, group, resolved, outcome, counter), solved.certificate
            case Found():
                return list(_assigned(tree, group, outcome)), solved.certificate
            case NoDomains(level):
                problem = NoPlacement(messages.without_domains(tree.shape.levels[level]))
            case NoFit():
                problem = messages.failure(tree, resolved, numbers, outcome, counter.exclusions())
        return problem, solved.certificate

    def _beside_leader(
        self, tree: Tree, group: Group, resolved: ResolvedRequest, domains: Found, counter: Counter
    ) -> Placed | NoPlacement:
        """Returns the assignments of workers and leader with their hosts, in the lowest domains that were found."""
        by_row = pins.beside_leader(tree, domains, counter.rows())
        if by_row is None or group.leader is None:
            return NoPlacement(messages.no_host_for_leader(resolved))
        placed = list[tuple[PlacementRequest, Assignment]]()
        for member, pods in zip((group.workers, group.leader), by_row, strict=True):
            part = self._on_rows(tree, Group(member), resolved, pods)
            if isinstance(part, NoPlacement):
                return part
            placed.extend(part)
        return placed

    def _on_rows(self, tree: Tree, group: Group, resolved: ResolvedRequest, pods: Ints) -> Placed | NoPlacement:
        """Returns the assignment of the group's workers, given their number by row."""
        if not pins.names_hosts(tree):
            return list(_assigned(tree, Group(group.workers), evenness.in_domains(tree, pods)))
        assignment = pins.on_hosts(tree, pods)
        if assignment is None:
            return NoPlacement(messages.without_hostname(resolved))
        return [(group.workers, assignment)]

    def _solve(self, tree: Tree, resolved: ResolvedRequest, numbers: Sequence[Numbers]) -> Solved:
        """Solves with the algorithm for placement constraints, the exact algorithm, or Kueue's algorithm."""
        if resolved.shaped:
            return shaping.solve(tree, resolved, numbers, self.options.exact_budget)
        if resolved.profile is Profile.EXACT:
            return exact.solve(tree, resolved, numbers, self.options.exact_budget)
        return Solved(Search(tree, resolved, numbers).run())


def _required(tree: Tree, request: PlacementRequest) -> int | None:
    """Returns the level that the request requires, or None."""
    topology = request.pod_set.topology
    return None if topology is None or topology.required is None else tree.level_of(topology.required)


def _by_name(placed: Placed) -> Iterator[tuple[str, Assignment]]:
    return ((request.pod_set.name, assignment) for request, assignment in placed)


def _merged(tree: Tree, placed: Placed) -> Iterator[tuple[PlacementRequest, Assignment]]:
    """Yields each pod set once, with its partial assignments merged."""
    parts: dict[str, list[Assignment]] = {}
    requests = {request.pod_set.name: request for request, _ in placed}
    for request, assignment in placed:
        parts.setdefault(request.pod_set.name, []).append(assignment)
    for name, some in parts.items():
        yield requests[name], merged(tree, *some)


def _assigned(tree: Tree, group: Group, domains: Found) -> Iterator[tuple[PlacementRequest, Assignment]]:
    yield group.workers, _assignment(tree, domains.ids, domains.pods)
    if group.leader is not None:
        yield group.leader, _assignment(tree, domains.ids, domains.leaders)


def _assignment(tree: Tree, ids: Ints, counts: Ints) -> Assignment:
    some = counts > 0
    values = tree.values_of(ids[some].tolist())
    return Assignment(tree.output_levels, tuple(map(DomainCount, values, counts[some].tolist())))
