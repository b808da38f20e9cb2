"""The PodGroups of gangs: seen, made where only labels name a gang, deleted with the last pod, told where the gang stands.

`PodGroups` is the read side; `PodGroupController` writes, keyed by `namespace/name`. A gang has one PodGroup,
of whichever group; where both are there, that of scheduling.x-k8s.io holds. Ours bear the label GANG_MADE.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from cachetools import LRUCache
from pydantic import ValidationError

from admission.controllers.caches import InformerView
from admission.controllers.conditions import GANG_BOUND
from admission.controllers.pods.gang import GangTerms, is_gang, stopped, terms_of
from admission.controllers.pods.pod_group_status import next_status
from admission.controllers.pods.pod_indexes import BY_GROUP, PodView, group_keys
from admission.controllers.pods.sakkara_groups import SakkaraGroups
from admission.controllers.pods.sakkara_terms import as_described
from admission.integrations.pod import QueuedPod
from admission.integrations.podgroup import UnlikePods
from api.errors import AlreadyExists, Conflict, NotFound
from api.groups import PodGroup
from api.kube.client import Kube, PatchKind
from api.kube.reconcile import Reconciler
from api.kube.resources import POD_GROUPS, Resource
from api.kube.store import Change, ChangeType
from api.merge import merge_diff
from api.meta import is_true, split_key
from api.names import GANG, GANG_MADE, IS_GROUP_WORKLOAD
from api.workloads import RequeueState, Workload

log = logging.getLogger(__name__)

SYNC_TIMEOUT: Final = 120.0
BATCH: Final = 1.0
"""Seconds for which changes of a gang are collected; of a large one for longer. Nobody waits for what is written here, and a
gang that starts goes through most of its phases within one: written one by one they cost the API server more than its start."""
_LOOKED_AT_A_SECOND: Final = 5000.0
ORPHAN_GRACE: Final = 2.0
_STOPS: Final = 10_000
"""Gangs whose backoff is known without their PodGroups; more only costs memory."""
_READ: Final = ("uid", "labels", "annotations")
"""Of a PodGroup's metadata, what the terms of its gang are read from (gang.py)."""

Informers = Mapping[Resource, InformerView[dict[str, Any]]]


class PodGroups:
    """What is seen of both groups, and of the ConfigMaps that describe Sakkara groups and go before them."""

    def __init__(self, informers: Informers, sakkara: SakkaraGroups | None = None) -> None:
        self._informers, self._sakkara = informers, sakkara
        self._stops: LRUCache[str, RequeueState] = LRUCache(_STOPS)
        """What is known of the gangs' backoff from their Workloads, until their PodGroups say it."""

    def of(self, key: str) -> tuple[Resource, PodGroup] | None:
        """The PodGroup of the gang, and where it is served. One that cannot be read is none."""
        for resource, informer in self._informers.items():
            found = informer.objects.get(key)
            if found is None:
                continue
            try:
                return resource, PodGroup.from_wire(found)
            except ValidationError as bad:
                log.warning("PodGroup not taken: %s", bad, extra={"pod_group": key})
        return None

    def terms(self, key: str, pods: Sequence[QueuedPod]) -> GangTerms:
        """What holds for the gang. Raises UnlikePods."""
        found = self.of(key)
        group = found[1] if found else None
        described = self._sakkara.of(key) if self._sakkara else None
        terms = replace(terms_of(pods, group), stops=self.stops(key, group))
        return as_described(terms, pods, described, group)

    def remember(self, workload: Workload) -> None:
        """A gang's Workload may go with its pods; its backoff goes on, until the gang has been bound whole."""
        said, state = workload.metadata.annotations, workload.status.requeue_state
        if GANG not in said or IS_GROUP_WORKLOAD not in said:
            return
        known = self._stops.get(workload.key)
        if is_true(workload.status.conditions, GANG_BOUND):
            self._stops[workload.key] = RequeueState()
        elif state is not None and state.count and (state.requeue_at or known is None or known.count != state.count):
            self._stops[workload.key] = state

    def stops(self, key: str, group: PodGroup | None) -> RequeueState | None:
        """How often the gang was stopped, and when its next try comes; None where it was not."""
        state = self._stops.get(key) or (group.status.requeue_state if group is not None else None)
        return state if state is not None and state.count else None

    def minimum(self, key: str) -> int | None:
        """How many pods a gang needs whose pods do not say it; None where nothing says it."""
        described = self._sakkara.of(key) if self._sakkara else None
        if described is not None:
            return described.read.group.size if described.read.group else None
        found = self.of(key)
        return found[1].spec.min_member if found else None

    def has(self, key: str) -> bool:
        """Whether the gang has a PodGroup, readable or not."""
        return any(key in informer.objects for informer in self._informers.values())

    def add_handler(self, fn: Callable[[str], None], *, status: bool = False) -> None:
        """Told the keys of gangs whose PodGroup or ConfigMap says something else; with `status` also in its status."""
        if self._sakkara is not None:
            self._sakkara.add_handler(fn)
        for informer in self._informers.values():
            informer.add_handler(lambda change: fn(change.key) if status or _says_else(change) else None)

    async def synced(self, seconds: float) -> None:
        """Until the first lists are there."""
        if self._sakkara is not None:
            await self._sakkara.synced(seconds)
        for informer in self._informers.values():
            await informer.synced(seconds)


