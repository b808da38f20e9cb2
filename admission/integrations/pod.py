"""A plain pod that waits in a queue: what of it is read, and which role it plays. Pure.

Pods are the bulk of what is watched, so a pod is projected as it arrives: its identity, what our labels and annotations
say, where it is in its life. Its spec is kept, as bytes, only while the admission gate holds it (what a Workload is
composed of, and what a start is merged into); pods of one maker share the bytes.

Pods of a group that ask for the same are one role. The role's name is the hash of the shape of the spec: the first
eight hex digits of the SHA-256 of its JSON, keys sorted. The form is Kueue's, for it is on the wire: as annotation
of pods and as name of pod sets.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Final

import msgspec
from cachetools import LRUCache

from api import names
from api.meta import object_key, parse_time
from api.pods import Gate

FRAMEWORK: Final = "pod"
ROLE_LENGTH: Final = 8

# What the kept labels and annotations begin with: ours, what a Workload takes over from its owner, what sets say of a pod.
_OURS: Final = (f"{names.GROUP}/", f"provreq.{names.GROUP}/", f"{names.STOWAGE}/", "leaderworkerset.sigs.k8s.io/")
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
# Different specs of gated pods that are held at once; more only costs memory.
_SPECS: Final = 4096
# The name of the token's volume is drawn for each pod; with it no two specs would be equal.
_TOKEN_VOLUME: Final = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')


def role_hash(spec: Mapping[str, Any]) -> str:
    """The role of a pod with this spec, as the API server gives it. Images, volumes and commands do not matter."""
    shape: dict[str, Any] = {name: spec.get(name) for name in _SHAPE}
    for name in ("nodeSelector", "overhead"):
        shape[name] = _sorted(shape[name])
    shape["containers"] = _containers(spec.get("containers"))
    shape["initContainers"] = _containers(spec.get("initContainers"))
    if whole := (spec.get("resources") or {}).get("requests"):
        shape["resources"] = {"requests": _sorted(whole)}
    # Structures below keep the order of their fields, in which the API server wrote them.
    digest = hashlib.sha256(msgspec.json.encode({"spec": _sorted(shape)}))
    return digest.hexdigest()[:ROLE_LENGTH]


def _sorted(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if given is None else dict(sorted(given.items()))


def _containers(containers: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    found = [
        {
            "ports": one.get("ports"),
            "resources": {"requests": _sorted((one.get("resources") or {}).get("requests") or {})},
        }
        for one in containers or ()
    ]
    return found or None


class PodMeta(msgspec.Struct, frozen=True, gc=False):
    """The identity that the informer goes by."""

    name: str
    namespace: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """A pod, projected. Times in epoch seconds; `owner` is the name of its controller.

    `spec` is the JSON of its spec while the admission gate holds it. `deleted`: it has a deletion timestamp; `forced`:
    without (any more) grace. `held`: our finalizer keeps it; `tracked`: its Job has still to count its end.
    """

    metadata: PodMeta
    created: float = 0.0
    deleted: bool = False
    last_active: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    forced: bool = False
    held: bool = False
    tracked: bool = False
    gated: bool = False
    topology_gated: bool = False
    bound: bool = False
    ready: bool = False
    phase: str = ""
    message: str = ""
    role: str = ""
    owner: str = ""
    spec: bytes | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return object_key(self.metadata.namespace, self.metadata.name)

    @property
    def ours(self) -> bool:
        """Whether the webhook has taken it in, by itself or as a pod of something above it."""
        return self.labels.get(names.MANAGED_LABEL) == "true" or (
            names.POD_SUSPENDING_PARENT in self.annotations and names.QUEUE_NAME_LABEL in self.labels
        )

    @property
    def group(self) -> str:
        """Its group's or gang's name, empty for a pod on its own. The annotation goes before the label."""
        whole = self.annotations.get(names.POD_GROUP_NAME) or self.labels.get(names.POD_GROUP_NAME)
        return whole or self.annotations.get(names.GANG) or ""

    @property
    def terminated(self) -> bool:
        """Whether it has run to its end."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def succeeded(self) -> bool:
        """Whether it has ended well."""
        return self.phase == "Succeeded"

    @property
    def started(self) -> bool:
        """Whether it may run: no gate of ours, and not at its end."""
        return not self.gated and not self.terminated

    @property
    def running(self) -> bool:
        """Whether it takes up a node now. Once its grace is over only a finalizer keeps it."""
        return not self.terminated and not self.forced and (self.bound or self.phase == "Running")

    @property
    def counts(self) -> bool:
        """Whether it is one of its group's pods: it runs, may come to run, or has succeeded."""
        return self.phase != "Failed" and (self.succeeded or not self.deleted or self.running)

    @property
    def lasting(self) -> bool:
        """Whether it needs no successor."""
        return self.counts and (self.succeeded or not self.deleted)

    def read_spec(self) -> dict[str, Any]:
        """The spec, empty where it is not held any more."""
        spec: dict[str, Any] = msgspec.json.decode(self.spec) if self.spec else {}
        return spec


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    message: str = ""
    conditions: list[_Condition] = []


class _Owner(msgspec.Struct):
    name: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
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
    owner_references: list[_Owner] = []


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: list[Gate] = []


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _Status = msgspec.field(default_factory=_Status)


class QueuedPodReader:
    """Decodes pods, and keeps what many have in common once. Raises msgspec's errors. `labels`, `annotations`: keys
    that are kept besides."""

    def __init__(self, labels: Iterable[str] = (), annotations: Iterable[str] = ()) -> None:
        self._labels, self._annotations = frozenset(labels), frozenset(annotations)
        self._decode = msgspec.json.Decoder(_Pod).decode
        self._decode_spec = msgspec.json.Decoder(_Spec).decode
        self._specs: LRUCache[bytes, bytes] = LRUCache(_SPECS)

    def __call__(self, data: bytes) -> QueuedPod:
        pod = self._decode(data)
        meta, spec = pod.metadata, self._decode_spec(pod.spec)
        gates = {gate.name for gate in spec.scheduling_gates}
        annotations = _kept(meta.annotations, self._annotations)
        gated = names.ADMISSION_GATE in gates
        role = annotations.get(names.ROLE_HASH) or role_hash(msgspec.json.decode(pod.spec))
        return QueuedPod(
            PodMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version),
            created=parse_time(meta.creation_timestamp) or 0.0,
            deleted=meta.deletion_timestamp is not None,
            forced=meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds == 0,
            last_active=_last_active(meta, pod.status),
            labels=_kept(meta.labels, self._labels),
            annotations=annotations,
            held=names.MANAGED_FINALIZER in meta.finalizers,
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
        )

    def _shared(self, spec: bytes) -> bytes:
        plain = _TOKEN_VOLUME.sub(b'"kube-api-access"', spec)
        return self._specs.setdefault(plain, plain)


def _kept(given: Mapping[str, str], more: frozenset[str] = frozenset()) -> dict[str, str]:
    return {intern(key): intern(value) for key, value in given.items() if key.startswith(_OURS) or key in more}


def _last_active(meta: _Meta, status: _Status) -> float:
    """When it was deleted or had failed, whichever was first; 0 for neither."""
    failed = (c.last_transition_time for c in status.conditions if c.type == "ContainersReady" and c.status == "False")
    times = (parse_time(text) for text in (meta.deletion_timestamp, next(failed, None)) if text)
    return min((time for time in times if time is not None), default=0.0)
