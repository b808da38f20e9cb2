"""Applies the changes of a remedy to a ledger and to the workload, so that the remedy can be tried in a trial.

trials.py calls it. Stowage never makes these changes itself: a user or an administrator does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import count

from admission.engine.explain.changes import (
    AddNodes,
    AddNodesFirst,
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
    RequestResource,
    SoftenConstraint,
    Tolerate,
)
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    ClusterQueue,
    FlavorQuotas,
    LevelConstraint,
    Node,
    PodSet,
    Quota,
    ResourceGroup,
    Toleration,
    TopologyRequest,
    Workload,
)


def make(ledger: Ledger, workload: Workload, change: Change) -> Workload:
    """Makes the change; returns the workload as it is afterwards."""
    match change:
        case Finish():
            for key in change.workloads:
                leave(ledger, key)
        case RaiseQuota():
            spec = ledger.quota.spec(change.cluster_queue)
            if spec is not None:
                ledger.apply(with_quota(spec, change))
        case AnswerCheck() | DropCheck():
            spec = ledger.quota.spec(change.cluster_queue)
            if spec is not None:
                ledger.apply(with_answered_check(spec, change.check))
        case CoverResource():
            spec = ledger.quota.spec(change.cluster_queue)
            if spec is not None:
                ledger.apply(covering(spec, change))
        case LetEvict():
            spec = ledger.quota.spec(change.cluster_queue)
            if spec is not None:
                ledger.apply(with_policy(spec, change))
        case LetReclaim():
            spec = ledger.quota.spec(change.cluster_queue)
            if spec is not None:
                ledger.apply(reclaiming(spec))
        case AddNodes():
            like = ledger.capacity.nodes[change.like].node
            if like is not None:
                for node in clones(like, ledger.capacity.nodes, change):
                    ledger.apply(node)
        case _:
            return with_request(workload, change)
    return workload


def leave(ledger: Ledger, key: str) -> None:
    """Ends the workload: its quota and capacity become free, and its pods are gone."""
    ledger.remove_with_pods(key)


def with_quota(queue: ClusterQueue, change: RaiseQuota) -> ClusterQueue:
    """Returns the queue with that nominal quota."""

    def flavored(quotas: FlavorQuotas) -> FlavorQuotas:
        old = quotas.quotas.get(change.resource)
        if quotas.flavor != change.flavor or old is None:
            return quotas
        return replace(quotas, quotas={**quotas.quotas, change.resource: replace(old, nominal=change.nominal)})

    def grouped(group: ResourceGroup) -> ResourceGroup:
        return replace(group, flavors=tuple(map(flavored, group.flavors)))

    return replace(queue, groups=tuple(map(grouped, queue.groups)))


def with_answered_check(queue: ClusterQueue, check: str) -> ClusterQueue:
    """Returns the queue without that unanswered check; active if nothing else keeps it inactive."""
    rest = tuple(one for one in queue.unanswered if one.name != check)
    return replace(queue, unanswered=rest, inactive=queue.inactive if rest or not queue.only_checks else None)


def covering(queue: ClusterQueue, change: CoverResource) -> ClusterQueue:
    """Returns the queue with quota for that resource."""
    more = {change.resource: Quota(change.nominal)}

    def grouped(group: ResourceGroup) -> ResourceGroup:
        if tuple(quotas.flavor for quotas in group.flavors) != change.flavors:
            return group
        flavors = tuple(replace(quotas, quotas={**quotas.quotas, **more}) for quotas in group.flavors)
        return ResourceGroup((*group.resources, change.resource), flavors)

    if not change.beside:
        new = ResourceGroup((change.resource,), tuple(FlavorQuotas(flavor, more) for flavor in change.flavors))
        return replace(queue, groups=(*queue.groups, new))
    return replace(queue, groups=tuple(map(grouped, queue.groups)))


def with_policy(queue: ClusterQueue, change: LetEvict) -> ClusterQueue:
    """Returns the queue with that preemption policy."""
    policy = queue.preemption
    if change.field == "withinClusterQueue":
        return replace(queue, preemption=replace(policy, within_cluster_queue=change.value))
    return replace(queue, preemption=replace(policy, reclaim_within_cohort=change.value))


def reclaiming(queue: ClusterQueue) -> ClusterQueue:
    """Returns the queue with permission to reclaim from every borrower."""
    return replace(queue, preemption=replace(queue.preemption, reclaim_within_cohort="Any"))


def quota_of(queue: ClusterQueue, flavor: str, resource: str) -> Quota | None:
    """Returns the queue's own quota, or None."""
    quotas = (q.quotas.get(resource) for g in queue.groups for q in g.flavors if q.flavor == flavor)
    return next((quota for quota in quotas if quota is not None), None)


