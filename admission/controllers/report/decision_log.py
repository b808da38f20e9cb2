"""Logs one INFO line per decision: workload, queue, outcome, flavors, domains, reason, milliseconds.

A cycle evaluates the head of a queue again whenever the cluster changes, so a wait is logged once per reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from admission.engine.decision import Admit, Decision, Evict, Preempt, Reject, Wait
from admission.engine.model import Admission, PodSetAdmission
from api.process import tracing
from api.workloads import Workload

log = logging.getLogger(__name__)

DOMAINS_SHOWN: Final = 8


class DecisionLog:
    """Logs decisions. `workloads` is a live view by key, from which the queue of a decision is read."""

    def __init__(self, workloads: Mapping[str, Workload]) -> None:
        self._workloads = workloads
        self._reasons: dict[str, str] = {}

    def decided(self, decision: Decision, milliseconds: float) -> None:
        """Logs the decision unless its reason is unchanged; `milliseconds` is the duration of the whole cycle."""
        if not (log.isEnabledFor(logging.INFO) or tracing.is_on()):
            return
        facts = _facts(decision)
        key, reason = decision.workload, f"{facts['outcome']} {facts.get('reason', '')}"
        if self._reasons.get(key) == reason:
            return
        if isinstance(decision, Wait | Reject | Preempt):
            self._reasons[key] = reason
        else:
            self._reasons.pop(key, None)
        workload = self._workloads.get(key)
        queue = workload.spec.queue_name if workload is not None else ""
        log.info("decision", extra={"workload": key, "queue": queue, **facts, "milliseconds": round(milliseconds, 1)})
        if workload is not None and tracing.is_on():
            _trace(workload, queue, facts, milliseconds)

    def forget(self, key: str) -> None:
        """Drops the logged reason of a deleted Workload."""
        self._reasons.pop(key, None)


def _trace(workload: Workload, queue: str, facts: Mapping[str, Any], milliseconds: float) -> None:
    now = time.time()
    texts = {name: fact if isinstance(fact, str | int) else ", ".join(fact) for name, fact in facts.items()}
    about = {"workload": workload.key, "queue": queue, **texts}
    attributes = {f"stowage.{name}": value for name, value in about.items()}
    tracing.record("decide", workload.metadata, now - milliseconds / 1000, now, attributes)


def _facts(decision: Decision) -> dict[str, Any]:
    match decision:
        case Admit(admission=admission):
            return {"outcome": "Admitted", "cluster_queue": admission.cluster_queue, **_placed(admission)}
        case Preempt(victims=victims, message=message):
            named = [victim.workload for victim in victims[:DOMAINS_SHOWN]]
            return {"outcome": "Preempting", "reason": message, "victims": named, "victim_count": len(victims)}
        case Evict(reason=reason, message=message):
            return {"outcome": "Evicted", "reason": reason, "detail": message}
        case Wait(reason=reason, message=message):
            return {"outcome": "Waiting", "reason": str(reason), "detail": message}
        case Reject(reason=reason, message=message):
            return {"outcome": "Rejected", "reason": str(reason), "detail": message}


def _placed(admission: Admission) -> dict[str, Any]:
    flavors = sorted({flavor for pod_set in admission.pod_sets for flavor in pod_set.flavors.values()})
    placed = [pod_set for pod_set in admission.pod_sets if pod_set.assignment is not None]
    shown = list(islice((text for pod_set in placed for text in _domains(pod_set)), DOMAINS_SHOWN))
    more = sum(len(pod_set.assignment.domains) for pod_set in placed if pod_set.assignment) - len(shown)
    return {"flavors": flavors, "domains": [*shown, f"and {more} more"] if more else shown}


def _domains(pod_set: PodSetAdmission) -> Iterator[str]:
    for domain in pod_set.assignment.domains if pod_set.assignment else ():
        yield f"{pod_set.name} {'/'.join(domain.values)}: {domain.count}"
