"""Projects bound pods and nodes to the fields that the controller uses: identity, and what the engine counts.

Pods are most of what the controller watches: a hundred thousand complete pods take half a gigabyte. So each is converted on
arrival (engine/convert/convert_workloads.py), and equal parts of pods are stored once. `cluster_view` passes these readers to
the informers; the feed uses the values directly. Nodes keep their API form, without annotations and conditions other than
Ready, and share equal parts too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from sys import intern
from typing import Final
from weakref import ReferenceType, WeakKeyDictionary, ref

import msgspec
from cachetools import LRUCache

from admission.engine.convert import convert_nodes
from admission.engine.model import BoundPod, PodFacts, PodTerm
from api.pod.pods import Meta, Node, NodeSpec, NodeStatus, Pod, ResizedPod, StatusCondition

# Bounds the caches of distinct parts in use; a miss only costs memory.
_SHAPES: Final = 4096


class ProjectedMeta(msgspec.Struct, frozen=True, gc=False):
    """The metadata by which the informer identifies an object."""

    name: str
    namespace: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class ProjectedPod:
    """A pod as the controller keeps it."""

    metadata: ProjectedMeta
    bound: BoundPod | None
    """None for a pod that occupies no node."""
    deleting: bool = False
    """Whether a deletion timestamp is set."""
    claims: tuple[str, ...] = ()
    """`namespace/name` of the pod's PersistentVolumeClaims."""
    devices: tuple[str, ...] = ()
    """`namespace/name` of its ResourceClaimTemplates."""


class PodReader:
    """Decodes pods. Raises InvalidObject or msgspec's errors for pods that cannot be counted."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(Pod).decode
        self._decode_statuses = msgspec.json.Decoder(ResizedPod).decode
        self._labels: LRUCache[tuple[str, str], tuple[str, str]] = LRUCache(_SHAPES)
        # Facts are kept for as long as a pod has them.
        self._facts: WeakKeyDictionary[PodFacts, ReferenceType[PodFacts]] = WeakKeyDictionary()
        self._terms: LRUCache[tuple[PodTerm, ...], tuple[PodTerm, ...]] = LRUCache(_SHAPES)
        self._exclusive: LRUCache[tuple[str, ...], Mapping[str, int]] = LRUCache(_SHAPES)
        self._shapes: LRUCache[tuple[tuple[str, int], ...], Mapping[str, int]] = LRUCache(_SHAPES)

    def __call__(self, data: bytes) -> ProjectedPod:
        pod = self._decode(data)
        statuses = self._decode_statuses(data).status if pod.resizing else None
        bound = convert_nodes.bound_pod(pod, statuses)
        return ProjectedPod(
            _meta(pod.metadata),
            self._shared(bound) if bound else None,
            bool(pod.metadata.deletion_timestamp),
            pod.claims if bound and pod.spec.volumes else (),
            pod.devices if bound and pod.spec.resource_claims else (),
        )

    def _shared(self, pod: BoundPod) -> BoundPod:
        return replace(
            pod,
            node=intern(pod.node),
            requests=self._shapes.setdefault(tuple(pod.requests.items()), pod.requests),
            workload=pod.workload and intern(pod.workload),
            pod_set=pod.pod_set and intern(pod.pod_set),
            exclusive=self._exclusive.setdefault(tuple(pod.exclusive), pod.exclusive),
            facts=None if pod.facts is None else self._shared_facts(pod.facts),
        )

    def _shared_facts(self, facts: PodFacts) -> PodFacts:
        """Shares parts of the facts, since pods of one owner differ in few labels."""
        facts = replace(facts, together=()) if facts.together else facts
        of_known = self._facts.get(facts)
        known = of_known() if of_known is not None else None
        if known is None:
            labels = tuple(self._labels.setdefault(pair, pair) for pair in facts.labels)
            apart = self._terms.setdefault(facts.apart, facts.apart)
            known = replace(facts, namespace=intern(facts.namespace), labels=labels, apart=apart)
            self._facts[known] = ref(known)
        return known


def _meta(meta: Meta) -> ProjectedMeta:
    return ProjectedMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version)


class _ListedMeta(msgspec.Struct, rename="camel", gc=False):
    """A node's metadata without annotations."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Listed(msgspec.Struct, gc=False):
    metadata: _ListedMeta = msgspec.field(default_factory=_ListedMeta)
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeReader:
    """Decodes nodes. Raises msgspec's errors."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(_Listed).decode
        self._specs: LRUCache[NodeSpec, NodeSpec] = LRUCache(_SHAPES)
        self._allocatable: LRUCache[tuple[tuple[str, str | int | float], ...], dict[str, str | int | float]]
        self._allocatable = LRUCache(_SHAPES)
        self._ready: LRUCache[StatusCondition, StatusCondition] = LRUCache(_SHAPES)

    def __call__(self, data: bytes) -> Node:
        node = self._decode(data)
        meta, allocatable = node.metadata, node.status.allocatable
        name = meta.name
        labels = {intern(key): name if value == name else intern(value) for key, value in meta.labels.items()}
        ready = tuple(self._ready.setdefault(c, c) for c in node.status.conditions if c.type == "Ready")
        return Node(
            metadata=Meta(
                name=name, uid=meta.uid, resource_version=meta.resource_version, labels=labels, annotations=_NONE
            ),
            spec=self._specs.setdefault(node.spec, node.spec),
            status=NodeStatus(
                allocatable=self._allocatable.setdefault(tuple(allocatable.items()), allocatable), conditions=ready
            ),
        )


_NONE: Final[dict[str, str]] = {}
