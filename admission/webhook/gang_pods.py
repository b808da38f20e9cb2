"""The pods of gangs as the webhook keeps them: their identity, and what all pods of one gang have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from sys import intern

import msgspec

from admission.integrations.gang import PodGang, from_text
from admission.integrations.sakkara import Requests, shape_of
from api import names
from api.meta import object_key


class MemberMeta(msgspec.Struct, frozen=True, gc=False):
    """The identity that the informer uses."""

    name: str
    namespace: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class GangPod:
    """`gang` None: it is in none. `over`: it has ended, or is being deleted. `priority` None: not known.

    `role` and `requests` are those of members of Sakkara groups, which have to be equal.
    """

    metadata: MemberMeta
    gang: PodGang | None = None
    priority: int | None = None
    priority_class: str = ""
    over: bool = False
    role: str = ""
    requests: Requests = ()


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
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Pod).decode
_decode_spec = msgspec.json.Decoder(_Spec).decode


def read_member(data: bytes) -> GangPod:
    """A pod off the wire. Raises msgspec's errors."""
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
    )


def gang_keys(pod: GangPod) -> Iterable[str]:
    """The index of pods by their gang; those that are over are no longer its members."""
    return () if pod.gang is None or pod.over else (object_key(pod.metadata.namespace, pod.gang.name),)
