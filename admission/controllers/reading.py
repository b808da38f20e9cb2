"""How Workloads are read from the wire: what many of them have in common stands in memory once, and is decoded once.

Jobs of one kind ask for the same, so their Workloads' specs are equal byte for byte; and a Workload comes many times in its
life with a new status and the same spec. Types are frozen values: whoever compares or keeps a spec does not see that it is
shared. Nobody here reads or writes metadata.managedFields, which is a third of a Workload's memory. Called by the informer
and by whoever writes Workloads.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from cachetools import LRUCache
from pydantic import ValidationError

from api.meta import ObjectMeta
from api.workloads import Workload, WorkloadSpec, WorkloadStatus

# Different specs that are in use at once; more only costs memory.
_SPECS: Final = 4096
_MANAGED: Final = "managedFields"


class _Parts(msgspec.Struct):
    metadata: dict[str, Any]
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class WorkloadReader:
    """Decodes Workloads. Raises pydantic.ValidationError, or msgspec's errors, for what is none."""

    def __init__(self) -> None:
        self._split = msgspec.json.Decoder(_Parts).decode
        self._specs: LRUCache[bytes, WorkloadSpec] = LRUCache(_SPECS)

    def __call__(self, data: bytes) -> Workload:
        try:
            parts = self._split(data)
            parts.metadata.pop(_MANAGED, None)
            meta, spec = ObjectMeta.model_validate(parts.metadata), self._spec(bytes(parts.spec))
            status = WorkloadStatus.model_validate_json(bytes(parts.status))
        except (ValidationError, msgspec.DecodeError):
            return Workload.model_validate_json(data)  # fails as well, and names the field by its full path
        return Workload.model_construct(metadata=meta, spec=spec, status=status)

    def _spec(self, data: bytes) -> WorkloadSpec:
        known = self._specs.get(data)
        if known is None:
            known = self._specs[data] = WorkloadSpec.model_validate_json(data)
        return known


read_workload: Final = WorkloadReader()
"""The reader of this process: what is seen and what is answered share their specs."""
