"""Place the pod sets of one workload on the trees of their flavors: placement.md 5.4, 5.7 (messages) and 5.9.

Flavors are handled in the order of their names. Within a flavor the groups are placed in the order of the request, and
each group sees the usage of the groups before it. The first group that cannot be placed ends its flavor, and the
failure is reported for each of its pod sets. With Profile Exact joint.py then tries other placements of all groups
together. Called by ledger.py; replace.py, colocated.py, joint.py and spares.py use its steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from admission.engine.decision import Certificate, Exclusions, NoPlacement, PlacementResult
from admission.engine.journal import Journal
from admission.engine.model import (
    Assignment,
    DomainCount,
    Flavor,
    PlacementOptions,
    PlacementRequest,
    Profile,
)
from admission.engine.topology import evenness, pins, spares
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.allocation.entries import spots
from admission.engine.topology.assignment_parts import by_path, merged, path_of
from admission.engine.topology.compatible.tree_search import Found, NoDomains, NoFit, Search, Solved
from admission.engine.topology.constraints import Ask, Group, build, groups_of, pod_amounts, wants_of
from admission.engine.topology.count import Counter, Numbers
from admission.engine.topology.joint import colocated, joint
from admission.engine.topology.neighbours.placed import of_domain
from admission.engine.topology.neighbours.within import broken
from admission.engine.topology.optimum import exact
from admission.engine.topology.resize import Resize, resize
from admission.engine.topology.shapes import shaping
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree, Values

Placed = Sequence[tuple[PlacementRequest, Assignment]]
"""The assignment of each pod set of a group."""
_TRIES = 64
"""The number of domains of a topology key that are tried for pods that must be in one of them."""

Proved = tuple[Placed | NoPlacement, Certificate | None]
"""A group's answer, and its certificate."""


