"""The server towards clients that nobody should trust: other origins, other names of this machine, paths, bodies."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import jsonschema
import pytest
import yarl
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.dashboard.questions import BadQuestion, manifests
from admission.dashboard.serve import static_files
from admission.dashboard.serve.openapi import document
from admission.dashboard.serve.routes import PREFIX, ROUTES
from admission.dashboard.viewer import Viewer
from api.process.identities import TooManyTokens
from tests.admission.dashboard.small_cluster import Served, served


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="own address"),
        pytest.param({"Host": "localhost:1"}, 200, id="localhost"),
        pytest.param({"Host": "[::1]:80"}, 200, id="IPv6"),
        pytest.param({"Host": "evil.example"}, 403, id="rebound name"),
        pytest.param({"Host": "127.0.0.1.evil.example"}, 403, id="name that begins like the address"),
        pytest.param({"Host": "[bad"}, 403, id="no host"),
        pytest.param({"Origin": "http://evil.example"}, 403, id="other origin"),
        pytest.param({"Origin": "null"}, 403, id="origin of a sandbox"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="script of another site"),
        pytest.param({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200, id="link of another site"),
    ],
)
async def test_localhost_answers_this_machine_alone(headers: dict[str, str], status: int) -> None:
    async with served(tokens=False) as found:
        assert (await found.ask(f"{PREFIX}session", None, headers=headers))[0] == status


async def test_the_page_has_the_headers_that_keep_others_out() -> None:
    async with served(tokens=False) as found, found.session.get(f"{found.base}/") as response:
        assert response.status == 200
        assert b"<html" in await response.read()
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        tag = response.headers["ETag"]
        status, body = await found.ask("/", None, headers={"If-None-Match": tag})
        assert (status, body) == (304, b"")


async def test_assets_are_kept_by_browsers_and_the_page_is_asked_for() -> None:
    files = static_files.load()
    asset = next(path for path in files if path.startswith("/assets/"))
    async with served(tokens=False) as found:
        async with found.session.get(found.base + asset) as response:
            assert (response.status, "immutable" in response.headers["Cache-Control"]) == (200, True)
        async with found.session.get(f"{found.base}/") as response:
            assert response.headers["Cache-Control"] == "no-cache"


async def raw(dashboard: Served, path: str, value: str, token: str | None = None) -> tuple[Mapping[str, str], bytes]:
    """Returns headers and body as they were sent to a client that takes this encoding."""
    headers = {"Accept-Encoding": value, **({} if token is None else {"Authorization": f"Bearer {token}"})}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(dashboard.base + path, headers=headers) as response,
    ):
        assert response.status == 200
        return response.headers, await response.read()


@pytest.mark.parametrize("value", ["gzip", "gzip, deflate, br", "deflate,GZIP"])
async def test_what_is_long_is_compressed_for_those_who_take_it(value: str) -> None:
    """The picture of 15,000 hosts comes over a user's network: 2 MB of columns take a tenth of that."""
    asset = next(path for path in static_files.load() if path.endswith(".js"))
    async with served() as found:
        for number in range(4, 200):
            found.cluster.node(f"n{number}", f"r{number // 2}")
        await found.dashboard.renew()
        for path, token in ((asset, None), (f"{PREFIX}topology/tas", "admin")):
            plain, body = await raw(found, path, "identity", token)
            packed, short = await raw(found, path, value, token)
            assert "Content-Encoding" not in plain
            assert packed["Content-Encoding"] == "gzip"
            assert gzip.decompress(short) == body
            assert len(short) < len(body) / 2
        plain, _ = await raw(found, asset, "identity")
        packed, _ = await raw(found, asset, value)
        assert plain["ETag"] != packed["ETag"]
        assert plain["Vary"] == packed["Vary"] == "Accept-Encoding"
        status, body = await found.ask(asset, None, headers={"If-None-Match": packed["ETag"], "Accept-Encoding": value})
        assert (status, body) == (304, b"")


@pytest.mark.parametrize("value", ["", "identity", "br", "gzip;q=0", "x-gzip"])
async def test_others_get_it_as_it_is(value: str) -> None:
    async with served() as found:
        headers, body = await raw(found, "/", value)
        assert "Content-Encoding" not in headers
        assert b"<html" in body


async def test_on_localhost_answers_are_not_compressed() -> None:
    async with served(tokens=False) as found:
        for number in range(4, 200):
            found.cluster.node(f"n{number}", f"r{number // 2}")
        await found.dashboard.renew()
        headers, body = await raw(found, f"{PREFIX}topology/tas", "gzip")
        assert "Content-Encoding" not in headers
        assert len(json.loads(body)["hosts"]["name"]) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/assets/../../server.py",
        "/%2e%2e/server.py",
        "/assets/%2e%2e%2f%2e%2e%2fserver.py",
        "//etc/passwd",
    ],
)
async def test_no_path_leads_out_of_the_folder(path: str) -> None:
    async with served(tokens=False) as found, found.session.get(yarl.URL(found.base + path, encoded=True)) as response:
        assert response.status == 404


