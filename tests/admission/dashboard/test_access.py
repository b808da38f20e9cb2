"""Nobody sees what kubectl would not show them: every route, the stream of changes, and what is refused.

The tables go through the routes that are declared, so that a new one fails here until it has an example.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest

from admission.dashboard.serve.openapi import document
from admission.dashboard.serve.routes import EVENTS, PREFIX, ROUTES, Route
from api.kube.resources import ADVANCE_RESERVATIONS
from tests.admission.dashboard.small_cluster import HIDDEN, RACK, Served, served

JOB = {"name": "x", "namespace": "team", "queue": "lq", "pods": 8, "requests": {"cpu": "1"}}
ASKED: dict[str, tuple[str, Any]] = {
    "session": ("session", None),
    "topologies": ("topology", None),
    "tree": ("topology/tas", None),
    "host": ("hosts/n1", None),
    "occupancy": ("occupancy", None),
    "queues": ("queues", None),
    "workloads": ("workloads", None),
    "workload": ("workloads/team/later", None),
    "explain": ("workloads/team/later/explanation", None),
    "whatIf": ("what-if", {"job": JOB | {"level": RACK, "levelMode": "required"}}),
    "forecast": ("forecast", None),
    "search": ("search?q=n", None),
}
"""A request for each route, by its name, that the tenant may make."""
NAMES_OTHERS = {"tree", "host", "queues", "workloads", "workload", "explain", "whatIf", "search"}
"""Routes whose answer to the administrator names what is hidden from the tenant."""
REFUSED = {"topologies", "tree", "host", "occupancy", "queues", "workload", "explain", "whatIf"}
"""Routes that a user without any rights may not ask; the others have nothing for them."""


async def ask(served: Served, route: Route, token: str | None) -> tuple[int, bytes]:
    path, body = ASKED[route.name]
    return await served.ask(PREFIX + path, token, method=route.method, body=body)


def test_each_route_has_a_request() -> None:
    assert {route.name for route in ROUTES} == ASKED.keys()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_a_tenant_sees_no_names_of_others(route: Route) -> None:
    async with served() as found:
        status, body = await ask(found, route, "admin")
        assert (status, HIDDEN.encode() in body) == (200, route.name in NAMES_OTHERS)
        status, body = await ask(found, route, "tenant")
        assert status == 200
        assert HIDDEN.encode() not in body


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_a_user_without_rights_sees_nothing(route: Route) -> None:
    async with served() as found:
        status, body = await ask(found, route, "stranger")
        assert status == (403 if route.name in REFUSED else 200)
        assert not any(name in body for name in (b"hidden", b"train", b"later", b"n1", b"cq"))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
@pytest.mark.parametrize("token", [None, "", "unknown"])
async def test_without_a_token_that_the_cluster_accepts_nothing_is_answered(route: Route, token: str | None) -> None:
    async with served() as found:
        status, body = await ask(found, route, token)
        assert status == 401
        assert json.loads(body)["error"] == "Unauthorized"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_each_answer_is_as_the_openapi_document_says(route: Route) -> None:
    async with served() as found:
        status, body = await found.ask("/openapi.json", None)
        assert status == 200
        described = json.loads(body)
        assert described == json.loads(json.dumps(document("0")))
        operation = described["paths"][PREFIX + route.path][route.method.lower()]
        for token, answer in (("admin", "200"), ("tenant", "200"), ("stranger", "403"), (None, "401")):
            status, body = await ask(found, route, token)
            if str(status) == answer:
                schema = operation["responses"][answer]["content"]["application/json"]["schema"]
                jsonschema.validate(json.loads(body), {**schema, "components": described["components"]})


@pytest.mark.parametrize("path", ["hidden-ns/hidden-train", "hidden-ns/none", "none/none"])
@pytest.mark.parametrize("rest", ["", "/explanation"])
async def test_whether_a_hidden_workload_exists_is_not_told(path: str, rest: str) -> None:
    async with served() as found:
        status, body = await found.ask(f"{PREFIX}workloads/{path}{rest}", "tenant")
        assert status == 403
        assert b"hidden-train" not in body


YAML = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: x\n  namespace: {namespace}\nspec: {{}}\n"


LIST = """apiVersion: v1
kind: List
metadata: {namespace: team}
items:
- {apiVersion: batch/v1, kind: Job, metadata: {name: x, namespace: team}, spec: {}}
- {apiVersion: batch/v1, kind: Job, metadata: {name: x, namespace: hidden-ns}, spec: {}}
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"job": {**JOB, "namespace": "hidden-ns", "queue": "hidden-lq"}}, id="form"),
        pytest.param({"yaml": YAML.format(namespace="hidden-ns")}, id="yaml"),
        pytest.param({"yaml": YAML.format(namespace="team") + "---\n" + YAML.format(namespace="hidden-ns")}, id="both"),
        pytest.param({"yaml": LIST}, id="a list in one's own namespace"),
    ],
)
async def test_what_if_needs_the_namespaces_of_its_jobs(body: Any) -> None:
    async with served() as found:
        status, _ = await found.ask(f"{PREFIX}what-if", "tenant", method="POST", body=body)
        assert status == 403


