"""`stowage mcp`, as an assistant starts it: the SDK's own client over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from typer.testing import CliRunner

from admission.cli.main import app
from admission.dashboard.mcp.tools import TOOLS
from api.embedded.server import EmbeddedServer
from api.kube.resources import CLUSTER_QUEUES, CRDS, LOCAL_QUEUES, NAMESPACES, RESOURCE_FLAVORS, WORKLOADS
from tests.builders import workload
from tests.crds import SHIPPED, shipped

QUOTA = {"name": "cpus", "resources": [{"name": "cpu", "nominalQuota": 4}]}


def fill(server: EmbeddedServer) -> None:
    """Creates our CRDs, a queue of four cpus and a Workload of eight."""
    for file in sorted(SHIPPED.glob("*.yaml")):
        if (crd := shipped(file.stem)).get("kind") == "CustomResourceDefinition":
            server.store.create(CRDS, crd)
    groups = [{"coveredResources": ["cpu"], "flavors": [QUOTA]}]
    queue = {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}}
    large = workload("large", queue="lq", count=8).to_wire()["spec"]
    server.store.create(NAMESPACES, {"metadata": {"name": "team"}})
    server.store.create(RESOURCE_FLAVORS, {"metadata": {"name": "cpus"}, "spec": {}})
    server.store.create(CLUSTER_QUEUES, queue)
    server.store.create(LOCAL_QUEUES, {"metadata": {"name": "lq", "namespace": "team"}, "spec": {"clusterQueue": "cq"}})
    server.store.create(WORKLOADS, {"metadata": {"name": "large", "namespace": "team"}, "spec": large})


async def told(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, types.CallToolResult)
    (content,) = answer.content
    assert isinstance(content, types.TextContent)
    return answer.is_error, content.text


@pytest.mark.stage
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_assistant_asks_why_a_workload_waits(tmp_path: Path, mode: str) -> None:
    async with EmbeddedServer() as server, asyncio.timeout(90):
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        fill(server)
        given = StdioServerParameters(
            command=sys.executable, args=["-m", "admission.cli", "mcp", "--kubeconfig", str(kubeconfig)]
        )
        with (tmp_path / "errors").open("w") as errors:
            async with Client(stdio_client(given, errlog=errors), mode=mode) as one:
                assert {tool.name for tool in (await one.list_tools()).tools} == TOOLS.keys()
                failed, text = await told(one, "workloads", {"namespace": "team"})  # at once: the cluster is being read
                assert not failed, text
                assert [row["name"] for row in json.loads(text)["items"]] == ["large"]
                failed, text = await told(one, "explain", {"namespace": "team", "name": "large"})
                assert (failed, "cpu" in text) == (False, True)
                job = {"namespace": "team", "queue": "lq", "pods": 2, "requests": {"cpu": "1"}}
                failed, text = await told(one, "what_if", {"job": job})
                assert (failed, json.loads(text)["errors"], len(json.loads(text)["items"])) == (False, [], 1)
                assert await told(one, "explain", {"namespace": "team"}) == (True, "BadRequest: name: Field required")
        assert (tmp_path / "errors").read_text() == ""


@pytest.mark.stage
async def test_it_ends_when_its_client_does_and_prints_nothing_else(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, asyncio.timeout(60):
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        fill(server)
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "admission.cli", "mcp", "--kubeconfig", str(kubeconfig)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, errors = await process.communicate(b'no message\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert (process.returncode, errors) == (0, b"")
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())


def test_without_a_cluster_it_says_so(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["mcp", "--kubeconfig", str(tmp_path / "none")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("no MCP server: no cluster: ")
