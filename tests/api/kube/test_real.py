"""What only the real API server can tell: that it takes our requests, and means what we understood."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio

from api.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound, Unauthorized
from api.kube.client import Kube, PatchKind
from api.kube.events import NORMAL, EventRecorder, ref_to
from api.kube.informers.informer import Informer
from api.kube.resources import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS
from api.kube.settings import ClientSettings, InformerSettings, LeaderSettings
from api.pod.pods import Node
from api.process.leader import LeaderElection
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.api.kube.clock import until

pytestmark = pytest.mark.e2e
CONTROL_PLANE = ClusterOptions(kwok=False, scheduler=False, controller_manager=False)


@pytest_asyncio.fixture
async def kube(cluster: ControlPlane) -> AsyncIterator[Kube]:
    async with await Kube.connect(ClientSettings(kubeconfig=cluster.kubeconfig)) as kube:
        yield kube


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_objects_live_and_die(kube: Kube) -> None:
    assert b"gitVersion" in await kube.get_path("/version")
    dry = await kube.create(CONFIG_MAPS, config_map("a"), dry_run=True)
    assert dry["metadata"]["uid"]
    made = await kube.create(CONFIG_MAPS, config_map("a", x="1"))
    with pytest.raises(AlreadyExists):
        await kube.create(CONFIG_MAPS, config_map("a"))
    bodies: list[tuple[PatchKind, Any]] = [
        (PatchKind.JSON, [{"op": "replace", "path": "/data/x", "value": "2"}]),
        (PatchKind.MERGE, {"data": {"x": "3"}}),
        (PatchKind.STRATEGIC, {"data": {"x": "4"}}),
        (PatchKind.APPLY, config_map("a", x="5")),
    ]
    for number, (kind, body) in enumerate(bodies, 2):
        patched = await kube.patch(CONFIG_MAPS, "a", body, "default", kind=kind, force=kind is PatchKind.APPLY)
        assert patched["data"]["x"] == str(number)
    with pytest.raises(Conflict):
        await kube.replace(CONFIG_MAPS, made)
    with pytest.raises(Conflict):
        await kube.delete(CONFIG_MAPS, "a", "default", uid="another")
    await kube.delete(CONFIG_MAPS, "a", "default", uid=made["metadata"]["uid"], propagation="Background")
    with pytest.raises(NotFound):
        await kube.get(CONFIG_MAPS, "a", "default")
    with pytest.raises(Invalid):
        await kube.create(CONFIG_MAPS, config_map("Not A Name"))


async def test_strangers_are_refused(cluster: ControlPlane, kube: Kube) -> None:
    async with await Kube.connect(ClientSettings(kubeconfig=cluster.user("stranger"))) as stranger:
        with pytest.raises(Forbidden, match="stranger"):
            await stranger.list(PODS)
    kubeconfig = cluster.folder / "no-credentials"
    kubeconfig.write_text(cluster.user("nobody").read_text().replace("client-", "x-client-"))
    async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as nobody:
        with pytest.raises((Unauthorized, Forbidden)):
            await nobody.list(PODS)


@pytest.mark.parametrize("watch_list", [False, True], ids=["pages", "streamed"])
async def test_the_copy_equals_the_server(kube: Kube, watch_list: bool) -> None:
    prefix = "streamed" if watch_list else "paged"
    names = [f"{prefix}-{number}" for number in range(12)]
    for name in names:
        await kube.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"of": prefix}}}
        )
    settings = InformerSettings(page_size=5, watch_list=watch_list)
    informer = Informer(kube, NODES, Node, label_selector=f"of={prefix}", settings=settings)
    changes: list[str] = []
    informer.add_handler(lambda change: changes.append(f"{change.type} {change.key}"))
    task = asyncio.create_task(informer.run())
    await informer.synced(60)
    assert sorted(informer.objects) == sorted(names)
    assert informer._watch_list is watch_list  # it was not refused
    await kube.patch(NODES, names[0], {"metadata": {"labels": {"rack": "r1"}}}, kind=PatchKind.MERGE)
    await kube.delete(NODES, names[1])
    await until(lambda: changes[12:] == [f"MODIFIED {names[0]}", f"DELETED {names[1]}"])
    assert informer.objects[names[0]].metadata.labels["rack"] == "r1"
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert informer.last_error is None


async def test_a_foreign_continue_token_is_refused(kube: Kube) -> None:
    with pytest.raises(BadRequest, match="continue"):
        await kube.list(NODES, limit=1, continue_="nonsense")


async def test_a_lease_is_taken_given_back_and_taken_again(kube: Kube) -> None:
    for number, name in enumerate(("a", "b")):
        spec = await one_term(kube, name)
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (name, number)
        assert not (await kube.get(LEASES, "controller", "default"))["spec"].get("holderIdentity")


async def one_term(kube: Kube, name: str) -> dict[str, Any]:
    """The Lease's spec while `name` leads."""
    election = LeaderElection(kube, LeaderSettings("default", "controller", name))
    task = asyncio.create_task(election.run(asyncio.Event().wait))
    await until(lambda: election.is_leader)
    lease = await kube.get(LEASES, "controller", "default")
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return dict(lease["spec"])


async def test_events_are_accepted_and_counted_up(kube: Kube) -> None:
    recorder = EventRecorder(kube, "stowage")
    ref = ref_to(PODS, {"metadata": {"name": "p", "namespace": "default", "uid": "u-1"}})
    for _ in range(2):
        recorder.record(ref, NORMAL, "Started", "it runs" + "!" * 2000)
        await recorder.flush()
    [event] = (await kube.list(EVENTS, "default", field_selector="involvedObject.uid=u-1")).items
    assert (event["count"], len(event["message"])) == (2, 1024)
