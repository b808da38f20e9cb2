"""Says on each object of a kind that Kueue manages and Stowage does not that its queue name has no effect.

Without this a PyTorchJob with a queue name would start outside of every quota, and nothing would say so.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from admission.integrations.owners import managed_kinds
from admission.integrations.registry import KINDS
from api.kube.client import Kube
from api.kube.events import WARNING, EventRecorder, ref_to
from api.kube.optional_informer import OptionalInformer
from api.kube.reconcile import Reconciler
from api.kube.resources import NOT_MANAGED
from api.kube.store import Change, ChangeType
from api.names import QUEUE_NAME_LABEL

REASON = "KindNotManaged"


class UnmanagedKinds:
    """Records one event for each such object while it runs; `informers` run always."""

    def __init__(self, kube: Kube, recorder: EventRecorder) -> None:
        self.informers = {
            framework: OptionalInformer(kube, resource, label_selector=QUEUE_NAME_LABEL)
            for framework, resource in NOT_MANAGED.items()
        }
        self._recorder = recorder
        self._reconciler = Reconciler("unmanaged", self._reconcile, workers=1)
        for framework, informer in self.informers.items():
            informer.add_handler(partial(self._changed, framework))

    async def run(self) -> None:
        """Until cancelled."""
        await self._reconciler.run()

    def _changed(self, framework: str, change: Change[dict[str, Any]]) -> None:
        if change.type is ChangeType.ADDED or _queue(change.old) != _queue(change.object):
            self._reconciler.add(f"{framework} {change.key}")

    async def _reconcile(self, key: str) -> None:
        framework, _, name = key.partition(" ")
        found = self.informers[framework].objects.get(name)
        if found is None:
            return
        resource = NOT_MANAGED[framework]
        if KINDS.is_declared((resource.group, resource.kind)):
            return
        text = (
            f"{resource.kind} names the queue {_queue(found)}, and Stowage does not manage this kind: it does not wait for "
            f"quota. Managed are {', '.join(managed_kinds())}; its pods wait one by one if their template names the queue. "
            "A JobKind can declare it"
        )
        self._recorder.record(ref_to(resource, found), WARNING, REASON, text)


def _queue(obj: dict[str, Any] | None) -> str:
    labels = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(QUEUE_NAME_LABEL, ""))
