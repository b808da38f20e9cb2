"""Writes the steps of `state/lifecycle.py`: the status of a Workload with its events, its deactivation, and its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from admission.controllers.state import conditions, unsupported_fields
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.lifecycle import LifecycleStep
from admission.controllers.state.waiting_pods import only_pod, reason_of_wait
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.evictor import Evictor
from admission.controllers.write.status import patch_status
from admission.engine.reasons import Reason
from admission.metrics import lives
from api.errors import Conflict, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.events import EventRecorder, ref_to
from api.kube.resources import WORKLOADS
from api.meta import find_condition, is_true, parse_time
from api.names import ADMITTED, EVICTED, IN_USE_FINALIZER, QUOTA_RESERVED
from api.reading import read_workload
from api.workloads import Workload

log = logging.getLogger(__name__)


class LifecycleWriter:
    """Writes what the lifecycle of Workloads asks for, always onto the version that it saw."""

    def __init__(self, kube: Kube, views: Views, recorder: EventRecorder, now: Callable[[], float] = time.time) -> None:
        self._kube, self._views, self._recorder, self._now = kube, views, recorder, now
        self._evictor = Evictor(kube, views, recorder, now)

    async def write(self, workload: Workload, result: LifecycleStep, *, owned: bool) -> Workload:
        """Writes the status of the step, and returns the Workload in the answer. Without an owner (`owned`) whose controller
        stops the job, an eviction gives the quota back at once. Raises ApiErrors.
        """
        status = result.status
        if is_true(status.conditions, EVICTED) and is_true(status.conditions, QUOTA_RESERVED) and not owned:
            status = conditions.released(status, self._now(), workload.metadata.generation)
        fields = unsupported_fields.of_workload(workload)
        noted = unsupported_fields.noted(status.conditions, fields, workload.metadata.generation, self._now())
        if noted is not status.conditions:
            status = status.model_copy(update={"conditions": noted})
        if status is workload.status:
            return workload
        if result.eviction is not None:
            answer = await self._evictor.write(workload, status, result.eviction, Writer.LIFECYCLE)
        else:
            answer = await patch_status(self._kube, workload, status, Writer.LIFECYCLE)
            self._views.workloads.observe(answer)
        self._record_events(workload, answer, result)
        return answer

    def _record_events(self, before: Workload, after: Workload, result: LifecycleStep) -> None:
        about = ref_to(WORKLOADS, after)
        for event in result.events:
            self._recorder.record(about, event.type, event.reason, event.message)
        self._tell_pod(before, after)
        admission = after.status.admission
        if (
            admission is None
            or is_true(before.status.conditions, ADMITTED)
            or not is_true(after.status.conditions, ADMITTED)
        ):
            return
        reserved, ref = find_condition(after.status.conditions, QUOTA_RESERVED), after.spec.priority_class_ref
        waited = self._now() - (parse_time(reserved.last_transition_time if reserved else None) or self._now())
        text = (
            f"Admitted by ClusterQueue {admission.cluster_queue}, wait time since reservation was {max(0, waited):.0f}s"
        )
        self._recorder.record(about, "Normal", "Admitted", text)
        lives.ADMITTED.add_whole(admission.cluster_queue, ref.name if ref else "")

    def _tell_pod(self, before: Workload, after: Workload) -> None:
        """Records on a pod that queues by itself what keeps its Workload out of the cycles."""
        waits, pod = find_condition(after.status.conditions, QUOTA_RESERVED), only_pod(after)
        reason = reason_of_wait(after)
        if pod is None or waits is None or reason in (None, reason_of_wait(before), Reason.PENDING_EVALUATION):
            return
        self._recorder.record(pod, "Warning", waits.reason, waits.message)

    async def deactivate(self, workload: Workload) -> None:
        """Deactivates the Workload; its eviction follows once the change is observed. Raises ApiErrors."""
        await self.change(workload, {"active": False})

    async def change(self, workload: Workload, spec: Mapping[str, Any]) -> Workload:
        """Changes fields of the spec in the observed version, and returns the Workload in the answer. Raises ApiErrors."""
        meta = workload.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version}, "spec": spec}
        answer = await self._kube.patch(
            WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE, decode=read_workload
        )
        self._views.workloads.observe(answer)
        return answer

    async def delete(self, workload: Workload, result: LifecycleStep) -> None:
        """Deletes exactly this Workload, and records the events of the step."""
        meta = workload.metadata
        try:
            await self._kube.delete(WORKLOADS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            log.debug("already gone", extra={"workload": workload.key})
            return
        for event in result.events:
            self._recorder.record(ref_to(WORKLOADS, workload), event.type, event.reason, event.message)

    async def let_go(self, workload: Workload) -> None:
        """Removes the finalizer of a Workload that is being deleted. Raises ApiErrors."""
        finalizers = [name for name in workload.metadata.finalizers if name != IN_USE_FINALIZER]
        if len(finalizers) == len(workload.metadata.finalizers):
            return
        meta = workload.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}}
        try:
            await self._kube.patch(WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE)
        except NotFound:
            log.debug("already gone", extra={"workload": workload.key})
