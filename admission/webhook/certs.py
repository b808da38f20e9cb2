"""Keeps the serving certificate: reads, plans (certificate_authority.py), writes, publishes the trust, loads.

Two modes, both with `once` (one pass) and `run` (until cancelled). `OwnCertificates`: made by us, in a Secret that all
replicas share, the CAs in `clientConfig.caBundle` of the two webhook configurations. `MountedCertificates`: made by
cert-manager (which also injects the CA), only watched here.

Replicas race without harm: a pass that loses (409) is simply made again. The configurations are read before the Secret,
and written on condition that they are as they were read: so an old view of the Secret never overwrites a newer bundle.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from admission.webhook.certificate_authority import (
    AuthorityState,
    Lifetimes,
    RotationStep,
    ServingCertificate,
    advance,
    from_secret,
    plan,
    split,
    to_secret,
)
from admission.webhook.server import Serving
from api.errors import ApiError, Conflict, NotFound
from api.kube.backoff import Backoff
from api.kube.client import Kube, PatchKind
from api.kube.clock import SYSTEM, Clock
from api.kube.resources import CRDS, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Resource
from api.names import CONVERT_PATH

log = logging.getLogger(__name__)
Configuration = tuple[Resource, dict[str, Any]]
_RETRY: Final = Backoff(0.2, 10.0)
_CRDS_EVERY: Final = 6
"""Passes after which the CRDs are read again (they are large)."""


class Certificates(Protocol):
    """A mode of keeping the certificate."""

    async def once(self) -> None:
        """One pass; afterwards a certificate is loaded. Raises ApiError or OSError."""


@dataclass(frozen=True, slots=True)
class CertificateLocations:
    """Where things are: the Secret, the two configurations (empty: none), and the names we are called by.

    `crds`: names of the CustomResourceDefinitions whose versions we convert; `service`: ours, by which they call us.
    """

    namespace: str
    secret: str
    names: tuple[str, ...]
    mutating: str = ""
    validating: str = ""
    crds: tuple[str, ...] = ()
    service: str = ""


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The DNS names of a Service; the API server calls it by the first."""
    full = f"{service}.{namespace}.svc"
    return full, f"{full}.cluster.local", f"{service}.{namespace}", service


