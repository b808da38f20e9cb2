"""Computes what pods of a Sakkara group must have in common: their requests and their node constraints. Pure.

A group is one pod set, so its pods must be equal for placement: equal total requests, however containers share them, and equal
node constraints. Images, ports and commands may differ between, say, master and workers. The webhook writes a hash of exactly
these fields on such a pod as its role; other pods' roles cover more fields (pod.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.integrations.pods.pod import role_hash
from api.errors import InvalidObject
from api.pod.pod_requests import effective_requests
from api.pod.pods import PodSpec
from api.text.quantity import to_text

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
"""Pairs of resource and amount, sorted by name; cpu in milli-units."""


@dataclass(frozen=True, slots=True)
class PodShape:
    """Requests and role of a pod; equal pods have equal roles."""

    requests: Requests
    role: str


def shape_of(spec: Mapping[str, Any]) -> PodShape:
    """Returns the shape of a decoded pod spec; an unreadable spec has no requests and a role of its own."""
    try:
        requests = effective_requests(msgspec.convert(spec, PodSpec))
    except (msgspec.ValidationError, InvalidObject):
        return PodShape((), role_hash(spec))
    whole = {"resources": {"requests": requests}}
    demands = {key: spec[key] for key in _DEMANDS if key in spec}
    return PodShape(tuple(sorted(requests.items())), role_hash({**demands, "containers": [whole]}))


def in_words(requests: Requests) -> str:
    """Formats requests for messages, such as `cpu 2, memory 64Gi`."""
    return ", ".join(f"{name} {to_text(name, amount)}" for name, amount in requests) or "nothing"
