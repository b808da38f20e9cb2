"""A World: ledger and pending queues at one moment, and what is known of the jobs besides.

It holds and answers; its caller says what comes next (`apply`) and asks the engine (`cycle`, or `ledger` and `queues`
themselves). The times are epoch seconds; a world from files without any times in them begins at 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from admission.engine.cycle.cycle import CycleReport
from admission.engine.cycle.decide import decide
from admission.engine.cycle.second_pass import second_pass
from admission.engine.decision import Decision
from admission.engine.ledger import Ledger
from admission.engine.model import Event, PlacementOptions, Workload
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.scheduler_state import SchedulerState
from admission.world.rules import BUDGET, WorldRules


@dataclass(frozen=True, slots=True)
class RejectedObject:
    """Something that was not taken: where it stands (a file, or the cluster), which object, and what is wrong with it."""

    where: str
    object: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.object, self.message) if part)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A workload that is not there yet, and when it comes (epoch seconds)."""

    at: float
    workload: Workload


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """What people call a workload, and what is known of its time. `since`: when it was admitted, if it is (epoch seconds).

    `run_for`: seconds that its pods run once it is admitted, None where nothing says so, infinite where they never end.
    `created`: of the Workload (epoch seconds); `going`: it is being deleted. `checks`: what its admission still waits for,
    where it has quota and is not admitted.
    """

    title: str
    run_for: float | None = None
    since: float | None = None
    created: float = 0.0
    going: bool = False
    checks: str = ""


class World:
    """`arrivals` in order of time; `about` by workload; `faults` as they were met; `sharing` is None without fair sharing.

    `failed`: the failed nodes (hostnames) of workloads that run and are to get others in the next cycle, by key. `one_by_one`:
    the next one is admitted when the pods of all others are ready; `unready`: whose are not. `gangs`: what those lack
    that have no Workload yet, by key. `unbound`: which of a workload's pods no node takes, by key.
    """

    def __init__(self, options: PlacementOptions | None = None, *, now: float = 0.0, budget: int = BUDGET) -> None:
        self.state = SchedulerState(Ledger(options), PendingQueues())
        self.now, self.budget = now, budget
        self.sharing: FairSharingRules | None = None
        self.failed: dict[str, tuple[str, ...]] = {}
        self.one_by_one = False
        self.unready: set[str] = set()
        self.gangs: dict[str, str] = {}
        self.unbound: dict[str, str] = {}
        self.arrivals: list[Arrival] = []
        self.about: dict[str, WorkloadFacts] = {}
        self.faults: list[RejectedObject] = []

    @classmethod
    def under(cls, rules: WorldRules, now: float = 0.0) -> World:
        """An empty world with these rules."""
        made = cls(rules.placement, now=now, budget=rules.budget)
        made.sharing, made.one_by_one = rules.sharing, rules.one_by_one
        return made

    @property
    def ledger(self) -> Ledger:
        """Nodes, quota, admissions."""
        return self.state.ledger

    @property
    def queues(self) -> PendingQueues:
        """The workloads that wait."""
        return self.state.queues

    @property
    def options(self) -> PlacementOptions:
        """How pods are placed here."""
        return self.ledger.options

    def apply(self, event: Event) -> None:
        """Something is now like this, or gone."""
        self.state.apply(event)

    @property
    def startable(self) -> int | None:
        """How many may be admitted in one cycle; None: any number."""
        if not self.one_by_one:
            return None
        return 0 if self.unready else 1

    def cycle(self) -> CycleReport:
        """One admission cycle at `now`: the ledger takes what it admits, as in the controller; the workloads that it evicts are
        still there.

        First come those that run and have lost a node.
        """
        failed, self.failed = self.failed, {}
        moved: list[Decision] = []
        for key, nodes in failed.items():
            moved += second_pass(self.ledger, key, nodes, fail_fast=True)
        report = decide(self.ledger, self.queues, self.now, self.budget, self.sharing, startable=self.startable)
        return replace(report, decisions=(*moved, *report.decisions)) if moved else report

    def workload(self, key: str) -> Workload | None:
        """The workload as the engine knows it: pending, or with its admission; None if it knows of none."""
        return self.queues.workload(key) or self.ledger.workload(key)

    def title(self, key: str) -> str:
        """What people call the workload."""
        return self.about[key].title if key in self.about else key
