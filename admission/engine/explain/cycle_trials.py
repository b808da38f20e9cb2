"""Checks each remedy with a whole cycle: whether the workload is admitted once those ahead of it had their turn.

explain.py calls it. A change that admits the workload on the ledger may admit another workload first, which has a higher
priority or waits longer; or the cycle evicts others to start more pods than the change was to start. So each remedy is tried
again by the cycle itself, on a queue of all workloads that compete for its quota and its nodes. A remedy that others would use
up is listed separately, with their names; if more of the same suffices for all, that is proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from functools import partial

from admission.engine.cycle.admission_attempt import AttemptResult
from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Admit, Decision, Preempt
from admission.engine.explain.capacity_changes import MOST_NODES
from admission.engine.explain.changes import (
    AddNodes,
    AddNodesFirst,
    Change,
    Finish,
    LetEvict,
    LetReclaim,
    RaiseQuota,
    Remedy,
)
from admission.engine.explain.cycle_decision import DecisionInputs, competitors, simulated_cycle
from admission.engine.explain.explanation import Taken
from admission.engine.explain.finishing import UnplacedGroup, finishing
from admission.engine.explain.quotas import RelatedQueues, requested_amounts
from admission.engine.explain.trials import TrialBudget, Trials
from admission.engine.model import FlavorResource, Workload

ROUNDS = 5
"""How many times a quota is raised further by what other workloads used of it."""

_FREES_CAPACITY = (Finish, RaiseQuota, AddNodes, LetEvict, LetReclaim)
"""Changes that other workloads can use too; all other changes concern the workload alone."""


class CycleTrials(Trials):
    """Trials answered by a cycle in which competitors have their turns too.

    `known` tells whether all competitors take part; of many only the first do.
    """

    def __init__(self, trials: Trials, inputs: DecisionInputs, budget: int) -> None:
        super().__init__(
            trials.ledger, trials.workload, trials.queue, trials.now, TrialBudget(budget, trials.budget.pause)
        )
        rivals, self.known = competitors(trials.ledger, trials.workload, trials.now, inputs, max(1, budget // 4))
        self.competitors: Sequence[Workload] = rivals
        self._inputs = inputs

    def outcome(self, *changes: Change) -> AttemptResult:
        """Returns the result for the workload of a whole cycle after the changes."""
        return AttemptResult(isinstance(self._own(self._cycle(*changes)), Admit))

    def without_refuted(
        self, remedies: Iterable[Remedy], unplaced_groups: Sequence[UnplacedGroup], related: RelatedQueues
    ) -> tuple[list[Remedy], list[Taken]]:
        """Returns the remedies that hold despite competitors, or extensions that suffice for all; and those that fail."""
        held: list[Remedy] = []
        taken: list[Taken] = []
        for remedy in remedies:
            report = self._cycle(*remedy.changes)
            if report is None:
                break
            own = self._own(report)
            sure = self.known or not any(isinstance(change, _FREES_CAPACITY) for change in remedy.changes)
            if sure and (holds := self._holds(remedy, own)) is not None:
                held.append(holds)
                continue
            if isinstance(own, Preempt) or not self.competitors:
                continue  # no competitor takes it, but the workload would still wait, for its victims or for a claim
            taken.append(Taken(remedy, self._others(report)))
            held += self._for_all(remedy, report, unplaced_groups, related) if self.known else ()
        return held, taken

    @staticmethod
    def _holds(remedy: Remedy, decision: Decision | None) -> Remedy | None:
        match remedy.changes:
            case (LetEvict() as change,) if isinstance(decision, Preempt):
                return Remedy((replace(change, evicts=tuple(sorted(one.workload for one in decision.victims))),))
            case _:
                return remedy if isinstance(decision, Admit) else None

    def _cycle(self, *changes: Change) -> CycleReport | None:
        """Runs the cycle after the changes; returns None if the budget is spent.

        Ties of placement break by name, and the names of added nodes are not known: competitors may leave the workload its
        nodes or not. So its report is the worse one of two, with new nodes last and first by name.
        """
        report = self._run(changes)
        if not self.competitors or not any(isinstance(change, AddNodes) for change in changes):
            return report
        if not isinstance(self._own(report), Admit):
            return report
        first = [AddNodesFirst(*astuple(change)) if isinstance(change, AddNodes) else change for change in changes]
        return self._run(first)

    def _run(self, changes: Iterable[Change]) -> CycleReport | None:
        if self.budget.spent:
            return None
        self.budget.rest(self.ledger)
        with self.changed(*changes) as workload:
            report = simulated_cycle(self.ledger, workload, self.now, self._inputs, self.competitors)
        self.budget.left -= 1 + len(report.decisions) // 4
        return report

    def _own(self, report: CycleReport | None) -> Decision | None:
        decisions = () if report is None else report.decisions
        return next((decision for decision in decisions if decision.workload == self.workload.key), None)

    def _others(self, report: CycleReport) -> tuple[str, ...]:
        """Returns the workloads that start instead, or else those ahead of the workload; at most five."""
        started = [one.workload for one in report.decisions if isinstance(one, Admit | Preempt)]
        names = [key for key in started if key != self.workload.key]
        return tuple(names or [one.key for one in self.competitors])[:5]

    # ---- remedies that suffice for all

    def _for_all(
        self, remedy: Remedy, report: CycleReport, unplaced_groups: Sequence[UnplacedGroup], related: RelatedQueues
    ) -> Iterator[Remedy]:
        changes = remedy.changes
        raises = tuple(change for change in changes if isinstance(change, RaiseQuota))
        more: Change | None = None
        if len(raises) == len(changes):
            yield from self._raised(raises, report)
        elif len(changes) == 1 and isinstance(changes[0], Finish):
            more = finishing(self, unplaced_groups, related, sorted(self._requested()))
        elif len(changes) == 1 and isinstance(changes[0], AddNodes):
            nodes = changes[0]
            more = self.least(partial(_number, nodes), 2 * nodes.count, MOST_NODES)
        if more is not None:
            yield Remedy((more,))

    def _raised(self, raises: Sequence[RaiseQuota], report: CycleReport) -> Iterator[Remedy]:
        """Raises quota by what other workloads used, or by the requests of workloads ahead if these block the queue."""
        for _ in range(ROUNDS):
            used = _usage(one for one in report.decisions if one.workload != self.workload.key) or self._before(raises)
            more = tuple(
                replace(one, by=one.by + extra, nominal=one.nominal + extra)
                for one in raises
                for extra in (used.get((one.flavor, one.resource), 0),)
            )
            again = self._cycle(*more)
            if again is None:
                return
            if isinstance(self._own(again), Admit):
                yield Remedy(more)
                return
            if again.admitted <= report.admitted:
                return
            report = again

    def _before(self, raises: Iterable[RaiseQuota]) -> dict[FlavorResource, int]:
        own = [one for one in self.competitors if one.cluster_queue == self.queue.name]
        requested = [requested_amounts(self.queue, group, one) for one in own for group in self.queue.groups]
        return {(one.flavor, one.resource): sum(each.get(one.resource, 0) for each in requested) for one in raises}

    def _requested(self) -> set[FlavorResource]:
        """Returns the quotas that the workload may use."""
        resources = {resource for pod_set in self.workload.pod_sets for resource in pod_set.requests}
        return {
            (quotas.flavor, resource)
            for group in self.queue.groups
            for quotas in group.flavors
            for resource in resources & quotas.quotas.keys()
        }


def _usage(decisions: Iterable[Decision]) -> dict[FlavorResource, int]:
    total: dict[FlavorResource, int] = {}
    for decision in decisions:
        for fr, amount in decision.admission.usage().items() if isinstance(decision, Admit) else ():
            total[fr] = total.get(fr, 0) + amount
    return total


def _number(nodes: AddNodes, count: int) -> AddNodes:
    return replace(nodes, count=count)
