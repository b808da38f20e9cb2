"""Computes a PodGroup's status: phase, and counts of its pods. Pure; `podgroups` writes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from admission.controllers.pods.gangs.gang import GangTerms, backoff_message
from admission.controllers.pods.gangs.unbindable import short_of_members
from admission.integrations.pods.pod import QueuedPod
from api.groups import Phase, PodGroupStatus
from api.meta import Condition, find_condition, is_true, object_key, rfc3339, set_condition
from api.names import ADMITTED, GANG_STARTED, QUOTA_RESERVED, GangStartedReason
from api.workloads import Workload


def next_status(
    old: PodGroupStatus,
    pods: Sequence[QueuedPod],
    workload: Workload | None,
    terms: GangTerms,
    now: float,
    held: Mapping[str, str] | None = None,
) -> PodGroupStatus:
    """Returns the updated status; `now` is in epoch seconds, `held` says what holds members, by pod key."""
    there = [pod for pod in pods if not pod.deleted or pod.bound]
    phases = Counter(pod.phase for pod in there)
    counts = {
        "scheduled": sum(pod.bound for pod in there),
        "running": phases["Running"],
        "succeeded": phases["Succeeded"],
        "failed": phases["Failed"],
    }
    held = held or {}
    short = short_of_members(sum(pod.counts and pod.key not in held for pod in there), list(held.values()), terms)
    update: dict[str, object] = {**counts, "phase": _phase(old, there, counts, workload, terms, short)}
    if there:
        first = min(there, key=lambda pod: (pod.created, pod.metadata.name))
        update["occupied_by"] = object_key(first.metadata.namespace, first.owner) if first.owner else None
    admitted = find_condition(workload.status.conditions, ADMITTED) if workload else None
    if admitted is not None and admitted.status == "True":
        update["schedule_start_time"] = admitted.last_transition_time
    update["requeue_state"] = terms.stops
    update["conditions"] = _conditions(old, workload, short or _backoff_message(workload, terms, now), now)
    return old.model_copy(update=update)


def _backoff_message(workload: Workload | None, terms: GangTerms, now: float) -> str | None:
    return backoff_message(terms, now) if workload is None else None


def _phase(
    old: PodGroupStatus,
    pods: Sequence[QueuedPod],
    counts: dict[str, int],
    workload: Workload | None,
    terms: GangTerms,
    short: str | None,
) -> str:
    if not pods:
        return old.phase if old.phase in (Phase.FINISHED, Phase.FAILED) else Phase.PENDING
    if terms.minimum is None:
        return Phase.UNKNOWN
    done, running, failed = counts["succeeded"], counts["running"], counts["failed"]
    enough = terms.minimum
    if done >= enough and not running:
        return Phase.FINISHED
    if failed and failed + running + done >= enough > running + done:
        return Phase.FAILED
    if running + done >= enough:
        return Phase.RUNNING
    if counts["scheduled"] >= enough:
        return Phase.SCHEDULED
    if workload is not None and is_true(workload.status.conditions, ADMITTED):
        return Phase.SCHEDULING
    return Phase.PENDING if short else Phase.PRE_SCHEDULING


def _conditions(old: PodGroupStatus, workload: Workload | None, short: str | None, now: float) -> tuple[Condition, ...]:
    started = workload is not None and is_true(workload.status.conditions, ADMITTED)
    reason, message = GangStartedReason.ADMITTED, "the pods were started"
    if not started:
        waits = find_condition(workload.status.conditions, QUOTA_RESERVED) if workload else None
        reason, message = GangStartedReason.WAITING_FOR_PODS, short or "the gang is about to be queued"
        if waits is not None and not short:
            reason, message = waits.reason, waits.message
    new = Condition(
        type=GANG_STARTED,
        status="True" if started else "False",
        reason=reason,
        message=message,
        last_transition_time=rfc3339(now),
    )
    return set_condition(old.conditions, new)
