"""Reconciles the PodGroups of gangs: creates those that only labels name, updates status, deletes after the last pod.

`PodGroups` is the read side; `PodGroupController` writes, keyed by `namespace/name`. A gang has one PodGroup, of either API
group; if both exist, that of scheduling.x-k8s.io wins. PodGroups that Stowage creates carry the label GANG_MADE.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from cachetools import LRUCache
from pydantic import ValidationError

from admission.controllers.pods.gangs.gang import GangTerms, is_gang, stopped, terms_of
from admission.controllers.pods.gangs.pod_group_status import next_status
from admission.controllers.pods.gangs.sakkara_terms import as_described
from admission.controllers.pods.gangs.unbindable import LOOK_AGAIN, ClaimProblem, held_members, looks_again
from admission.controllers.pods.pod_indexes import BY_GROUP, PodView, group_keys
from admission.controllers.watch.caches import InformerView
from admission.controllers.watch.feature import Descriptions
from admission.controllers.write.creation import create_unless_present
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import UnlikePods
from api.errors import Conflict, NotFound
from api.groups import PodGroup
from api.kube.client import Kube, PatchKind
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import POD_GROUPS, Resource
from api.merge import merge_diff
from api.meta import is_true, split_key
from api.names import GANG, GANG_BOUND, GANG_MADE, IS_GROUP_WORKLOAD
from api.workloads import RequeueState, Workload

log = logging.getLogger(__name__)

SYNC_TIMEOUT: Final = 120.0
BATCH: Final = 1.0
"""Seconds for which changes of a gang are collected, longer for a large one. Nothing waits for a PodGroup's status, and a
starting gang goes through most phases within a second: writing each would cost more than its start.
"""
_LOOKED_AT_A_SECOND: Final = 5000.0
ORPHAN_GRACE: Final = 2.0
_STOPS: Final = 10_000
"""Bounds the gangs whose backoff is known without their PodGroups; more only costs memory."""
_READ: Final = ("uid", "labels", "annotations")
"""The parts of a PodGroup's metadata that the gang's terms depend on (gang.py)."""

Informers = Mapping[Resource, InformerView[dict[str, Any]]]


class PodGroups:
    """A view of PodGroups of both API groups, and of other `descriptions` of gangs, which take precedence."""

    def __init__(self, informers: Informers, descriptions: Descriptions | None = None) -> None:
        self._informers, self._descriptions = informers, descriptions
        self._stops: LRUCache[str, RequeueState] = LRUCache(_STOPS)
        """Backoff of gangs, read from their Workloads, until their PodGroups record it."""

    def of(self, key: str) -> tuple[Resource, PodGroup] | None:
        """Returns the gang's PodGroup and its resource, or None if there is none that is readable."""
        for resource, informer in self._informers.items():
            group = informer.objects.get(key)
            if group is None:
                continue
            try:
                return resource, PodGroup.from_wire(group)
            except ValidationError as bad:
                log.warning("PodGroup not taken: %s", bad, extra={"pod_group": key})
        return None

    def terms(self, key: str, pods: Sequence[QueuedPod]) -> GangTerms:
        """Returns the gang's terms. Raises UnlikePods."""
        kind_and_group = self.of(key)
        group = kind_and_group[1] if kind_and_group else None
        described = self._descriptions.of(key) if self._descriptions else None
        terms = replace(terms_of(pods, group), stops=self.stops(key, group))
        return as_described(terms, pods, described, group)

    def remember(self, workload: Workload) -> None:
        """Keeps the backoff of a gang, whose Workload may be deleted with its pods, until the gang's minimum was bound."""
        annotations, state = workload.metadata.annotations, workload.status.requeue_state
        if GANG not in annotations or IS_GROUP_WORKLOAD not in annotations:
            return
        known = self._stops.get(workload.key)
        if is_true(workload.status.conditions, GANG_BOUND):
            self._stops[workload.key] = RequeueState()
        elif state is not None and state.count and (state.requeue_at or known is None or known.count != state.count):
            self._stops[workload.key] = state

    def stops(self, key: str, group: PodGroup | None) -> RequeueState | None:
        """Returns how often the gang was stopped and when it tries again, or None if it never was."""
        state = self._stops.get(key) or (group.status.requeue_state if group is not None else None)
        return state if state is not None and state.count else None

    def minimum(self, key: str) -> int | None:
        """Returns the minimum of a gang whose pods do not state it, or None if nothing does."""
        described = self._descriptions.of(key) if self._descriptions else None
        if described is not None:
            return described.read.group.size if described.read.group else None
        kind_and_group = self.of(key)
        return kind_and_group[1].spec.min_member if kind_and_group else None

    def has(self, key: str) -> bool:
        """Reports whether the gang has a PodGroup, readable or not."""
        return any(key in informer.objects for informer in self._informers.values())

    def add_handler(self, fn: Callable[[str], None], *, status: bool = False) -> None:
        """Calls `fn` with the keys of gangs whose PodGroup or description changed; with `status`, also for status changes."""
        if self._descriptions is not None:
            self._descriptions.add_handler(fn)
        for informer in self._informers.values():
            informer.add_handler(lambda change: fn(change.key) if status or _changes_spec(change) else None)

    async def synced(self, seconds: float) -> None:
        """Waits until the first lists have arrived."""
        if self._descriptions is not None:
            await self._descriptions.synced(seconds)
        for informer in self._informers.values():
            await informer.synced(seconds)


