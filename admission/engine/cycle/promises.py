"""What a cycle keeps for workloads whose victims have not left yet: promises of earlier cycles and of this one.

A promise is kept from every workload whose turn comes after its owner's. If others are evicted for it, it is also kept from all
whose turn may be earlier only because of these evictions (`Promise.bars`): else they would take what was made free, be evicted
again, and so on for ever. On the nodes a promise counts at once: nothing else is placed there. In quota it cannot, since the
victims have the quota until they leave: so a workload that starts has to fit twice, now, and `afterwards`, when the victims are
gone and all promises are kept. A workload that comes before the owner may take what was promised; the owner finds that out when
it is considered anew. The book is as it was when the cycle has ended. Called by cycle.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from admission.engine.cycle.nominate import Nomination
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.ledger import Ledger
from admission.engine.model import Admission, QueueingStrategy, Workload
from admission.engine.preemption.outlook import Outlook
from admission.engine.queue.lacks import Lack
from admission.engine.queue.line import Order, order_of
from admission.engine.queue.pending import Promise
from admission.engine.queue.queues import PendingQueues


class Promises:
    """The promises of one cycle. `outlook`: what becomes of the quota when the victims of all of them have left."""

    def __init__(self, ledger: Ledger, queues: PendingQueues) -> None:
        self._ledger, self._queues = ledger, queues
        self.outlook = Outlook(ledger)
        self._held: dict[str, Admission] = {}
        self._names: dict[str, list[str]] = {}
        self._due: list[tuple[int, Order, Workload, Admission]] = []
        self._own: list[tuple[Workload, Promise]] = []
        for workload, promise in (*queues.promises(), *self._claimed()):
            self.outlook.leave(promise.victims)
            if promise.evicted:
                self._own.append((workload, promise))
            beside = [(one, got) for key, got in promise.beside if (one := queues.workload(key)) is not None]
            order = max(order_of(one) for one in (workload, *(one for one, _ in beside)))
            self._due.append((promise.level, order, workload, promise.admission))
            self._due += ((promise.level, order, _beside(one), got) for one, got in beside)
            self._names[workload.key] = [workload.key, *(_beside(one).key for one, _ in beside)]
        self._due.sort(key=lambda each: each[:2], reverse=True)

    def _claimed(self) -> Iterator[tuple[Workload, Promise]]:
        """What is kept for a workload that is to be considered anew while its victims leave, or when they have left."""
        for key, claim in self._queues.claims.items():
            owner = self._queues.workload(key)
            if owner is not None and not self._queues.promised(key):
                yield owner, claim

    def __bool__(self) -> bool:
        """Whether any promise is kept, so that afterwards differs from now."""
        return bool(self.outlook)

    @property
    def leaving(self) -> frozenset[str]:
        """The victims, by key."""
        return self.outlook.leaving

    def keep_until(self, level: int, order: Order) -> None:
        """Keep what was promised to those whose turn is before this one."""
        while self._due and self._due[-1][:2] < (level, order):
            self._keep_next()

    def keep_from(self, other: Workload) -> None:
        """Keep what was promised to those that `other` may not go before."""
        barring = [owner.key for owner, promise in self._own if self.bars(owner, promise, other)]
        if not barring:
            return
        names = {name for key in barring for name in self._names.get(key, ())}
        self._own = [each for each in self._own if each[0].key not in barring]
        due, self._due = self._due, [each for each in self._due if each[2].key not in names]
        for _, _, workload, admission in reversed(due):
            if workload.key in names:
                self._keep(workload, admission)

    def bars(self, owner: Workload, promise: Promise, other: Workload) -> bool:
        """Whether `other` may not take what was promised to the owner, although its turn may be earlier."""
        queue = self._ledger.quota.spec(owner.cluster_queue)
        strict = queue is not None and queue.strategy is QueueingStrategy.STRICT_FIFO
        return promise.bars(owner, other, strict=strict)

    def keep_all(self) -> None:
        """Keep every reservation: where fair shares decide, its holder had won its turn."""
        while self._due:
            self._keep_next()

    def _keep_next(self) -> None:
        *_, workload, admission = self._due.pop()
        self._keep(workload, admission)

    def make(
        self,
        key: str,
        found: Nomination,
        victims: frozenset[str],
        others: Sequence[Nomination] = (),
        lack: Lack | None = None,
        evicted: frozenset[str] = frozenset(),
        now: float = 0.0,
    ) -> None:
        """The pending workload of that key gets this once the victims have left, and `others` with it what they get.

        `lack`: the quota that it would need to start before. `evicted`: those of the victims that it evicts itself, at `now`.
        """
        self.outlook.leave(victims)
        admission = found.admission()
        beside = tuple((other.workload.key, other.admission()) for other in others)
        self._queues.promise(key, Promise(admission, victims, found.assignment.level, beside, lack, evicted, now))
        self._names[key] = [found.workload.key, *(_beside(other.workload).key for other in others)]
        self._keep(found.workload, admission)
        for other in others:
            self._keep(_beside(other.workload), other.admission())

    def _keep(self, workload: Workload, admission: Admission) -> None:
        places = tuple(replace(pod_set, usage={}) for pod_set in admission.pod_sets)
        self._ledger.hold(workload, replace(admission, pod_sets=places))
        self._held[workload.key] = admission
        self.outlook.take(admission)

    def drop(self, key: str) -> None:
        """The workload is considered anew, whatever it was promised: nothing is kept for it, and those beside it, any more.

        Its victims are on their way out all the same.
        """
        names = self._names.pop(key, ())
        self._due = [each for each in self._due if each[2].key not in names] if names else self._due
        for name in names:
            if (admission := self._held.pop(name, None)) is not None:
                self._ledger.unhold(name)
                self.outlook.take(admission, -1)

    @contextmanager
    def afterwards(self, queue: str | None = None, *, nodes: bool = True) -> Iterator[None]:
        """Inside, the ledger is as it will be when all promises so far are kept.

        `queue`: of quota only what that queue's tree has is asked for. `nodes` False: no room is asked for.
        """
        with self._ledger.away(self.leaving, nodes=nodes):
            self.outlook.apply(queue)
            yield

    def leave_quota_for(self, queue: str, assignment: FlavorAssignment) -> bool:
        """Whether the quota suffices afterwards as well."""
        if not self:
            return True
        with self.outlook.held(queue):
            return self._ledger.quota.fits(queue, assignment.usage)

    def must_wait(self, found: Nomination) -> bool:
        """Whether what fits afterwards does not fit now, because of those that are still to leave."""
        if not self:
            return False
        if not self._ledger.quota.fits(found.workload.cluster_queue, found.assignment.usage):
            return True
        return not self._ledger.fits(found.workload, found.admission())

    def end(self) -> None:
        """The cycle is over: nothing is held in the book any more."""
        for key in self._held:
            self._ledger.unhold(key)


def _beside(workload: Workload) -> Workload:
    """Under a name of its own, so that nobody takes what is held for it for its admission."""
    return replace(workload, key=f"{workload.key} (promised)")
