"""What the controller keeps of a bound pod: who it is, and what the engine counts. Everything else is read and let go.

Pods are the bulk of what the controller watches: a hundred thousand of them, kept whole, are half a gigabyte. Here each is
converted as it arrives (engine/intake), and what many pods have in common stands in memory once. `views` gives a reader
of these to the informer; the feed takes the values over as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from sys import intern
from typing import Final

import msgspec
from cachetools import LRUCache

from admission.engine import intake
from admission.engine.model import BoundPod
from api.pods import Meta, Pod

# Different shapes of pods that are in use at once; more only costs memory.
_SHAPES: Final = 4096


class HeldMeta(msgspec.Struct, frozen=True, gc=False):
    """The identity that the informer goes by."""

    name: str
    namespace: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class HeldPod:
    """`bound` is None for a pod that holds no node (any more); `deleting`: it is on its way out."""

    metadata: HeldMeta
    bound: BoundPod | None
    deleting: bool = False


class PodReader:
    """Decodes pods. Raises InvalidObject, or msgspec's errors, for what it cannot count."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(Pod).decode
        self._shapes: LRUCache[tuple[tuple[str, int], ...], Mapping[str, int]] = LRUCache(_SHAPES)

    def __call__(self, data: bytes) -> HeldPod:
        pod = self._decode(data)
        bound = intake.bound_pod(pod)
        return HeldPod(
            _meta(pod.metadata), self._shared(bound) if bound else None, bool(pod.metadata.deletion_timestamp)
        )

    def _shared(self, pod: BoundPod) -> BoundPod:
        return replace(
            pod,
            node=intern(pod.node),
            requests=self._shapes.setdefault(tuple(pod.requests.items()), pod.requests),
            workload=pod.workload and intern(pod.workload),
            pod_set=pod.pod_set and intern(pod.pod_set),
        )


def _meta(meta: Meta) -> HeldMeta:
    return HeldMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version)