def _says_else(change: Change[dict[str, Any]]) -> bool:
    """Whether more has changed than the status."""
    if change.old is None or change.type is ChangeType.DELETED:
        return True
    old, new = change.old, change.object
    was, now = old["metadata"], new["metadata"]
    return old.get("spec") != new.get("spec") or any(was.get(part) != now.get(part) for part in _READ)


class PodGroupController:
    """See the module. Only the leader runs it."""

    def __init__(
        self,
        kube: Kube,
        pods: PodView,
        groups: PodGroups,
        workloads: InformerView[Workload],
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._pods, self._groups, self._workloads, self._wall = kube, pods, groups, workloads, wall
        self._alone: dict[str, float] = {}
        # Few: when the API server is busy what starts pods goes before this.
        self.queue = Reconciler("pod groups", self.reconcile, workers=2)
        pods.add_handler(self._pod_changed)
        groups.add_handler(lambda key: self.queue.add_after(key, BATCH), status=True)
        workloads.add_handler(self._workload_changed)

    async def run(self) -> None:
        """Until cancelled. The informers run elsewhere."""
        await self._pods.synced(SYNC_TIMEOUT)
        await self._groups.synced(SYNC_TIMEOUT)
        await self._workloads.synced(SYNC_TIMEOUT)
        await self.queue.run()

    def _pod_changed(self, change: Change[QueuedPod]) -> None:
        for key in group_keys(change.object):
            if is_gang((change.object,)):
                self.queue.add_after(key, max(BATCH, self._pods.count(BY_GROUP, key) / _LOOKED_AT_A_SECOND))

    def _workload_changed(self, change: Change[Workload]) -> None:
        if self._groups.has(change.key):
            self.queue.add_after(change.key, BATCH)

    async def reconcile(self, key: str) -> float | None:
        """Brings one PodGroup in step with its pods; returns when to look again."""
        pods, found = self._pods.by_index(BY_GROUP, key), self._groups.of(key)
        if not pods:
            return None if found is None else await self._without_pods(key, *found)
        self._alone.pop(key, None)
        if not is_gang(pods):
            return None
        try:
            terms = self._groups.terms(key, pods)
        except UnlikePods as unlike:
            log.info("gang held up", extra={"gang": key, "why": str(unlike)})
            return None
        if found is None:
            await self._make(key, terms)
            return None
        await self._tell(*found, pods, terms)
        return None

    async def _without_pods(self, key: str, resource: Resource, group: PodGroup) -> float | None:
        """Ours goes with its last pod, or when the gang's next try comes, which it keeps in mind; a user's stays."""
        terms = GangTerms(group.metadata.name, group.spec.min_member, stops=self._groups.stops(key, group))
        left = stopped(terms, self._wall())[1]
        if GANG_MADE not in group.metadata.labels or left:
            await self._tell(resource, group, (), terms)
            return left if GANG_MADE in group.metadata.labels else None
        since = self._alone.setdefault(key, self._wall())
        if self._wall() - since < ORPHAN_GRACE:
            return ORPHAN_GRACE
        self._alone.pop(key, None)
        meta = group.metadata
        try:
            await self._kube.delete(resource, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            log.debug("already gone", extra={"pod_group": key})
        return None

    async def _make(self, key: str, terms: GangTerms) -> None:
        if terms.minimum is None or terms.exact is not None:
            return  # there must be a PodGroup, and it is still to come; or a ConfigMap says all
        namespace, name = split_key(key)
        made = PodGroup.from_wire(
            {
                "metadata": {"name": name, "namespace": namespace, "labels": {GANG_MADE: "true"}},
                "spec": {"minMember": terms.minimum},
            }
        )
        try:
            await self._kube.create(POD_GROUPS, made.to_wire())
        except AlreadyExists:
            log.debug("there already", extra={"pod_group": key})

    async def _tell(self, resource: Resource, group: PodGroup, pods: Sequence[QueuedPod], terms: GangTerms) -> None:
        workload = self._workloads.objects.get(group.key)
        status = next_status(group.status, pods, workload, terms, self._wall())
        body = merge_diff(group.status.to_wire(), status.to_wire())
        if not body:
            return
        meta = group.metadata
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": body}
        try:
            await self._kube.patch(
                resource, meta.name, patch, meta.namespace, kind=PatchKind.MERGE, subresource="status"
            )
        except NotFound:
            log.debug("already gone", extra={"pod_group": group.key})
