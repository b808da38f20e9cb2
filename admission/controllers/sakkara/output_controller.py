"""The controller that writes the results of Sakkara groups into their ConfigMaps, and ranks onto their pods.

It watches, asks `output` for the results and patches the differences; it decides nothing itself, and runs on the leader only.
The reconciler's keys are ConfigMaps. Changes are collected for a time that grows with the group, so the cost for n pods is
O(n) instead of O(n^2). The ConfigMap is written first, conditional on its resourceVersion, and the pods after it: whatever a
killed process leaves, the ranks of the pods follow the ConfigMap, and a restarted process continues from there. A pod that
names its group other than by the group's label only counts until it is started, when it gets the label.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from admission.controllers.pods.pod_indexes import BY_GROUP, PodView, group_keys
from admission.controllers.sakkara.groups import SakkaraGroups, group_key
from admission.controllers.sakkara.output import GroupResult, result
from admission.controllers.sakkara.output_members import MemberPod, read_member
from admission.controllers.sakkara.output_paths import TreePaths
from admission.controllers.sakkara.output_record import RECORD, SOLVER, WRITTEN, ResultInput, ResultRecord
from admission.controllers.sakkara.output_times import SolverTimes
from admission.controllers.watch.caches import InformerView
from admission.integrations.pods.pod import QueuedPod
from api.errors import Conflict, Forbidden, Invalid, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import CONFIG_MAPS, PODS
from api.meta import is_true, object_key
from api.names import EVICTED, FINISHED, SAKKARA_GROUP_ANNOTATION
from api.sakkara import ConfigMap, read_group
from api.workloads import Workload

log = logging.getLogger(__name__)

SYNC_TIMEOUT: Final = 120.0
BATCH: Final = 0.2
"""Seconds for which changes of a group are collected, plus the same for every BATCH_PODS of its pods."""
BATCH_PODS: Final = 400
BY_MEMBERS: Final = "group of members"
BY_MAP: Final = "config map of group"

_convert: Final = msgspec.json.Decoder(ConfigMap).decode


class MemberView(InformerView[MemberPod], Protocol):
    """The part of the member informer that is used."""

    def count(self, name: str, value: str) -> int:
        """Returns the number of objects indexed under the value."""

    def observe(self, obj: MemberPod) -> None:
        """Applies the answer to a write."""


class MapView(InformerView[ConfigMap], Protocol):
    """The part of the group ConfigMap informer that is used."""

    def observe(self, obj: ConfigMap) -> None:
        """Applies the answer to a write."""


class ResultController:
    """Reconciles the results of groups.

    `groups` is built on `maps`; `pods` have the group label; `queued` are all queued pods, indexed by group. `at_once` bounds
    concurrent patches of pods.
    """

    def __init__(
        self,
        kube: Kube,
        maps: MapView,
        groups: SakkaraGroups,
        pods: MemberView,
        queued: PodView,
        workloads: InformerView[Workload],
        paths: TreePaths,
        times: SolverTimes,
        *,
        at_once: int = 32,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._wall = kube, wall
        self._maps, self._groups, self._workloads = maps, groups, workloads
        self._pods, self._queued = pods, queued
        self._paths, self._times = paths, times
        self._slots = asyncio.Semaphore(at_once)
        self._seen: dict[str, float] = {}
        self._bound: dict[str, float] = {}
        # By ConfigMap: the Workload that ended or was evicted and is deleted, until its end is written. Otherwise an end and a
        # deletion would go unreported if both happened while changes are collected.
        self._gone: dict[str, Workload] = {}
        self.queue = Reconciler("sakkara results", self.reconcile, workers=4)
        maps.add_index(BY_MEMBERS, lambda config_map: (group_key(config_map),))
        maps.add_handler(self._map_changed)
        pods.add_index(BY_MEMBERS, lambda pod: (pod.group_key,))
        pods.add_handler(self._pod_changed)
        queued.add_handler(self._queued_changed)
        workloads.add_index(BY_MAP, map_keys)
        workloads.add_handler(self._workload_changed)

    async def run(self) -> None:
        """Runs until cancelled, once the views have synced; their informers run elsewhere."""
        await self._maps.synced(SYNC_TIMEOUT)
        await self._pods.synced(SYNC_TIMEOUT)
        await self._queued.synced(SYNC_TIMEOUT)
        await self._workloads.synced(SYNC_TIMEOUT)
        await self.queue.run()

    # ---- watch handlers

    def _map_changed(self, change: Change[ConfigMap]) -> None:
        if change.type is ChangeType.DELETED:
            self._bound.pop(group_key(change.object), None)
            self._gone.pop(change.key, None)
        else:
            self._queue_soon(change.object)

    def _pod_changed(self, change: Change[MemberPod]) -> None:
        pod, old = change.object, change.old
        if old is not None and pod.node and not old.node:
            self._bound[pod.group_key] = self._wall()
        if old is not None and change.type is ChangeType.MODIFIED and _alike(old, pod):
            return
        for config_map in self._maps.by_index(BY_MEMBERS, pod.group_key):
            self._queue_soon(config_map)

    def _queued_changed(self, change: Change[QueuedPod]) -> None:
        if (
            change.old is not None
            and change.type is ChangeType.MODIFIED
            and change.old.lasting == change.object.lasting
        ):
            return
        for key in group_keys(change.object):
            for config_map in self._maps.by_index(BY_MEMBERS, key):
                self._queue_soon(config_map)

    def _workload_changed(self, change: Change[Workload]) -> None:
        keys = map_keys(change.object)
        if keys and change.type is ChangeType.ADDED:
            self._seen[change.object.metadata.uid] = self._wall()
        elif change.type is ChangeType.DELETED:
            self._seen.pop(change.object.metadata.uid, None)
            self._times.forget(change.key)
        for key in keys:
            if (config_map := self._maps.objects.get(key)) is not None:
                if change.type is ChangeType.DELETED and _is_over(change.object):
                    self._gone[key] = change.object
                self._queue_soon(config_map)

    def _queue_soon(self, config_map: ConfigMap) -> None:
        count = self._pods.count(BY_MEMBERS, group_key(config_map))
        self.queue.add_after(config_map.key, BATCH * (1 + count / BATCH_PODS))

    # ---- one group

    async def reconcile(self, key: str) -> float | None:
        """Updates ConfigMap and pod labels of one group; returns the seconds until the next reconcile, or None."""
        gone, config_map = self._gone.get(key), self._maps.objects.get(key)
        if gone is not None:
            if config_map is not None and _record(config_map).workload == gone.metadata.uid:
                await self._update(key, gone)
            if self._gone.get(key) is gone:
                del self._gone[key]
        return await self._update(key, self._workload(key))

    async def _update(self, key: str, workload: Workload | None) -> float | None:
        config_map = self._maps.objects.get(key)
        if config_map is None:
            return None
        pods = self._pods.by_index(BY_MEMBERS, group_key(config_map))
        spent = self._times.known(workload.key) if workload is not None else None
        group_result = result(self._result_input(config_map, workload, pods, spent))
        if patch := patch_of(config_map, group_result):
            await self._write(config_map, patch)
            if workload is not None:
                self._times.written(workload.key, spent)
        await self._label(pods, group_result)
        return group_result.again_in

    def _result_input(
        self, config_map: ConfigMap, workload: Workload | None, pods: Sequence[MemberPod], spent: float | None
    ) -> ResultInput:
        levels = self._paths.levels(workload)
        read = read_group(config_map.metadata.name, config_map.data)
        return ResultInput(
            data=config_map.data,
            record=_record(config_map),
            workload=workload,
            pods=pods,
            path_of=lambda pod: self._paths.of(pod, levels),
            now=self._wall(),
            wanted=read.group.size if read.group else 0,
            existing=sum(pod.lasting for pod in self._queued.by_index(BY_GROUP, group_key(config_map))),
            fault=self._groups.problem(config_map.key),
            solver=spent,
            seen=self._seen.get(workload.metadata.uid) if workload is not None else None,
            bound=self._bound.get(group_key(config_map)),
        )

    def _workload(self, key: str) -> Workload | None:
        """Returns the group's own Workload, not a late joiner's: the unfinished one, else the newest."""
        workloads = self._workloads.by_index(BY_MAP, key)
        return max(workloads, key=_precedence, default=None)

    async def _write(self, config_map: ConfigMap, patch: Mapping[str, Any]) -> None:
        meta = config_map.metadata
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": meta.uid}}
        body["metadata"]["resourceVersion"] = meta.resource_version
        try:
            answer = await self._kube.patch(CONFIG_MAPS, meta.name, body, meta.namespace, kind=PatchKind.MERGE)
        except NotFound:
            log.debug("already gone", extra={"config_map": config_map.key})
            return
        self._maps.observe(_convert(msgspec.json.encode(answer)))

    # ---- pods

    async def _label(self, pods: Iterable[MemberPod], group_result: GroupResult) -> None:
        """Patches all pods whose labels differ, even after a failure, and then raises the first failure."""
        differ = [
            (pod, wanted) for pod in pods if (wanted := group_result.labels.get(pod.name)) and wanted != pod.given
        ]
        outcomes = await asyncio.gather(
            *(self._label_pod(pod, wanted) for pod, wanted in differ), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _label_pod(self, pod: MemberPod, wanted: Mapping[str, str]) -> None:
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid, "labels": dict(wanted)}}
        async with self._slots:
            try:
                answer = await self._kube.patch(
                    PODS, meta.name, body, meta.namespace, kind=PatchKind.MERGE, repeatable=True
                )
            except (NotFound, Conflict, Forbidden, Invalid) as gone:
                log.debug("pod not labelled: %s", gone, extra={"pod": f"{meta.namespace}/{meta.name}"})
                return
        self._pods.observe(read_member(msgspec.json.encode(answer)))


def map_keys(workload: Workload) -> tuple[str, ...]:
    """Indexes Workloads by the ConfigMap of their group."""
    name = workload.metadata.annotations.get(SAKKARA_GROUP_ANNOTATION)
    return (object_key(workload.metadata.namespace, name),) if name else ()


def patch_of(config_map: ConfigMap, group_result: GroupResult) -> dict[str, Any]:
    """Returns the merge patch of Stowage's keys and annotation, or an empty dict if nothing differs.

    A change of the solver time alone is no reason to write.
    """
    data = {
        key: group_result.data.get(key) for key in WRITTEN if group_result.data.get(key) != config_map.data.get(key)
    }
    patch: dict[str, Any] = {}
    if data.keys() - {SOLVER}:
        patch["data"] = data
    record = group_result.record.text()
    if record != config_map.metadata.annotations.get(RECORD) and group_result.record != ResultRecord():
        patch["metadata"] = {"annotations": {RECORD: record}}
    return patch


def _precedence(workload: Workload) -> tuple[bool, bool, str, str]:
    meta = workload.metadata
    own = workload.of_pod_group
    over = is_true(workload.status.conditions, FINISHED)
    return own, not over, meta.creation_timestamp or "", meta.uid


def _record(config_map: ConfigMap) -> ResultRecord:
    return ResultRecord.read(config_map.metadata.annotations.get(RECORD))


def _is_over(workload: Workload) -> bool:
    """Reports whether this is a group's own Workload, and ended or evicted."""
    states = workload.status.conditions
    return workload.of_pod_group and (is_true(states, FINISHED) or is_true(states, EVICTED))


def _alike(old: MemberPod, new: MemberPod) -> bool:
    """Reports whether nothing that the results depend on has changed, including Stowage's labels, which users may remove."""
    return all(getattr(old, name) == getattr(new, name) for name in _LOOKED_AT) and old.metadata.uid == new.metadata.uid


_LOOKED_AT: Final = tuple(name for name in MemberPod.__dataclass_fields__ if name != "metadata")
