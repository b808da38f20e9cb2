"""The usage of an admission, one record for each domain of its assignments, and the spots where it is charged.

Records and arithmetic only; allocations.py and assumed.py change the records. place.py uses `spots` to charge pod sets
temporarily while it places the others of the same request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from admission.engine.model import HOSTNAME_LABEL, PODS, Admission, Assignment, BoundPod, PodFacts, Workload
from admission.engine.topology.allocation.capacity import Capacity, Spot, SpotKind
from admission.engine.topology.neighbours.placed import of_domain
from admission.engine.topology.neighbours.tally import Place
from admission.engine.topology.tree.match import Wants
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values
from admission.engine.topology.usage import Vector

Slot = tuple[str, str, Values]
"""(workload key, pod set name, values of the domain): identifies one entry of an assignment."""

Domain = tuple[tuple[str, ...], Values]
"""(label keys of the levels, values) of a domain."""


@dataclass(slots=True)
class EntryUsage:
    """The usage of one entry of an assignment: pods in one domain that use the same."""

    slot: Slot
    flavor: str
    levels: tuple[str, ...]
    vector: Vector
    """What each pod uses."""
    count: int
    """The number of pods."""
    by_node: bool
    """Whether the domain's nodes are charged one by one."""
    wants: Wants
    facts: PodFacts | None = None
    """The labels and terms by which pod terms count these pods."""
    covered: set[str] = field(default_factory=set)
    """The keys of the bound pods among them."""
    excess: set[str] = field(default_factory=set)
    """The keys of bound pods beyond the count, which are charged as foreign."""
    assumed: dict[str, int] = field(default_factory=dict)
    """The number of unbound pods that hold capacity on each node; used only if nodes are charged one by one."""

    @property
    def values(self) -> Values:
        """The domain's values."""
        return self.slot[2]

    @property
    def spot(self) -> Spot:
        """The spot where the entry is charged, unless it is charged node by node."""
        return spot_of(self.flavor, self.levels, self.values)

    @property
    def place(self) -> Place:
        """The place at which pod terms count the entry's unbound pods."""
        return of_domain(self.flavor, self.levels, self.values)

    @property
    def domain(self) -> Domain:
        """The domain, independent of the flavor."""
        return self.levels, self.values

    @property
    def unplaced(self) -> int:
        """The number of pods that are neither bound nor assumed on a node."""
        return self.count - len(self.covered) - sum(self.assumed.values())


@dataclass(frozen=True, slots=True)
class Allocation:
    """An admission in force. `entries` is keyed by (pod set name, values of the domain)."""

    workload: Workload
    admission: Admission
    entries: Mapping[tuple[str, Values], EntryUsage]

    def by_node(self) -> list[EntryUsage]:
        """Returns the entries that are charged node by node; only these have pods that are assumed on a node."""
        return [entry for entry in self.entries.values() if entry.by_node]


def by_host(levels: tuple[str, ...]) -> bool:
    """Reports whether the lowest of these levels is the host."""
    return bool(levels) and levels[-1] == HOSTNAME_LABEL


def spot_of(flavor: str, levels: tuple[str, ...], values: Values) -> Spot:
    """Returns the spot at which a domain is charged as a whole."""
    kind = SpotKind.HOST if by_host(levels) else SpotKind.DOMAIN
    return Spot(kind, flavor, values[-1:] if kind is SpotKind.HOST else values)


def spots(
    capacity: Capacity, flavor: str, assignment: Assignment, vector: Vector, wants: Wants
) -> Iterator[tuple[Spot, int]]:
    """Yields the spots that the assignment would be charged to, each with a number of pods.

    The spots depend on free capacity: charge each spot before taking the next.
    """
    by_node = capacity.by_node and not by_host(assignment.levels)
    for domain in assignment.domains:
        if not by_node:
            yield spot_of(flavor, assignment.levels, domain.values), domain.count
            continue
        rest = domain.count
        for node, fit in nodes_with_capacity(capacity, flavor, (assignment.levels, domain.values), vector, wants):
            if rest and (count := min(fit, rest)):
                rest -= count
                yield Spot(SpotKind.NODE, flavor, (node,)), count


def nodes_with_capacity(
    capacity: Capacity, flavor: str, where: Domain, vector: Vector, wants: Wants
) -> Iterator[tuple[str, int]]:
    """Yields the nodes of the domain that the pods may use, by name, each with the number of pods that still fit."""
    levels, values = where
    tree = capacity.trees.get(flavor)
    if tree is None or tree.shape.levels != levels:
        return
    domain = tree.domain_row(values)
    mask = tree.matcher.feasible(wants, tree.rows.size)
    for row in () if domain is None else tree.rows_of_domain(domain):
        if mask is None or mask[row]:
            yield tree.members(row)[0], pods_that_fit(tree, row, vector)


def pods_that_fit(tree: Tree, row: int, vector: Vector) -> int:
    """Returns how many pods that use `vector` each still fit into the row."""
    return max(0, min((tree.free_at(row, column) // amount for column, amount in vector if amount > 0), default=0))


def held(pod: BoundPod) -> dict[str, int]:
    """Returns the amounts that a bound pod uses of its node, including its exclusive names and one pod slot."""
    return {**pod.requests, **pod.exclusive, PODS: 1}
