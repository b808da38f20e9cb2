"""Chooses victims so that a waiting workload fits by quota and placement; the entry point of this package.

The cycle creates one `Preemptor` (ledger, time, and fair sharing if enabled) and asks it about each head:

    about = preemptor.about(workload)                 # a `VictimFinder` (flavors/assign.py) for this workload
    FlavorSearch(..., about, ...)                     # asks about.simulate(...): would evicting help, by quota alone
    victims = about.targets(workload, assignment)     # where the assignment's mode is below Fit and above NoFit

If a pod set could not be placed, each of its resources must be marked as needing capacity before `targets` is called: give the
picks a mode below Fit (NO_CANDIDATES, PREEMPT or RECLAIM), as Kueue does. The answer is empty unless the workload fits after
exactly those evictions: all quota of `assignment.usage`, and a placement for every pod set with a topology. All checks run in
trials on the live ledger and leave it unchanged.

The victims are Kueue's if the placement profile (of the workload, its queue, or the options) is Compatible or LeastFree;
otherwise they are the cheapest (cheapest.py). Under fair sharing Kueue's rules choose, because shares decide there; and
workloads of an elastic quota are evicted in the documented order: lowest priority first, then latest start (elastic-quota.md).
If that does not free capacity in which the pods can be placed, other victims are searched under the same rules
(fair_cheapest.py, cheapest.py). wording.py has the texts of conditions and events. This package does not decide when to evict
and evicts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.decision import Certificate, Proof, Victim
from admission.engine.flavors.assign import FlavorAssignment, Mode
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import FlavorResource, Profile, Workload
from admission.engine.preemption.candidates import PreemptionContext
from admission.engine.preemption.cheapest import VictimChoice, cheapest
from admission.engine.preemption.classical import classical
from admission.engine.preemption.cost import cost_of
from admission.engine.preemption.fair import fair
from admission.engine.preemption.fair_cheapest import fair_cheapest
from admission.engine.preemption.removal import PreemptionTarget
from admission.engine.queue.past_usage import PastUsage
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.requests import placement_requests

BUDGET = 4_000
"""Default number of candidate sets that one search examines: a fifth of a second with 700 candidates."""


class Preemptor:
    """Chooses victims for one ledger at one moment (`now`, epoch seconds). `sharing` is None if fair sharing is off.

    `past` is the past usage of LocalQueues. `budget` is the number of candidate sets to examine for the cheapest; the options'
    `exact_budget` caps it.
    """

    def __init__(
        self,
        ledger: Ledger,
        now: float,
        sharing: FairSharingRules | None = None,
        budget: int = BUDGET,
        past: PastUsage | None = None,
    ) -> None:
        self._ledger, self._now, self._sharing, self._past = ledger, now, sharing, past or None
        self._budget = min(budget, ledger.options.exact_budget)

    def about(self, workload: Workload) -> WorkloadPreemption:
        """Returns a `VictimFinder` for this workload."""
        return WorkloadPreemption(self._ledger, workload, self._now, self._sharing, self._budget, self._past)


class WorkloadPreemption:
    """Preemption questions about one workload. Implements `VictimFinder` of flavors/assign.py."""

    def __init__(
        self,
        ledger: Ledger,
        workload: Workload,
        now: float,
        sharing: FairSharingRules | None,
        budget: int,
        past: PastUsage | None,
    ) -> None:
        self._ledger, self._workload, self._now, self._sharing = ledger, workload, now, sharing
        self._budget, self._past = budget, past

    def simulate(self, queue: str, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        """Returns the mode (NO_CANDIDATES, PREEMPT, or RECLAIM) and the borrowing level after evictions, by quota alone.

        The mode is PREEMPT if workloads of the own queue are among the victims. `amount` is in the resource's units.
        """
        quota = self._ledger.quota
        spec, node = quota.spec(queue), quota.node(queue)
        if spec is None or node is None:
            return Mode.NO_CANDIDATES, 0
        needs = {fr: amount}
        context = PreemptionContext(self._workload, spec, node, needs, frozenset(needs), (), self._now, self._past)
        victims = self._kueue_choice(context)
        with self._ledger.trial():
            for one in victims:
                quota.remove(one.candidate.node.name, one.candidate.usage)
            level = quota.borrowing(queue, fr, amount).level
        if not victims:
            return Mode.NO_CANDIDATES, level
        own = any(one.candidate.node is node for one in victims)
        return (Mode.PREEMPT if own else Mode.RECLAIM), level

    def targets(self, workload: Workload, assignment: FlavorAssignment) -> Sequence[Victim]:
        """Returns the victims with which the workload fits, in the order chosen; none if evictions do not help."""
        choice = self.choice(workload, assignment)
        return () if choice is None else tuple(one.victim for one in choice.targets)

    def choice(self, workload: Workload, assignment: FlavorAssignment) -> VictimChoice | None:
        """Returns the victims with their certificate, or None if the workload's queue is unknown."""
        quota = self._ledger.quota
        spec, node = quota.spec(workload.cluster_queue), quota.node(workload.cluster_queue)
        if spec is None or node is None:
            return None
        requests = placement_requests(workload, spec, assignment, self._ledger.flavors, self._now)
        short = needed(assignment)
        context = PreemptionContext(
            workload, spec, node, assignment.usage, short, requests, self._now, self._past, assignment
        )
        profile = workload.profile or spec.profile or self._ledger.options.profile
        exact, keeps_nominal = profile is Profile.EXACT, context.policy.keeps_nominal
        by_usage = (
            spec.by_usage and self._past is not None
        )  # the usage of its LocalQueues comes before what evictions cost
        if exact and not keeps_nominal and not by_usage:
            if self._sharing is not None:
                return fair_cheapest(self._ledger, context, self._sharing, self._budget)
            return cheapest(self._ledger, context, self._budget)
        targets = tuple(self._kueue_choice(context))
        if exact and requests and not targets:
            return cheapest(self._ledger, context, self._budget)
        cost = cost_of((one.candidate.workload for one in targets), self._now) if targets else ()
        return VictimChoice(targets, Certificate(Proof.FEASIBLE, cost))

    def _kueue_choice(self, context: PreemptionContext) -> list[PreemptionTarget]:
        if self._sharing is not None and not context.policy.keeps_nominal:
            return fair(self._ledger, context, self._sharing)
        return classical(self._ledger, context)


def needed(assignment: FlavorAssignment) -> frozenset[FlavorResource]:
    """Returns the (flavor, resource) pairs that are short: those whose pick is not Fit."""
    return frozenset(
        (pick.flavor, resource)
        for pod_set in assignment.pod_sets
        for resource, pick in pod_set.picks.items()
        if pick.mode < Mode.FIT
    )
