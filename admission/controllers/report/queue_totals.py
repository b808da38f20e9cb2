"""Counts the Workloads of each queue and their usage, incrementally with each change.

Workloads are counted as the API server shows them, by LocalQueue and by the ClusterQueue of their admission. `queues` reads
the totals once per period, while thousands of Workloads may come and go, and writes them to the queues' status.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from admission.controllers.state.conditions import NOT_EVALUATED
from admission.engine.reasons import Reason
from api.kube.informers.store import Change, ChangeType
from api.meta import find_condition, is_true, object_key
from api.names import ADMITTED, EXPLANATION, FINISHED, QUOTA_RESERVED, AdmittedReason, LegacyQuotaReason
from api.queues import ClusterQueue, FlavorUsage, ResourceUsage
from api.text.quantity import to_int, to_text
from api.workloads import Workload, WorkloadStatus

Amounts = tuple[tuple[tuple[str, str], int], ...]
"""Pairs ((flavor, resource), amount)."""

Why = tuple[str, str]
"""Why a Workload is not admitted: the reason of Admitted=False and the underlying reason."""

NO_RESERVATION, UNCHECKED, CHECKS_NOT_READY = (
    AdmittedReason.NO_RESERVATION,
    AdmittedReason.UNSATISFIED_CHECKS,
    "ChecksNotReady",
)

NOTHING: Mapping[tuple[str, str], int | None] = {}

Usage = Mapping[tuple[str, str], int]
NO_USAGE: Usage = {}


@dataclass(frozen=True, slots=True)
class _Part:
    """What one Workload contributes."""

    queue: str
    """Its LocalQueue."""
    holder: str | None
    """The ClusterQueue in which it reserves quota, if any."""
    admitted: bool
    finished: bool
    amounts: Amounts
    why: Why | None = None
    """None if it is admitted or finished."""
    cannot_run: bool = False
    """Whether it waits, and its explanation says that it would not fit if no other workload ran."""


@dataclass(slots=True)
class QueueTotals:
    """The totals of one queue."""

    pending: int = 0
    cannot_run: int = 0
    """Of LocalQueues only."""
    finished: int = 0
    """Of LocalQueues only."""
    reserving: int = 0
    admitted: int = 0
    reserved: Counter[tuple[str, str]] = field(default_factory=Counter)
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    unadmitted: Counter[Why] = field(default_factory=Counter)
    """Of LocalQueues only."""

    def add(self, part: _Part, sign: int) -> None:
        """Adds (+1) or removes (-1) a Workload."""
        if part.holder is None:
            self.pending += 0 if part.finished else sign
            return
        self.reserving += sign
        _add(self.reserved, part.amounts, sign)
        if part.admitted:
            self.admitted += sign
            _add(self.used, part.amounts, sign)


_EMPTY: Final = QueueTotals()


class QueueTotalsIndex:
    """The totals of all queues; must receive every change of a Workload."""

    def __init__(self, extra_usage: Callable[[str], Usage] = lambda key: NO_USAGE, *, reclaims: bool = True) -> None:
        """`extra_usage` returns usage that quota counts for the Workload of a key in addition to its status.

        `reclaims` says whether pods that have ended return their quota while others run.
        """
        self._extra_usage, self._reclaims = extra_usage, reclaims
        self._parts: dict[str, _Part] = {}
        self._local: defaultdict[str, QueueTotals] = defaultdict(QueueTotals)
        self._cluster: defaultdict[str, QueueTotals] = defaultdict(QueueTotals)

    def local_queue(self, key: str) -> QueueTotals:
        """Returns the totals of the LocalQueue `namespace/name`."""
        return self._local.get(key) or QueueTotals()

    def pending_without(self, namespace: str, queues: Container[str]) -> int:
        """Returns how many Workloads of the namespace wait and name a LocalQueue whose key is not among `queues`."""
        prefix = object_key(namespace, "")
        return sum(
            totals.pending
            for key, totals in self._local.items()
            if key.startswith(prefix) and key != prefix and key not in queues
        )

    def cluster_queue(self, name: str) -> QueueTotals:
        """Returns the totals of the ClusterQueue, without pending workloads."""
        return self._cluster.get(name) or QueueTotals()

    def changed(self, change: Change[Workload]) -> None:
        """Applies the change of a Workload."""
        key, deleted = change.key, change.type is ChangeType.DELETED
        new = None if deleted else _part(change.object, self._extra_usage(key), reclaims=self._reclaims)
        old = self._parts.pop(key, None)
        if new is not None:
            self._parts[key] = new
        if new != old:
            self._count(old, -1)
            self._count(new, +1)

    def _count(self, part: _Part | None, sign: int) -> None:
        if part is None:
            return
        local = self._local[part.queue]
        local.add(part, sign)
        local.finished += sign if part.finished else 0
        local.cannot_run += sign if part.cannot_run else 0
        if part.why is not None:
            _add(local.unadmitted, ((part.why, 1),), sign)
        _drop_if_empty(self._local, part.queue)
        if part.holder is not None:
            self._cluster[part.holder].add(part, sign)
            _drop_if_empty(self._cluster, part.holder)


def usage(
    totals: Counter[tuple[str, str]], declared: Mapping[tuple[str, str], int | None] = NOTHING
) -> tuple[FlavorUsage, ...]:
    """Returns usage in the form of a queue's status: what the queue declares, in its order, then other usage.

    `declared` is the nominal quota by (flavor, resource), above which usage counts as borrowed; None hides borrowing.
    """
    flavors: dict[str, list[ResourceUsage]] = {}
    for flavor, resource in dict.fromkeys([*declared, *sorted(totals)]):
        amount, nominal = totals[flavor, resource], declared.get((flavor, resource))
        borrowed = None if nominal is None else to_text(resource, max(0, amount - nominal))
        shown = ResourceUsage(name=resource, total=to_text(resource, amount), borrowed=borrowed)
        flavors.setdefault(flavor, []).append(shown)
    return tuple(FlavorUsage(name=flavor, resources=tuple(resources)) for flavor, resources in flavors.items())


def nominal_quotas(queue: ClusterQueue) -> dict[tuple[str, str], int | None]:
    """Returns the queue's nominal quotas, in declared order. Raises InvalidQuantity."""
    return {
        (flavor.name, quota.name): to_int(quota.name, quota.nominal_quota)
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def _part(workload: Workload, extra_usage: Usage, *, reclaims: bool) -> _Part:
    status, finished = workload.status, is_true(workload.status.conditions, FINISHED)
    reserves = status.admission is not None and not finished and is_true(status.conditions, QUOTA_RESERVED)
    return _Part(
        queue=object_key(workload.metadata.namespace, workload.spec.queue_name),
        holder=status.admission.cluster_queue if status.admission and reserves else None,
        admitted=is_true(status.conditions, ADMITTED),
        finished=finished,
        amounts=(*_amounts(workload, reclaims=reclaims), *sorted(extra_usage.items())) if reserves else (),
        why=None if finished else _why(status),
        cannot_run=not finished and not reserves and _cannot_run(status),
    )


def _cannot_run(status: WorkloadStatus) -> bool:
    explanation = find_condition(status.conditions, EXPLANATION)
    return explanation is not None and explanation.reason == Reason.CANNOT_RUN


def _why(status: WorkloadStatus) -> Why | None:
    """Returns why the Workload is not admitted; unwritten conditions count as pending evaluation, no reservation."""
    if is_true(status.conditions, ADMITTED):
        return None
    reserved, admitted = find_condition(status.conditions, QUOTA_RESERVED), find_condition(status.conditions, ADMITTED)
    if reserved is not None and reserved.status == "True":
        reason = admitted.reason if admitted is not None else UNCHECKED
        return reason, CHECKS_NOT_READY
    if reserved is None or (reserved.reason, reserved.message) == (LegacyQuotaReason.PENDING, NOT_EVALUATED):
        return NO_RESERVATION, Reason.PENDING_EVALUATION
    return NO_RESERVATION, reserved.reason


def _amounts(workload: Workload, *, reclaims: bool) -> Iterator[tuple[tuple[str, str], int]]:
    """Yields the amounts that quota is charged for: without pods that are reclaimable, or that a job gave up when it shrank."""
    requested = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    done = workload.reclaimed if reclaims else {}
    for psa in workload.status.admission.pod_set_assignments if workload.status.admission else ():
        count = psa.count or 0
        left = max(0, min(count, requested.get(psa.name, count)) - done.get(psa.name, 0))
        for resource, text in psa.resource_usage.items():
            amount = to_int(resource, text)
            yield (psa.flavors.get(resource, ""), resource), amount if left == count else amount // count * left


def _drop_if_empty(by_queue: defaultdict[str, QueueTotals], name: str) -> None:
    """Queues without Workloads are not kept: tenants create and delete them."""
    if by_queue[name] == _EMPTY:
        del by_queue[name]


def _add(totals: Counter[tuple[str, str]], amounts: Iterable[tuple[tuple[str, str], int]], sign: int) -> None:
    for key, amount in amounts:
        totals[key] += sign * amount
        if not totals[key]:
            del totals[key]
