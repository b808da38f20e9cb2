"""The ConfigMaps that describe Sakkara groups, by the group names that pods use. No IO.

Of two ConfigMaps for one group, the one with the smaller name wins; `problem` reports the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from cachetools import LRUCache

from admission.controllers.watch.caches import InformerView
from api.kube.informers.store import Change
from api.meta import object_key
from api.sakkara import HIGHEST_PRIORITY, NAME, ConfigMap, DescribedGroup, group_name, read_group

BY_GROUP: Final = "sakkara group"
SYNC_TIMEOUT: Final = 120.0
_READ: Final = 4096


def group_key(described: ConfigMap) -> str:
    """Returns `namespace/name` of the group that the ConfigMap describes."""
    meta = described.metadata
    return object_key(meta.namespace, group_name(meta.name, described.data))


class SakkaraGroups:
    """A view of the ConfigMaps of groups."""

    def __init__(self, maps: InformerView[ConfigMap], highest: int = HIGHEST_PRIORITY) -> None:
        self._maps, self._highest = maps, highest
        self._read: LRUCache[tuple[str, str], DescribedGroup] = LRUCache(_READ)
        maps.add_index(BY_GROUP, lambda described: [group_key(described)])

    def config_map(self, key: str) -> ConfigMap | None:
        """Returns the ConfigMap in force for the group, or None."""
        config_maps: Iterable[ConfigMap] = self._maps.by_index(BY_GROUP, key)
        return min(config_maps, key=lambda described: described.metadata.name, default=None)

    def of(self, key: str) -> DescribedGroup | None:
        """Returns the description of the group, or None."""
        config_map = self.config_map(key)
        if config_map is None:
            return None
        meta = config_map.metadata
        version = (meta.uid, meta.resource_version)
        if version not in self._read:  # queried for each pod of the group
            self._read[version] = DescribedGroup(
                meta.name, meta.uid, read_group(meta.name, config_map.data, self._highest)
            )
        return self._read[version]

    def object(self, key: str) -> ConfigMap | None:
        """Returns the ConfigMap with that key, or None."""
        return self._maps.objects.get(key)

    def problem(self, key: str) -> str | None:
        """Describes what is wrong with the ConfigMap of that key, or returns None."""
        config_map = self.object(key)
        if config_map is None:
            return None
        holding = self.config_map(group_key(config_map))
        if holding is not None and holding.metadata.name != config_map.metadata.name:
            name = group_name(config_map.metadata.name, config_map.data)
            return f"data.{NAME}: {name!r}: ConfigMap {holding.metadata.name} describes the group of this name"
        read = read_group(config_map.metadata.name, config_map.data, self._highest)
        return "; ".join(map(str, read.faults)) or None

    def add_handler(self, fn: Callable[[str], None]) -> None:
        """Calls `fn` with the key of each changed group."""

        def changed(change: Change[ConfigMap]) -> None:
            keys = {group_key(each) for each in (change.object, change.old) if each is not None}
            for key in sorted(keys):
                fn(key)

        self._maps.add_handler(changed)

    def add_listener(self, fn: Callable[[str], None]) -> None:
        """Calls `fn` with the key of each ConfigMap whose `problem` may have changed."""

        def changed(change: Change[Any]) -> None:
            fn(change.key)

        self._maps.add_handler(changed)

    async def synced(self, seconds: float) -> None:
        """Waits until the first list has arrived."""
        await self._maps.synced(seconds)
