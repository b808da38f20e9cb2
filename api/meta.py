"""Metadata, conditions and owner references of all objects, and the base class of wire types.

Types are immutable values: frozen, with tuples for lists; `model_copy(update=...)` makes a changed copy. Unknown fields survive
a round trip. `to_wire` writes the fields that were set and are not null, with camelCase names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Labels = dict[str, str]


class KubeModel(BaseModel):
    """Base of all wire types: snake_case in Python, camelCase in JSON; unknown fields are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, alias_generator=to_camel)

    def to_wire(self) -> dict[str, Any]:
        """Returns the fields that are set and not null, ready for JSON."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)

    @classmethod
    def from_wire(cls, obj: Mapping[str, Any]) -> Self:
        """Parses a decoded JSON object. Raises pydantic.ValidationError with each bad field."""
        return cls.model_validate(obj)


class OwnerReference(KubeModel):
    """One entry of metadata.ownerReferences."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(KubeModel):
    """The fields of metadata that are read or written."""

    name: str = ""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str = ""
    resource_version: str | None = None
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Labels = Field(default_factory=dict)
    annotations: Labels = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(KubeModel):
    """metav1.Condition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


class KubeObject(KubeModel):
    """An object with metadata; subclasses set their `API_VERSION` and `KIND`."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = ""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        return object_key(self.metadata.namespace, self.metadata.name)

    def to_wire(self) -> dict[str, Any]:
        """Returns the fields like KubeModel.to_wire, with apiVersion and kind."""
        return {**super().to_wire(), "apiVersion": self.API_VERSION, "kind": self.KIND}


def object_key(namespace: str | None, name: str) -> str:
    """Returns the key of an object in queues, caches and messages: `namespace/name` or `name`."""
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str | None, str]:
    """Splits a key of `object_key` into namespace (or None) and name."""
    namespace, slash, name = key.rpartition("/")
    return (namespace, name) if slash else (None, name)


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Returns the condition of that type, or None."""
    return next((c for c in conditions if c.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Reports whether the condition of that type has status True."""
    condition = find_condition(conditions, kind)
    return condition is not None and condition.status == "True"


def set_condition(conditions: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """Returns the conditions with `new` in place of its type. The transition time changes only with the status."""
    kept = tuple(conditions)
    old = find_condition(kept, new.type)
    if old is None:
        return (*kept, new)
    if old.status == new.status and old.last_transition_time:
        new = new.model_copy(update={"last_transition_time": old.last_transition_time})
    return tuple(new if c.type == new.type else c for c in kept)


def rfc3339(seconds: float) -> str:
    """Formats epoch seconds as `2026-01-01T00:00:00Z` (whole seconds, as metav1.Time)."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str | None) -> float | None:
    """Parses an RFC 3339 time to epoch seconds, None if there is none. Raises ValueError for other text."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except OverflowError:
        raise ValueError(f"{text}: beyond what a time can be") from None
