"""The routes as tools of MCP over HTTP, asked by the SDK's own client: who sees what, and bad arguments.

The tables go through the tools that are declared, so that a new one fails here until it has an example.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from admission.dashboard.mcp import mcp_endpoint, tools
from admission.dashboard.mcp.mcp_endpoint import PATH
from admission.dashboard.mcp.tools import TOOLS
from admission.dashboard.serve.routes import ROUTES
from tests.admission.dashboard.small_cluster import HIDDEN, RACK, Served, served
from tests.admission.dashboard.test_access import ASKED, JOB, NAMES_OTHERS, REFUSED

LATER = {"namespace": "team", "name": "later"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "session": {},
    "topologies": {},
    "host": {"name": "n1"},
    "occupancy": {},
    "queues": {},
    "workloads": {},
    "workload": LATER,
    "explain": LATER,
    "what_if": {"job": JOB | {"level": RACK, "levelMode": "required"}},
    "forecast": {},
    "search": {"q": "n"},
}
"""Arguments of each tool that the tenant may give; each asks what ASKED asks of its route."""
MODES = ["legacy", "auto"]
"""With a handshake, as clients of 2025 do it, and without."""
NO_TLS = ssl.create_default_context()
"""Given to each client: without, each would read the system's certificates again."""


@contextlib.asynccontextmanager
async def client(dashboard: Served, token: str | None, mode: str = "legacy") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, verify=NO_TLS) as http,
        Client(streamable_http_client(dashboard.base + PATH, http_client=http), mode=mode) as one,
    ):
        yield one


async def call(connected: Client, tool: str, arguments: Any = None) -> tuple[bool, str]:
    """Returns whether the tool failed, and the text of its answer."""
    answer = await connected.call_tool(tool, ARGUMENTS[tool] if arguments is None else arguments)
    assert isinstance(answer, types.CallToolResult)
    (content,) = answer.content
    assert isinstance(content, types.TextContent)
    if not answer.is_error:
        assert json.loads(content.text) == answer.structured_content
    return answer.is_error, content.text


def test_the_page_of_the_documentation_names_each_tool() -> None:
    page = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.M)) == sorted(TOOLS)


def test_each_tool_has_arguments_and_only_the_trees_columns_are_no_tool() -> None:
    assert TOOLS.keys() == ARGUMENTS.keys()
    assert {route.name for route in ROUTES if not route.tool} == {"tree"}


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools_are_listed_as_read_only_and_with_their_schemas(mode: str) -> None:
    async with served() as found, client(found, "tenant", mode) as one:
        listed = {tool.name: tool for tool in (await one.list_tools()).tools}
        assert listed.keys() == TOOLS.keys()
        for name, tool in listed.items():
            assert tool.annotations is not None
            assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (True, False)
            assert tool.description
            jsonschema.validate(ARGUMENTS[name], tool.input_schema)
            failed, text = await call(one, name)
            assert not failed, text
            if tool.output_schema is not None:
                jsonschema.validate(json.loads(text), tool.output_schema)
        assert "read one cluster" in (one.instructions or "")


async def test_a_tool_answers_what_its_route_answers() -> None:
    async with served() as found, client(found, "admin") as one:
        for tool in TOOLS:
            route = TOOLS[tool].route
            path, body = ASKED[route.name]
            status, answer = await found.ask(f"/api/v1/{path}", "admin", method=route.method, body=body)
            assert status == 200, tool
            assert json.loads((await call(one, tool))[1]) == json.loads(answer), tool


@pytest.mark.parametrize("mode", MODES)
async def test_a_tenant_sees_no_names_of_others(mode: str) -> None:
    async with served() as found:
        async with client(found, "admin", mode) as one:
            answers = {tool: await call(one, tool) for tool in TOOLS}
            assert {tool: (failed, HIDDEN in text) for tool, (failed, text) in answers.items()} == {
                tool: (False, TOOLS[tool].route.name in NAMES_OTHERS) for tool in TOOLS
            }
        async with client(found, "tenant", mode) as one:
            answers = {tool: await call(one, tool) for tool in TOOLS}
            assert [tool for tool, (failed, text) in answers.items() if failed or HIDDEN in text] == []


async def test_a_user_without_rights_sees_nothing() -> None:
    async with served() as found, client(found, "stranger") as one:
        for tool in TOOLS:
            failed, text = await call(one, tool)
            assert failed == (TOOLS[tool].route.name in REFUSED), tool
            assert not failed or text.startswith("Forbidden: stranger may not list"), tool
            assert not any(name in text for name in ("hidden", "train", "later ", "n1", "cq")), tool


@pytest.mark.parametrize("tool", ["workload", "explain"])
@pytest.mark.parametrize("name", ["hidden-train", "none"])
async def test_whether_a_hidden_workload_exists_is_not_told(tool: str, name: str) -> None:
    async with served() as found, client(found, "tenant") as one:
        failed, text = await call(one, tool, {"namespace": "hidden-ns", "name": name})
        assert (failed, text) == (True, "Forbidden: tenant may not list workloads.kueue.x-k8s.io in hidden-ns")


