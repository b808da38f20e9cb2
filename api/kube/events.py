"""Events of objects. (Signatures; the body follows.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.kube.client import Kube
from api.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """What an Event is about (core/v1 ObjectReference)."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


def ref_to(resource: Resource, obj: Mapping[str, Any] | object) -> ObjectRef:
    """The reference to an object of any decoded type (dict, struct, pydantic model)."""
    raise NotImplementedError


class EventRecorder:
    """`record` never blocks; `run()` sends until cancelled."""

    def __init__(self, kube: Kube, component: str) -> None:
        raise NotImplementedError

    def record(self, ref: ObjectRef, event_type: str, reason: str, message: str) -> None:
        """`event_type` is Normal or Warning."""
        raise NotImplementedError

    async def run(self) -> None:
        """Until cancelled."""
        raise NotImplementedError
