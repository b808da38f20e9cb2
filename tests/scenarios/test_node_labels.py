"""Labels of nodes that make no sense to a topology: an empty one is no domain, one that two nodes share is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import EVENTS
from api.names import HOSTNAME_LABEL, REQUIRE_TOPOLOGY
from tests.scenarios.site import BLOCK, GROUP, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]


def labels(here: Site, **changed: str) -> dict[str, str]:
    return {GROUP: here.name, BLOCK: "b1", RACK: "r2", "kubernetes.io/os": "linux", **changed}


async def test_nodes_with_an_empty_rack_label_are_no_rack(site: MakeSite) -> None:
    """Together the two nodes would be the only rack with room for the gang."""
    here = site("empty-label")
    await here.open({"b1": {"r1": 1}})
    for name in ("empty-label-x", "empty-label-y"):
        await here.add_node(name, labels(here, **{RACK: "", HOSTNAME_LABEL: name}))
    await here.submit(here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("gang", "TopologyPlacementFailed", "allows to fit only 4 out of 8 pod(s)")
    await here.submit(here.job("small", 4, {REQUIRE_TOPOLOGY: RACK}))
    assert await here.racks(await here.running("small", 4)) == {"b1/r1": 4}


async def test_two_nodes_with_one_hostname_label_are_told_on_both(site: MakeSite) -> None:
    here = site("one-hostname")
    await here.open({"b1": {"r1": 1}})
    names = ["one-hostname-x", "one-hostname-y"]
    for name in names:
        await here.add_node(name, labels(here, **{HOSTNAME_LABEL: "one-hostname-x"}))

    async def events() -> list[dict[str, Any]] | None:
        page = await here.kube.list(EVENTS, "default", field_selector="involvedObject.kind=Node")
        shared = [event for event in page.items if event["reason"] == "HostnameShared"]
        told = [event for event in shared if event["involvedObject"]["name"] in names]
        return told if sorted(event["involvedObject"]["name"] for event in told) == names else None

    for event in await eventually("both nodes say so", events):
        assert event["message"].startswith("nodes one-hostname-x, one-hostname-y have one label kubernetes.io/hostname")
