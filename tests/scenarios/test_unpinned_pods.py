"""Pods of a job that asks for no level get only the labels that the promise needs: an admitted gang binds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.names import HOSTNAME_LABEL
from tests.scenarios.site import BLOCK, GROUP, RACK, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
MakeSite = Callable[[str], Site]


def selectors(pods: list[dict[str, Any]]) -> set[frozenset[str]]:
    """The keys of the pods' node selectors."""
    return {frozenset(pod["spec"].get("nodeSelector", {})) for pod in pods}


def apart(job: dict[str, Any]) -> dict[str, Any]:
    """With a term that depends on hosts: no host has two of its pods."""
    template = job["spec"]["template"]
    template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), "app": "apart"}
    term = {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchLabels": {"app": "apart"}}}
    template["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return job


async def test_only_the_flavor_where_it_has_no_topology(site: MakeSite) -> None:
    """Quota alone is promised, so any node of the flavor will do."""
    here = site("unpinned-flavor")
    await here.open({"b1": {"r1": 2}}, levels=())
    await here.submit(here.job("plain", 4))
    assert selectors(await here.running("plain", 4)) == {frozenset({GROUP})}


async def test_the_lowest_level_and_the_host_once_a_pod_depends_on_it(site: MakeSite) -> None:
    """Below the rack kube-scheduler chooses, until a pod has a term that its choice could break."""
    here = site("unpinned-rack")
    await here.open({"b1": {"r1": 2, "r2": 2}}, levels=(BLOCK, RACK))
    await here.submit(here.job("plain", 4))
    assert selectors(await here.running("plain", 4)) == {frozenset({GROUP, BLOCK, RACK})}
    await here.submit(apart(here.job("apart", 2)))
    assert selectors(await here.running("apart", 2)) == {frozenset({GROUP, BLOCK, RACK, HOSTNAME_LABEL})}
