"""Any history of queues, cohorts, nodes and workloads, classical and fair: what must hold after every step of it.

- conservation: the usage of a queue is the sum over what is admitted there, and that of a cohort follows from it by the
  formulas of the specification, at every node of the tree;
- no cycle over-books a queue, a cohort or a node, nor makes worse what an edit has over-booked;
- what is tried and taken back leaves the ledger bit-equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from admission.engine.cycle.cycle import run_cycle
from admission.engine.decision import Admit, Preempt
from admission.engine.model import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    FlavorResource,
    ObjectRemoved,
    PreemptionPolicy,
    QueueingStrategy,
    Quota,
    RemovedKind,
    ResourceGroup,
    TopologyRequest,
)
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.quota import cohorts
from admission.engine.quota.fairness import FairSharingRules
from tests.admission.engine.builders import BEST, CPU, RACK, STRICT, Cluster, host, racks, workload
from tests.admission.engine.dump import dump
from tests.admission.engine.quota.inspection import cohort_usage, cyclic_cohorts
from tests.admission.engine.quota.test_quota import Formulas
from tests.budgets import quick

CPUS: FlavorResource = ("tas", "cpu")
QUEUES = ("qa", "qb", "qc", "qd")
COHORTS = ("left", "right", "root")
NODES = [(f"{rack}{n}", rack) for rack in ("x", "y") for n in range(2)]

limits = st.none() | st.integers(0, 6)
quotas = st.builds(
    lambda nominal, borrow, lend: Quota(nominal * CPU, *(None if n is None else n * CPU for n in (borrow, lend))),
    st.integers(0, 6),
    limits,
    limits,
)
policies = st.builds(
    PreemptionPolicy, st.sampled_from(["Never", "LowerPriority", "Any"]), st.sampled_from(["Never", "LowerPriority"])
)
specs = st.tuples(st.sampled_from([None, *COHORTS]), quotas, st.sampled_from([STRICT, BEST]), policies, st.booleans())
Spec = tuple[str | None, Quota, QueueingStrategy, PreemptionPolicy, bool]


def made(name: str, spec: Spec) -> ClusterQueue:
    cohort, quota, strategy, policy, backfill = spec
    group = ResourceGroup(("cpu",), (FlavorQuotas("tas", {"cpu": quota}),))
    return ClusterQueue(name, (group,), cohort, strategy, preemption=policy, reserves_starts=backfill)


class History(RuleBasedStateMachine):
    """Queues and cohorts change, nodes come and go, workloads come, are decided on, leave and end."""

    sharing: FairSharingRules | None = None

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(racks(), *(host(name, rack, 4) for name, rack in NODES))
        self.ledger = self.cluster.ledger
        self.leaving: set[str] = set()
        self.now = 0

    @initialize(chosen=st.tuples(*(specs for _ in QUEUES)))
    def begin(self, chosen: tuple[Spec, ...]) -> None:
        self.cluster.tell(Cohort("left", "root"), Cohort("right", "root"))
        self.cluster.tell(*(made(name, spec) for name, spec in zip(QUEUES, chosen, strict=True)))

    # ---- what happens

    @rule(
        to=st.sampled_from(QUEUES),
        pods=st.integers(1, 5),
        cpus=st.integers(1, 2),
        priority=st.integers(0, 2),
        racked=st.booleans(),
        fewer=st.booleans(),
        gated=st.booleans(),
        limit=st.sampled_from([None, 5.0, 30.0]),
    )
    def submit(
        self, to: str, pods: int, cpus: int, priority: int, racked: bool, fewer: bool, gated: bool, limit: float | None
    ) -> None:
        self.now += 1
        topology = TopologyRequest(required=RACK) if racked else TopologyRequest(unconstrained=True)
        new = workload(f"w{self.now:03}", pods, cpus, to=to, priority=priority, queued=self.now, topology=topology)
        if fewer:
            new = replace(new, pod_sets=(replace(new.pod_sets[0], min_count=1),))
        self.cluster.tell(replace(new, gated=gated, time_limit=limit))

    @rule(budget=st.sampled_from([1, 3, 100]))
    def cycle(self, budget: int) -> None:
        self.now += 1
        before, short = dump(self.ledger), dict(self._room())
        preemptor = Preemptor(self.ledger, self.now, self.sharing)
        fair = self.sharing is not None
        report = run_cycle(self.ledger, self.cluster.queues, self.now, budget, preemptor, fair=fair)
        if not any(isinstance(decision, Admit) for decision in report.decisions):
            assert dump(self.ledger) == before, "nobody was admitted, and the ledger has changed"
        for where, free in self._room():
            assert free >= min(0, short.get(where, 0)), f"over-booked: {where}"
        for decision in report.decisions:
            if isinstance(decision, Preempt):
                gated = self.cluster.queues.workload(decision.workload)
                assert gated is not None
                assert not gated.gated
                self._evict({victim.workload for victim in decision.victims})

    @precondition(lambda self: self.leaving)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """An evicted workload has stopped, and waits again."""
        key = data.draw(st.sampled_from(sorted(self.leaving)))
        charged = self.ledger.workload(key)
        self._end(key)
        if charged is not None:
            self.cluster.tell(replace(charged, admission=None, evicted=False, reserved=None, admitted=None))

    @precondition(lambda self: self.ledger.admissions)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self._end(data.draw(st.sampled_from(sorted(self.ledger.admissions))))

    @rule(name=st.sampled_from(QUEUES), spec=specs)
    def edit_queue(self, name: str, spec: Spec) -> None:
        self.cluster.tell(made(name, spec))

    @rule(name=st.sampled_from(COHORTS), parent=st.sampled_from([None, *COHORTS]), quota=quotas)
    def edit_cohort(self, name: str, parent: str | None, quota: Quota) -> None:
        """Circles among them."""
        self.cluster.tell(Cohort(name, parent, {CPUS: quota}))
        self.cluster.queues.lines.requeue(QUEUES)

    @rule(which=st.sampled_from(NODES), state=st.sampled_from(["up", "down", "gone"]))
    def change_node(self, which: tuple[str, str], state: str) -> None:
        name, rack = which
        if state == "gone":
            self.ledger.apply(ObjectRemoved(RemovedKind.NODE, name))
        else:
            self.cluster.tell(replace(host(name, rack, 4), usable=state == "up"))
        self.cluster.queues.lines.requeue(QUEUES)

    @rule(name=st.sampled_from(QUEUES), spec=specs, parent=st.sampled_from([None, *COHORTS]))
    def try_and_take_back(self, name: str, spec: Spec, parent: str | None) -> None:
        before = dump(self.ledger)
        with self.ledger.trial():
            self.ledger.apply(made(name, spec))
            self.ledger.apply(Cohort("left", parent))
            for key in sorted(self.ledger.admissions):
                self.ledger.release(key)
            self.ledger.apply(ObjectRemoved(RemovedKind.NODE, NODES[0][0]))
            assert self.ledger.audit() == []
        assert dump(self.ledger) == before

    # ---- what always holds

    @invariant()
    def what_is_used_is_the_sum_over_the_admitted_at_every_node(self) -> None:
        assert self.ledger.audit() == []
        used = dict.fromkeys(QUEUES, 0)
        for admission in self.ledger.admissions.values():
            used[admission.cluster_queue] += admission.usage().get(CPUS, 0)
        for name, amount in used.items():
            assert self.ledger.quota.usage(name).get(CPUS, 0) == amount
        formulas = Formulas(self._declared(), used)
        for name in COHORTS:
            if self.ledger.quota.cohort(name) is not None and not self._circles(name):
                assert cohort_usage(self.ledger.quota, name).get(CPUS, 0) == formulas.usage(name), name

    @invariant()
    def who_is_admitted_does_not_wait(self) -> None:
        assert not any(key in self.cluster.queues for key in self.ledger.admissions)

    # ---- help

    def _evict(self, keys: set[str]) -> None:
        for key in sorted(keys):
            charged = self.ledger.workload(key)
            assert charged is not None
            self.ledger.apply(replace(charged, evicted=True))
        self.leaving |= keys

    def _end(self, key: str) -> None:
        self.leaving.discard(key)
        self.cluster.finish(key)

    def _room(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """What is free for each queue, borrowing included, and on each node; below 0: over-booked."""
        for name in QUEUES:
            node = self.ledger.quota.node(name)
            if node is not None:
                yield ("queue", name), cohorts.available(node, CPUS)
        for flavor, tree in self.ledger._capacity.trees.items():
            for path, row in tree.rows.slots.items():
                for column, resource in enumerate(self.ledger._capacity.columns.names):
                    yield ("node", flavor, *path, resource), tree.free_at(row, column)

    def _declared(self) -> dict[str, tuple[str | None, Quota]]:
        nodes: dict[str, tuple[str | None, Quota]] = {name: (None, Quota(0)) for name in COHORTS}
        for spec in self.ledger.quota.specs():
            if isinstance(spec, Cohort):
                nodes[spec.name] = spec.parent, spec.quotas.get(CPUS, Quota(0))
            else:
                nodes[spec.name] = spec.cohort, spec.groups[0].flavors[0].quotas["cpu"]
        return nodes

    def _circles(self, name: str) -> bool:
        """Whether what is below it, or above, runs in a circle: there no usage is passed on."""
        return bool(cyclic_cohorts(self.ledger.quota))


class Fair(History):
    """The same by fair shares."""

    sharing = FairSharingRules()


MACHINES = [History, Fair]


def _run(machine: Any, examples: int, steps: int) -> None:
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    case().runTest()


@pytest.mark.parametrize("machine", MACHINES)
def test_any_history(machine: Any) -> None:
    _run(machine, quick(8), 30)


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_any_long_history(machine: Any) -> None:
    _run(machine, 600, 60)
