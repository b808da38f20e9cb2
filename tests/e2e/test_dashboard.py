"""The dashboard as a process with the rights of config/dashboard, asked with tokens of real ServiceAccounts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import mcp_types as types
import pytest
import pytest_asyncio
import yaml
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from admission.cli.local_cluster.install import CONFIG
from admission.cli.local_cluster.ports import free_port
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import eventually
from tests.scenarios.stage import real

in_loop = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions()
OURS = "stowage-system"
VERSION = "kueue.x-k8s.io/v1beta2"
TEAMS = ("team-a", "team-b")


def objects() -> str:
    """A queue without quota, with a LocalQueue, a job and an account for each team."""
    quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": 0}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    made: list[dict[str, Any]] = [
        {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}},
        {"apiVersion": VERSION, "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": spec},
    ]
    for team in TEAMS:
        named = {"name": "queue", "namespace": team}
        made += [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}},
            {"apiVersion": VERSION, "kind": "LocalQueue", "metadata": named, "spec": {"clusterQueue": "cq"}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "user", "namespace": team}},
        ]
    return yaml.safe_dump_all(made)


def job(team: str) -> str:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": f"job-of-{team}", "namespace": team, "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@dataclass
class Served:
    """The dashboard's port, and a token for each account."""

    port: int
    tokens: dict[str, str]

    async def ask(self, path: str, account: str = "team-a", body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.tokens.get(account, account)}"}
        url = f"https://127.0.0.1:{self.port}/api/v1/{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request("POST" if body else "GET", url, json=body, headers=headers, ssl=unverified()) as response,
        ):
            return response.status, json.loads(await response.read())

    @contextlib.asynccontextmanager
    async def assistant(self, account: str) -> AsyncIterator[Client]:
        """Yields a client of MCP with the account's token."""
        headers = {"Authorization": f"Bearer {self.tokens.get(account, account)}"}
        async with (
            httpx2.AsyncClient(headers=headers, verify=unverified(), trust_env=False, timeout=60) as http,
            Client(streamable_http_client(f"https://127.0.0.1:{self.port}/mcp", http_client=http)) as one,
        ):
            yield one


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    folder: Path = tmp_path_factory.mktemp("dashboard")
    cluster.kubectl("create", "namespace", OURS)
    for file in ("rbac", "secret", "users", "topologies"):
        cluster.kubectl("apply", "--server-side", "-f", str(CONFIG / "dashboard" / f"{file}.yaml"))
    async with real(cluster, folder):
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=objects())
        for team in TEAMS:
            cluster.kubectl(
                "create", "rolebinding", "user", "--clusterrole=view", f"--serviceaccount={team}:user", "-n", team
            )
            cluster.kubectl("apply", "-f", "-", stdin=job(team))
        # The view role has Workloads through aggregation, which config/rbac sets up.
        cluster.kubectl("apply", "--server-side", "-f", str(CONFIG / "rbac" / "users.yaml"))
        viewer = ("--clusterrole=stowage-dashboard-viewer", "--serviceaccount=team-b:user")
        cluster.kubectl("create", "clusterrolebinding", "team-b-viewer", *viewer)
        tokens = {team: cluster.kubectl("create", "token", "user", "-n", team).strip() for team in TEAMS}
        found = Served(free_port(), tokens)
        environment = {
            **os.environ,
            "STOWAGE_KUBECONFIG": str(cluster.service_account(OURS, "stowage-dashboard")),
            "STOWAGE_HEALTH_PORT": "0",
            "STOWAGE_DASHBOARD__HOST": "127.0.0.1",
            "STOWAGE_DASHBOARD__PORT": str(found.port),
        }
        with (folder / "dashboard.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "admission", "dashboard", env=environment, stdout=log, stderr=log
            )
        try:

            async def answers() -> bool:
                try:
                    return len((await found.ask("workloads"))[1].get("items", ())) == 1
                except (OSError, aiohttp.ClientError):
                    return False

            await eventually("the dashboard shows the job", answers, 60)
            yield found
        finally:
            process.terminate()
            await process.wait()


@in_loop
@pytest.mark.parametrize("team", TEAMS)
async def test_a_token_sees_its_namespace(served: Served, team: str) -> None:
    status, found = await served.ask("workloads", team)
    assert status == 200
    assert [(row["namespace"], row["job"]) for row in found["items"]] == [(team, f"Job job-of-{team}")]
    (other,) = {*TEAMS} - {team}
    assert (await served.ask(f"workloads/{other}/any", team))[0] == 403


@in_loop
async def test_queues_and_topology_need_the_viewers_role(served: Served) -> None:
    for path in ("queues", "topology"):
        assert [(await served.ask(path, team))[0] for team in TEAMS] == [403, 200]
    (queue,) = (await served.ask("queues", "team-b"))[1]["clusterQueues"]
    assert [local["namespace"] for local in queue["localQueues"]] == ["team-b"]
    assert queue["others"] == {"localQueues": 1, "pending": 1, "admitted": 0}


@in_loop
async def test_an_unknown_token_is_refused(served: Served) -> None:
    assert (await served.ask("session", "made-up"))[0] == 401
    status, found = await served.ask("session")
    assert (status, found["user"]) == (200, "system:serviceaccount:team-a:user")


@in_loop
async def test_what_if_is_answered_for_the_own_namespace(served: Served) -> None:
    form = {"name": "x", "queue": "queue", "pods": 1, "requests": {"cpu": "1"}}
    status, found = await served.ask("what-if", body={"job": {**form, "namespace": "team-a"}})
    assert status == 200
    assert found["items"][0]["explanation"]["verdict"] != "Fits"
    assert (await served.ask("what-if", body={"job": {**form, "namespace": "team-b"}}))[0] == 403


@in_loop
@pytest.mark.parametrize("team", TEAMS)
async def test_an_assistants_tools_have_the_rights_of_its_token(served: Served, team: str) -> None:
    """MCP by the official client, with TokenReview and SubjectAccessReview of a real API server."""
    (other,) = {*TEAMS} - {team}
    async with served.assistant(team) as one:
        asked: list[tuple[str, dict[str, Any]]] = [
            ("workloads", {}),
            ("search", {"q": "job"}),
            ("forecast", {}),
            ("queues", {}),
            ("occupancy", {}),
            ("explain", {"namespace": other, "name": f"job-job-of-{other}"}),
        ]
        found = {name: await one.call_tool(name, arguments) for name, arguments in asked}
    texts = {name: str(each.model_dump()) for name, each in found.items()}
    assert all(f"job-of-{other}" not in text for text in texts.values())
    assert all(f"job-of-{team}" in texts[name] for name in ("workloads", "search"))
    refused = {name for name, each in found.items() if isinstance(each, types.CallToolResult) and each.is_error}
    assert refused == ({"explain"} if team == "team-b" else {"explain", "queues", "occupancy"})


@in_loop
async def test_an_assistant_without_a_token_that_the_cluster_accepts_is_refused(served: Served) -> None:
    with pytest.raises((httpx2.HTTPStatusError, MCPError, ExceptionGroup)):
        async with served.assistant("made-up"):
            pass
