"""Short ways to make the engine's inputs for tests: queues, flavors, nodes, workloads, and a cluster that runs cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from admission.engine.cycle.cycle import CycleReport, run_cycle
from admission.engine.cycle.feature import CycleContext
from admission.engine.decision import Admit, Wait
from admission.engine.features import features_of
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    ClusterQueue,
    Event,
    Flavor,
    FlavorQuotas,
    Node,
    PodSet,
    QueueingStrategy,
    Quota,
    ResourceGroup,
    TopologyRequest,
    Workload,
)
from admission.engine.preemption.projected_quota import reclaimable_beside
from admission.engine.queue.queues import PendingQueues

STRICT, BEST = QueueingStrategy.STRICT_FIFO, QueueingStrategy.BEST_EFFORT_FIFO
RACK, HOST = "rack", "kubernetes.io/hostname"
CPU = 1000


def group(quotas: Mapping[str, Mapping[str, int | Quota]]) -> ResourceGroup:
    """A resource group from flavor to resource to quota (cpu in milli-units)."""
    made = tuple(
        FlavorQuotas(flavor, {name: q if isinstance(q, Quota) else Quota(q) for name, q in of.items()})
        for flavor, of in quotas.items()
    )
    return ResourceGroup(tuple(made[0].quotas), made)


def queue(
    name: str = "q", *, strategy: QueueingStrategy = BEST, cohort: str | None = None, **flavors: int | Quota
) -> ClusterQueue:
    """A queue with cpu quota (whole cpus, or a Quota in milli-units) of the named flavors."""
    quotas = {f: {"cpu": q if isinstance(q, Quota) else q * CPU} for f, q in flavors.items()}
    return ClusterQueue(name, (group(quotas),) if quotas else (), cohort, strategy)


def racks(flavor: str = "tas", *, topology: str = "default") -> Flavor:
    """A flavor of racks of hosts; its nodes carry the label pool=FLAVOR."""
    return Flavor(flavor, {"pool": flavor}, topology=topology, levels=(RACK, HOST))


def host(name: str, rack: str, cpus: int, flavor: str = "tas") -> Node:
    """A node of such a flavor."""
    labels = {"pool": flavor, RACK: rack, HOST: name}
    return Node(name, labels, {"cpu": cpus * CPU, "pods": 110})


def workload(
    key: str,
    pods: int = 1,
    cpus: int = 1,
    *,
    to: str = "q",
    topology: TopologyRequest | None = None,
    queued: float = 0.0,
    priority: int = 0,
) -> Workload:
    """A workload of one pod set `main`."""
    pod_sets = (PodSet("main", pods, {"cpu": cpus * CPU}, topology=topology),)
    return Workload(key, f"uid-{key}", f"ns/{to}", to, pod_sets, priority=priority, queued=queued)


class Cluster:
    """A ledger with its queues, told of everything at once."""

    def __init__(self, *events: Event) -> None:
        self.ledger, self.queues = Ledger(), PendingQueues()
        self.tell(*events)

    def tell(self, *events: Event) -> None:
        """Apply the events; workloads become pending."""
        for event in events:
            self.ledger.apply(event)
            if isinstance(event, ClusterQueue):
                self.queues.set_queue(event)
            elif isinstance(event, Workload):
                self.queues.put(event)

    def cycle(
        self, budget: int = 100, now: float = 0.0, *, fair: bool = False, startable: int | None = None
    ) -> CycleReport:
        """One cycle."""
        features = features_of(CycleContext(self.ledger, self.queues, now, fair))
        return run_cycle(self.ledger, self.queues, now, budget, fair=fair, startable=startable, features=features)

    def finish(self, key: str) -> None:
        """The workload is done: its room is free, its preemptor knows it, and its queue's relatives look again."""
        gone = self.ledger.release(key)
        if gone is not None:
            relatives = self.ledger.quota.relatives(gone.cluster_queue)
            self.queues.lines.quota_freed(relatives, partial(reclaimable_beside, self.ledger), key)
            self.queues.lines.requeue(relatives)
            self.queues.lines.requeue(self.queues.lines.queues_of({flavor for flavor, _ in gone.usage()}))


def admitted(report: CycleReport) -> list[str]:
    """Who got in, in order."""
    return [decision.workload for decision in report.decisions if isinstance(decision, Admit)]


def waits(report: CycleReport) -> dict[str, str]:
    """`reason: message` of those who wait."""
    return {d.workload: f"{d.reason}: {d.message}" for d in report.decisions if isinstance(d, Wait)}


def domains(report: CycleReport, key: str) -> dict[str, int]:
    """Pods per domain of an admitted workload's first pod set."""
    admits: Iterable[Admit] = (d for d in report.decisions if isinstance(d, Admit) and d.workload == key)
    assignment = next(iter(admits)).admission.pod_sets[0].assignment
    assert assignment is not None
    return {"/".join(domain.values): domain.count for domain in assignment.domains}
