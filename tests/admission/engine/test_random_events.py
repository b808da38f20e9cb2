"""Random events through queues, ledger and cycle, against a model that keeps no sums."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from admission.engine.decision import Admit, Decision, Evict, Preempt
from admission.engine.model import (
    BoundPod,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorQuotas,
    Gang,
    ObjectRemoved,
    PlacementOptions,
    PreemptionPolicy,
    Profile,
    QueueingStrategy,
    Quota,
    RemovedKind,
    ResourceGroup,
    StopPolicy,
    TopologyRequest,
    Workload,
)
from admission.engine.quota.fairness import FairSharingRules
from admission.world.world import World
from tests.admission.engine.builders import CPU, HOST, RACK, host, racks
from tests.admission.engine.builders import workload as made_workload
from tests.admission.engine.recomputed import FLAVORS, Model, hosts
from tests.budgets import quick

QUEUES, COHORTS, RACKS = ("qa", "qb", "qc", "qd"), ("left", "right", "root"), ("r0", "r1", "r2")
NODES = tuple(f"n{number}" for number in range(6))
LENGTH = 500
"""Events of one history."""
MOST_PENDING = 20


class EventHistory:
    """One cluster: whatever happens is told to the engine and to the model, and the two are compared."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        profile = self.dice.choice(list(Profile))
        self.world = World(PlacementOptions(profile=profile), now=1000.0)
        self.world.sharing = FairSharingRules() if self.dice.random() < 0.5 else None
        self.model = Model()
        self.leaving: set[str] = set()
        self.serial = 0
        for flavor in (racks("placed"), Flavor("plain")):
            self.world.apply(flavor)
        self._cohort("root", None)
        self._cohort("left", "root")
        self._cohort("right", self.dice.choice(("root", None)))
        for name in QUEUES:
            self._edit_queue(name)
        for name in NODES:
            self._set_node(name)

    def run(self, events: int) -> None:
        """So many events, the engine compared with the model after each."""
        for _ in range(events):
            self.world.now += self.dice.choice((0, 1, 1, 60))
            chosen = self.dice.choices(HAPPENS, WEIGHTS)[0]
            chosen(self)
            self.compare()

    def drain(self) -> None:
        """Once there is enough of everything, each workload that an empty cluster can hold starts: none is forgotten."""
        for pod in list(self.model.pods):
            self._end_pod(pod)
        for queue in list(self.model.queues.values()):
            flavors = tuple(FlavorQuotas(flavor, {"cpu": Quota(12 * CPU)}) for flavor in FLAVORS)
            group = ResourceGroup(("cpu",), flavors)
            self._tell_queue(replace(queue, groups=(group,), stop=StopPolicy.NONE, cohort=None))
        for name in NODES:
            self._tell_node(name, usable=True, rack=RACKS[NODES.index(name) % len(RACKS)], cpus=4)
        for key, one in list(self.model.workloads.items()):
            if one.gang is not None or not _possible(one):
                self._finish(key)
            elif one.blocked is not None:
                self._tell(replace(one, blocked=None))
        for _ in range(2 * MOST_PENDING):
            self.world.now += 3600
            self.cycle()
            self.compare()
            while self.leaving:
                self.leave()
            for key in list(self.model.admitted):
                self._finish(key)
        assert not self.model.workloads

    # ---- the engine against the model

    def compare(self) -> None:
        ledger, model = self.world.ledger, self.model
        assert ledger.admissions == model.admitted
        waiting = {one.key for one in self.world.queues.workloads()}
        assert waiting == model.workloads.keys() - model.admitted.keys(), "a workload is lost, or is there twice"
        for flavor in FLAVORS:
            for name, used in model.used(flavor).items():
                assert ledger.quota.usage(name).get((flavor, "cpu"), 0) == used, (name, flavor)
        tree, columns = ledger.capacity.trees["placed"], ledger.capacity.columns.names
        assert set(tree.row_of_node) == {name for name, node in model.nodes.items() if node.usable}
        taken = model.on_nodes()
        for name, row in tree.row_of_node.items():
            for column, resource in enumerate(columns):
                free = model.nodes[name].allocatable.get(resource, 0) - taken[name][resource]
                assert tree.free_at(row, column) == free, (name, resource)

    # ---- what happens

    def submit(self) -> None:
        if len(self.model.workloads) - len(self.model.admitted) >= MOST_PENDING:
            return self.finish()
        first = self._new()
        if self.dice.random() < 0.15:
            other = self._new()
            together = (first.key, other.key)
            for one in (first, other):
                plain = replace(one.pod_sets[0], min_count=None)
                self._tell(replace(one, pod_sets=(plain,), gang=Gang(f"g-{one.key}", together)))
            return None
        return self._tell(first)

    def _new(self) -> Workload:
        self.serial += 1
        dice = self.dice
        topology = dice.choice(
            (
                None,
                None,
                TopologyRequest(required=RACK),
                TopologyRequest(required=HOST),
                TopologyRequest(preferred=RACK),
            )
        )
        made = made_workload(
            f"w{self.serial:04}",
            dice.randint(1, 5),
            dice.choice((1, 1, 2)),
            to=dice.choice(QUEUES),
            topology=topology,
            queued=self.world.now,
            priority=dice.choice((0, 0, 1, 2)),
        )
        if dice.random() < 0.2 and (count := made.pod_sets[0].count) > 1:
            made = replace(made, pod_sets=(replace(made.pod_sets[0], min_count=dice.randint(1, count - 1)),))
        return replace(made, gated=dice.random() < 0.05, time_limit=dice.choice((None, None, 30.0, 600.0)))

    def _tell(self, workload: Workload) -> None:
        self.model.workloads[workload.key] = workload
        self.world.apply(replace(workload, admission=self.model.admitted.get(workload.key)))

    def cycle(self) -> None:
        """A cycle never over-books, nor makes worse what an edit or a foreign pod has over-booked."""
        before = self.model.free()
        self.world.budget = self.dice.choice((1, 3, 100, 100))
        report = self.world.cycle()
        assert not report.undecided
        pending = self.model.workloads.keys() - self.model.admitted.keys()
        started = {one.workload for one in report.decisions if isinstance(one, Admit)} & pending
        for key in started:
            gang = self.model.workloads[key].gang
            if gang is not None and not gang.started:
                rest = set(gang.together) & pending
                assert rest <= started, f"{key} started without the rest of its group"
        for decision in report.decisions:
            self._decided(decision)
        for where, free in self.model.free().items():
            assert free >= min(0, before[where]), f"over-booked: {where}"
        for key in sorted((started & self.model.admitted.keys()) - self.leaving):
            if self.dice.random() < 0.05:
                self._write_fails(key)
            elif self.dice.random() < 0.7:
                self._written(key)

    def _decided(self, decision: Decision) -> None:
        match decision:
            case Admit(workload=key, admission=admission):
                before = self.model.admitted.get(key)
                assert not list(self.model.wrong(key, admission, before)), key
                self.model.admitted[key] = admission
            case Preempt(workload=key, victims=victims):
                assert not self.model.workloads[key].gated
                assert key not in self.model.admitted
                for victim in victims:
                    self._evict(victim.workload)
            case Evict(workload=key):
                self._evict(key)

    def _written(self, key: str) -> None:
        one = self.model.workloads[key]
        gang = None if one.gang is None else replace(one.gang, started=True)
        self._tell(replace(one, reserved=self.world.now, admitted=self.world.now, gang=gang))

    def _write_fails(self, key: str) -> None:
        del self.model.admitted[key]
        self.world.apply(self.model.workloads[key])

    def _evict(self, key: str) -> None:
        assert key in self.model.admitted
        self.leaving.add(key)
        self._tell(replace(self.model.workloads[key], evicted=True))

    def evict(self) -> None:
        if key := self._one(set(self.model.admitted) - self.leaving):
            self._evict(key)

    def cancel(self) -> None:
        """An eviction is cancelled."""
        if key := self._one(self.leaving):
            self.leaving.discard(key)
            self._tell(replace(self.model.workloads[key], evicted=False))

    def leave(self) -> None:
        """An evicted workload has stopped and waits again; its pods may end later."""
        if not (key := self._one(self.leaving)):
            return
        self.leaving.discard(key)
        del self.model.admitted[key]
        one = self.model.workloads[key]
        gang = None if one.gang is None else replace(one.gang, started=False)
        later = self.world.now + 30 if self.dice.random() < 0.2 else 0.0
        self._tell(replace(one, evicted=False, reserved=None, admitted=None, gang=gang, not_before=later))
        if self.dice.random() < 0.8:
            self._end_pods(key)

    def finish(self) -> None:
        """A workload has ended, or was deleted while it waited."""
        key = self._one(self.model.admitted if self.dice.random() < 0.8 else self.model.workloads)
        if key:
            self._finish(key)

    def _finish(self, key: str) -> None:
        self.leaving.discard(key)
        self.model.admitted.pop(key, None)
        self.world.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
        self._end_pods(key)
        del self.model.workloads[key]

    def change_priority(self) -> None:
        if key := self._one(self.model.workloads):
            self._tell(replace(self.model.workloads[key], priority=self.dice.choice((0, 1, 2))))

    def hold(self) -> None:
        """A pending workload is held back, or no longer."""
        if key := self._one(self.model.workloads.keys() - self.model.admitted.keys()):
            one = self.model.workloads[key]
            self._tell(replace(one, blocked=("Suspended", "held") if one.blocked is None else None))

    def bind(self) -> None:
        """A pod of an admitted workload is bound where it was placed."""
        key = self._one(self.model.admitted)
        if not key:
            return
        bound = [pod.node for pod in self.model.pods.values() if pod.workload == key]
        for node, count in hosts(self.model.admitted[key]):
            if bound.count(node) < count:
                self._bind(node, self.model.workloads[key].pod_sets[0].requests["cpu"], key)
                return

    def bind_foreign(self) -> None:
        """kube-scheduler knows nothing of what is promised: it may take that."""
        taken = self.model.on_nodes()
        node = self.dice.choice(NODES)
        if node in self.model.nodes and (self.dice.random() < 0.1 or taken[node]["cpu"] < 4 * CPU):
            self._bind(node, CPU, None)

    def _bind(self, node: str, cpu: int, workload: str | None) -> None:
        self.serial += 1
        pod = BoundPod(f"p{self.serial}", node, {"cpu": cpu}, workload, "main" if workload else None)
        self.model.pods[pod.key] = pod
        self.world.apply(pod)

    def end_pod(self) -> None:
        if key := self._one(self.model.pods):
            self._end_pod(key)

    def _end_pods(self, workload: str) -> None:
        for key in [pod.key for pod in self.model.pods.values() if pod.workload == workload]:
            self._end_pod(key)

    def _end_pod(self, key: str) -> None:
        del self.model.pods[key]
        self.world.apply(ObjectRemoved(RemovedKind.POD, key))

    def change_node(self) -> None:
        """A node goes, fails, comes back, changes its size, or is moved to another rack under its pods."""
        name = self.dice.choice(NODES)
        if self.dice.random() < 0.15:
            self.model.nodes.pop(name, None)
            self.world.apply(ObjectRemoved(RemovedKind.NODE, name))
        else:
            self._set_node(name)

    def fail_node(self) -> None:
        """The workloads on it get another node in the next cycle, or are evicted."""
        name = self._one(self.model.nodes)
        if not name:
            return
        self._tell_node(name, usable=False)
        for key, admission in self.model.admitted.items():
            if key not in self.leaving and name in dict(hosts(admission)):
                self.world.failed[key] = (name,)

    def _set_node(self, name: str) -> None:
        self._tell_node(name, usable=self.dice.random() < 0.85)

    def _tell_node(self, name: str, *, usable: bool, rack: str = "", cpus: int = 0) -> None:
        usual = RACKS[NODES.index(name) % len(RACKS)]
        rack = rack or (self.dice.choice(RACKS) if self.dice.random() < 0.2 else usual)
        node = replace(host(name, rack, cpus or self.dice.choice((3, 4, 4)), "placed"), usable=usable)
        node = replace(node, allocatable={**node.allocatable, "pods": 5})
        self.model.nodes[name] = node
        self.world.apply(node)

    def edit_queue(self) -> None:
        self._edit_queue(self.dice.choice(QUEUES))

    def _edit_queue(self, name: str) -> None:
        dice = self.dice
        flavors = dice.choice((FLAVORS, FLAVORS, FLAVORS[:1]))
        group = ResourceGroup(("cpu",), tuple(FlavorQuotas(flavor, {"cpu": self._quota()}) for flavor in flavors))
        policy = PreemptionPolicy(
            dice.choice(("Never", "LowerPriority", "Any")),
            dice.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
        )
        known = self.model.queues.get(name)
        cohort = dice.choice((None, "left", "left", "right", "root")) if known is None else known.cohort
        queue = ClusterQueue(
            name,
            (group,),
            cohort,
            dice.choice(list(QueueingStrategy)),
            dice.choice((StopPolicy.NONE,) * 6 + (StopPolicy.HOLD,)),
            preemption=policy,
            weight_milli=dice.choice((0, 500, 1000, 1000)),
            reserves_starts=dice.random() < 0.2,
        )
        self._tell_queue(queue)

    def _tell_queue(self, queue: ClusterQueue) -> None:
        self.model.queues[queue.name] = queue
        self.world.apply(queue)

    def edit_cohort(self) -> None:
        name = self.dice.choice(COHORTS)
        self._cohort(name, self.model.cohorts[name].parent)

    def _cohort(self, name: str, parent: str | None) -> None:
        quotas = {(flavor, "cpu"): self._quota() for flavor in FLAVORS if self.dice.random() < 0.4}
        self.model.cohorts[name] = Cohort(name, parent, quotas)
        self.world.apply(self.model.cohorts[name])

    def _quota(self) -> Quota:
        nominal = self.dice.randint(0, 6) * CPU
        limits = [self.dice.choice((None, None, None, 0, 2 * CPU)) for _ in range(2)]
        return Quota(nominal, *limits)

    def _one(self, of: object) -> str:
        keys = sorted(of)  # type: ignore[call-overload]
        return self.dice.choice(keys) if keys else ""


