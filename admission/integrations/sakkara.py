"""What the pods of a Sakkara group have in common: what one asks for, and where it may run. Pure.

A group is one pod set, so its pods must be equal for placement: the same requests in sum, however containers share
them, and the same demands on nodes. Images, ports and commands may differ, as those of a master and its workers do. The role
that the webhook writes on such a pod is a hash of just that; other pods' roles say more (pod.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.integrations.pod import role_hash
from api.errors import InvalidObject
from api.pods import PodSpec, effective_requests
from api.quantity import to_text

SCHEDULER: Final = "default-scheduler"
_DEMANDS: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "resourceClaims",
)

Requests = tuple[tuple[str, int], ...]
"""Resource and amount, by name; cpu in milli-units."""


@dataclass(frozen=True, slots=True)
class PodShape:
    """`role` of equal pods is equal."""

    requests: Requests
    role: str


def shape_of(spec: Mapping[str, Any]) -> PodShape:
    """Of a pod's spec as it stands on the wire. One that cannot be read asks for nothing, and is like itself alone."""
    try:
        requests = effective_requests(msgspec.convert(spec, PodSpec))
    except (msgspec.ValidationError, InvalidObject):
        return PodShape((), role_hash(spec))
    whole = {"resources": {"requests": requests}}
    demands = {key: spec[key] for key in _DEMANDS if key in spec}
    return PodShape(tuple(sorted(requests.items())), role_hash({**demands, "containers": [whole]}))


def in_words(requests: Requests) -> str:
    """As people write them: `cpu 2, memory 64Gi`."""
    return ", ".join(f"{name} {to_text(name, amount)}" for name, amount in requests) or "nothing"
