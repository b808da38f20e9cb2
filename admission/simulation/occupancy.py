"""How full the domains of each flavor's tree are at one moment, and what there is in all. Reads the ledger, changes nothing.

Full is what is not free: used by admitted workloads, or by pods that are none of ours. Called by run.py, tables.py, picture.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from admission.engine.ledger import Ledger
from admission.engine.model import PODS, ClusterQueue, Cohort, FlavorResource
from admission.engine.quota.tree import queue_quotas


@dataclass(frozen=True, slots=True)
class ResourceOccupancy:
    """One resource of a domain, in the engine's units."""

    total: int
    free: int
    used: int

    @property
    def share(self) -> float:
        """How much of it is not free, 0 to 1."""
        return min(1.0, max(0.0, 1 - self.free / self.total)) if self.total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class DomainOccupancy:
    """A domain of the lowest level, or a single node below it. `path`: its values, widest first."""

    path: tuple[str, ...]
    rooms: dict[str, ResourceOccupancy]

    @property
    def share(self) -> float:
        """How full it is of what it is fullest of; pod slots do not count."""
        return max((room.share for name, room in self.rooms.items() if name != PODS), default=0.0)


@dataclass(frozen=True, slots=True)
class FlavorOccupancy:
    """One flavor's tree. `places` by path."""

    flavor: str
    levels: tuple[str, ...]
    places: tuple[DomainOccupancy, ...] = field(default=())


def occupancies(ledger: Ledger) -> list[FlavorOccupancy]:
    """Of every flavor with a topology, by name."""
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
        rooms = {
            names[column]: ResourceOccupancy(total, tree.free_at(row, column), int(tree.used(column)[row]))
            for column, total in sorted(totals.items(), key=lambda item: names[item[0]])
        }
        places.append(DomainOccupancy(tree.rows.paths[row], rooms))
    return FlavorOccupancy(flavor, tree.shape.levels, tuple(places))


def nodes(ledger: Ledger) -> dict[FlavorResource, int]:
    """What the nodes of each flavor with a topology have, less what is not ours."""
    total: dict[FlavorResource, int] = {}
    for occupancy in occupancies(ledger):
        for place in occupancy.places:
            for resource, room in place.rooms.items():
                pair = (occupancy.flavor, resource)
                total[pair] = total.get(pair, 0) + room.free + room.used
    return total


def quota(ledger: Ledger) -> dict[FlavorResource, int]:
    """Nominal quota of all queues and cohorts."""
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
