"""Writes a Workload's status: only the difference, and only onto the version it was computed from.

Many writers run in this process (state/condition_table.py). Each computes a new status from the Workload that it saw; a merge
patch carries the difference with that resourceVersion as precondition, so none overwrites another: the later writer gets
Conflict, reads the Workload and decides again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

from admission.controllers.state.condition_table import Writer, strangers
from admission.controllers.state.conditions import INVALID_RESOURCES, NAMESPACE_MISMATCH, OUTSIDE_LIMIT_RANGE
from admission.controllers.watch.cluster_view import Views
from admission.engine.features import reason_of
from admission.engine.reasons import OlderReason, Reason
from api.errors import ApiError, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.resources import WORKLOADS
from api.merge import merge_diff
from api.meta import Condition
from api.names import QUOTA_RESERVED, LegacyQuotaReason
from api.reading import read_workload
from api.workloads import Workload, WorkloadStatus

log = logging.getLogger(__name__)

_PAUSE = 1.0

legacy_reasons: ContextVar[bool] = ContextVar("legacy_reasons", default=False)
"""The setting controller.legacyWaitReasons, set before the process starts its tasks. It affects what is written, no
decision."""


def written_reason(reason: str, message: str = "") -> str:
    """Returns the written reason of QuotaReserved=False: the reason itself, or Kueue's legacy one.

    Kueue found out in its cycle what these messages tell, as it does that quota is short.
    """
    if not legacy_reasons.get():
        return reason
    if reason in _LEGACY:
        return reason
    if reason == Reason.MISCONFIGURED and message.startswith(_FOUND_IN_A_CYCLE):
        return LegacyQuotaReason.PENDING
    code = reason_of(reason)
    older = OlderReason.PENDING if code is None else code.older
    return _OLDER.get(older, reason)


_OLDER: Final[Mapping[OlderReason, str]] = {
    OlderReason.PENDING: LegacyQuotaReason.PENDING,
    OlderReason.INADMISSIBLE: LegacyQuotaReason.INADMISSIBLE,
    OlderReason.WAITING: LegacyQuotaReason.WAITING,
}
_FOUND_IN_A_CYCLE: Final = (NAMESPACE_MISMATCH, INVALID_RESOURCES, OUTSIDE_LIMIT_RANGE)
_LEGACY: Final = frozenset(_OLDER.values())


def _written(status: WorkloadStatus) -> WorkloadStatus:
    """Returns the status with the reasons to write."""
    if not legacy_reasons.get():
        return status
    return status.model_copy(update={"conditions": tuple(_legacy(each) for each in status.conditions)})


def _legacy(condition: Condition) -> Condition:
    if condition.type != QUOTA_RESERVED or condition.status != "False":
        return condition
    return condition.model_copy(update={"reason": written_reason(condition.reason, condition.message)})


async def patch_status(kube: Kube, workload: Workload, new_status: WorkloadStatus, by: Writer) -> Workload:
    """Writes the new status in the name of `by`; returns the Workload in the answer, or `workload` itself if nothing differs.

    Raises api.errors.Conflict if another client wrote since `workload` was read, NotFound if it is gone.
    """
    if faults := strangers(workload.status.conditions, new_status.conditions, by):
        log.error("the table of conditions does not allow this write", extra={"workload": workload.key, "why": faults})
    diff = merge_diff(workload.status.to_wire(), _written(new_status).to_wire())
    if not diff:
        return workload
    meta = workload.metadata
    body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": diff}
    return await kube.patch(
        WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE, subresource="status", decode=read_workload
    )


async def read_again(kube: Kube, views: Views, workload: Workload) -> Workload | None:
    """Reads the Workload from the API server until there is an answer; returns None if it is gone.

    For a write without an answer: until its outcome is known, its quota must not be given away and no workload evicted.
    """
    meta = workload.metadata
    while True:
        try:
            now = await kube.get(WORKLOADS, meta.name, meta.namespace, decode=read_workload)
        except NotFound:
            return None
        except ApiError as error:
            log.warning("cannot read a workload: %s", error, extra={"workload": workload.key})
            await asyncio.sleep(_PAUSE)
            continue
        if now.metadata.uid != meta.uid:
            return None
        views.workloads.observe(now)
        return now
