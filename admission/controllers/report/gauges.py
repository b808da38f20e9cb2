"""Computes the gauges of queues and cohorts as pure tables, and sets them.

`queue_status` calls it with each status. A table holds every series of one object; series of its previous table that are
missing now (another cohort, a removed flavor, a reason without workloads) are removed, as are all series of a deleted object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import Gauge

from admission.controllers.report.queue_totals import NO_RESERVATION, QueueTotals, Why
from admission.controllers.state.active_conditions import Activity
from admission.engine.queue.pending_counts import PendingCounts
from admission.engine.quota.cohorts import QuotaNode
from admission.engine.reasons import Reason
from admission.metrics import queues as metrics
from api.queues import ClusterQueue, LocalQueue, ResourceQuota
from api.text.quantity import CPU, to_int

Table = dict[tuple[Gauge, tuple[str, ...]], float]
"""The value of each series, which is a gauge and the values of its labels."""

_STATES: Final = ("active", "pending", "terminating")


@dataclass(frozen=True, slots=True)
class GaugeOptions:
    """Whether LocalQueues have gauges, and ClusterQueues have quota and usage by flavor and resource."""

    local_queues: bool = True
    resources: bool = False


USUAL: Final = GaugeOptions()


class QueueGauges:
    """The series that are set, by the object they describe."""

    def __init__(self) -> None:
        self._shown: dict[str, Table] = {}

    def show(self, owner: str, table: Table) -> None:
        """Makes `table` the owner's complete set of series."""
        before = self._shown.get(owner, {})
        for (gauge, labels), value in table.items():
            if before.get((gauge, labels)) != value:
                gauge.labels(*labels).set(value)
        for gauge, labels in before.keys() - table.keys():
            gauge.remove(*labels)
        self._shown[owner] = table

    def forget(self, owner: str) -> None:
        """Removes all series of a deleted owner."""
        for gauge, labels in self._shown.pop(owner, {}):
            gauge.remove(*labels)


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The figures of a ClusterQueue."""

    queue: ClusterQueue
    activity: Activity
    tally: QueueTotals
    standing: PendingCounts
    locals: Sequence[QueueTotals]
    """The totals of its LocalQueues."""
    cohorts: Sequence[str] = ()
    """Its cohorts up to the root."""
    share: int | None = None
    """None if fair sharing is off."""
    resources: bool = False
    """Whether there are quotas and usage by flavor."""

    def table(self) -> Table:
        """Returns all series of the ClusterQueue."""
        name, standing = self.queue.metadata.name, self.standing
        cohort, root = (self.cohorts[0], self.cohorts[-1]) if self.cohorts else ("", "")
        state = self._state()
        made: Table = {
            (metrics.PENDING, (name, "active")): standing.active,
            (metrics.PENDING, (name, "inadmissible")): standing.inadmissible,
            (metrics.CLASSES, (name, "active")): standing.active_classes,
            (metrics.CLASSES, (name, "inadmissible")): standing.inadmissible_classes,
            (metrics.RESERVING, (name,)): self.tally.reserving,
            (metrics.ADMITTED_ACTIVE, (name,)): self.tally.admitted,
            (metrics.FINISHED_KEPT, (name,)): sum(local.finished for local in self.locals),
            (metrics.CANNOT_RUN, (name,)): sum(local.cannot_run for local in self.locals),
            (metrics.INFO, (name, cohort, root)): 1,
            **{(metrics.FLAVOR_OF, (name, flavor)): 1 for flavor in self._flavors()},
            **{(metrics.STATUS, (name, each)): int(each == state) for each in _STATES},
            **{(metrics.UNADMITTED, (name, *why)): count for why, count in self._unadmitted().items() if count},
        }
        if self.share is not None:
            made[metrics.SHARE, (name, cohort)] = self.share
        if self.resources:
            made |= self._quotas(cohort)
            made |= {(metrics.PENDING_RESOURCE, (name, r)): units(r, a) for r, a in standing.requested.items()}
        return made

    def _flavors(self) -> set[str]:
        return {flavor.name for group in self.queue.spec.resource_groups for flavor in group.flavors}

    def _state(self) -> str:
        if self.queue.metadata.deletion_timestamp:
            return "terminating"
        return "active" if self.activity.active else "pending"

    def _unadmitted(self) -> Counter[Why]:
        total: Counter[Why] = Counter()
        for local in self.locals:
            total.update(local.unadmitted)
        return total

    def _quotas(self, cohort: str) -> Table:
        made: Table = {}
        for group in self.queue.spec.resource_groups:
            for flavor in group.flavors:
                for quota in flavor.resources:
                    labels = (cohort, self.queue.metadata.name, flavor.name, quota.name)
                    fr = (flavor.name, quota.name)
                    made[metrics.RESERVATION, labels] = units(quota.name, self.tally.reserved[fr])
                    made[metrics.USAGE, labels] = units(quota.name, self.tally.used[fr])
                    made |= {(gauge, labels): value for gauge, value in _limits(quota)}
        return made


def _limits(quota: ResourceQuota) -> Iterable[tuple[Gauge, float]]:
    given = (
        (metrics.NOMINAL, quota.nominal_quota),
        (metrics.BORROWING, quota.borrowing_limit),
        (metrics.LENDING, quota.lending_limit),
    )
    return [(gauge, units(quota.name, to_int(quota.name, value))) for gauge, value in given if value is not None]


def of_local_queue(queue: LocalQueue, activity: Activity, tally: QueueTotals, used: float | None = None) -> Table:
    """Returns all series of a LocalQueue; a waiting workload is inadmissible once its status has a reason.

    `used` is its weighted past usage, None if that does not order its ClusterQueue.
    """
    at = (queue.metadata.name, queue.metadata.namespace or "")
    active = tally.unadmitted[NO_RESERVATION, Reason.PENDING_EVALUATION]
    return {
        (metrics.LOCAL_PENDING, (*at, "active")): active,
        (metrics.LOCAL_PENDING, (*at, "inadmissible")): max(0, tally.pending - active),
        (metrics.LOCAL_RESERVING, at): tally.reserving,
        (metrics.LOCAL_ACTIVE, at): tally.admitted,
        (metrics.LOCAL_FINISHED, at): tally.finished,
        **{(metrics.LOCAL_STATUS, (*at, str(value))): int(activity.active is value) for value in (True, False)},
        **{
            (metrics.LOCAL_UNADMITTED, (*at, queue.spec.cluster_queue, *why)): count
            for why, count in tally.unadmitted.items()
            if count
        },
        **({} if used is None else {(metrics.LOCAL_PAST_USAGE, (*at, queue.spec.cluster_queue)): used}),
        **{(metrics.LOCAL_RESERVATION, (*at, *fr)): units(fr[1], amount) for fr, amount in tally.reserved.items()},
        **{(metrics.LOCAL_USAGE, (*at, *fr)): units(fr[1], amount) for fr, amount in tally.used.items()},
    }


def of_cohort(
    name: str, above: Sequence[str], node: QuotaNode | None, tallies: Mapping[str, QueueTotals], share: int | None
) -> Table:
    """Returns all series of a cohort. `above` lists cohorts from itself to the root; `tallies`, the ClusterQueues below."""
    made: Table = {
        (metrics.COHORT_INFO, (name, above[1] if len(above) > 1 else "", above[-1])): 1,
        (metrics.COHORT_ACTIVE, (name,)): sum(tally.admitted for tally in tallies.values()),
    }
    reserved: Counter[tuple[str, str]] = Counter()
    for tally in tallies.values():
        reserved.update(tally.reserved)
    made |= {(metrics.COHORT_RESERVED, (name, *fr)): units(fr[1], amount) for fr, amount in reserved.items()}
    if node is not None:
        made |= {(metrics.COHORT_QUOTA, (name, *fr)): units(fr[1], amount) for fr, amount in node.subtree.items()}
    if share is not None:
        made[metrics.COHORT_SHARE, (name,)] = share
    return made


def units(resource: str, amount: int) -> float:
    """Returns the amount in its usual unit, such as whole cpus."""
    return amount / 1000 if resource == CPU else amount
