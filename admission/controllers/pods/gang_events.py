"""Which waiting members of gangs are told why their gang waits, as events on their pods. Pure but for what it remembers.

`kubectl describe pod` shows events, so each member that is still gated gets one. That costs the API server a write for each
pod, so a new gang gets none at once, and no gang more than one in AGAIN seconds however often the reason changes,
and all gangs together no more than RATE pods a second; a pod beyond that is told later. A reason that stays is told
again before the API server forgets its event. The pod controller calls it with each look at a gang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from admission.controllers.actions import PlannedEvent
from admission.integrations.pod import QueuedPod
from api import names
from api.meta import find_condition
from api.workloads import Workload

PATIENCE: Final = 5.0
"""Seconds that a pod has waited before it is told: most are let go sooner."""
AGAIN: Final = 60.0
KEPT: Final = 1800.0
"""Seconds after which the same is said again: events are kept for an hour."""
RATE: Final = 20.0
BURST: Final = 100.0
"""Events a second, of all gangs together, and how many at once."""


def reason_of(workload: Workload | None, note: str) -> str:
    """Why pods of this Workload wait; empty where they do not."""
    if note or workload is None:
        return note
    waits = find_condition(workload.status.conditions, names.QUOTA_RESERVED)
    if waits is None or waits.status == "True":
        return ""
    return waits.message


class GangMessages:
    """What the pods of waiting gangs were told."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, tuple[str, float]]] = {}
        self._left, self._since = BURST, 0.0

    def due(
        self, key: str, gang: str, pods: Sequence[QueuedPod], reasons: Mapping[str, str], now: float
    ) -> tuple[list[tuple[QueuedPod, PlannedEvent]], float | None]:
        """The events that are due now, and when to look again; `reasons` by the key of the pod, empty for none."""
        waiting = [pod for pod in pods if pod.gated and pod.lasting and reasons.get(pod.key)]
        before = self._told.pop(key, {})
        if not waiting:
            return [], None
        self._left = min(BURST, self._left + (now - self._since) * RATE)
        self._since = now
        told = self._told[key] = {
            pod.metadata.uid: before[pod.metadata.uid] for pod in waiting if pod.metadata.uid in before
        }
        events, again = [], KEPT
        for pod in waiting:
            text = reasons[pod.key]
            at = _moment(pod, text, told.get(pod.metadata.uid))
            if at <= now and self._left >= 1:
                self._left -= 1
                told[pod.metadata.uid] = (text, now)
                events.append((pod, PlannedEvent(names.GANG_WAITING, f"gang {gang} waits: {text}")))
            else:
                again = min(again, max(at - now, 1.0))
        return events, again

    def forget(self, key: str) -> None:
        """The gang is gone."""
        self._told.pop(key, None)


def _moment(pod: QueuedPod, text: str, told: tuple[str, float] | None) -> float:
    """When the pod is to be told, at the earliest."""
    if told is None:
        return pod.created + PATIENCE
    return told[1] + (KEPT if told[0] == text else AGAIN)
