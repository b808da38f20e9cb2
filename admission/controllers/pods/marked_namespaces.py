"""Marks the managed namespaces where jobs without a queue name are managed too (`manageJobsWithoutQueueName`).

The webhook is called for pods and jobs without a queue name only in marked namespaces, so that it is called for few.
Without the mark, a pod without a queue name would run uncounted, since nothing can stop it before it starts. A namespace
whose mark has another value than `true` opts out, and keeps it. assembly.py builds the controller, which runs on the leader
only.
"""

from __future__ import annotations

from collections.abc import Callable

from admission.controllers.watch.local_copies import Copy
from api.errors import NotFound
from api.kube.client import Kube, PatchKind
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import NAMESPACES
from api.names import MANAGED_NAMESPACE
from api.pod.pods import Namespace


class MarkedNamespaces:
    """Marks each namespace that `managed` names and that has no mark yet."""

    def __init__(self, kube: Kube, namespaces: Copy[Namespace], managed: Callable[[str], bool]) -> None:
        self._kube, self._namespaces, self._managed = kube, namespaces, managed
        self.reconciler = Reconciler("marked namespaces", self._mark, workers=2)
        namespaces.add_handler(self._changed)

    def _changed(self, change: Change[Namespace]) -> None:
        if change.type is not ChangeType.DELETED:
            self.reconciler.add(change.key)

    async def _mark(self, name: str) -> None:
        namespace = self._namespaces.objects.get(name)
        if namespace is None or MANAGED_NAMESPACE in namespace.metadata.labels or not self._managed(name):
            return
        body = {"metadata": {"labels": {MANAGED_NAMESPACE: "true"}}}
        try:
            await self._kube.patch(NAMESPACES, name, body, kind=PatchKind.MERGE, repeatable=True)
        except NotFound:
            return
