"""What the page shows to users whose rights are narrow, and to those without a token. test_tenant.py walks the real server."""

from __future__ import annotations

import pytest

from tests.page.cluster import MadeCluster
from tests.page.conftest import Opener

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_token_is_asked_for_refused_and_accepted(opened: Opener) -> None:
    found = await opened(MadeCluster(64), token="right")
    await found.go("waiting")
    field = found.page.get_by_label("Token of the cluster")
    await found.page.get_by_text("This cluster asks for a token.").wait_for()
    await field.fill("wrong")
    await found.page.keyboard.press("Enter")
    await found.page.get_by_text("The cluster does not accept this token.").wait_for()
    await field.fill("right")
    await found.page.keyboard.press("Enter")
    await found.page.get_by_text("57 workloads wait").wait_for()
    await found.page.get_by_role("button", name="Sign out").click()
    await field.wait_for()
    assert "right" not in str(await found.page.evaluate("() => JSON.stringify({...sessionStorage, ...localStorage})"))


async def test_what_a_user_may_not_see_is_said(opened: Opener) -> None:
    cluster = MadeCluster(64)
    found = await opened(cluster, hidden=frozenset({"team-a"}))
    await found.go("workload/team-a/secret")
    await found.page.get_by_text("You may not see workload team-a/secret").wait_for()
    assert 'you may not get workloads in namespace "team-a"' in await found.text()
    await found.go("workload/team-b/none")
    await found.page.get_by_text("there is no Workload team-b/none").wait_for()


async def test_a_tenant_without_a_right_to_nodes_begins_with_what_waits(opened: Opener) -> None:
    found = await opened(MadeCluster(64), tenant=True)
    await found.go("")
    await found.page.get_by_text("57 workloads wait").wait_for()
    await found.go("topology")
    await found.page.get_by_text("You may not see the topology").wait_for()
    await found.go("what-if")
    await found.page.get_by_label("LocalQueue").select_option("team-a/main")
    await found.page.get_by_role("button", name="Ask").click()
    await found.page.get_by_text("main had 12 pods instead of 16").wait_for()
