"""Keeps the serving certificate loaded and its CA published.

`OwnCertificates` plans rotations with certificate_authority.py, shares the certificate with other replicas in a Secret, and
writes the CAs to `clientConfig.caBundle` of the two webhook configurations, or to the APIServices of an aggregated API.
`MountedCertificates` reloads files that cert-manager rotates (which also injects the CA). `keep` calls `once` of
either until cancelled.

Concurrent replicas do no harm: a pass that gets a conflict (409) is repeated. A pass reads the configurations before the
Secret and patches them on condition of their resourceVersion, so a stale Secret never overwrites a newer bundle.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypedDict
from urllib.parse import urlsplit

import msgspec

from admission.serving.certificate_authority import (
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
from admission.serving.tls import Serving
from api.errors import ApiError, Conflict, NotFound
from api.kube.backoff import Backoff
from api.kube.client import Kube, PatchKind
from api.kube.clock import SYSTEM, Clock
from api.kube.resources import API_SERVICES, CRDS, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Resource
from api.names import CONVERT_PATH

log = logging.getLogger(__name__)
Configuration = tuple[Resource, dict[str, Any]]
_RETRY: Final = Backoff(0.2, 10.0)
_CRDS_EVERY: Final = 6
"""Number of passes between reads of the CRDs, which are large."""


class _CrdVersion(TypedDict):
    resourceVersion: str


class _CrdSpec(TypedDict, total=False):
    conversion: dict[str, Any] | None


class _Crd(TypedDict):
    """What is read of a CRD, whose schema may have a megabyte: that of a Kueue whose CRDs are installed."""

    metadata: _CrdVersion
    spec: _CrdSpec


_read_crd = msgspec.json.Decoder(_Crd).decode


class Certificates(Protocol):
    """A source of the serving certificate."""

    async def once(self) -> None:
        """Makes one pass, after which a certificate is loaded. Raises ApiError or OSError."""


@dataclass(frozen=True, slots=True)
class CertificateLocations:
    """Where the certificate and its CA are stored, and the names that it must cover."""

    namespace: str
    secret: str
    names: tuple[str, ...]
    mutating: str = ""
    """The name of the mutating webhook configuration; empty for none."""
    validating: str = ""
    """The name of the validating one."""
    crds: tuple[str, ...] = ()
    """The CustomResourceDefinitions whose conversion webhook is the Service."""
    service: str = ""
    api_services: tuple[str, ...] = ()
    """The APIServices that it serves."""


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Returns the DNS names of a Service; the API server uses the first."""
    full = f"{service}.{namespace}.svc"
    return full, f"{full}.cluster.local", f"{service}.{namespace}", service


class OwnCertificates:
    """Issues and rotates the certificate in a Secret. `wall` returns epoch seconds."""

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
        """Makes one pass: at most one step of the rotation. Raises ApiError or OSError."""
        configurations, services = await self._configurations(), await self._services()
        secret = await self._secret()
        state, now = from_secret(secret or {}), self._wall()
        configured = [bundle for _, one in configurations for bundle in _bundles(one)]
        configured += [_decoded(one["spec"].get("caBundle")) for one in services]
        step = plan(state, configured, self._place.names, now, self._lifetimes)
        if step is not RotationStep.KEEP:
            state = advance(state, step, self._place.names, now, self._lifetimes)
            await self._write(secret, state)
            log.info("serving certificate", extra={"step": step.value, "secret": self._place.secret})
        await self._publish(configurations, state)
        await self._publish_to_crds(state)
        await self._publish_to_services(services, state)
        if state.serving is not None:
            self._tls.load(state.serving)

    async def _configurations(self) -> list[Configuration]:
        named = ((MUTATING_WEBHOOKS, self._place.mutating), (VALIDATING_WEBHOOKS, self._place.validating))
        objects = [(resource, await self._found(resource, name)) for resource, name in named if name]
        return [(resource, one) for resource, one in objects if one is not None]

    async def _services(self) -> list[dict[str, Any]]:
        """Returns the APIServices that exist and name our Service: another may still belong to a Kueue."""
        services = [await self._found(API_SERVICES, name) for name in self._place.api_services]
        ours = {"name": self._place.service, "namespace": self._place.namespace}
        return [
            one for one in services if one is not None and ours.items() <= (one["spec"].get("service") or {}).items()
        ]

    async def _publish_to_services(self, services: list[dict[str, Any]], state: AuthorityState) -> None:
        for one in services:
            if split(_decoded(one["spec"].get("caBundle"))) == state.trust:
                continue
            # A CA and `insecureSkipTLSVerify`, which Kueue sets, exclude each other.
            spec = {"caBundle": base64.b64encode(state.bundle).decode(), "insecureSkipTLSVerify": None}
            body = {"metadata": {"resourceVersion": one["metadata"]["resourceVersion"]}, "spec": spec}
            await self._kube.patch(API_SERVICES, one["metadata"]["name"], body, kind=PatchKind.MERGE)

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
        """Writes the CAs into the CRDs when they change, and every `_CRDS_EVERY` passes in case the CRDs were applied again.

        A CRD that is missing or not writable does not stop the pass.
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
        try:
            crd = await self._kube.get(CRDS, name, decode=_read_crd)
        except NotFound:
            return
        client = ((crd["spec"].get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
        if not self._calls_us(client) or split(_decoded(client.get("caBundle"))) == state.trust:
            return
        bundle = base64.b64encode(state.bundle).decode()
        body = {
            "metadata": {"resourceVersion": crd["metadata"]["resourceVersion"]},
            "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}},
        }
        await self._kube.patch(CRDS, name, body, kind=PatchKind.MERGE)

    def _calls_us(self, client: dict[str, Any]) -> bool:
        """Reports whether a conversion webhook is this one and not, for example, that of a Kueue that owns the CRDs."""
        service = client.get("service") or {}
        ours = (self._place.service, self._place.namespace, CONVERT_PATH)
        by_service = (service.get("name"), service.get("namespace"), service.get("path")) == ours
        return by_service or urlsplit(client.get("url") or "").path == CONVERT_PATH


def _decoded(text: str | None) -> bytes:
    """Returns the decoded CA bundle; empty if absent or unreadable."""
    try:
        return base64.b64decode(text or "")
    except ValueError:
        return b""


def _bundles(configuration: dict[str, Any]) -> Iterator[bytes]:
    """Yields the CA bundle of each webhook; empty if absent or unreadable."""
    for hook in configuration.get("webhooks") or ():
        yield _decoded((hook.get("clientConfig") or {}).get("caBundle"))


def _trusting(hook: dict[str, Any], bundle: bytes) -> dict[str, Any]:
    trust = {"caBundle": base64.b64encode(bundle).decode()}
    return {**hook, "clientConfig": {**(hook.get("clientConfig") or {}), **trust}}


class MountedCertificates:
    """Loads `tls.crt` and `tls.key` from a folder that another program, such as cert-manager, maintains."""

    def __init__(self, folder: Path, tls: Serving) -> None:
        self._folder, self._tls = folder, tls

    async def once(self) -> None:
        """Loads the pair. Raises ssl.SSLError for a half-replaced pair, which the next pass loads whole."""
        self._tls.load(await asyncio.to_thread(self._read))

    def _read(self) -> ServingCertificate:
        return ServingCertificate((self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes())


async def keep(
    certificates: Certificates,
    *,
    interval: float = 10.0,
    loaded: Callable[[], None] = lambda: None,
    clock: Clock = SYSTEM,
) -> None:
    """Makes a pass every `interval` seconds until cancelled, sooner after a failure; calls `loaded` after each success."""
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
