"""Classifies changes of jobs and Workloads by their urgency for the controllers. Pure."""

from __future__ import annotations

from typing import Any, Final

from admission.integrations.base import JobIntegration, as_reclaiming, as_selective
from api.kube.informers.store import Change, ChangeType
from api.meta import is_true
from api.names import ADMITTED, EVICTED
from api.workloads import Workload

_METADATA: Final = ("uid", "labels", "annotations", "deletionTimestamp", "ownerReferences")


def is_progress(change: Change[dict[str, Any]], kind: JobIntegration) -> bool:
    """Reports whether the change only concerns pods of a running job that were created, became ready or ended."""
    old, new = change.old, change.object
    if old is None or change.type is ChangeType.DELETED or kind.is_suspended(new):
        return False
    if kind.is_active(old) != kind.is_active(new) or kind.finished(new):
        return False
    selective = as_selective(kind)
    if selective is not None and selective.is_on_hold(new):
        return False
    if _needs_more(old, new, kind):
        return False
    was, now = old["metadata"], new["metadata"]
    return old.get("spec") == new.get("spec") and all(was.get(part) == now.get(part) for part in _METADATA)


def _needs_more(old: dict[str, Any], new: dict[str, Any], kind: JobIntegration) -> bool:
    """Reports whether pods that had ended came back: their quota, which others may take, is charged again at once."""
    reclaiming = as_reclaiming(kind)
    if reclaiming is None:
        return False
    before, after = ({pod.name: pod.count for pod in reclaiming.reclaimable_pods(job)} for job in (old, new))
    return any(count > after.get(name, 0) for name, count in before.items())


def has_ended(change: Change[dict[str, Any]], kind: JobIntegration) -> bool:
    """Reports whether the job has just ended or gone: its quota, which others wait for, is then released first."""
    if change.type is ChangeType.DELETED:
        return True
    return change.old is not None and kind.finished(change.object) is not None and kind.finished(change.old) is None


def has_turned(change: Change[Workload]) -> bool:
    """Reports whether pods must start or stop because of the change, which is then reconciled first."""
    if change.old is None or change.type is ChangeType.DELETED:
        return False
    was, now = change.old.status.conditions, change.object.status.conditions
    return any(is_true(was, kind) != is_true(now, kind) for kind in (ADMITTED, EVICTED))


def is_reclaim(change: Change[Workload]) -> bool:
    """Reports whether only the Workload's reclaimable pods changed, as after this controller's own write of them."""
    old, new = change.old, change.object
    if old is None or change.type is ChangeType.DELETED:
        return False
    if old.status.reclaimable_pods == new.status.reclaimable_pods or old.spec != new.spec:
        return False
    was, now = old.metadata, new.metadata
    same = was.model_copy(update={"resource_version": now.resource_version}) == now
    return same and old.status.model_copy(update={"reclaimable_pods": new.status.reclaimable_pods}) == new.status
