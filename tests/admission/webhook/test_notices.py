"""What is said of an object of a kind that is not managed, and what strangers cannot have said."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admission.integrations.unmanaged import notice
from admission.webhook.endpoints import NOTICE_UNMANAGED
from admission.webhook.notices import Notices, reference
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.review import decode, review
from api.embedded.server import EmbeddedServer
from api.kube.client import Kube
from api.kube.resources import EVENTS, NAMESPACES
from api.kube.settings import ClientSettings
from api.names import QUEUE_NAME_LABEL

Object = dict[str, Any]


def balloon(
    version: str = "unheard.example.com/v1", kind: str = "Balloon", queue: object = "lq", **meta: Any
) -> Object:
    labels = {QUEUE_NAME_LABEL: queue} if queue is not None else {}
    named = {"name": "red", "namespace": "ns", "uid": "u-7", "labels": labels, **meta}
    return {"apiVersion": version, "kind": kind, "metadata": named}


def asked(obj: Object, *, dry_run: bool = False, operation: str = "CREATE", namespace: str = "ns") -> bytes:
    request = {
        "uid": "r",
        "operation": operation,
        "name": "red",
        "namespace": namespace,
        "object": obj,
        "dryRun": dry_run,
        "userInfo": {"username": "ann"},
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


PART = [{"apiVersion": "a.example.com/v1", "kind": "A", "name": "a", "uid": "1", "controller": True}]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        pytest.param(balloon(), True, id="a queue"),
        pytest.param(balloon(queue=None), False, id="no queue"),
        pytest.param(balloon(queue=""), False, id="an empty queue"),
        pytest.param(balloon(ownerReferences=PART), False, id="a part of another"),
        pytest.param(
            balloon(ownerReferences=[{**PART[0], "controller": False}]), True, id="an owner that is no controller"
        ),
        pytest.param(balloon("kubeflow.org/v1", "PyTorchJob"), False, id="a built-in kind"),
        pytest.param(balloon("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), False, id="a kind of sets"),
        pytest.param(balloon("scheduling.x-k8s.io/v1alpha1", "PodGroup"), False, id="a gang"),
        pytest.param(balloon("apps/v1", "ReplicaSet"), False, id="a group of the API server"),
        pytest.param(balloon("networking.k8s.io/v1", "Ingress"), False, id="another group of the API server"),
        pytest.param(balloon("argoproj.io/v1alpha1", "Workflow"), True, id="a kind that is queued by its pods"),
    ],
)
def test_only_a_queue_name_that_nobody_reads_is_answered(obj: Object, message: bool) -> None:
    response = review(NOTICE_UNMANAGED, decode(asked(obj)), Lookups(), ReviewRules())["response"]
    assert response["allowed"]
    warned = response.get("warnings", [])
    assert bool(warned) is message
    if message:
        assert warned == [notice(obj)]
        assert f"{obj['kind']} names the queue lq, and Stowage does not manage this kind" in warned[0]


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(balloon(kind="Bal loon\n"), id="kind"),
        pytest.param(balloon(version="no group"), id="version"),
        pytest.param(balloon(name="../x"), id="name"),
        pytest.param(balloon(queue="see http://evil"), id="queue"),
        pytest.param(balloon(uid="u" * 65), id="uid"),
        pytest.param({**balloon(), "metadata": {**balloon()["metadata"], "uid": None}}, id="no uid"),
    ],
)
def test_a_review_that_no_api_server_sends_makes_no_event(obj: Object) -> None:
    assert reference(decode(asked(obj))) is None


async def test_events_have_a_bounded_rate_and_a_namespace_that_is_there(tmp_path: Path) -> None:
    """Any client that reaches the port can send thousands of reviews."""
    async with (
        EmbeddedServer() as server,
        await Kube.connect(ClientSettings(kubeconfig=server.kubeconfig(tmp_path / "kubeconfig"))) as kube,
    ):
        await kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
        notices = Notices(kube, "test", Lookups(namespace_labels=lambda name: {} if name == "ns" else None))
        notices.report(decode(asked(balloon(), namespace="nowhere")))
        notices.report(decode(asked(balloon(), dry_run=True)))
        assert notices.waiting == 0
        for number in range(1000):
            notices.report(decode(asked(balloon(uid=f"u-{number}"))))
        assert notices.waiting == 100
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(notices.run(), 2.0)
        written = (await kube.list(EVENTS)).items
        assert 20 <= len(written) <= 30, "a burst, and then two a second"
        assert {event["reason"] for event in written} == {"KindNotManaged"}
