"""How Workloads are read from the wire: what many of them have in common stands in memory once, and is decoded once.

Jobs of one kind ask for the same, so their Workloads' specs are equal byte for byte; and a Workload comes many times in its
life with a new status and the same spec. Types are frozen values: code that compares or keeps a spec does not see that it is
shared. Nothing here reads or writes metadata.managedFields, which is a third of a Workload's memory. One that has finished
may stay for ever and is hardly looked at again: what pydantic keeps beside each of its values, half of what is left, is
shared with all others. Called by the informers and by the writers of Workloads.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from cachetools import LRUCache
from pydantic import ValidationError

from api.meta import KubeModel, ObjectMeta, is_true
from api.names import FINISHED
from api.workloads import Workload, WorkloadSpec, WorkloadStatus

# Different specs that are in use at once; more only costs memory.
_SPECS: Final = 4096
_MANAGED: Final = "managedFields"
_NOTHING: Final[dict[str, Any]] = {}


class _Parts(msgspec.Struct):
    metadata: dict[str, Any]
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class WorkloadReader:
    """Decodes Workloads. Raises pydantic.ValidationError, or msgspec's errors, for what is none."""

    def __init__(self) -> None:
        self._split = msgspec.json.Decoder(_Parts).decode
        self._specs: LRUCache[bytes, WorkloadSpec] = LRUCache(_SPECS)
        self._named: dict[frozenset[str], set[str]] = {}

    def __call__(self, data: bytes) -> Workload:
        try:
            parts = self._split(data)
            parts.metadata.pop(_MANAGED, None)
            meta, spec = ObjectMeta.model_validate(parts.metadata), self._spec(bytes(parts.spec))
            status = WorkloadStatus.model_validate_json(bytes(parts.status))
        except (ValidationError, msgspec.DecodeError):
            return Workload.model_validate_json(data)  # fails as well, and names the field by its full path
        workload = Workload.model_construct(metadata=meta, spec=spec, status=status)
        if is_true(status.conditions, FINISHED):
            self._slim(meta)
            self._slim(status)
        return workload

    def _spec(self, data: bytes) -> WorkloadSpec:
        known = self._specs.get(data)
        if known is None:
            known = self._specs[data] = WorkloadSpec.model_validate_json(data)
        return known

    def _slim(self, value: object) -> None:
        """Gives the value, and all in it, the set of its fields' names and the empty map of unknown ones from a common stock.

        Nothing changes a frozen value, and a copy of it (`model_copy`) gets its own.
        """
        if isinstance(value, KubeModel):
            names = value.__pydantic_fields_set__
            object.__setattr__(value, "__pydantic_fields_set__", self._named.setdefault(frozenset(names), names))
            if not value.__pydantic_extra__:
                object.__setattr__(value, "__pydantic_extra__", _NOTHING)
            for part in value.__dict__.values():
                self._slim(part)
        elif isinstance(value, tuple):
            for part in value:
                self._slim(part)


read_workload: Final = WorkloadReader()
"""The reader of this process: what is seen and what is answered share their specs."""
