"""What the contract suite runs on: the two servers behind one small face, a namespace each test, and objects to post.

Plain HTTP, no client of ours in between: what the suite finds, it finds of the servers. Used by test_api_*.py; the fixtures
are made known by conftest.py.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from api.embedded.server import EmbeddedServer, EmbeddedSettings

JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
OURS, THEIRS = "kueue.x-k8s.io/topology", "other.dev/wait"
GROUP = "contract.stowage.dev"
WIDGETS = f"/apis/{GROUP}/v1"

Obj = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    body: Obj

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


@dataclass(frozen=True)
class Server:
    """One server and a namespace on it. Paths are relative to the namespace unless they start with /api."""

    session: aiohttp.ClientSession
    namespace: str

    def path(self, path: str) -> str:
        if path.startswith("/"):
            return path
        plural = path.partition("/")[0].partition("?")[0]
        root = {"jobs": "/apis/batch/v1", "jobsets": "/apis/jobset.x-k8s.io/v1alpha2", "widgets": WIDGETS}
        return f"{root.get(plural, '/api/v1')}/namespaces/{self.namespace}/{path}"

    async def call(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Answer:
        data = json.dumps(body) if body is not None else None
        request = self.session.request(method, self.path(path), data=data, headers={"Content-Type": content})
        async with request as response:
            return Answer(response.status, json.loads(await response.read()))

    async def get(self, path: str) -> Answer:
        return await self.call("GET", path)

    async def post(self, path: str, body: Obj) -> Answer:
        return await self.call("POST", path, body)

    async def put(self, path: str, body: Obj) -> Answer:
        return await self.call("PUT", path, body)

    async def patch(self, path: str, body: Any, content: str = MERGE) -> Answer:
        return await self.call("PATCH", path, body, content)

    async def delete(self, path: str, body: Obj | None = None) -> Answer:
        return await self.call("DELETE", path, body)

    @asynccontextmanager
    async def watch(self, path: str) -> AsyncIterator[Callable[[], Awaitable[Obj]]]:
        """Gives the next event; a stream that ends or stalls is a failure."""
        async with self.session.get(self.path(path)) as response:
            assert response.status == 200, await response.text()

            async def event() -> Obj:
                line = await asyncio.wait_for(response.content.readline(), 60)
                assert line, "the watch ended"
                return dict(json.loads(line))

            yield event

    async def eventually(self, what: str, check: Callable[[], Awaitable[bool]], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not await check():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
            await asyncio.sleep(0.05)


@pytest.fixture(scope="package")
def real_kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A control plane without scheduler and kubelets: pods stay as the tests leave them."""
    build = pytest.importorskip("hack.controlplane.build")
    from hack.controlplane.cluster import ControlPlane
    from hack.controlplane.options import ClusterOptions

    tools = build.installed()
    if tools is None:
        pytest.skip("the control plane is not built: `make controlplane` builds it")
    chosen = ClusterOptions(jobset=True, kwok=False, scheduler=False)
    with tempfile.TemporaryDirectory(prefix="stowage-") as folder, ControlPlane(Path(folder), chosen, tools) as started:
        yield started.kubeconfig


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.e2e)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    if request.param == "real":
        kubeconfig: Path = request.getfixturevalue("real_kubeconfig")
        async with _served(kubeconfig) as served:
            yield served
        return
    async with (
        EmbeddedServer(EmbeddedSettings(bookmark_seconds=0.05)) as embedded,
        _served(embedded.kubeconfig(tmp_path / "kubeconfig")) as served,
    ):
        yield served


@asynccontextmanager
async def _served(kubeconfig: Path) -> AsyncIterator[Server]:
    url, context, headers = _credentials(kubeconfig)
    connector = aiohttp.TCPConnector(ssl=context)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(url, connector=connector, headers=headers, timeout=timeout) as session:
        namespace = f"contract-{uuid.uuid4().hex[:8]}"
        served = Server(session, namespace)
        made = await served.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        assert made.status == 201, made.body
        yield served
        await served.delete(f"/api/v1/namespaces/{namespace}")


def _credentials(kubeconfig: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    config: Obj = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=_pem(cluster, "certificate-authority"))
    if "token" in user:
        return cluster["server"], context, {"Authorization": f"Bearer {user['token']}"}
    with tempfile.NamedTemporaryFile("w") as pair:
        pair.write(_pem(user, "client-certificate") + _pem(user, "client-key"))
        pair.flush()
        context.load_cert_chain(pair.name)
    return cluster["server"], context, {}


def _pem(entry: Obj, name: str) -> str:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"]).decode()
    return Path(entry[name]).read_text()


# ---- objects


def pod(name: str, *gates: str, **spec: Any) -> Obj:
    body: Obj = {"containers": [{"name": "main", "image": "example.dev/main:1"}], **spec}
    if gates:
        body["schedulingGates"] = [{"name": gate} for gate in gates]
    return {"metadata": {"name": name}, "spec": body}


def job(name: str, **spec: Any) -> Obj:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.dev/main:1"}]}}
    return {"metadata": {"name": name}, "spec": {"suspend": True, "template": template, **spec}}


def jobset(name: str) -> Obj:
    pods = {"spec": {"containers": [{"name": "main", "image": "example.dev/main:1"}]}}
    child = {"name": "workers", "template": {"spec": {"parallelism": 2, "completions": 2, "template": pods}}}
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    return {**kind, "metadata": {"name": name}, "spec": {"suspend": True, "replicatedJobs": [child]}}


def template(**pod_spec: Any) -> Obj:
    return {"spec": {"template": {"spec": pod_spec}}}


def config_map(name: str, **meta: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}


_CONDITION = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {"type": {"type": "string"}, "status": {"type": "string", "enum": ["True", "False"]}},
}
_SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["Fast", "Slow"], "default": "Fast"},
        "label": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "parts": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
            },
        },
    },
}
_STATUS = {
    "type": "object",
    "properties": {
        "ready": {"type": "boolean"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": _CONDITION,
        },
    },
}
WIDGET_CRD = {
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}},
            }
        ],
    },
}


def widget(name: str, **spec: Any) -> Obj:
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "Widget"}
    return {**kind, "metadata": {"name": name}, "spec": {"size": 1, **spec}}


@pytest.fixture
async def widgets(server: Server) -> Server:
    """The server, once it serves widgets."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = await server.post(crds, WIDGET_CRD)
    assert made.status in (201, 409), made.body

    async def is_served() -> bool:
        answer = await server.get(f"{crds}/widgets.{GROUP}")
        conditions = answer.body["status"].get("conditions") or ()
        established = any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
        return established and (await server.session.get(f"{WIDGETS}/widgets")).status == 200

    await server.eventually("widgets are served", is_served)
    return server


def refused(answer: Answer, status: int, reason: str, *words: str) -> None:
    """The answer is a Status of this kind whose message holds the words."""
    assert (answer.status, answer.body.get("reason")) == (status, reason), answer.body
    assert answer.body["kind"] == "Status"
    assert (answer.body["status"], answer.body["code"]) == ("Failure", status)
    for word in words:
        assert word in answer.message


async def labelled(server: Server) -> None:
    """Three pods, to be told apart by their labels."""
    for name, labels in (("a", {"tier": "web", "x": "1"}), ("b", {"tier": "db"}), ("c", {"x": "2"})):
        await server.post("pods", {**pod(name), "metadata": {"name": name, "labels": labels}})