HAPPENS: tuple[Callable[[EventHistory], None], ...]
HAPPENS, WEIGHTS = zip(
    (EventHistory.submit, 20),
    (EventHistory.cycle, 15),
    (EventHistory.finish, 9),
    (EventHistory.leave, 12),
    (EventHistory.evict, 1),
    (EventHistory.cancel, 1),
    (EventHistory.change_priority, 3),
    (EventHistory.hold, 2),
    (EventHistory.bind, 12),
    (EventHistory.bind_foreign, 2),
    (EventHistory.end_pod, 4),
    (EventHistory.change_node, 3),
    (EventHistory.fail_node, 1),
    (EventHistory.edit_queue, 2),
    (EventHistory.edit_cohort, 1),
    strict=True,
)


def _possible(workload: Workload) -> bool:
    """Whether an empty cluster of two hosts a rack, with 4 CPUs each, holds it."""
    (pod_set,) = workload.pod_sets
    pods = pod_set.min_count or pod_set.count
    a_host = 4 * CPU // pod_set.requests["cpu"]
    most = {HOST: a_host, RACK: 2 * a_host}.get(pod_set.topology.required or "" if pod_set.topology else "", pods)
    return pods <= most


def play(seeds: range) -> None:
    for seed in seeds:
        try:
            history = EventHistory(seed)
            history.run(LENGTH)
            history.drain()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("part", range(4))
def test_the_engine_agrees_with_the_recomputation_over_10_000_events(part: int) -> None:
    """In `make test-fast` the first histories of each part."""
    play(range(5 * part, 5 * part + quick(5)))


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_the_engine_agrees_with_the_recomputation_over_a_million_events(part: int) -> None:
    play(range(200 * part, 200 * part + 200))


@pytest.mark.parametrize("seed", [138, 225])
def test_a_gang_starts_from_a_queue_that_was_requeued_in_the_same_cycle(seed: int) -> None:
    """Its group was charged, the cycle raised and told no admission: what was charged was lost."""
    play(range(seed, seed + 1))
