"""A remedy carried out as its users would: by telling the cluster of it, without the engine's own way of trying changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decide import decide
from admission.engine.decision import Preempt
from admission.engine.explain.changes import (
    AddNodes,
    AnswerCheck,
    Change,
    CoverResource,
    DropAffinity,
    DropCheck,
    DropSelector,
    FewerPods,
    Finish,
    LetEvict,
    LetReclaim,
    LimitTime,
    LowerMinimum,
    LowerRequest,
    NameLevel,
    RaiseQuota,
    RelaxTopology,
    Remedy,
    RequestResource,
    SoftenConstraint,
    Tolerate,
)
from admission.engine.model import (
    ClusterQueue,
    FlavorQuotas,
    Node,
    ObjectRemoved,
    PodSet,
    Quota,
    RemovedKind,
    ResourceGroup,
    Toleration,
    TopologyRequest,
    Workload,
)
from tests.admission.engine.builders import HOST, Cluster, admitted


def admits(cluster: Cluster, workload: Workload, remedy: Remedy, now: float = 0.0) -> bool:
    """Whether the cycle admits the workload once the remedy is applied; it is considered first."""
    for change in remedy.changes:
        workload = apply(cluster, workload, change)
    others = [w for w in cluster.queues.workloads() if w.key != workload.key]
    for other in others:
        cluster.queues.remove(other.key)
    return lets_in(cluster, workload, lambda: decide(cluster.ledger, cluster.queues, now, 100))


def lets_in(cluster: Cluster, workload: Workload, cycle: Callable[[], CycleReport]) -> bool:
    """Whether a cycle admits the workload; whom it evicts leave first, and another cycle follows."""
    cluster.queues.remove(workload.key)
    cluster.queues.put(workload)
    report = cycle()
    for decision in report.decisions:
        if isinstance(decision, Preempt) and decision.workload == workload.key:
            for victim in decision.victims:
                cluster.finish(victim.workload)
            report = cycle()
    return workload.key in admitted(report)


def apply(cluster: Cluster, workload: Workload, change: Change) -> Workload:
    """Carries out one change; returns the workload as its owner has it then."""
    match change:
        case Finish(workloads):
            for key in workloads:
                for pod in [p for p in cluster.ledger.allocations.pods.values() if p.workload == key]:
                    cluster.tell(ObjectRemoved(RemovedKind.POD, pod.key))
                cluster.finish(key)
        case RaiseQuota():
            cluster.tell(_raised(cluster, change))
        case AnswerCheck(name, check, _) | DropCheck(name, check, _):
            cluster.tell(_answered(cluster, name, check))
            return replace(workload, blocked=None)  # the controller lets it queue
        case CoverResource():
            cluster.tell(_covering(cluster, change))
        case LetEvict(name, field, value, _):
            queue = cluster.ledger.quota.spec(name)
            assert queue is not None
            within = value if field == "withinClusterQueue" else queue.preemption.within_cluster_queue
            reclaim = value if field == "reclaimWithinCohort" else queue.preemption.reclaim_within_cohort
            policy = replace(queue.preemption, within_cluster_queue=within, reclaim_within_cohort=reclaim)
            cluster.tell(replace(queue, preemption=policy))
        case LetReclaim(name, _):
            queue = cluster.ledger.quota.spec(name)
            assert queue is not None
            cluster.tell(replace(queue, preemption=replace(queue.preemption, reclaim_within_cohort="Any")))
        case LimitTime(seconds):
            return replace(workload, time_limit=float(seconds))
        case AddNodes():
            cluster.tell(*_nodes(cluster, change))
        case _:
            return replace(workload, pod_sets=tuple(_asking(pod_set, change) for pod_set in workload.pod_sets))
    return workload


def _raised(cluster: Cluster, change: RaiseQuota) -> ClusterQueue:
    spec = cluster.ledger.quota.spec(change.cluster_queue)
    assert spec is not None

    def quotas(of: FlavorQuotas) -> dict[str, Quota]:
        return {
            name: replace(quota, nominal=quota.nominal + change.by)
            if (of.flavor, name) == (change.flavor, change.resource)
            else quota
            for name, quota in of.quotas.items()
        }

    groups = [replace(g, flavors=tuple(FlavorQuotas(q.flavor, quotas(q)) for q in g.flavors)) for g in spec.groups]
    return replace(spec, groups=tuple(groups))


def _answered(cluster: Cluster, name: str, check: str) -> ClusterQueue:
    """As the controller sees it then: active once no check is left."""
    spec = cluster.ledger.quota.spec(name)
    assert spec is not None
    assert check in {one.name for one in spec.unanswered}
    rest = tuple(one for one in spec.unanswered if one.name != check)
    return replace(spec, unanswered=rest, inactive=spec.inactive if rest else None)


def _covering(cluster: Cluster, change: CoverResource) -> ClusterQueue:
    spec = cluster.ledger.quota.spec(change.cluster_queue)
    assert spec is not None
    assert spec.group_of(change.resource) is None
    new = Quota(change.nominal)
    if not change.beside:
        assert not set(change.flavors) & set(spec.flavors), "a flavor is in one group of a queue"
        group = ResourceGroup(
            (change.resource,), tuple(FlavorQuotas(f, {change.resource: new}) for f in change.flavors)
        )
        return replace(spec, groups=(*spec.groups, group))
    groups = [
        ResourceGroup(
            (*group.resources, change.resource),
            tuple(FlavorQuotas(q.flavor, {**q.quotas, change.resource: new}) for q in group.flavors),
        )
        if group.resources == change.beside
        else group
        for group in spec.groups
    ]
    return replace(spec, groups=tuple(groups))


def _nodes(cluster: Cluster, change: AddNodes) -> list[Node]:
    like = cluster.ledger.capacity.nodes[change.like].node
    assert like is not None
    where = dict(zip(change.levels, change.domain, strict=True))
    free_capacity = {name: amount - dict(change.daemons).get(name, 0) for name, amount in like.allocatable.items()}
    names = [f"new-{number}" for number in range(change.count)]
    return [Node(name, {**like.labels, **where, HOST: name}, free_capacity, like.taints) for name in names]


def _asking(pod_set: PodSet, change: Change) -> PodSet:
    topology = pod_set.topology or TopologyRequest()
    match change:
        case RelaxTopology(names, _, to, True) if pod_set.name in names:
            return replace(pod_set, topology=replace(topology, required=to))
        case RelaxTopology(names, _, to, False) if pod_set.name in names:
            return replace(pod_set, topology=replace(topology, required=None, preferred=to))
        case NameLevel(names, level, to) if pod_set.name in names:
            slices = tuple(replace(one, level=to if one.level == level else one.level) for one in topology.slices)
            if topology.required == level:
                topology = replace(topology, required=to)
            if topology.preferred == level:
                topology = replace(topology, preferred=to)
            return replace(pod_set, topology=replace(topology, slices=slices))
        case SoftenConstraint(name, level) if pod_set.name == name:
            soft = tuple(replace(c, hard=c.hard and c.level != level) for c in topology.constraints)
            return replace(pod_set, topology=replace(topology, constraints=soft))
        case LowerRequest(name, resource, asked, fits) if pod_set.name == name:
            assert pod_set.requests[resource] == asked > fits > 0
            return replace(pod_set, requests={**pod_set.requests, resource: fits})
        case RequestResource(_, names, resource, least) if pod_set.name in names:
            assert not pod_set.requests.get(resource)
            return replace(pod_set, requests={**pod_set.requests, resource: least})
        case FewerPods(name, asked, fits) if pod_set.name == name:
            assert pod_set.count == asked > fits > 0
            assert pod_set.min_count is None, "the webhook wants a minimum below the number of pods"
            return replace(pod_set, count=fits)
        case LowerMinimum(name, asked, fits) if pod_set.name == name:
            assert pod_set.min_count == asked > fits > 0
            return replace(pod_set, min_count=fits)
        case Tolerate(taint):
            more = Toleration(key=taint.key, operator="Exists", effect=taint.effect)
            return replace(pod_set, tolerations=(*pod_set.tolerations, more))
        case DropSelector(key, value) if pod_set.node_selector.get(key) == value:
            return replace(pod_set, node_selector={k: v for k, v in pod_set.node_selector.items() if k != key})
        case DropAffinity(name) if pod_set.name == name:
            return replace(pod_set, affinity=None)
        case _:
            return pod_set


def one_less(change: Change) -> Change | None:
    """The same change a little smaller, which must not do; None where it has no size."""
    match change:
        case LowerRequest():
            return replace(change, fits=change.fits + 1) if change.fits + 1 < change.asked else None
        case FewerPods():
            return replace(change, fits=change.fits + 1) if change.fits + 1 < change.asked else None
        case LowerMinimum():
            return replace(change, fits=change.fits + 1) if change.fits + 1 < change.asked else None
        case RaiseQuota():
            return replace(change, by=change.by - 1, nominal=change.nominal - 1)
        case AddNodes():
            return replace(change, count=change.count - 1)
        case Finish():
            return replace(change, workloads=change.workloads[1:])
        case _:
            return None
