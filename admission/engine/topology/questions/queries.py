"""Questions about placement on the live trees. None of them changes the ledger, which holds this as `Ledger.placement`.

place.py answers requests, replace.py those of running workloads whose nodes failed. cycle/, preemption/ and explain/ ask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

from admission.engine.decision import PlacementResult
from admission.engine.journal import Journal
from admission.engine.model import (
    Admission,
    Assignment,
    Flavor,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    Workload,
)
from admission.engine.pauses import no_pause
from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.allocation.entries import pods_that_fit
from admission.engine.topology.allocation.simulated_removal import PlacementCheck
from admission.engine.topology.assignments.on_hosts import on_hosts
from admission.engine.topology.evictions.eviction_gains import EvictionGains, eviction_gains
from admission.engine.topology.evictions.eviction_takes import KeptTakes
from admission.engine.topology.exact.joint.colocated import Placed
from admission.engine.topology.place import Placer
from admission.engine.topology.place_group import GroupPlacer
from admission.engine.topology.questions.capacity_bound import CapacityBound
from admission.engine.topology.questions.empty_cluster import EmptyAnswers
from admission.engine.topology.questions.level_check import BrokenLevel, broken_levels
from admission.engine.topology.replace import Replacer
from admission.engine.topology.tree.level import Bools
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values


class PlacementQueries:
    """Answers by the present capacity and allocations, inside a trial by those of the trial."""

    def __init__(
        self,
        capacity: Capacity,
        allocations: Allocations,
        flavors: Mapping[str, Flavor],
        options: PlacementOptions,
        journal: Journal,
    ) -> None:
        self._capacity, self._allocations = capacity, allocations
        self._steps = GroupPlacer(capacity, flavors, options, journal)
        self._placer = Placer(self._steps)
        self._replacer = Replacer(self._steps, journal, self._placer.place)
        self._empty = EmptyAnswers(self._placer, capacity)
        self._takes = KeptTakes()

    @property
    def steps(self) -> GroupPlacer:
        """Places single groups, for what else is asked about their hosts."""
        return self._steps

    def check(self, requests: Sequence[PlacementRequest], assignments: Mapping[str, Assignment]) -> PlacementCheck:
        """Returns a quick check, for use later in a trial, whether assignments found by `place` still have capacity."""
        return PlacementCheck(self._capacity, requests, assignments)

    def capacity_bound(self, pod_sets: Iterable[Sequence[PlacementRequest]]) -> CapacityBound:
        """Returns a quick proof, for use later in a trial too, that a pod set fits nowhere.

        Each pod set comes as one request for every flavor.
        """
        return CapacityBound(self._capacity.trees, pod_sets)

    def eviction_gains(
        self, requests: Sequence[PlacementRequest], keys: Iterable[str], pause: Callable[[], None] = no_pause
    ) -> EvictionGains | None:
        """Returns the domains in which the pods would fit without these workloads, and the capacity that each workload frees
        there; None if unknown. `pause` is called often; the capacity may change meanwhile.
        """
        if any(request.asks_beside for request in requests):
            return None
        kept = self._takes if pause is no_pause else KeptTakes()  # a question that pauses is not alone
        return eviction_gains(self._steps, self._allocations, self._capacity, requests, keys, kept, pause)

    def place(self, requests: Sequence[PlacementRequest], *, simulate_empty: bool = False) -> PlacementResult:
        """Returns domains for the pod sets of one workload, together. `simulate_empty`: as if no workload were admitted.

        Requests with `previous` keep those places as far as possible (placement.md 5.11): release the older slice first.
        """
        return self._empty.place(requests) if simulate_empty else self._placer.place(requests)

    def refusal(self, requests: Sequence[PlacementRequest]) -> PlacementResult | None:
        """Returns what `place` with `simulate_empty` has answered before if that says that there is no placement now either."""
        return self._empty.refusal(requests)

    def assume(self, placed: Placed) -> None:
        """Charges the capacity of places found by `place` until the open trial ends."""
        self._steps.assume(placed)

    def replace(
        self,
        requests: Sequence[PlacementRequest],
        nodes: Collection[str],
        alive: Container[str] = (),
        lost: Mapping[tuple[str, str], int] | None = None,
        first: Sequence[Collection[str]] = (),
    ) -> PlacementResult:
        """Returns assignments in which the pods on failed nodes (hostnames) move and all other pods of `previous` stay
        (placement.md 5.10).

        `alive` has hosts that are in no tree now, but whose pods run on. With `lost`, only that number of pods of each
        (pod set, node) moves. `first` has sets of hosts; the first set with capacity for all lost pods is used.

        The workload's allocation stays meanwhile: its healthy pods keep their capacity.
        """
        for hosts in filter(None, first):
            result = self._replacer.replace([on_hosts(each, "In", hosts) for each in requests], nodes, alive, lost)
            if result.fits:
                return result
        return self._replacer.replace(requests, nodes, alive, lost)

    def broken_levels(self, requests: Sequence[PlacementRequest]) -> list[BrokenLevel]:
        """Returns the levels that no longer hold for the pods of `previous` because nodes changed their labels."""
        return broken_levels(self._steps, requests)

    def fits(self, workload: Workload, admission: Admission) -> bool:
        """Reports whether each domain still exists and, counted alone, has capacity for its pods (placement.md 5.14). Ignores
        quota.
        """
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        return all(
            self._holds(self._allocations.flavor_of(got), got.assignment, pod_sets[got.name], workload)
            for got in admission.pod_sets
            if got.assignment is not None
        )

    def _holds(self, flavor: str, assignment: Assignment, pod_set: PodSet, workload: Workload) -> bool:
        tree = self._capacity.trees.get(flavor)
        if tree is None or not tree.names(assignment.levels):
            return False
        near = self._capacity.placed.open_rows(workload.facts_of(pod_set), tree, empty=False)
        return all(
            self._pods_that_fit_in(tree, domain.values, pod_set, near) >= domain.count for domain in assignment.domains
        )

    def _pods_that_fit_in(self, tree: Tree, values: Values, pod_set: PodSet, near: Bools | None) -> int:
        """Returns how many of the pods fit into the domain, without counting the `pods` slots; -1 if it does not exist."""
        domain = tree.domain_row(values)
        if domain is None:
            return -1
        vector = self._capacity.columns.vector({**pod_set.requests, **pod_set.exclusive})
        rows = (row for row in tree.rows_of_domain(domain) if near is None or near[row])
        return sum(pods_that_fit(tree, row, vector) for row in rows)
