"""Places that others leave for a waiting workload are held, and named to those who may see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from admission.controllers.state import moving
from admission.dashboard.cluster import of_objects
from admission.dashboard.dashboard import Dashboard, Facts
from admission.dashboard.stream import Batch
from admission.dashboard.tree import HostRow
from admission.dashboard.viewer import Permissions
from admission.engine.decision import PreemptionReason
from admission.engine.model import Workload as EngineWorkload
from admission.engine.preemption.wording import eviction_message
from api.kube.resources import PODS, WORKLOADS
from tests.admission.dashboard.small_cluster import SmallCluster, owner, served
from tests.builders import condition, pod, workload

TENANT = Permissions(namespaces=frozenset(("team",)), pods=frozenset(("team",)))
CPU = "cpu"


async def began() -> tuple[SmallCluster, Dashboard]:
    cluster = SmallCluster()
    dashboard = Dashboard(of_objects(cluster.objects, cluster.world.state), Facts("0", "made-up"))
    await dashboard.renew()
    return cluster, dashboard


def told(cluster: SmallCluster, key: str, *more: dict[str, Any], admitted: bool = True) -> None:
    """Writes a Workload's status with further conditions, or without its admission."""
    wire = cluster.objects.view.workloads.objects[key].to_wire()
    kinds = {one["type"] for one in more}
    wire["status"]["conditions"] = [one for one in wire["status"]["conditions"] if one["type"] not in kinds] + [*more]
    if not admitted:
        wire["status"].pop("admission", None)
    cluster.add(WORKLOADS, wire)


def preempted(cluster: SmallCluster, key: str, by: str, **more: bool) -> None:
    """Evicts a Workload for another one, with the words of the controller."""
    preemptor = cluster.world.state.queues.workload(by)
    assert isinstance(preemptor, EngineWorkload)
    quota = cluster.world.state.ledger.quota
    message = eviction_message(quota, preemptor, "cq", PreemptionReason.IN_CLUSTER_QUEUE)
    both = [condition(kind, "True", "InClusterQueue", message) for kind in ("Evicted", "Preempted")]
    told(cluster, key, *both, **more)


def moves(cluster: SmallCluster, key: str, waiting: str, host: str) -> None:
    """Gives a Workload of one host's pods another host, as a move does: the pods are at the old place still."""
    namespace, name = key.split("/")
    found = workload(name, queue="lq", count=4, domains=[((host,), 4)]).to_wire()
    status = moving.begun(
        cluster.objects.view.workloads.objects[key].status,
        f"Moved to another place so that {waiting} gets its domain; the quota stays reserved",
        1.0,
    )
    found["status"]["conditions"] = status.to_wire()["conditions"]
    found["metadata"] |= {"namespace": namespace, "ownerReferences": [owner(name)]}
    cluster.add(WORKLOADS, found)


def row(dashboard: Dashboard, host: str) -> HostRow:
    tree = dashboard.trees.by_flavor["tas"]
    return tree.rows[tree.names.index(host)]


def cpus(dashboard: Dashboard, host: str) -> tuple[int, int, int]:
    """Thousandths of cpus on the host that are used, foreign and held."""
    at, found = dashboard.trees.by_flavor["tas"].resources.index(CPU), row(dashboard, host)
    return found.used[at], found.foreign[at], found.held[at]


async def streamed(dashboard: Dashboard, change: Callable[[], None], permissions: Permissions) -> dict[str, Any]:
    """The events that the change sends, the last one of each kind."""
    with dashboard.clients.joined("you") as queue:
        change()
        await dashboard.renew()
        batch = queue.get_nowait()
    assert isinstance(batch, Batch)
    lines = batch.encoded(permissions).decode().splitlines()
    names, datas = (
        [line.partition(": ")[2] for line in lines if line.startswith(start)] for start in ("event", "data")
    )
    return {name: json.loads(data) for name, data in zip(names, datas, strict=True)}


