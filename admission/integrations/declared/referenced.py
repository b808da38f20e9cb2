"""This process's copies of objects that define the pods of jobs, such as the runtime of a TrainJob.

The controller fills them from informers; commands that read files or a cluster once fill them as they read. One process serves
one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from api.errors import InvalidObject
from api.kube.resources import Resource
from api.meta import object_key


class MissingReference(InvalidObject):
    """The object that a job refers to does not exist."""


class ReferencedObjects:
    """The store of referenced objects, keyed by API group and kind."""

    def __init__(self) -> None:
        self._views: dict[tuple[str, str], Mapping[str, Mapping[str, Any]]] = {}

    def keep(self, resource: Resource, objects: Mapping[str, Mapping[str, Any]]) -> None:
        """Serves objects of that resource from this live mapping, keyed by object key."""
        self._views[resource.group, resource.kind] = objects

    def kept(self, resource: Resource) -> Mapping[str, Mapping[str, Any]]:
        """Returns the objects of that resource, keyed by object key."""
        return self._views.get((resource.group, resource.kind), {})

    def get(self, resource: Resource, key: str) -> Mapping[str, Any] | None:
        """Returns the object, or None if it does not exist."""
        return self.kept(resource).get(key)


REFERENCED = ReferencedObjects()


def keep_referenced(
    resources: Iterable[Resource], objects: Iterable[Mapping[str, Any]], *, keep_stored: bool = False
) -> None:
    """Stores the objects of these resources; for commands that read files or a cluster once.

    With `keep_stored`, objects stored earlier stay unless one of `objects` has the same key.
    """
    by_kind: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for obj in objects:
        given = obj.get("metadata")
        meta = given if isinstance(given, Mapping) else {}
        kind = str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")
        by_kind.setdefault(kind, {})[object_key(meta.get("namespace"), str(meta.get("name") or ""))] = obj
    for resource in resources:
        objects_of_kind = by_kind.get((resource.group, resource.kind), {})
        if resource.namespaced:
            objects_of_kind = {key if "/" in key else f"default/{key}": obj for key, obj in objects_of_kind.items()}
        before = REFERENCED.kept(resource) if keep_stored else {}
        REFERENCED.keep(resource, {**before, **objects_of_kind})
