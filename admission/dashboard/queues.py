"""Queues and cohorts with their quota: nominal, used, borrowed, lent and asked for. Reads the ledger and changes nothing.

Borrowed is usage above a queue's own quota. What the queues of a tree borrow together was lent by those that leave quota
unused, each in proportion to what it could lend; cohorts with quota of their own lend too. Requests of waiting workloads have
no flavor yet: they count in the first flavor of the queue that has the resource.
"""

from __future__ import annotations

from typing import Any

from admission.dashboard.cluster import Cluster
from admission.dashboard.trees import Sees
from admission.engine.model import ClusterQueue, Cohort, FlavorResource
from admission.engine.quota.cohorts import QuotaNode
from admission.engine.quota.tree import queue_quotas
from api.queues import LocalQueue


def queues(cluster: Cluster, sees: Sees) -> dict[str, Any]:
    """Returns the answer. LocalQueues of namespaces that the viewer may not see are counted in `others`."""
    locals_of: dict[str, list[LocalQueue]] = {}
    for local in cluster.view.local_queues.objects.values():
        locals_of.setdefault(local.spec.cluster_queue, []).append(local)
    specs, lending = list(cluster.ledger.quota.specs()), Lending()
    return {
        "clusterQueues": [
            _queue(cluster, spec, lending, sorted(locals_of.get(spec.name, ()), key=lambda local: local.key), sees)
            for spec in specs
            if isinstance(spec, ClusterQueue)
        ],
        "cohorts": _cohorts(cluster, specs),
    }


def _queue(
    cluster: Cluster, spec: ClusterQueue, lending: Lending, local_queues: list[LocalQueue], sees: Sees
) -> dict[str, Any]:
    node = cluster.ledger.quota.node(spec.name)
    asked = cluster.state.queues.pending_counts(spec.name).requested
    quotas, first = [], set[str]()
    for (flavor, resource), quota in queue_quotas(spec).items():
        pair = (flavor, resource)
        used = node.usage.get(pair, 0) if node is not None else 0
        quotas.append(
            {
                "flavor": flavor,
                "resource": resource,
                "nominal": quota.nominal,
                "used": used,
                "borrowed": max(0, used - quota.nominal),
                "lent": lending.lent(node, pair) if node is not None else 0,
                "pending": 0 if resource in first else asked.get(resource, 0),
                "borrowingLimit": quota.borrowing_limit,
                "lendingLimit": quota.lending_limit,
            }
        )
        first.add(resource)
    shown = [local for local in local_queues if sees(local.metadata.namespace or "")]
    seen = {local.key for local in shown}
    hidden = [cluster.totals.local_queue(local.key) for local in local_queues if local.key not in seen]
    return {
        "name": spec.name,
        "cohort": spec.cohort or "",
        "active": spec.inactive is None,
        "message": spec.inactive or "",
        "strategy": str(spec.strategy),
        "pending": cluster.state.queues.count(spec.name),
        "admitted": cluster.totals.cluster_queue(spec.name).admitted,
        "quotas": quotas,
        "localQueues": [
            {
                "namespace": local.metadata.namespace or "",
                "name": local.metadata.name,
                "pending": (totals := cluster.totals.local_queue(local.key)).pending,
                "admitted": totals.admitted,
            }
            for local in shown
        ],
        "others": {
            "localQueues": len(hidden),
            "pending": sum(totals.pending for totals in hidden),
            "admitted": sum(totals.admitted for totals in hidden),
        },
    }


class Lending:
    """What the nodes of a tree lend at one moment. A tree is added up once for a flavor and resource, not for each queue."""

    def __init__(self) -> None:
        self._sums: dict[tuple[QuotaNode, FlavorResource], tuple[int, int]] = {}

    def lent(self, node: QuotaNode, pair: FlavorResource) -> int:
        """Returns how much of the node's unused quota others of its tree use, in the resource's unit."""
        root = node.root()
        known = self._sums.get((root, pair))
        total, borrowed = known if known is not None else self._sums.setdefault((root, pair), _sums(root, pair))
        return _lendable(node, pair) * min(borrowed, total) // total if total else 0


def _sums(root: QuotaNode, pair: FlavorResource) -> tuple[int, int]:
    """Returns what the nodes of the tree could lend together, and what its queues have borrowed."""
    members = _lenders(root)
    borrowed = sum(max(0, one.usage.get(pair, 0) - one.quota(pair).nominal) for one in members if not _is_cohort(one))
    return sum(_lendable(member, pair) for member in members), borrowed


def _lenders(root: QuotaNode) -> list[QuotaNode]:
    lenders, open_ = [], [root]
    while open_:
        node = open_.pop()
        lenders.append(node)
        open_ += [*node.queues, *node.cohorts]
    return lenders


def _lendable(node: QuotaNode, pair: FlavorResource) -> int:
    quota = node.quota(pair)
    unused = quota.nominal if _is_cohort(node) else max(0, quota.nominal - node.usage.get(pair, 0))
    return unused if quota.lending_limit is None else min(unused, quota.lending_limit)


def _is_cohort(node: QuotaNode) -> bool:
    return bool(node.queues or node.cohorts)


def _cohorts(cluster: Cluster, specs: list[Cohort | ClusterQueue]) -> list[dict[str, Any]]:
    declared = {spec.name: spec for spec in specs if isinstance(spec, Cohort)}
    named = {spec.cohort for spec in specs if isinstance(spec, ClusterQueue) and spec.cohort}
    parents = {spec.parent for spec in declared.values() if spec.parent}
    cohorts = []
    for name in sorted(declared.keys() | named | parents):
        node = cluster.ledger.quota.cohort(name) or QuotaNode(name)
        quotas = [
            {"flavor": pair[0], "resource": pair[1], "nominal": nominal, "used": node.usage.get(pair, 0)}
            for pair, nominal in sorted(node.subtree.items())
        ]
        cohorts.append(
            {"name": name, "parent": (declared[name].parent or "") if name in declared else "", "quotas": quotas}
        )
    return cohorts
