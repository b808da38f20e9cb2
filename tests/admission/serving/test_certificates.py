"""Rotation at an API server: two replicas, one Secret, two configurations; and at no moment a client that fails."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from admission.serving.certificate_authority import Lifetimes, from_secret, issue, split
from admission.serving.certificates import CertificateLocations, OwnCertificates, service_names
from admission.serving.tls import Serving
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.handlers import Handlers
from admission.webhook.server.server import serving
from api.embedded.server import EmbeddedServer
from api.errors import Conflict
from api.kube.client import Kube
from api.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS, Resource
from api.kube.settings import ClientSettings
from tests.admission.webhook.server.test_server import HOST, asked
from tests.budgets import quick

LIFE = Lifetimes(certificate=3600.0, renew_before=600.0, settle=30.0)
PLACE = CertificateLocations(
    "stowage-system", "cert", (HOST, *service_names("hook", "stowage-system")), "mutating", "validating"
)


@dataclass
class Wall:
    """Epoch seconds, moved by hand."""

    now: float

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[Kube]:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedServer())
        settings = ClientSettings(kubeconfig=server.kubeconfig(tmp_path / "config"))
        client = await stack.enter_async_context(await Kube.connect(settings))
        await client.create(NAMESPACES, {"metadata": {"name": "stowage-system"}})
        await client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS, "mutating", "mjob", "mjobset"))
        await client.create(VALIDATING_WEBHOOKS, configuration(VALIDATING_WEBHOOKS, "validating", "vjob"))
        yield client


def configuration(resource: Resource, name: str, *hooks: str) -> dict[str, Any]:
    service = {"name": "hook", "namespace": "stowage-system", "path": "/x"}
    common = {"admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"service": service}}
    webhooks = [{"name": f"{hook}.stowage.dev", **common} for hook in hooks]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "webhooks": webhooks}


async def published(kube: Kube) -> list[bytes]:
    """The bundles that the API server trusts, one per webhook."""
    found = [await kube.get(MUTATING_WEBHOOKS, "mutating"), await kube.get(VALIDATING_WEBHOOKS, "validating")]
    hooks = [hook for one in found for hook in one["webhooks"]]
    assert all(hook["clientConfig"]["service"]["name"] == "hook" for hook in hooks)
    return [base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks]


async def test_the_empty_secret_of_the_manifests_is_filled(kube: Kube) -> None:
    await kube.create(SECRETS, {"metadata": {"name": "cert", "namespace": "stowage-system"}, "type": "Opaque"})
    await OwnCertificates(kube, PLACE, Serving(), LIFE).once()
    secret = await kube.get(SECRETS, "cert", "stowage-system")
    assert secret["type"] == "Opaque"
    assert set(await published(kube)) == {from_secret(secret).bundle}


async def test_without_configurations_a_certificate_is_there_all_the_same(kube: Kube) -> None:
    tls = Serving()
    place = CertificateLocations("stowage-system", "cert", (HOST,), "absent", "")
    await OwnCertificates(kube, place, tls, LIFE).once()
    assert tls.pair is not None


async def test_a_removed_bundle_is_restored(kube: Kube) -> None:
    keeper = OwnCertificates(kube, PLACE, Serving(), LIFE)
    await keeper.once()
    before = await published(kube)
    await kube.replace(MUTATING_WEBHOOKS, {**await kube.get(MUTATING_WEBHOOKS, "mutating"), "webhooks": []})
    one = await kube.get(MUTATING_WEBHOOKS, "mutating")
    await kube.replace(MUTATING_WEBHOOKS, {**one, **configuration(MUTATING_WEBHOOKS, "mutating", "a", "b"),
                                           "metadata": one["metadata"]})  # fmt: skip
    await keeper.once()
    assert await published(kube) == before


async def settled(*keepers: OwnCertificates) -> None:
    """All replicas at once, again and again until none loses a race."""
    async with asyncio.timeout(60):
        while True:
            outcomes = await asyncio.gather(*(keeper.once() for keeper in keepers), return_exceptions=True)
            lost = [outcome for outcome in outcomes if outcome is not None]
            assert all(isinstance(outcome, Conflict) for outcome in lost), lost
            if not lost:
                return


async def test_rotation_with_two_replicas_never_fails_a_client(kube: Kube) -> None:
    real = time.time()
    wall = Wall(real - 3100.0)  # so that both certificates are good now, which is what the handshakes look at
    tls = [Serving(), Serving()]
    keepers = [OwnCertificates(kube, PLACE, one, LIFE, wall=wall) for one in tls]
    await settled(*keepers)
    handlers = Handlers(Lookups(), ReviewRules())
    async with contextlib.AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(serving(handlers, one, HOST, 0)) for one in tls]

        async def everybody_connects(bundles: list[bytes]) -> None:
            for port in ports:
                for bundle in set(bundles):
                    assert (await asked(port, bundle))[0] == 200

        seen: list[int] = []
        pairs = {one.pair for one in tls}
        before = await published(kube)
        for moment in (-3100.0, -101.0, 0.0, 31.0, 31.0, 62.0, 62.0, 100.0):
            wall.now = real + moment
            await settled(*keepers)
            now = await published(kube)
            assert len(set(now)) == 1
            # an API server that still has the bundle of the step before gets through as well
            await everybody_connects(before)
            await everybody_connects(now)
            before = now
            seen.append(len(split(now[0])))
            pairs |= {one.pair for one in tls}
            assert len({one.pair for one in tls}) == 1
        assert seen[:2] == [1, 1]
        assert max(seen) == 2
        assert seen[-1] == 1
        assert len(pairs) == 2


async def test_a_load_that_is_cancelled_leaves_no_key_behind(
    kube: Kube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ssl module reads keys from files alone, and a process may end at any moment."""
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    await OwnCertificates(kube, PLACE, Serving(), LIFE).once()
    for turns in range(quick(40)):
        task = asyncio.create_task(OwnCertificates(kube, PLACE, Serving(), LIFE).once())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not list(folder.iterdir()), f"cancelled after {turns} turns of the loop"


def test_what_is_left_of_the_certificate_is_shown() -> None:
    """StowageCertificateEnds goes by it; of a process without a certificate there is no series."""
    for age, left in ((0.0, 1.0), (1800.0, 0.5), (7200.0, -1.0)):
        pair, _ = issue((HOST,), time.time() - age, 3600.0)
        Serving().load(pair)
        shown = REGISTRY.get_sample_value("stowage_certificate_remaining_ratio", {"certificate": "serving"})
        assert shown == pytest.approx(left, abs=0.1)
