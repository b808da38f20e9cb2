"""The queueing hints of heads that cannot start (queue/queueing_hints.py).

If victims of other workloads are still leaving, a hint considers the quota after they have left and all capacity reservations
are used. A head that would be short of quota even then, after evicting every eligible victim, needs no search for victims and
no placement. Called by cycle.py; preemption/reclaimable.py computes the bound.
"""

from __future__ import annotations

from functools import partial

from admission.engine.cycle.reservations import Reservations
from admission.engine.cycle.solve import flavors_of
from admission.engine.flavors.assign import FlavorAssignment, Mode, Preemptions
from admission.engine.flavors.search import Scope
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, FlavorResource, Workload
from admission.engine.preemption.reclaimable import reclaimable_bound
from admission.engine.queue.queueing_hints import (
    USAGE_MAY_HELP,
    Free,
    QueueingHint,
    queueing_hint,
    queueing_hint_of_preemptor,
)


class HeadHints:
    """The hints of one cycle. Under fair sharing workloads that may preempt get no hint, because shares decide for them."""

    def __init__(self, ledger: Ledger, reservations: Reservations, preemptions: Preemptions, *, fair: bool) -> None:
        self._ledger, self._reservations, self._preemptions, self._fair = ledger, reservations, preemptions, fair

    def free(self, queue: ClusterQueue) -> Free:
        """Returns the free quota of the queue; if it may preempt, after all victims have left and all reservations are used."""

        def free(fr: FlavorResource, priority: int | None) -> int:
            if priority is None or not self._reservations:
                return reclaimable_bound(self._ledger, queue.name, fr, priority)
            with self._reservations.projected_quota.held(queue.name):
                return reclaimable_bound(self._ledger, queue.name, fr, priority)

        return free

    def of(self, workload: Workload, queue: ClusterQueue, flavors: FlavorAssignment) -> QueueingHint | None:
        """Returns the hint for a failed flavor search; None means that any change may help."""
        if not queue.preemption.evicts:
            return queueing_hint(queue, flavors)
        return None if self._fair else queueing_hint_of_preemptor(queue, flavors, workload.priority)

    def beside_reservations(
        self, workload: Workload, queue: ClusterQueue, flavors: FlavorAssignment
    ) -> tuple[FlavorAssignment, bool]:
        """Returns the flavors beside all capacity reservations (`flavors` if there are none), and whether quota would be short
        even after every eligible victim is evicted.
        """
        with self._reservations.afterwards(queue.name, nodes=False):
            if self._reservations:
                about, scope = self._preemptions.about(workload), Scope(fair=self._fair)
                flavors = flavors_of(self._ledger, workload, queue, scope, about)
            hint = self.of(workload, queue, flavors)
            return flavors, hint is not None and not hint.satisfied_by(
                partial(reclaimable_bound, self._ledger, queue.name)
            )

    def hint_without_victims(
        self, workload: Workload, queue: ClusterQueue, flavors: FlavorAssignment, beyond: bool
    ) -> QueueingHint | None:
        """Returns the hint for a workload without enough victims, however full the nodes are.

        `flavors` and `beyond` are the results of `beside_reservations`.
        """
        hint = self.of(workload, queue, flavors)
        if flavors.mode is Mode.NO_CANDIDATES and len(flavors.usage) == 1 and not self._reservations:
            return hint or USAGE_MAY_HELP
        return hint if beyond else None

    def hint_before_victims_leave(self, queue: ClusterQueue, flavors: FlavorAssignment) -> QueueingHint | None:
        """Returns the quota without which the workload cannot start before the victims of its reservation have left."""
        return None if self._fair else queueing_hint(queue, flavors)
