"""A World: ledger and pending queues at one moment, and facts about the jobs.

The caller applies events (`apply`) and asks the engine (`cycle`, or `ledger` and `queues` directly). Times are epoch seconds; a
world from files without timestamps starts at 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from admission.engine.cycle.cycle import CycleReport
from admission.engine.cycle.second_pass import second_pass
from admission.engine.decide import decide
from admission.engine.decision import Decision
from admission.engine.features.forecast.wording import told_start
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Event, ObjectRemoved, PlacementOptions, RemovedKind, Workload
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.scheduler_state import SchedulerState
from admission.world.rules import BUDGET, WorldRules


@dataclass(frozen=True, slots=True)
class RejectedObject:
    """An object that was rejected: its file (or the cluster), its name, and the error."""

    where: str
    object: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.object, self.message) if part)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A workload and the time of its arrival (epoch seconds)."""

    at: float
    workload: Workload


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """A workload's title and times."""

    title: str
    run_for: float | None = None
    """The seconds that its pods run after admission: None if unknown, infinite if they never end."""
    since: float | None = None
    """The time of its admission (epoch seconds); None if it is not admitted."""
    created: float = 0.0
    """The Workload's creation (epoch seconds)."""
    going: bool = False
    """Whether it is being deleted."""
    checks: str = ""
    """The admission checks that a workload with reserved quota waits for."""
    forecast: str = ""
    """What the controller expects of the start of a waiting workload."""
    save_every: float | None = None
    """The seconds between two of its checkpoints; None if unknown."""

    @property
    def latest_start(self) -> str | None:
        """When it starts at the latest as far as the controller expects (RFC 3339); None if that is not known."""
        return told_start(self.forecast).latest


class World:
    """The state of a cluster.

    `arrivals` are sorted by time. `about` has facts by workload. `faults` lists rejected objects in input order. `sharing` is
    None without fair sharing. `failed` maps running workloads to failed hostnames that the next cycle replaces. With
    `one_by_one`, a workload is admitted only when the pods of all others are ready; `unready` names workloads whose pods
    are not. `gangs` maps gangs without a Workload to the reason. `unbound` maps workloads to their pods that no node accepts.
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
        """Returns an empty world with these rules. `now` is in epoch seconds."""
        made = cls(rules.placement, now=now, budget=rules.budget)
        made.sharing, made.one_by_one = rules.sharing, rules.one_by_one
        made.queues.past.rules = rules.usage
        return made

    @property
    def ledger(self) -> Ledger:
        """Nodes, quota and admissions."""
        return self.state.ledger

    @property
    def queues(self) -> PendingQueues:
        """The pending workloads."""
        return self.state.queues

    @property
    def options(self) -> PlacementOptions:
        """The placement options."""
        return self.ledger.options

    def apply(self, event: Event) -> None:
        """Applies an event: an object's new value, or its removal."""
        self.state.apply(event)

    def keep_time(self) -> None:
        """Ends the holds of nodes that are over at `now`, and lets those that have begun charge quota."""
        for name, hold in sorted(self.ledger.node_holds.items()):
            self.apply(hold.at(self.now) or ObjectRemoved(RemovedKind.NODE_HOLD, name))

    @property
    def startable(self) -> int | None:
        """How many workloads the next cycle may admit; None for any number."""
        if not self.one_by_one:
            return None
        return 0 if self.unready else 1

    def cycle(self) -> CycleReport:
        """Runs one admission cycle at `now` and returns its report, after replacing failed nodes of running workloads.

        Charges admissions to the ledger, as the controller does; evicted workloads stay until the caller removes them.
        """
        self.keep_time()
        failed, self.failed = self.failed, {}
        moved: list[Decision] = []
        for key, nodes in failed.items():
            moved += second_pass(self.ledger, key, nodes, fail_fast=True)
        report = decide(self.ledger, self.queues, self.now, self.budget, self.sharing, startable=self.startable)
        return replace(report, decisions=(*moved, *report.decisions)) if moved else report

    def workload(self, key: str) -> Workload | None:
        """Returns the engine's form of a workload, pending or admitted, or None if unknown."""
        return self.queues.workload(key) or self.ledger.workload(key)

    def title(self, key: str) -> str:
        """Returns the workload's name for users, such as `Job default/train`."""
        return self.about[key].title if key in self.about else key
