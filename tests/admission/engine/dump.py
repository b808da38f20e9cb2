"""Everything a ledger holds as plain comparable data, whatever the slots and labels that carry it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Node
from admission.engine.topology.allocation.entries import EntryUsage
from admission.engine.topology.tree.tree import Tree


def dump(ledger: Ledger) -> dict[str, Any]:
    """The ledger's state, to be compared with `==`."""
    capacity, allocations = ledger._capacity, ledger._allocations
    return {
        "flavors": dict(ledger.flavors),
        "admissions": dict(ledger.admissions),
        "trees": {name: _tree(tree) for name, tree in capacity.trees.items()},
        "nodes": {name: (book.node, book.offers, dict(book.foreign)) for name, book in capacity.nodes.items()},
        "charges": [
            (kind, {key: dict(usage) for key, usage in book.items()})
            for kind, book in capacity.all_usage_tables()
            if book
        ],
        "generations": {name: capacity.generation(name) for name in ledger.flavors},
        "pods": dict(allocations.pods),
        "shares": {
            (key, *slot): _entry(entry)
            for key, allocation in allocations.by_workload.items()
            for slot, entry in allocation.entries.items()
        },
        "covered": dict(allocations.slot_of),
        "homeless": {domain: set(slots) for domain, slots in allocations.assumed._unplaced.items() if slots},
        "quota": ledger.quota.state(),
        "bound": {excess.payer.workload: excess for excess in ledger.bound.all()},
        "payers": list(ledger.bound.payers()),
    }


def _entry(entry: EntryUsage) -> dict[str, Any]:
    return asdict(entry)


def _facts(node: Node | None) -> Any:
    return None if node is None else (node.name, dict(node.labels), node.taints)


def _tree(tree: Tree) -> dict[Any, Any]:
    return {
        path: (
            tree.members(row),
            _facts(tree.matcher.node(row)),
            {
                name: (tree.free_at(row, column), int(tree.used(column)[row]) if column < len(tree._used) else 0)
                for column, name in enumerate(tree.columns.names)
            },
        )
        for path, row in tree.rows.slots.items()
    }