@pytest.mark.parametrize("token", [None, "", "unknown"])
@pytest.mark.parametrize("mode", MODES)
async def test_without_a_token_that_the_cluster_accepts_nothing_is_answered(token: str | None, mode: str) -> None:
    async with served() as found:
        assert (await found.ask(PATH, token, method="POST", body=message("tools/list")))[0] == 401
        with pytest.raises((MCPError, httpx2.HTTPStatusError, ExceptionGroup)):
            async with client(found, token, mode):
                pass


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_token_is_asked_for_at_each_call(version: str) -> None:
    """A user on another one's connection has none of that one's rights."""
    async with served() as found:
        for token, hidden in (("admin", True), ("tenant", False), ("admin", True)):
            headers, sent = asked(version, "workloads", {})
            status, body = await found.ask(PATH, token, method="POST", body=sent, headers=headers)
            assert (status, HIDDEN.encode() in body) == (200, hidden)


HEADERS = {"Accept": "application/json, text/event-stream"}
VERSIONS = ["2025-06-18", "2026-07-28"]
"""Revisions with and without a handshake."""


def asked(version: str, tool: str, arguments: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns headers and body of a call, as clients of that revision send it."""
    body = message("tools/call", name=tool, arguments=arguments)
    headers = {**HEADERS, "MCP-Protocol-Version": version}
    if version != VERSIONS[0]:
        body["params"]["_meta"] = {types.PROTOCOL_VERSION_META_KEY: version, types.CLIENT_CAPABILITIES_META_KEY: {}}
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    return headers, body


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("explain", {"namespace": "team"}, "BadRequest: name: Field required"),
        ("explain", {**LATER, "name": 1}, "BadRequest: name: 1: Input should be a valid string"),
        ("explain", {**LATER, "name": ""}, "BadRequest: name: "),
        ("explain", {**LATER, "name": "x" * 300}, "BadRequest: name: "),
        ("explain", {**LATER, "why": 1}, "BadRequest: why: 1: Extra inputs are not permitted"),
        ("explain", {**LATER, "name": "none"}, "NotFound: there is no Workload team/none"),
        ("host", {"name": "none"}, "NotFound: no host none in a topology"),
        ("workloads", {"limit": -1}, "BadRequest: limit: -1: Input should be greater than or equal to 0"),
        ("workloads", {"limit": "many"}, "BadRequest: limit: "),
        ("workloads", {"limit": 10**9}, "BadRequest: limit: '1000000000': must be a number from 0 to 100000"),
        ("workloads", {"state": "Lost"}, "BadRequest: state: 'Lost': must be one of Pending, "),
        ("workloads", {"namespace": ["team"]}, "BadRequest: namespace: "),
        ("what_if", {}, "BadRequest: the question: neither of yaml and job: must be one of them"),
        ("what_if", {"job": {**JOB, "pods": 0}}, "BadRequest: job.pods: 0: "),
        ("what_if", {"job": {**JOB, "namespace": "hidden-ns"}}, "Forbidden: tenant may not list workloads"),
        ("what_if", {"yaml": "x" * 300_000}, "BadRequest: yaml: "),
        ("queues", {"name": "cq"}, "BadRequest: name: 'cq': Extra inputs"),
    ],
    ids=range(17),
)
async def test_a_bad_argument_is_named(tool: str, arguments: dict[str, Any], text: str) -> None:
    async with served() as found, client(found, "tenant") as one:
        failed, told = await call(one, tool, arguments)
        assert failed
        assert told.startswith(text)


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_that_does_not_exist_is_named(mode: str) -> None:
    async with served() as found, client(found, "tenant", mode) as one:
        for name in ("tree", "delete_workload"):
            with pytest.raises(MCPError, match=f"there is no tool {name}"):
                await one.call_tool(name, {})


async def test_a_tool_lists_fifty_workloads_unless_asked_for_more() -> None:
    async with served() as found:
        for number in range(60):
            found.cluster.wait("team", "lq", f"more-{number}", 1)
        await found.dashboard.renew()
        async with client(found, "tenant") as one:
            first = json.loads((await call(one, "workloads", {}))[1])
            assert (len(first["items"]), first["total"], first["next"]) == (50, 62, 50)
            rest = json.loads((await call(one, "workloads", {"limit": 100, "offset": first["next"]}))[1])
            assert (len(rest["items"]), rest["next"]) == (12, None)


async def test_an_answer_that_is_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "LONGEST_ANSWER", 100)
    async with served() as found, client(found, "tenant") as one:
        failed, text = await call(one, "workloads")
        assert failed
        assert text.startswith("TooLarge: the answer has ")


async def test_a_failure_inside_is_told_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as found, client(found, "tenant") as one:
        monkeypatch.setattr(found.dashboard, "occupancy", None)
        assert await call(one, "occupancy") == (True, "InternalError: internal error")


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"Accept": "text/event-stream"}, 405),
        ("DELETE", {}, 405),
        ("POST", {"Origin": "http://evil.example"}, 403),
        ("POST", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("POST", {"Host": "evil.example"}, 403),
    ],
    ids=range(5),
)
async def test_localhost_answers_this_machine_alone(method: str, headers: dict[str, str], status: int) -> None:
    async with served(tokens=False) as found:
        body = message("tools/list") if method == "POST" else None
        assert (await found.ask(PATH, None, method=method, body=body, headers=HEADERS | headers))[0] == status
        async with client(found, None) as one:
            assert HIDDEN in (await call(one, "workloads"))[1]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_call_whose_client_left_ends(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else clients that come and go would fill the process with questions that nobody waits for."""
    async with served() as found, asyncio.timeout(30):
        begun, ended = asyncio.Event(), asyncio.Event()

        async def forever(viewer: Any) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        monkeypatch.setattr(found.dashboard, "occupancy", forever)
        headers, sent = asked(version, "occupancy", {})
        asking = asyncio.create_task(found.ask(PATH, "tenant", method="POST", body=sent, headers=headers))
        await begun.wait()
        asking.cancel()
        await ended.wait()


async def test_an_sdk_that_cannot_be_used_breaks_its_path_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(dashboard: Any) -> Any:
        raise ImportError("no such module")

    monkeypatch.setattr(mcp_endpoint, "_manager", broken)
    async with served() as found, asyncio.timeout(30):
        for _ in range(2):
            status, body = await found.ask(PATH, "tenant", method="POST", body=message("ping"), headers=HEADERS)
            assert (status, json.loads(body)["error"]) == (503, "Unavailable")
        assert (await found.get("session"))["user"] == "admin"


TEXTS = st.text(max_size=40) | st.sampled_from(["team", "hidden-ns", "later", "tas", "n1", "..", "%2f", "\x00"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted({name for tool in TOOLS.values() for name in tool.input_schema()["properties"]})
CALLS = st.tuples(
    st.sampled_from(sorted(TOOLS)) | st.sampled_from(["tree", "", "what-if", "../session"]),
    VALUES
    | st.dictionaries(st.sampled_from(NAMES) | TEXTS, VALUES, max_size=3)
    | st.sampled_from([*ARGUMENTS.values()]),
    st.sampled_from(["tenant", "stranger"]),
    st.sampled_from(VERSIONS),
)


@settings(deadline=None, max_examples=20)
@given(calls=st.lists(CALLS, min_size=5, max_size=5), bodies=st.lists(VALUES | st.binary(max_size=60), max_size=3))
async def test_no_message_makes_the_server_fail(calls: list[Any], bodies: list[Any]) -> None:
    async with served() as found:
        messages = [(token, *asked(version, name, arguments)) for name, arguments, token, version in calls]
        for token, headers, body in [*messages, *(("tenant", HEADERS, body) for body in bodies)]:
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            all_headers = {**headers, "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            async with found.session.post(found.base + PATH, data=sent, headers=all_headers) as response:
                answer = await response.read()
                assert response.status < 500, (body, answer)
                assert b"InternalError" not in answer, (body, answer)
                assert b"hidden-train" not in answer


DEEP = 20_000


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * DEEP + b"]" * DEEP, id="depth"),
        pytest.param(b'{"a":' * DEEP + b"1" + b"}" * DEEP, id="depth of objects"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"host","arguments":'
                     + b'{"name":' * DEEP + b"1" + b"}" * (DEEP + 2), id="depth of arguments"),
        pytest.param(b'{"jsonrpc":"2.0","id":' + b"9" * 10_000 + b',"method":"ping"}', id="long number"),
        pytest.param(b"[" + b'{"jsonrpc":"2.0","id":1,"method":"ping"},' * 5000 + b"1]", id="batch"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', id="half a handshake"),
        pytest.param(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}', id="cancel"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"result":{}}', id="an answer"),
        pytest.param(b"\xff\xfe", id="no UTF-8"),
        pytest.param(b"", id="nothing"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28", "x" * 5000])
async def test_a_hostile_body_is_refused_in_time(body: bytes, version: str, caplog: pytest.LogCaptureFixture) -> None:
    headers = {**HEADERS, "Authorization": "Bearer tenant", "Content-Type": "application/json"}
    caplog.set_level("INFO")
    async with served() as found, asyncio.timeout(20):
        sent = found.session.post(found.base + PATH, data=body, headers=headers | {"MCP-Protocol-Version": version})
        async with sent as response:
            assert response.status < 500
            assert len(await response.read()) < 1 << 16
        async with client(found, "tenant") as one:
            assert not (await call(one, "session"))[0]
    assert not [record for record in caplog.records if record.name.startswith(("mcp", "admission"))]
