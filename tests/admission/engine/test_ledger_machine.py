"""The ledger under any sequence of events: the audit always agrees, no node is ever over-booked, trials leave no trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    BoundPod,
    Counting,
    Flavor,
    Node,
    ObjectRemoved,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    PodSetAdmission,
    RemovedKind,
    TopologyRequest,
    Workload,
)
from tests.admission.engine.dump import dump
from tests.budgets import quick

BLOCK, RACK = "block", "rack"
NODES = [f"n{index}" for index in range(6)]
HOST = Flavor("host", {}, topology="default", levels=(BLOCK, RACK, HOSTNAME_LABEL))
POOL = Flavor("pool", {"pool": "a"}, topology="default", levels=(RACK, HOSTNAME_LABEL))
WIDE = Flavor("wide", {}, topology="default", levels=(BLOCK, RACK))

nodes = st.builds(
    lambda name, block, rack, pool, cpu, usable: Node(
        name,
        {BLOCK: block, RACK: rack, "pool": pool, HOSTNAME_LABEL: name},
        {"cpu": cpu, "gpu": 4, "pods": 5},
        usable=usable,
    ),
    st.sampled_from(NODES),
    st.sampled_from(["b1", "b2"]),
    st.sampled_from(["r1", "r2"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from([2000, 4000, 8000]),
    st.sampled_from([True, True, True, False]),
)
shapes = st.sampled_from([{"cpu": 1000}, {"cpu": 1500, "gpu": 1}, {"gpu": 3}, {"cpu": 3000}])
topologies = st.sampled_from(
    [
        TopologyRequest(required=RACK),
        TopologyRequest(preferred=RACK),
        TopologyRequest(unconstrained=True),
    ]
)
keys = st.sampled_from([f"ns/w{index}" for index in range(4)])


class LedgerMachine(RuleBasedStateMachine):
    """Nodes, strangers' pods and workloads with their pods come, go and change."""

    options = PlacementOptions()
    flavors: tuple[Flavor, ...] = (HOST, POOL)
    polite = (
        True  # nobody takes what was promised to an admitted workload, nodes do not shrink: nothing goes below zero
    )

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(self.options)
        self.serial = 0
        self.setting: tuple[Flavor, Iterator[None]] | None = None

    @initialize(some=st.lists(nodes, max_size=6))
    def begin(self, some: list[Node]) -> None:
        for flavor in self.flavors:
            self.ledger.apply(flavor)
        for node in some:
            self.set_node(node)

    # ---- what happens

    @rule(node=nodes)
    def set_node(self, node: Node) -> None:
        if self.polite:
            node = replace(node, allocatable={"cpu": 4000, "gpu": 4, "pods": 5})
        self.ledger.apply(node)

    @rule(name=st.sampled_from(NODES))
    def drop_node(self, name: str) -> None:
        book = self.ledger._capacity.nodes.get(name)
        if self.polite and book is not None and (book.foreign or self._pods_on(name)):
            return
        self.ledger.apply(ObjectRemoved(RemovedKind.NODE, name))

    @rule(name=st.sampled_from(NODES), shape=shapes, workload=st.none() | keys)
    def bind(self, name: str, shape: dict[str, int], workload: str | None) -> None:
        """A pod gets bound; one that declares itself part of a workload may be covered by its admission."""
        allocation = self.ledger._allocations.by_workload.get(workload or "")
        requests = allocation.workload.pod_sets[0].requests if allocation else shape
        if self.polite and not self._may_bind(name, workload, requests):
            return
        self.serial += 1
        self.ledger.apply(BoundPod(f"ns/p{self.serial}", name, requests, workload, "main" if self.serial % 2 else None))

    @precondition(lambda self: self.ledger._allocations.pods)
    @rule(data=st.data())
    def end_pod(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.ledger._allocations.pods)))
        self.ledger.apply(ObjectRemoved(RemovedKind.POD, key))

    @rule(key=keys, shape=shapes, topology=topologies, count=st.integers(1, 6), flavor=st.integers(0, 1))
    def admit(self, key: str, shape: dict[str, int], topology: TopologyRequest, count: int, flavor: int) -> None:
        name = self.flavors[flavor % len(self.flavors)].name
        pod_set = PodSet("main", count, shape, topology=topology)
        self.ledger.release(key)
        result = self.ledger.placement.place([PlacementRequest(pod_set, name, count)])
        if not result.fits:
            return
        assignment = result.assignments["main"]
        assert sum(domain.count for domain in assignment.domains) == count
        got = PodSetAdmission("main", dict.fromkeys(shape, name), shape, count, assignment)
        admission = Admission("cq", (got,))
        workload = Workload(key, key, "ns/lq", "cq", (pod_set,), admission=admission)
        assert self.ledger.placement.fits(workload, admission)
        self.ledger.charge(workload, admission)
        before = dump(self.ledger)
        self.ledger.apply(workload)
        assert dump(self.ledger) == before

    @rule(key=keys)
    def release(self, key: str) -> None:
        if (allocation := self.ledger._allocations.by_workload.get(key)) is not None:
            self.ledger.apply(replace(allocation.workload, admission=None))

    @rule(flavor=st.integers(0, 1), labels=st.sampled_from([{}, {"pool": "a"}, {"pool": "b"}]))
    def begin_to_set_a_flavor(self, flavor: int, labels: dict[str, str]) -> None:
        """Its new tree is built a node a step, while all else happens; the flavor in force stays until then."""
        new = replace(self.flavors[flavor % len(self.flavors)], node_labels=labels)
        self.setting = new, self.ledger.set_flavor(new)

    @precondition(lambda self: self.setting)
    @rule(steps=st.integers(1, 8))
    def go_on_setting_it(self, steps: int) -> None:
        if self.setting is None:
            return
        new, rest = self.setting
        if len(list(islice(rest, steps))) < steps:
            assert self.ledger.flavors[new.name] == new
            self.setting = None

    @rule(key=keys, node=nodes, shape=shapes)
    def try_and_take_back(self, key: str, node: Node, shape: dict[str, int]) -> None:
        """Many changes in nested trials, nothing kept; they overtake a flavor that is being set."""
        self.setting = None
        before = dump(self.ledger)
        with self.ledger.trial():
            self.set_node(node)
            with self.ledger.trial() as inner:
                self.ledger.release(key)
                self.ledger.apply(BoundPod("ns/trial", node.name, shape, key))
                self.admit(key, shape, TopologyRequest(preferred=RACK), 3, 0)
                inner.keep()
            self.ledger.apply(ObjectRemoved(RemovedKind.NODE, NODES[0]))
            self.ledger.apply(replace(self.flavors[0], node_labels={"pool": "a"}))
            self.ledger.apply(ObjectRemoved(RemovedKind.FLAVOR, self.flavors[-1].name))
            assert self.ledger.audit() == []
        assert dump(self.ledger) == before

    # ---- what always holds

    @invariant()
    def the_audit_agrees(self) -> None:
        assert self.ledger.audit() == []

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        if self.polite:
            for name, tree in self.ledger._capacity.trees.items():
                for path, row in tree.rows.slots.items():
                    for column, resource in enumerate(self.ledger._capacity.columns.names):
                        assert tree.free_at(row, column) >= 0, (name, path, resource)

    # ---- help

    def _pods_on(self, name: str) -> bool:
        return any(pod.node == name for pod in self.ledger._allocations.pods.values())

    def _may_bind(self, name: str, workload: str | None, requests: Mapping[str, int]) -> bool:
        """Whether the pod is part of an admission that counts it here, or takes only what is really left."""
        allocations, capacity = self.ledger._allocations, self.ledger._capacity
        book = capacity.nodes.get(name)
        if book is None or book.node is None:
            return False
        slot = allocations.slot_for(BoundPod("", name, requests, workload))
        entry = None if slot is None else allocations.entry_of(slot)
        if entry is not None and not entry.by_node and len(entry.covered) < entry.count:
            return True
        vector = capacity.columns.vector({**requests, "pods": 1})
        rows = [(tree, tree.row_of_node[name]) for tree in capacity.trees.values() if name in tree.row_of_node]
        return bool(rows) and all(
            tree.free_at(row, column) + self._assumed(name, column) >= amount
            for tree, row in rows
            for column, amount in vector
        )

    def _assumed(self, name: str, column: int) -> int:
        return sum(
            entry.assumed.get(name, 0) * amount
            for allocation in self.ledger._allocations.by_workload.values()
            for entry in allocation.entries.values()
            for at, amount in entry.vector
            if at == column
        )


class Rude(LedgerMachine):
    """Anything may happen to the nodes: only the books must stay right."""

    polite = False


class Wide(LedgerMachine):
    """The lowest level is a rack, nodes are counted one by one; a host flavor lies over the same nodes."""

    flavors = (WIDE, HOST)


class RudeWide(Rude):
    """The same without manners."""

    flavors = (WIDE, HOST)


class RudeDomains(Rude):
    """The lowest level is a rack and its sum is counted."""

    options = PlacementOptions(counting=Counting.DOMAINS)
    flavors = (WIDE, HOST)


class RudeApart(Rude):
    """Flavors do not see each other's usage."""

    options = PlacementOptions(overlapping_flavors=False)
    flavors = (WIDE, HOST)


MACHINES = [LedgerMachine, Rude, Wide, RudeWide, RudeDomains, RudeApart]


def _run(machine: Any, examples: int, steps: int) -> None:
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    case().runTest()


@pytest.mark.parametrize("machine", MACHINES)
def test_any_sequence_of_events(machine: Any) -> None:
    _run(machine, quick(12), 30)


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_any_long_sequence_of_events(machine: Any) -> None:
    _run(machine, 1000, 60)
