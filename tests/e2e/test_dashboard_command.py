"""`stowage dashboard` as a command on a real control plane, with the kubeconfig of an administrator and of plain users."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from admission.cli.local_cluster.install import CONFIG
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.admission.cli.dashboard_command import in_namespace, opened
from tests.e2e.test_dashboard import TEAMS, job, objects
from tests.scenarios.site import eventually
from tests.scenarios.stage import real

in_loop = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions()
VIEWER = "stowage-dashboard-viewer"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """A job that waits in each of two namespaces. Ann may view team-a; Ben team-b, nodes, queues and reservations."""
    async with real(cluster, tmp_path_factory.mktemp("command")):
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=objects())
        for team in TEAMS:
            cluster.kubectl("apply", "-f", "-", stdin=job(team))
        for file in ("rbac/users", "dashboard/users"):
            cluster.kubectl("apply", "--server-side", "-f", str(CONFIG / f"{file}.yaml"))
        for user, team in (("ann", "team-a"), ("ben", "team-b")):
            cluster.kubectl("create", "rolebinding", user, "--clusterrole=view", f"--user={user}", "-n", team)
        cluster.kubectl("create", "clusterrolebinding", "ben-viewer", f"--clusterrole={VIEWER}", "--user=ben")

        async def both_wait() -> bool:
            return len(cluster.kubectl("get", "workloads", "-A", "-o", "name").split()) == 2

        await eventually("both jobs have Workloads", both_wait)
        for user, team in (("ann", "team-a"), ("ben", "team-b")):
            may = ("auth", "can-i", "list", "workloads.kueue.x-k8s.io", f"--as={user}", "-n", team)

            async def allowed(may: tuple[str, ...] = may) -> bool:
                return cluster.try_kubectl(*may).stdout.strip() == "yes"

            await eventually(f"{user} may list Workloads", allowed)
        yield cluster


@in_loop
async def test_an_administrator_sees_everything(site: ControlPlane) -> None:
    async with opened(site.kubeconfig) as command:
        status, found = await command.shows("workloads")
        assert status == 200
        assert sorted(row["namespace"] for row in found["items"]) == list(TEAMS)
        for path in ("topology", "queues", "occupancy"):
            assert (await command.ask(f"api/v1/{path}"))[0] == 200
        row = found["items"][0]
        assert (await command.ask(f"api/v1/workloads/{row['namespace']}/{row['name']}/explanation"))[0] == 200
        status, page = await command.ask("")
        assert status == 200
        assert "<title>Stowage</title>" in page
        assert not [line for line in command.printed if "you may not list" in line]


@in_loop
async def test_a_user_of_one_namespace_sees_its_workloads_and_is_told_why_nothing_else(site: ControlPlane) -> None:
    async with opened(in_namespace(site.user("ann"), "team-a")) as command:
        status, found = await command.shows("workloads")
        assert status == 200
        assert [(row["namespace"], row["job"]) for row in found["items"]] == [("team-a", "Job job-of-team-a")]
        name = found["items"][0]["name"]
        status, found = await command.ask(f"api/v1/workloads/team-a/{name}")
        assert status == 200
        assert found["reason"]
        assert found["explanation"] is None
        for path, kind in (("topology", "nodes"), ("queues", "clusterqueues.kueue.x-k8s.io")):
            status, found = await command.ask(f"api/v1/{path}")
            assert status == 403
            assert f"you may not list {kind}" in found["message"]
        assert (await command.ask("api/v1/workloads/team-b/any"))[0] == 403
        assert (await command.ask(f"api/v1/workloads/team-a/{name}/explanation"))[0] == 403
        line = await command.prints("you may not list")
        assert "nodes" in line
        assert "workloads (shown are those of team-a)" in line


@in_loop
async def test_a_user_who_may_list_nodes_and_queues_sees_these_too(site: ControlPlane) -> None:
    async with opened(in_namespace(site.user("ben"), "team-b")) as command:
        status, found = await command.shows("workloads")
        assert status == 200
        assert [row["namespace"] for row in found["items"]] == ["team-b"]
        assert (await command.ask("api/v1/topology"))[0] == 200
        status, found = await command.ask("api/v1/queues")
        assert status == 200
        assert [queue["name"] for queue in found["clusterQueues"]] == ["cq"]
        assert (await command.ask("api/v1/workloads/team-a/any"))[0] == 403


@in_loop
async def test_a_user_without_rights_sees_an_empty_page_and_why(site: ControlPlane) -> None:
    async with opened(site.user("eve")) as command:
        assert await command.shows("workloads") == (200, {"items": [], "total": 0, "next": None})
        assert "workloads" in await command.prints("you may not list")
