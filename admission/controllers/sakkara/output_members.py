"""Projects pods that name a Sakkara group to the fields that the results depend on. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import intern
from typing import Final

import msgspec

from admission.integrations.pods.pod import PodMeta
from api import names
from api.meta import object_key, parse_time
from api.pod.pods import Gate

LABELS: Final = (names.SAKKARA_RANK, names.SAKKARA_RETRIES, names.SAKKARA_STATUS)


@dataclass(frozen=True, slots=True)
class MemberPod:
    """A member pod."""

    metadata: PodMeta
    group: str
    node: str = ""
    selector: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    """Whether it was not assigned a node yet."""
    awaits_rank: bool = False
    """Whether it was assigned a node, and its gate stays until the pod has its rank."""
    deleted: bool = False
    phase: str = ""
    scheduled: float | None = None
    """When it was bound, in epoch seconds."""
    given: dict[str, str] = field(default_factory=dict)
    """Its labels among LABELS."""

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.metadata.name

    @property
    def group_key(self) -> str:
        """The key `namespace/group`."""
        return object_key(self.metadata.namespace, self.group)

    @property
    def failed(self) -> bool:
        """Reports whether the pod failed."""
        return self.phase == "Failed"

    @property
    def over(self) -> bool:
        """Reports whether the pod has terminated."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def lives(self) -> bool:
        """Reports whether the pod needs no replacement: it succeeded, or neither failed nor is being deleted."""
        return self.phase == "Succeeded" or not (self.failed or self.deleted)


class _OutputPodMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}


class _OutputPodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    scheduling_gates: list[Gate] = []


class _OutputPodCondition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _OutputPodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    conditions: list[_OutputPodCondition] = []


class _OutputPod(msgspec.Struct):
    metadata: _OutputPodMeta
    spec: _OutputPodSpec = msgspec.field(default_factory=_OutputPodSpec)
    status: _OutputPodStatus = msgspec.field(default_factory=_OutputPodStatus)


_decode = msgspec.json.Decoder(_OutputPod).decode


def _gated(spec: _OutputPodSpec) -> tuple[bool, bool]:
    """Returns whether the pod still waits for a node, and whether it has one and only waits for its rank."""
    gates = {gate.name for gate in spec.scheduling_gates}
    sent = names.HOSTNAME_LABEL in spec.node_selector and names.ADMISSION_GATE not in gates
    closed = names.ADMISSION_GATE in gates or names.TOPOLOGY_GATE in gates
    return closed and not sent, closed and sent


def read_member(data: bytes) -> MemberPod:
    """Decodes a pod. Raises msgspec's errors."""
    pod = _decode(data)
    meta, spec, status = pod.metadata, pod.spec, pod.status
    times = (c.last_transition_time for c in status.conditions if c.type == "PodScheduled" and c.status == "True")
    gated, awaits_rank = _gated(spec)
    return MemberPod(
        PodMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version),
        group=intern(meta.labels.get(names.SAKKARA_GROUP_NAME, "")),
        node=intern(spec.node_name),
        selector={intern(key): intern(value) for key, value in spec.node_selector.items()},
        gated=gated,
        awaits_rank=awaits_rank,
        deleted=meta.deletion_timestamp is not None,
        phase=intern(status.phase),
        scheduled=parse_time(next(times, None)),
        given={key: meta.labels[key] for key in LABELS if key in meta.labels},
    )
