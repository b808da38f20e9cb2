"""Tests whether the ledger as it stands would admit a workload if it were the head of its queue.

Runs the steps of the cycle (solve.py, then fewer pods if the workload can start with fewer) for one workload and charges
nothing. Ask inside a trial to learn the effect of a change. The order of the queues is ignored. Called by explain.py,
trials.py and capacity_changes.py; cycle/cycle.py calls `cannot_run` with the decision that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from admission.engine.cycle.held_capacity import drawing
from admission.engine.cycle.nominate import Nominator
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import Nodes, Unsolved, solve
from admission.engine.flavors.assign import NoPreemption
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, FlavorResource, StopPolicy, Workload
from admission.engine.reasons import Reason

FOREVER = 10.0**12
"""Seconds after which every required level that gives way with time has done so."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt."""

    fits: bool
    reason: Reason = Reason.PENDING_EVALUATION
    """That of the condition, if it does not fit."""
    message: str = ""
    """That of the condition, if it does not fit."""
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)
    """The quota that the workload would take."""


def attempt(
    ledger: Ledger, workload: Workload, now: float, *, empty: bool = False, nodes: bool = True
) -> AttemptResult:
    """Tries the workload, which must not be charged yet, with as many pods as can start at `now` (epoch seconds).

    `empty` places all pods on nodes without admitted workloads. `nodes` False tests all pods against quota alone. The message
    counts the capacity of now; the condition's message counts that of an empty cluster if not even that suffices
    (cycle_decision.py).
    """
    queue = ledger.quota.spec(workload.cluster_queue)
    if queue is None:
        return AttemptResult(False, Reason.MISCONFIGURED, f"ClusterQueue {workload.cluster_queue} not found")
    if queue.stop is not StopPolicy.NONE or queue.inactive is not None or ledger.quota.cyclic(queue.name):
        return AttemptResult(False, Reason.SUSPENDED, f"ClusterQueue {queue.name} is inactive")
    with drawing(ledger, workload):
        return _attempt(ledger, workload, queue, now, empty=empty, nodes=nodes)


def _attempt(
    ledger: Ledger, workload: Workload, queue: ClusterQueue, now: float, *, empty: bool, nodes: bool
) -> AttemptResult:
    which = Nodes.EMPTY if empty else Nodes.AS_THEY_ARE if nodes else Nodes.IGNORED
    nominations = solve(ledger, (workload,), now, nodes=which)
    if not isinstance(nominations, Unsolved):
        return _fits(nominations[0])
    if which is Nodes.AS_THEY_ARE and fewest(workload) != workload:
        some = Nominator(ledger, NoPreemption(ledger.quota), now, thorough=True).fewer(workload, queue)
        if some is not None:
            return _fits(some)
    return AttemptResult(
        False,
        nominations.reason,
        nominations.message,
        {} if nominations.assignment is None else nominations.assignment.usage,
    )


def _fits(nomination: Nomination) -> AttemptResult:
    return AttemptResult(True, message=nomination.assignment.message(), usage=nomination.assignment.usage)


def cannot_run(ledger: Ledger, workload: Workload) -> AttemptResult | None:
    """Returns why the workload would not fit even if it were alone, all quota were free and its levels were relaxed as far as
    they ever will be.

    Returns None if it would fit, possibly with its minimum of pods. Nodes, foreign pods, quotas and flavors count as they are
    now.
    """
    with ledger.trial():
        for name in {workload.cluster_queue, *ledger.quota.relatives(workload.cluster_queue)}:
            ledger.quota.remove(name, ledger.quota.usage(name))
        alone = attempt(ledger, fewest(workload), workload.queued + FOREVER, empty=True)
    passing = (Reason.MISCONFIGURED, Reason.SUSPENDED)
    return None if alone.fits or alone.reason in passing else alone


def fewest(workload: Workload) -> Workload:
    """Returns the workload with the fewest pods that it can start with; unchanged if it needs all of them."""
    pod_sets = (p if p.min_count is None else replace(p, count=min(p.count, p.min_count)) for p in workload.pod_sets)
    return replace(workload, pod_sets=tuple(pod_sets))
