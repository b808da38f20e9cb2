"""Reports held spare hosts: in the condition SpareHosts of each Workload that requests some, and in a metric.

The cycle holds the hosts (engine/features/spare_hosts/of_workloads.py). Each workload is a key of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from admission.controllers.state.condition_table import Writer
from admission.controllers.state.conditions import MESSAGE_LIMIT, is_running, with_condition
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.report_writer import ReportWriter
from admission.engine.features.spare_hosts.of_workloads import HeldHosts, held
from admission.engine.ledger.ledger import Ledger
from admission.metrics import spare_hosts as metrics
from api.kube.client import Kube
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.meta import find_condition
from api.names import HOSTS_HELD, WorkloadStateReason
from api.workloads import Workload, WorkloadStatus


class SpareHostsController:
    """Maintains the condition SpareHosts while it runs."""

    def __init__(self, kube: Kube, views: Views, ledger: Ledger, now: Callable[[], float] = time.time) -> None:
        self._views, self._ledger, self._now = views, ledger, now
        self._reports = ReportWriter(kube, Writer.SPARE_HOSTS, observe=views.workloads.observe)
        self._seen: dict[str, HeldHosts] = {}
        self.reconciler = Reconciler("spare hosts", self._reconcile, workers=1)
        views.workloads.add_handler(self._workload_changed)

    def cycle_ended(self) -> None:
        """Compares the held hosts with those of the last cycle; queues changed workloads and sets the metric."""
        seen, self._seen = self._seen, {key: held(self._ledger, key) for key in self._ledger.holds.askers}
        for key, now in self._seen.items():
            if seen.get(key) != now:
                self.reconciler.add(key)
        names = sum(len(each.names) for each in self._seen.values())
        metrics.OF_WORKLOADS.labels("held").set(names)
        metrics.OF_WORKLOADS.labels("lacking").set(sum(each.wanted for each in self._seen.values()) - names)

    def _workload_changed(self, change: Change[Workload]) -> None:
        """Queues the workload, since its admission is written after the cycle that held its hosts."""
        if change.type is not ChangeType.DELETED and change.key in self._ledger.holds.askers:
            self.reconciler.add(change.key)

    async def _reconcile(self, key: str) -> None:
        workload = self._views.workloads.objects.get(key)
        if workload is None or key not in self._ledger.holds.askers or not is_running(workload.status):
            return
        now = held(self._ledger, key)
        enough = len(now.names) >= now.wanted
        generation = workload.metadata.generation
        status = _reported(workload.status, enough, now.text(), self._now(), generation)
        await self._reports.write(workload, status)


def _reported(status: WorkloadStatus, enough: bool, message: str, now: float, generation: int) -> WorkloadStatus:
    """Sets SpareHosts to the hosts that are held; returns the same object if nothing changes."""
    old = find_condition(status.conditions, HOSTS_HELD)
    if old is not None and (old.status == "True", old.message) == (enough, message[:MESSAGE_LIMIT]):
        return status
    reason = WorkloadStateReason.HOSTS_HELD if enough else WorkloadStateReason.TOO_FEW_HOSTS
    return with_condition(status, HOSTS_HELD, enough, reason, message, now, generation)