async def test_a_victims_hosts_are_held_for_the_preemptor_until_its_pods_have_ended() -> None:
    cluster, dashboard = await began()
    assert cpus(dashboard, "n0") == (4000, 0, 0)
    preempted(cluster, "team/train", "hidden-ns/hidden-next")
    await dashboard.renew()
    assert cpus(dashboard, "n0") == (0, 0, 4000)
    assert row(dashboard, "n0").held_for == (("hidden-ns/hidden-next", "cq"),)
    assert [(key, pods, amounts[0]) for key, _, pods, amounts in row(dashboard, "n0").runs] == [("team/train", 4, 0)]
    assert row(dashboard, "n1").held_for == ()
    assert dashboard.trees.leaving.hosts_for("hidden-ns/hidden-next") == 1

    # its quota is released before its last pod has ended
    preempted(cluster, "team/train", "hidden-ns/hidden-next", admitted=False)
    told(cluster, "team/train", condition("QuotaReserved", "False", "Pending", ""), admitted=False)
    await dashboard.renew()
    assert cpus(dashboard, "n0") == (0, 0, 4000)
    for number in range(4):
        ended = msgspec.to_builtins(pod(f"train-{number}", owner="train", gated=False, phase="Succeeded"))
        ended["metadata"]["namespace"] = "team"
        ended["spec"]["nodeName"] = "n0"
        cluster.add(PODS, ended)
    await dashboard.renew()
    assert cpus(dashboard, "n0") == (0, 0, 0)
    assert row(dashboard, "n0").held_for == ()
    assert dashboard.trees.leaving.hosts_for("hidden-ns/hidden-next") == 0


async def test_a_movers_old_host_is_held_for_the_gang_that_gets_it() -> None:
    cluster, dashboard = await began()
    moves(cluster, "team/train", "hidden-ns/hidden-next", "n3")
    await dashboard.renew()
    assert cpus(dashboard, "n0") == (0, 0, 4000)
    assert row(dashboard, "n0").held_for == (("hidden-ns/hidden-next", "cq"),)
    assert cpus(dashboard, "n3") == (4000, 0, 0), "its new host is used"
    assert row(dashboard, "n3").held_for == ()


async def test_the_hold_ends_with_the_wait() -> None:
    cluster, dashboard = await began()
    preempted(cluster, "team/train", "hidden-ns/hidden-next")
    await dashboard.renew()
    told(cluster, "hidden-ns/hidden-next", condition("Finished", "True", "JobFinished", "deleted"))
    await dashboard.renew()
    assert row(dashboard, "n0").held_for == ()
    assert cpus(dashboard, "n0") == (4000, 0, 0)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Preempted to accommodate a workload (UID: , JobUID: x)",
        "Preempted to accommodate a workload (UID: uid-of-nobody, JobUID: x)",
        "Preempted to accommodate a workload (UID: uid-workloads-train, JobUID: x)",
        "Moved to another place so that hidden-ns/hidden-next gets its domain; the quota stays reserved",
    ],
)
async def test_other_messages_hold_nothing(message: str) -> None:
    """A status can be written by more than the controller."""
    cluster, dashboard = await began()
    told(cluster, "team/train", *(condition(kind, "True", "x", message) for kind in ("Evicted", "Preempted")))
    await dashboard.renew()
    assert row(dashboard, "n0").held_for == ()
    assert cpus(dashboard, "n0") == (4000, 0, 0)


async def test_the_stream_tells_rows_and_the_waiting_workload() -> None:
    cluster, dashboard = await began()
    events = await streamed(dashboard, lambda: preempted(cluster, "team/train", "hidden-ns/hidden-next"), Permissions())
    (host,) = events["topology"]["hosts"]
    assert host["heldFor"] == [["hidden-ns/hidden-next", "cq"]]
    rows = {one["name"]: one["heldHosts"] for one in events["workloads"]["changed"]}
    assert rows == {"train": 0, "hidden-next": 1}


async def test_who_may_not_see_the_namespace_sees_that_a_host_is_held_and_not_for_whom() -> None:
    cluster, dashboard = await began()
    events = await streamed(dashboard, lambda: preempted(cluster, "team/train", "hidden-ns/hidden-next"), TENANT)
    (host,) = events["topology"]["hosts"]
    assert host["heldFor"] == [["", "cq"]]
    assert "hidden" not in json.dumps(events["topology"])
    assert [one["name"] for one in events["workloads"]["changed"]] == ["train"]

    async with served() as found:
        preempted(found.cluster, "team/train", "hidden-ns/hidden-next")
        await found.dashboard.renew()
        for token, name in (("admin", "hidden-ns/hidden-next"), ("tenant", "")):
            tree = await found.get("topology/tas", token)
            at = tree["hosts"]["name"].index("n0")
            (waiting,) = tree["hosts"]["heldFor"][str(at)]
            assert tree["workloads"][waiting] == [name, "cq"]
            (host,) = (await found.get("hosts/n0", token))["items"]
            assert host["heldFor"] == [{"workload": name, "clusterQueue": "cq"}]
        assert (await found.get("workloads/hidden-ns/hidden-next", "admin"))["heldHosts"] == 1
        flavor = (await found.get("occupancy", "admin"))["flavors"][0]
        assert {one["resource"]: one["held"] for one in flavor["resources"]}[CPU] == 4000
