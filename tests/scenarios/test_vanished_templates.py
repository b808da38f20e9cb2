"""A template that vanishes while its job is admitted: its user is told where, the job stops, its quota is free."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from api.errors import ApiError
from api.kube.resources import EVENTS, JOB_KINDS, PODS
from api.names import ADMITTED, QUOTA_RESERVED
from tests.scenarios.site import Site, eventually
from tests.scenarios.test_job_kinds import declared, kind, run, says, state, submit, suspended

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]


async def event(here: Site, reason: str, text: str) -> None:
    async def check() -> bool:
        found = (await here.kube.list(EVENTS, here.name)).items
        return any(one["reason"] == reason and text in one["message"] for one in found)

    await eventually(f"event {reason}: {text}", check)


async def test_the_job_stops_gives_back_and_starts_again_with_its_template(site: MakeSite) -> None:
    """The object's own field is guarded by the webhook; a JobKind that is changed takes the template from all its jobs."""
    here = site("vanished")
    made = kind("kites.example.com", "Kite", {"path": "spec.landed"}, {"template": "spec.pod", "name": "kite"})
    await here.open({"b1": {"r1": 1}}, quota=1)
    adapter = await declared(here, made)
    await submit(here, adapter, "first", {"pod": here.template()})
    job = await suspended(here, adapter, "first", wanted=False)
    pods = await run(here, adapter, job)
    await says(here, adapter, "first", "Working", len(pods))

    with pytest.raises(ApiError) as refused:
        await here.change(adapter.resource, "first", {"spec": {"pod": None}})
    assert "spec.pod: Invalid value: null: must be a pod template" in refused.value.message

    changed = copy.deepcopy(made["spec"]["podSets"])
    changed[0]["template"] = "spec.gone"
    await here.change(JOB_KINDS, made["metadata"]["name"], {"spec": {"podSets": changed}}, cluster=True)
    await suspended(here, adapter, "first", wanted=True)
    await event(here, "ErrWorkloadCompose", "first: spec.gone: None: must be a pod template")
    await state(here, "first", QUOTA_RESERVED, wanted=True)  # until its pods are gone
    for pod in pods:
        await here.kube.delete(PODS, pod["metadata"]["name"], here.name)
    await says(here, adapter, "first", "Idle", 0)
    await state(here, "first", QUOTA_RESERVED, wanted=False)
    await here.submit(here.job("other", 1))
    await here.running("other", 1)
    await here.finish("other")

    await here.change(JOB_KINDS, made["metadata"]["name"], {"spec": {"podSets": made["spec"]["podSets"]}}, cluster=True)
    await state(here, "first", ADMITTED)
    await suspended(here, adapter, "first", wanted=False)
