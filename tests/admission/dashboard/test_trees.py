"""Which changes of nodes the stream tells: nothing, a row, or a structure that is to be read again.

And advance reservations: the hosts that they hold, from when they are made until they end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from admission.dashboard import trees
from admission.dashboard.cluster import of_objects
from admission.dashboard.dashboard import Dashboard, Facts
from admission.dashboard.viewer import Permissions
from api.kube.resources import ADVANCE_RESERVATIONS, NODES
from api.meta import rfc3339
from api.names import HOSTNAME_LABEL
from tests.admission.dashboard.small_cluster import BLOCK, RACK, SmallCluster
from tests.api.kube.clock import until
from tests.builders import condition
from tests.tasks import running


def node(cluster: SmallCluster, name: str, **changes: Any) -> None:
    """Writes a node as SmallCluster does, with other labels, annotations, heartbeat, taints or resources."""
    labels = {"pool": "tas", BLOCK: "b0", RACK: "r0", HOSTNAME_LABEL: name, **changes.get("labels", {})}
    ready = {**condition("Ready", "True", "Down"), "lastHeartbeatTime": changes.get("beat", "2026-01-01T00:00:00Z")}
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", **changes.get("amounts", {})}
    metadata = {"name": name, "labels": labels, "annotations": changes.get("annotations", {})}
    spec = {"taints": changes.get("taints", []), "unschedulable": changes.get("cordoned", False)}
    cluster.add(NODES, {"metadata": metadata, "spec": spec, "status": {"allocatable": amounts, "conditions": [ready]}})


async def began() -> tuple[SmallCluster, Dashboard]:
    cluster = SmallCluster()
    node(cluster, "n0")
    dashboard = Dashboard(of_objects(cluster.objects, cluster.world.state), Facts("0", "made-up"))
    await dashboard.renew()
    return cluster, dashboard


async def told(dashboard: Dashboard, change: Callable[[], None]) -> bytes:
    """What the stream sends after the change."""
    with dashboard.clients.joined("you") as queue:
        change()
        await dashboard.renew()
        batch = queue.get_nowait()
        assert batch is not None
        return batch.encoded(Permissions())


TAINT = {"key": "maintenance", "effect": "NoSchedule"}
NOTHING, ROW, STRUCTURE = "nothing", "topology", "structure"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"beat": "2026-01-01T00:05:00Z"}, NOTHING, id="heartbeat"),
        pytest.param(
            {"annotations": {"node.alpha.kubernetes.io/ttl": "300"}}, NOTHING, id="annotation of a controller"
        ),
        pytest.param({"labels": {"beta.kubernetes.io/os": "linux"}}, NOTHING, id="label of a controller"),
        pytest.param({"taints": [TAINT]}, NOTHING, id="taint"),
        pytest.param({"cordoned": True}, ROW, id="cordoned"),
        pytest.param({"amounts": {"cpu": "7"}}, ROW, id="an amount"),
        pytest.param({"labels": {RACK: "r1"}}, STRUCTURE, id="another rack"),
        pytest.param({"labels": {"pool": "other"}}, STRUCTURE, id="another pool"),
        pytest.param({"amounts": {"example.com/gpu": "4"}}, STRUCTURE, id="a resource that no node had"),
    ],
)
async def test_a_node_s_change_is_told_as_what_it_is(changes: dict[str, Any], expected: str) -> None:
    cluster, dashboard = await began()
    found = await told(dashboard, lambda: node(cluster, "n0", **changes))
    assert {line[7:].decode() for line in found.splitlines() if line.startswith(b"event: ")} <= {expected}
    assert bool(found) == (expected != NOTHING)


async def test_a_node_that_joins_is_a_change_of_the_structure() -> None:
    cluster, dashboard = await began()
    assert b"event: structure" in await told(dashboard, lambda: node(cluster, "n9"))
    assert "n9" in dashboard.trees.by_flavor["tas"].names


async def test_rows_are_told_while_nodes_join_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large tree is read again after a pause; what changes on the known hosts need not wait for that."""
    monkeypatch.setattr(trees, "_LONG", 0.0)
    monkeypatch.setattr(trees, "_PAUSE", 1e6)
    cluster, dashboard = await began()

    def join_and_cordon() -> None:
        node(cluster, "n9")
        node(cluster, "n0", cordoned=True)

    found = await told(dashboard, join_and_cordon)
    assert b"cordoned" in found
    assert b"event: structure" not in found
    assert (dashboard.trees.due_in() or 0) > 0


