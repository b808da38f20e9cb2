"""Events on waiting gang members that state why their gang waits. Pure apart from the memory of past events.

The pod controller calls it with each reconcile of a gang. `kubectl describe pod` shows events, so each gated member gets one.
Each costs the API server a write, so a new gang gets none for PATIENCE seconds, a pod at most one per AGAIN seconds however
often the reason changes, and all gangs together at most RATE per second; further pods get theirs later. An unchanged reason is
recorded again before the API server expires its event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from admission.controllers.state.actions import PlannedEvent
from admission.integrations.pods.pod import QueuedPod
from api import names
from api.meta import find_condition
from api.workloads import Workload

PATIENCE: Final = 5.0
"""Seconds before a pod gets its first event: most pods start sooner."""
AGAIN: Final = 60.0
KEPT: Final = 1800.0
"""Seconds after which an unchanged reason is recorded again; events are kept for an hour."""
RATE: Final = 20.0
BURST: Final = 100.0
"""Events per second of all gangs together, and the size of a burst."""


def reason_of(workload: Workload | None, note: str) -> str:
    """Returns why pods of this Workload wait, or an empty string."""
    if note or workload is None:
        return note
    waits = find_condition(workload.status.conditions, names.QUOTA_RESERVED)
    if waits is None or waits.status == "True":
        return ""
    return waits.message


class GangMessages:
    """The events recorded on pods of waiting gangs."""

    def __init__(self) -> None:
        self._reported: dict[str, dict[str, tuple[str, float]]] = {}
        self._left, self._since = BURST, 0.0

    def due(
        self, key: str, gang: str, pods: Sequence[QueuedPod], reasons: Mapping[str, str], now: float
    ) -> tuple[list[tuple[QueuedPod, PlannedEvent]], float | None]:
        """Returns the events that are due, and the seconds until the next check; `reasons` is keyed by pod."""
        waiting = [pod for pod in pods if pod.gated and pod.lasting and reasons.get(pod.key)]
        before = self._reported.pop(key, {})
        if not waiting:
            return [], None
        self._left = min(BURST, self._left + (now - self._since) * RATE)
        self._since = now
        reported = self._reported[key] = {
            pod.metadata.uid: before[pod.metadata.uid] for pod in waiting if pod.metadata.uid in before
        }
        events, again = [], KEPT
        for pod in waiting:
            text = reasons[pod.key]
            at = _moment(pod, text, reported.get(pod.metadata.uid))
            if at <= now and self._left >= 1:
                self._left -= 1
                reported[pod.metadata.uid] = (text, now)
                events.append((pod, PlannedEvent(names.ReplacementReason.GANG_WAITING, f"gang {gang} waits: {text}")))
            else:
                again = min(again, max(at - now, 1.0))
        return events, again

    def forget(self, key: str) -> None:
        """Drops the memory of a deleted gang."""
        self._reported.pop(key, None)


def _moment(pod: QueuedPod, text: str, reported: tuple[str, float] | None) -> float:
    """Returns the earliest time of the pod's next event."""
    if reported is None:
        return pod.created + PATIENCE
    return reported[1] + (KEPT if reported[0] == text else AGAIN)
