"""Spare hosts in a snapshot, and in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from admission.engine.features.spare_hosts import of_flavors, of_workloads
from admission.engine.features.spare_hosts.feature import SpareKeeper
from admission.engine.ledger.holds import Hold, HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import SpareRule, Workload
from admission.engine.topology.tree.tree_spec import Values

_UNSETTLED: Final = -1
"""A generation that no ledger has."""


@dataclass(frozen=True, slots=True)
class OfFlavor:
    """The spare hosts of a flavor by domain (of_flavors.py).

    `settled`: no host has become free since there were too few.
    """

    flavor: str
    rule: SpareRule
    held: tuple[tuple[Values, tuple[str, ...]], ...]
    nodes: int
    settled: bool
    wanted_of: tuple[tuple[Values, int], ...] = ()


def of_all_flavors(ledger: Ledger) -> tuple[OfFlavor, ...]:
    """Returns the records of all flavors that have a rule for spare hosts, by name."""
    return tuple(
        OfFlavor(
            name,
            spares.rule,
            tuple(sorted(spares.held.items())),
            spares.nodes,
            spares.generation == ledger.generation(name),
            tuple(sorted(spares.wanted_of.items())),
        )
        for name, spares in sorted(of_flavors.states(ledger).items())
    )


def settled(ledger: Ledger) -> tuple[str, ...]:
    """Returns the workloads for which no host is looked for until capacity may have become free."""
    return tuple(of_workloads.settled(ledger))


def hold_again(
    ledger: Ledger, holds: Iterable[Workload], flavors: Collection[OfFlavor], without_look: Iterable[str]
) -> None:
    """Holds the spare hosts of a snapshot in a ledger that has everything else of it. `without_look`: see `settled`."""
    ledger.holds.keeper = SpareKeeper(ledger)
    owners = {hold_key(HoldKind.SPARES, key): (HoldKind.SPARES, key) for key in ledger.holds.askers}
    kind = HoldKind.FLAVOR_SPARES
    for each in flavors:
        owners |= {hold_key(kind, each.flavor, "/".join(domain)): (kind, each.flavor) for domain, _ in each.held}
    for pods in holds:
        if pods.admission is not None and pods.key in owners:
            ledger.holds.put(Hold(*owners[pods.key], replace(pods, admission=None), pods.admission))
    for each in flavors:
        generation = ledger.generation(each.flavor) if each.settled else _UNSETTLED
        spares = of_flavors.FlavorSpares(each.rule, dict(each.held), dict(each.wanted_of), each.nodes, generation)
        ledger.journal.put(ledger.holds.of_flavor, each.flavor, spares)
    of_workloads.settle(ledger, without_look)


def hold_named(ledger: Ledger, key: str, text: str) -> None:
    """Holds the hosts that the workload's condition names, as far as they have room: by itself the engine may choose others."""
    if key in ledger.holds.askers:
        ledger.holds.keeper = SpareKeeper(ledger)
        of_workloads.hold(ledger, key, of_workloads.named_hosts(text))


def text_of(ledger: Ledger, key: str) -> str:
    """Returns which hosts are held for a running workload, or an empty text if it requests none."""
    held = of_workloads.held(ledger, key)
    return f"spare hosts, free of pods: {held.text()}" if held.wanted else ""
