"""Decodes Workloads, sharing equal parts to save memory and time.

Specs of similar jobs are equal byte for byte, and a Workload arrives many times with the same spec and a new status; each
distinct spec is decoded once, and stored while a Workload has it. Values are frozen, so sharing is invisible to callers.
metadata.managedFields, a third of a Workload's memory, is dropped, because nothing reads or writes it. The bookkeeping that
pydantic adds to each value, half of the remaining memory, is shared among Workloads. Informers and writers call it.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
from pydantic import ValidationError

from api.meta import KubeModel, ObjectMeta
from api.workloads import Workload, WorkloadSpec, WorkloadStatus

# Most distinct sets of field names that are shared; few occur.
_NAMES: Final = 4096
_MANAGED: Final = "managedFields"
_NOTHING: Final[dict[str, Any]] = {}
# The type of each type of values. isinstance would ask Python code, many times for each Workload.
_MODEL: Final = type(KubeModel)
_set: Final = object.__setattr__


class _Parts(msgspec.Struct):
    metadata: dict[str, Any]
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class WorkloadReader:
    """Decodes a Workload from JSON. Raises pydantic.ValidationError or msgspec.DecodeError."""

    def __init__(self) -> None:
        self._split = msgspec.json.Decoder(_Parts).decode
        # A spec is kept for as long as a Workload has it.
        self._specs: WeakValueDictionary[bytes, WorkloadSpec] = WeakValueDictionary()
        self._named: dict[frozenset[str], set[str]] = {}

    def __call__(self, data: bytes) -> Workload:
        try:
            parts = self._split(data)
            parts.metadata.pop(_MANAGED, None)
            meta, spec = ObjectMeta.model_validate(parts.metadata), self._spec(bytes(parts.spec))
            status = WorkloadStatus.model_validate_json(bytes(parts.status))
        except (ValidationError, msgspec.DecodeError):
            return Workload.model_validate_json(data)  # fails too, with the full path of the field
        workload = Workload.model_construct(metadata=meta, spec=spec, status=status)
        self._share(workload)
        self._slim(meta)
        self._slim(status)
        return workload

    def _spec(self, data: bytes) -> WorkloadSpec:
        known = self._specs.get(data)
        if known is None:
            known = self._specs[data] = WorkloadSpec.model_validate_json(data)
            self._slim(known)
        return known

    def _slim(self, value: KubeModel) -> None:
        """Shares the bookkeeping of a value and its parts."""
        self._share(value)
        for part in value.__dict__.values():
            if type(part) is tuple:
                for each in part:
                    if type(type(each)) is _MODEL:
                        self._slim(each)
            elif type(type(part)) is _MODEL:
                self._slim(part)

    def _share(self, value: KubeModel) -> None:
        """Replaces the pydantic bookkeeping of a value by shared objects.

        Frozen values are never changed, and `model_copy` gives a copy its own bookkeeping.
        """
        names = frozenset(value.__pydantic_fields_set__)
        if len(self._named) > _NAMES:
            self._named.clear()
        _set(value, "__pydantic_fields_set__", self._named.setdefault(names, value.__pydantic_fields_set__))
        if not value.__pydantic_extra__:
            _set(value, "__pydantic_extra__", _NOTHING)


read_workload: Final = WorkloadReader()
"""The reader of this process, so that informers and writers share specs."""
