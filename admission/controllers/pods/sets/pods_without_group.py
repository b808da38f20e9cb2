"""Tells users why a pod waits that has the annotations of a set's pods but belongs to no set.

The webhook writes these annotations into the templates of sets. A pod for which a user wrote them is gated too, and no
controller handles it. Part of the set controller, which adds the pods of sets to their groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from admission.controllers.pods.pod_indexes import PodView
from admission.controllers.watch.caches import InformerView
from admission.controllers.write.workload_writer import Recorder
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.sets.sets import SetKind, is_waiting_for_its_group
from api import names
from api.kube.events import ref_to
from api.kube.reconcile import Reconciler
from api.kube.resources import PODS
from api.meta import object_key

PATIENCE: Final = 5.0
"""Seconds before a pod without a group gets an event that says why; most pods get their group at once."""
_LOOK_AGAIN: Final = 30.0
_LONGEST: Final = 253


class PodsWithoutGroup:
    """Watches pods that have no group yet. `kinds` and `sets` are those of the set controller, by framework."""

    def __init__(
        self,
        pods: PodView,
        kinds: Mapping[str, SetKind],
        sets: Mapping[str, InformerView[dict[str, Any]]],
        recorder: Recorder,
        is_managed: Callable[[dict[str, Any]], bool],
    ) -> None:
        self._pods, self._kinds, self._sets, self._recorder = pods, kinds, sets, recorder
        self._is_managed = is_managed
        self._messages: dict[str, str] = {}
        self.queue = Reconciler("pods without a set", self._reconcile, workers=1)

    def changed(self, pod: QueuedPod) -> None:
        """Notes a changed pod."""
        if pod.gated and is_waiting_for_its_group(pod):
            self.queue.add_after(pod.key, PATIENCE)

    async def _reconcile(self, key: str) -> float | None:
        pod = self._pods.objects.get(key)
        if pod is None or not pod.gated or pod.deleted or not is_waiting_for_its_group(pod):
            self._messages.pop(key, None)
            return None
        message = self.why(pod)
        if self._messages.get(key) != message:
            self._messages[key] = message
            self._recorder.record(ref_to(PODS, pod), "Warning", "SetNotFound", message)
        return _LOOK_AGAIN

    def why(self, pod: QueuedPod) -> str:
        """Returns why the pod has no group."""
        framework = pod.annotations.get(names.POD_SUSPENDING_PARENT, "")
        kind = self._kinds.get(framework)
        if kind is None:
            message = f"its annotation {names.POD_SUSPENDING_PARENT} names {framework[:_LONGEST]!r}"
            return (
                f"the pod waits: {message}, which is no managed kind of set; known are {', '.join(sorted(self._kinds))}"
            )
        name = kind.set_of(pod)[:_LONGEST]
        if not name:
            return f"the pod waits: it is marked as a pod of a {kind.resource.kind} and names none; leave its annotations out"
        key = object_key(pod.metadata.namespace, name)
        about = f"the pod waits: it is marked as a pod of {kind.resource.kind} {key}"
        obj = self._sets[kind.framework].objects.get(key)
        if obj is None:
            return f"{about}, which does not exist or names no queue"
        if not self._is_managed(obj):
            return f"{about}, which is not queued; only a pod that its controller creates belongs there"
        return f"{about}, which has no Workload for it yet; events of {kind.resource.kind} {name} say why"