def _changes_spec(change: Change[dict[str, Any]]) -> bool:
    """Reports whether the change affects more than the status."""
    if change.old is None or change.type is ChangeType.DELETED:
        return True
    old, new = change.old, change.object
    was, now = old["metadata"], new["metadata"]
    return old.get("spec") != new.get("spec") or any(was.get(part) != now.get(part) for part in _READ)


class PodGroupController:
    """Reconciles PodGroups; it runs on the leader only. `claim_problem` is as in JobContext."""

    def __init__(
        self,
        kube: Kube,
        pods: PodView,
        groups: PodGroups,
        workloads: InformerView[Workload],
        *,
        claim_problem: ClaimProblem = lambda key: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._pods, self._groups, self._workloads, self._wall = kube, pods, groups, workloads, wall
        self._claim_problem = claim_problem
        self._single: dict[str, float] = {}
        # Few workers, so that starting pods takes precedence at a busy API server.
        self.queue = Reconciler("pod groups", self.reconcile, workers=2)
        pods.add_handler(self._pod_changed)
        groups.add_handler(lambda key: self.queue.add_after(key, BATCH), status=True)
        workloads.add_handler(self._workload_changed)

    async def run(self) -> None:
        """Runs until cancelled; the informers run elsewhere."""
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
        """Updates one PodGroup from its pods; returns the seconds until the next reconcile, or None."""
        pods, kind_and_group = self._pods.by_index(BY_GROUP, key), self._groups.of(key)
        if not pods and kind_and_group is not None:
            return await self._without_pods(key, *kind_and_group)
        self._single.pop(key, None)
        if not pods or not is_gang(pods):
            return None
        try:
            terms = self._groups.terms(key, pods)
        except UnlikePods as unlike:
            log.info("gang held up", extra={"gang": key, "why": str(unlike)})
            return None
        if kind_and_group is None:
            await self._create(key, terms)
            return None
        held = held_members(pods, self._claim_problem)
        await self._write_status(*kind_and_group, pods, terms, held)
        return LOOK_AGAIN if looks_again(pods, held) else None

    async def _without_pods(self, key: str, resource: Resource, group: PodGroup) -> float | None:
        """Deletes a PodGroup that Stowage created, once its pods and its recorded backoff are gone; a user's stays."""
        terms = GangTerms(group.metadata.name, group.spec.min_member, stops=self._groups.stops(key, group))
        left = stopped(terms, self._wall())[1]
        if GANG_MADE not in group.metadata.labels or left:
            await self._write_status(resource, group, (), terms)
            return left if GANG_MADE in group.metadata.labels else None
        since = self._single.setdefault(key, self._wall())
        if self._wall() - since < ORPHAN_GRACE:
            return ORPHAN_GRACE
        self._single.pop(key, None)
        meta = group.metadata
        try:
            await self._kube.delete(resource, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            log.debug("already gone", extra={"pod_group": key})
        return None

    async def _create(self, key: str, terms: GangTerms) -> None:
        if terms.minimum is None or terms.exact is not None:
            return  # a PodGroup is required and not created yet, or a ConfigMap replaces it
        namespace, name = split_key(key)
        made = PodGroup.from_wire(
            {
                "metadata": {"name": name, "namespace": namespace, "labels": {GANG_MADE: "true"}},
                "spec": {"minMember": terms.minimum},
            }
        )
        await create_unless_present(self._kube, POD_GROUPS, made)

    async def _write_status(
        self,
        resource: Resource,
        group: PodGroup,
        pods: Sequence[QueuedPod],
        terms: GangTerms,
        held: Mapping[str, str] | None = None,
    ) -> None:
        workload = self._workloads.objects.get(group.key)
        status = next_status(group.status, pods, workload, terms, self._wall(), held)
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
