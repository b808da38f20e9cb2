"""The pods of gangs in the webhook's cache: identity, and the fields that all pods of a gang must have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from sys import intern

import msgspec

from admission.integrations.pods.gang import PodGang, from_text
from admission.integrations.pods.sakkara import Requests, shape_of
from api import names
from api.meta import object_key


class MemberMeta(msgspec.Struct, frozen=True, gc=False):
    """The metadata that the informer needs."""

    name: str
    namespace: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class GangPod:
    """A cached pod."""

    metadata: MemberMeta
    gang: PodGang | None = None
    """None if it has none."""
    priority: int | None = None
    """None if unknown."""
    priority_class: str = ""
    over: bool = False
    """Whether it ended or is being deleted."""
    role: str = ""
    """Set for members of Sakkara groups, whose pods must be equal."""
    requests: Requests = ()
    """Set for members of Sakkara groups."""
    queue: str = ""


class _MemberMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class _MemberSpec(msgspec.Struct, rename="camel"):
    priority: int | None = None
    priority_class_name: str = ""


class _MemberStatus(msgspec.Struct):
    phase: str = ""


class _MemberPod(msgspec.Struct):
    metadata: _MemberMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _MemberStatus = msgspec.field(default_factory=_MemberStatus)


_decode = msgspec.json.Decoder(_MemberPod).decode
_decode_spec = msgspec.json.Decoder(_MemberSpec).decode


def read_member(data: bytes) -> GangPod:
    """Decodes a pod from JSON. Raises msgspec.MsgspecError."""
    pod = _decode(data)
    meta, spec = pod.metadata, _decode_spec(pod.spec)
    gang = from_text(meta.annotations.get(names.GANG_TERMS))
    sakkara = gang is not None and gang.sakkara
    return GangPod(
        MemberMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version),
        gang,
        spec.priority,
        spec.priority_class_name,
        meta.deletion_timestamp is not None or pod.status.phase in ("Failed", "Succeeded"),
        role=intern(meta.annotations.get(names.ROLE_HASH, "")) if sakkara else "",
        requests=shape_of(msgspec.json.decode(pod.spec)).requests if sakkara else (),
        queue=intern(meta.labels.get(names.QUEUE_NAME_LABEL, "")),
    )


def gang_keys(pod: GangPod) -> Iterable[str]:
    """Returns the index key of the pod's gang; none for pods that ended."""
    return () if pod.gang is None or pod.over else (object_key(pod.metadata.namespace, pod.gang.name),)
