"""What each tenant holds over time, as its Workloads tell it: for the stories about fair shares."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from api.kube.client import Kube
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import WORKLOADS
from api.meta import is_true
from api.names import EVICTED, FINISHED, QUOTA_RESERVED
from api.text.quantity import to_int
from api.workloads import Workload
from tests.scenarios.site import DEADLINE, GPU
from tests.tasks import running


@dataclass
class QuotaShares:
    """GPU seconds by LocalQueue, counted only while each of `tenants` has a Workload that waits.

    `seconds`: how long that was; `finished`: Workloads that have ended; `evictions`: how often one had to go.
    """

    tenants: tuple[str, ...]
    used: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    finished: int = 0
    evictions: int = 0
    _holding: Counter[str] = field(default_factory=Counter)
    _waiting: Counter[str] = field(default_factory=Counter)
    _since: float = field(default_factory=time.monotonic)

    def ratio(self, first: str, second: str) -> float:
        """How much more the one held than the other."""
        return self.used[first] / self.used[second]

    def changed(self, change: Change[Workload]) -> None:
        """A Workload came, changed or went."""
        self._pass()
        new = None if change.type is ChangeType.DELETED else change.object
        for workload, sign in ((change.old, -1), (new, +1)):
            if workload is not None:
                self._count(workload, sign)
        was, now = (is_true(w.status.conditions, EVICTED) if w else False for w in (change.old, new))
        self.evictions += now and not was

    def _count(self, workload: Workload, sign: int) -> None:
        queue, states = workload.spec.queue_name, workload.status.conditions
        if is_true(states, FINISHED):
            self.finished += sign
        elif is_true(states, QUOTA_RESERVED):
            self._holding[queue] += sign * _gpus(workload)
        else:
            self._waiting[queue] += sign

    def _pass(self) -> None:
        now = time.monotonic()
        if all(self._waiting[name] for name in self.tenants):
            self.seconds += now - self._since
            for name in self.tenants:
                self.used[name] = self.used.get(name, 0.0) + self._holding[name] * (now - self._since)
        self._since = now


@contextlib.asynccontextmanager
async def watched(kube: Kube, namespace: str, *tenants: str) -> AsyncIterator[QuotaShares]:
    """Counts from now on, until the block ends."""
    held = QuotaShares(tenants)
    informer = Informer(kube, WORKLOADS, Workload, namespace=namespace)
    informer.add_handler(held.changed)
    async with running(informer.run()):
        await informer.synced(DEADLINE)
        yield held


def _gpus(workload: Workload) -> int:
    taken = workload.status.admission.pod_set_assignments if workload.status.admission else ()
    return sum(to_int(GPU, pod_set.resource_usage[GPU]) for pod_set in taken)


def told(held: QuotaShares, shares: Mapping[str, int]) -> str:
    """For people: what was measured."""
    total = sum(held.used.values())
    parts = (
        f"{name} {held.used[name] / total:.1%} (fair {w / sum(shares.values()):.1%})" for name, w in shares.items()
    )
    return f"{held.finished} jobs, {held.seconds:.0f} s in which all waited, {held.evictions} evictions: {', '.join(parts)}"
