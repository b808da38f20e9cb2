"""The projection of queued pods, and the role of a pod in its group. Pure.

Pods are most of what is watched, so each is reduced on arrival to its identity, the labels and annotations that Stowage reads,
and its state. Its spec is kept, as JSON bytes, only while the admission gate holds the pod (a Workload is composed from it,
and a start is merged into it); pods from one template share the bytes.

Pods of a group with equal requests form a role. As in Kueue, its name is the first eight hex digits of the SHA-256 of the
spec's relevant fields as JSON with sorted keys: it appears in pod annotations and as pod set name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any, Final

import msgspec
from cachetools import LRUCache

from api import names
from api.meta import object_key, parse_time
from api.pod.pod_terms import keys_of, pod_facts, with_spread
from api.pod.pods import Gate, PodSpec

FRAMEWORK: Final = "pod"
ROLE_LENGTH: Final = 8

# Prefixes of the labels and annotations to keep: Stowage's and Kueue's, those that a Workload copies, those of sets.
_OURS: Final = (
    *(f"{names.GROUP}/", f"provreq.{names.GROUP}/", f"{names.STOWAGE}/"),
    *("leaderworkerset.sigs.k8s.io/", names.STATEFULSET_POD_INDEX),
)
_SHAPE: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)
_MAPS: Final = ("nodeSelector", "overhead")
# Go's encoder of JSON, with which Kueue hashes, escapes these characters within strings.
_ESCAPED: Final = tuple((character.encode(), b"\\u%04x" % ord(character)) for character in "<>&\u2028\u2029")
# Bounds the cache of distinct specs; a miss only costs memory.
_SPECS: Final = 4096
_ORDINAL: Final = re.compile("[0-9]{1,10}")
# The token volume has a random name in each pod, without which pods from one template have equal specs.
_TOKEN_VOLUME: Final = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')


def role_hash(spec: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> str:
    """Returns the role of a pod with this spec as defaulted by the API server; images, volumes and commands do not matter.

    What the spec lacks is hashed as null, as in Kueue: the API server stores no empty lists and maps. With `labels`, which
    Kueue's roles do not have, pods that differ in these labels have different roles.
    """
    shape: dict[str, Any] = {name: spec.get(name) for name in _SHAPE}
    for name in _MAPS:
        shape[name] = _sorted(shape[name])
    shape["containers"] = _containers(spec.get("containers"))
    shape["initContainers"] = _containers(spec.get("initContainers"))
    if spec.get("resources") is not None:
        shape["resources"] = _sorted(spec["resources"].get("requests"))
    # Nested structures keep the API server's field order.
    whole: dict[str, Any] = {"spec": _sorted(shape)} | ({"labels": _sorted(labels)} if labels else {})
    text = msgspec.json.encode(whole)
    for character, escaped in _ESCAPED:
        text = text.replace(character, escaped)
    return hashlib.sha256(text).hexdigest()[:ROLE_LENGTH]


def _sorted(mapping: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if mapping is None else dict(sorted(mapping.items()))


def _containers(containers: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    kept = [
        {
            "ports": one.get("ports"),
            "resources": {"requests": _sorted((one.get("resources") or {}).get("requests"))},
        }
        for one in containers or ()
    ]
    return kept or None


def keys_of_terms(spec: Mapping[str, Any]) -> frozenset[str]:
    """Returns the keys of labels by which a pod with this spec selects other pods."""
    return _keys_of_terms(msgspec.json.encode(spec))


@lru_cache(maxsize=1024)  # pods from one template share the bytes
def _keys_of_terms(spec: bytes) -> frozenset[str]:
    try:
        read = msgspec.json.decode(spec, type=PodSpec)
    except msgspec.MsgspecError:  # composing the Workload reports it
        return frozenset()
    return keys_of(with_spread(pod_facts(read, "", {}), read)) | _keys_of_pods(read)


def _keys_of_pods(spec: PodSpec) -> frozenset[str]:
    """Returns the keys whose values the terms take from the pod itself."""
    affinity = spec.affinity
    kinds = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    terms = [each for kind in kinds if kind for each in kind.required_during_scheduling_ignored_during_execution]
    near = {key for term in terms for key in (*term.match_label_keys, *term.mismatch_label_keys)}
    return frozenset(near | {key for each in spec.topology_spread_constraints for key in each.match_label_keys})


def common_labels(pods: Iterable[QueuedPod]) -> dict[str, str]:
    """Returns the labels that all of these pods have with the same value."""
    every = [pod.own_labels for pod in pods]
    common = dict(every[0]) if every else {}
    for labels in every[1:]:
        if labels != common:
            common = {key: value for key, value in common.items() if labels.get(key) == value}
    return common


class PodMeta(msgspec.Struct, frozen=True, gc=False):
    """The metadata by which the informer identifies a pod."""

    name: str
    namespace: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """The projection of a pod. Times are in epoch seconds."""

    metadata: PodMeta
    created: float = 0.0
    deleted: bool = False
    """Whether a deletion timestamp is set."""
    last_active: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    forced: bool = False
    """Whether its grace period is 0."""
    held: bool = False
    """Whether Stowage's finalizer is present."""
    tracked: bool = False
    """Whether the Job controller has yet to count the pod's end."""
    gated: bool = False
    topology_gated: bool = False
    bound: bool = False
    ready: bool = False
    phase: str = ""
    message: str = ""
    role: str = ""
    owner: str = ""
    """The name of the pod's controller."""
    spec: bytes | None = None
    """The JSON of the pod's spec; None once the admission gate is gone."""
    last_spec: bytes | None = None
    """The spec of a member of a group that is being deleted after its gate was removed."""
    own_labels: Mapping[str, str] = field(default_factory=dict)
    """The labels by which other pods' terms and its own may select the pod; kept as long as a spec is."""
    foreign_gate: str = ""
    """The first scheduling gate that somebody else opens, or empty."""

    @property
    def key(self) -> str:
        """The key `namespace/name`."""
        return object_key(self.metadata.namespace, self.metadata.name)

    @property
    def ours(self) -> bool:
        """Reports whether the webhook accepted the pod, by itself or as part of a managed parent."""
        return self.labels.get(names.MANAGED_LABEL) == "true" or (
            names.POD_SUSPENDING_PARENT in self.annotations and names.QUEUE_NAME_LABEL in self.labels
        )

    @property
    def group(self) -> str:
        """The name of the pod's group or gang, empty for a single pod; the annotation takes precedence over the label."""
        whole = self.annotations.get(names.POD_GROUP_NAME) or self.labels.get(names.POD_GROUP_NAME)
        return whole or self.annotations.get(names.GANG) or ""

    @property
    def ordinal(self) -> int | None:
        """The pod's place among the pods of its StatefulSet, from 0; None for other pods."""
        if self.annotations.get(names.POD_GROUP_INDEX_SOURCE) != names.STATEFULSET_POD_INDEX:
            return None
        text, start = (
            self.labels.get(names.STATEFULSET_POD_INDEX, ""),
            self.annotations.get(names.POD_INDEX_OFFSET, "0"),
        )
        return int(text) - int(start) if _ORDINAL.fullmatch(text) and _ORDINAL.fullmatch(start) else None

    @property
    def terminated(self) -> bool:
        """Reports whether the pod has failed or succeeded."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def succeeded(self) -> bool:
        """Reports whether the pod has succeeded."""
        return self.phase == "Succeeded"

    @property
    def started(self) -> bool:
        """Reports whether the pod may run: the admission gate is gone and the pod has not terminated."""
        return not self.gated and not self.terminated

    @property
    def running(self) -> bool:
        """Reports whether the pod occupies a node; after its grace period only a finalizer keeps a deleted pod."""
        return not self.terminated and not self.forced and (self.bound or self.phase == "Running")

    @property
    def counts(self) -> bool:
        """Reports whether the pod counts as a member of its group: it runs, may come to run, or has succeeded."""
        return self.phase != "Failed" and (self.succeeded or not self.deleted or self.running)

    @property
    def lasting(self) -> bool:
        """Reports whether the pod needs no replacement."""
        return self.counts and (self.succeeded or not self.deleted)

    def keys_of_terms(self) -> frozenset[str]:
        """Returns the keys of labels by which the pod's own terms select pods; none if its spec is not kept."""
        return _keys_of_terms(self.spec or self.last_spec or b"{}")

    def read_spec(self) -> dict[str, Any]:
        """Decodes the pod's spec; returns an empty dict if the spec is no longer kept."""
        spec: dict[str, Any] = msgspec.json.decode(self.spec) if self.spec else {}
        return spec


