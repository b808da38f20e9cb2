"""The base class of a kind's rules, and helpers that several kinds use.

A `StorageRules` object belongs to one kind (kinds.py) and has no state; the base class adds no rules. Its methods are called in
the order default, prepare, check. `default` and `prepare_*` may change the object in place, because nothing else references it
yet; `check_*` only read.
"""

from __future__ import annotations

from typing import Any, Protocol

from api.embedded.status import Cause, Obj, immutable


class ClusterLookup(Protocol):
    """The parts of the cluster that rules read."""

    def now(self) -> str:
        """Returns the store's time as RFC 3339 in whole seconds."""
        ...

    def find(self, group: str, plural: str, name: str, namespace: str | None = None) -> Obj | None: ...


class StorageRules:
    """Rules of a kind. `webhook` names the webhook that validates the kind in a real cluster, for messages."""

    webhook = ""

    def default(self, obj: Obj) -> None:
        """Sets the type's defaults in place, when decoding and again after mutating webhooks."""

    def admit_create(self, cluster: ClusterLookup, obj: Obj) -> None:
        """Applies the server's built-in admission plugins in place, before webhooks."""

    def admit_update(self, cluster: ClusterLookup, obj: Obj) -> None:
        """Applies the built-in admission plugins to an update in place."""

    def prepare_create(self, cluster: ClusterLookup, obj: Obj) -> None:
        """Sets fields that clients cannot choose on creation; runs when uid and name are set."""

    def prepare_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> None:
        """Sets fields that clients cannot choose in an update (main resource only)."""

    def check_create(self, cluster: ClusterLookup, obj: Obj) -> list[Cause]:
        return []

    def check_transition(self, new: Obj, old: Obj) -> list[Cause]:
        """Returns errors of CEL transition rules of the kind's CRD that matter here; they precede webhooks."""
        return []

    def check_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> list[Cause]:
        return []

    def grace(self, obj: Obj, seconds: int | None) -> int | None:
        """Returns the seconds between deletion and removal, or None for kinds without a grace period."""
        return None

    def orphans_by_default(self) -> bool:
        """Reports whether a deletion without a propagation policy orphans dependents."""
        return False


def same(first: Any, second: Any) -> bool:
    """Reports semantic equality: absent, null and empty values are equal."""
    if first == second:
        return True
    if isinstance(first, dict) and isinstance(second, dict):
        return all(same(first.get(key), second.get(key)) for key in first.keys() | second.keys())
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return _empty(first) and _empty(second)


def _empty(value: Any) -> bool:
    return value is None or value == {} or value == []


def fixed(new: Obj, old: Obj, field: str, *names: str) -> list[Cause]:
    """Returns an error for each of `names` below `field` that changed."""
    return [immutable(f"{field}.{name}", new.get(name)) for name in names if not same(new.get(name), old.get(name))]


def condition(obj: Obj, kind: str) -> Obj | None:
    """Returns the condition of that type, or None."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == kind), None)


def truthy(obj: Obj, kind: str) -> bool:
    of_kind = condition(obj, kind)
    return of_kind is not None and of_kind.get("status") == "True"