def test_a_link_in_the_folder_is_served_as_the_file_that_was_built(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<html>")
    assert static_files.load(tmp_path).keys() == {"/", "/index.html"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "workloads", 405),
        ("GET", "what-if", 405),
        ("POST", "events", 405),
        ("GET", "none", 404),
        ("GET", "workloads?limit=-1", 400),
        ("GET", "workloads?limit=9999999999999", 400),
        ("GET", "workloads?state=Lost", 400),
        ("GET", "topology/none", 404),
        ("GET", "hosts/none", 404),
        ("GET", "workloads/team/none", 404),
        ("GET", "x" * 3000, 414),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_what_cannot_be_answered_says_so(method: str, path: str, status: int) -> None:
    async with served() as found:
        got, body = await found.ask(PREFIX + path, method=method)
        assert got == status
        assert json.loads(body).keys() == {"error", "message"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("workloads?limit=-1", "limit: '-1': must be a number from 0 to 100000"),
        ("workloads?state=Lost", "state: 'Lost': must be one of Pending, Reserved, Admitted, Evicted, Finished"),
        (
            "workloads?namspace=team",
            "query: 'namspace': must be namespace or queue or clusterQueue or state or reason or limit or offset",
        ),
        ("queues?name=cq", "query: 'name': this route has no parameters"),
        (f"workloads?{'x' * 5000}=1", "query: 'xxx"),
    ],
    ids=range(5),
)
async def test_a_bad_parameter_is_told_with_what_is_allowed(path: str, message: str) -> None:
    """A misspelt one would select nothing and say nothing."""
    async with served() as found:
        got, body = await found.ask(PREFIX + path)
        assert got == 400
        told = json.loads(body)["message"]
        assert told.startswith(message)
        assert len(told) < 700


JOB: dict[str, Any] = {"name": "x", "namespace": "team", "queue": "lq", "pods": 1, "requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "the question: neither of yaml and job: must be one of them"),
        ({"yaml": "a: 1", "job": JOB}, 400, "the question: both of yaml and job"),
        ({"job": {**JOB, "pods": 0}}, 400, "job.pods: 0: Input should be greater than or equal to 1"),
        ({"job": {**JOB, "extra": 1}}, 400, "job.extra"),
        ({"job": {**JOB, "requests": {"cpu": "many"}}}, 200, "many"),
        ({"job": {**JOB, "queue": "none"}}, 200, "none"),
        ([], 400, "body"),
        ({"yaml": "kind: Job"}, 200, "has no metadata"),
        (
            {"yaml": "["},
            200,
            "neither YAML nor JSON: while parsing a flow node did not find expected node content in line",
        ),
        ({"yaml": "kind: List\nitems: [1]"}, 200, "the List holds int, not objects"),
        ({"yaml": "x" * 300_000}, 400, "yaml"),
        (
            {"yaml": "kind: Node\napiVersion: v1\nmetadata: {name: n, namespace: team}"},
            200,
            "only jobs and pods can be added",
        ),
    ],
    ids=range(12),
)
async def test_a_question_that_cannot_be_read_is_told(body: Any, status: int, text: str) -> None:
    async with served() as found:
        got, answer = await found.ask(f"{PREFIX}what-if", method="POST", body=body)
        assert (got, text in answer.decode()) == (status, True), answer


async def test_a_body_beyond_the_limit_is_refused() -> None:
    async with served() as found:
        got, _ = await found.ask(f"{PREFIX}what-if", method="POST", body={"yaml": "x" * 600_000})
        assert got == 413


ALIASES = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 8)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ALIASES, id="aliases that double"),
        pytest.param("a: &a {b: 1}\nmetadata: {<<: [*a, *a]}\n", id="merge keys"),
        pytest.param("a: " + "[" * 200 + "]" * 200, id="depth"),
        # libyaml recurses: each of these ended the process with a segmentation fault
        pytest.param("a: " + "[" * 250_000, id="depth of lists"),
        pytest.param("{a: " * 60_000, id="depth of maps"),
        pytest.param("- " * 120_000 + "a", id="depth of a block"),
        pytest.param("? " * 120_000 + "a", id="depth of keys"),
        pytest.param('{"a":' * 50_000, id="depth of JSON"),
        pytest.param("a: &a [*a]", id="an alias of itself"),
        pytest.param("metadata: {name: !!int '59" + ":59" * 80_000 + "'}", id="a number to the base 60"),
        pytest.param("---\nkind: Job\nmetadata: {}\n" * 30, id="many objects"),
        pytest.param("? {a: 1}\n: b\n", id="a key that is a map"),
        pytest.param("1: a\n", id="a key that is a number"),
        pytest.param("metadata: {namespace: 1}\n", id="a namespace that is a number"),
    ],
)
def test_a_manifest_that_would_cost_too_much_is_refused(text: str) -> None:
    with pytest.raises(BadQuestion):
        manifests(text)


