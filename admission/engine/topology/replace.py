"""Replace a failed node under a running workload: its pods, and only those, get other places: placement.md 5.10.

Healthy pods keep running, so their domains stay and the lost pods are placed like a small pod set of their own. What
the whole pod set was promised must still hold afterwards, and this narrows where the search may look (`Ask.within`):

- Whole slices were lost (or there are none): a required level holds for all pods together, so the search stays in the
  domain of that level where the other pods are; if a pod set lost all of its pods, where the others of its group are.
  Without a required level, or with no pod left, it may look everywhere.
- A part of a slice was lost: the rest of the slice waits for it, so the search stays in the slice's domain: that of the
  innermost layer that the loss broke. It is the domain whose pods become whole slices again with the lost ones (of
  several the smallest by name). Inside it, slices of the innermost layer that the loss did not break are kept whole.

Placement constraints count lost and healthy pods together (`Ask.kept`), and so do slices then.

All lost pods are placed or none are. One node at a time: any other missing domain fails the attempt, since its pods are
lost as well and nothing is known of a domain that no tree has. The workload's own allocation stays in force meanwhile:
its healthy pods use their room, and those of the failed node use none while the node does not count.

Called by ledger.py. The caller decides which node, and what to do if there is no place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from admission.engine.decision import NoPlacement, PlacementResult
from admission.engine.model import Assignment, DomainCount, PlacementRequest
from admission.engine.topology.allocation.entries import by_host
from admission.engine.topology.assignment_parts import by_path, merged, path_of, stale, total
from admission.engine.topology.constraints import Ask, Group, Layer
from admission.engine.topology.place import Placer
from admission.engine.topology.tree.tree import Tree, Values
from admission.engine.trial import Journal


class Replacer:
    """Answers on the live trees and leaves them unchanged."""

    def __init__(self, placer: Placer, journal: Journal) -> None:
        self._placer = placer
        self._journal = journal

    def replace(self, requests: Sequence[PlacementRequest], node: str) -> PlacementResult:
        """Assignments without the node (its hostname). Pod sets that were not placed before are not in the answer.

        Flavors by name; the first pod set that cannot be placed ends its flavor.
        """
        assignments: dict[str, Assignment] = {}
        failures: dict[str, NoPlacement] = {}
        rests = {r.pod_set.name: _without(r.previous, node) for r in requests if r.previous is not None}
        ended: set[str] = set()
        with self._journal.trial():
            for request in sorted(requests, key=lambda request: request.flavor):
                name = request.pod_set.name
                if name not in rests or request.flavor in ended:
                    continue
                mates = [{**rests, **assignments}[mate] for mate in _mates(request, requests) if mate in rests]
                outcome = self._replaced(request, rests[name], mates, node)
                if isinstance(outcome, NoPlacement):
                    failures[name] = outcome
                    ended.add(request.flavor)
                else:
                    assignments[name] = outcome
        return PlacementResult(assignments, failures)

    def _replaced(
        self, request: PlacementRequest, rest: Assignment, mates: Sequence[Assignment], node: str
    ) -> Assignment | NoPlacement:
        """The rest and the found places merged; the pod sets that follow see the found places as used."""
        lost = 0 if request.previous is None else total(request.previous) - total(rest)
        if not lost:
            return rest
        group = Group(replace(request, count=lost))
        tree = self._placer.tree(group)
        if isinstance(tree, NoPlacement):
            return tree
        gone = stale(tree, rest)
        if gone is not None:
            return NoPlacement(
                "Cannot replace the node, because the existing topologyAssignment is invalid, "
                f"as it contains the stale domain {gone.values[0]}"
            )
        ask = self._placer.ask(tree, group)
        if isinstance(ask, NoPlacement):
            return ask
        narrowed = _narrowed(tree, ask, rest, mates)
        if ask.shaped:
            narrowed = replace(narrowed, kept=by_path(tree, rest))
        found = self._placer.search(tree, group, narrowed)
        if isinstance(found, NoPlacement):
            return found
        ((_, new),) = found
        if total(new) < lost:
            return NoPlacement(f"cannot find replacement assignment for unhealthy node: {node}", total(new), lost)
        self._placer.assume(found)
        return merged(tree, rest, new)


def _without(assignment: Assignment, node: str) -> Assignment:
    """The assignment without the node's domain. Wider domains outlive a node."""
    if not by_host(assignment.levels):
        return assignment
    return Assignment(assignment.levels, tuple(one for one in assignment.domains if one.values[-1] != node))


def _mates(request: PlacementRequest, requests: Sequence[PlacementRequest]) -> Iterator[str]:
    """The other pod sets of its group."""
    own = _group_of(request)
    for other in requests:
        if other is not request and own is not None and own == _group_of(other):
            yield other.pod_set.name


def _group_of(request: PlacementRequest) -> tuple[str, str] | None:
    ask = request.pod_set.topology
    return None if ask is None or ask.group is None else (request.flavor, ask.group)


def _narrowed(tree: Tree, ask: Ask, rest: Assignment, mates: Sequence[Assignment]) -> Ask:
    """The lost pods' Ask: where they may go beside the pods that stay, and which slices must be kept whole."""
    broken = [] if ask.shaped else [layer for layer in ask.layers if ask.count % layer.size]
    if broken:
        within = _incomplete(tree, broken[-1], rest.domains, ask.count)
        whole = [layer for layer in ask.layers if layer not in broken] or [Layer(tree.depth - 1, 1)]
        return ask if within is None else replace(ask, within=within, layers=(whole[-1],), inner={})
    if not ask.required:
        return ask
    return replace(ask, within=next((where for part in (rest, *mates) if (where := _home(tree, ask, part))), None))


def _home(tree: Tree, ask: Ask, part: Assignment) -> Values | None:
    """The domain of the required level where these pods are."""
    if not part.domains or stale(tree, part):
        return None
    return path_of(tree, part.domains[0].values)[: ask.level + 1]


def _incomplete(tree: Tree, layer: Layer, rest: Sequence[DomainCount], lost: int) -> Values | None:
    """The domain of the layer whose pods make whole slices together with the lost ones."""
    pods: Counter[Values] = Counter()
    for domain in rest:
        pods[path_of(tree, domain.values)[: layer.level + 1]] += domain.count
    fitting = [path for path, count in pods.items() if (count + lost) % layer.size == 0]
    return min(fitting, key=",".join, default=None)
