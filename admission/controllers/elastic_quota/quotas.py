"""The elastic quotas of both API groups: which one holds in its namespace, and what all of them share. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from admission.controllers.elastic_quota.translation import QuotaBounds, age, bounds, counted
from api.elastic_quotas import ElasticQuota
from api.errors import InvalidObject
from api.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class ReadQuota:
    """An elastic quota object."""

    resource: Resource
    quota: ElasticQuota
    bounds: QuotaBounds | None
    """None if it is invalid."""
    fault: str = ""
    """Why it is invalid."""

    @classmethod
    def of(cls, resource: Resource, quota: ElasticQuota) -> ReadQuota:
        """Validates the object."""
        try:
            return cls(resource, quota, bounds(quota))
        except InvalidObject as bad:
            return cls(resource, quota, None, str(bad))


class Quotas:
    """All elastic quotas, by a key of the caller's choice."""

    def __init__(self) -> None:
        self._entries: dict[str, ReadQuota] = {}
        self._by_namespace: dict[str, dict[str, ReadQuota]] = {}
        self._shared: tuple[str, ...] | None = None

    def put(self, key: str, resource: Resource, quota: ElasticQuota) -> None:
        """Adds or replaces a quota."""
        entry = ReadQuota.of(resource, quota)
        self._entries[key] = entry
        self._by_namespace.setdefault(quota.metadata.namespace or "", {})[key] = entry
        self._shared = None

    def drop(self, key: str) -> None:
        """Removes a quota."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        namespace = entry.quota.metadata.namespace or ""
        there = self._by_namespace[namespace]
        del there[key]
        if not there:
            del self._by_namespace[namespace]
        self._shared = None

    def of(self, namespace: str) -> list[ReadQuota]:
        """Returns the namespace's quotas; the first one holds."""
        return sorted(self._by_namespace.get(namespace, {}).values(), key=lambda e: (*age(e.quota), e.resource.group))

    def namespaces(self) -> Iterable[str]:
        """Returns the namespaces with quotas."""
        return tuple(self._by_namespace)

    def quotas_in_force(self) -> Iterator[QuotaBounds]:
        """Yields the bounds of the quotas that hold."""
        for namespace in self._by_namespace:
            first = self.of(namespace)[0]
            if first.bounds is not None:
                yield first.bounds

    def shared(self) -> tuple[str, ...]:
        """Returns the resources that quotas count."""
        if self._shared is None:
            self._shared = counted(self.quotas_in_force())
        return self._shared
