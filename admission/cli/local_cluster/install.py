"""Installs the manifests of config/ into an API server for a demo or a test, without kubectl, with webhooks by URL.

On a real cluster this is `kubectl apply -k config/default`. Here namespace, CRDs, Secrets, webhook configurations and the
ConfigMap for learned run times are created from the files, with each webhook's Service replaced by the process's address.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from api.errors import AlreadyExists
from api.kube.client import Kube
from api.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from api.text.manifests import read

_PACKAGE = Path(__file__).resolve().parents[2]
CONFIG = next(folder for folder in (_PACKAGE / "config", _PACKAGE.parent / "config") if folder.is_dir())
"""The manifests: part of the wheel, or in the repository."""

_RESOURCES: dict[str, Resource] = {
    resource.kind: resource
    for resource in (NAMESPACES, CRDS, SECRETS, CONFIG_MAPS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
}
_FOLDERS = ("namespace", "crd", "selfsigned", "rbac", "webhook")


def manifests(config: Path = CONFIG) -> Iterator[dict[str, Any]]:
    """Yields the objects to install, in order; new ones at each call."""
    yield from msgspec.json.decode(_as_json(config))


@functools.cache  # tests install hundreds of times in one process, and to read the YAML takes longer than the rest of it
def _as_json(config: Path) -> bytes:
    paths = [path for folder in _FOLDERS for path in sorted((config / folder).glob("*.yaml"))]
    return msgspec.json.encode([obj for path in paths for obj in read(path) if obj.get("kind") in _RESOURCES])


async def install(kube: Kube, webhook_url: str, config: Path = CONFIG) -> None:
    """Creates the objects that do not exist. `webhook_url` is the webhook's base URL."""
    for obj in manifests(config):
        resource = _RESOURCES[obj["kind"]]
        if resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            obj = {**obj, "webhooks": [by_url(hook, webhook_url) for hook in obj["webhooks"]]}
        if resource is CRDS and "conversion" in obj["spec"]:
            webhook = by_url(obj["spec"]["conversion"]["webhook"], webhook_url)
            obj = {**obj, "spec": {**obj["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}
        try:
            await kube.create(resource, obj)
        except AlreadyExists:
            continue


def by_url(hook: dict[str, Any], base: str) -> dict[str, Any]:
    """Returns the webhook with a URL made of `base` and its path, in place of its Service."""
    client = dict(hook["clientConfig"])
    service = client.pop("service", None)
    path = service["path"] if service else "/" + client["url"].split("/", 3)[3]
    return {**hook, "clientConfig": {**client, "url": f"{base}{path}"}}
