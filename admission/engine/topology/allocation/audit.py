"""Compares the charged usage with the usage recomputed from admissions and bound pods.

Called by Ledger.auditing, which runs the audit in parts. State may change between two parts, so a sum over several parts is
compared only for keys that were not charged meanwhile; every other check completes within one part. The node of an assumed
pod depends on history and cannot be recomputed, so the audit checks that no entry has more pods than it admits and that the
usage tables equal the sums of the entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from admission.engine.model import BoundPod
from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.capacity import Capacity, Spot, SpotKind, parts, usage_key
from admission.engine.topology.allocation.entries import Allocation, EntryUsage, held
from admission.engine.topology.usage import UsageTable, Vector, add_usage, times

PART: Final = 1000
"""The number of workloads or pods that one part checks, in a few milliseconds."""


def differences(allocations: Allocations, capacity: Capacity) -> Iterator[list[str]]:
    """Yields, part by part, messages for deviations of the charged usage from the admissions and bound pods."""
    yield from _wrong_usage(allocations, capacity)
    yield from _wrong_foreign(allocations, capacity)
    yield from _wrong_cover(allocations)
    yield from _wrong_slots(allocations, capacity)


def _wrong_usage(allocations: Allocations, capacity: Capacity) -> Iterator[list[str]]:
    before = list(capacity.all_usage_tables())  # keeps the tables alive, so that no new table gets one of their ids
    wanted: dict[int, UsageTable] = {id(table): {} for _, table in before}
    with capacity.touching() as touched:
        for keys in parts(list(allocations.by_workload), PART):
            for allocation in _there(allocations, keys):
                for entry in allocation.entries.values():
                    for spot, vector in _charged(allocations, capacity, entry):
                        add_usage(wanted.setdefault(id(capacity.usage_table(spot)), {}), usage_key(spot), vector)
            yield []
        still = {id(table) for _, table in capacity.all_usage_tables()}
        for kind, table in before:
            due = wanted[id(table)]
            for spots in parts(list(due.keys() | table.keys()), PART) if id(table) in still else ():
                wrong = [key for key in spots if due.get(key, {}) != table.get(key, {})]
                yield [
                    f"usage of {kind.value} {_named(key)} is {table.get(key, {})}, its workloads use {due.get(key, {})}"
                    for key in sorted(wrong, key=str)
                    if (id(table), key) not in touched.spots
                ]


def _named(key: object) -> str:
    return "/".join(key) if isinstance(key, tuple) else str(key)


def _there(allocations: Allocations, keys: Iterable[str]) -> Iterator[Allocation]:
    allocations_there = map(allocations.by_workload.get, keys)
    return (allocation for allocation in allocations_there if allocation is not None)


def _charged(allocations: Allocations, capacity: Capacity, entry: EntryUsage) -> Iterator[tuple[Spot, Vector]]:
    if not entry.by_node:
        yield entry.spot, times(entry.vector, entry.count)
        return
    for node, count in entry.assumed.items():
        yield Spot(SpotKind.NODE, entry.flavor, (node,)), times(entry.vector, count)
    for pod in (allocations.pods[key] for key in entry.covered):
        yield Spot(SpotKind.NODE, entry.flavor, (pod.node,)), capacity.columns.vector(held(pod))


def _wrong_foreign(allocations: Allocations, capacity: Capacity) -> Iterator[list[str]]:
    wanted: dict[str, dict[int, int]] = {}
    with capacity.touching() as touched:
        for keys in parts(list(allocations.pods), PART):
            for pod in (pod for key in keys if (pod := allocations.pods.get(key)) is not None):
                slot = allocations.slot_of.get(pod.key)
                entry = None if slot is None else allocations.entry_of(slot)
                for column, amount in _as_foreign(allocations, capacity, pod, entry):
                    charged = wanted.setdefault(pod.node, {})
                    charged[column] = charged.get(column, 0) + amount
            yield []
        for names in parts(sorted(wanted.keys() | capacity.nodes.keys()), PART):
            wrong = []
            for name in names:
                record = capacity.nodes.get(name)
                have = record.foreign if record is not None else {}
                want = {column: amount for column, amount in wanted.get(name, {}).items() if amount}
                if want != have and name not in touched.nodes:
                    wrong.append(f"foreign pods on node {name} take {have} by its record, but should be {want}")
            yield wrong


def _as_foreign(allocations: Allocations, capacity: Capacity, pod: BoundPod, entry: EntryUsage | None) -> Vector:
    if entry is None:
        return capacity.columns.vector(held(pod))
    return () if entry.by_node else allocations.surplus(entry, pod)


def _wrong_cover(allocations: Allocations) -> Iterator[list[str]]:
    for keys in parts(list(allocations.by_workload), PART):
        yield [text for allocation in _there(allocations, keys) for text in _wrongly_covered(allocations, allocation)]
    for pods in parts(list(allocations.pods), PART):
        wrong = []
        for pod in (pod for key in pods if (pod := allocations.pods.get(key)) is not None):
            wanted = None if pod.key in allocations.slot_of else allocations.slot_for(pod)
            share_there = None if wanted is None else allocations.entry_of(wanted)
            if share_there is not None and len(share_there.covered) < share_there.count:
                wrong.append(f"pod {pod.key} is foreign though its workload's admission has capacity for it")
        yield wrong


def _wrongly_covered(allocations: Allocations, allocation: Allocation) -> Iterator[str]:
    key = allocation.workload.key
    for (pod_set, values), entry in allocation.entries.items():
        where = f"workload {key}, pod set {pod_set}, domain {'/'.join(values)}"
        if len(entry.covered) > entry.count or entry.unplaced < 0:
            yield f"{where}: more pods than its {entry.count}"
        if entry.excess and len(entry.covered) < entry.count:
            yield f"{where}: pods in excess while there is capacity"
        wrong = [pod for pod in entry.covered if allocations.slot_of.get(pod) != (key, pod_set, values)]
        yield from (f"{where}: pod {pod} is not covered here" for pod in wrong)


def _wrong_slots(allocations: Allocations, capacity: Capacity) -> Iterator[list[str]]:
    for pods in parts(list(allocations.slot_of), PART):
        wrong = []
        for pod, slot in ((pod, slot) for pod in pods if (slot := allocations.slot_of.get(pod)) is not None):
            entry_of = allocations.entry_of(slot)
            if entry_of is None or pod not in entry_of.covered:
                wrong.append(f"pod {pod} is covered by an admission that does not count it")
            elif capacity.domain_of(allocations.pods[pod].node, entry_of.levels) != entry_of.values:
                wrong.append(f"pod {pod} is covered outside its domain")
        yield wrong
