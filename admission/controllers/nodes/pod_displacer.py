"""Displaces pods that no node accepts: gives up their place, has the next cycle find another, and ends the pods.

The unbound controller calls it while it leads; displaced.py makes the decisions. A pod gets `PATIENCE` seconds, since
kube-scheduler may have tried too early. Then its place is given up (`displace`: the next cycle finds another place in the
allowed domain), and once the Workload's assignment has changed, the pod is ended so that its owner creates a replacement. The
order survives a restart at any step: a pod without a place in the assignment is ended, whatever removed its place.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from admission.controllers.nodes.displaced import DISRUPTION, Displacement, Place, StuckPod, displacement, successors
from admission.controllers.nodes.ended_pods import end_pod
from admission.controllers.watch.cluster_view import Views, hostname
from admission.controllers.watch.projection import ProjectedMeta
from admission.engine.ledger.ledger import Ledger
from api.errors import Conflict, NotFound
from api.kube.client import Kube
from api.kube.resources import JOBS, Resource
from api.workloads import Workload

log = logging.getLogger(__name__)

PATIENCE: Final = 5.0
_TRIES: Final = 3
_MESSAGE: Final = "No node took the pod where it was sent: it was given another place, which its successor gets"
_READ: Final[Mapping[str, Resource]] = {"Job": JOBS}
_OTHERS: Final = ("ReplicaSet", "StatefulSet")

Displace = Callable[[str, Mapping[Place, int], frozenset[str]], None]


class RefusedPod(Protocol):
    """What the displacer needs of a pod that kube-scheduler refuses."""

    @property
    def metadata(self) -> ProjectedMeta:
        """The pod's identity."""

    @property
    def refused(self) -> str | None:
        """kube-scheduler's message."""

    @property
    def place(self) -> Place | None:
        """The pod set and host that the pod was assigned, or None if that is not a single host."""

    @property
    def owner(self) -> tuple[str, str] | None:
        """Kind and name of the pod's controller."""


@dataclass
class _Episode:
    """The time from a workload's first refused pod until it has none; `ended` tells whether some pods were ended."""

    since: float
    tries: int = 0
    avoid: set[str] = field(default_factory=set)
    ended: bool = False


class PodDisplacer:
    """Sends refused pods of workloads to other hosts."""

    def __init__(
        self, kube: Kube, views: Views, ledger: Ledger, displace: Displace, now: Callable[[], float] = time.time
    ) -> None:
        self._kube, self._views, self._ledger, self._displace, self._now = kube, views, ledger, displace, now
        self._episodes: dict[str, _Episode] = {}

    def is_moving(self, key: str) -> bool:
        """Reports whether pods of the workload are refused at present."""
        return key in self._episodes

    def has_ended_pods(self, key: str) -> bool:
        """Reports whether refused pods of the workload were ended."""
        return key in self._episodes and self._episodes[key].ended

    def over(self, key: str) -> None:
        """Forgets a workload of which no pod is refused any more."""
        self._episodes.pop(key, None)

    async def move(self, workload: Workload, refused: Sequence[RefusedPod]) -> float | None:
        """Takes the next step; returns the seconds until the following one, or None if the pods cannot be moved."""
        episode = self._episodes.setdefault(workload.key, _Episode(self._now()))
        if workload.of_one_pod:
            return None
        if (left := episode.since + PATIENCE - self._now()) > 0:
            return left
        by_name = {pod.metadata.name: pod for pod in refused if pod.place is not None}
        stuck = [StuckPod(name, pod.place, pod.refused or "") for name, pod in by_name.items() if pod.place is not None]
        displaced = displacement(workload, stuck, self._count_bound(workload.key))
        if not displaced.end and (not displaced.lost or episode.tries >= _TRIES):
            return None
        if not await self._all_replaced(workload, by_name, displaced):
            return None
        await self._end_pods([by_name[name].metadata for name in displaced.end], episode)
        if displaced.lost and episode.tries < _TRIES:
            episode.tries += 1
            episode.since = self._now()
            episode.avoid |= {host for _, host in displaced.lost}
            self._displace(workload.key, displaced.lost, frozenset(episode.avoid))
        return PATIENCE

    def _count_bound(self, key: str) -> Counter[Place]:
        """Counts the workload's pods that are bound, by place."""
        bound = Counter[Place]()
        for name in self._ledger.allocations.pods_of(key):
            pod = self._ledger.allocations.pods[name]
            node = self._views.nodes.objects.get(pod.node)
            bound[pod.pod_set or "", hostname(node) if node is not None else pod.node] += 1
        return bound

    async def _all_replaced(
        self, workload: Workload, pods: Mapping[str, RefusedPod], displacement: Displacement
    ) -> bool:
        """Reports whether every pod to end gets a replacement and no owner fails because of it."""
        going = [pod for name, pod in pods.items() if name in displacement.end or pod.place in displacement.lost]
        owners = Counter(pod.owner for pod in going)
        for owner, count in owners.items():
            if owner is None or not await self._is_replaced(workload.metadata.namespace or "", owner, count):
                return False
        return bool(owners)

    async def _is_replaced(self, namespace: str, owner: tuple[str, str], count: int) -> bool:
        kind, name = owner
        if kind in _OTHERS:
            return True
        if kind not in _READ:
            return False
        try:
            obj: dict[str, Any] = await self._kube.get(_READ[kind], name, namespace)
        except NotFound:
            return False
        return successors({**obj, "kind": kind}, count)

    async def _end_pods(self, pods: Collection[ProjectedMeta], episode: _Episode) -> None:
        for meta in pods:
            try:
                await end_pod(self._kube, meta, _MESSAGE, self._now(), ((DISRUPTION, "NoNodeTookIt"),))
            except Conflict:
                log.debug("changed meanwhile", extra={"pod": f"{meta.namespace}/{meta.name}"})
                continue
            episode.ended = True
