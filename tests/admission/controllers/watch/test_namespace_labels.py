"""A namespace whose labels change whether it is managed: all of its jobs, pods and sets are looked at again, one a step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from admission.controllers.jobs.context import JobOptions
from admission.controllers.jobs.controller_context import ControllerContext
from admission.controllers.jobs.job_controller import JobController
from admission.controllers.pods.pod_controller import PodController
from admission.controllers.pods.sets.sets import SetController
from admission.controllers.watch import rounds
from admission.integrations.job import BatchJob
from admission.integrations.pods.pod import QueuedPodReader
from api.kube.reconcile import Reconciler
from api.names import MANAGED_LABEL, QUEUE_NAME_LABEL

EACH = 100
"""Objects in each of two namespaces."""


class Held:
    """A view of these objects, of which no change is told."""

    has_synced = True

    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        self.objects = objects or {}

    def add_handler(self, _: Any) -> None:
        """Nothing ever happens."""

    def add_index(self, *_: Any) -> None:
        """Nothing is asked of it."""


def metas() -> dict[str, dict[str, Any]]:
    labels = {QUEUE_NAME_LABEL: "q", MANAGED_LABEL: "true"}
    return {
        f"{ns}/{n}": {"name": str(n), "namespace": ns, "labels": labels, "uid": f"{ns}{n}"}
        for ns in ("other", "ns")
        for n in range(EACH)
    }


def plain() -> dict[str, Any]:
    return {key: {"metadata": meta, "spec": {}} for key, meta in metas().items()}


def queued_pods() -> dict[str, Any]:
    read = QueuedPodReader()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {key: read(json.dumps({"metadata": meta, "spec": spec}).encode()) for key, meta in metas().items()}


Change = Callable[[str], None]


def jobs(context: ControllerContext) -> tuple[Change, dict[str, Any], str]:
    held: Any = Held(plain())
    adapter = BatchJob()
    made = JobController(context, [adapter], {adapter.framework: held})
    return made.namespace_changed, held.objects, f"{adapter.framework}:"


def pods(context: ControllerContext) -> tuple[Change, dict[str, Any], str]:
    held: Any = Held(queued_pods())
    return PodController(context, held).namespace_changed, held.objects, "pod:"


def sets(context: ControllerContext) -> tuple[Change, dict[str, Any], str]:
    held: Any = Held(plain())
    nothing: Any = Held()
    made = SetController(context, {"statefulset": held}, nothing)
    return made.namespace_changed, held.objects, "statefulset:"


@pytest.mark.parametrize("make", [jobs, pods, sets])
async def test_one_object_is_looked_at_in_each_step_and_none_of_the_namespace_is_left_out(
    make: Callable[[ControllerContext], tuple[Change, dict[str, Any], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that is deleted meanwhile is not asked for."""
    monkeypatch.setattr(rounds, "TURN", -1.0)
    added: list[str] = []
    monkeypatch.setattr(Reconciler, "add", lambda _, key: added.append(key))
    nothing = Held()
    views: Any = SimpleNamespace(
        workloads=nothing, flavors=nothing, workload_priorities=nothing, priorities=nothing, pods=nothing
    )
    kube: Any = None
    recorder: Any = None
    changed, objects, prefix = make(ControllerContext(kube, views, recorder, JobOptions()))
    changed("ns")
    assert added == []
    del objects["ns/7"]
    steps = 0
    while len(added) < EACH - 1:
        before = len(added)
        await asyncio.sleep(0)
        assert len(added) <= before + 1
        steps += 1
        assert steps < 10 * EACH, f"{len(added)} of {EACH - 1}"
    assert sorted(added) == sorted(f"{prefix}ns/{n}" for n in range(EACH) if n != 7)
    assert steps > 2 * EACH, "objects of other namespaces are steps too"