def clones(node: Node, taken: Collection[str], change: AddNodes) -> Iterator[Node]:
    """Yields `count` nodes like this one under new names, with the capacity that daemons will use subtracted."""
    daemons = dict(change.daemons)
    offers = {name: amount - daemons.get(name, 0) for name, amount in node.allocatable.items()}
    before = " " if isinstance(change, AddNodesFirst) else node.name  # a space sorts before every name of a node
    names = (f"{before}-more-{index}" for index in count(1))
    free = (name for name in names if name not in taken)
    for _, name in zip(range(change.count), free, strict=False):
        labels = {**node.labels, HOSTNAME_LABEL: name} if HOSTNAME_LABEL in node.labels else node.labels
        yield replace(node, name=name, labels=labels, allocatable=offers)


# ---- changes of the workload's request


def with_request(workload: Workload, change: Change) -> Workload:
    """Returns the workload with the changed request."""
    match change:
        case RelaxTopology(pod_sets, _, to, required):
            return _each(workload, pod_sets, lambda p: _relaxed(p, to, required=required))
        case NameLevel(pod_sets, level, to):
            return _each(workload, pod_sets, lambda p: _renamed(p, level, to))
        case SoftenConstraint(pod_set, level):
            return _each(workload, (pod_set,), lambda p: _softened(p, level))
        case LowerRequest(pod_set, resource, _, fits):
            return _each(workload, (pod_set,), lambda p: _lowered(p, resource, fits))
        case RequestResource(_, pod_sets, resource, least):
            return _each(workload, pod_sets, lambda p: _requesting(p, resource, least))
        case FewerPods(pod_set, _, fits):
            return _each(workload, (pod_set,), lambda p: replace(p, count=fits))
        case LowerMinimum(pod_set, asked, fits):
            gang, lowered = workload.gang, _each(workload, (pod_set,), lambda p: replace(p, min_count=fits))
            if gang is None or gang.minimum is None:
                return lowered
            return replace(lowered, gang=replace(gang, minimum=gang.minimum + fits - asked))
        case Tolerate(taint):
            more = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
            return _each(workload, None, lambda p: replace(p, tolerations=(*p.tolerations, more)))
        case DropSelector(key, _):
            return _each(workload, None, lambda p: _unselecting(p, key))
        case LimitTime(seconds):
            return replace(workload, time_limit=float(seconds))
        case DropAffinity(pod_set):
            return _each(workload, (pod_set,), lambda p: replace(p, affinity=None))
        case _:
            return workload


def _each(workload: Workload, names: Collection[str] | None, become: Callable[[PodSet], PodSet]) -> Workload:
    pod_sets = (p if names is not None and p.name not in names else become(p) for p in workload.pod_sets)
    return replace(workload, pod_sets=tuple(pod_sets))


def _relaxed(pod_set: PodSet, to: str, *, required: bool) -> PodSet:
    topology = pod_set.topology or TopologyRequest()
    stricter, softer = (to, None) if required else (None, to)
    return replace(pod_set, topology=replace(topology, required=stricter, preferred=softer, relax_after=None))


def _renamed(pod_set: PodSet, level: str, to: str) -> PodSet:
    topology = pod_set.topology or TopologyRequest()
    required = to if topology.required == level else topology.required
    preferred = to if topology.preferred == level else topology.preferred
    slices = tuple(replace(layer, level=to) if layer.level == level else layer for layer in topology.slices)
    rules = tuple(replace(rule, level=to) if rule.level == level else rule for rule in topology.constraints)
    return replace(
        pod_set, topology=replace(topology, required=required, preferred=preferred, slices=slices, constraints=rules)
    )


def _softened(pod_set: PodSet, level: str) -> PodSet:
    topology = pod_set.topology or TopologyRequest()

    def soft(constraint: LevelConstraint) -> LevelConstraint:
        return replace(constraint, hard=False) if constraint.level == level else constraint

    return replace(pod_set, topology=replace(topology, constraints=tuple(map(soft, topology.constraints))))


def _lowered(pod_set: PodSet, resource: str, amount: int) -> PodSet:
    charged = pod_set.charged
    if charged is not None and resource in charged:
        charged = {**charged, resource: amount}
    return replace(pod_set, requests={**pod_set.requests, resource: amount}, charged=charged)


def _requesting(pod_set: PodSet, resource: str, amount: int) -> PodSet:
    charged = None if pod_set.charged is None else {**pod_set.charged, resource: amount}
    return replace(pod_set, requests={**pod_set.requests, resource: amount}, charged=charged)


def _unselecting(pod_set: PodSet, key: str) -> PodSet:
    return replace(pod_set, node_selector={name: value for name, value in pod_set.node_selector.items() if name != key})
