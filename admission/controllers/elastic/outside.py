"""What the pods of each namespace hold that no Workload counts: those that ran there before its elastic quota was made. No IO.

They are never gated, moved or ended by Stowage. An elastic quota counts them all the same, as its document has it: every pod
that is bound counts. The feed gives the sums to the quota's ClusterQueue, the queues' status shows them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from admission.engine.model import BoundPod
from api.kube.store import Change, ChangeType
from api.quantity import PODS


class SeenPods(Protocol):
    """What is used of the copy of pods."""

    def add_handler(self, fn: Callable[[Change[Any]], None], /) -> None:
        """Called for every change, and for what is there already."""


class OutsidePods:
    """See the module. A pod is counted by its Workload if it names one, or the pod set that it is of."""

    def __init__(self, pods: SeenPods) -> None:
        self._sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._handlers: list[Callable[[str], None]] = []
        pods.add_handler(self._changed)

    def of(self, namespace: str) -> Mapping[str, int]:
        """The sums by resource, the number of pods among them."""
        return self._sums.get(namespace, Counter())

    def add_handler(self, fn: Callable[[str], None]) -> None:
        """Called with the namespace whose sums have changed."""
        self._handlers.append(fn)

    def _changed(self, change: Change[Any]) -> None:
        old = _counts(change.old.bound if change.old else None)
        new = _counts(None if change.type is ChangeType.DELETED else change.object.bound)
        if old == new:
            return
        namespace = change.key.partition("/")[0]
        sums = self._sums[namespace]
        sums.subtract(old)
        sums.update(new)
        for resource in [name for name, amount in sums.items() if not amount]:
            del sums[resource]
        if not sums:
            del self._sums[namespace]
        for fn in self._handlers:
            fn(namespace)


def _counts(pod: BoundPod | None) -> Mapping[str, int]:
    """What the pod adds."""
    if pod is None or pod.workload is not None or pod.pod_set is not None:
        return {}
    return {**pod.requests, PODS: 1}
