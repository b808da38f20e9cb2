"""Gang groups between quota and start: no gang starts before all gangs of its group have quota. Pure but for the controller.

The engine gives all gangs of a group their quota in one cycle, but the Workloads are written one by one, and the writer may
die in between. So an admission check (GANG_CHECK) holds each gang until all others have quota. A later leader finds such a
half-written group, and the engine (features/gang_groups) admits the remaining gangs or evicts the others. Once all have quota,
each check turns Ready; the checks can turn one by one, since a later leader derives the same verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from admission.controllers.state.condition_table import Writer
from admission.controllers.watch.caches import InformerView
from admission.controllers.write.report_writer import ReportWriter
from api.errors import Conflict
from api.kube.client import Kube
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.meta import is_true, rfc3339
from api.names import ADMITTED, EVICTED, FINISHED, GANG_CHECK, GANG_GROUP, QUOTA_RESERVED, CheckState
from api.text.untrusted_text import bounded
from api.workloads import Workload, WorkloadStatus

BY_GANG: Final = "gang of a group"
SYNC_TIMEOUT: Final = 120.0
CONFLICT_RETRY: Final = 0.2


def together(workload: Workload) -> tuple[str, ...]:
    """Returns the keys of the Workloads that start together with this one; empty if there are none or unreadable."""
    try:
        return msgspec.json.decode(bounded(workload.metadata.annotations.get(GANG_GROUP, "[]")), type=tuple[str, ...])
    except (msgspec.MsgspecError, ValueError):
        return ()


def missing(workload: Workload, workloads: Mapping[str, Workload]) -> list[str]:
    """Returns the gangs of the Workload's group without quota."""
    return [key for key in together(workload) if not _has_quota(workloads.get(key))]


def _has_quota(workload: Workload | None) -> bool:
    if workload is None:
        return False
    states = workload.status.conditions
    if is_true(states, FINISHED):
        return is_true(states, ADMITTED)  # it ran together with the others
    return is_true(states, QUOTA_RESERVED) and not is_true(states, EVICTED)


def with_verdict(workload: Workload, workloads: Mapping[str, Workload], now: float) -> WorkloadStatus:
    """Returns the status with an updated GANG_CHECK, or the same object if nothing changes. Ready is final."""
    lacking = missing(workload, workloads)
    state = CheckState.PENDING if lacking else CheckState.READY
    message = (
        f"waiting for {', '.join(lacking)} to have quota as well" if lacking else "all gangs of the group have quota"
    )
    checks = tuple(
        check.model_copy(update={"state": state, "message": message, "last_transition_time": rfc3339(now)})
        if check.name == GANG_CHECK
        and check.state == CheckState.PENDING
        and (check.state, check.message) != (state, message)
        else check
        for check in workload.status.admission_checks
    )
    if checks == workload.status.admission_checks:
        return workload.status
    return workload.status.model_copy(update={"admission_checks": checks})


class GangGroupController:
    """The controller of GANG_CHECK; it runs on the leader only."""

    def __init__(self, kube: Kube, workloads: InformerView[Workload], *, wall: Callable[[], float] = time.time) -> None:
        self._workloads, self._wall = workloads, wall
        self._reports = ReportWriter(kube, Writer.GANG_GROUPS)
        self.queue = Reconciler("gang groups", self.reconcile, workers=4)
        workloads.add_index(BY_GANG, together)
        workloads.add_handler(self._workload_changed)

    async def run(self) -> None:
        """Runs until cancelled; the informer runs elsewhere."""
        await self._workloads.synced(SYNC_TIMEOUT)
        await self.queue.run()

    def _workload_changed(self, change: Change[Workload]) -> None:
        for each in (change.object, *self._fellows(change.key)):
            if together(each) and (each.key != change.key or change.type is not ChangeType.DELETED):
                self.queue.add(each.key)

    def _fellows(self, key: str) -> Iterable[Workload]:
        return self._workloads.by_index(BY_GANG, key)

    async def reconcile(self, key: str) -> float | None:
        """Updates the check of one Workload."""
        workload = self._workloads.objects.get(key)
        if workload is None or not together(workload) or not is_true(workload.status.conditions, QUOTA_RESERVED):
            return None
        status = with_verdict(workload, self._workloads.objects, self._wall())
        try:
            await self._reports.write(workload, status)
        except Conflict:
            return CONFLICT_RETRY
        return None
