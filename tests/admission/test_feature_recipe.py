"""The recipe "Add a feature of the cycle" of CONTRIBUTING.md: its example is added to the running controller and does what it
says, with no other file changed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from admission.app import run_controller
from admission.engine import features
from admission.engine.cycle.feature import Feature
from admission.engine.model import Flavor
from admission.settings import AdmissionSettings
from admission.world.snapshot import capture_world, decode, from_snapshot
from admission.world.world import World
from api.kube.client import Kube, PatchKind
from api.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import ADMITTED, API_VERSION, QUEUE_NAME_LABEL, QUOTA_RESERVED
from api.process.process import Process
from api.workloads import Workload
from tests.admission.controllers.installed_server import installed
from tests.admission.engine.builders import admitted, workload
from tests.admission.engine.builders import queue as engine_queue
from tests.admission.engine.builders import waits as waits_in
from tests.builders import pod_template
from tests.tasks import eventually, running

NOTE = "stowage.dev/note"
RECIPE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


def example() -> type[Feature]:
    """The class of the recipe's feature."""
    code = re.search(r"## Add a feature of the cycle.*?```python\n(.*?)```", RECIPE, re.DOTALL)
    assert code is not None
    module = ModuleType("example")
    exec(compile(code[1], "CONTRIBUTING.md", "exec"), vars(module))
    feature = module.Notes
    assert isinstance(feature, type)
    assert issubclass(feature, Feature)
    return feature


def test_a_snapshot_with_a_reason_of_the_feature_is_read_without_the_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    noted = replace(workload("noted"), annotations=((NOTE, "later"),))
    for event in (Flavor("any"), engine_queue(any=1), noted):
        world.apply(event)
    monkeypatch.setattr(features, "FEATURES", [*features.FEATURES, example()])
    assert waits_in(world.cycle()) == {"noted": "Noted: it has the note: later"}
    snapshot = capture_world(world).encode()
    monkeypatch.undo()
    copy = from_snapshot(decode(snapshot))
    copy.state.requeue_all()
    assert admitted(copy.cycle()) == ["noted"]


async def queue(kube: Kube) -> None:
    """A queue with quota for two jobs of one CPU."""
    quotas = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": 2}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
    for resource, spec in (
        (RESOURCE_FLAVORS, {}),
        (CLUSTER_QUEUES, {"namespaceSelector": {}, "resourceGroups": groups}),
        (LOCAL_QUEUES, {"clusterQueue": "any"}),
    ):
        metadata = {"name": "any", "namespace": "ns"} if resource is LOCAL_QUEUES else {"name": "any"}
        body = {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": metadata, "spec": spec}
        await kube.create(resource, body)


async def submit(kube: Kube, name: str, annotations: dict[str, str]) -> None:
    metadata = {"name": name, "namespace": "ns", "labels": {QUEUE_NAME_LABEL: "any"}, "annotations": annotations}
    spec = {"suspend": True, "template": pod_template()}
    await kube.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


async def waits(kube: Kube, job: str) -> str:
    """Why the job's Workload waits, as `reason: message`, or `admitted`; as soon as a cycle has decided on it."""

    async def decided() -> str | None:
        for each in (await kube.list(WORKLOADS, "ns", decode=Workload)).items:
            if each.owner is not None and each.owner.name == job:
                if is_true(each.status.conditions, ADMITTED):
                    return "admitted"
                why = find_condition(each.status.conditions, QUOTA_RESERVED)
                if why is not None and why.reason != "PendingEvaluation":
                    return f"{why.reason}: {why.message}"
        return None

    return str(await eventually(decided))


async def test_a_job_with_the_note_waits_with_its_reason_until_the_note_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(features, "FEATURES", [*features.FEATURES, example()])
    async with installed(tmp_path) as kube:
        settings = AdmissionSettings(kubeconfig=tmp_path / "kubeconfig", lease={"enabled": False})
        async with running(run_controller(Process(settings.process_settings("controller")), settings)):
            await queue(kube)
            await submit(kube, "noted", {NOTE: "after the maintenance"})
            assert await waits(kube, "noted") == "Noted: it has the note: after the maintenance"
            await submit(kube, "plain", {})  # of the same shape, and behind it
            assert await waits(kube, "plain") == "admitted"
            without = {"metadata": {"annotations": {NOTE: None}}}
            await kube.patch(JOBS, "noted", without, "ns", kind=PatchKind.MERGE)

            async def starts() -> bool:
                return await waits(kube, "noted") == "admitted"

            await eventually(starts)


async def test_without_the_feature_the_note_says_nothing(tmp_path: Path) -> None:
    async with installed(tmp_path) as kube:
        settings = AdmissionSettings(kubeconfig=tmp_path / "kubeconfig", lease={"enabled": False})
        async with running(run_controller(Process(settings.process_settings("controller")), settings)):
            await queue(kube)
            await submit(kube, "noted", {NOTE: "after the maintenance"})
            assert await waits(kube, "noted") == "admitted"