async def test_a_structure_whose_pause_has_ended_is_read_without_another_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trees, "_LONG", 0.0)
    monkeypatch.setattr(trees, "_PAUSE", 20.0)
    cluster, dashboard = await began()
    async with running(dashboard.run()):
        await until(lambda: not dashboard.cluster.changed.is_set())
        node(cluster, "n9")
        await until(lambda: "n9" in dashboard.trees.by_flavor["tas"].names)
    assert dashboard.trees.due_in() is None


def reserve(cluster: SmallCluster, start: float, end: float, name: str = "firmware", queue: str = "") -> None:
    """Reserves rack r0 from `start` until `end`, in seconds from now."""
    now = time.time()
    spec = {"nodeLabels": {RACK: "r0"}, "start": rfc3339(now + start), "end": rfc3339(now + end)}
    cluster.add(
        ADVANCE_RESERVATIONS, {"metadata": {"name": name}, "spec": spec | ({"clusterQueue": queue} if queue else {})}
    )


def reserved(dashboard: Dashboard) -> dict[str, list[str]]:
    """The names of the reservations of each host that has some."""
    tree = dashboard.trees.by_flavor["tas"]
    held = zip(tree.names, tree.rows, strict=True)
    return {host: [name for name, _, _ in row.reserved] for host, row in held if row.reserved}


BOTH = {"n0": ["firmware"], "n1": ["firmware"]}


async def test_the_hosts_of_a_reservation_are_told_as_rows() -> None:
    cluster, dashboard = await began()
    found = await told(dashboard, lambda: reserve(cluster, 600, 1200))
    assert reserved(dashboard) == BOTH
    (data,) = [json.loads(line[6:]) for line in found.splitlines() if line.startswith(b"data: ") and b"hosts" in line]
    assert {each["i"]: [one["name"] for one in each["reserved"]] for each in data["hosts"]} == {
        0: ["firmware"],
        1: ["firmware"],
    }
    assert b"structure" not in found
    # Of a change of its times too; not of a status that is written anew.
    assert await told(dashboard, lambda: reserve(cluster, 600, 1800)) != b""
    assert await told(dashboard, lambda: reserve(cluster, 600, 1800, name="other")) != b""
    assert reserved(dashboard) == {"n0": ["firmware", "other"], "n1": ["firmware", "other"]}


async def test_a_node_that_joins_a_reserved_rack_is_reserved() -> None:
    cluster, dashboard = await began()
    reserve(cluster, 600, 1200)
    node(cluster, "n9")
    await dashboard.renew()
    assert reserved(dashboard) == BOTH | {"n9": ["firmware"]}


async def test_a_reservation_ends_by_its_time_alone() -> None:
    """The controller writes its status then, but the page must not depend on a controller that runs."""
    cluster, dashboard = await began()
    reserve(cluster, -5, 3)
    async with running(dashboard.run()):
        await until(lambda: reserved(dashboard) == BOTH)
        await until(lambda: reserved(dashboard) == {})
    assert dashboard.cluster.due_in(time.time()) is None


async def test_a_reservation_that_begins_charges_its_queue_on_the_page() -> None:
    cluster, dashboard = await began()
    reserve(cluster, 2, 600, queue="cq-idle")

    def used() -> int:
        node = dashboard.cluster.ledger.quota.node("cq-idle")
        return 0 if node is None else node.usage.get(("tas", "cpu"), 0)

    async with running(dashboard.run()):
        await until(lambda: reserved(dashboard) == BOTH)
        assert used() == 0
        await until(lambda: used() == 16_000)
