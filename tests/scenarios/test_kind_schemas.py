"""CRDs with schemas: one that drops what a JobKind writes is told of by an event, and one that does not is managed.

Its user would see a job that runs without quota, or pods that nobody placed, and no word about why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from admission.cli.jobkind import roles_of
from admission.integrations.declared.declared import DeclaredJob
from api.job_kinds import JobKind
from api.kube.resources import CRDS, EVENTS, JOB_KINDS
from api.names import ADMITTED
from tests.crds import crd_of
from tests.scenarios.site import Site, eventually
from tests.scenarios.test_job_kinds import CLUSTER_ROLES, active, kind, run, state, submit, suspended

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]
ANY: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CONTAINERS: Object = {"type": "array", "items": ANY}
ALL_FIELDS: Object = {"quiet": {"type": "boolean"}, "voices": {"type": "integer"}, "singer": ANY}
NO_SELECTOR: Object = {
    "type": "object",
    "properties": {"metadata": ANY, "spec": {"type": "object", "properties": {"containers": CONTAINERS}}},
}


async def choirs(here: Site, name: str, fields: Object) -> DeclaredJob:
    """A kind that the JobKind declares alike, whatever the CRD's schema has of its fields."""
    count = [{"path": "spec.voices"}]
    made = kind(
        f"{name.lower()}s.example.com", name, {"path": "spec.quiet"}, {"template": "spec.singer", "count": count}
    )
    adapter = DeclaredJob(JobKind.from_wire(made).spec)
    crd = crd_of(adapter.resource)
    spec = {"type": "object", "properties": fields}
    (version,) = crd["spec"]["versions"]
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": ANY}}}
    for role in roles_of(JobKind.from_wire(made)):
        await here.make(CLUSTER_ROLES, role)
    await here.make(CRDS, crd)
    await here.make(JOB_KINDS, made)
    await active(here, made, "True", "Managed")
    return adapter


async def told(here: Site) -> list[str]:
    return [
        one["message"] for one in (await here.kube.list(EVENTS, here.name)).items if one["reason"] == "FieldNotKept"
    ]


@pytest.mark.parametrize(
    ("name", "change", "lost"),
    [
        pytest.param("Choir", {"quiet": None}, "spec.quiet", id="no field that suspends"),
        pytest.param("Band", {"singer": NO_SELECTOR}, "spec.singer.spec.nodeSelector", id="no selector in templates"),
    ],
)
async def test_a_field_that_the_crd_drops_is_named_in_an_event(
    site: MakeSite, name: str, change: Object, lost: str
) -> None:
    here = site(f"drops-{name.lower()}")
    await here.open({"b1": {"r1": 1}}, quota=4)
    fields = {key: schema for key, schema in {**ALL_FIELDS, **change}.items() if schema is not None}
    adapter = await choirs(here, name, fields)
    await submit(here, adapter, "first", {"singer": here.template(), "voices": 2})

    async def event() -> list[str] | None:
        return await told(here) or None

    said = await eventually("an event names the field", event)
    assert said[0].startswith(lost), said
    assert f"was written and is not there: the CRD of {name} has no such field" in said[0]


async def test_a_crd_that_keeps_them_is_managed_without_such_an_event(site: MakeSite) -> None:
    here = site("keeps")
    await here.open({"b1": {"r1": 1, "r2": 1}}, quota=4)
    adapter = await choirs(here, "Trio", ALL_FIELDS)
    await submit(here, adapter, "first", {"singer": here.template(), "voices": 3})
    job = await suspended(here, adapter, "first", wanted=False)
    await state(here, "first", ADMITTED)
    assert len(await here.racks(await run(here, adapter, job))) == 1
    assert await told(here) == []
