"""Kueue's texts about an eviction (cycle.md 4.8). Controllers use them in conditions and events."""

from __future__ import annotations

import re
from typing import Final

from admission.engine.decision import PreemptionReason
from admission.engine.model import Workload
from admission.engine.quota.tree import QuotaTree

_TEXTS = {
    PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    PreemptionReason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    PreemptionReason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
    PreemptionReason.OUTLASTED: "the start of a workload that it overtook",
}
_UNKNOWN = "UNKNOWN"
_BEFORE: Final = "Preempted to accommodate a workload (UID: "
_UID: Final = re.compile(re.escape(_BEFORE) + "([0-9A-Za-z-]{1,64}), ")


def eviction_message(quota: QuotaTree, preemptor: Workload, queue: str, claim: PreemptionReason) -> str:
    """Returns the message of the victim's conditions; `queue` is the ClusterQueue of the victim's admission."""
    return (
        f"{_BEFORE}{preemptor.uid or _UNKNOWN}, JobUID: {preemptor.job_uid or _UNKNOWN}) "
        f"due to {_TEXTS[claim]}; preemptor path: {path(quota, preemptor.cluster_queue)}; preemptee path: {path(quota, queue)}"
    )


def preemptor_of(message: str) -> str:
    """Returns the UID of the preemptor that the message of a victim's condition names; an empty text if it names none."""
    match = _UID.match(message)
    return "" if match is None else match.group(1)


def priorities(preemptor: Workload, victim: Workload) -> str:
    """Returns the end of an eviction event's message, with its leading semicolon."""
    return f"; preemptor {_priority(preemptor)}; preemptee {_priority(victim)}"


def preempted_event(preemptor: Workload, victim: Workload, queue: str) -> str:
    """Returns the message of the preemptor's event PreemptedWorkload; `queue` is the ClusterQueue of the victim's admission."""
    name = victim.key.removeprefix("/")
    return f"Preempted workload {name} (UID: {victim.uid}) in ClusterQueue {queue}{priorities(preemptor, victim)}"


def path(quota: QuotaTree, queue: str) -> str:
    """Returns the queue's path in the cohort tree: /root/.../queue."""
    node = quota.node(queue)
    above = [] if node is None else [ancestor.name for ancestor in node.ancestors()]
    return "".join(f"/{name}" for name in (*reversed(above), queue))


def _priority(workload: Workload) -> str:
    base = workload.priority - workload.boost
    return f"effective priority: {workload.priority} (base: {base}, boost: {workload.boost})"
