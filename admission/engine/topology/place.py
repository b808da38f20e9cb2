"""Places the pod sets of one workload on the trees of their flavors (placement.md 5.4 and 5.9).

Flavors are handled in the order of their names. Within a flavor the groups are placed in the order of the request
(place_group.py), and each group sees the usage of the groups before it. The first group that cannot be placed ends its
flavor, and the failure is reported for each of its pod sets. With Profile Exact joint.py then tries other placements of all
groups together. Called by queries.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from admission.engine.decision import Certificate, NoPlacement, PlacementResult
from admission.engine.model import Assignment, PlacementRequest
from admission.engine.topology import messages, spares
from admission.engine.topology.assignments import pins
from admission.engine.topology.constraints import Group, groups_of
from admission.engine.topology.exact.joint import joint
from admission.engine.topology.place_group import GroupPlacer


class Placer:
    """Answers placement requests on the live trees and leaves them unchanged. `steps` places a single group."""

    def __init__(self, steps: GroupPlacer) -> None:
        self._steps = steps

    def place(self, requests: Sequence[PlacementRequest], *, simulate_empty: bool = False) -> PlacementResult:
        """Returns assignments for all pod sets, or why the first group that cannot be placed failed.

        With `simulate_empty` the answer ignores the usage of admitted workloads.
        """
        if not requests:
            return PlacementResult({}, {})
        if (refused := self._refused(requests, simulate_empty)) is not None:
            return refused
        result = self._pods(requests, simulate_empty)
        return spares.beside(
            self._steps, requests, result, simulate_empty, lambda some: self._pods(some, simulate_empty)
        )

    def _pods(self, requests: Sequence[PlacementRequest], simulate_empty: bool) -> PlacementResult:
        """Returns the placement of the pods, whatever it leaves beside them."""
        first, *others = _by_flavor(requests)
        result = self._together(first, simulate_empty)
        if others:
            result = self._beside(first, result, others, simulate_empty)
        if result.fits and (refused := self._uneven(requests, result, simulate_empty)) is not None:
            return refused
        return result

    def _beside(
        self, placed: Sequence[Group], first: PlacementResult, others: Sequence[list[Group]], simulate_empty: bool
    ) -> PlacementResult:
        """Returns the placement of all flavors, given that of the first one: each flavor sees the usage of those before it."""
        results = [first]
        with self._steps.journal.trial():
            for groups in others:
                names = results[-1].assignments
                self._steps.assume([(r, names[name]) for r, name in _members(placed) if name in names])
                results.append(self._together(groups, simulate_empty))
                placed = groups
        return PlacementResult(
            {name: assignment for result in results for name, assignment in result.assignments.items()},
            {name: failed for result in results for name, failed in result.failures.items()},
            {name: proved for result in results for name, proved in result.certificates.items()},
        )

    def _uneven(
        self, requests: Sequence[PlacementRequest], result: PlacementResult, simulate_empty: bool
    ) -> PlacementResult | None:
        """Returns the failure of several pod sets whose pods are spread evenly each, but not together; else None."""
        for groups in _by_flavor(requests) if len(requests) > 1 else ():
            members = [member for group in groups for member in group.members]
            if (key := self._steps.uneven_term(members, result, empty=simulate_empty)) is not None:
                text = messages.uneven(key, several=True)
                return PlacementResult({}, {member.pod_set.name: NoPlacement(text) for member in members})
        return None

    def _refused(self, requests: Sequence[PlacementRequest], simulate_empty: bool) -> PlacementResult | None:
        """Returns the failure of requests with terms that cannot be counted yet, or not for several pod sets; else None."""
        placed = self._steps.capacity.placed
        if not placed.counting and not any(placed.has_terms(request.facts) for request in requests):
            return None
        self._steps.watch_terms(requests)
        return self._uncounted(requests) or self._unordered(requests, simulate_empty)

    def _uncounted(self, requests: Sequence[PlacementRequest]) -> PlacementResult | None:
        """Returns the failure of requests with terms while the first count of all pods is still running, else None."""
        if not any(self._steps.capacity.placed.waits(request.facts) for request in requests):
            return None
        failure = NoPlacement(messages.BEING_COUNTED)
        return PlacementResult({}, {request.pod_set.name: failure for request in requests})

    def _unordered(self, requests: Sequence[PlacementRequest], simulate_empty: bool) -> PlacementResult | None:
        """Returns a failure if one of several pod sets has required affinity to pods of which none is bound, else None.

        The pod that happens to be bound first would decide which domain the other pods may use.
        """
        if len(requests) == 1:
            return None
        gathering = [r for r in requests if self._steps.capacity.placed.gathers(r.facts, empty=simulate_empty)]
        if not gathering:
            return None
        text = messages.unbound_affinity(gathering[0].pod_set.name)
        return PlacementResult({}, {request.pod_set.name: NoPlacement(text) for request in requests})

    def _together(self, groups: Sequence[Group], simulate_empty: bool) -> PlacementResult:
        """Returns the placement of the groups of one flavor: one after the other, improved jointly with Profile Exact."""
        result = self._in_turn(groups, simulate_empty)
        if joint.concerns(groups, self._steps.options.profile) and not any(map(self._in_turn_only, groups)):
            better = joint.solve(self._steps, groups, result, simulate_empty)
            members = [member for group in groups for member in group.members]
            return better if self._steps.broken_term(members, better) is None else result
        return result

    def _in_turn_only(self, group: Group) -> bool:
        """Reports whether the group needs what the joint search cannot do: even spread, limits of pods on a host, or hosts
        below the lowest level.
        """
        tree = self._steps.capacity.trees.get(group.workers.flavor)
        even = any(member.facts is not None and member.facts.even for member in group.members)
        limited = any(member.most_per_host for member in group.members)
        return even or limited or (tree is not None and pins.names_hosts(tree))

    def _in_turn(self, groups: Sequence[Group], simulate_empty: bool) -> PlacementResult:
        """Returns the placement of the groups one after the other, up to the first group that cannot be placed."""
        assignments: dict[str, Assignment] = {}
        certificates: dict[str, Certificate] = {}
        with self._steps.journal.trial() if len(groups) > 1 else nullcontext():
            for index, group in enumerate(groups):
                placed, certificate = self._steps.place_group(group, simulate_empty)
                if certificate is not None:
                    certificates.update({member.pod_set.name: certificate for member in group.members})
                if isinstance(placed, NoPlacement):
                    failures = {member.pod_set.name: placed for member in group.members}
                    return PlacementResult(assignments, failures, certificates)
                assignments.update({request.pod_set.name: assignment for request, assignment in placed})
                if index + 1 < len(groups):
                    self._steps.assume(placed)
        return PlacementResult(assignments, {}, certificates)


def _by_flavor(requests: Sequence[PlacementRequest]) -> Iterator[list[Group]]:
    """Yields the groups of each flavor, flavors by name and groups in the order of the requests."""
    for flavor in sorted({request.flavor for request in requests}):
        yield groups_of(request for request in requests if request.flavor == flavor)


def _members(groups: Sequence[Group]) -> Iterator[tuple[PlacementRequest, str]]:
    for group in groups:
        yield from ((member, member.pod_set.name) for member in group.members)