class OwnCertificates:
    """Made and rotated by us. `wall` gives epoch seconds."""

    def __init__(
        self,
        kube: Kube,
        place: CertificateLocations,
        tls: Serving,
        lifetimes: Lifetimes | None = None,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._place, self._tls, self._wall = kube, place, tls, wall
        self._lifetimes = lifetimes or Lifetimes()
        self._in_crds: bytes | None = None
        self._passes_since = 0

    async def once(self) -> None:
        """See Certificates."""
        configurations = await self._configurations()
        secret = await self._secret()
        state, now = from_secret(secret or {}), self._wall()
        configured = [bundle for _, one in configurations for bundle in _bundles(one)]
        step = plan(state, configured, self._place.names, now, self._lifetimes)
        if step is not RotationStep.KEEP:
            state = advance(state, step, self._place.names, now, self._lifetimes)
            await self._write(secret, state)
            log.info("serving certificate", extra={"step": step.value, "secret": self._place.secret})
        await self._publish(configurations, state)
        await self._publish_to_crds(state)
        if state.serving is not None:
            await self._tls.load(state.serving)

    async def _configurations(self) -> list[Configuration]:
        named = ((MUTATING_WEBHOOKS, self._place.mutating), (VALIDATING_WEBHOOKS, self._place.validating))
        found = [(resource, await self._found(resource, name)) for resource, name in named if name]
        return [(resource, one) for resource, one in found if one is not None]

    async def _secret(self) -> dict[str, Any] | None:
        return await self._found(SECRETS, self._place.secret, self._place.namespace)

    async def _found(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        try:
            return await self._kube.get(resource, name, namespace)
        except NotFound:
            return None

    async def _write(self, secret: dict[str, Any] | None, state: AuthorityState) -> None:
        if secret is None:
            new = {"metadata": {"name": self._place.secret, "namespace": self._place.namespace}}
            await self._kube.create(SECRETS, to_secret(state, new))
        else:
            await self._kube.replace(SECRETS, to_secret(state, secret))

    async def _publish(self, configurations: list[Configuration], state: AuthorityState) -> None:
        for resource, one in configurations:
            if all(split(bundle) == state.trust for bundle in _bundles(one)):
                continue
            body = {
                "metadata": {"resourceVersion": one["metadata"]["resourceVersion"]},
                "webhooks": [_trusting(hook, state.bundle) for hook in one.get("webhooks") or ()],
            }
            await self._kube.patch(resource, one["metadata"]["name"], body, kind=PatchKind.MERGE)

    async def _publish_to_crds(self, state: AuthorityState) -> None:
        """The CAs into the CRDs that call us: when they change, and now and then, since the CRDs may be applied again.

        A CRD that is missing, or that we may not write, does not keep the webhooks from their certificate.
        """
        self._passes_since += 1
        if state.bundle == self._in_crds and self._passes_since < _CRDS_EVERY:
            return
        for name in self._place.crds:
            try:
                await self._publish_to_crd(name, state)
            except ApiError as failure:
                log.warning("CA not written into the CRD", extra={"crd": name, "error": str(failure)})
                return
        self._in_crds, self._passes_since = state.bundle, 0

    async def _publish_to_crd(self, name: str, state: AuthorityState) -> None:
        crd = await self._found(CRDS, name) or {}
        client = ((crd.get("spec", {}).get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
        if not self._calls_us(client) or split(_decoded(client.get("caBundle"))) == state.trust:
            return
        bundle = base64.b64encode(state.bundle).decode()
        body = {
            "metadata": {"resourceVersion": crd["metadata"]["resourceVersion"]},
            "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}},
        }
        await self._kube.patch(CRDS, name, body, kind=PatchKind.MERGE)

    def _calls_us(self, client: dict[str, Any]) -> bool:
        """Whether a conversion webhook is ours and not, say, that of a Kueue which owns the CRDs."""
        service = client.get("service") or {}
        ours = (self._place.service, self._place.namespace, CONVERT_PATH)
        by_service = (service.get("name"), service.get("namespace"), service.get("path")) == ours
        return by_service or urlsplit(client.get("url") or "").path == CONVERT_PATH


def _decoded(text: str | None) -> bytes:
    """The CA bundle, empty where there is none or it cannot be read."""
    try:
        return base64.b64decode(text or "")
    except ValueError:
        return b""


def _bundles(configuration: dict[str, Any]) -> Iterator[bytes]:
    """The CA bundle of each webhook, empty where there is none or it cannot be read."""
    for hook in configuration.get("webhooks") or ():
        yield _decoded((hook.get("clientConfig") or {}).get("caBundle"))


def _trusting(hook: dict[str, Any], bundle: bytes) -> dict[str, Any]:
    trust = {"caBundle": base64.b64encode(bundle).decode()}
    return {**hook, "clientConfig": {**(hook.get("clientConfig") or {}), **trust}}


class MountedCertificates:
    """Made by another program, in `tls.crt` and `tls.key` of a folder."""

    def __init__(self, folder: Path, tls: Serving) -> None:
        self._folder, self._tls = folder, tls

    async def once(self) -> None:
        """See Certificates. A pair that is half replaced does not load; the next pass sees the other half."""
        await self._tls.load(await asyncio.to_thread(self._read))

    def _read(self) -> ServingCertificate:
        return ServingCertificate((self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes())


async def keep(
    certificates: Certificates,
    *,
    interval: float = 10.0,
    loaded: Callable[[], None] = lambda: None,
    clock: Clock = SYSTEM,
) -> None:
    """Passes until cancelled, every `interval` seconds or sooner after a failure; `loaded` is called after each good one."""
    failures = 0
    while True:
        failures = 0 if await _passes(certificates.once) else failures + 1
        if not failures:
            loaded()
        await clock.sleep(_RETRY.delay(failures) if failures else interval)


async def _passes(once: Callable[[], Awaitable[None]]) -> bool:
    try:
        await once()
    except Conflict:
        log.debug("another replica was first")
    except (ApiError, OSError) as failure:  # ssl.SSLError is an OSError: a certificate that does not fit its key
        log.warning("serving certificate", extra={"error": str(failure)})
    else:
        return True
    return False
