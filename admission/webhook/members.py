"""The pods of gangs as the webhook keeps them: who they are, and what all pods of one gang have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from sys import intern

import msgspec

from admission.integrations.gang import Gang, from_text
from api import names
from api.meta import object_key


class MemberMeta(msgspec.Struct, frozen=True, gc=False):
    """The identity that the informer goes by."""

    name: str
    namespace: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class GangPod:
    """`gang` None: it is in none. `over`: it has ended, or is being deleted. `priority` None: not known."""

    metadata: MemberMeta
    gang: Gang | None = None
    priority: int | None = None
    priority_class: str = ""
    over: bool = False


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    priority: int | None = None
    priority_class_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Pod).decode


def read_member(data: bytes) -> GangPod:
    """A pod off the wire. Raises msgspec's errors."""
    pod = _decode(data)
    meta = pod.metadata
    return GangPod(
        MemberMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version),
        from_text(meta.annotations.get(names.GANG_TERMS)),
        pod.spec.priority,
        pod.spec.priority_class_name,
        meta.deletion_timestamp is not None or pod.status.phase in ("Failed", "Succeeded"),
    )


def gang_keys(pod: GangPod) -> Iterable[str]:
    """The index of pods by their gang."""
    return () if pod.gang is None else (object_key(pod.metadata.namespace, pod.gang.name),)
