"""A feature that is left out of the controller costs nothing and breaks nothing: who does not use it is admitted alike."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from admission import assembly
from admission.app import run_controller
from admission.controllers.elastic_quota.feature import ElasticQuotas
from admission.controllers.forecasts.feature import Forecasts
from admission.controllers.moves.feature import Moves
from admission.controllers.nodes.spare_hosts.feature import SpareHosts
from admission.controllers.queues.advance_reservations.feature import AdvanceReservations
from admission.controllers.sakkara.feature import Sakkara
from admission.controllers.watch import cluster_view
from admission.controllers.watch.advance_reservations.view import AdvanceReservationView
from admission.controllers.watch.devices.view import DeviceView
from admission.controllers.watch.feature import ControllerFeature
from admission.controllers.watch.sakkara_trees import Trees
from admission.controllers.watch.view_feature import ViewFeature
from admission.controllers.watch.volumes.view import VolumeView
from admission.engine import features
from admission.engine.cycle.feature import Feature
from admission.settings import AdmissionSettings
from api.advance_reservations import AdvanceReservation
from api.elastic_quotas import cluster_queue_name
from api.kube.client import Kube
from api.kube.resources import (
    ADVANCE_RESERVATIONS,
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    EVENTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from api.meta import find_condition
from api.names import (
    ADMITTED,
    API_VERSION,
    DEFRAGMENT_NOW,
    DEFRAGMENTED,
    EXPECTED_START,
    EXPLANATION,
    SAKKARA_GROUP,
    SPARE_HOSTS,
)
from api.process.process import Process
from api.workloads import Workload
from tests.admission.controllers.installed_server import installed, small_workload
from tests.tasks import eventually, running

ALL_ON = {"forecasts": True, "forecast_period": 0.2, "explain_after": 0.0}


def left_out(monkeypatch: pytest.MonkeyPatch, feature: type[ControllerFeature]) -> None:
    assert feature in assembly.FEATURES
    monkeypatch.setattr(assembly, "FEATURES", [each for each in assembly.FEATURES if each is not feature])


@contextlib.asynccontextmanager
async def controller(folder: Path) -> AsyncIterator[Kube]:
    """A controller with all features turned on, and a queue for one pod of one CPU."""
    async with installed(folder) as kube:
        lease, file = {"enabled": False}, folder / "kubeconfig"
        settings = AdmissionSettings(kubeconfig=file, lease=lease, controller=ALL_ON)
        async with running(run_controller(Process(settings.process_settings("controller")), settings)):
            await create(kube, "ResourceFlavor", {})
            quotas = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": 1}]}]
            groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
            await create(kube, "ClusterQueue", {"namespaceSelector": {}, "resourceGroups": groups})
            await create(kube, "LocalQueue", {"clusterQueue": "any"}, name="lq", namespace="ns")
            yield kube


async def create(kube: Kube, kind: str, spec: dict[str, Any], name: str = "any", namespace: str | None = None) -> None:
    resources = {each.kind: each for each in (RESOURCE_FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES)}
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    await kube.create(resources[kind], {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})


async def told(kube: Kube, name: str, condition: str) -> str:
    """The message of a true condition of a Workload, from the moment on when it is there."""

    async def message() -> str | None:
        workload = await kube.get(WORKLOADS, name, "ns", decode=Workload)
        stated = find_condition(workload.status.conditions, condition)
        return stated.message if stated is not None and stated.status == "True" else None

    return str(await eventually(message))


async def one_starts_and_one_waits(kube: Kube) -> None:
    for name in ("first", "second"):
        workload = small_workload(name)
        await kube.create(WORKLOADS, {**workload, "spec": {**workload["spec"], "maximumExecutionTimeSeconds": 60}})
        await told(kube, name, ADMITTED if name == "first" else EXPLANATION)


def tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


async def forecast(kube: Kube) -> None:
    assert (await told(kube, "second", EXPECTED_START)).startswith("expected to start ")


async def faulty_group(kube: Kube) -> None:
    """A ConfigMap that describes no group gets an event."""
    metadata = {"name": "group", "namespace": "ns", "labels": {SAKKARA_GROUP: ""}}
    await kube.create(CONFIG_MAPS, {"metadata": metadata, "data": {"size": "many"}})
    await reported(kube, "InvalidGroup")


async def faulty_rule(kube: Kube) -> None:
    """A flavor with a rule that cannot be read gets an event."""
    metadata = {"name": "spared", "annotations": {SPARE_HOSTS: "many"}}
    flavor = {"apiVersion": API_VERSION, "kind": "ResourceFlavor", "metadata": metadata, "spec": {}}
    await kube.create(RESOURCE_FLAVORS, flavor)
    await reported(kube, "InvalidSpareHosts")


async def reported(kube: Kube, reason: str) -> None:
    async def recorded() -> bool:
        return any(each["reason"] == reason for each in (await kube.list(EVENTS)).items)

    await eventually(recorded)


async def elastic_quota(kube: Kube) -> None:
    """An elastic quota gets its queue."""
    body = {"metadata": {"name": "quota", "namespace": "ns"}, "spec": {"min": {"cpu": "1"}, "max": {"cpu": "2"}}}
    await kube.create(ELASTIC_QUOTAS, {"apiVersion": ELASTIC_QUOTAS.api_version, "kind": "ElasticQuota", **body})
    await eventually(lambda: kube.get(CLUSTER_QUEUES, cluster_queue_name("ns")))


async def advance_reservation(kube: Kube) -> None:
    """An AdvanceReservation is told what it holds."""
    spec = {"nodeLabels": {"rack": "r0"}, "start": "2001-01-01T00:00:00Z", "end": "2101-01-01T00:00:00Z"}
    body = {"metadata": {"name": "rack"}, "spec": spec}
    kind = {"apiVersion": ADVANCE_RESERVATIONS.api_version, "kind": "AdvanceReservation"}
    await kube.create(ADVANCE_RESERVATIONS, {**kind, **body})

    async def reported() -> bool:
        stored = await kube.get(ADVANCE_RESERVATIONS, "rack", decode=AdvanceReservation)
        return any(each.message.startswith("no node has the label(s)") for each in stored.status.conditions)

    await eventually(reported)


async def request_of_moves(kube: Kube) -> None:
    """A request to free a domain of a Topology is answered."""
    metadata = {"name": "tree", "annotations": {DEFRAGMENT_NOW: "4f2a domain rack"}}
    body = {
        "apiVersion": API_VERSION,
        "kind": "Topology",
        "metadata": metadata,
        "spec": {"levels": [{"nodeLabel": "r"}]},
    }
    await kube.create(TOPOLOGIES, body)

    async def answered() -> bool:
        annotations = (await kube.get(TOPOLOGIES, "tree"))["metadata"]["annotations"]
        return str(annotations.get(DEFRAGMENTED, "")).startswith("4f2a Refused: ")

    await eventually(answered)


@pytest.mark.parametrize(
    ("feature", "effect", "own"),
    [
        (Forecasts, forecast, {"run times", "forecasts", "guesses"}),
        (Sakkara, faulty_group, {"Sakkara's ConfigMaps", "results of groups"}),
        (ElasticQuotas, elastic_quota, {"elastic quotas"}),
        (Moves, request_of_moves, {"moves"}),
        (SpareHosts, faulty_rule, {"spare hosts"}),
        (AdvanceReservations, advance_reservation, {"advance reservations"}),
    ],
)
async def test_a_feature_is_one_line(
    feature: type[ControllerFeature],
    effect: Callable[[Kube], Awaitable[None]],
    own: set[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """With it, it acts; without it, no task is left of it, and who does not use it is admitted alike."""
    (with_it := tmp_path / "with").mkdir()
    (without_it := tmp_path / "without").mkdir()
    async with controller(with_it) as kube:
        await one_starts_and_one_waits(kube)
        await effect(kube)
        assert own <= tasks()
    left_out(monkeypatch, feature)
    async with controller(without_it) as kube:
        await one_starts_and_one_waits(kube)
        assert not own & tasks()


@pytest.mark.parametrize(
    ("feature", "plural"),
    [
        (Trees, "configmaps"),
        (VolumeView, "persistentvolumeclaims"),
        (DeviceView, "resourceslices"),
        (AdvanceReservationView, "advancereservations"),
    ],
)
async def test_the_controller_runs_without_a_feature_of_its_view(
    feature: type[ViewFeature], plural: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No informer of its kinds is left; that of configmaps which is left is that of groups."""
    monkeypatch.setattr(cluster_view, "FEATURES", [each for each in cluster_view.FEATURES if each is not feature])
    async with controller(tmp_path) as kube:
        await one_starts_and_one_waits(kube)
        informers = [task.get_name() for task in asyncio.all_tasks() if task.get_name() == f"informer {plural}"]
        assert len(informers) == (1 if feature is Trees else 0)


@pytest.mark.parametrize("feature", features.FEATURES)
async def test_the_controller_admits_without_a_feature_of_the_cycle(
    feature: type[Feature], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who does not use it is admitted, and waits with an explanation, as with it."""
    monkeypatch.setattr(features, "FEATURES", [each for each in features.FEATURES if each is not feature])
    async with controller(tmp_path) as kube:
        await one_starts_and_one_waits(kube)


def test_each_feature_is_left_out_by_a_test() -> None:
    assert [Forecasts, Sakkara, ElasticQuotas, Moves, SpareHosts, AdvanceReservations] == assembly.FEATURES
