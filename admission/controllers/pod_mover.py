"""Gives up the places of pods that no node takes, has others found, and ends the pods so that their owners make more.

A pod gets `PATIENCE` seconds: the scheduler may have looked a moment too early. Then its place is given up (`displace`: the
next cycle finds another in the allowed domain, by the capacity that is there now), and once the Workload's assignment says so
the pod is ended. So the order survives a restart at any step: a pod without a place in the assignment is ended, whatever took
the place away. What is decided is displaced.py's; the unbound controller calls it while it leads.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from admission.controllers.cluster_view import Views, hostname
from admission.controllers.displaced import DISRUPTION, Displacement, Place, StuckPod, displacement, successors
from admission.controllers.ended_pods import end_pod
from admission.controllers.projection import ProjectedMeta
from admission.engine.ledger import Ledger
from api.errors import Conflict, NotFound
from api.kube.client import Kube
from api.kube.resources import JOBS, Resource
from api.workloads import Workload

log = logging.getLogger(__name__)

PATIENCE: Final = 5.0
_TRIES: Final = 3
_SAYS: Final = "No node took the pod where it was sent: it was given another place, which its successor gets"
_READ: Final[Mapping[str, Resource]] = {"Job": JOBS}
_OTHERS: Final = ("ReplicaSet", "StatefulSet")

Displace = Callable[[str, Mapping[Place, int], frozenset[str]], None]


class RefusedPod(Protocol):
    """What is used of a pod that the scheduler refuses."""

    @property
    def metadata(self) -> ProjectedMeta:
        """Its identity."""

    @property
    def refused(self) -> str | None:
        """The scheduler's words."""

    @property
    def place(self) -> Place | None:
        """Where it was sent; None where that is no single host."""

    @property
    def owner(self) -> tuple[str, str] | None:
        """Kind and name of what controls it."""


@dataclass
class _Episode:
    """One workload from its first refused pod until it has none. `ended`: some of its pods were."""

    since: float
    tries: int = 0
    avoid: set[str] = field(default_factory=set)
    ended: bool = False


class PodMover:
    """See the module."""

    def __init__(
        self, kube: Kube, views: Views, ledger: Ledger, displace: Displace, now: Callable[[], float] = time.time
    ) -> None:
        self._kube, self._views, self._ledger, self._displace, self._now = kube, views, ledger, displace, now
        self._episodes: dict[str, _Episode] = {}

    def is_moving(self, key: str) -> bool:
        """Whether pods of the workload were refused a moment ago."""
        return key in self._episodes

    def has_ended_pods(self, key: str) -> bool:
        """Whether some of these were ended."""
        return key in self._episodes and self._episodes[key].ended

    def over(self, key: str) -> None:
        """No pod of the workload is refused any more."""
        self._episodes.pop(key, None)

    async def move(self, workload: Workload, refused: Sequence[RefusedPod]) -> float | None:
        """Seconds after which to look again; None where nothing can be done for these pods."""
        episode = self._episodes.setdefault(workload.key, _Episode(self._now()))
        if workload.of_one_pod:
            return None
        if (left := episode.since + PATIENCE - self._now()) > 0:
            return left
        by_name = {pod.metadata.name: pod for pod in refused if pod.place is not None}
        stuck = [StuckPod(name, pod.place, pod.refused or "") for name, pod in by_name.items() if pod.place is not None]
        found = displacement(workload, stuck, self._bound(workload.key))
        if not found.end and (not found.lost or episode.tries >= _TRIES):
            return None
        if not await self._all_followed(workload, by_name, found):
            return None
        await self._end([by_name[name].metadata for name in found.end], episode)
        if found.lost and episode.tries < _TRIES:
            episode.tries += 1
            episode.since = self._now()
            episode.avoid |= {host for _, host in found.lost}
            self._displace(workload.key, found.lost, frozenset(episode.avoid))
        return PATIENCE

    def _bound(self, key: str) -> Counter[Place]:
        """The workload's pods that hold a node, by place."""
        found = Counter[Place]()
        for name in self._ledger.allocations.pods_of(key):
            pod = self._ledger.allocations.pods[name]
            node = self._views.nodes.objects.get(pod.node)
            found[pod.pod_set or "", hostname(node) if node is not None else pod.node] += 1
        return found

    async def _all_followed(self, workload: Workload, pods: Mapping[str, RefusedPod], found: Displacement) -> bool:
        """Whether each pod that is ended now or next is followed by another, and no owner ends by it."""
        going = [pod for name, pod in pods.items() if name in found.end or pod.place in found.lost]
        owners = Counter(pod.owner for pod in going)
        for owner, count in owners.items():
            if owner is None or not await self._follows(workload.metadata.namespace or "", owner, count):
                return False
        return bool(owners)

    async def _follows(self, namespace: str, owner: tuple[str, str], count: int) -> bool:
        kind, name = owner
        if kind in _OTHERS:
            return True
        if kind not in _READ:
            return False
        try:
            found: dict[str, Any] = await self._kube.get(_READ[kind], name, namespace)
        except NotFound:
            return False
        return successors({**found, "kind": kind}, count)

    async def _end(self, pods: Collection[ProjectedMeta], episode: _Episode) -> None:
        for meta in pods:
            try:
                await end_pod(self._kube, meta, _SAYS, self._now(), ((DISRUPTION, "NoNodeTookIt"),))
            except Conflict:
                log.debug("changed meanwhile", extra={"pod": f"{meta.namespace}/{meta.name}"})
                continue
            episode.ended = True