class Placer:
    """Answers placement requests on the live trees and leaves them unchanged."""

    def __init__(self, capacity: Capacity, flavors: Mapping[str, Flavor], options: PlacementOptions, journal: Journal):
        self._capacity = capacity
        self._flavors = flavors
        self.options = options
        self.journal = journal

    def place(self, requests: Sequence[PlacementRequest], *, simulate_empty: bool = False) -> PlacementResult:
        """Returns assignments for all pod sets, or why the first group that cannot be placed failed.

        With `simulate_empty` the answer ignores the usage of admitted workloads.
        """
        self.expect(requests)
        if (refused := self._uncounted(requests) or self._unordered(requests, simulate_empty)) is not None:
            return refused
        results: list[PlacementResult] = []
        flavors = list(_by_flavor(requests))
        with self.journal.trial():
            for index, groups in enumerate(flavors):
                result = self._together(groups, simulate_empty)
                results.append(result)
                if index + 1 < len(flavors):
                    self.assume(
                        [(r, result.assignments[name]) for r, name in _members(groups) if name in result.assignments]
                    )
        result = PlacementResult(
            {name: found for result in results for name, found in result.assignments.items()},
            {name: failed for result in results for name, failed in result.failures.items()},
            {name: proved for result in results for name, proved in result.certificates.items()},
        )
        if result.fits and any(request.spare_hosts and request.previous is None for request in requests):
            return self._beside_spares(requests, result, simulate_empty)
        return result

    def _beside_spares(
        self, requests: Sequence[PlacementRequest], result: PlacementResult, simulate_empty: bool
    ) -> PlacementResult:
        """Returns `result` if it leaves capacity for the spare hosts, else another placement that does, else the failure."""
        placed = [(request, result.assignments[request.pod_set.name]) for request in requests]
        lacking = self.spare_hosts(placed, assumed=False, simulate_empty=simulate_empty).lacking
        if lacking is None:
            return result
        groups = groups_of(requests)
        other = spares.elsewhere(self, groups[0], simulate_empty) if len(groups) == 1 else None
        if other is not None:
            return PlacementResult({request.pod_set.name: assignment for request, assignment in other}, {})
        names = [request.pod_set.name for request in requests if request.spare_hosts]
        return PlacementResult({}, dict.fromkeys(names, lacking))

    def spare_hosts(self, placed: Placed, *, assumed: bool, simulate_empty: bool = False) -> spares.SpareHosts:
        """Returns the spare hosts that can be held for these pods. `assumed`: the pods are charged already."""
        with self.journal.trial():
            if not assumed:
                self.assume(placed)
            return spares.find(self, placed, simulate_empty)

    def expect(self, requests: Sequence[PlacementRequest]) -> None:
        """Start to count pods if a request has terms (affinity, spread), so that its pod sets see each other's pods."""
        if any(self._capacity.placed.has_terms(request.facts) for request in requests):
            self._capacity.placed.watch()

    def _uncounted(self, requests: Sequence[PlacementRequest]) -> PlacementResult | None:
        """Returns the failure of requests with terms while the first count of all pods is still running, else None."""
        if not any(self._capacity.placed.waits(request.facts) for request in requests):
            return None
        text = "terms of pods: all pods of the cluster are being counted for the first time, which takes some seconds"
        return PlacementResult({}, {request.pod_set.name: NoPlacement(text) for request in requests})

    def _unordered(self, requests: Sequence[PlacementRequest], simulate_empty: bool) -> PlacementResult | None:
        """Returns a failure if one of several pod sets has required affinity to pods of which none is bound, else None.

        The pod that happens to be bound first would decide which domain the other pods may use.
        """
        gathering = [r for r in requests if self._capacity.placed.gathers(r.facts, empty=simulate_empty)]
        if len(requests) == 1 or not gathering:
            return None
        text = (
            f"pod set {gathering[0].pod_set.name}: required pod affinity to pods of which none is bound yet, in a workload of "
            "several pod sets: it is placed once such a pod is bound"
        )
        return PlacementResult({}, {request.pod_set.name: NoPlacement(text) for request in requests})

    def _together(self, groups: Sequence[Group], simulate_empty: bool) -> PlacementResult:
        """Returns the placement of the groups of one flavor: one after the other, improved jointly with Profile Exact."""
        result = self._in_turn(groups, simulate_empty)
        if joint.concerns(groups, self.options.profile) and not any(map(self._in_turn_only, groups)):
            better = joint.solve(self, groups, result, simulate_empty)
            members = [member for group in groups for member in group.members]
            return better if self._broken(members, better) is None else result
        return result

    def _in_turn_only(self, group: Group) -> bool:
        """Reports whether the group needs what the joint search cannot do: even spread, or hosts below the lowest level."""
        tree = self._capacity.trees.get(group.workers.flavor)
        even = any(member.facts is not None and member.facts.even for member in group.members)
        return even or (tree is not None and pins.names_hosts(tree))

    def _broken(self, members: Sequence[PlacementRequest], result: PlacementResult) -> str | None:
        """Returns the topology key of a pod term that the result violates between its own pods; None if there is none."""
        placed = self._capacity.placed
        if not any(placed.has_terms(member.facts) for member in members):
            return None
        found = [
            (member, result.assignments[name])
            for member in members
            if (name := member.pod_set.name) in result.assignments
        ]
        return broken(placed, self._capacity.trees[members[0].flavor], found)

    def _in_turn(self, groups: Sequence[Group], simulate_empty: bool) -> PlacementResult:
        """Returns the placement of the groups one after the other, up to the first group that cannot be placed."""
        assignments: dict[str, Assignment] = {}
        certificates: dict[str, Certificate] = {}
        with self.journal.trial():
            for index, group in enumerate(groups):
                found, certificate = self.place_group(group, simulate_empty)
                if certificate is not None:
                    certificates.update({member.pod_set.name: certificate for member in group.members})
                if isinstance(found, NoPlacement):
                    failures = {member.pod_set.name: found for member in group.members}
                    return PlacementResult(assignments, failures, certificates)
                assignments.update({request.pod_set.name: assignment for request, assignment in found})
                if index + 1 < len(groups):
                    self.assume(found)
        return PlacementResult(assignments, {}, certificates)

    def assume(self, found: Placed) -> None:
        """Charge these assignments, and count their pods for terms, until the open trial ends."""
        for request, assignment in found:
            vector = self._capacity.columns.vector(pod_amounts(request.pod_set))
            wants = wants_of(request.pod_set, self._flavors.get(request.flavor))
            for domain in assignment.domains:
                place = of_domain(request.flavor, assignment.levels, domain.values)
                self._capacity.placed.shift(request.facts, place, domain.count, 0)
            for spot, count in spots(self._capacity, request.flavor, assignment, vector, wants):
                self._capacity.assume(spot, vector, count)

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
        ask = self.ask(tree, group)
        if isinstance(ask, NoPlacement):
            return ask, None
        found, certificate = self.proved(
            tree, group, ask if within is None else replace(ask, within=within), simulate_empty
        )
        if group.leader is None or isinstance(found, NoPlacement):
            return found, certificate
        result = PlacementResult({request.pod_set.name: assignment for request, assignment in found}, {})
        if (key := self._broken(group.members, result)) is not None:
            return NoPlacement(f"required pod anti-affinity keeps leader and workers of the group apart by {key}"), None
        return found, certificate

    def _several(self, tree: Tree, group: Group, simulate_empty: bool, within: Values | None) -> Placed | NoPlacement:
        """Returns assignments for a group of three or more pod sets, which only Profile Exact supports."""
        if (group.workers.profile or self.options.profile) is not Profile.EXACT:
            return NoPlacement(f"a pod set group of {len(group.members)} pod sets needs the placement profile Exact")
        return colocated.place(self, tree, group, simulate_empty, within)

    def _resized(self, tree: Tree, resized: Resize, simulate_empty: bool) -> Placed | NoPlacement:
        """Returns the assignments that stay, merged with those of the pods that are still to be placed."""
        rest = resized.rest
        if rest is None:
            return resized.kept
        ask = self.ask(tree, rest)
        if isinstance(ask, NoPlacement):
            return ask
        _, workers = resized.kept[0]
        if ask.required and workers.domains:
            ask = replace(ask, within=path_of(tree, workers.domains[0].values)[: ask.level + 1])
        if ask.shaped:
            ask = replace(ask, kept=by_path(tree, workers))
        with self.journal.trial():
            self.assume(resized.kept)
            found = self.search(tree, rest, ask, simulate_empty=simulate_empty)
        if isinstance(found, NoPlacement):
            return found
        return list(_merged(tree, [*resized.kept, *found]))

    # ---- the steps

    def tree(self, group: Group) -> Tree | NoPlacement:
        """Returns the tree of the group's flavor, or a failure if the flavor has none."""
        name = group.workers.flavor
        tree = self._capacity.trees.get(name)
        if tree is None or name not in self._flavors:
            return NoPlacement(f'workload requires Topology, but there is no TAS cache information for flavor "{name}"')
        return tree

    def ask(self, tree: Tree, group: Group) -> Ask | NoPlacement:
        """Returns the group's request with level names resolved, or why the request is invalid."""
        ask = build(tree, self._flavors[group.workers.flavor], group, self.options)
        return NoPlacement(ask) if isinstance(ask, str) else ask

    def search(self, tree: Tree, group: Group, ask: Ask, *, simulate_empty: bool = False) -> Placed | NoPlacement:
        """Returns assignments for `ask` in the capacity that is free now, or the failure."""
        return self.proved(tree, group, ask, simulate_empty)[0]

    def proved(self, tree: Tree, group: Group, ask: Ask, simulate_empty: bool) -> Proved:
        """Returns what `search` returns, with the certificate."""
        near = self._capacity.placed.gathers(ask.wants.facts, empty=simulate_empty) if tree.by_node else ()
        shared = group.workers.pod_set.gathered if tree.by_node else ()
        if near or shared:
            why = "required pod affinity" if near else "a volume that they share"
            keys = tuple(dict.fromkeys((*near, *shared)))
            return self._gathered(tree, group, ask, simulate_empty, keys, why), None
        return self._even(tree, group, ask, simulate_empty)

    def _even(self, tree: Tree, group: Group, ask: Ask, simulate_empty: bool) -> Proved:
        """Returns the placement of pods that may have DoNotSchedule spread constraints."""
        placed, facts = self._capacity.placed, ask.wants.facts
        if facts is None or not facts.even or not tree.by_node:
            return self._proved(tree, group, ask, simulate_empty)
        keys = " and ".join(dict.fromkeys(one.term.key for one in facts.even))
        if not evenness.is_plain(ask):
            found, certificate = self._proved(tree, group, ask, simulate_empty)
            if isinstance(found, NoPlacement):
                return found, certificate
            key = evenness.broken(
                placed, tree, ask, dict(_by_name(found))[group.workers.pod_set.name], empty=simulate_empty
            )
            text = (
                f"pods that are placed with a leader, in slices or by constraints lie less evenly by {key} than their"
            )
            return (NoPlacement(f"{text} topologySpreadConstraints ask") if key else found), certificate
        counter = Counter(tree, ask, simulate_empty=simulate_empty)
        outcome, most = evenness.solve(placed, tree, ask, counter, empty=simulate_empty)
        if outcome is not None:
            return self._on_rows(tree, group, ask, outcome), None
        exclusions = counter.exclusions()
        fits = f"allows to fit at most {most} out of {ask.count} pod(s)"
        text = f"topology {quoted(ask.topology)} {fits} evenly by {keys}, as their topologySpreadConstraints ask"
        return NoPlacement(text + exclusion_text(exclusions), most, ask.count, exclusions), None

    def _gathered(
        self, tree: Tree, group: Group, ask: Ask, simulate_empty: bool, keys: Sequence[str], why: str
    ) -> Placed | NoPlacement:
        """Returns a placement of all pods in one domain of each topology key; the tightest domains are tried first."""
        where = f"in one domain of {' and '.join(keys)}, where {why} keeps them together"
        if group.leader is not None:
            return NoPlacement(f'topology "{ask.topology}" has no way to say that all pods go {where}')
        counter = Counter(tree, ask, simulate_empty=simulate_empty)
        places = counter.places(keys)
        for values, holds in places[:_TRIES]:
            if holds < ask.count:
                break
            wants = replace(ask.wants, selector=tuple(sorted({*ask.wants.selector, *values})))
            found, _ = self._even(tree, group, replace(ask, wants=wants), simulate_empty)
            if not isinstance(found, NoPlacement):
                return found
        most, exclusions = max((holds for _, holds in places), default=0), counter.exclusions()
        fits = f"allows to fit at most {min(most, ask.count)} out of {ask.count} pod(s)"
        text = f"topology {quoted(ask.topology)} {fits} {where}"
        return NoPlacement(text + exclusion_text(exclusions), min(most, ask.count), ask.count, exclusions)

    def _proved(self, tree: Tree, group: Group, ask: Ask, simulate_empty: bool) -> Proved:
        counter = Counter(tree, ask, simulate_empty=simulate_empty)
        numbers = counter.levels()
        solved = self._solve(tree, ask, numbers)
        match outcome := solved.outcome:
            case Found() if group.leader is None and pins.names_hosts(tree):
                rows = pins.filled(tree, outcome.ids, outcome.pods, counter.holds())
                return self._on_rows(tree, group, ask, rows), solved.certificate
            case Found():
                return list(_assigned(tree, group, outcome)), solved.certificate
            case NoDomains(level):
                problem = NoPlacement(f"no topology domains at level: {tree.shape.levels[level]}")
            case NoFit():
                problem = _no_fit(tree, ask, numbers, outcome, counter.exclusions())
        return problem, solved.certificate

    def _on_rows(self, tree: Tree, group: Group, ask: Ask, pods: Ints) -> Placed | NoPlacement:
        """Returns the assignment of the group's only pod set, given its pods by row."""
        if not pins.names_hosts(tree):
            return list(_assigned(tree, group, evenness.in_domains(tree, pods)))
        found = pins.on_hosts(tree, pods)
        text = f"topology {quoted(ask.topology)} has a node without a hostname of its own, by which terms of pods are counted"
        return NoPlacement(text) if found is None else [(group.workers, found)]

    def _solve(self, tree: Tree, ask: Ask, numbers: Sequence[Numbers]) -> Solved:
        """Solve with the algorithm for placement constraints, the exact algorithm, or Kueue's algorithm."""
        if ask.shaped:
            return shaping.solve(tree, ask, numbers, self.options.exact_budget)
        if ask.profile is Profile.EXACT:
            return exact.solve(tree, ask, numbers, self.options.exact_budget)
        return Solved(Search(tree, ask, numbers).run())