TEXTS = st.text(max_size=40) | st.sampled_from(
    ["team", "hidden-ns", "later", "tas", "n1", "..", "%2f", "\x00", "é" * 20]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted(document("0")["components"]["schemas"]["WhatIfJob"]["properties"])
SOME_FIELDS = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=2)
JOBS = SOME_FIELDS | st.builds(lambda more: {**JOB, **more}, SOME_FIELDS)
BODIES = VALUES | st.fixed_dictionaries({"job": JOBS}) | st.fixed_dictionaries({"yaml": st.text(max_size=200)})
REQUESTS = st.tuples(
    st.sampled_from(ROUTES),
    st.lists(TEXTS, min_size=3, max_size=3),
    st.dictionaries(st.sampled_from(["limit", "offset", "state", "namespace", "q", "x"]), TEXTS),
    BODIES,
    st.sampled_from(["admin", "tenant", "stranger"]),
    st.sampled_from(["GET", "POST", "PUT", "HEAD"]) | st.none(),
)


OTHERS = (b"hidden-train", b"hidden-more", b"hidden-next", b"hidden-lq")
"""Names that no request holds; `hidden-ns` is among the texts, and a refusal repeats it."""


async def test_logs_hold_neither_tokens_nor_what_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    """The dashboard's log has neither the tokens of its users nor what they look at."""
    caplog.set_level("DEBUG")
    secret = "eyJhbGciOiJSUzI1NiJ9.made-up.signature"
    async with served() as found:
        for token in ("admin", "tenant", secret, "x" * 8_000):
            for path in ("workloads/team/later", "what-if", "events/x", "search?q=private-words", f"hosts/{secret}"):
                body = {"yaml": "private-words: ["} if path == "what-if" else None
                await found.ask(PREFIX + path, token, method="POST" if body else "GET", body=body)
        async with found.session.get(f"{found.base}/?token={secret}") as response:
            assert response.status == 200
    told = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    assert not [word for word in (secret, "private-words", "hidden-train", "Bearer") if word in told]


DOCUMENT = json.loads(json.dumps(document("0")))


def as_described(route: Any, status: int, answer: bytes) -> None:
    """The OpenAPI document has the status, and its schema takes the answer."""
    responses = DOCUMENT["paths"][PREFIX + route.path][route.method.lower()]["responses"]
    schema = responses[str(status)]["content"]["application/json"]["schema"]
    jsonschema.validate(json.loads(answer), {**schema, "components": DOCUMENT["components"]})


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(requests=st.lists(REQUESTS, min_size=10, max_size=10))
async def test_no_request_makes_the_server_fail(requests: list[Any]) -> None:
    async with served() as found:
        for route, names, query, body, token, method in requests:
            values = iter(names)
            parts = [quote(next(values), safe="") or "x" if part[0] == "{" else part for part in route.parts]
            path = PREFIX + "/".join(parts)
            url = yarl.URL(found.base + path, encoded=True).update_query(query)
            headers = {"Authorization": f"Bearer {token}"}
            sent = None if (method or route.method) in ("GET", "HEAD") else body
            async with found.session.request(method or route.method, url, json=sent, headers=headers) as response:
                answer = await response.read()
                assert response.status < 500, (url, sent, answer)
                if (method or route.method) == route.method:
                    as_described(route, response.status, answer)
                assert len(answer) < 1 << 20
                if token != "admin":
                    assert not any(name in answer for name in OTHERS), (url, sent, answer)


@pytest.mark.asyncio
async def test_who_sends_many_unknown_tokens_is_told_to_wait() -> None:
    """The budget is that of the client's address (tests/api/kube/test_identities.py)."""
    sources = []

    async def refusing(token: str, source: str) -> Viewer | None:
        sources.append(source)
        raise TooManyTokens

    async with served(authenticate=refusing) as found:
        status, body = await found.ask(f"{PREFIX}session", "made-up")
    assert (status, json.loads(body)["error"]) == (429, "TooManyRequests")
    assert sources == ["127.0.0.1"]
