"""The queue of gangs that name none: which flavors it gives."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.pods.gangs.freequeue import MOST_FLAVORS, cluster_queue, flavor
from api.names import GANG_QUEUE, SAKKARA_QUEUE
from api.topology import ResourceFlavor


def a_flavor(name: str, **more: Any) -> ResourceFlavor:
    meta = {"name": name, **more.pop("metadata", {})}
    return ResourceFlavor.from_wire({"metadata": meta, "spec": {"nodeLabels": {"pool": name}, **more}})


TREE = {"topologyName": "tree"}
INLINE = {"topology": {"levels": ["rack", "kubernetes.io/hostname"]}}
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("flavors", "listed"),
    [
        pytest.param([], [GANG_QUEUE], id="none besides"),
        pytest.param([a_flavor("b", **TREE), a_flavor("a", **INLINE)], [GANG_QUEUE, "a", "b"], id="those with levels"),
        pytest.param([a_flavor("plain")], [GANG_QUEUE], id="not those without"),
        pytest.param([a_flavor("a", **TREE, metadata=GOING)], [GANG_QUEUE], id="not those that are to go"),
        pytest.param([flavor(), flavor(SAKKARA_QUEUE)], [GANG_QUEUE], id="not those that were made for such queues"),
        pytest.param(
            [a_flavor(f"f{index:03d}", **TREE) for index in range(100)],
            [GANG_QUEUE, *(f"f{index:03d}" for index in range(MOST_FLAVORS - 1))],
            id="as many as a queue may list",
        ),
    ],
)
def test_a_gang_without_a_queue_finds_its_level_in_the_clusters_flavors(
    flavors: list[ResourceFlavor], listed: list[str]
) -> None:
    (group,) = cluster_queue(flavors={made.key: made for made in flavors}).spec.resource_groups
    assert [quotas.name for quotas in group.flavors] == listed


def test_sakkara_groups_have_a_tree_of_their_own() -> None:
    (group,) = cluster_queue(SAKKARA_QUEUE, {"a": a_flavor("a", **TREE)}).spec.resource_groups
    assert [quotas.name for quotas in group.flavors] == [SAKKARA_QUEUE]