class _QueuedPodCondition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _QueuedPodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    message: str = ""
    conditions: list[_QueuedPodCondition] = []


class _QueuedPodOwner(msgspec.Struct):
    name: str = ""
    controller: bool | None = None


class _QueuedPodMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[_QueuedPodOwner] = []


class _QueuedPodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: list[Gate] = []


class _QueuedPodObject(msgspec.Struct):
    metadata: _QueuedPodMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _QueuedPodStatus = msgspec.field(default_factory=_QueuedPodStatus)


class QueuedPodReader:
    """Decodes pods and shares equal strings and specs between them; raises msgspec's errors.

    `labels` and `annotations` name additional keys to keep.
    """

    def __init__(self, labels: Iterable[str] = (), annotations: Iterable[str] = ()) -> None:
        self._labels, self._annotations = frozenset(labels), frozenset(annotations)
        self._decode = msgspec.json.Decoder(_QueuedPodObject).decode
        self._decode_spec = msgspec.json.Decoder(_QueuedPodSpec).decode
        self._specs: LRUCache[bytes, bytes] = LRUCache(_SPECS)

    def __call__(self, data: bytes) -> QueuedPod:
        pod = self._decode(data)
        meta, spec = pod.metadata, self._decode_spec(pod.spec)
        gates = {gate.name for gate in spec.scheduling_gates}
        annotations = _kept(meta.annotations, self._annotations)
        gated = names.ADMISSION_GATE in gates
        role = annotations.get(names.ROLE_HASH) or role_hash(msgspec.json.decode(pod.spec))
        held, deleted = names.MANAGED_FINALIZER in meta.finalizers, meta.deletion_timestamp is not None
        leaving = held and deleted and not gated
        return QueuedPod(
            PodMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version),
            created=parse_time(meta.creation_timestamp) or 0.0,
            deleted=deleted,
            forced=deleted and meta.deletion_grace_period_seconds == 0,
            last_active=_last_active(meta, pod.status),
            labels=_kept(meta.labels, self._labels),
            annotations=annotations,
            held=held,
            tracked=names.JOB_TRACKING_FINALIZER in meta.finalizers,
            gated=gated,
            topology_gated=names.TOPOLOGY_GATE in gates,
            bound=bool(spec.node_name),
            ready=any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions),
            phase=intern(pod.status.phase),
            message=pod.status.message,
            role=intern(role),
            owner=next((intern(one.name) for one in meta.owner_references if one.controller), ""),
            spec=self._shared(bytes(pod.spec)) if gated else None,
            last_spec=self._shared(bytes(pod.spec)) if leaving else None,
            foreign_gate=next((intern(gate.name) for gate in spec.scheduling_gates if not _is_ours(gate.name)), ""),
            own_labels=_own(meta.labels, bytes(pod.spec)) if gated or leaving else {},
        )

    def _shared(self, spec: bytes) -> bytes:
        plain = _TOKEN_VOLUME.sub(b'"kube-api-access"', spec)
        return self._specs.setdefault(plain, plain)


def _kept(mapping: Mapping[str, str], more: frozenset[str] = frozenset()) -> dict[str, str]:
    return {intern(key): intern(value) for key, value in mapping.items() if key.startswith(_OURS) or key in more}


def _is_ours(gate: str) -> bool:
    return gate.startswith(_OURS)


def _own(labels: Mapping[str, str], spec: bytes) -> dict[str, str]:
    """Returns the pod's labels without those of queueing, which say nothing of the pod, unless its spec names their keys."""
    return {
        intern(key): intern(value) for key, value in labels.items() if not key.startswith(_OURS) or key.encode() in spec
    }


def _last_active(meta: _QueuedPodMeta, status: _QueuedPodStatus) -> float:
    """Returns the earlier of deletion and failure in epoch seconds, or 0 if neither happened."""
    failed = (c.last_transition_time for c in status.conditions if c.type == "ContainersReady" and c.status == "False")
    times = (parse_time(text) for text in (meta.deletion_timestamp, next(failed, None)) if text)
    return min((time for time in times if time is not None), default=0.0)
