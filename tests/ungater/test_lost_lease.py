"""The ungater when patches fail: its Lease is lost in the middle of a pass, or the API server refuses one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from api.errors import Invalid, NotLeader
from api.kube.informers.store import Store
from api.pod.pods import Node, Pod
from api.workloads import Workload
from tests.builders import pod, workload
from ungater.gate_controller import Ungater
from ungater.named import Named
from ungater.settings import UngaterSection

PODS = ("p-0", "p-1", "p-2")


class FencedKube:
    """A client whose fence is closed until `leads`."""

    def __init__(self) -> None:
        self.leads, self.asked, self.opened = False, 0, list[str]()

    async def patch(self, _: Any, name: str, *args: Any, **more: Any) -> Pod:
        """As the fence does it: the refusal comes before anything is sent."""
        self.asked += 1
        await asyncio.sleep(0)
        if not self.leads:
            raise NotLeader("last proved 6 s ago")
        self.opened.append(name)
        return pod(name, gated=False)


async def until(check: Any) -> None:
    async with asyncio.timeout(10):
        while not check():  # noqa: ASYNC110 - the log tells nobody
            await asyncio.sleep(0.001)


def started(kube: Any) -> asyncio.Task[None]:
    """Returns the task of an ungater that has an admitted workload of three gated pods."""
    pods, workloads, nodes = Store[Pod]("pods"), Store[Workload]("workloads"), Store[Node]("nodes")
    views: dict[str, Any] = {"workloads": workloads, "pods": pods, "nodes": nodes, "claims": Store[Named]("claims")}
    ungater = Ungater(kube, **views, settings=UngaterSection())
    for name in PODS:
        pods.upsert(pod(name))
    workloads.upsert(workload(count=3, domains=[(("n1",), 3)]))
    return asyncio.create_task(ungater.run())


async def test_a_pass_that_the_fence_cuts_off_is_no_error_and_is_done_later(caplog: pytest.LogCaptureFixture) -> None:
    kube = FencedKube()
    task = started(kube)
    await until(lambda: kube.asked >= 3 and "reconcile failed" in caplog.text)
    kube.leads = True
    await until(lambda: sorted(kube.opened) == list(PODS))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


class RefusingKube:
    """A client whose first patch the API server refuses."""

    def __init__(self) -> None:
        self.refused, self.opened = list[str](), list[str]()

    async def patch(self, _: Any, name: str, *args: Any, **more: Any) -> Pod:
        await asyncio.sleep(0)
        if not self.refused:
            self.refused.append(name)
            raise Invalid(422, "Invalid", "not now")
        self.opened.append(name)
        return pod(name, gated=False)


async def test_a_pod_whose_patch_is_refused_and_that_stays_gated_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ungater.gate_controller._REFUSED", 0.01)
    kube = RefusingKube()
    task = started(kube)
    await until(lambda: sorted(set(kube.opened)) == list(PODS))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(kube.refused) == 1
