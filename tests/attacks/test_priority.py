"""Nobody outranks other tenants by a number that he writes himself.

What such a number may evict: tests/scenarios/test_sakkara_preemption.py."""

from __future__ import annotations

import pytest

from api.errors import ApiError
from api.kube.client import PatchKind
from api.kube.resources import CONFIG_MAPS
from api.names import SAKKARA_GROUP
from api.sakkara import HIGHEST_PRIORITY
from tests.attacks.conftest import Battlefield


@pytest.mark.asyncio(loop_scope="package")
@pytest.mark.parametrize("priority", ["2147483647", str(HIGHEST_PRIORITY + 1)])
async def test_a_group_takes_no_high_priority_by_its_config_map(battlefield: Battlefield, priority: str) -> None:
    """Neither when it is made nor later."""
    name = f"rank-{priority}"
    group = {"metadata": {"name": name, "labels": {SAKKARA_GROUP: ""}}, "data": {"size": "2", "priority": priority}}
    with pytest.raises(ApiError, match=r"PriorityClass in the pods, which a ResourceQuota can guard"):
        await battlefield.create(CONFIG_MAPS, group)
    await battlefield.create(CONFIG_MAPS, {**group, "data": {"size": "2", "priority": str(HIGHEST_PRIORITY)}})
    change = {"data": {"priority": priority}}
    with pytest.raises(ApiError, match="highestPriority"):
        await battlefield.tenant.patch(CONFIG_MAPS, name, change, battlefield.namespace, kind=PatchKind.MERGE)
