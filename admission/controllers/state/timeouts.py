"""Timeouts of admitted workloads: pods that do not become ready, and the maximum execution time. Pure.

Source: lifecycle.md 3.6. Pods have `timeout` from the admission to become ready for the first time, and `recovery_timeout`
from the failure of one of them. A workload that misses it is evicted and may return after min(base * 2^(n-1), max) seconds,
for the n-th eviction; one that returned too often is deactivated. A jitter of at most a ten-thousandth of the wait, as in
Kueue, separates workloads evicted at once; it is derived from the workload's uid, so that the same history gives the same
times.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Final

from admission.controllers.state import conditions
from admission.controllers.state.evictions import Eviction, evicted
from api.meta import find_condition, is_true, parse_time, rfc3339
from api.names import ADMITTED, PODS_READY, DeactivationReason, EvictedReason, PodsReadyReason
from api.workloads import RequeueState, Workload, WorkloadStatus

JITTER: Final = 0.0001
# 2^64 seconds exceed any maximum wait, so more doublings change nothing.
_DOUBLINGS: Final = 64


@dataclass(frozen=True, slots=True)
class RequeueBackoff:
    """The backoff of evicted workloads, in seconds. `limit` is how often a workload may return, None for no limit."""

    base: float = 60.0
    longest: float = 3600.0
    limit: int | None = None

    def wait(self, times: int, uid: str) -> float:
        """Returns the seconds to wait after eviction number `times`, counted from 1."""
        plain: float = min(self.base * 2 ** min(times - 1, _DOUBLINGS), self.longest)
        return plain * (1 + JITTER * zlib.crc32(uid.encode()) / 2**32)


@dataclass(frozen=True, slots=True)
class PodsReadyRules:
    """Timeouts in seconds."""

    timeout: float
    recovery_timeout: float | None = None
    """None for the same as the timeout."""
    backoff: RequeueBackoff = RequeueBackoff()


def pods_deadline(workload: Workload, rules: PodsReadyRules) -> tuple[float, str] | None:
    """Returns when pods of an admitted workload must be ready, in epoch seconds, and the reason for that time limit.

    Returns None while they are ready, and for a workload that is not admitted.
    """
    admitted = find_condition(workload.status.conditions, ADMITTED)
    if admitted is None or admitted.status != "True" or is_true(workload.status.conditions, PODS_READY):
        return None
    ready = find_condition(workload.status.conditions, PODS_READY)
    if ready is not None and ready.reason == PodsReadyReason.WAIT_FOR_RECOVERY:
        limit = rules.timeout if rules.recovery_timeout is None else rules.recovery_timeout
        return (parse_time(ready.last_transition_time) or 0.0) + limit, PodsReadyReason.WAIT_FOR_RECOVERY
    return (parse_time(admitted.last_transition_time) or 0.0) + rules.timeout, PodsReadyReason.WAIT_FOR_START


def pods_overdue(
    workload: Workload, status: WorkloadStatus, cause: str, rules: PodsReadyRules, now: float
) -> tuple[WorkloadStatus, Eviction | None]:
    """Returns the status after a missed deadline: evicted, or, after too many returns, to be deactivated."""
    generation, state = workload.metadata.generation, status.requeue_state or RequeueState()
    times = (state.count or 0) + 1
    if rules.backoff.limit is not None and times > rules.backoff.limit:
        text = "exceeding the maximum number of re-queuing retries"
        return conditions.deactivating(status, DeactivationReason.REQUEUING_LIMIT, text, now, generation), None
    eviction = Eviction(EvictedReason.PODS_READY_TIMEOUT, f"Exceeded the PodsReady timeout {workload.key}", cause)
    # Times are written in whole seconds; rounding down would let the workload return too early.
    at = rfc3339(math.ceil(now + rules.backoff.wait(times, workload.metadata.uid)))
    again = state.model_copy(update={"count": times, "requeue_at": at})
    status = evicted(status, eviction, now, generation).model_copy(update={"requeue_state": again})
    return status, eviction


def execution_deadline(workload: Workload) -> float | None:
    """Returns when an admitted workload's execution time ends, counting earlier admissions; None for no limit."""
    limit = workload.spec.maximum_execution_time_seconds
    admitted = find_condition(workload.status.conditions, ADMITTED)
    if limit is None or admitted is None or admitted.status != "True":
        return None
    past = workload.status.accumulated_past_execution_time_seconds or 0
    return (parse_time(admitted.last_transition_time) or 0.0) + limit - past
