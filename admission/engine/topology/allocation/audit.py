"""What the allocations should have charged, computed from admissions and pods, compared with what is charged.

Called by Ledger.audit. The node of an assumed pod depends on history and cannot be recomputed. What can be checked:
every pod of an entry is somewhere, and the usage tables hold exactly what the entries say.
"""

from __future__ import annotations

from collections.abc import Iterator

from admission.engine.model import BoundPod
from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.capacity import Capacity, Spot, SpotKind, usage_key
from admission.engine.topology.allocation.entries import EntryUsage, held
from admission.engine.topology.usage import UsageTable, Vector, add_usage, times


def differences(allocations: Allocations, capacity: Capacity) -> Iterator[str]:
    """Returns what does not agree with the admissions and pods."""
    yield from _wrong_usage(allocations, capacity)
    yield from _wrong_foreign(allocations, capacity)
    yield from _wrong_cover(allocations)
    yield from _wrong_slots(allocations, capacity)


def _wrong_usage(allocations: Allocations, capacity: Capacity) -> Iterator[str]:
    wanted: dict[int, UsageTable] = {}  # by the identity of the usage table
    for allocation in allocations.by_workload.values():
        for entry in allocation.entries.values():
            for spot, vector in _charged(allocations, capacity, entry):
                add_usage(wanted.setdefault(id(capacity.usage_table(spot)), {}), usage_key(spot), vector)
    for kind, table in capacity.all_usage_tables():
        due = wanted.get(id(table), {})
        wrong = [key for key in due.keys() | table.keys() if due.get(key, {}) != table.get(key, {})]
        for key in sorted(wrong, key=str):
            where = "/".join(key) if isinstance(key, tuple) else str(key)
            yield f"usage of {kind.value} {where} is {table.get(key, {})}, its workloads use {due.get(key, {})}"


def _charged(allocations: Allocations, capacity: Capacity, entry: EntryUsage) -> Iterator[tuple[Spot, Vector]]:
    if not entry.by_node:
        yield entry.spot, times(entry.vector, entry.count)
        return
    for node, count in entry.assumed.items():
        yield Spot(SpotKind.NODE, entry.flavor, (node,)), times(entry.vector, count)
    for pod in (allocations.pods[key] for key in entry.covered):
        yield Spot(SpotKind.NODE, entry.flavor, (pod.node,)), capacity.columns.vector(held(pod))


def _wrong_foreign(allocations: Allocations, capacity: Capacity) -> Iterator[str]:
    wanted: dict[str, dict[int, int]] = {}
    for pod in allocations.pods.values():
        slot = allocations.slot_of.get(pod.key)
        entry = None if slot is None else allocations.entry_of(slot)
        for column, amount in _as_foreign(allocations, capacity, pod, entry):
            charged = wanted.setdefault(pod.node, {})
            charged[column] = charged.get(column, 0) + amount
    have = {name: record.foreign for name, record in capacity.nodes.items() if record.foreign}
    for name in sorted(wanted.keys() | have.keys()):
        want = {column: amount for column, amount in wanted.get(name, {}).items() if amount}
        if want != have.get(name, {}):
            yield f"foreign pods on node {name} take {have.get(name, {})} by its record, but should be {want}"


def _as_foreign(allocations: Allocations, capacity: Capacity, pod: BoundPod, entry: EntryUsage | None) -> Vector:
    if entry is None:
        return capacity.columns.vector(held(pod))
    return () if entry.by_node else allocations.surplus(entry, pod)


def _wrong_cover(allocations: Allocations) -> Iterator[str]:
    for key, allocation in allocations.by_workload.items():
        for (pod_set, values), entry in allocation.entries.items():
            where = f"workload {key}, pod set {pod_set}, domain {'/'.join(values)}"
            if len(entry.covered) > entry.count or entry.unplaced < 0:
                yield f"{where}: more pods than its {entry.count}"
            if entry.excess and len(entry.covered) < entry.count:
                yield f"{where}: pods in excess while there is capacity"
            wrong = [pod for pod in entry.covered if allocations.slot_of.get(pod) != (key, pod_set, values)]
            yield from (f"{where}: pod {pod} is not covered here" for pod in wrong)
    for pod in allocations.pods.values():
        wanted = None if pod.key in allocations.slot_of else allocations.slot_for(pod)
        share_there = None if wanted is None else allocations.entry_of(wanted)
        if share_there is not None and len(share_there.covered) < share_there.count:
            yield f"pod {pod.key} is foreign though its workload's admission has capacity for it"


def _wrong_slots(allocations: Allocations, capacity: Capacity) -> Iterator[str]:
    for pod, slot in allocations.slot_of.items():
        entry_of = allocations.entry_of(slot)
        if entry_of is None or pod not in entry_of.covered:
            yield f"pod {pod} is covered by an admission that does not count it"
        elif capacity.domain_of(allocations.pods[pod].node, entry_of.levels) != entry_of.values:
            yield f"pod {pod} is covered outside its domain"
