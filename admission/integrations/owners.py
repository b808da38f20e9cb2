"""Decides whether Stowage starts and stops the owner of a Workload. Pure.

Kueue leaves Workloads behind for every kind that it manages. A Workload whose owner Stowage does not start would hold quota
for nothing, and no controller would ever remove its finalizer. So `context` keeps it out of the queue and reports why, and
`workloads` removes the finalizer when the Workload is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from admission.integrations.registry import ADAPTERS, KINDS
from admission.integrations.sets.sets import SCALED, SETS
from api.kube.resources import DEPLOYMENTS, PODS, Resource
from api.meta import OwnerReference
from api.workloads import Workload


def _group_kind(api_version: str, kind: str) -> tuple[str, str]:
    group, slash, _ = api_version.partition("/")
    return (group if slash else "", kind)


_OWNERS: Final[tuple[Resource, ...]] = (PODS, *(each.resource for each in ADAPTERS), *(each.resource for each in SETS))
_MANAGED: Final = frozenset((resource.group, resource.kind) for resource in _OWNERS)


def managed_kinds() -> tuple[str, ...]:
    """Returns the sorted kinds whose objects may name a queue; pods of a Deployment queue one by one."""
    declared = [*(each.resource for each in KINDS.declared()), *(each.resource for each in SCALED.declared())]
    return tuple(sorted(resource.kind for resource in (*_OWNERS, DEPLOYMENTS, *declared)))


def owner_resources() -> tuple[Resource, ...]:
    """Returns the kinds whose objects own Workloads."""
    return (*_OWNERS, *(each.resource for each in KINDS.declared()), *(each.resource for each in SCALED.declared()))


def is_managed_kind(kind: tuple[str, str]) -> bool:
    """Reports whether objects of this API group and kind may name a queue."""
    return kind in _MANAGED or kind == (DEPLOYMENTS.group, DEPLOYMENTS.kind) or _is_declared(kind)


def foreign_owner(workload: Workload) -> OwnerReference | None:
    """Returns the controller that owns the Workload if Stowage does not start it; None if there is none or a managed owner.

    A prebuilt Workload may have an owner of any kind: the first pod or job that uses the Workload is added to its owner
    references, which makes it managed.
    """
    owners = workload.metadata.owner_references
    if _any_managed(owners):
        return None
    return next((owner for owner in owners if owner.controller), None)


def is_ours(workload: Workload) -> bool:
    """Reports whether a managed owner stops the job and releases the Workload."""
    return _any_managed(workload.metadata.owner_references)


def _any_managed(owners: Iterable[OwnerReference]) -> bool:
    kinds = [_group_kind(owner.api_version, owner.kind) for owner in owners]
    return any(kind in _MANAGED or _is_declared(kind) for kind in kinds)


def _is_declared(kind: tuple[str, str]) -> bool:
    return KINDS.is_declared(kind) or SCALED.get(kind) is not None
