"""Reads the parts of a support bundle from the API server. Writes nothing; reads no Secret.

Every part is bounded: objects of a kind, lines and bytes of a log, bytes of metrics. What cannot be read is noted and left out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from admission.support.redaction import redacted, text
from api.errors import NotFound, StowageError
from api.kube.client import Kube, name_kind
from api.kube.resources import (
    ALL,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)

_GROUPS: Final = ("stowage.dev", "kueue.x-k8s.io", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
EVERYWHERE: Final = (
    *(kind for kind in ALL if kind.group in _GROUPS),
    *(NODES, CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS),
)
"""Kinds of which all objects are in the bundle."""
OURS: Final = (DEPLOYMENTS, PODS, LEASES, EVENTS, CONFIG_MAPS, SERVICES)
"""Kinds of which only the objects in Stowage's namespace are."""
MOST: Final = 5_000
"""Objects of one kind."""
_PAGE: Final = 500
_LINES, _BYTES, _METRICS = 5_000, 2 * 1024 * 1024, 8 * 1024 * 1024
_MOST_PODS: Final = 20
_SELECTOR: Final = "app.kubernetes.io/name=stowage"
_PORT: Final = 8081

Part = tuple[str, bytes]
"""The name of a file in the archive, and its contents."""


class Collector:
    """Reads parts; `missing` says what could not be read, and why."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube, self._namespace = kube, namespace
        self.missing: dict[str, str] = {}

    async def objects(self) -> AsyncIterator[Part]:
        """Yields the objects of each kind, redacted, as one JSON list a kind."""
        for kind in (*EVERYWHERE, *OURS):
            name = f"objects/{kind.plural}.{kind.group or 'core'}.json"
            try:
                listed = await self._listed(kind, self._namespace if kind in OURS else None)
            except (StowageError, TimeoutError) as failed:
                self._note(name, failed)
                continue
            if listed:
                yield name, encoded(listed)

    async def _listed(self, kind: Resource, namespace: str | None) -> list[dict[str, Any]]:
        """Returns the objects of a kind; none if the kind is not served."""
        objects: list[dict[str, Any]] = []
        after: str | None = None
        while len(objects) < MOST:
            try:
                page = await self._kube.list_raw(kind, namespace, limit=_PAGE, continue_=after)
            except NotFound:
                break
            for raw in page.items:
                obj = msgspec.json.decode(raw)
                name_kind(kind, obj)
                objects.append(redacted(obj))
            if not (after := page.continue_):
                break
        else:
            self.missing[kind.plural] = f"more than {MOST} objects: the rest is left out"
        return objects

    async def processes(self) -> AsyncIterator[Part]:
        """Yields the logs and metrics of Stowage's pods."""
        try:
            page = await self._kube.list(PODS, self._namespace, label_selector=_SELECTOR, limit=_MOST_PODS)
        except (StowageError, TimeoutError) as failed:
            self._note("logs and metrics", failed)
            return
        for pod in page.items:
            name = str(pod["metadata"]["name"])
            for container in (pod.get("spec") or {}).get("containers") or ():
                async for part in self._logs(name, str(container.get("name"))):
                    yield part
            path = f"{self._path(name, f'http:{name}:{_PORT}')}/proxy/metrics"
            async for part in self._read(f"metrics/{name}.prom", path, _METRICS):
                yield part

    async def _logs(self, pod: str, container: str) -> AsyncIterator[Part]:
        query = f"container={quote(container, safe='')}&tailLines={_LINES}&limitBytes={_BYTES}&timestamps=true"
        async for part in self._read(f"logs/{pod}-{container}.log", f"{self._path(pod)}/log?{query}", _BYTES):
            yield part
        previous = f"{self._path(pod)}/log?{query}&previous=true"
        async for part in self._read(f"logs/{pod}-{container}-previous.log", previous, _BYTES, optional=True):
            yield part

    def _path(self, pod: str, named: str = "") -> str:
        return f"/api/v1/namespaces/{quote(self._namespace, safe='')}/pods/{quote(named or pod, safe=':')}"

    async def _read(self, name: str, path: str, most: int, *, optional: bool = False) -> AsyncIterator[Part]:
        """Yields a text, redacted; notes that it cannot be read unless it is optional."""
        try:
            content = await self._kube.get_path(path)
        except (StowageError, TimeoutError) as failed:
            if not optional:
                self._note(name, failed)
            return
        yield name, text(content[-most:].decode(errors="replace")).encode()

    def _note(self, name: str, failed: BaseException) -> None:
        self.missing[name] = text(" ".join(str(failed).split())) or type(failed).__name__


def encoded(document: Any) -> bytes:
    """Returns JSON for people."""
    return json.dumps(document, indent=1, sort_keys=True, default=str).encode()


def readme(version: str, parts: Mapping[str, int], missing: Mapping[str, str]) -> bytes:
    """Returns the page that says what the archive holds and what it lacks. `parts` maps names to sizes in bytes."""
    lines = [f"Support bundle of stowage {version}.", ""]
    lines += [
        "Values of variables, arguments, volumes, annotations of others, Secrets, tokens and CA bundles are taken out."
    ]
    lines += ["Names of objects, labels, images, and amounts are in it: read it before you send it.", "", "Files:"]
    lines += [f"  {name} ({size} bytes)" for name, size in sorted(parts.items())]
    lines += (
        ["", "Could not be read:", *(f"  {name}: {why}" for name, why in sorted(missing.items()))] if missing else []
    )
    return ("\n".join(lines) + "\n").encode()
