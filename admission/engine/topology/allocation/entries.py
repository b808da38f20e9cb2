"""What an admission uses, entry by entry of its assignments, and where each entry is charged.

Records and arithmetic only; allocations.py and assumed.py change them over time. place.py uses `spots` to assume the
usage of pod sets that are placed in the same question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from admission.engine.model import HOSTNAME_LABEL, PODS, Admission, Assignment, BoundPod, PodFacts, Workload
from admission.engine.topology.allocation.capacity import Capacity, Spot, SpotKind
from admission.engine.topology.neighbours.placed import of_domain
from admission.engine.topology.neighbours.tally import Place
from admission.engine.topology.tree.match import Wants
from admission.engine.topology.tree.tree import Tree, Values
from admission.engine.topology.usage import Vector

Slot = tuple[str, str, Values]
"""(workload, pod set, domain's values): one entry of an assignment."""

Domain = tuple[tuple[str, ...], Values]
"""(levels, values)."""


@dataclass(slots=True)
class EntryUsage:
    """The usage of one entry of an assignment: `count` pods of `vector` in one domain.

    `covered`: bound pods among them; `excess`: bound pods beyond the count, charged as foreign. `assumed`: by node, the
    number of pods that are not bound yet (only if the domain's nodes are charged one by one). `facts`: what terms see of a pod.
    """

    slot: Slot
    flavor: str
    levels: tuple[str, ...]
    vector: Vector
    count: int
    by_node: bool
    wants: Wants
    facts: PodFacts | None = None
    covered: set[str] = field(default_factory=set)
    excess: set[str] = field(default_factory=set)
    assumed: dict[str, int] = field(default_factory=dict)

    @property
    def values(self) -> Values:
        """The domain's values."""
        return self.slot[2]

    @property
    def spot(self) -> Spot:
        """Returns where it is charged, unless it is charged node by node."""
        return spot_of(self.flavor, self.levels, self.values)

    @property
    def place(self) -> Place:
        """Returns the place of its unbound pods."""
        return of_domain(self.flavor, self.levels, self.values)

    @property
    def domain(self) -> Domain:
        """The domain, independent of the flavor."""
        return self.levels, self.values

    @property
    def unplaced(self) -> int:
        """Pods on no node: neither bound nor assumed."""
        return self.count - len(self.covered) - sum(self.assumed.values())


@dataclass(frozen=True, slots=True)
class Allocation:
    """An admission in force. `entries` by (pod set, values)."""

    workload: Workload
    admission: Admission
    entries: Mapping[tuple[str, Values], EntryUsage]


def by_host(levels: tuple[str, ...]) -> bool:
    """Reports whether these levels end in the host."""
    return bool(levels) and levels[-1] == HOSTNAME_LABEL


def spot_of(flavor: str, levels: tuple[str, ...], values: Values) -> Spot:
    """Returns where a domain is charged as a whole."""
    kind = SpotKind.HOST if by_host(levels) else SpotKind.DOMAIN
    return Spot(kind, flavor, values[-1:] if kind is SpotKind.HOST else values)


def spots(
    capacity: Capacity, flavor: str, assignment: Assignment, vector: Vector, wants: Wants
) -> Iterator[tuple[Spot, int]]:
    """Returns where the assignment would be charged. Depends on free capacity, so charge each spot before taking the
    next."""
    by_node = capacity.by_node and not by_host(assignment.levels)
    for domain in assignment.domains:
        if not by_node:
            yield spot_of(flavor, assignment.levels, domain.values), domain.count
            continue
        rest = domain.count
        for node, fit in nodes_with_room(capacity, flavor, (assignment.levels, domain.values), vector, wants):
            if rest and (count := min(fit, rest)):
                rest -= count
                yield Spot(SpotKind.NODE, flavor, (node,)), count


def nodes_with_room(
    capacity: Capacity, flavor: str, where: Domain, vector: Vector, wants: Wants
) -> Iterator[tuple[str, int]]:
    """Yields the domain's nodes that the pods may use, by name, each with how many pods of this size it still holds."""
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
    """Returns how many pods of this size one row still holds."""
    return max(0, min((tree.free_at(row, column) // amount for column, amount in vector if amount > 0), default=0))


def held(pod: BoundPod) -> dict[str, int]:
    """Returns what a bound pod uses of its node."""
    return {**pod.requests, **pod.exclusive, PODS: 1}
