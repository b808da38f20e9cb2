"""Pods whose own claims do not exist yet: a gate waits for the PersistentVolumeClaims of generic ephemeral volumes.

Kubernetes' ephemeral volume controller creates such a claim after the pod. kube-scheduler refuses a pod that it sees before its
claim, so the gate opens once the claim exists. If the claim does not come within `PATIENCE`, the gate opens nevertheless: then
kube-scheduler says why the pod waits, and the Workload's condition PodsUnschedulable says so too.

Claims are not watched until the first pod with such a volume.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from api.kube.informers.lazy_informer import LazyInformer
from api.kube.informers.store import Change, ChangeType
from api.meta import parse_time
from api.pod.pods import GatedPod
from ungater.named import Named

PATIENCE: Final = 10.0
"""Seconds after the pod's creation for which its gate waits for its claims."""


class OwnClaims:
    """Knows which pods wait for their claims. `came` is called with the Workload's key once an awaited claim exists."""

    def __init__(self, claims: LazyInformer[Named], came: Callable[[str], None]) -> None:
        self._claims, self._came = claims, came
        self._awaited: dict[str, str] = {}
        claims.add_handler(self._claim_changed)

    def seconds_left(self, key: str, pod: GatedPod, now: float) -> float:
        """Returns the longest time for which the gate still waits, in seconds; 0 if it may open. `key` is the Workload's."""
        names = pod.own_claims
        if not names:
            return 0.0
        self._claims.wake()
        missing = [name for name in names if name not in self._claims.objects]
        seconds_left = (parse_time(pod.metadata.creation_timestamp) or 0.0) + PATIENCE - now
        if not missing or seconds_left <= 0:
            self.forget(pod)
            return 0.0
        self._awaited |= dict.fromkeys(missing, key)
        return seconds_left

    def forget(self, pod: GatedPod) -> None:
        """Drops a pod that is gone or no longer gated."""
        for name in pod.own_claims:
            self._awaited.pop(name, None)

    def _claim_changed(self, change: Change[Named]) -> None:
        if change.type is not ChangeType.DELETED and (key := self._awaited.pop(change.key, None)) is not None:
            self._came(key)
