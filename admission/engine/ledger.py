"""The account book: nodes, usage, workloads, kept incrementally; the only state that a decision reads.

`apply` takes what the cluster says; `place`, `fits` and `audit` answer and change nothing; `charge` and `release` book
an admission, inside a trial or for real. Every change can be taken back (trial.py) and costs as much as it touches, not
as much as there is. Quota is booked in quota.py, capacity on the trees of topology/. Called by the feed (apply) and by
cycle.py (everything else).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from admission.engine.decision import PlacementResult
from admission.engine.model import (
    Admission,
    BoundPod,
    ClusterQueue,
    Cohort,
    Event,
    Flavor,
    Gone,
    Node,
    PlacementOptions,
    PlacementRequest,
    Removed,
    Workload,
)
from admission.engine.quota import QuotaTree
from admission.engine.trial import Journal, Trial


class Ledger:
    """One cluster's book.

    `quota` is the cohort tree, `flavors` what is known of each flavor by name, `admissions` what is booked by workload.
    """

    def __init__(self, options: PlacementOptions | None = None) -> None:
        self.options = options or PlacementOptions()
        self.journal = Journal()
        self.quota = QuotaTree(self.journal)
        self.flavors: dict[str, Flavor] = {}
        self.admissions: dict[str, Admission] = {}

    def apply(self, event: Event) -> None:
        """Take an object as it is now, or that it is gone."""
        match event:
            case ClusterQueue():
                self.quota.set_queue(event)
            case Cohort():
                self.quota.set_cohort(event)
            case Flavor():
                self.journal.put(self.flavors, event.name, event)
            case Workload():
                self._set_workload(event)
            case Gone():
                self._gone(event)
            case Node() | BoundPod():
                pass

    def trial(self) -> AbstractContextManager[Trial]:
        """`with ledger.trial() as trial:` takes everything inside back at its end, unless `trial.keep()` was called."""
        return self.journal.trial()

    def charge(self, workload: Workload, admission: Admission) -> None:
        """Book the admission: quota of its queue, capacity of its domains. What was booked for the workload is released."""
        self.release(workload.key)
        self.journal.put(self.admissions, workload.key, admission)
        self.quota.add(admission.cluster_queue, admission.usage())

    def release(self, key: str) -> Admission | None:
        """Take the workload's booking out; returns it, None where nothing was booked."""
        admission = self.admissions.get(key)
        if admission is not None:
            self.journal.drop(self.admissions, key)
            self.quota.remove(admission.cluster_queue, admission.usage())
        return admission

    def place(self, requests: Sequence[PlacementRequest], *, simulate_empty: bool = False) -> PlacementResult:
        """Domains for the pod sets of one workload, together. `simulate_empty`: as if no workload were admitted."""
        raise NotImplementedError

    def fits(self, workload: Workload, admission: Admission) -> bool:
        """Whether the admission's domains still exist and each still holds its pods (quota is not looked at)."""
        raise NotImplementedError

    def generation(self, flavor: str) -> int:
        """Grows whenever the flavor's capacity may have grown; 0 for a flavor that is not known."""
        return 0

    def audit(self) -> list[str]:
        """Recompute everything from the kept inputs; one sentence for each difference, none when the book is right."""
        return []

    def _set_workload(self, workload: Workload) -> None:
        if workload.admission is None:
            self.release(workload.key)
        elif self.admissions.get(workload.key) != workload.admission:
            self.charge(workload, workload.admission)

    def _gone(self, gone: Gone) -> None:
        match gone.kind:
            case Removed.CLUSTER_QUEUE:
                self.quota.drop_queue(gone.key)
            case Removed.COHORT:
                self.quota.drop_cohort(gone.key)
            case Removed.FLAVOR:
                self.journal.drop(self.flavors, gone.key)
            case Removed.WORKLOAD:
                self.release(gone.key)
            case _:
                pass


