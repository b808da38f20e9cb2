"""Replaces failed nodes of a running workload: only the pods of these nodes are placed again (placement.md 5.10).

Healthy pods keep running in their domains, and the lost pods are placed like a small pod set of their own. The guarantees
for the whole pod set must still hold afterwards, which restricts the search (`ResolvedRequest.within`):

- If only whole slices were lost (or there are no slices), a required level holds for all pods together. The search stays
  in the domain of that level with the healthy pods; if the pod set lost all of its pods, in the domain of the other pod
  sets of its group. If nodes were relabelled and the healthy pods are in several domains, the domain with most of them
  counts, and the replacement fails if two domains tie. Without a required level, or without healthy pods in the group,
  the search covers the whole tree.
- If part of a slice was lost, the rest of the slice waits for these pods, so the search stays in the slice's domain: the
  domain of the innermost layer that the loss broke whose pods form whole slices again together with the lost pods (the
  first by name if there are several). Inside it, slices of the layers that the loss did not break are kept whole.

Placement constraints hold for lost and healthy pods together (`ResolvedRequest.kept`), and with them slices do as well.

Either all lost pods are placed or none. If several pod sets lost pods and one finds no place after the others, they are placed
in other orders, and then jointly. Kueue replaces one node at a time; here nodes that failed together are replaced
together. First each slice that lost pods gets them back in its own domain, innermost slices first; the remaining lost pods
form whole slices and may be placed wherever the required level permits.

If the tree lacks the domain of any other pod, the replacement fails, since those pods are lost as well. The exception is a
host in `alive` (a node that is not ready, or was relabelled, while its pods still run): its pods stay. The workload's own
allocation stays in force meanwhile: its healthy pods use their capacity, and the failed nodes are not in the tree.

Called by queries.py. The caller selects the nodes and handles a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations
from typing import Final

from admission.engine.decision import NoPlacement, PlacementResult
from admission.engine.journal import Journal
from admission.engine.model import (
    Assignment,
    DomainCount,
    PlacementRequest,
)
from admission.engine.topology import messages
from admission.engine.topology.allocation.entries import by_host
from admission.engine.topology.assignments.assignment_parts import by_path, home, merged, path_of, stale, total
from admission.engine.topology.constraints import Group, ResolvedLayer, ResolvedRequest
from admission.engine.topology.place_group import GroupPlacer
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values

_ORDERS: Final = 24
"""The number of orders in which pod sets are placed before they are placed jointly."""

Place = Callable[[Sequence[PlacementRequest]], PlacementResult]


class Replacer:
    """Finds replacements for failed nodes on the live trees, and leaves the trees unchanged. `place` places pods jointly."""

    def __init__(self, steps: GroupPlacer, journal: Journal, place: Place) -> None:
        self._steps = steps
        self._journal = journal
        self._place = place

    def replace(
        self,
        requests: Sequence[PlacementRequest],
        nodes: Collection[str],
        alive: Container[str] = (),
        lost: Mapping[tuple[str, str], int] | None = None,
    ) -> PlacementResult:
        """Returns new assignments, without these nodes (hostnames), for the pod sets that have an assignment (`previous`).

        `alive` has hosts whose pods stay although no tree has the host. `lost` maps (pod set, node) to a number of pods: then
        only these pods are replaced, and the requests themselves must exclude the nodes. Flavors are handled by name, and the
        first pod set that cannot be placed ends its flavor.
        """
        placed = [(r.pod_set.name, r.previous) for r in requests if r.previous is not None]
        rests = {name: _without(was, nodes) if lost is None else _fewer(was, name, lost) for name, was in placed}
        self._steps.watch_terms(requests)
        first = self._in_order(requests, rests, nodes, alive)
        short = [r for r in requests if r.previous is not None and total(r.previous) > total(rests[r.pod_set.name])]
        if first.fits or len(short) < 2:
            return first
        others = [request for request in requests if request not in short]
        for order in islice(permutations(short), 1, _ORDERS):
            if (result := self._in_order([*order, *others], rests, nodes, alive)).fits:
                return result
        together = self._together(requests, rests, alive)
        return first if together is None else together

    def _together(
        self, requests: Sequence[PlacementRequest], rests: Mapping[str, Assignment], alive: Container[str]
    ) -> PlacementResult | None:
        """Returns the assignments with all lost pods placed jointly; None if there are none, or if a slice lost pods."""
        joint: list[PlacementRequest] = []
        kept: dict[str, tuple[Tree, Assignment, tuple[DomainCount, ...]]] = {}
        for request in requests:
            if request.previous is None or (rest := rests.get(request.pod_set.name)) is None:
                continue
            tree = self._steps.tree(Group(request))
            if isinstance(tree, NoPlacement):
                return None
            known, away = _split_by_tree(tree, rest, alive)
            if stale(tree, known) is not None:
                return None
            kept[request.pod_set.name] = tree, known, away
            if not (lost := total(request.previous) - total(rest)):
                continue
            part = replace(request, count=lost, previous=None)
            resolved = self._steps.resolve(tree, Group(part))
            if isinstance(resolved, NoPlacement) or resolved.shaped or lost % resolved.slice_size or away:
                return None
            if any(pods % resolved.slice_size for pods in _pods(tree, resolved.layers[0], known.domains).values()):
                return None
            around = [rests[name] for name in _other_members(request, requests) if name in rests]
            near = _narrowed(tree, resolved, known, around).within or resolved.within
            if (topology := request.pod_set.topology) is not None:
                changed = topology.following(near if resolved.required else None)
                part = replace(part, pod_set=replace(request.pod_set, topology=changed))
            joint.append(part)
        result = self._place(joint)
        if not result.fits:
            return None
        whole: dict[str, Assignment] = {}
        for name, (tree, known, away) in kept.items():
            new = merged(tree, known, result.assignments[name]) if name in result.assignments else known
            whole[name] = Assignment(new.levels, (*new.domains, *away))
        return PlacementResult(whole, {})

    def _in_order(
        self,
        requests: Sequence[PlacementRequest],
        rests: Mapping[str, Assignment],
        nodes: Collection[str],
        alive: Container[str],
    ) -> PlacementResult:
        """Returns the assignments of the pod sets, placed one after the other."""
        assignments: dict[str, Assignment] = {}
        failures: dict[str, NoPlacement] = {}
        ended: set[str] = set()
        with self._journal.trial():
            for request in sorted(requests, key=lambda request: request.flavor):
                name = request.pod_set.name
                if name not in rests or request.flavor in ended:
                    continue
                others = [
                    {**rests, **assignments}[other] for other in _other_members(request, requests) if other in rests
                ]
                outcome = self._replaced(request, rests[name], others, nodes, alive)
                if isinstance(outcome, NoPlacement):
                    failures[name] = outcome
                    ended.add(request.flavor)
                else:
                    assignments[name] = outcome
        return PlacementResult(assignments, failures)

    def _replaced(
        self,
        request: PlacementRequest,
        rest: Assignment,
        others: Sequence[Assignment],
        nodes: Collection[str],
        alive: Container[str],
    ) -> Assignment | NoPlacement:
        """Returns the assignment with the lost pods replaced. Later pod sets of the request see the new pods as usage.

        `rest` is the assignment of the healthy pods, `others` are those of the other pod sets of the group.
        """
        lost = 0 if request.previous is None else total(request.previous) - total(rest)
        if not lost:
            return rest
        group = Group(replace(request, count=lost))
        tree = self._steps.tree(group)
        if isinstance(tree, NoPlacement):
            return tree
        known, away = _split_by_tree(tree, rest, alive)
        if (gone := stale(tree, known)) is not None:
            return NoPlacement(messages.stale_domain(gone.values[0]))
        resolved = self._steps.resolve(tree, group)
        if isinstance(resolved, NoPlacement):
            return resolved
        if away and (resolved.shaped or resolved.slice_size > 1 or (resolved.required and not known.domains)):
            # Slices and required levels cannot be checked for pods on hosts that the tree does not have.
            return NoPlacement(messages.stale_domain(away[0].values[0]))
        if resolved.required and known.domains and home(tree, known, resolved.level) is None:
            return NoPlacement(messages.relabelled(tree.shape.levels[resolved.level]))
        if len(nodes) > 1 and not resolved.shaped:
            assignment = self._complete_slices(tree, request, resolved, known, others, lost)
        else:
            narrowed = _narrowed(tree, resolved, known, others)
            assignment = self._found(
                tree, request, replace(narrowed, kept=by_path(tree, known)) if resolved.shaped else narrowed
            )
        if isinstance(assignment, NoPlacement):
            return assignment
        if total(assignment) < lost:
            return NoPlacement(messages.no_replacement(nodes), total(assignment), lost)
        whole = merged(tree, known, assignment)
        return Assignment(whole.levels, (*whole.domains, *away))

    def _found(self, tree: Tree, request: PlacementRequest, resolved: ResolvedRequest) -> Assignment | NoPlacement:
        """Returns an assignment for the pods of `resolved`, charged until the open trial ends, or the failure."""
        placed = self._steps.search(tree, Group(replace(request, count=resolved.count)), resolved)
        if isinstance(placed, NoPlacement):
            return placed
        self._steps.assume(placed)
        ((_, new),) = placed
        return new

    def _complete_slices(
        self,
        tree: Tree,
        request: PlacementRequest,
        resolved: ResolvedRequest,
        rest: Assignment,
        others: Sequence[Assignment],
        lost: int,
    ) -> Assignment | NoPlacement:
        """Returns an assignment for the lost pods of several nodes.

        Broken slices are completed in their domains first, innermost slices first; then whole slices are placed. If a domain
        lacks capacity, the assignment has fewer than `lost` pods.
        """
        new, left = Assignment(rest.levels, ()), lost
        for index in reversed(range(len(resolved.layers))):
            layer, below = resolved.layers[index], resolved.layers[index + 1 :]
            inner = below[:1] or (ResolvedLayer(tree.depth - 1, 1),)
            for path, missing in _missing(tree, layer, merged(tree, rest, new)):
                if missing > left:
                    return new
                part = replace(resolved, count=missing, within=path, layers=inner, inner={})
                assignment = self._found(tree, request, part)
                if isinstance(assignment, NoPlacement):
                    return assignment
                new, left = merged(tree, new, assignment), left - total(assignment)
                if total(assignment) < missing:
                    return new
        if not left:
            return new
        whole = replace(_narrowed(tree, replace(resolved, count=left), rest, others), count=left)
        assignment = self._found(tree, request, whole)
        return assignment if isinstance(assignment, NoPlacement) else merged(tree, new, assignment)


def _split_by_tree(tree: Tree, rest: Assignment, alive: Container[str]) -> tuple[Assignment, tuple[DomainCount, ...]]:
    """Splits the healthy pods: first those on domains to be checked against the tree, then those on hosts in `alive` that
    the tree does not have.
    """
    if rest.levels != tree.output_levels or not by_host(rest.levels):
        return rest, ()
    away = tuple(one for one in rest.domains if tree.domain_row(one.values) is None and one.values[-1] in alive)
    return Assignment(rest.levels, tuple(one for one in rest.domains if one not in away)), away


def _without(assignment: Assignment, nodes: Collection[str]) -> Assignment:
    """Returns the assignment without these hosts. An assignment of wider domains is unchanged."""
    if not by_host(assignment.levels):
        return assignment
    return Assignment(assignment.levels, tuple(one for one in assignment.domains if one.values[-1] not in nodes))


def _fewer(assignment: Assignment, pod_set: str, lost: Mapping[tuple[str, str], int]) -> Assignment:
    """Returns the assignment minus the lost pods of each host."""
    if not by_host(assignment.levels):
        return assignment
    left = (
        replace(domain, count=domain.count - lost.get((pod_set, domain.values[-1]), 0)) for domain in assignment.domains
    )
    return Assignment(assignment.levels, tuple(domain for domain in left if domain.count > 0))


def _other_members(request: PlacementRequest, requests: Sequence[PlacementRequest]) -> Iterator[str]:
    """Yields the names of the other pod sets in the request's group."""
    own = _group_of(request)
    for other in requests:
        if other is not request and own is not None and own == _group_of(other):
            yield other.pod_set.name