def _by_name(found: Placed) -> Iterator[tuple[str, Assignment]]:
    return ((request.pod_set.name, assignment) for request, assignment in found)


def _merged(tree: Tree, placed: Placed) -> Iterator[tuple[PlacementRequest, Assignment]]:
    """Yields each pod set once, with its partial assignments merged."""
    parts: dict[str, list[Assignment]] = {}
    requests = {request.pod_set.name: request for request, _ in placed}
    for request, assignment in placed:
        parts.setdefault(request.pod_set.name, []).append(assignment)
    for name, some in parts.items():
        yield requests[name], merged(tree, *some)


def _by_flavor(requests: Sequence[PlacementRequest]) -> Iterator[list[Group]]:
    """Yields the groups of each flavor, flavors by name and groups in the order of the requests."""
    for flavor in sorted({request.flavor for request in requests}):
        yield groups_of(request for request in requests if request.flavor == flavor)


def _members(groups: Sequence[Group]) -> Iterator[tuple[PlacementRequest, str]]:
    for group in groups:
        yield from ((member, member.pod_set.name) for member in group.members)


def _assigned(tree: Tree, group: Group, found: Found) -> Iterator[tuple[PlacementRequest, Assignment]]:
    yield group.workers, _assignment(tree, found.ids, found.pods)
    if group.leader is not None:
        yield group.leader, _assignment(tree, found.ids, found.leaders)


