"""The frame of a kind's own rules, and what several of them need.

A `StorageRules` object belongs to one kind (kinds.py) and holds no state. The default does nothing: plain storage. Called by
change.py, in the order default, prepare, check. `prepare_*` and `default` may change the object they are given,
because no other code holds it yet; `check_*` only look.
"""

from __future__ import annotations

from typing import Any, Protocol

from api.fake.status import Cause, Obj, immutable


class ClusterLookup(Protocol):
    """The little that rules ask of the rest of the cluster."""

    def now(self) -> str:
        """Returns the given clock as RFC 3339, whole seconds."""
        ...

    def find(self, group: str, plural: str, name: str, namespace: str | None = None) -> Obj | None: ...


class StorageRules:
    """Plain storage. `webhook`: the webhook that judges this kind in a real cluster, in whose name it is refused here."""

    webhook = ""

    def default(self, obj: Obj) -> None:
        """Defaults of the type: at decoding, and again after mutating webhooks."""

    def admit_create(self, cluster: ClusterLookup, obj: Obj) -> None:
        """What the server's built-in admission plugins add, before any webhook."""

    def admit_update(self, cluster: ClusterLookup, obj: Obj) -> None:
        """The same for an update."""

    def prepare_create(self, cluster: ClusterLookup, obj: Obj) -> None:
        """What creation sets whatever was sent; runs when uid and name are known."""

    def prepare_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> None:
        """What an update sets whatever was sent (main resource only)."""

    def check_create(self, cluster: ClusterLookup, obj: Obj) -> list[Cause]:
        return []

    def check_transition(self, new: Obj, old: Obj) -> list[Cause]:
        """CEL transition rules of the kind's CRD, where we lean on them: decided before any webhook."""
        return []

    def check_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> list[Cause]:
        return []

    def grace(self, obj: Obj, asked: int | None) -> int | None:
        """Seconds between a deletion and the removal; None: this kind knows no grace and goes at once."""
        return None

    def orphans_by_default(self) -> bool:
        """Reports whether a deletion that names no propagation policy leaves the dependents."""
        return False


def same(one: Any, other: Any) -> bool:
    """Semantic equality: an absent, a null and an empty value are the same."""
    if one == other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one.get(key), other.get(key)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return _empty(one) and _empty(other)


def _empty(value: Any) -> bool:
    return value is None or value == {} or value == []


def fixed(new: Obj, old: Obj, field: str, *names: str) -> list[Cause]:
    """One cause for each of `names` below `field` that differs."""
    return [immutable(f"{field}.{name}", new.get(name)) for name in names if not same(new.get(name), old.get(name))]


def condition(obj: Obj, kind: str) -> Obj | None:
    """Returns a condition of the object's status by type."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == kind), None)


def truthy(obj: Obj, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"
