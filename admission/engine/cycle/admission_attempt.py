"""Would the ledger as it stands admit this workload, if it were its turn? The question behind every claim of an explanation.

The same steps as the cycle's (flavors, quota, place, the next flavor where a placement fails, fewer pods where it can start
with fewer), for one workload and without booking anything. Ask inside a trial to learn what a change would do. No queue is
looked at: whether others come first is not the question here. Called by explain.py, trying.py and growing.py; `cannot_run`
also by cycle/cycle.py, with the decision that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from admission.engine.cycle.nominate import Nominator
from admission.engine.decision import Reason
from admission.engine.flavors.assign import FlavorAssignment, Mode, NoPreemption
from admission.engine.flavors.search import FlavorSearch, Scope
from admission.engine.ledger import Ledger
from admission.engine.model import ClusterQueue, FlavorResource, StopPolicy, Workload
from admission.engine.requests import placement_requests

FOREVER = 10.0**12
"""Seconds after which every required level that gives way with time has done so."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ends: `fits`, or `reason` and `message` as the condition would say them. `usage`: what quota it would take."""

    fits: bool
    reason: Reason = Reason.PENDING_EVALUATION
    message: str = ""
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)


def attempt(ledger: Ledger, workload: Workload, now: float, *, empty: bool = False, nodes: bool = True) -> Outcome:
    """The workload (not charged yet) on the ledger at `now`, epoch seconds, with as many pods as can start.

    `empty`: nodes as if no workload were admitted, for all pods. `nodes` False: by quota alone, for all pods. The message
    counts what there is now; the condition's, what an empty cluster would hold where not even that is enough (turn.py).
    """
    queue = ledger.quota.spec(workload.cluster_queue)
    if queue is None:
        return Outcome(False, Reason.MISCONFIGURED, f"ClusterQueue {workload.cluster_queue} not found")
    if queue.stop is not StopPolicy.NONE:
        return Outcome(False, Reason.SUSPENDED, f"ClusterQueue {queue.name} is stopped")
    if queue.inactive is not None or ledger.quota.cyclic(queue.name):
        return Outcome(False, Reason.MISCONFIGURED, f"ClusterQueue {queue.name} is inactive")
    found = _whole(ledger, workload, queue, now, empty=empty, nodes=nodes)
    if found.fits or empty or not nodes or fewest(workload) == workload:
        return found
    some = Nominator(ledger, NoPreemption(ledger.quota), now, thorough=True).fewer(workload, queue)
    return found if some is None else Outcome(True, message=some.assignment.message(), usage=some.assignment.usage)


def _whole(ledger: Ledger, workload: Workload, queue: ClusterQueue, now: float, *, empty: bool, nodes: bool) -> Outcome:
    """With all pods."""
    refused: dict[tuple[str, str], str] = {}
    while True:
        search = FlavorSearch(queue, ledger.flavors, ledger.quota, NoPreemption(ledger.quota), Scope(refused))
        found = search.assign(workload)
        if found.mode < Mode.FIT:
            return Outcome(False, found.reason, found.message(), found.usage)
        failed = _failed(ledger, workload, found, now, empty=empty) if nodes else {}
        if not failed:
            return Outcome(True, message=found.message(), usage=found.usage)
        refused.update(failed)


def _failed(
    ledger: Ledger, workload: Workload, found: FlavorAssignment, now: float, *, empty: bool
) -> dict[tuple[str, str], str]:
    """(pod set, flavor) that found no place, with the message."""
    queue = ledger.quota.spec(workload.cluster_queue)
    requests = [] if queue is None else placement_requests(workload, queue, found, ledger.flavors, now)
    if not requests:
        return {}
    failures = ledger.place(requests, simulate_empty=empty).failures
    return {
        (request.pod_set.name, request.flavor): failures[request.pod_set.name].message
        for request in requests
        if request.pod_set.name in failures
    }


def cannot_run(ledger: Ledger, workload: Workload) -> Outcome | None:
    """Why the workload would not fit if it were alone, with all quota free and every level relaxed that ever will be.

    None where it would, be it with as few pods as it can start with. Nodes, pods that belong to nobody, quotas and flavors
    are as they are now.
    """
    with ledger.trial():
        for name in {workload.cluster_queue, *ledger.quota.relatives(workload.cluster_queue)}:
            ledger.quota.remove(name, ledger.quota.usage(name))
        alone = attempt(ledger, fewest(workload), workload.queued + FOREVER, empty=True)
    passing = (Reason.MISCONFIGURED, Reason.SUSPENDED)
    return None if alone.fits or alone.reason in passing else alone


def fewest(workload: Workload) -> Workload:
    """The workload with as few pods as it can start with; itself where it starts with all of them only."""
    pod_sets = (p if p.min_count is None else replace(p, count=min(p.count, p.min_count)) for p in workload.pod_sets)
    return replace(workload, pod_sets=tuple(pod_sets))