def _assignment(tree: Tree, ids: Ints, counts: Ints) -> Assignment:
    domains = zip(ids.tolist(), counts.tolist(), strict=True)
    return Assignment(
        tree.output_levels, tuple(DomainCount(tree.values(domain), count) for domain, count in domains if count > 0)
    )


# ---- messages


def _no_fit(tree: Tree, ask: Ask, numbers: Sequence[Numbers], no_fit: NoFit, exclusions: Exclusions) -> NoPlacement:
    in_layers = ask.inner and not no_fit.reason
    text = _layers_text(tree, ask, numbers, no_fit) if in_layers else _plain_text(ask, no_fit)
    return NoPlacement(text + exclusion_text(exclusions), no_fit.fit, no_fit.total, exclusions)


def _plain_text(ask: Ask, no_fit: NoFit) -> str:
    unit = "pod(s)" if ask.slice_size == 1 else "slice(s)"
    topology = f"topology {quoted(ask.topology)}"
    if no_fit.reason:
        return f"{topology} doesn't allow to fit all of {no_fit.total} {unit}: {no_fit.reason}"
    if no_fit.fit == 0:
        return f"{topology} doesn't allow to fit any of {no_fit.total} {unit}"
    return f"{topology} allows to fit only {no_fit.fit} out of {no_fit.total} {unit}"


