"""Sakkara's ConfigMaps in a world: which are trees and which describe groups, and what is wrong with them.

What they mean is the controllers' (controllers/sakkara): the trees are the feed's own, and of groups `SakkaraGroups` tells what
holds. Called by objects.py, builder.py and cluster.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from admission.controllers.pods.sakkara_groups import SakkaraGroups, group_key
from admission.controllers.sakkara_trees import Trees
from api.errors import InvalidObject
from api.kube.resources import CONFIG_MAPS
from api.kube.store import Store
from api.names import SAKKARA_GROUP, SAKKARA_TOPOLOGY
from api.sakkara import ConfigMap, read_topology

_MESSAGE: Final = "message"
"""The key of a group's data under which it is told why it waits."""


def describes_group(obj: Mapping[str, Any]) -> bool:
    """Whether this ConfigMap, as it stands on the wire, is about a group."""
    return SAKKARA_GROUP in (obj["metadata"].get("labels") or {})


class GroupMaps(Store[ConfigMap]):
    """Those of groups, filled by hand."""

    def __init__(self) -> None:
        super().__init__(CONFIG_MAPS.plural, SAKKARA_GROUP)

    @property
    def has_synced(self) -> bool:
        """It is filled before the first question."""
        return True

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - an informer's signature
        """It is."""


def check(found: ConfigMap, namespace: str) -> None:
    """Trees have to be sound, in their namespace; of all other ConfigMaps only groups say something. Raises InvalidObject."""
    name, labels = f"ConfigMap {found.key}", found.metadata.labels
    if SAKKARA_TOPOLOGY not in labels:
        if SAKKARA_GROUP in labels:
            return
        allowed = f"only those with {SAKKARA_TOPOLOGY} or {SAKKARA_GROUP} are read"
        raise InvalidObject("metadata.labels", sorted(labels), allowed, name)
    if found.metadata.namespace != namespace:
        allowed = f"trees count in namespace {namespace} (setting sakkara.topologyNamespace)"
        raise InvalidObject("metadata.namespace", found.metadata.namespace, allowed, name)
    if faults := read_topology(found.metadata.name, found.data).faults:
        first = faults[0]
        raise InvalidObject(first.field, first.given, first.allowed, name)


def problem(key: str, trees: Trees, groups: SakkaraGroups) -> str | None:
    """What is wrong with the ConfigMap of that key, among all that there is: what the controller's event says of it."""
    return "; ".join(said for said in (trees.problem(key), groups.problem(key)) if said) or None


def waiting(maps: GroupMaps) -> Iterator[tuple[str, str]]:
    """Groups by key, with what their ConfigMaps say that they wait for."""
    for found in maps.objects.values():
        if message := found.data.get(_MESSAGE):
            yield group_key(found), message
