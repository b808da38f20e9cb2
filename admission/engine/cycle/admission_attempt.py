"""Would the ledger as it stands admit this workload, if it were its turn? The question behind every claim of an explanation.

The same steps as the cycle's (solve.py, and fewer pods where it can start with fewer), for one workload and without
charging anything. Ask inside a trial to learn what a change would do. No queue is looked at: whether others come first
is not the question here. Called by explain.py, trials.py and capacity_changes.py; `cannot_run` also by cycle/cycle.py,
with the decision that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from admission.engine.cycle.nominate import Nominator
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import Nodes, Unsolved, solve
from admission.engine.decision import Reason
from admission.engine.flavors.assign import NoPreemption
from admission.engine.ledger import Ledger
from admission.engine.model import FlavorResource, StopPolicy, Workload

FOREVER = 10.0**12
"""Seconds after which every required level that gives way with time has done so."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How it ends: `fits`, or `reason` and `message` as the condition would say them. `usage`: what quota it would take."""

    fits: bool
    reason: Reason = Reason.PENDING_EVALUATION
    message: str = ""
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)


def attempt(
    ledger: Ledger, workload: Workload, now: float, *, empty: bool = False, nodes: bool = True
) -> AttemptResult:
    """The workload (not charged yet) on the ledger at `now`, epoch seconds, with as many pods as can start.

    `empty`: nodes as if no workload were admitted, for all pods. `nodes` False: by quota alone, for all pods. The
    message counts what there is now; the condition's, what an empty cluster would hold where not even that is enough
    (cycle_decision.py).
    """
    queue = ledger.quota.spec(workload.cluster_queue)
    if queue is None:
        return AttemptResult(False, Reason.MISCONFIGURED, f"ClusterQueue {workload.cluster_queue} not found")
    if queue.stop is not StopPolicy.NONE:
        return AttemptResult(False, Reason.SUSPENDED, f"ClusterQueue {queue.name} is stopped")
    if queue.inactive is not None or ledger.quota.cyclic(queue.name):
        return AttemptResult(False, Reason.MISCONFIGURED, f"ClusterQueue {queue.name} is inactive")
    which = Nodes.EMPTY if empty else Nodes.AS_THEY_ARE if nodes else Nodes.IGNORED
    found = solve(ledger, (workload,), now, nodes=which)
    if not isinstance(found, Unsolved):
        return _fits(found[0])
    if which is Nodes.AS_THEY_ARE and fewest(workload) != workload:
        some = Nominator(ledger, NoPreemption(ledger.quota), now, thorough=True).fewer(workload, queue)
        if some is not None:
            return _fits(some)
    return AttemptResult(False, found.reason, found.message, {} if found.assignment is None else found.assignment.usage)


def _fits(found: Nomination) -> AttemptResult:
    return AttemptResult(True, message=found.assignment.message(), usage=found.assignment.usage)


def cannot_run(ledger: Ledger, workload: Workload) -> AttemptResult | None:
    """Why the workload would not fit if it were alone, with all quota free and every level relaxed that ever will be.

    None where it would, be it with as few pods as it can start with. Nodes, foreign pods, quotas and flavors
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
