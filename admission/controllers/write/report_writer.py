"""Writes what one controller reports in a Workload's status, with the events that tell of it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.condition_table import Writer
from admission.controllers.write.outcome import Outcome
from admission.controllers.write.status import patch_status
from admission.controllers.write.workload_writer import Recorder, record_events
from api.errors import NotFound
from api.kube.client import Kube
from api.kube.events import ref_to
from api.kube.resources import WORKLOADS
from api.workloads import Workload, WorkloadStatus

log = logging.getLogger(__name__)


class ReportWriter:
    """Writes the reports of one writer of the table; without a recorder, no events. `observe` receives each answer."""

    def __init__(
        self,
        kube: Kube,
        by: Writer,
        recorder: Recorder | None = None,
        observe: Callable[[Workload], None] = lambda answer: None,
    ) -> None:
        self._kube, self._by, self._recorder, self._observe = kube, by, recorder, observe

    async def write(self, workload: Workload, status: WorkloadStatus, *events: PlannedEvent) -> Outcome:
        """Writes the status and records the events; UNCHANGED if it is the Workload's own, OBSOLETE if the Workload is gone.

        Raises api.errors.Conflict if another client wrote since `workload` was read, and other ApiErrors.
        """
        if status is workload.status:
            return Outcome.UNCHANGED
        try:
            answer = await patch_status(self._kube, workload, status, self._by)
        except NotFound:
            log.debug("already gone", extra={"workload": workload.key})
            return Outcome.OBSOLETE
        self._observe(answer)
        if self._recorder is not None:
            record_events(self._recorder, ref_to(WORKLOADS, answer), events)
        return Outcome.WRITTEN
