"""Pods whose resources change in place: what they use more of their node is not given to others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.resources import PODS
from api.names import REQUIRE_TOPOLOGY
from tests.scenarios.site import RACK, Site
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]


async def resize(here: Site, pod: dict[str, Any], cpu: str) -> None:
    """As a user does; and its node, which is none, says before what the container has, as a kubelet would."""
    name = pod["metadata"]["name"]
    statuses = [{**each, "resources": {"requests": {"cpu": "1"}}} for each in pod["status"]["containerStatuses"]]
    body = {"status": {"containerStatuses": statuses}}
    await here.kube.patch(PODS, name, body, here.name, kind=PatchKind.MERGE, subresource="status")
    change: Any = [{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": cpu}]
    await here.kube.patch(PODS, name, change, here.name, kind=PatchKind.JSON, subresource="resize")


async def test_a_pod_that_has_grown_leaves_less_to_others(site: MakeSite, stage: Stage) -> None:
    if stage.name != "real":
        pytest.skip("the embedded API server resizes no pods")
    here = site("resized")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("first", 1))
    [pod] = await here.running("first", 1)
    await resize(here, pod, "31")
    await here.submit(here.job("second", 2, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("second", "TopologyPlacementFailed", "1 out of 2")
    await resize(here, pod, "2")
    await here.running("second", 2)
