"""Lets one workload at a time choose among existing volumes that local.py does not count. No IO.

Such a claim gets its volume when its pod is bound, so two workloads that start together could expect to get the same volume.
local.py counts the volumes of a class that are on one host each, for claims of one pod. Any other workload that will choose
from a class waits until the pods of the one that was started have their volumes. Bound and provisioned claims take no part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.projection import ProjectedPod
from admission.controllers.watch.volumes.binding import Storage
from admission.controllers.watch.volumes.local import host_of
from admission.controllers.watch.volumes.pod_claims import ClaimUse, claim_uses
from admission.controllers.watch.volumes.reach import CannotBind
from admission.engine.reasons import Reason
from api.meta import is_true, object_key, split_key
from api.names import FINISHED, QUOTA_RESERVED
from api.pod.volumes import Volume
from api.workloads import Workload

_BY_CLASS: Final = "any volume of the class"
_BY_WORKLOAD: Final = "workload of a pod with claims"


def has_quota(workload: Workload) -> bool:
    """Reports whether the Workload's pods may run: it has quota, or is being evicted."""
    states = workload.status.conditions
    return is_true(states, QUOTA_RESERVED) and not is_true(states, FINISHED)


class Choosers:
    """The started workloads whose pods may not have their volumes yet, and those that wait for them."""

    def __init__(
        self, storage: Storage, volumes: Copy[Volume], workloads: Copy[Workload], pods: Copy[ProjectedPod]
    ) -> None:
        self._storage, self._volumes, self._workloads, self._pods = storage, volumes, workloads, pods
        self._started: dict[str, None] = {}
        self._starting: set[str] = set()
        self._waiting: dict[str, None] = {}
        volumes.add_index(_BY_CLASS, lambda volume: [volume.spec.storage_class_name])
        pods.add_index(_BY_WORKLOAD, lambda pod: [pod.bound.workload or ""] if pod.claims and pod.bound else ())

    # ---- the workloads with quota

    def start(self, key: str) -> None:
        """Notes a workload with claims whose quota is being written."""
        self._starting.add(key)
        self._started[key] = None

    def started(self, key: str) -> bool:
        """Handles the end of the write, after which the watched state applies. Reports whether the workload was noted."""
        if key not in self._starting:
            return False
        self._starting.discard(key)
        workload = self._workloads.objects.get(key)
        self.changed(key, runs=workload is not None and has_quota(workload))
        return True

    def changed(self, key: str, *, runs: bool) -> None:
        """Notes whether a workload with claims has quota, as the watch shows it."""
        if runs:
            self._started[key] = None
        elif key not in self._starting:
            self._started.pop(key, None)

    def runs(self, workload: Workload) -> bool:
        """Reports whether the workload has quota or is about to get it."""
        return has_quota(workload) or workload.key in self._starting

    def held(self) -> Collection[str]:
        """Returns the workloads that wait for another one, to be evaluated again, and forgets them."""
        waiting, self._waiting = list(self._waiting), {}
        return waiting

    # ---- the workloads that wait

    def check(self, workload: Workload, uses: Sequence[ClaimUse]) -> None:
        """Checks that the pods can count on the volumes that they will choose. Raises CannotBind."""
        self._waiting.pop(workload.key, None)
        classes = self._classes(workload, uses)
        if not classes:
            return
        self._check_ahead(workload.key, classes)
        several = Counter(name for use in _each_claim(uses) if (name := self._chosen_class(workload, use)))
        for name, number in sorted(several.items()):
            if number > 1 and not classes[name]:
                text = (
                    f"several claims get PersistentVolumes of StorageClass {name}, which are counted for one claim only"
                )
                raise CannotBind(text, Reason.UNSUPPORTED_POD_TERMS)

    def counted_class(self, workload: Workload, use: ClaimUse) -> str:
        """Returns the class of which each pod chooses a volume that is on a single host; empty for other claims."""
        name = "" if use.claim and use.pods > 1 else self._chosen_class(workload, use)
        free = [volume for volume in self._volumes.by_index(_BY_CLASS, name) if volume.spec.claim_ref is None]
        return name if name and all(map(host_of, free)) else ""

    def _check_ahead(self, key: str, classes: Mapping[str, bool]) -> None:
        for other in list(self._started):
            taken = {} if other == key else self._open_classes(other)
            if not taken and other != key:
                del self._started[other]
            for name in sorted(taken.keys() & classes.keys()):
                if not (taken[name] and classes[name]):
                    self._waiting[key] = None
                    whose = (
                        f"Workload {split_key(other)[1]}"
                        if _same_namespace(key, other)
                        else "a workload of another namespace"
                    )
                    text = f"have their PersistentVolumes of StorageClass {name}"
                    raise CannotBind(f"waits until the pods of {whose} {text}")

    def _open_classes(self, key: str) -> Mapping[str, bool]:
        """Returns the classes from which the workload's pods still choose; for claims of each pod, until all are bound."""
        workload = self._workloads.objects.get(key)
        if workload is None or not self.runs(workload):
            return {}
        ended = sum(workload.reclaimed.values())
        asked = sum(pod_set.count for pod_set in workload.spec.pod_sets) - ended
        bound = len(self._pods.by_index(_BY_WORKLOAD, key))
        return self._classes(workload, [use for use in claim_uses(workload) if use.claim or bound < asked])

    def _classes(self, workload: Workload, uses: Sequence[ClaimUse]) -> dict[str, bool]:
        """Returns the classes of which the pods choose volumes, and whether local.py counts all of these claims."""
        counted = dict[str, bool]()
        for use in uses:
            if name := self._chosen_class(workload, use):
                counted[name] = counted.get(name, True) and self.counted_class(workload, use) == name
        return counted

    def _chosen_class(self, workload: Workload, use: ClaimUse) -> str:
        """Returns the class without provisioner of an unbound claim; empty for any other claim."""
        claim = self._storage.claim(object_key(workload.metadata.namespace, use.claim)) if use.claim else None
        if use.claim and (claim is None or claim.bound):
            return ""
        spec = use.spec if claim is None else claim.spec
        name = spec.storage_class_name or "" if spec is not None else ""
        storage_class = self._storage.storage_class(name) if name else None
        return name if storage_class is not None and not storage_class.provisions else ""


def _same_namespace(key: str, other: str) -> bool:
    return split_key(key)[0] == split_key(other)[0]


def _each_claim(uses: Sequence[ClaimUse]) -> Iterator[ClaimUse]:
    """Yields one use of each named claim, and all uses without a name."""
    yield from {use.claim or index: use for index, use in enumerate(uses)}.values()
