"""`stowage dashboard` with a user's kubeconfig on the embedded server; tests/e2e has the real one."""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import replace
from pathlib import Path

from aiohttp import web

from admission.cli.dashboard import NOT_SERVED
from admission.cli.local_cluster.install import install
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube
from api.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, NODES, VALIDATING_WEBHOOKS, WORKLOADS
from api.kube.settings import ClientSettings
from tests.admission.cli.dashboard_command import in_namespace, opened
from tests.builders import pod_template
from tests.scenarios.site import eventually

TEAMS = ("team-a", "team-b")


async def no_list_beside_team_a(request: web.Request) -> web.StreamResponse | None:
    """Lets the client list and watch in namespace team-a alone."""
    parts = request.path.strip("/").split("/")
    start = 2 if parts[0] == "api" else 3
    if request.method != "GET" or parts[0] not in ("api", "apis") or len(parts) <= start:
        return None
    if parts[start : start + 2] == ["namespaces", "team-a"]:
        return None
    message = f'{parts[-1]} is forbidden: User "ann" cannot list resource "{parts[-1]}" at the cluster scope'
    status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message}
    return web.json_response(status, status=403)


async def wait(kube: Kube, namespace: str, name: str) -> None:
    """Adds a workload that waits."""
    pod_set = {"name": "main", "count": 1, "template": pod_template()}
    body = {"metadata": {"name": name, "namespace": namespace}, "spec": {"queueName": "q", "podSets": [pod_set]}}
    await kube.create(WORKLOADS, {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, **body})


async def filled(server: EmbeddedServer, folder: Path) -> Path:
    """Gives the server a node, and in each of two namespaces a workload that waits. Returns a kubeconfig."""
    kubeconfig = server.kubeconfig(folder / "kubeconfig")
    async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, attempts=1)) as kube:
        await install(kube, "https://127.0.0.1:1")
        await kube.delete(MUTATING_WEBHOOKS, "stowage-mutating-webhook-configuration")
        await kube.delete(VALIDATING_WEBHOOKS, "stowage-validating-webhook-configuration")
        await kube.create(NODES, {"metadata": {"name": "n"}})
        for team in TEAMS:
            await kube.create(NAMESPACES, {"metadata": {"name": team}})
            await wait(kube, team, f"of-{team}")
    return in_namespace(kubeconfig, "team-a")


async def test_an_administrator_sees_all_namespaces(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, opened(await filled(server, tmp_path)) as command:
        status, found = await command.shows("workloads")
        assert status == 200
        assert sorted(row["namespace"] for row in found["items"]) == list(TEAMS)
        assert (await command.shows("topology"))[0] == 200
        assert (await command.shows("workloads/team-b/of-team-b"))[0] == 200


async def test_a_user_of_one_namespace_sees_it_and_is_told_what_else_is_not_shown(tmp_path: Path) -> None:
    refusing = False

    async def intercept(request: web.Request) -> web.StreamResponse | None:
        return await no_list_beside_team_a(request) if refusing else None

    async with EmbeddedServer(replace(EmbeddedSettings(), intercept=intercept)) as server:
        kubeconfig = await filled(server, tmp_path)
        refusing = True
        async with opened(kubeconfig) as command:
            status, found = await command.shows("workloads")
            assert status == 200
            assert [(row["namespace"], row["name"]) for row in found["items"]] == [("team-a", "of-team-a")]
            status, found = await command.ask("api/v1/workloads/team-a/of-team-a")
            assert (status, found["explanation"]) == (200, None), "nothing is computed from a part of the cluster"
            for path, kind in (("topology", "nodes"), ("queues", "clusterqueues.kueue.x-k8s.io")):
                status, found = await command.ask(f"api/v1/{path}")
                assert (status, found["error"]) == (403, "Forbidden")
                assert f"you may not list {kind}" in found["message"]
            assert (await command.ask("api/v1/workloads/team-b/of-team-b"))[0] == 403
            status, found = await command.ask("api/v1/workloads/team-a/of-team-a/explanation")
            assert status == 403
            assert "may not list all of what decisions depend on" in found["message"]
            status, found = await command.ask(
                "api/v1/what-if", {"job": {"namespace": "team-a", "queue": "q", "pods": 1, "requests": {"cpu": "1"}}}
            )
            assert status == 403, found
            assert (await command.ask(""))[0] == 200
            async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, attempts=1)) as kube:
                for team in TEAMS:
                    await wait(kube, team, f"later-{team}")

            async def names() -> bool:
                items = (await command.ask("api/v1/workloads"))[1]["items"]
                return sorted(row["name"] for row in items) == ["later-team-a", "of-team-a"]

            await eventually("a new workload of the namespace is shown", names)
            line = await command.prints("you may not list")
            assert "nodes" in line
            assert "workloads (shown are those of team-a)" in line


async def test_a_user_without_any_right_is_told_so(tmp_path: Path) -> None:
    refusing = False

    async def intercept(request: web.Request) -> web.StreamResponse | None:
        return await no_list_beside_team_a(request) if refusing else None

    async with EmbeddedServer(replace(EmbeddedSettings(), intercept=intercept)) as server:
        kubeconfig = in_namespace(await filled(server, tmp_path), "team-b")
        refusing = True
        async with opened(kubeconfig) as command:
            assert await command.shows("workloads") == (200, {"items": [], "total": 0, "next": None})
            line = await command.prints("you may not list")
            assert "workloads" in line
            assert "shown are" not in line


async def test_a_port_that_is_taken_ends_the_command_with_a_reason(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        async with EmbeddedServer() as server:
            options = (f"--port={port}", "--no-open", f"--kubeconfig={await filled(server, tmp_path)}")
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "admission.cli", "dashboard", *options, stderr=asyncio.subprocess.PIPE
            )
            error = (await process.communicate())[1].decode()
    assert process.returncode == NOT_SERVED, error
    assert error.startswith("no dashboard: ")
    assert f"('127.0.0.1', {port}): address already in use" in error
    assert len(error.splitlines()) == 1
