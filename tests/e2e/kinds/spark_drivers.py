"""Stands in for Spark's drivers: each makes the pods of its executors once it runs, and these end with it, as theirs do."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from admission.integrations.registry import BY_FRAMEWORK
from api.errors import AlreadyExists, ApiError, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.resources import PODS
from hack.controlplane.operators.spark_submit import spark_pod
from tests.scenarios.set_controllers import StandIn

Object = dict[str, Any]
APPLICATIONS = BY_FRAMEWORK["sparkoperator.k8s.io/sparkapplication"].resource
_NAME = "sparkoperator.k8s.io/app-name"
RUN_FOR = "stowage.test/run-for"
_PERIOD = 0.5


def _runs(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


class SparkDrivers(StandIn):
    """Looks at every driver that runs, again and again."""

    resource = APPLICATIONS

    def __init__(self, kube: Kube) -> None:
        super().__init__(kube)

    async def run(self) -> None:
        """See StandIn."""
        while True:
            with contextlib.suppress(ApiError):
                drivers = (await self.kube.list(PODS, label_selector="spark-role=driver")).items
                running = [pod for pod in drivers if _runs(pod)]
                for pod in running:
                    await self._executors(pod)
                uids = {pod["metadata"]["uid"] for pod in running}
                for pod in (await self.kube.list(PODS, label_selector="spark-role=executor")).items:
                    if _runs(pod) and not uids & {owner["uid"] for owner in pod["metadata"]["ownerReferences"]}:
                        await self._ends(pod)
            await asyncio.sleep(_PERIOD)

    async def _ends(self, pod: Object) -> None:
        body = {"metadata": {"annotations": {RUN_FOR: "1ms"}}}
        with contextlib.suppress(NotFound):
            await self.kube.patch(
                PODS, pod["metadata"]["name"], body, pod["metadata"]["namespace"], kind=PatchKind.MERGE
            )

    async def _executors(self, driver: Object) -> None:
        labels, meta = driver["metadata"]["labels"], driver["metadata"]
        application = await self.kube.get(APPLICATIONS, labels[_NAME], meta["namespace"])
        part = application["spec"]["executor"]
        shared = {key: labels[key] for key in labels if key.startswith(("sparkoperator.k8s.io/", "spark-app-selector"))}
        owners = [
            {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True},
            {
                "apiVersion": APPLICATIONS.api_version,
                "kind": APPLICATIONS.kind,
                "name": application["metadata"]["name"],
                "uid": application["metadata"]["uid"],
            },
        ]
        for number in range(1, part.get("instances", 2) + 1):
            own = {"spark-role": "executor", "spark-exec-id": str(number), "spark-version": "4.0.0"}
            metadata = {
                "name": f"{meta['name']}-{meta['uid'][:5]}-exec-{number}",
                "namespace": meta["namespace"],
                "labels": {**shared, **own},
                "ownerReferences": owners,
            }
            pod = spark_pod(part, part.get("template") or {}, "spark-kubernetes-executor", metadata)
            with contextlib.suppress(AlreadyExists):
                await self.kube.create(PODS, pod)
