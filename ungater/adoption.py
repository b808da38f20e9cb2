"""Adds the pod set label, by which the ungater selects pods, to pods that name Workload and pod set in annotations only.

Pods of the older annotations lack the label. The informer watches pending pods without it; a pod leaves the informer's view
when it has the label or runs.
"""

from __future__ import annotations

import logging

import msgspec

from api.errors import Invalid, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import PODS
from api.names import PODSET_LABEL, TOPOLOGY_PODSET
from api.pod.pods import GatedPod
from ungater.gate_plan import workload_key

log = logging.getLogger(__name__)

UNLABELLED = f"!{PODSET_LABEL}"
_decode_pod = msgspec.json.Decoder(GatedPod).decode


class Adoption:
    """Labels the pods while `run` runs. `pods` must select with PENDING_PODS and UNLABELLED."""

    def __init__(self, kube: Kube, pods: Informer[GatedPod]) -> None:
        self._kube, self._pods = kube, pods
        self._reconciler = Reconciler("adoption", self._reconcile, workers=8)
        pods.add_handler(self._changed)

    async def run(self) -> None:
        """Labels pods until cancelled."""
        await self._reconciler.run()

    def _changed(self, change: Change[GatedPod]) -> None:
        if change.type is not ChangeType.DELETED and _pod_set(change.object):
            self._reconciler.add(change.key)

    async def _reconcile(self, key: str) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or not _pod_set(pod):
            return
        body = {"metadata": {"uid": pod.metadata.uid, "labels": {PODSET_LABEL: _pod_set(pod)}}}
        try:
            meta = pod.metadata
            await self._kube.patch(
                PODS, meta.name, body, meta.namespace, kind=PatchKind.MERGE, repeatable=True, decode=_decode_pod
            )
        except NotFound:
            log.debug("the pod was deleted", extra={"pod": key})
        except Invalid as refused:
            log.warning("%s names no pod set: %s", TOPOLOGY_PODSET, refused, extra={"pod": key})


def _pod_set(pod: GatedPod) -> str:
    """Returns the pod set that a gated pod of a Workload names in its annotation, or an empty string."""
    gated = pod.gated and workload_key(pod) is not None and PODSET_LABEL not in pod.metadata.labels
    return pod.metadata.annotations.get(TOPOLOGY_PODSET, "") if gated else ""
