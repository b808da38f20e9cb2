"""What a head lacks that cannot start: until that comes free it is not looked at again (queue/lacks.py).

Where others' victims are on their way out, what counts is what will be free when they have left and all promises are kept. Who
would lack quota even then, whomever it may evict, needs no search for victims, and nobody asks for room on nodes for it. Called
by cycle.py; how much evicting could bring is preemption/reclaimable.py's to say.
"""

from __future__ import annotations

from functools import partial

from admission.engine.cycle.promises import Promises
from admission.engine.flavors.assign import FlavorAssignment, Mode, Preemptions
from admission.engine.flavors.search import FlavorSearch, Scope
from admission.engine.ledger import Ledger
from admission.engine.model import ClusterQueue, FlavorResource, Workload
from admission.engine.preemption.reclaimable import reclaimable_bound
from admission.engine.queue.lacks import USAGE_MAY_HELP, Free, Lack, lack_of, lack_of_evicting


class Lacking:
    """For the heads of one cycle. Under fair sharing nothing is told of those who may evict: there the shares decide."""

    def __init__(self, ledger: Ledger, promises: Promises, preemptions: Preemptions, *, fair: bool) -> None:
        self._ledger, self._promises, self._preemptions, self._fair = ledger, promises, preemptions, fair

    def free(self, queue: ClusterQueue) -> Free:
        """What is free for the queue; for those who may evict, when others' victims have left and promises are kept."""

        def free(fr: FlavorResource, priority: int | None) -> int:
            if priority is None or not self._promises:
                return reclaimable_bound(self._ledger, queue.name, fr, priority)
            with self._promises.outlook.held(queue.name):
                return reclaimable_bound(self._ledger, queue.name, fr, priority)

        return free

    def of(self, workload: Workload, queue: ClusterQueue, found: FlavorAssignment) -> Lack | None:
        """What such a search in vain waits for; None: anything may help."""
        if not queue.preemption.evicts:
            return lack_of(queue, found)
        return None if self._fair else lack_of_evicting(queue, found, workload.priority)

    def beside_promises(
        self, workload: Workload, queue: ClusterQueue, found: FlavorAssignment
    ) -> tuple[FlavorAssignment, bool]:
        """Its flavors beside what is promised (`found` where nothing is); and whether quota would be short after evicting
        every eligible victim."""
        with self._promises.afterwards(queue.name, nodes=False):
            if self._promises:
                about, scope = self._preemptions.about(workload), Scope(fair=self._fair)
                found = FlavorSearch(queue, self._ledger.flavors, self._ledger.quota, about, scope).assign(workload)
            lack = self.of(workload, queue, found)
            return found, lack is not None and not lack.eased(partial(reclaimable_bound, self._ledger, queue.name))

    def in_vain(self, workload: Workload, queue: ClusterQueue, found: FlavorAssignment, beyond: bool) -> Lack | None:
        """There is nobody, or not enough, to evict for it: what must come free first, however full the nodes are.

        `found` and `beyond` as `beside_promises` tells them.
        """
        lack = self.of(workload, queue, found)
        if found.mode is Mode.NO_CANDIDATES and len(found.usage) == 1 and not self._promises:
            return lack or USAGE_MAY_HELP
        return lack if beyond else None

    def until_then(self, queue: ClusterQueue, found: FlavorAssignment) -> Lack | None:
        """The quota without which it cannot start while the victims of what it is promised are there."""
        return None if self._fair else lack_of(queue, found)
