"""A LocalQueue `default` says whether jobs without a queue name get it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import LOCAL_QUEUES, NAMESPACES
from api.names import FIELDS_HONOURED, MANAGED_NAMESPACE
from tests.scenarios.site import Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]


async def test_a_default_queue_without_effect_says_so_until_its_namespace_has_the_label(site: MakeSite) -> None:
    here = site("default-queue")
    await here.open({"b1": {"r1": 1}})
    spec = {"clusterQueue": here.name}
    await here.make(LOCAL_QUEUES, {"metadata": {"name": "default", "namespace": here.name}, "spec": spec})

    async def told(status: str) -> dict[str, Any] | None:
        queue = await here.kube.get(LOCAL_QUEUES, "default", here.name)
        found = [one for one in (queue.get("status") or {}).get("conditions") or () if one["type"] == FIELDS_HONOURED]
        return next((one for one in found if one["status"] == status), None)

    condition = await eventually("the queue says so", lambda: told("False"))
    assert f"{MANAGED_NAMESPACE}=true" in condition["message"]
    labels = {"metadata": {"labels": {MANAGED_NAMESPACE: "true"}}}
    await here.change(NAMESPACES, here.name, labels, cluster=True)
    await eventually("the queue has effect", lambda: told("True"))
