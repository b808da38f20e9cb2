"""The occupancy of each flavor's domains at one moment, and totals of capacity and quota. Reads the ledger, changes nothing.

Occupied means not free: used by admitted workloads or by foreign pods. Called by run.py and picture.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import PODS, ClusterQueue, Cohort, FlavorResource
from admission.engine.quota.tree import queue_quotas


@dataclass(frozen=True, slots=True)
class ResourceOccupancy:
    """One resource of a domain in the engine's units (milli-CPU, bytes). `used` counts admitted workloads."""

    total: int
    free: int
    used: int

    @property
    def share(self) -> float:
        """The occupied part, 0 to 1."""
        return min(1.0, max(0.0, 1 - self.free / self.total)) if self.total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class DomainOccupancy:
    """A domain of the lowest level, or a node below it. `path` has its level values, widest first."""

    path: tuple[str, ...]
    resources: dict[str, ResourceOccupancy]

    @property
    def share(self) -> float:
        """The occupied part of its most occupied resource, 0 to 1, without pod slots."""
        return max((resource_use.share for name, resource_use in self.resources.items() if name != PODS), default=0.0)


@dataclass(frozen=True, slots=True)
class FlavorOccupancy:
    """The domains of one flavor's tree, sorted by path."""

    flavor: str
    levels: tuple[str, ...]
    places: tuple[DomainOccupancy, ...] = field(default=())


def occupancies(ledger: Ledger) -> list[FlavorOccupancy]:
    """Returns the occupancy of every flavor with a topology, by name."""
    return [_occupancy(ledger, name) for name in sorted(ledger.capacity.trees)]


def _occupancy(ledger: Ledger, flavor: str) -> FlavorOccupancy:
    capacity = ledger.capacity
    tree, names = capacity.trees[flavor], capacity.columns.names
    places = []
    for row in tree.rows.in_order(tree.rows.ids().tolist()):
        totals: dict[int, int] = {}
        for member in tree.members(row):
            for column, amount in capacity.nodes[member].offers:
                totals[column] = totals.get(column, 0) + amount
        resources = {
            names[column]: ResourceOccupancy(total, tree.free_at(row, column), int(tree.used(column)[row]))
            for column, total in sorted(totals.items(), key=lambda item: names[item[0]])
        }
        places.append(DomainOccupancy(tree.rows.paths[row], resources))
    return FlavorOccupancy(flavor, tree.shape.levels, tuple(places))


def nodes(ledger: Ledger) -> dict[FlavorResource, int]:
    """Returns the capacity of the nodes of each flavor with a topology, without that of foreign pods."""
    total: dict[FlavorResource, int] = {}
    for occupancy in occupancies(ledger):
        for place in occupancy.places:
            for resource, resource_use in place.resources.items():
                pair = (occupancy.flavor, resource)
                total[pair] = total.get(pair, 0) + resource_use.free + resource_use.used
    return total


def quota(ledger: Ledger) -> dict[FlavorResource, int]:
    """Returns the nominal quota of all ClusterQueues and Cohorts."""
    total: dict[FlavorResource, int] = {}
    for spec in ledger.quota.specs():
        match spec:
            case ClusterQueue():
                quotas = queue_quotas(spec)
            case Cohort():
                quotas = dict(spec.quotas)
        for pair, given in quotas.items():
            total[pair] = total.get(pair, 0) + given.nominal
    return total