async def events(dashboard: Served, token: str, wanted: str) -> list[tuple[str, Any]]:
    """Returns the events after the hello, up to the first of that name and its batch."""
    seen: list[tuple[str, Any]] = []
    headers = {"Authorization": f"Bearer {token}"}
    async with dashboard.session.get(dashboard.base + EVENTS, headers=headers) as response:
        assert response.status == 200
        name = ""
        async for line in response.content:
            kind, _, text = line.decode().rstrip().partition(": ")
            if kind == "event":
                name = text
            elif kind == "data" and name == "hello":
                dashboard.cluster.run("hidden-ns", "hidden-lq", "hidden-late", "n3", 2)
                dashboard.cluster.run("team", "lq", "late", "n3", 3)
                await dashboard.dashboard.renew()
            elif kind == "data":
                seen.append((name, json.loads(text)))
                if name == wanted:
                    return seen
    raise AssertionError("the stream ended")


@pytest.mark.parametrize(
    ("token", "names", "runs"),
    [
        pytest.param("admin", {"hidden-late", "late"}, ["hidden-ns/hidden-late", "team/late"], id="admin"),
        pytest.param("tenant", {"late"}, ["", "team/late"], id="tenant"),
    ],
)
async def test_changes_are_told_to_those_who_may_see_them(token: str, names: set[str], runs: list[str]) -> None:
    async with served() as found, asyncio.timeout(20):
        seen = await events(found, token, "queues")
        told = dict(seen)
        assert {row["name"] for row in told["workloads"]["changed"]} == names
        (host,) = [each for each in told["topology"]["hosts"] if each["i"] == 3]
        assert [run[0] for run in host["runs"]] == runs
        assert host["used"][0] == 5000
        if token == "tenant":
            assert HIDDEN not in json.dumps(seen)


async def test_a_user_of_workloads_alone_gets_no_changes_of_nodes_or_queues() -> None:
    async with served() as found, asyncio.timeout(20):
        seen = await events(found, "reader", "workloads")
        assert [name for name, _ in seen] == ["workloads"]


@pytest.mark.parametrize(("token", "name"), [("admin", "hidden-plan"), ("tenant", "")])
async def test_a_reservation_is_named_to_those_who_may_list_reservations(token: str, name: str) -> None:
    """Hosts are the tenant's to see, and that something reserves them; by `kubectl` it could not read what."""
    spec = {"nodeLabels": {RACK: "r0"}, "start": "2031-01-01T00:00:00Z", "end": "2031-01-02T00:00:00Z"}
    async with served() as found, asyncio.timeout(20):
        found.cluster.add(ADVANCE_RESERVATIONS, {"metadata": {"name": "hidden-plan"}, "spec": spec})
        seen = dict(await events(found, token, "topology"))
        (host,) = [each for each in seen["topology"]["hosts"] if each["i"] == 0]
        tree = await found.get("topology/tas", token)
        told = {"name": name, "start": spec["start"] if name else "", "end": spec["end"] if name else ""}
        assert host["reserved"] == tree["reservations"] == [told]
        assert tree["hosts"]["reserved"] == {"0": [0], "1": [0]}
        (one,) = (await found.get("hosts/n0", token))["items"]
        assert one["reservations"] == [told]
        assert (await found.get("hosts/n2", token))["items"][0]["reservations"] == []
