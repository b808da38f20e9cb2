"""A cluster whose queues may evict: each cycle is checked on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from admission.engine.cycle.cycle import CycleReport, run_cycle
from admission.engine.cycle.feature import CycleContext
from admission.engine.decision import Admit, Decision, Preempt
from admission.engine.features import features_of
from admission.engine.model import ClusterQueue, Event, PreemptionPolicy, Workload
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.scheduler_state import SchedulerState
from tests.admission.engine.builders import Cluster
from tests.admission.engine.dump import dump

LOWER = PreemptionPolicy(within_cluster_queue="LowerPriority")
RECLAIM = PreemptionPolicy("Any", "LowerPriority")


class Evicting(Cluster):
    """Nothing but admissions changes its ledger; victims leave when they are told to (`finish`)."""

    def cycle(
        self, budget: int = 100, now: float = 0.0, *, fair: bool = False, startable: int | None = None
    ) -> CycleReport:
        """One cycle. `fair`: queues take turns, and evict, by their shares."""
        before = dump(self.ledger)
        preemptor = Preemptor(self.ledger, now, FairSharingRules() if fair else None)
        features = features_of(CycleContext(self.ledger, self.queues, now, fair))
        report = run_cycle(
            self.ledger, self.queues, now, budget, preemptor, fair=fair, startable=startable, features=features
        )
        if not any(isinstance(decision, Admit) for decision in report.decisions):
            assert dump(self.ledger) == before, "what is kept free is not booked"
        assert self.ledger.audit() == []
        return report


def evicting(spec: ClusterQueue, policy: PreemptionPolicy = LOWER) -> ClusterQueue:
    """The queue with that policy."""
    return replace(spec, preemption=policy)


def running(*events: Event, first: Iterable[Workload]) -> Evicting:
    """A cluster in which these run."""
    cluster = Evicting(*events, *first)
    cluster.cycle()
    for each in first:
        assert each.key not in cluster.queues, f"{each.key} was to run"
    return cluster


def preempted(report: CycleReport) -> dict[str, list[str]]:
    """Who is evicted for whom, by name."""
    return {d.workload: sorted(v.workload for v in d.victims) for d in report.decisions if isinstance(d, Preempt)}


def settle(of: SchedulerState) -> list[Decision]:
    """Cycles until there is nothing more to decide; every victim is on its way out then."""
    found: list[Decision] = []
    more = True
    while more:
        report = run_cycle(of.ledger, of.queues, 0.0, 100, Preemptor(of.ledger, 0.0))
        found += report.decisions
        more = report.more
        for decision in report.decisions:
            for victim in decision.victims if isinstance(decision, Preempt) else ():
                charged = of.ledger.workload(victim.workload)
                assert charged is not None
                of.apply(replace(charged, evicted=True))
    return found
