"""Sakkara's ConfigMaps in a world: which describe trees, which describe groups, and their errors.

The controllers interpret them (controllers/watch/sakkara_trees.py, controllers/sakkara/groups.py). Called by
objects.py, input_objects.py and cluster.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from admission.controllers.sakkara.groups import SakkaraGroups, group_key
from admission.controllers.watch.sakkara_trees import Trees
from api.errors import InvalidObject
from api.kube.informers.store import Store
from api.kube.resources import CONFIG_MAPS
from api.names import SAKKARA_GROUP, SAKKARA_TOPOLOGY
from api.sakkara import ConfigMap, read_topology

_MESSAGE: Final = "message"
"""The key of a group's data with the reason why it waits."""


def describes_group(obj: Mapping[str, Any]) -> bool:
    """Reports whether this ConfigMap (as JSON) describes a group."""
    return SAKKARA_GROUP in (obj["metadata"].get("labels") or {})


class GroupMaps(Store[ConfigMap]):
    """The ConfigMaps of groups, filled without an informer."""

    def __init__(self) -> None:
        super().__init__(CONFIG_MAPS.plural, SAKKARA_GROUP)

    @property
    def has_synced(self) -> bool:
        """Always True: the store is filled before its first use."""
        return True

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - an informer's signature
        """Returns at once, because there is no informer to wait for."""


def check(config_map: ConfigMap, namespace: str) -> None:
    """Raises InvalidObject for an invalid tree, a tree in another namespace, or a ConfigMap that describes neither."""
    name, labels = f"ConfigMap {config_map.key}", config_map.metadata.labels
    if SAKKARA_TOPOLOGY not in labels:
        if SAKKARA_GROUP in labels:
            return
        allowed = f"only those with {SAKKARA_TOPOLOGY} or {SAKKARA_GROUP} are read"
        raise InvalidObject("metadata.labels", sorted(labels), allowed, name)
    if config_map.metadata.namespace != namespace:
        allowed = f"trees count in namespace {namespace} (setting sakkara.topologyNamespace)"
        raise InvalidObject("metadata.namespace", config_map.metadata.namespace, allowed, name)
    if faults := read_topology(config_map.metadata.name, config_map.data).faults:
        first = faults[0]
        raise InvalidObject(first.field, first.given, first.allowed, name)


def problem(key: str, trees: Trees | None, groups: SakkaraGroups) -> str | None:
    """Returns the errors of the ConfigMap of that key, as the controller's event has them, or None."""
    return "; ".join(problem for each in (trees, groups) if each is not None and (problem := each.problem(key))) or None


def waiting(maps: GroupMaps) -> Iterator[tuple[str, str]]:
    """Yields keys of groups with the reason in their ConfigMaps why they wait."""
    for config_map in maps.objects.values():
        if message := config_map.data.get(_MESSAGE):
            yield group_key(config_map), message
