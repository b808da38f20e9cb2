"""An advance reservation as a value: which workloads may use its nodes, and when.

controllers/watch/advance_reservations/view.py converts the object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admission.engine.model import NodeHold, PodSet, Workload


@dataclass(frozen=True, slots=True)
class AdvanceReservation(NodeHold):
    """Workloads of the `namespaces` that name the reservation may be placed on the nodes at any time, others only if they end
    before `start` by their own limit.
    """

    kind: ClassVar[str] = "AdvanceReservation"
    noun: ClassVar[str] = "advance reservation"

    namespaces: frozenset[str] = frozenset()

    def usable_by(self, workload: Workload, now: float) -> bool:
        """Reports whether the workload may start on the nodes at `now` (epoch seconds), or stays there if it runs."""
        if now >= self.end or self._is_for(workload):
            return True
        if workload.time_limit is None:
            return False
        begins = now if workload.admitted is None else workload.admitted
        return begins + workload.time_limit + workload.termination <= self.start

    def keeps(self, workload: Workload) -> bool:
        """Reports whether the running workload names it, or ends before it starts."""
        return self._is_for(workload) or (workload.ends is not None and workload.ends <= self.start)

    def confines(self, workload: Workload, pod_set: PodSet) -> bool:
        """Reports whether the workload's pods are placed on the reserved nodes alone.

        It names the reservation, which charges the quota of its ClusterQueue now, and its node selector allows these nodes.
        """
        if not self.charging or workload.cluster_queue != self.queue or not self._is_for(workload):
            return False
        return all(pod_set.node_selector.get(key, value) == value for key, value in self.labels.items())

    def _is_for(self, workload: Workload) -> bool:
        """Reports whether the workload names the reservation, and its namespace may use that."""
        return workload.reservation == self.name and workload.key.partition("/")[0] in self.namespaces
