"""Writes the cycle's admissions into Workload statuses and events.

The scheduler calls it and allocates or releases capacity by its result. A write ends only when its outcome is known: after a
lost answer or a 5xx, the Workload is read again, since the write may have succeeded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from admission.controllers.state import conditions, moving
from admission.controllers.state.checks import checks_for, own_checks
from admission.controllers.state.condition_table import Writer
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.ignored_constraints import ignored_constraints
from admission.controllers.write.outcome import Outcome
from admission.controllers.write.status import patch_status, read_again
from admission.engine import model
from admission.engine.convert import convert_admissions
from admission.engine.decision import Admit
from admission.metrics import lives
from api import backfill
from api.errors import Conflict, NotFound, ServerError, Unreachable
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.resources import WORKLOADS
from api.meta import find_condition, is_true, parse_time
from api.names import ADMITTED, EVICTED, FINISHED, QUOTA_RESERVED
from api.process import tracing
from api.workloads import Admission, Workload, WorkloadStatus

log = logging.getLogger(__name__)

_ATTEMPTS = 5


class AdmissionWriter:
    """Writes admissions and repaired assignments."""

    def __init__(self, kube: Kube, views: Views, recorder: EventRecorder, now: Callable[[], float] = time.time) -> None:
        self._kube, self._views, self._recorder, self._now = kube, views, recorder, now

    async def admit(self, decision: Admit) -> Outcome:
        """Writes an admission; returns WRITTEN, OBSOLETE (it no longer waits) or FAILED. Raises permanent ApiErrors."""
        workload, conflicts, started = self._views.workloads.objects.get(decision.workload), 0, self._now()
        while conflicts < _ATTEMPTS:
            if workload is None or not _may_reserve(workload):
                return Outcome.OBSOLETE
            try:
                answer = await self._patch(workload, self._admitted(workload, decision))
            except NotFound:
                return Outcome.OBSOLETE
            except (Conflict, Unreachable, ServerError) as why:
                log.info("admission to be written again: %s", why, extra={"workload": decision.workload})
                conflicts += isinstance(why, Conflict)
                workload = await read_again(self._kube, self._views, workload)
                if workload is not None and is_true(workload.status.conditions, QUOTA_RESERVED):
                    return Outcome.WRITTEN  # the interrupted write had succeeded
                continue
            self._views.workloads.observe(answer)
            self._record_events(workload, answer, decision.considered)
            self._trace(workload, decision, started)
            return Outcome.WRITTEN
        return Outcome.FAILED

    async def move(self, decision: Admit) -> Outcome:
        """Writes a repaired assignment; returns WRITTEN, OBSOLETE, or STALE if the Workload changed since the decision."""
        return await self._change(decision, None)

    async def follow(self, decision: Admit) -> Outcome:
        """Writes the places that the pods of a job have after it shrank; returns the same as `move`."""
        return await self._change(decision, ("PlacesFollowed", "The places of the job are those of its running pods"))

    async def _change(self, decision: Admit, event: tuple[str, str] | None) -> Outcome:
        """Writes the assignment. `event` has the event's reason and message; None derives them from the failed nodes."""
        workload = self._views.workloads.objects.get(decision.workload)
        if workload is None or workload.status.admission is None or not _runs(workload):
            return Outcome.OBSOLETE
        status, failed = _moved(workload.status, workload.status.admission, decision)
        status = conditions.placed(status, self._now(), workload.metadata.generation)
        try:
            answer = await self._patch(workload, status)
        except NotFound:
            return Outcome.OBSOLETE
        except (Conflict, Unreachable, ServerError) as why:
            log.info("repair to be decided again: %s", why, extra={"workload": decision.workload})
            await read_again(self._kube, self._views, workload)
            return Outcome.STALE
        self._views.workloads.observe(answer)
        whose = f"Pods of failed node(s) {','.join(failed)}" if failed else "Pods that no node took"
        moved = ("NodeReplaced" if failed else "PodsDisplaced", f"{whose} were given other nodes of the topology")
        reason, text = event or moved
        self._recorder.record(ref_to(WORKLOADS, answer), "Normal", reason, text)
        return Outcome.WRITTEN

    async def relocate(
        self, place: model.Admission, seen: Workload, message: str, terms: Collection[str] = ()
    ) -> Outcome:
        """Writes the new place of a running workload, as it was `seen`; its job stops. Returns WRITTEN, LEFT or CHANGED.

        `terms` are the annotations under which it agreed to that.
        """
        workload: Workload | None = self._views.workloads.objects.get(seen.key)
        decision = Admit(seen.key, place)
        while True:
            if workload is None or workload.metadata.uid != seen.metadata.uid or not _runs(workload):
                return Outcome.LEFT
            if moving.is_moving(workload.status):
                return Outcome.WRITTEN  # the interrupted write had succeeded
            admission = workload.status.admission
            if (
                admission is None
                or admission != seen.status.admission
                or _values(workload, terms) != _values(seen, terms)
            ):
                return Outcome.CHANGED
            now, generation = self._now(), workload.metadata.generation
            status = conditions.placed(_moved(workload.status, admission, decision)[0], now, generation)
            status = moving.begun(status, message, now, generation)
            try:
                answer = await self._patch(workload, status)
            except NotFound:
                return Outcome.LEFT
            except (Conflict, Unreachable, ServerError) as why:
                log.info("move to be written again: %s", why, extra={"workload": seen.key})
                workload = await read_again(self._kube, self._views, workload)
                continue
            self._views.workloads.observe(answer)
            self._recorder.record(ref_to(WORKLOADS, answer), "Normal", "Moving", message)
            return Outcome.WRITTEN

    async def _patch(self, workload: Workload, status: WorkloadStatus) -> Workload:
        return await patch_status(self._kube, workload, status, Writer.SCHEDULER)

    def _admitted(self, workload: Workload, decision: Admit) -> WorkloadStatus:
        now, generation = self._now(), workload.metadata.generation
        admission = convert_admissions.to_status(decision.admission)
        note = "; ".join(filter(None, (decision.note, ignored_constraints(workload, admission, self._views))))
        status = conditions.reserved(workload.status, admission, now, generation, note)
        status = conditions.placed(status, now, generation)
        if (over := decision.overtaking) is not None:
            text = backfill.message(over.head, over.guess, over.until, over.start)
            status = conditions.backfilled(status, text, now, generation)
        queue = self._views.cluster_queues.objects.get(decision.admission.cluster_queue)
        checks = own_checks(workload) + (checks_for(queue, admission) if queue else ())
        status = conditions.with_checks(status, checks, now)
        return conditions.synced_admitted(status, now, generation)

    def _trace(self, workload: Workload, decision: Admit, started: float) -> None:
        """Adds the wait since the Workload was created or last evicted (in whole seconds), and the write, to its trace."""
        if not tracing.is_on():
            return
        evicted = find_condition(workload.status.conditions, EVICTED)
        times = (workload.metadata.creation_timestamp, evicted.last_transition_time if evicted else None)
        queued = max((parse_time(time) or 0.0 for time in times), default=started)
        about = {"stowage.workload": workload.key, "stowage.cluster_queue": decision.admission.cluster_queue}
        tracing.record("wait for quota", workload.metadata, min(queued, started), started, about)
        tracing.record("write the admission", workload.metadata, started, self._now(), about)

    def _record_events(self, before: Workload, after: Workload, considered: str) -> None:
        admission = after.status.admission
        if admission is None:
            return
        queue, ref = admission.cluster_queue, after.spec.priority_class_ref
        waited = max(0.0, self._now() - (parse_time(before.metadata.creation_timestamp) or self._now()))
        labels = (queue, ref.name if ref else "")
        lives.RESERVED.add_whole(*labels)
        lives.RESERVED_WAIT.add_whole(*labels, waited)
        about = ref_to(WORKLOADS, after)
        if ignored := ignored_constraints(after, admission, self._views):
            self._recorder.record(about, "Warning", "ConstraintIgnored", ignored)
        text = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited:.0f}s{considered}"
        self._recorder.record(about, "Normal", "QuotaReserved", text)
        if is_true(after.status.conditions, ADMITTED):
            lives.ADMITTED.add_whole(*labels)
            text = f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
            self._recorder.record(about, "Normal", "Admitted", text)


