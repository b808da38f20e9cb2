"""Objects beside a job that say what its pods are, such as the runtime of a TrainJob: the copies of this process.

The controller keeps them by informers, and what reads files or a cluster once puts them in as it meets them. One process serves
one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from api.errors import InvalidObject
from api.kube.resources import Resource
from api.meta import object_key


class MissingReference(InvalidObject):
    """The object that a job refers to is not there (any more)."""


class ReferencedObjects:
    """See the module."""

    def __init__(self) -> None:
        self._views: dict[tuple[str, str], Mapping[str, Mapping[str, Any]]] = {}

    def keep(self, resource: Resource, objects: Mapping[str, Mapping[str, Any]]) -> None:
        """Read objects of that kind from this mapping by key, which may change."""
        self._views[resource.group, resource.kind] = objects

    def kept(self, resource: Resource) -> Mapping[str, Mapping[str, Any]]:
        """The objects of that kind by key."""
        return self._views.get((resource.group, resource.kind), {})

    def get(self, resource: Resource, key: str) -> Mapping[str, Any] | None:
        """The object, None where it is not there."""
        return self.kept(resource).get(key)


REFERENCED = ReferencedObjects()


def keep_referenced(
    resources: Iterable[Resource], objects: Iterable[Mapping[str, Any]], *, beside: bool = False
) -> None:
    """Read those of these kinds among the objects: for what reads files or a cluster once.

    `beside`: those that are kept already stay, unless one of the objects has their name.
    """
    found: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for obj in objects:
        given = obj.get("metadata")
        meta = given if isinstance(given, Mapping) else {}
        kind = str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")
        found.setdefault(kind, {})[object_key(meta.get("namespace"), str(meta.get("name") or ""))] = obj
    for resource in resources:
        objects_of_kind = found.get((resource.group, resource.kind), {})
        if resource.namespaced:
            objects_of_kind = {key if "/" in key else f"default/{key}": obj for key, obj in objects_of_kind.items()}
        before = REFERENCED.kept(resource) if beside else {}
        REFERENCED.keep(resource, {**before, **objects_of_kind})
