"""The table of endpoints: the kinds that the webhook reviews, their paths, and the rules for each kind.

A path is `/mutate-` or `/validate-`, then the group with dashes for dots, the version, and the kind in lower case
(`/mutate-batch-v1-job`, `/validate-kueue-x-k8s-io-v1beta2-clusterqueue`).

Pure: objects come in the request, everything else from the lookups. review.py calls this module, and so does code that
completes objects without a webhook (world/jobs.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.registry import KINDS, GroupKind
from admission.integrations.sets.scaled import ScaledSet
from admission.integrations.sets.sets import SCALED
from admission.integrations.unmanaged import group_kind, notice
from admission.webhook.kind_rules import KindRules
from admission.webhook.kinds.declared import kind_of
from admission.webhook.kinds.deployment import DeploymentRules
from admission.webhook.kinds.elastic_quotas import ElasticQuotaRules
from admission.webhook.kinds.flavors import FlavorRules, TopologyRules
from admission.webhook.kinds.groups import ConfigMapRules, JobKindRules, PodGroupRules
from admission.webhook.kinds.job import JOB
from admission.webhook.kinds.jobset import JOBSET
from admission.webhook.kinds.leaderworkerset import LeaderWorkerSetRules
from admission.webhook.kinds.pod import PodRules
from admission.webhook.kinds.queues import ClusterQueueRules, CohortRules, LocalQueueRules
from admission.webhook.kinds.reviewed_jobs import JobRules
from admission.webhook.kinds.scaled import ScaledRules
from admission.webhook.kinds.statefulset import StatefulSetRules
from admission.webhook.kinds.workloads import WorkloadRules
from admission.webhook.review_request import Request, Wire
from admission.webhook.rules.review_rules import ReviewRules
from api.kube import resources
from api.kube.resources import Resource
from api.names import GROUP

ENDPOINTS: Final[tuple[KindRules, ...]] = (
    JobRules(resources.JOBS, JOB, at_once=True),
    JobRules(resources.JOBSETS, JOBSET),
    PodRules(resources.PODS),
    DeploymentRules(resources.DEPLOYMENTS),
    StatefulSetRules(resources.STATEFUL_SETS),
    LeaderWorkerSetRules(resources.LEADER_WORKER_SETS),
    WorkloadRules(resources.WORKLOADS),
    ClusterQueueRules(resources.CLUSTER_QUEUES),
    LocalQueueRules(resources.LOCAL_QUEUES),
    CohortRules(resources.COHORTS),
    FlavorRules(resources.RESOURCE_FLAVORS),
    TopologyRules(resources.TOPOLOGIES),
    ElasticQuotaRules(resources.ELASTIC_QUOTAS),
    ElasticQuotaRules(resources.SIGS_ELASTIC_QUOTAS),
    ConfigMapRules(resources.CONFIG_MAPS),
    JobKindRules(resources.JOB_KINDS),
    PodGroupRules(resources.POD_GROUPS),
    PodGroupRules(resources.SIGS_POD_GROUPS),
)
MUTATING: Final[Mapping[str, KindRules]] = {e.path("mutate"): e for e in ENDPOINTS if e.completes}
VALIDATING: Final[Mapping[str, KindRules]] = {e.path("validate"): e for e in ENDPOINTS}


MUTATE_DECLARED, VALIDATE_DECLARED = "/mutate-declared-job", "/validate-declared-job"
"""The paths for all declared kinds, built in or from a JobKind; the object's apiVersion and kind say which one."""
NOTICE_UNMANAGED: Final = "/notice-unmanaged-kind"
"""The path for objects of unmanaged kinds: all are allowed, and a queue name gets a warning."""
TRACED: Final = frozenset((*(path for path, each in MUTATING.items() if each.resource.group != GROUP), MUTATE_DECLARED))
"""The paths of objects with pods, whose creation begins a trace."""
PATHS: Final = frozenset((*MUTATING, *VALIDATING, MUTATE_DECLARED, VALIDATE_DECLARED, NOTICE_UNMANAGED))


def is_mutating(path: str) -> bool:
    """Reports whether requests at this path complete the object."""
    return path in MUTATING or path == MUTATE_DECLARED


def endpoint_of(path: str, request: Request) -> KindRules:
    """Returns the endpoint of a path. Raises KeyError for an unknown path."""
    if path not in (MUTATE_DECLARED, VALIDATE_DECLARED, NOTICE_UNMANAGED):
        return MUTATING.get(path) or VALIDATING[path]
    kind = group_kind(request.object or request.old_object or {})
    unknown = Resource(kind[0], "", "", kind[1])
    if path == NOTICE_UNMANAGED:
        return _UnmanagedRules(unknown)
    return declared_endpoint(kind) or KindRules(unknown)


class _UnmanagedRules(KindRules):
    """The rules of a kind that is not managed: a warning."""

    def warn(self, obj: Wire, rules: ReviewRules) -> list[str]:
        """Warns of a queue name that has no effect."""
        warning = notice(obj)
        return [warning] if warning else []


@lru_cache(maxsize=256)
def _of_scaled(adapter: ScaledSet) -> KindRules:
    return ScaledRules(adapter)


@lru_cache(maxsize=256)
def _of_declared(adapter: DeclaredJob) -> KindRules:
    return JobRules(adapter.resource, kind_of(adapter))


def declared_endpoint(kind: GroupKind) -> KindRules | None:
    """Returns the endpoint of a declared kind, or None for other kinds, including one whose JobKind was deleted."""
    adapter = KINDS.get(kind)
    if (by_scale := SCALED.get(kind)) is not None:
        return _of_scaled(by_scale)
    return _of_declared(adapter) if isinstance(adapter, DeclaredJob) else None