def _layers_text(tree: Tree, ask: Ask, numbers: Sequence[Numbers], no_fit: NoFit) -> str:
    """Returns the message with the number of slices of each layer that fit into the largest domain of the level."""
    level = tree.levels[no_fit.level]
    slices = numbers[no_fit.level].slice
    best = min(level.ids().tolist(), key=lambda slot: (-int(slices[slot]), ",".join(level.paths[slot])))
    text = f"topology {quoted(ask.topology)} doesn't allow to fit"
    for layer in ask.layers:
        pods = numbers[layer.level].pod[_below(tree, no_fit.level, best, layer.level)]
        fit = int((pods // layer.size).sum())
        text += f"; {fit}/{ask.count // layer.size} slice(s) fit on level {tree.shape.levels[layer.level]}"
    return text


def _below(tree: Tree, level: int, slot: int, target: int) -> list[int]:
    slots = [slot]
    for depth in range(level, target):
        slots = [child for one in slots for child in tree.levels[depth].children[one]]
    return slots


def exclusion_text(exclusions: Exclusions) -> str:
    """Returns the part of the message that counts excluded nodes by cause; empty if no node was excluded."""
    parts = [f"taint {quoted(taint)}: {count}" for taint, count in exclusions.taints.items()]
    parts += [f"resource {quoted(resource)}: {count}" for resource, count in exclusions.resources.items()]
    parts += [f"{term}: {count}" for term, count in exclusions.pods.items()]
    plain = {
        "nodeSelector": exclusions.node_selector,
        "affinity": exclusions.affinity,
        "topologyDomain": exclusions.topology_domain,
        "volumes": exclusions.volumes,
    }
    parts += [f"{name}: {count}" for name, count in plain.items() if count]
    if not parts:
        return ""
    return f". Total nodes: {exclusions.total_nodes}; excluded: {', '.join(sorted(parts))}"


def quoted(text: str) -> str:
    """Returns the text in double quotes, as messages write names."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
