"""A queue name on an object of a kind that nobody has declared: its user is told, without a right on the kind."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from admission.cli import explain as command
from admission.world.rules import WorldRules
from api.errors import NotFound
from api.kube.resources import CRDS, EVENTS, WORKLOADS, Resource
from api.names import QUEUE_NAME_LABEL
from tests.crds import crd_of
from tests.scenarios.site import Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]

BALLOONS = Resource("unheard.example.com", "v3", "balloons", "Balloon")
TEXT = "Balloon names the queue lq, and Stowage does not manage this kind"


async def fly(here: Site, name: str, queue: str | None = "lq", **meta: Any) -> Object:
    """A Balloon, once its CRD is served."""
    await here.make(CRDS, crd_of(BALLOONS))
    labels = {QUEUE_NAME_LABEL: queue} if queue else {}
    body = {"metadata": {"name": name, "namespace": here.name, "labels": labels, **meta}, "spec": {"size": 1}}

    async def made() -> Object | None:
        try:
            return await here.make(BALLOONS, body)
        except NotFound:
            return None

    return await eventually("Balloons are served", made)


async def told(here: Site, obj: Object) -> list[str]:
    """What events say of it."""
    found = (await here.kube.list(EVENTS, here.name)).items
    mine = [event for event in found if event["involvedObject"].get("uid") == obj["metadata"]["uid"]]
    return [event["message"] for event in mine if event["reason"] == "KindNotManaged"]


async def explain(here: Site, name: str, *, as_json: bool = False) -> tuple[int, str]:
    """Exit code of the command, and what it prints."""
    out, err = Console(file=io.StringIO(), width=400), Console(file=io.StringIO(), width=400)
    asked = command.ExplainArguments(f"{here.name}/{name}", as_json=as_json, kubeconfig=here.kube.settings.kubeconfig)
    code = await asyncio.to_thread(command.run, asked, WorldRules(), out, err)
    return code, out.file.getvalue() + err.file.getvalue()  # type: ignore[attr-defined]  # they are StringIOs


async def test_its_user_is_told_by_an_event_and_by_explain(site: MakeSite) -> None:
    here = site("unheard")
    await here.open({"b1": {"r1": 1}})
    made = await fly(here, "red")

    async def event() -> list[str] | None:
        return await told(here, made) or None

    [said] = await eventually("an event says that nobody queues it", event)
    assert said.startswith(TEXT)
    code, printed = await explain(here, "red")
    assert (code, TEXT in printed) == (0, True)
    found = json.loads((await explain(here, "red", as_json=True))[1])
    assert (found["verdict"], found["headline"]) == ("NotManaged", said)
    assert not (await here.kube.list(WORKLOADS, here.name)).items

    # a change that is not of the queue says nothing more; one of the queue does
    await here.change(BALLOONS, "red", {"spec": {"size": 2}})
    await here.change(BALLOONS, "red", {"metadata": {"labels": {QUEUE_NAME_LABEL: "other"}}})

    async def again() -> bool:
        return sorted(await told(here, made)) == sorted([said, said.replace("queue lq", "queue other")])

    await eventually("the other queue is named in an event", again)


async def test_parts_dry_runs_and_objects_without_a_queue_are_left_alone(site: MakeSite) -> None:
    here = site("unheard-parts")
    await here.open({"b1": {"r1": 1}})
    free = await fly(here, "free", queue=None)
    owner = {"apiVersion": BALLOONS.api_version, "kind": BALLOONS.kind, "name": "free", "controller": True}
    part = await fly(here, "part", ownerReferences=[{**owner, "uid": free["metadata"]["uid"]}])
    meta = {"name": "trial", "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}
    body = {"apiVersion": BALLOONS.api_version, "kind": BALLOONS.kind, "metadata": meta}
    await here.kube.create(BALLOONS, body, here.name, dry_run=True)

    async def said() -> bool:
        events = (await here.kube.list(EVENTS, here.name)).items
        return any(event["reason"] == "KindNotManaged" for event in events)

    await never("something is said", said, 1.0)
    assert part["metadata"]["ownerReferences"]
    code, printed = await explain(here, "free")
    assert (code, "is not known" in printed) == (2, True)


async def test_explain_finds_an_object_that_is_older_than_the_webhook(site: MakeSite) -> None:
    """Its event is gone, or there never was one: the kinds that are served are asked."""
    here = site("unheard-old")
    await here.open({"b1": {"r1": 1}})
    made = await fly(here, "old")

    async def event() -> list[str] | None:
        return await told(here, made) or None

    await eventually("an event", event)
    for one in (await here.kube.list(EVENTS, here.name)).items:
        await here.kube.delete(EVENTS, one["metadata"]["name"], here.name)
    code, printed = await explain(here, "old")
    assert (code, TEXT in printed) == (0, True)