def _moved(status: WorkloadStatus, admission: Admission, decision: Admit) -> tuple[WorkloadStatus, list[str]]:
    """Returns the status with the new assignments, and the failed nodes that are no longer used."""
    new = {
        psa.name: psa.topology_assignment
        for psa in convert_admissions.to_status(decision.admission).pod_set_assignments
    }
    assignments = tuple(
        psa.model_copy(update={"topology_assignment": new.get(psa.name) or psa.topology_assignment})
        for psa in admission.pod_set_assignments
    )
    used = {
        domain.values[-1]
        for pod_set in decision.admission.pod_sets
        if pod_set.assignment is not None
        for domain in pod_set.assignment.domains
    }
    left = tuple(node for node in status.unhealthy_nodes if node.name in used)
    failed = [node.name for node in status.unhealthy_nodes if node.name not in used]
    repaired = admission.model_copy(update={"pod_set_assignments": assignments})
    return status.model_copy(update={"admission": repaired, "unhealthy_nodes": left}), failed


def _values(workload: Workload, keys: Collection[str]) -> list[str | None]:
    """Returns the values of these annotations."""
    return [workload.metadata.annotations.get(key) for key in keys]


def _may_reserve(workload: Workload) -> bool:
    """Reports whether the Workload still waits for quota, as the decision assumed."""
    states = workload.status.conditions
    return (
        workload.spec.active
        and not workload.metadata.deletion_timestamp
        and not is_true(states, QUOTA_RESERVED)
        and not is_true(states, FINISHED)
    )


def _runs(workload: Workload) -> bool:
    states = workload.status.conditions
    return is_true(states, QUOTA_RESERVED) and not is_true(states, EVICTED) and not is_true(states, FINISHED)
