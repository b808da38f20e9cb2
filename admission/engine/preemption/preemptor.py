"""Whom to evict so that a waiting workload fits, quota and placement both; the face of this package.

The cycle makes one `Preemptor` (a ledger, the time, and fair sharing if it is on) and asks it about each head:

    about = preemptor.about(workload)                 # a `Preemption` (flavors/assign.py) for this workload
    FlavorSearch(..., about, ...)                     # asks about.simulate(...): would evicting help, by quota alone
    victims = about.targets(workload, assignment)     # where the assignment's mode is below Fit and above NoFit

For `targets` every resource of a pod set whose placement failed must be one that needs room: give its picks a mode below Fit
(NO_CANDIDATES, PREEMPT or RECLAIM), as Kueue does. The answer is empty unless the workload fits when exactly those
victims are gone: all quota of `assignment.usage`, and a place for every pod set with a topology. All is found in trials on
the live ledger, which is left as it was.

Victims are Kueue's where the placement profile (the workload's, its queue's, that of the options) is Compatible or
LeastFree; else they are the cheapest. Fair sharing goes by Kueue's rules: there the shares decide who goes; and an elastic
quota's workloads evict in the order that is promised for them: lowest priority, latest start first (elastic-quota.md). Where
that does not free room that the pods can be placed in, other victims are looked for by the same rights (fairest.py,
cheapest.py). Texts for conditions and events are in wording.py. Decides nothing about when to evict; evicts nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.decision import Certificate, Proof, Victim
from admission.engine.flavors.assign import FlavorAssignment, Mode
from admission.engine.ledger import Ledger
from admission.engine.model import FlavorResource, Profile, Workload
from admission.engine.preemption.candidates import Question
from admission.engine.preemption.cheapest import Choice, cheapest
from admission.engine.preemption.classical import classical
from admission.engine.preemption.cost import cost_of
from admission.engine.preemption.fair import fair
from admission.engine.preemption.fairest import fairest
from admission.engine.preemption.removal import Taken
from admission.engine.quota.fairness import FairSharing
from admission.engine.requests import placement_requests

BUDGET = 4_000
"""Sets of victims that one search looks at, unless told otherwise: a fifth of a second with 700 candidates."""


class Preemptor:
    """Answers for one ledger at one moment (`now`: epoch seconds). `sharing`: None where fair sharing is off.

    `budget`: sets of victims looked at for the cheapest one; never more than the options' `exact_budget`.
    """

    def __init__(self, ledger: Ledger, now: float, sharing: FairSharing | None = None, budget: int = BUDGET) -> None:
        self._ledger, self._now, self._sharing = ledger, now, sharing
        self._budget = min(budget, ledger.options.exact_budget)

    def about(self, workload: Workload) -> Inquiry:
        """A `Preemption` for this workload."""
        return Inquiry(self._ledger, workload, self._now, self._sharing, self._budget)


class Inquiry:
    """Whom this workload could evict. Implements `Preemption` of flavors/assign.py."""

    def __init__(
        self, ledger: Ledger, workload: Workload, now: float, sharing: FairSharing | None, budget: int
    ) -> None:
        self._ledger, self._workload, self._now, self._sharing = ledger, workload, now, sharing
        self._budget = budget

    def simulate(self, queue: str, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        """NO_CANDIDATES, PREEMPT (own workloads among them) or RECLAIM, and the borrowing level then; by quota alone."""
        quota = self._ledger.quota
        spec, node = quota.spec(queue), quota.node(queue)
        if spec is None or node is None:
            return Mode.NO_CANDIDATES, 0
        question = Question(self._workload, spec, node, {fr: amount}, frozenset((fr,)), (), self._now)
        victims = self._kueue_choice(question)
        with self._ledger.trial():
            for one in victims:
                quota.remove(one.candidate.node.name, one.candidate.usage)
            level = quota.borrowing(queue, fr, amount).level
        if not victims:
            return Mode.NO_CANDIDATES, level
        own = any(one.candidate.node is node for one in victims)
        return (Mode.PREEMPT if own else Mode.RECLAIM), level

    def targets(self, workload: Workload, assignment: FlavorAssignment) -> Sequence[Victim]:
        """Whom to evict so that the workload fits, in the order chosen; none if nothing helps."""
        choice = self.choice(workload, assignment)
        return () if choice is None else tuple(one.victim for one in choice.taken)

    def choice(self, workload: Workload, assignment: FlavorAssignment) -> Choice | None:
        """The same with what is proved of it. None where the workload's queue is not known."""
        quota = self._ledger.quota
        spec, node = quota.spec(workload.cluster_queue), quota.node(workload.cluster_queue)
        if spec is None or node is None:
            return None
        requests = placement_requests(workload, spec, assignment, self._ledger.flavors, self._now)
        question = Question(workload, spec, node, assignment.usage, needed(assignment), requests, self._now)
        profile = workload.profile or spec.profile or self._ledger.options.profile
        exact, elastic = profile is Profile.EXACT, question.policy.elastic
        if exact and not elastic:
            if self._sharing is not None:
                return fairest(self._ledger, question, self._sharing, self._budget)
            return cheapest(self._ledger, question, self._budget)
        taken = tuple(self._kueue_choice(question))
        if exact and requests and not taken:
            return cheapest(self._ledger, question, self._budget)
        cost = cost_of((one.candidate.workload for one in taken), self._now) if taken else ()
        return Choice(taken, Certificate(Proof.FEASIBLE, cost))

    def _kueue_choice(self, question: Question) -> list[Taken]:
        if self._sharing is not None and not question.policy.elastic:
            return fair(self._ledger, question, self._sharing)
        return classical(self._ledger, question)


def needed(assignment: FlavorAssignment) -> frozenset[FlavorResource]:
    """The (flavor, resource) pairs that lack room: those whose pick is not Fit."""
    return frozenset(
        (pick.flavor, resource)
        for pod_set in assignment.pod_sets
        for resource, pick in pod_set.picks.items()
        if pick.mode < Mode.FIT
    )
