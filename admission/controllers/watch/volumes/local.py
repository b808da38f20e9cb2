"""Counts the local volumes of each node by StorageClass, for classes without a provisioner. No IO.

Counting of a class starts with the first Workload whose pods each get a claim of the class, or name an unbound claim of it. A
volume counts for its node while it is free, or while a bound pod uses it, which then takes it. So a released volume, and one
whose claim no pod uses, offers no capacity. Volumes that several nodes can reach are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from admission.controllers.watch.in_steps import InSteps
from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.node_amounts import NOTHING, AmountsChanged
from admission.controllers.watch.projection import ProjectedPod
from api.names import HOSTNAME_LABEL
from api.pod.pods import Node
from api.pod.volumes import Volume

PREFIX: Final = "local-volumes-"
"""The prefix of the resource names of such amounts."""
MOST_CLASSES: Final = 64
"""The maximum number of counted classes with volumes; a cluster has a few."""
_BY_HOST: Final = "host"
_BY_CLASS: Final = "class of a local volume"


def host_of(volume: Volume) -> str:
    """Returns the hostname of the only node that can reach the volume; empty if it names several nodes or none."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    terms = required.node_selector_terms if required else ()
    one = terms[0].match_expressions[0] if len(terms) == 1 and len(terms[0].match_expressions) == 1 else None
    named = one is not None and one.key == HOSTNAME_LABEL and one.operator == "In" and len(one.values) == 1
    return one.values[0] if one is not None and named and not terms[0].match_fields else ""


class LocalVolumes:
    """Local volumes by node. `volume_of` returns a claim's volume by the claim's key, `users` the bound pods that use it."""

    def __init__(
        self,
        volumes: Copy[Volume],
        nodes: Copy[Node],
        volume_of: Callable[[str], Volume | None],
        users: Callable[[str], Collection[ProjectedPod]],
    ) -> None:
        self._volumes, self._nodes = volumes, nodes
        self._volume_of, self._users = volume_of, users
        self._steps = InSteps()
        self._classes: dict[str, None] = {}
        self._handlers: list[Callable[[AmountsChanged], None]] = []
        nodes.add_index(_BY_HOST, lambda node: [node.metadata.labels.get(HOSTNAME_LABEL, "")])
        volumes.add_index(_BY_HOST, lambda volume: [host] if (host := host_of(volume)) else [])
        volumes.add_index(_BY_CLASS, lambda volume: [volume.spec.storage_class_name])
        volumes.add_handler(lambda change: self._volume_changed(change.object))

    def add_handler(self, fn: Callable[[AmountsChanged], None]) -> None:
        """Calls `fn` after each change of amounts."""
        self._handlers.append(fn)

    @property
    def is_full(self) -> bool:
        """Reports whether another class needs the place of one without volumes."""
        return len(self._classes) >= MOST_CLASSES

    def count(self, name: str) -> bool:
        """Starts to count the class; reports whether the class is counted. Classes without volumes make room for it."""
        if name not in self._classes and self.is_full:
            self._classes = {each: None for each in self._classes if self._volumes.by_index(_BY_CLASS, each)}
        if name not in self._classes and not self.is_full:
            self._classes[name] = None
            self._steps.start(self._retelling())
        return name in self._classes

    def _retelling(self) -> Iterator[None]:
        for volume in list(self._volumes.objects.values()):
            self._volume_changed(volume)
            yield

    def offered(self, node: str) -> Mapping[str, int]:
        """Returns the number of volumes of each counted class that the node offers, including those that its pods use."""
        if not self._classes:
            return NOTHING
        left = {f"{PREFIX}{name}": 0 for name in self._classes}
        for volume in self._volumes.by_index(_BY_HOST, self._hostname(node)):
            name = f"{PREFIX}{volume.spec.storage_class_name}"
            if name in left and (_is_free(volume) or self._users_of(volume)):
                left[name] += 1
        return left

    def taken(self, pod: ProjectedPod) -> Mapping[str, int]:
        """Returns the number of counted volumes that a bound pod uses, by class."""
        if not self._classes or not pod.claims:
            return NOTHING
        used: dict[str, int] = {}
        for key in pod.claims:
            volume = self._volume_of(key)
            if volume is not None and volume.spec.storage_class_name in self._classes and host_of(volume):
                name = f"{PREFIX}{volume.spec.storage_class_name}"
                used[name] = used.get(name, 0) + 1
        return used

    def pod_changed(self, pod: ProjectedPod) -> None:
        """Handles the arrival or the end of a pod with claims, which changes whether its volumes count."""
        if self._classes and (hosts := {host_of(v) for key in pod.claims if (v := self._volume_of(key)) is not None}):
            self._tell(hosts, ())

    def _users_of(self, volume: Volume) -> Collection[ProjectedPod]:
        ref = volume.spec.claim_ref
        return self._users(f"{ref.namespace}/{ref.name}") if ref is not None else ()

    def _hostname(self, node: str) -> str:
        stored = self._nodes.objects.get(node)
        return "" if stored is None else stored.metadata.labels.get(HOSTNAME_LABEL, "")

    def _volume_changed(self, volume: Volume) -> None:
        if volume.spec.storage_class_name in self._classes:
            self._tell({host_of(volume)}, self._users_of(volume))

    def _tell(self, hosts: Iterable[str], pods: Collection[ProjectedPod]) -> None:
        nodes = [node.key for host in sorted(hosts) if host for node in self._nodes.by_index(_BY_HOST, host)]
        for fn in self._handlers:
            fn(AmountsChanged(nodes=nodes, pods=pods))


def _is_free(volume: Volume) -> bool:
    return volume.status.phase in ("", "Available", "Pending") and volume.spec.claim_ref is None