def _group_of(request: PlacementRequest) -> tuple[str, str] | None:
    topology = request.pod_set.topology
    return None if topology is None or topology.group is None else (request.flavor, topology.group)


def _narrowed(tree: Tree, resolved: ResolvedRequest, rest: Assignment, others: Sequence[Assignment]) -> ResolvedRequest:
    """Returns the resolved request for the lost pods, restricted to the domain and slices that the healthy pods permit."""
    broken = [] if resolved.shaped else [layer for layer in resolved.layers if resolved.count % layer.size]
    if broken:
        within = _incomplete(tree, broken[-1], rest.domains, resolved.count)
        whole = [layer for layer in resolved.layers if layer not in broken] or [ResolvedLayer(tree.depth - 1, 1)]
        return resolved if within is None else replace(resolved, within=within, layers=(whole[-1],), inner={})
    if not resolved.required:
        return resolved
    domains = (home(tree, part, resolved.level) for part in (rest, *others))
    return replace(resolved, within=next((where for where in domains if where), None))


def _incomplete(tree: Tree, layer: ResolvedLayer, rest: Sequence[DomainCount], lost: int) -> Values | None:
    """Returns the domain of the layer whose pods form whole slices together with the lost pods; None if there is none."""
    pods = _pods(tree, layer, rest)
    fitting = [path for path, count in pods.items() if (count + lost) % layer.size == 0]
    return min(fitting, key=",".join, default=None)


def _missing(tree: Tree, layer: ResolvedLayer, rest: Assignment) -> list[tuple[Values, int]]:
    """Returns the domains of the layer with a broken slice, each with the number of pods that it lacks, by path."""
    pods = _pods(tree, layer, rest.domains)
    short = [(path, -count % layer.size) for path, count in pods.items() if count % layer.size]
    return sorted(short, key=lambda each: ",".join(each[0]))


def _pods(tree: Tree, layer: ResolvedLayer, rest: Sequence[DomainCount]) -> Counter[Values]:
    """Returns the pods by path of their domain at the layer's level."""
    pods: Counter[Values] = Counter()
    for domain in rest:
        pods[path_of(tree, domain.values)[: layer.level + 1]] += domain.count
    return pods
