"""Watches admitted Workloads and their pods, and opens topology gates in batches.

A change of a Workload triggers a reconcile at once. A change of a pod triggers one after the batch period, counted from the
first change, so a burst of pods costs one reconcile, or at once when all pods of the assignments exist. `gate_plan` assigns
pods to domains; this module holds the indexes, sends one patch per pod (a bounded number at a time) and tracks their outcome.

Only the leader runs it. A reconcile may be repeated without harm, because it starts from the pods as observed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from api.errors import ApiError, Invalid, InvalidObject, NotFound, NotLeader, ServerError, StowageError, Unreachable
from api.kube.client import Kube, PatchKind
from api.kube.informers.informer import Informer
from api.kube.informers.lazy_informer import LazyInformer
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import PODS
from api.meta import find_condition, parse_time
from api.names import ADMITTED, HOSTNAME_LABEL, SAKKARA_RANK, TOPOLOGY_GATE
from api.pod.pods import GatedPod
from api.process import tracing
from api.workloads import Workload
from ungater.expectations import PENDING, Expectations
from ungater.gate_plan import GateChange, awaits_rank, expected_pods, may_open, plan, slice_key, slice_of, workload_key
from ungater.metrics import GATE_REMOVAL, OPENINGS
from ungater.named import Host, Named
from ungater.own_claims import OwnClaims
from ungater.patches import opening_patch, sending_patch
from ungater.settings import UngaterSection

log = logging.getLogger(__name__)

_REFUSED = 10.0
"""Seconds until a gate is tried again after the API server refused its patch."""
_BY_WORKLOAD = "workload"
_GATED = "workload of a gated pod"
_BY_HOSTNAME = "hostname"
_BY_SLICE = "slice"
_decode_pod = msgspec.json.Decoder(GatedPod).decode


class Ungater:
    """The controller of the gates. `now` returns epoch seconds."""

    def __init__(
        self,
        kube: Kube,
        workloads: Informer[Workload],
        pods: Informer[GatedPod],
        nodes: Informer[Host],
        claims: LazyInformer[Named],
        settings: UngaterSection,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._workloads, self._pods, self._nodes = kube, workloads, pods, nodes
        self._settings, self._now = settings, now
        self._slots = asyncio.Semaphore(settings.patches)
        self._expectations = Expectations()
        # Pods as the responses to patches returned them, until the watch shows the same.
        self._answered: dict[str, GatedPod] = {}
        self._reconciler = Reconciler("ungater", self._reconcile, workers=settings.workers)
        self._own_claims = OwnClaims(claims, self._reconciler.add)
        pods.add_index(_BY_WORKLOAD, lambda pod: [key] if (key := workload_key(pod)) else [])
        pods.add_index(_GATED, lambda pod: [key] if pod.gated and (key := workload_key(pod)) else [])
        workloads.add_index(_BY_SLICE, lambda workload: [slice_key(workload)])
        nodes.add_index(_BY_HOSTNAME, lambda node: [node.hostname])
        workloads.add_handler(self._workload_changed)
        pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        """Opens gates until cancelled."""
        await self._reconciler.run()

    # ---- events

    def _workload_changed(self, change: Change[Workload]) -> None:
        key = slice_key(change.object)
        if change.type is not ChangeType.DELETED and may_open(change.object) and self._pods.count(_GATED, key):
            self._reconciler.add(key)

    def _pod_changed(self, change: Change[GatedPod]) -> None:
        pod, key = change.object, workload_key(change.object)
        if key is None:
            return
        if change.type is ChangeType.DELETED or not pod.gated:
            self._expectations.observed(key, pod.metadata.uid)
            self._answered.pop(pod.metadata.uid, None)
            self._own_claims.forget(pod)
        elif change.type is ChangeType.ADDED:
            self._batch(key)
            return
        elif (known := self._answered.get(pod.metadata.uid)) and known.spec.node_selector == pod.spec.node_selector:
            self._answered.pop(pod.metadata.uid)
        if change.old is not None and SAKKARA_RANK in pod.metadata.labels.keys() - change.old.metadata.labels.keys():
            self._batch(key)
        if change.type is ChangeType.DELETED or pod.terminated:
            # Another pod may wait for this pod's domain.
            self._batch(key)

    def _batch(self, key: str) -> None:
        workload = self._workload_of(key)
        if workload is None or not may_open(workload):
            return  # its admission will trigger the reconcile
        complete = self._pods.count(_BY_WORKLOAD, key) >= expected_pods(workload)
        self._reconciler.add_after(key, 0.0 if complete else self._settings.batch_period)

    def _workload_of(self, key: str) -> Workload | None:
        """Returns the Workload of the pods that declare `key`: for a job in slices, the current one."""
        return slice_of(key, self._workloads.by_index(_BY_SLICE, key))

    def _pods_of(self, key: str) -> list[GatedPod]:
        """Returns the workload's pods. A patch's response replaces the informer's copy while that copy is older."""
        return [self._answered.get(pod.metadata.uid, pod) for pod in self._pods.by_index(_BY_WORKLOAD, key)]

    # ---- reconcile

    async def _reconcile(self, key: str) -> float | None:
        workload = self._workload_of(key)
        if workload is None or not may_open(workload):
            return None
        for uid in self._expectations.pending(key):
            await self._settle(key, uid)
        if self._expectations.pending(key):
            log.info(PENDING, extra={"workload": key})
            return self._settings.batch_period
        try:
            pods = self._pods_of(key)
            openings, unclaimed = self._with_claims(key, plan(workload, pods, self._now()))
        except InvalidObject as bad:
            log.warning("pods stay gated: %s", bad, extra={"workload": key})
            return None
        started = self._now()
        refused = await self._open_all(key, workload, openings) if openings else False
        if openings and tracing.is_on():
            gated = sum(pod.gated for pod in self._pods_of(key))
            about: dict[str, tracing.Value] = {
                "stowage.workload": workload.key,
                "stowage.pods": len(openings),
                "stowage.pods_still_gated": gated,
            }
            tracing.record("open the gates", workload.metadata, started, self._now(), about)
        if refused:
            return _REFUSED
        waits = any(pod.gated and awaits_rank(workload, pod, self._now()) for pod in pods)
        return self._settings.batch_period if waits else unclaimed

    def _with_claims(self, key: str, openings: Sequence[GateChange]) -> tuple[list[GateChange], float | None]:
        """Returns the changes whose pods have their claims, and the seconds until the others open too (None: none waits)."""
        seconds_left = [
            0.0 if each.closed else self._own_claims.seconds_left(key, each.pod, self._now()) for each in openings
        ]
        return [each for each, wait in zip(openings, seconds_left, strict=True) if not wait], max(
            seconds_left, default=0.0
        ) or None

    async def _open_all(self, key: str, workload: Workload, openings: list[GateChange]) -> bool:
        """Sends all patches of one reconcile concurrently; reports whether the API server refused one of them.

        Raises the first failure after all have ended, for a retry.
        """
        self._expectations.expect(key, (opening.pod.metadata.uid for opening in openings))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._open(key, workload, opening)) for opening in openings]
        failed = [error for task in tasks if (error := task.result()) is not None]
        if unknown := next((error for error in failed if not isinstance(error, (NotFound, Invalid))), None):
            raise unknown
        return bool(failed)

    async def _open(self, key: str, workload: Workload, opening: GateChange) -> StowageError | None:
        pod = opening.pod
        if opening.closed:
            body = sending_patch(pod, opening.node_labels)
        else:
            node, clear = self._node_of(opening), self._settings.clear_managers
            body = opening_patch(pod, opening.node_labels, node, clear_managers=clear)
        try:
            async with self._slots:
                # Repeatable: the patch names the pod's uid, and applying it twice has the same result.
                answer = await self._kube.patch(
                    PODS,
                    pod.metadata.name,
                    body,
                    pod.metadata.namespace,
                    kind=PatchKind.STRATEGIC,
                    repeatable=True,
                    decode=_decode_pod,
                )
        except (NotFound, Invalid) as gone:
            # The pod was deleted, or another client opened its gate: the watch shows which, or the patch is sent again.
            OPENINGS.labels("refused").inc()
            log.info("a gate could not be opened: %s", gone, extra={"pod": pod.key, "workload": key})
            self._expectations.observed(key, pod.metadata.uid)
            return gone
        except (Unreachable, ServerError) as unknown:
            OPENINGS.labels("unknown").inc()
            return unknown  # the patch may have been applied: the expectation stays until a read or an event shows it
        except NotLeader as fenced:
            self._expectations.observed(key, pod.metadata.uid)
            return fenced
        except ApiError as error:
            # For example a Conflict: a new pod of that name, or concurrent writes. The watch may show no change.
            OPENINGS.labels("failed").inc()
            self._expectations.observed(key, pod.metadata.uid)
            return error
        if opening.closed:
            self._sent(key, pod, answer)
        else:
            self._opened(key, workload, pod, answer)
        return None

    def _sent(self, key: str, before: GatedPod, after: GatedPod) -> None:
        seen = self._pods.objects.get(before.key)
        behind = seen is not None and seen.gated and seen.spec.node_selector != after.spec.node_selector
        if behind and seen is not None and seen.metadata.uid == after.metadata.uid:
            self._answered[after.metadata.uid] = after
        self._expectations.observed(key, after.metadata.uid)

    def _opened(self, key: str, workload: Workload, before: GatedPod, after: GatedPod) -> None:
        OPENINGS.labels("opened").inc()
        seen = self._pods.objects.get(before.key)
        if seen is not None and seen.metadata.uid == after.metadata.uid and seen.gated:
            self._answered[after.metadata.uid] = after
        self._expectations.observed(key, after.metadata.uid)
        admission = workload.status.admission
        if admission is not None:
            GATE_REMOVAL.labels(TOPOLOGY_GATE, admission.cluster_queue, "false").observe(self._waited(workload, before))

    def _waited(self, workload: Workload, pod: GatedPod) -> float:
        admitted = find_condition(workload.status.conditions, ADMITTED)
        since = max(
            parse_time(admitted.last_transition_time if admitted else None) or 0.0,
            parse_time(pod.metadata.creation_timestamp) or 0.0,
        )
        return max(0.0, self._now() - since)

    async def _settle(self, key: str, uid: str) -> None:
        """Reads a pod whose patch got no response, to learn whether it was applied."""
        pod = next((pod for pod in self._pods_of(key) if pod.metadata.uid == uid), None)
        if pod is None:
            self._expectations.observed(key, uid)
            return
        try:
            now = await self._kube.get(PODS, pod.metadata.name, pod.metadata.namespace, decode=_decode_pod)
        except NotFound:
            self._expectations.observed(key, uid)
            return
        if now.metadata.uid == uid and not now.gated:
            self._answered[uid] = now
        self._expectations.observed(key, uid)

    def _node_of(self, opening: GateChange) -> str | None:
        """Returns the name of a host domain's node, which may differ from its hostname; None unless exactly one matches."""
        hostname = opening.node_labels.get(HOSTNAME_LABEL)
        if hostname is None or not self._settings.pin_nodes:
            return None
        nodes = self._nodes.by_index(_BY_HOSTNAME, hostname)
        return nodes[0].metadata.name if len(nodes) == 1 else None
